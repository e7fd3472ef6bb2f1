/*
 * session_check: performs the calls of a session and lets session_compare look at each.
 */
#include "device_step.h"
#include "session_place.h"
#include "session_pool.h"

#include <pleat/memory_stats.h>
#include <pleat/oom_message.h>
#include <pleat/private_pool.h>
#include <pleat/sim.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/allocator.h"
#include "../../vmm/scripted.h"

void pleat_session_run_differ(pleat_session_run_t *run, const pleat_session_call_t *call,
                              const char *what, const char *expected, const char *got)
{
    pleat_session_run_differ_at(run, call, call->line, what, expected, got);
}

void pleat_session_run_differ_at(pleat_session_run_t *run, const pleat_session_call_t *call,
                                 uint64_t line, const char *what, const char *expected,
                                 const char *got)
{
    pleat_session_check_t *check = run->check;
    if (check->difference_count < check->difference_capacity) {
        pleat_session_difference_t *difference = &check->differences[check->difference_count];
        difference->line = line;
        difference->call = call == NULL ? "end" : pleat_session_call_word(call->kind);
        (void)snprintf(difference->what, sizeof(difference->what), "%s", what);
        (void)snprintf(difference->expected, sizeof(difference->expected), "%s", expected);
        (void)snprintf(difference->got, sizeof(difference->got), "%s", got);
    }
    check->difference_count++;
}

/* ---- what the engine does in a call ---- */

static void run_observe(void *context, const pleat_trace_entry_t *entry)
{
    pleat_session_run_t *run = context;
    if (entry->action == PLEAT_ACTION_ALLOC || entry->action == PLEAT_ACTION_FREE_REQUESTED ||
        entry->action == PLEAT_ACTION_OOM) {
        return;
    }
    if (run->event_count == run->event_capacity) {
        const size_t capacity = run->event_capacity == 0 ? 64 : run->event_capacity * 2;
        pleat_session_event_t *events = realloc(run->events, capacity * sizeof(*events));
        if (events == NULL) {
            run->has_lost_events = true;
            return;
        }
        run->events = events;
        run->event_capacity = capacity;
    }
    run->events[run->event_count++] = (pleat_session_event_t){.address = entry->address,
                                                              .bytes = entry->bytes,
                                                              .stream = entry->stream,
                                                              .action = entry->action};
}

/* Tell the scripted device how it answered in this call. */
static pleat_status_t run_expect_script(pleat_session_run_t *run, const pleat_session_call_t *call)
{
    pleat_script_step_t *steps = calloc((size_t)call->events.count + 1, sizeof(*steps));
    if (steps == NULL) {
        return PLEAT_ERR_OOM_HOST;
    }
    size_t count = 0;
    for (uint32_t i = 0; i < call->events.count; i++) {
        const pleat_session_event_t *event = &run->session->events[call->events.first + i];
        const pleat_vmm_call_t device_call = pleat_device_step(event->action);
        if (device_call != PLEAT_VMM_CALL_COUNT) {
            steps[count++] = (pleat_script_step_t){
                .call = device_call, .address = event->address, .bytes = event->bytes};
        }
    }
    const pleat_status_t status = pleat_scripted_expect(run->vmm, steps, count);
    free(steps);
    return status;
}

/* Tell the device where a range begins that this call makes without mapping anything. */
static pleat_status_t run_place_range(pleat_session_run_t *run, const pleat_session_call_t *call)
{
    return pleat_scripted_place_range(run->vmm, run->places[call - run->session->calls]);
}

/* Let the engine visit its queues as the recording shows it. */
static pleat_status_t run_fit_order(pleat_session_run_t *run, const pleat_session_call_t *call)
{
    pleat_devptr_t *addresses = calloc((size_t)call->events.count + 1, sizeof(*addresses));
    if (addresses == NULL) {
        return PLEAT_ERR_OOM_HOST;
    }
    size_t count = 0;
    for (uint32_t i = 0; i < call->events.count; i++) {
        const pleat_session_event_t *event = &run->session->events[call->events.first + i];
        if (event->action == PLEAT_ACTION_FREE_COMPLETED) {
            addresses[count++] = event->address;
        }
    }
    const bool has_poll = call->kind != PLEAT_SESSION_EMPTY;
    const pleat_status_t status =
        pleat_queue_order_fit(run->order, run->allocator, addresses, count, has_poll);
    free(addresses);
    return status;
}

