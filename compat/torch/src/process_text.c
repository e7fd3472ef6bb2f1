/*
 * process_text: asks NVIDIA's management library. Its declarations are written out here, so that
 * nothing of it is needed to build. The library stays open.
 */
#include "process_text.h"

#include <dlfcn.h>
#include <pleat/oom_message.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define MOST_PROCESSES 128

typedef struct nvml_device *nvml_device_t;

typedef struct nvml_process {
    unsigned pid;
    unsigned long long used_bytes; /* all ones: not known */
    unsigned gpu_instance;
    unsigned compute_instance;
} nvml_process_t;

typedef int (*nvml_init_fn_t)(void);
typedef int (*nvml_find_fn_t)(const char *bus, nvml_device_t *device_out);
typedef int (*nvml_list_fn_t)(nvml_device_t device, unsigned *count, nvml_process_t *processes);

static struct {
    nvml_find_fn_t find;
    nvml_list_fn_t list; /* NULL: not to be had */
} nvml;
static pthread_once_t nvml_once = PTHREAD_ONCE_INIT;

static void nvml_open(void)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        return;
    }
    /* The way of POSIX from an object pointer to a function. */
    nvml_init_fn_t init = NULL;
    nvml_list_fn_t list = NULL;
    *(void **)&init = dlsym(library, "nvmlInit_v2");
    *(void **)&nvml.find = dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2");
    *(void **)&list = dlsym(library, "nvmlDeviceGetComputeRunningProcesses_v3");
    if (init != NULL && nvml.find != NULL && list != NULL && init() == 0) {
        nvml.list = list;
    }
}

/* Append one sentence; returns the new length. */
static size_t append_process(const nvml_process_t *process, char *buffer, size_t length,
                             size_t buffer_bytes)
{
    char size[PLEAT_OOM_MESSAGE_BYTES];
    pleat_format_bytes(process->used_bytes, size, sizeof size);
    const int added =
        process->pid == (unsigned)getpid()
            ? snprintf(buffer + length, buffer_bytes - length,
                       "Including non-PyTorch memory, this process has %s memory in use. ", size)
            : snprintf(buffer + length, buffer_bytes - length, "Process %u has %s memory in use. ",
                       process->pid, size);
    return added > 0 && (size_t)added < buffer_bytes - length ? length + (size_t)added
                                                              : buffer_bytes;
}

void pleat_process_text(const char *bus, char *buffer, size_t buffer_bytes)
{
    if (buffer_bytes == 0) {
        return;
    }
    buffer[0] = '\0';
    pthread_once(&nvml_once, nvml_open);
    nvml_device_t device = NULL;
    nvml_process_t processes[MOST_PROCESSES];
    unsigned count = MOST_PROCESSES;
    if (nvml.list == NULL || nvml.find(bus, &device) != 0 ||
        nvml.list(device, &count, processes) != 0) {
        return;
    }
    size_t length = 0;
    for (unsigned i = 0; i < count && i < MOST_PROCESSES && length < buffer_bytes; i++) {
        if (processes[i].used_bytes != ~0ULL) {
            length = append_process(&processes[i], buffer, length, buffer_bytes);
        }
    }
}
