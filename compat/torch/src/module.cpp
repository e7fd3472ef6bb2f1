/*
 * module: what pleat_torch/__init__.py calls. Errors become Python's: ValueError for a wrong
 * configuration, RuntimeError for the rest.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "backend.h"

#include <cstring>

#include <torch/headeronly/version.h>

#if TORCH_VERSION_MAJOR != 2 || TORCH_VERSION_MINOR != 11
#error "pleat_torch is for PyTorch 2.11: the interface of allocators differs in other versions"
#endif

namespace {

using c10::cuda::CUDACachingAllocator::CUDAAllocator;
using pleat_torch::Backend;

bool is_installed = false;

/* Run `body`; NULL with Python's error set if it throws. */
template <typename Body> PyObject *guarded(Body body)
{
    try {
        return body();
    } catch (const c10::ValueError &error) {
        PyErr_SetString(PyExc_ValueError, error.what_without_backtrace());
    } catch (const c10::Error &error) {
        PyErr_SetString(PyExc_RuntimeError, error.what_without_backtrace());
    } catch (const std::exception &error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
    }
    return nullptr;
}

/* ---- install ---- */

void check_can_install(CUDAAllocator *current)
{
    TORCH_CHECK(current != nullptr, "this PyTorch has no CUDA allocator; pleat_torch needs a build "
                                    "with CUDA");
    TORCH_CHECK(current->name() == "native", "PyTorch uses the allocator '", current->name(),
                "'; pleat_torch takes the place of the native one only: remove backend:",
                current->name(), " or the plug-in");
    TORCH_CHECK(!current->initialized(), "pleat_torch.install() is too late: CUDA is initialised "
                                         "already, and memory may be in use. Call it before the "
                                         "first use of torch.cuda, directly after the imports");
}

PyObject *module_install(PyObject *, PyObject *args)
{
    const char *mode = nullptr;
    const char *conf = nullptr;
    if (!PyArg_ParseTuple(args, "zz", &mode, &conf)) {
        return nullptr;
    }
    return guarded([&]() -> PyObject * {
        check_can_install(c10::cuda::CUDACachingAllocator::get());
        Backend &backend = Backend::get();
        backend.config.start(mode, conf);
        c10::SetAllocator(c10::DeviceType::CUDA, &backend);
        c10::cuda::CUDACachingAllocator::allocator.store(&backend);
        is_installed = true;
        Py_RETURN_NONE;
    });
}

PyObject *module_is_installed(PyObject *, PyObject *)
{
    const bool is_current =
        is_installed && c10::cuda::CUDACachingAllocator::get() == &Backend::get();
    return PyBool_FromLong(is_current);
}

/* ---- options ---- */

PyObject *module_mode(PyObject *, PyObject *)
{
    return guarded([]() -> PyObject * {
        return PyUnicode_FromString(Backend::get().config.mode_name().c_str());
    });
}

PyObject *module_set_options(PyObject *, PyObject *args)
{
    const char *text = nullptr;
    if (!PyArg_ParseTuple(args, "s", &text)) {
        return nullptr;
    }
    return guarded([&]() -> PyObject * {
        Backend::get().set_options(text);
        Py_RETURN_NONE;
    });
}

PyObject *module_take_warnings(PyObject *, PyObject *)
{
    return guarded([]() -> PyObject * {
        PyObject *list = PyList_New(0);
        for (const std::string &warning : Backend::get().config.take_warnings()) {
            PyObject *text = PyUnicode_FromString(warning.c_str());
            if (list == nullptr || text == nullptr || PyList_Append(list, text) != 0) {
                Py_XDECREF(text);
                Py_XDECREF(list);
                return nullptr;
            }
            Py_DECREF(text);
        }
        return list;
    });
}