static pleat_status_t run_prepare(pleat_session_run_t *run, const pleat_session_call_t *call)
{
    run->event_count = 0;
    run->error[0] = '\0';
    run->status = PLEAT_OK;
    pleat_status_t status = pleat_session_pool_prepare(run, call);
    if (status != PLEAT_OK || !run->session->is_recording) {
        return status;
    }
    status = run_expect_script(run, call);
    if (status == PLEAT_OK) {
        status = run_place_range(run, call);
    }
    const bool looks_at_queues = call->kind == PLEAT_SESSION_ALLOC ||
                                 call->kind == PLEAT_SESSION_OOM ||
                                 call->kind == PLEAT_SESSION_EMPTY;
    if (status == PLEAT_OK && looks_at_queues && !pleat_pool_is_redirecting(run->allocator)) {
        status = run_fit_order(run, call);
    }
    return status;
}

/* ---- the calls ---- */

/* Keep the message of a failed call in the words that PyTorch's users know. */
static void run_keep_error(pleat_session_run_t *run, const pleat_session_call_t *call)
{
    const char *caller = call->kind == PLEAT_SESSION_POOL_BEGIN ? "beginAllocateToPool: "
                         : call->kind == PLEAT_SESSION_POOL_END ? "endAllocatePool: "
                                                                : "";
    if (run->status == PLEAT_ERR_OOM_DEVICE) {
        pleat_oom_info_t info = PLEAT_OOM_INFO_INIT;
        pleat_read_last_oom(run->allocator, &info);
        (void)pleat_oom_message(&info, 0, NULL, run->error, sizeof(run->error));
    } else if (run->status == PLEAT_ERR_TOO_LARGE) {
        (void)pleat_too_large_message(run->error, sizeof(run->error));
    } else {
        (void)snprintf(run->error, sizeof(run->error), "%s%s", caller, pleat_last_error());
    }
}

static void run_alloc(pleat_session_run_t *run, const pleat_session_call_t *call)
{
    pleat_devptr_t address = 0;
    run->status = pleat_alloc(run->allocator, call->bytes, call->stream, &address);
    if (run->status != PLEAT_OK) {
        run_keep_error(run, call);
    }
    if (call->kind == PLEAT_SESSION_OOM) {
        if (run->status == PLEAT_OK) {
            pleat_session_run_differ(run, call, "result", "out of memory", "success");
            run->status = pleat_free(run->allocator, address);
        }
        return;
    }
    run->addresses[call->id] = address;
    if (run->status != PLEAT_OK) {
        pleat_session_run_differ(run, call, "result", "success", run->error);
        return;
    }
    if (call->has_address) {
        run->check->address_count++;
        if (address != call->address) {
            char expected[32];
            char got[32];
            (void)snprintf(expected, sizeof(expected), "0x%" PRIx64, call->address);
            (void)snprintf(got, sizeof(got), "0x%" PRIx64, address);
            pleat_session_run_differ(run, call, "address", expected, got);
        }
    }
}

/*
 * The settings decide between the two modes of PyTorch; a case names its mode itself, and its
 * settings are read as if they named it, too.
 */
static void run_choose_mode(pleat_session_run_t *run)
{
    pleat_conf_setting_t *expandable = &run->conf.settings[PLEAT_CONF_EXPANDABLE_SEGMENTS];
    pleat_conf_setting_t *policy = &run->conf.settings[PLEAT_CONF_EXPANDABLE_POLICY];
    const unsigned modes = run->session->modes;
    const bool names_several = (modes & (modes - 1)) != 0;
    policy->number = PLEAT_CONF_POLICY_TORCH;
    if (run->mode == PLEAT_SESSION_MODE_PLEATED) {
        policy->number = PLEAT_CONF_POLICY_PLEATED;
        expandable->number = 1;
    } else if (names_several) {
        expandable->number = run->mode == PLEAT_SESSION_MODE_TORCH_EXPANDABLE;
    } else if (modes == PLEAT_SESSION_MODE_TORCH_EXPANDABLE &&
               expandable->source == PLEAT_CONF_SOURCE_DEFAULT) {
        expandable->number = 1; /* the case's only mode, and nothing else was said */
    }
}

/* Make an error of reading settings say where in the file they go wrong. @p column counts from 1
 * within the text; 0: its beginning. */
