/*
 * replay_events: see replay_events.h.
 */
#include "replay_events.h"

#include "../../core/allocator.h"
#include "../../vmm/vmm.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* At most so many of each, which keeps a file below some 15 MB. */
enum { CURVE_BINS = 1024, DRIVER_SLICES = 50000, INSTANTS_MAX = 20000 };

/* Threads of a process in the trace viewer. */
enum { TRACK_ALLOCATOR = 1, TRACK_DRIVER = 2 };

/* ---- collecting ---- */

static void events_driver(void *context, pleat_vmm_call_t call, uint64_t begin_ns, uint64_t end_ns,
                          pleat_status_t status)
{
    pleat_replay_events_t *events = context;
    if (!pleat_vmm_call_is_memory(call) && end_ns == begin_ns) {
        return;
    }
    const pleat_driver_slice_t slice = {.begin_ns = begin_ns,
                                        .end_ns = end_ns,
                                        .cost_ns = end_ns - begin_ns,
                                        .call_count = 1,
                                        .failure_count = status != PLEAT_OK ? 1 : 0,
                                        .group = events->call_number,
                                        .call = call};
    pleat_driver_log_add(&events->driver, &slice);
}

static void events_observe(void *context, const pleat_trace_entry_t *entry)
{
    pleat_replay_events_t *events = context;
    if (entry->action == PLEAT_ACTION_OOM) {
        events->ooms++;
        events->oom_bytes = entry->bytes;
    }
}

static pleat_status_t events_begin(void *context, pleat_replay_t *replay)
{
    pleat_replay_events_t *events = context;
    events->stats = pleat_allocator_stats(pleat_replay_allocator(replay));
    pleat_set_observer(pleat_replay_allocator(replay), events_observe, events);
    pleat_vmm_set_observer(pleat_replay_device(replay), events_driver, events);
    return PLEAT_OK;
}

static void events_before(void *context, const pleat_program_call_t *call, uint64_t time_us)
{
    pleat_replay_events_t *events = context;
    (void)call;
    (void)time_us;
    events->call_number++;
    events->oom_bytes = 0;
    events->ooms = 0;
    events->retries = (uint64_t)events->stats->num_alloc_retries;
}

static void events_add_instant(pleat_replay_events_t *events, uint64_t time_us, bool is_oom)
{
    if (events->instant_count == INSTANTS_MAX) {
        events->instants_left_out++;
        return;
    }
    events->instants[events->instant_count++] = (pleat_replay_instant_t){
        .time_us = time_us, .bytes = is_oom ? events->oom_bytes : 0, .is_oom = is_oom};
}

static bool events_after(void *context, const pleat_program_call_t *call, uint64_t time_us)
{
    pleat_replay_events_t *events = context;
    (void)call;
    if ((uint64_t)events->stats->num_alloc_retries > events->retries) {
        events_add_instant(events, time_us, false);
    }
    if (events->ooms > 0) {
        events_add_instant(events, time_us, true);
    }
    return true;
}

pleat_status_t pleat_replay_events_init(pleat_replay_events_t *events)
{
    *events = (pleat_replay_events_t){.watcher = {.context = events,
                                                  .begin = events_begin,
                                                  .before = events_before,
                                                  .after = events_after}};
    pleat_status_t status = pleat_curve_init(&events->curve, CURVE_BINS);
    if (status == PLEAT_OK) {
        status = pleat_driver_log_init(&events->driver, DRIVER_SLICES);
    }
    if (status == PLEAT_OK) {
        events->instants = calloc(INSTANTS_MAX, sizeof(*events->instants));
        if (events->instants == NULL) {
            pleat_error_set("no host memory for the events of a replay");
            status = PLEAT_ERR_OOM_HOST;
        }
    }
    return status;
}

void pleat_replay_events_detach(pleat_replay_t *replay)
{
    pleat_set_observer(pleat_replay_allocator(replay), NULL, NULL);
    pleat_vmm_set_observer(pleat_replay_device(replay), NULL, NULL);
}

void pleat_replay_events_fini(pleat_replay_events_t *events)
{
    pleat_curve_fini(&events->curve);
    pleat_driver_log_fini(&events->driver);
    free(events->instants);
    events->instants = NULL;
}

/* ---- writing ---- */

typedef struct events_writing {
    pleat_output_file_t *file;
    unsigned process;
    pleat_status_t status; /* of the first failure */
    bool has_values;
    int64_t values[PLEAT_CURVE_SERIES_COUNT]; /* last ones written */
} events_writing_t;

static pleat_status_t events_put(pleat_output_file_t *file, const char *text)
{
    return pleat_output_file_write(file, text, strlen(text));
}

