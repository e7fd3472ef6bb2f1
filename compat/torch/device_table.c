/*
 * device_table: see pleat/device_table.h. A fixed table; an allocator that stands in it is found
 * without the lock.
 *
 * Invariants:
 *   T1  A slot's vmm is set before its allocator and taken away after it.
 *   T2  is_read holds while any allocator exists.
 *   T3  Nothing here runs when the process ends: the driver may be gone by then.
 * Guarded by the table's lock, but for the loads of a slot's allocator.
 */
#include <pleat/device_table.h>

#include "core/lock.h"

#include <pleat/cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct device_slot {
    _Atomic(pleat_allocator_t *) allocator; /* NULL: not made */
    pleat_vmm_t *vmm;
    uint64_t total_bytes;
    bool has_fraction; /* set by a call: it holds instead of the configuration's */
    double fraction;
} device_slot_t;

static struct {
    pleat_lock_t lock;
    bool is_watching_forks;
    bool is_child; /* of a process that used the table */
    bool is_read;  /* the configuration was read, well or not */
    pleat_status_t conf_status;
    char conf_error[PLEAT_CONF_MESSAGE_BYTES];
    pleat_conf_t conf;
    pleat_device_table_options_t options; /* driver is owned, conf unused */
    device_slot_t slots[PLEAT_DEVICE_TABLE_COUNT];
} table;

/* ---- fork ---- */

static void table_before_fork(void)
{
    pleat_lock_acquire(&table.lock);
}

static void table_after_fork(void)
{
    pleat_lock_release(&table.lock);
}

/* The allocators are left where they are: their locks may be held by threads that do not exist. */
static void table_after_fork_in_child(void)
{
    for (int i = 0; i < PLEAT_DEVICE_TABLE_COUNT; i++) {
        if (atomic_load(&table.slots[i].allocator) != NULL) {
            atomic_store(&table.slots[i].allocator, NULL);
            table.slots[i].vmm = NULL;
            table.is_child = true;
        }
    }
    pleat_lock_release(&table.lock);
}

static pleat_status_t table_watch_forks(void)
{
    if (!table.is_watching_forks) {
        if (pthread_atfork(table_before_fork, table_after_fork, table_after_fork_in_child) != 0) {
            pleat_error_set("no host memory for the handlers of fork");
            return PLEAT_ERR_OOM_HOST;
        }
        table.is_watching_forks = true;
    }
    return PLEAT_OK;
}

/* ---- configuration ---- */

static void table_tell(const char *line)
{
    if (table.options.notice != NULL) {
        table.options.notice(table.options.notice_context, line);
        return;
    }
    (void)fprintf(stderr, "pleat: %s\n", line);
}

static void table_tell_conf(const pleat_conf_t *conf, const pleat_conf_report_t *report)
{
    char notice[PLEAT_CONF_MESSAGE_BYTES];
    for (size_t i = 0; i < report->warning_count; i++) {
        table_tell(report->warnings[i]);
    }
    if (pleat_conf_notice(conf, notice, sizeof notice) > 0) {
        table_tell(notice);
    }
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    if (pleat_conf_apply_runtime(conf, &options) == PLEAT_OK &&
        pleat_conf_mode_notice(conf, options.mode, notice, sizeof notice) > 0) {
        table_tell(notice);
    }
}

/* A text in PyTorch's own variable that only PyTorch accepts means what PyTorch takes it for. */
static pleat_status_t table_read_environment(pleat_conf_t *conf, pleat_conf_report_t *report)
{
    pleat_status_t status =
        pleat_conf_read_variables(conf, PLEAT_CONF_STRICT, pleat_conf_environment, NULL, report);
    if (status != PLEAT_ERR_INVALID || report->source == PLEAT_CONF_SOURCE_PLEAT_ALLOC_CONF) {
        return status;
    }
    pleat_conf_report_t torch_report = PLEAT_CONF_REPORT_INIT;
    const pleat_status_t as_torch = pleat_conf_read_variables(
        conf, PLEAT_CONF_TORCH, pleat_conf_environment, NULL, &torch_report);
    if (as_torch == PLEAT_ERR_OOM_HOST) {
        return as_torch;
    }
    if (as_torch != PLEAT_OK) {
        pleat_error_set("%s", report->message);
        return status;
    }
    char line[PLEAT_CONF_MESSAGE_BYTES + 64];
    (void)snprintf(line, sizeof line, "read as PyTorch reads it, although: %s", report->message);
    table_tell(line);
    *report = torch_report;
    return PLEAT_OK;
}