/* (key, value, source, is default, in effect, help) of an option; Python's error is set if NULL. */
PyObject *describe(const pleat_conf_t &conf, int option)
{
    pleat_conf_description_t description = PLEAT_CONF_DESCRIPTION_INIT;
    pleat_torch::check(
        pleat_conf_describe(&conf, static_cast<pleat_conf_option_t>(option), &description));
    /* PyTorch's pinned memory acts on what Pleat itself only keeps. */
    const bool acts = description.in_effect || std::strncmp(description.key, "pinned_", 7) == 0;
    return Py_BuildValue("(sssNNs)", description.key, description.value, description.source,
                         PyBool_FromLong(description.is_default), PyBool_FromLong(acts),
                         description.help);
}

PyObject *module_conf(PyObject *, PyObject *)
{
    return guarded([]() -> PyObject * {
        const pleat_conf_t conf = Backend::get().config.read();
        PyObject *list = PyList_New(0);
        for (int option = 0; list != nullptr && option < PLEAT_CONF_OPTION_COUNT; option++) {
            PyObject *row = describe(conf, option);
            if (row == nullptr || PyList_Append(list, row) != 0) {
                Py_CLEAR(list);
            }
            Py_XDECREF(row);
        }
        return list;
    });
}

/* ---- counters ---- */

bool add_number(PyObject *dict, const char *name, long long value)
{
    PyObject *number = PyLong_FromLongLong(value);
    const bool is_added = number != nullptr && PyDict_SetItemString(dict, name, number) == 0;
    Py_XDECREF(number);
    return is_added;
}

PyObject *module_stats(PyObject *, PyObject *args)
{
    int index = 0;
    if (!PyArg_ParseTuple(args, "i", &index)) {
        return nullptr;
    }
    return guarded([&]() -> PyObject * {
        TORCH_CHECK_VALUE(0 <= index && index < pleat_torch::kMostDevices, "no device ", index);
        pleat_stats_t stats = PLEAT_STATS_INIT;
        pleat_torch::Device *device = Backend::get().find(static_cast<c10::DeviceIndex>(index));
        if (device != nullptr) {
            pleat_read_stats(device->allocator, &stats);
        }
        PyObject *dict = PyDict_New();
#define ADD_OWN(name, text)                                                 \
    if (dict != nullptr && !add_number(dict, "pleat." #name, stats.name)) { \
        Py_CLEAR(dict);                                                     \
    }
        PLEAT_OWN_STAT_LIST(ADD_OWN)
#undef ADD_OWN
        return dict;
    });
}

PyObject *module_check(PyObject *, PyObject *args)
{
    int index = 0;
    if (!PyArg_ParseTuple(args, "i", &index)) {
        return nullptr;
    }
    return guarded([&]() -> PyObject * {
        TORCH_CHECK_VALUE(0 <= index && index < pleat_torch::kMostDevices, "no device ", index);
        pleat_torch::Device *device = Backend::get().find(static_cast<c10::DeviceIndex>(index));
        if (device != nullptr) {
            pleat_torch::check(pleat_allocator_check(device->allocator));
        }
        Py_RETURN_NONE;
    });
}

PyMethodDef methods[] = {
    {"install", module_install, METH_VARARGS, "install(mode, conf)"},
    {"is_installed", module_is_installed, METH_NOARGS, "is_installed() -> bool"},
    {"mode", module_mode, METH_NOARGS, "mode() -> str"},
    {"set_options", module_set_options, METH_VARARGS, "set_options(text)"},
    {"take_warnings", module_take_warnings, METH_NOARGS, "take_warnings() -> list of str"},
    {"conf", module_conf, METH_NOARGS, "conf() -> list of rows"},
    {"stats", module_stats, METH_VARARGS, "stats(device) -> dict"},
    {"check", module_check, METH_VARARGS, "check(device)"},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    "pleat_torch._C",
    nullptr,
    -1,
    methods,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
};

} // namespace

PyMODINIT_FUNC PyInit__C()
{
    PyObject *created = PyModule_Create(&module);
    if (created != nullptr &&
        (PyModule_AddStringConstant(created, "torch_version", TORCH_VERSION) != 0 ||
         PyModule_AddStringConstant(created, "version", pleat_version()) != 0)) {
        Py_CLEAR(created);
    }
    return created;
}