static void run_place_error(const pleat_session_t *session, pleat_session_place_t place,
                            size_t column, const char *message)
{
    char text[PLEAT_SESSION_ERROR_BYTES];
    (void)snprintf(text, sizeof(text), "%s", message); /* it may be the error text itself */
    pleat_error_set("%s:%" PRIu64 ":%" PRIu64 ": %s", session->file, place.line,
                    place.column + (column > 0 ? column - 1 : 0), text);
}

static void run_set(pleat_session_run_t *run, const pleat_session_call_t *call)
{
    const pleat_session_place_t place = {.line = call->line, .column = call->text_column};
    pleat_conf_report_t report = PLEAT_CONF_REPORT_INIT;
    run->status = pleat_conf_read(&run->conf, PLEAT_CONF_TORCH, call->text, &report);
    if (run->status != PLEAT_OK) {
        run_place_error(run->session, place, report.column, report.message);
        run_keep_error(run, call);
    }
    /* What stood before an error is in force. */
    run_choose_mode(run);
    pleat_status_t status = pleat_conf_apply_runtime(&run->conf, &run->options);
    if (status == PLEAT_OK) {
        status = pleat_set_options(run->allocator, &run->options);
    }
    if (status != PLEAT_OK) {
        run->status = status;
        run_place_error(run->session, place, 0, pleat_last_error());
        run_keep_error(run, call);
    }
}

static void run_free_or_record(pleat_session_run_t *run, const pleat_session_call_t *call)
{
    const pleat_devptr_t address = run->addresses[call->id];
    if (call->kind == PLEAT_SESSION_FREE) {
        run->status = pleat_free(run->allocator, address);
    } else {
        run->status = pleat_record_stream(run->allocator, address, call->stream);
    }
}

static void run_change_device(pleat_session_run_t *run, const pleat_session_call_t *call)
{
    if (call->kind == PLEAT_SESSION_SYNC) {
        run->status = pleat_sim_set_all_done(run->vmm);
    } else if (call->kind == PLEAT_SESSION_BUSY) {
        run->status = pleat_sim_set_busy(run->vmm, call->stream);
    } else {
        run->status = pleat_sim_set_done(run->vmm, call->stream);
    }
}

static void run_perform(pleat_session_run_t *run, const pleat_session_call_t *call)
{
    switch (call->kind) {
    case PLEAT_SESSION_ALLOC:
    case PLEAT_SESSION_OOM:
        run_alloc(run, call);
        return;
    case PLEAT_SESSION_FREE:
    case PLEAT_SESSION_RECORD:
        run_free_or_record(run, call);
        break;
    case PLEAT_SESSION_EMPTY:
        run->status = pleat_empty_cache(run->allocator);
        break;
    case PLEAT_SESSION_SYNC:
    case PLEAT_SESSION_BUSY:
    case PLEAT_SESSION_DONE:
        run_change_device(run, call);
        break;
    case PLEAT_SESSION_RESET_PEAK:
        pleat_reset_peak_stats(run->allocator);
        break;
    case PLEAT_SESSION_RESET_ACC:
        pleat_reset_accumulated_stats(run->allocator);
        break;
    case PLEAT_SESSION_SET:
        run_set(run, call);
        return;
    case PLEAT_SESSION_SET_LIMIT:
        run->options.limit_bytes = call->bytes == 0 ? PLEAT_NO_LIMIT : call->bytes;
        run->status = pleat_set_options(run->allocator, &run->options);
        break;
    case PLEAT_SESSION_SNAPSHOT:
        run->status = pleat_session_compare_state(run, call, call->segments);
        break;
    case PLEAT_SESSION_POOL_CREATE:
    case PLEAT_SESSION_POOL_BEGIN:
    case PLEAT_SESSION_POOL_END:
    case PLEAT_SESSION_POOL_RELEASE:
    case PLEAT_SESSION_POOL_DELETE:
        run->status = pleat_session_pool_perform(run, call);
        break;
    case PLEAT_SESSION_CALL_COUNT:
        break;
    }
    if (run->status != PLEAT_OK) {
        run_keep_error(run, call);
    }
}

/* A call that may not fail did. */
static void run_report_failure(pleat_session_run_t *run, const pleat_session_call_t *call)
{
    const bool may_fail = call->kind == PLEAT_SESSION_ALLOC || call->kind == PLEAT_SESSION_OOM ||
                          call->expect_errors.count > 0;
    if (run->status != PLEAT_OK && !may_fail) {
        pleat_session_run_differ(run, call, "result", "success", run->error);
    }
}