/* Read a configuration: `text`, or the environment's if that is NULL. */
static pleat_status_t table_parse(const char *text, pleat_conf_t *conf)
{
    pleat_conf_report_t report = PLEAT_CONF_REPORT_INIT;
    const pleat_status_t status =
        text != NULL ? pleat_conf_read_start(conf, PLEAT_CONF_STRICT, text, &report)
                     : table_read_environment(conf, &report);
    if (status == PLEAT_OK) {
        table_tell_conf(conf, &report);
    }
    return status;
}

/* Read the environment, the first time; a refused text is refused again without reading. */
static pleat_status_t table_prepare(void)
{
    if (table.is_child) {
        pleat_error_set("this process was forked from one that used the GPU, and CUDA cannot work "
                        "in it; start it anew (in Python: multiprocessing with 'spawn')");
        return PLEAT_ERR_UNSUPPORTED;
    }
    if (!table.is_read) {
        table.conf = (pleat_conf_t)PLEAT_CONF_INIT;
        table.conf_status = table_parse(NULL, &table.conf);
        if (table.conf_status == PLEAT_ERR_OOM_HOST) {
            return PLEAT_ERR_OOM_HOST;
        }
        (void)snprintf(table.conf_error, sizeof table.conf_error, "%s", pleat_last_error());
        table.is_read = true;
    }
    if (table.conf_status != PLEAT_OK) {
        pleat_error_set("%s", table.conf_error);
    }
    return table.conf_status;
}

static bool table_is_used(void)
{
    for (int i = 0; i < PLEAT_DEVICE_TABLE_COUNT; i++) {
        if (pleat_device_table_find(i) != NULL) {
            return true;
        }
    }
    return false;
}

static pleat_status_t table_configure(const pleat_device_table_options_t *chosen)
{
    if (table_is_used()) {
        pleat_error_set("device_table_configure: an allocator exists already; configure before the "
                        "first allocation");
        return PLEAT_ERR_INVALID;
    }
    const size_t driver_bytes = chosen->driver == NULL ? 0 : strlen(chosen->driver) + 1;
    char *driver = driver_bytes == 0 ? NULL : malloc(driver_bytes);
    if (driver_bytes != 0) {
        if (driver == NULL) {
            pleat_error_set("no host memory for the name of the driver");
            return PLEAT_ERR_OOM_HOST;
        }
        memcpy(driver, chosen->driver, driver_bytes);
    }
    const pleat_device_table_options_t old = table.options;
    table.options = *chosen; /* reading may tell something */
    pleat_conf_t conf = PLEAT_CONF_INIT;
    const pleat_status_t status = table_parse(chosen->conf, &conf);
    if (status != PLEAT_OK) {
        table.options = old;
        free(driver);
        return status;
    }
    free((char *)old.driver);
    table.options.driver = driver;
    table.options.conf = NULL;
    table.conf = conf;
    table.conf_status = PLEAT_OK;
    table.is_read = true;
    return PLEAT_OK;
}

pleat_status_t pleat_device_table_configure(const pleat_device_table_options_t *options)
{
    pleat_device_table_options_t chosen = PLEAT_DEVICE_TABLE_OPTIONS_INIT;
    if (options != NULL) {
        if (options->size < sizeof options->size) {
            pleat_error_set("device table options: size is %zu (set it with "
                            "PLEAT_DEVICE_TABLE_OPTIONS_INIT)",
                            options->size);
            return PLEAT_ERR_INVALID;
        }
        memcpy(&chosen, options, options->size < sizeof chosen ? options->size : sizeof chosen);
        chosen.size = sizeof chosen;
    }
    pleat_lock_acquire(&table.lock);
    const pleat_status_t status = table_configure(&chosen);
    pleat_lock_release(&table.lock);
    return status;
}

/* Give an allocator the options of a configuration; `old_out` takes those that it had. */
static pleat_status_t slot_apply(int device_index, const pleat_conf_t *conf,
                                 pleat_options_t *old_out)
{
    pleat_allocator_t *allocator = pleat_device_table_find(device_index);
    *old_out = (pleat_options_t)PLEAT_OPTIONS_INIT;
    if (allocator == NULL) {
        return PLEAT_OK;
    }
    pleat_read_options(allocator, old_out);
    pleat_options_t options = *old_out;
    const pleat_status_t status = pleat_conf_apply_runtime(conf, &options);
    return status == PLEAT_OK ? pleat_set_options(allocator, &options) : status;
}

static void slot_restore(int device_index, const pleat_options_t *old)
{
    pleat_allocator_t *allocator = pleat_device_table_find(device_index);
    if (allocator != NULL) {
        const pleat_status_t status = pleat_set_options(allocator, old);
        PLEAT_ASSERT(status == PLEAT_OK); /* they held a moment ago */
    }
}