/* Write an event, which is given up; NULL: no host memory. */
static void events_put_event(events_writing_t *writing, json_t *event)
{
    char *text = event != NULL ? json_dumps(event, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(event);
    if (text == NULL && writing->status == PLEAT_OK) {
        pleat_error_set("no host memory to write the events of a replay");
        writing->status = PLEAT_ERR_OOM_HOST;
    }
    if (writing->status == PLEAT_OK) {
        writing->status = events_put(writing->file, ",\n");
    }
    if (writing->status == PLEAT_OK) {
        writing->status = events_put(writing->file, text);
    }
    free(text);
}

/* A text of the user's; one that is no UTF-8 gets a question mark for each byte beyond ASCII. */
static json_t *events_text(const char *text)
{
    json_t *string = json_string(text);
    char *copy = string == NULL ? strdup(text) : NULL;
    if (copy != NULL) {
        for (char *at = copy; *at != '\0'; at++) {
            if ((unsigned char)*at >= 0x80u) {
                *at = '?';
            }
        }
        string = json_string(copy);
        free(copy);
    }
    return string;
}

static void events_put_name(events_writing_t *writing, const char *what, unsigned track,
                            const char *name)
{
    events_put_event(writing, json_pack("{s:s, s:s, s:i, s:i, s:{s:o}}", "ph", "M", "name", what,
                                        "pid", (int)writing->process, "tid", (int)track, "args",
                                        "name", events_text(name)));
}

static bool events_put_sample(void *context, const pleat_curve_sample_t *sample)
{
    events_writing_t *writing = context;
    for (unsigned series = 0; series < PLEAT_CURVE_SERIES_COUNT; series++) {
        if (writing->has_values && writing->values[series] == sample->bytes[series]) {
            continue;
        }
        writing->values[series] = sample->bytes[series];
        events_put_event(writing,
                         json_pack("{s:s, s:s, s:i, s:I, s:{s:I}}", "ph", "C", "name",
                                   pleat_curve_series_name((pleat_curve_series_t)series), "pid",
                                   (int)writing->process, "ts", (json_int_t)sample->time_us, "args",
                                   "bytes", (json_int_t)sample->bytes[series]));
    }
    writing->has_values = true;
    return writing->status == PLEAT_OK;
}

static void events_put_slice(events_writing_t *writing, const pleat_driver_slice_t *slice)
{
    const bool is_one_kind = slice->call != PLEAT_VMM_CALL_COUNT;
    events_put_event(
        writing,
        json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:f, s:{s:I, s:I, s:f}}", "ph", "X", "name",
                  is_one_kind ? pleat_vmm_call_name(slice->call) : "several calls", "cat", "driver",
                  "pid", (int)writing->process, "tid", (int)TRACK_DRIVER, "ts",
                  (double)slice->begin_ns / 1e3, "dur",
                  (double)(slice->end_ns - slice->begin_ns) / 1e3, "args", "calls",
                  (json_int_t)slice->call_count, "failed", (json_int_t)slice->failure_count,
                  "cost_us", (double)slice->cost_ns / 1e3));
}

static void events_put_instant(events_writing_t *writing, const pleat_replay_instant_t *instant)
{
    json_t *arguments = instant->is_oom
                            ? json_pack("{s:I}", "rounded_bytes", (json_int_t)instant->bytes)
                            : json_object();
    events_put_event(writing,
                     json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:I, s:o}", "ph", "i", "name",
                               instant->is_oom ? "out of memory" : "retry after a flush", "cat",
                               "allocator", "s", "p", "pid", (int)writing->process, "tid",
                               (int)TRACK_ALLOCATOR, "ts", (json_int_t)instant->time_us, "args",
                               arguments));
}

pleat_status_t pleat_replay_events_begin_file(pleat_output_file_t *file, const char *call)
{
    json_t *object = json_pack("{s:o}", "call", events_text(call));
    char *text = object != NULL ? json_dumps(object, JSON_COMPACT) : NULL;
    pleat_status_t status = PLEAT_ERR_OOM_HOST;
    json_decref(object);
    if (text == NULL) {
        pleat_error_set("no host memory to write the events of a replay");
        return status;
    }
    status = events_put(file, "{\"displayTimeUnit\":\"ns\",\"otherData\":");
    if (status == PLEAT_OK) {
        status = events_put(file, text);
    }
    free(text);
    /* A first event, so that every other one can begin with a comma. */
    if (status == PLEAT_OK) {
        status = events_put(file, ",\"traceEvents\":[\n{\"ph\":\"M\",\"name\":\"process_labels\","
                                  "\"pid\":1,\"tid\":0,\"args\":{\"labels\":\"simulated\"}}");
    }
    return status;
}

pleat_status_t pleat_replay_events_write(const pleat_replay_events_t *events,
                                         pleat_output_file_t *file, unsigned number,
                                         const char *name)
{
    events_writing_t writing = {.file = file, .process = number};
    events_put_name(&writing, "process_name", 0, name);
    events_put_name(&writing, "thread_name", TRACK_ALLOCATOR, "allocator");
    events_put_name(&writing, "thread_name", TRACK_DRIVER, "driver (simulated)");
    (void)pleat_curve_visit(&events->curve, events_put_sample, &writing);
    for (size_t i = 0; i < events->driver.count && writing.status == PLEAT_OK; i++) {
        events_put_slice(&writing, &events->driver.slices[i]);
    }
    for (size_t i = 0; i < events->instant_count && writing.status == PLEAT_OK; i++) {
        events_put_instant(&writing, &events->instants[i]);
    }
    return writing.status;
}

pleat_status_t pleat_replay_events_end_file(pleat_output_file_t *file)
{
    const pleat_status_t status = events_put(file, "\n]}\n");
    if (status != PLEAT_OK) {
        return status;
    }
    return pleat_output_file_finish(file);
}