static pleat_status_t run_calls(pleat_session_run_t *run)
{
    const pleat_session_t *session = run->session;
    for (uint32_t i = 0; i < session->call_count; i++) {
        const pleat_session_call_t *call = &session->calls[i];
        if (call->error_text != NULL) {
            run->check->stopped_line = call->line;
            run->check->stopped_by = call->error_text;
            return PLEAT_OK; /* the end state would be that after the call */
        }
        const pleat_status_t status = run_prepare(run, call);
        if (status != PLEAT_OK) {
            return status;
        }
        run_perform(run, call);
        run->check->call_count++;
        const pleat_status_t finished = pleat_session_pool_finish(run);
        if (run->has_lost_events || finished != PLEAT_OK) {
            return run->has_lost_events ? PLEAT_ERR_OOM_HOST : finished;
        }
        run_report_failure(run, call);
        pleat_session_compare_events(run, call);
        pleat_session_compare_stats(run, call);
    }
    return session->has_end_state ? pleat_session_compare_state(run, NULL, session->end_segments)
                                  : PLEAT_OK;
}

/* ---- start and end ---- */

/* Calls that only the newer recordings have. */
static bool call_is_of_newer_kind(const pleat_session_call_t *call)
{
    return call->kind == PLEAT_SESSION_SET || call->kind == PLEAT_SESSION_SNAPSHOT ||
           call->kind == PLEAT_SESSION_BUSY ||
           (call->kind >= PLEAT_SESSION_POOL_CREATE && call->kind <= PLEAT_SESSION_POOL_DELETE);
}

/* Recordings differ in this: older ones list the driver's events of a call before its completed
 * frees, newer ones keep the true order. One completed free before a driver event tells. */
static bool session_lists_driver_first(const pleat_session_t *session)
{
    for (uint32_t i = 0; i < session->call_count; i++) {
        const pleat_session_range_t events = session->calls[i].events;
        if (call_is_of_newer_kind(&session->calls[i])) {
            return false;
        }
        bool has_completed = false;
        for (uint32_t k = 0; k < events.count; k++) {
            const bool is_completed =
                session->events[events.first + k].action == PLEAT_ACTION_FREE_COMPLETED;
            if (has_completed && !is_completed) {
                return false;
            }
            has_completed = has_completed || is_completed;
        }
    }
    return true;
}

const char *pleat_session_obstacle(const pleat_session_t *session, unsigned mode)
{
    if ((pleat_session_modes(session) & mode) == 0) {
        return "it is not for this mode";
    }
    if (session->call_count > 0 && session->calls[0].error_text != NULL) {
        return "its first call ends it with an error of PyTorch";
    }
    for (uint32_t key = 0; key < session->key_count; key++) {
        const char *suffix = strrchr(session->keys[key], '.');
        if (suffix != NULL && strcmp(suffix, ".current") == 0 && session->base[key] != 0) {
            return "it begins with memory in use, which is not recorded";
        }
    }
    return NULL;
}

/* The first of its modes that it can be performed in; if there is none, the first. */
static unsigned session_choose_mode(const pleat_session_t *session)
{
    const unsigned modes = pleat_session_modes(session);
    unsigned first = 0;
    for (unsigned mode = 1; mode < PLEAT_SESSION_MODE_END; mode <<= 1) {
        if ((modes & mode) != 0 && pleat_session_obstacle(session, mode) == NULL) {
            return mode;
        }
        first = first == 0 ? modes & mode : first;
    }
    return first;
}

/* The settings of the header; what is wrong with them is an error of the input. */
static pleat_status_t run_read_settings(pleat_session_run_t *run)
{
    const pleat_session_t *session = run->session;
    pleat_conf_report_t report = PLEAT_CONF_REPORT_INIT;
    pleat_status_t status = PLEAT_OK;
    if (session->settings[0] != '\0') {
        status = pleat_conf_read_start(&run->conf, PLEAT_CONF_TORCH, session->settings, &report);
    }
    run_choose_mode(run);
    if (status == PLEAT_OK) {
        status = pleat_conf_apply(&run->conf, session->total_bytes, &run->options);
    }
    if (status != PLEAT_OK) {
        run_place_error(session, session->settings_place, report.column, pleat_last_error());
    }
    return status;
}