/* Give every allocator the options of a configuration; on failure those before get theirs back. */
static pleat_status_t table_apply(const pleat_conf_t *conf)
{
    pleat_options_t old[PLEAT_DEVICE_TABLE_COUNT];
    for (int i = 0; i < PLEAT_DEVICE_TABLE_COUNT; i++) {
        const pleat_status_t status = slot_apply(i, conf, &old[i]);
        if (status != PLEAT_OK) {
            while (--i >= 0) {
                slot_restore(i, &old[i]);
            }
            return status;
        }
    }
    return PLEAT_OK;
}

pleat_status_t pleat_device_table_reconfigure(pleat_conf_reading_t reading, const char *text,
                                              pleat_conf_report_t *report)
{
    pleat_lock_acquire(&table.lock);
    pleat_status_t status = table_prepare();
    if (status == PLEAT_OK) {
        pleat_conf_t conf = table.conf;
        status = pleat_conf_read(&conf, reading, text, report);
        const bool is_kept = reading == PLEAT_CONF_TORCH && status == PLEAT_ERR_INVALID;
        if (status == PLEAT_OK || is_kept) {
            const pleat_status_t applied = table_apply(&conf);
            table.conf = applied == PLEAT_OK ? conf : table.conf;
            status = applied == PLEAT_OK ? status : applied;
        }
    }
    pleat_lock_release(&table.lock);
    return status;
}

pleat_status_t pleat_device_table_read_conf(pleat_conf_t *conf_out)
{
    if (conf_out == NULL || conf_out->size < sizeof conf_out->size) {
        pleat_error_set("device_table_read_conf: conf_out is NULL or was not set up with "
                        "PLEAT_CONF_INIT");
        return PLEAT_ERR_INVALID;
    }
    pleat_lock_acquire(&table.lock);
    const pleat_status_t status = table_prepare();
    if (status == PLEAT_OK) {
        const size_t size = conf_out->size;
        memcpy(conf_out, &table.conf, size < sizeof table.conf ? size : sizeof table.conf);
        conf_out->size = size;
    }
    pleat_lock_release(&table.lock);
    return status;
}

/* ---- allocators ---- */

static bool slot_exists(int device_index)
{
    return device_index >= 0 && device_index < PLEAT_DEVICE_TABLE_COUNT;
}

static pleat_status_t slot_check_index(int device_index)
{
    if (!slot_exists(device_index)) {
        pleat_error_set("device %d: indices go from 0 to %d", device_index,
                        PLEAT_DEVICE_TABLE_COUNT - 1);
        return PLEAT_ERR_INVALID;
    }
    return PLEAT_OK;
}

/* The limit that a fraction means, by the rules of the configuration. */
static pleat_status_t slot_limit(const device_slot_t *slot, uint64_t *limit_bytes_out)
{
    pleat_conf_t conf = table.conf;
    if (slot->has_fraction) {
        conf.settings[PLEAT_CONF_PER_PROCESS_MEMORY_FRACTION].real = slot->fraction;
    }
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    const pleat_status_t status = pleat_conf_apply(&conf, slot->total_bytes, &options);
    *limit_bytes_out = options.limit_bytes;
    return status;
}

static pleat_status_t slot_make_allocator(device_slot_t *slot, pleat_vmm_t *vmm)
{
    uint64_t free_bytes = 0;
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    pleat_status_t status = pleat_vmm_mem_info(vmm, &free_bytes, &slot->total_bytes);
    if (status == PLEAT_OK) {
        status = pleat_conf_apply_runtime(&table.conf, &options);
    }
    if (status == PLEAT_OK) {
        status = slot_limit(slot, &options.limit_bytes);
    }
    pleat_allocator_t *allocator = NULL;
    if (status == PLEAT_OK) {
        status = pleat_allocator_create(&options, vmm, &allocator);
    }
    if (status == PLEAT_OK) {
        slot->vmm = vmm;
        atomic_store_explicit(&slot->allocator, allocator, memory_order_release); /* T1 */
    }
    return status;
}

static pleat_status_t slot_make(int device_index)
{
    pleat_status_t status = table_prepare();
    if (status == PLEAT_OK) {
        status = table_watch_forks();
    }
    if (status != PLEAT_OK || pleat_device_table_find(device_index) != NULL) {
        return status;
    }
    pleat_cuda_options_t cuda = PLEAT_CUDA_OPTIONS_INIT;
    cuda.driver = table.options.driver;
    cuda.handle_types = table.options.handle_types;
    pleat_vmm_t *vmm = NULL;
    status = pleat_cuda_create(device_index, &cuda, &vmm);
    if (status != PLEAT_OK) {
        return status;
    }
    status = slot_make_allocator(&table.slots[device_index], vmm);
    if (status != PLEAT_OK) {
        pleat_vmm_destroy(vmm);
    }
    return status;
}