static pleat_status_t run_start(pleat_session_run_t *run)
{
    const pleat_session_t *session = run->session;
    pleat_status_t status = run_read_settings(run);
    if (status != PLEAT_OK) {
        return status;
    }
    if (session->has_limit) {
        run->options.limit_bytes = session->limit_bytes;
    }
    if (session->is_recording) {
        status = pleat_scripted_create(session->total_bytes, &run->vmm);
    } else {
        pleat_sim_options_t sim = PLEAT_SIM_OPTIONS_INIT;
        sim.capacity_bytes = session->total_bytes;
        status = pleat_sim_create(&sim, &run->vmm);
    }
    if (status == PLEAT_OK) {
        status = pleat_allocator_create(&run->options, run->vmm, &run->allocator);
    }
    if (status != PLEAT_OK) {
        return status;
    }
    if (session->is_recording) {
        status = pleat_session_request_pools(session, &run->request_pools);
        if (status == PLEAT_OK) {
            status = pleat_session_places(session, run->request_pools, &run->places);
        }
        if (status != PLEAT_OK) {
            return status;
        }
    }
    run->lists_driver_first = session_lists_driver_first(session);
    run->order = pleat_queue_order_create();
    run->addresses = calloc((size_t)session->id_count + 1, sizeof(*run->addresses));
    if (run->order == NULL || run->addresses == NULL) {
        return PLEAT_ERR_OOM_HOST;
    }
    pleat_set_observer(run->allocator, run_observe, run);
    return pleat_session_compare_init(run);
}

static void run_end(pleat_session_run_t *run)
{
    pleat_session_compare_fini(run);
    pleat_queue_order_destroy(run->order);
    if (run->allocator != NULL) {
        pleat_set_observer(run->allocator, NULL, NULL);
    }
    pleat_allocator_destroy(run->allocator);
    pleat_vmm_destroy(run->vmm);
    free(run->addresses);
    free(run->places);
    free(run->request_pools);
    free(run->overflow_pools);
    free(run->events);
}

/* Perform a session; @p values (NULL or of that many entries) gets the counters at its end. */
static pleat_status_t session_perform(const pleat_session_t *session, unsigned mode,
                                      pleat_session_check_t *check, int64_t *values)
{
    const unsigned chosen = mode != 0 ? mode : session_choose_mode(session);
    const char *obstacle = pleat_session_obstacle(session, chosen);
    if (obstacle != NULL) {
        (void)snprintf(check->skipped, sizeof(check->skipped), "%s", obstacle);
        return PLEAT_OK;
    }
    pleat_session_run_t run = {.session = session,
                               .check = check,
                               .mode = chosen,
                               .conf = PLEAT_CONF_INIT,
                               .options = PLEAT_OPTIONS_INIT};
    pleat_status_t status = run_start(&run);
    if (status == PLEAT_OK) {
        status = run_calls(&run);
    }
    if (status == PLEAT_OK && values != NULL) {
        pleat_memory_stats_values(pleat_allocator_stats(run.allocator), values);
        for (uint32_t key = 0; key < session->key_count; key++) {
            if (run.stat_index[key] != UINT32_MAX) {
                values[run.stat_index[key]] += run.offset[key];
            }
        }
    }
    if (status == PLEAT_ERR_OOM_HOST) {
        pleat_error_set("%s: no host memory to perform it", session->name);
    }
    run_end(&run);
    return status;
}

pleat_status_t pleat_session_check_run(const pleat_session_t *session, unsigned mode,
                                       pleat_session_check_t *check)
{
    const pleat_session_check_t fresh = {.difference_capacity = check->difference_capacity,
                                         .differences = check->differences};
    *check = fresh;
    return session_perform(session, mode, check, NULL);
}

pleat_status_t pleat_session_final_stats(const pleat_session_t *session, unsigned mode,
                                         int64_t *values, size_t value_count)
{
    if (value_count != pleat_memory_stats_count()) {
        pleat_error_set("%s: %zu values given, there are %zu statistics", __func__, value_count,
                        pleat_memory_stats_count());
        return PLEAT_ERR_INVALID;
    }
    pleat_session_check_t check = {0};
    const pleat_status_t status = session_perform(session, mode, &check, values);
    if (status == PLEAT_OK && check.skipped[0] != '\0') {
        pleat_error_set("%s: %s", session->name, check.skipped);
        return PLEAT_ERR_UNSUPPORTED;
    }
    return status;
}