pleat_allocator_t *pleat_device_table_find(int device_index)
{
    return slot_exists(device_index)
               ? atomic_load_explicit(&table.slots[device_index].allocator, memory_order_acquire)
               : NULL;
}

pleat_status_t pleat_device_table_get(int device_index, pleat_allocator_t **allocator_out)
{
    if (allocator_out == NULL) {
        pleat_error_set("device_table_get: allocator_out is NULL");
        return PLEAT_ERR_INVALID;
    }
    pleat_allocator_t *allocator = pleat_device_table_find(device_index);
    if (allocator == NULL) {
        pleat_status_t status = slot_check_index(device_index);
        if (status != PLEAT_OK) {
            return status;
        }
        pleat_lock_acquire(&table.lock);
        status = slot_make(device_index);
        pleat_lock_release(&table.lock);
        if (status != PLEAT_OK) {
            return status;
        }
        allocator = pleat_device_table_find(device_index);
    }
    *allocator_out = allocator;
    return PLEAT_OK;
}

pleat_vmm_t *pleat_device_table_vmm(int device_index)
{
    return pleat_device_table_find(device_index) == NULL ? NULL : table.slots[device_index].vmm;
}

static pleat_status_t slot_set_fraction(int device_index, double fraction)
{
    const pleat_status_t prepared = table_prepare();
    pleat_allocator_t *allocator = pleat_device_table_find(device_index);
    device_slot_t *slot = &table.slots[device_index];
    if (prepared == PLEAT_OK) {
        slot->has_fraction = true;
        slot->fraction = fraction;
    }
    if (prepared != PLEAT_OK || allocator == NULL) {
        return prepared;
    }
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    pleat_read_options(allocator, &options);
    const pleat_status_t status = slot_limit(slot, &options.limit_bytes);
    return status == PLEAT_OK ? pleat_set_options(allocator, &options) : status;
}

pleat_status_t pleat_device_table_set_fraction(int device_index, double fraction)
{
    pleat_status_t status = slot_check_index(device_index);
    if (status != PLEAT_OK) {
        return status;
    }
    if (!(fraction >= 0.0 && fraction <= 1.0)) {
        pleat_error_set("memory fraction %g of device %d; allowed is 0 to 1", fraction,
                        device_index);
        return PLEAT_ERR_INVALID;
    }
    pleat_lock_acquire(&table.lock);
    status = slot_set_fraction(device_index, fraction);
    pleat_lock_release(&table.lock);
    return status;
}

double pleat_device_table_fraction(int device_index)
{
    double fraction = 1.0;
    pleat_lock_acquire(&table.lock);
    pleat_allocator_t *allocator = pleat_device_table_find(device_index);
    if (allocator != NULL) {
        pleat_options_t options = PLEAT_OPTIONS_INIT;
        pleat_read_options(allocator, &options);
        if (options.limit_bytes != PLEAT_NO_LIMIT) {
            fraction = (double)options.limit_bytes / (double)table.slots[device_index].total_bytes;
        }
    }
    pleat_lock_release(&table.lock);
    return fraction;
}

pleat_status_t pleat_device_table_empty_cache(void)
{
    pleat_status_t first = PLEAT_OK;
    for (int i = 0; i < PLEAT_DEVICE_TABLE_COUNT; i++) {
        pleat_allocator_t *allocator = pleat_device_table_find(i);
        if (allocator != NULL) {
            const pleat_status_t status = pleat_empty_cache(allocator);
            first = first == PLEAT_OK ? status : first;
        }
    }
    return first;
}

void pleat_device_table_close(void)
{
    pleat_lock_acquire(&table.lock);
    for (int i = 0; i < PLEAT_DEVICE_TABLE_COUNT; i++) {
        device_slot_t *slot = &table.slots[i];
        pleat_allocator_destroy(atomic_exchange(&slot->allocator, NULL));
        pleat_vmm_destroy(slot->vmm);
        slot->vmm = NULL;
        slot->has_fraction = false;
    }
    free((char *)table.options.driver);
    table.options = (pleat_device_table_options_t)PLEAT_DEVICE_TABLE_OPTIONS_INIT;
    table.is_read = false;
    pleat_lock_release(&table.lock);
}
