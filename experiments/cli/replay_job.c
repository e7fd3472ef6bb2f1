/*
 * replay_job: load, read the calls out of the trace, replay.
 */
#include "replay_job.h"
#include "progress.h"
#include "report.h"
#include "trace_notes.h"

#include "perturb.h"

#include <stdlib.h>
#include <string.h>

enum { PLEAT_CLI_CURVE_BINS = 1024 };

/* Most memory that the segments of the recording took. */
static uint64_t pleat_cli_recorded_peak(const pleat_trace_t *trace)
{
    uint64_t held = 0;
    uint64_t peak = 0;

    for (uint64_t i = 0; i < trace->event_count; i++) {
        held = pleat_cli_trace_held_after(held, &trace->events[i]);
        peak = held > peak ? held : peak;
    }
    return peak;
}

/* Limit and device decide how a trace is read only if the recording can have been made under them;
 * what a user tries out afterwards must not change which calls the program made. */
static pleat_status_t pleat_cli_replay_job_read(pleat_cli_replay_job_t *job,
                                                const pleat_trace_t *trace)
{
    pleat_options_t recording = PLEAT_OPTIONS_INIT;
    uint64_t device_bytes = PLEAT_SIM_DEFAULT_CAPACITY_BYTES;
    uint64_t peak_bytes = pleat_cli_recorded_peak(trace);

    if (job->options->has_limit && job->options->limit_bytes >= peak_bytes) {
        recording.limit_bytes = job->options->limit_bytes;
    }
    if (job->options->device_bytes >= peak_bytes) {
        device_bytes = job->options->device_bytes;
    }
    return pleat_program_create(trace, &recording, device_bytes, &job->program);
}

/* Take the calls of empty_cache out. Work that only such a call waited for is over by itself. */
static void pleat_cli_replay_job_drop_empty_cache(pleat_program_t *program)
{
    size_t kept = 0;

    for (size_t i = 0; i < program->call_count; i++) {
        if (program->calls[i].kind != PLEAT_PROGRAM_EMPTY_CACHE) {
            program->calls[kept++] = program->calls[i];
            continue;
        }
        program->counts[PLEAT_PROGRAM_EMPTY_CACHE]--;
        for (size_t j = kept; j > 0 && program->calls[j - 1].kind == PLEAT_PROGRAM_COMPLETE_IN_CALL;
             j--) {
            program->calls[j - 1].kind = PLEAT_PROGRAM_COMPLETE;
            program->counts[PLEAT_PROGRAM_COMPLETE_IN_CALL]--;
            program->counts[PLEAT_PROGRAM_COMPLETE]++;
        }
    }
    program->call_count = kept;
}

/* The engine refuses such requests without a trace in its counters, so they are counted here. */
static void pleat_cli_replay_job_count_refused(pleat_cli_replay_job_t *job)
{
    for (size_t i = 0; i < job->program->call_count; i++) {
        const pleat_program_call_t *call = &job->program->calls[i];

        if (call->kind == PLEAT_PROGRAM_ALLOC && call->bytes >> 60 != 0) {
            job->refused_count++;
        }
    }
    if (job->refused_count > 0) {
        pleat_cli_warn("%s: requests of 2^60 bytes or more fail: %llu", job->name,
                       (unsigned long long)job->refused_count);
    }
}

static int pleat_cli_replay_job_take(pleat_cli_replay_job_t *job, pleat_trace_t *trace)
{
    pleat_status_t status = pleat_cli_replay_job_read(job, trace);

    if (status == PLEAT_OK) {
        pleat_cli_trace_notes_warn(trace, job->program);
    }
    job->name = strdup(strcmp(trace->name, "-") == 0 ? "standard input" : trace->name);
    pleat_trace_destroy(trace);
    if (status != PLEAT_OK) {
        return pleat_cli_error("%s: %s", job->name ? job->name : "trace", pleat_last_error());
    }
    if (!job->name) {
        return pleat_cli_error("no host memory");
    }
    if (job->options->drops_empty_cache) {
        pleat_cli_replay_job_drop_empty_cache(job->program);
    }
    if (job->options->is_perturbed) {
        pleat_perturb_program(job->program, job->options->perturb_seed);
    }
    pleat_cli_replay_job_count_refused(job);
    return PLEAT_CLI_EXIT_GOOD;
}

int pleat_cli_replay_set_open(const pleat_cli_replay_options_t *options, const char *path,
                              pleat_trace_set_t *set_out)
{
    *set_out = (pleat_trace_set_t){.count = 0};
    if (pleat_trace_set_load(path, &options->set, set_out) != PLEAT_OK) {
        return pleat_cli_error("%s", pleat_last_error());
    }
    return PLEAT_CLI_EXIT_GOOD;
}

int pleat_cli_replay_job_open(pleat_cli_replay_job_t *job,
                              const pleat_cli_replay_options_t *options, pleat_trace_set_t *set,
                              size_t index)
{
    *job = (pleat_cli_replay_job_t){.options = options};
    return pleat_cli_replay_job_take(job, pleat_trace_set_take(set, index));
}

void pleat_cli_replay_job_close(pleat_cli_replay_job_t *job)
{
    pleat_replay_destroy(job->replay);
    pleat_program_destroy(job->program);
    free(job->name);
    *job = (pleat_cli_replay_job_t){0};
}

static void pleat_cli_replay_job_progress(void *context, uint64_t done, uint64_t all)
{
    pleat_cli_progress_update(context, done, all);
}

static pleat_status_t pleat_cli_replay_job_perform(pleat_cli_replay_job_t *job,
                                                   pleat_replay_options_t *replay_options,
                                                   pleat_metrics_t *metrics_out)
{
    pleat_cli_progress_t progress;
    pleat_status_t status = PLEAT_OK;

    pleat_replay_destroy(job->replay);
    job->replay = NULL;
    pleat_cli_progress_begin(&progress, job->name);
    replay_options->progress = pleat_cli_replay_job_progress;
    replay_options->progress_context = &progress;
    status = pleat_replay_create(job->program, replay_options, &job->replay);
    if (status == PLEAT_OK) {
        status = pleat_replay_run(job->replay, metrics_out);
    }
    pleat_cli_progress_end(&progress);
    return status;
}

/* What a run collects beside its metrics. */
typedef struct pleat_cli_collection {
    pleat_curve_t curve;
    pleat_replay_events_t events;
    bool has_curve;
    bool has_events;
} pleat_cli_collection_t;

static pleat_status_t pleat_cli_collection_init(pleat_cli_collection_t *collection,
                                                pleat_replay_options_t *replay_options)
{
    pleat_status_t status = PLEAT_OK;

    if (collection->has_events) {
        status = pleat_replay_events_init(&collection->events);
        replay_options->curve = &collection->events.curve;
        replay_options->watcher = &collection->events.watcher;
    } else if (collection->has_curve) {
        status = pleat_curve_init(&collection->curve, PLEAT_CLI_CURVE_BINS);
        replay_options->curve = &collection->curve;
    }
    return status;
}

static void pleat_cli_collection_fini(pleat_cli_collection_t *collection)
{
    if (collection->has_events) {
        pleat_replay_events_fini(&collection->events);
    } else if (collection->has_curve) {
        pleat_curve_fini(&collection->curve);
    }
}

/* Hand what was collected to the files. 0, or an exit status after a message. */
static int pleat_cli_replay_job_keep(pleat_cli_replay_job_t *job,
                                     const pleat_cli_collection_t *collection,
                                     pleat_cli_timeline_file_t *timeline,
                                     const pleat_metrics_t *metrics)
{
    int exit_status = PLEAT_CLI_EXIT_GOOD;

    if (collection->has_curve) {
        exit_status = pleat_cli_timeline_file_add(
            timeline, collection->has_events ? &collection->events.curve : &collection->curve,
            metrics);
    }
    if (exit_status == PLEAT_CLI_EXIT_GOOD && collection->has_events) {
        exit_status = pleat_cli_events_file_add(job->events_file, &collection->events, metrics);
    }
    return exit_status;
}

static void pleat_cli_replay_job_prepare(const pleat_cli_replay_job_t *job, size_t mode_index,
                                         size_t conf_index, pleat_replay_options_t *replay_options)
{
    const pleat_cli_replay_options_t *options = job->options;

    replay_options->mode = options->modes[mode_index];
    replay_options->allocator = options->allocators[conf_index];
    replay_options->allocator.limit_bytes = options->limits[conf_index][replay_options->mode];
    replay_options->device_bytes = options->device_bytes;
    replay_options->costs = options->has_costs ? &options->costs : NULL;
    replay_options->passes = options->passes;
    replay_options->watcher = job->watcher;
}

int pleat_cli_replay_job_run(pleat_cli_replay_job_t *job, size_t mode_index, size_t conf_index,
                             pleat_cli_timeline_file_t *timeline, pleat_metrics_t *metrics_out)
{
    pleat_replay_options_t replay_options = PLEAT_REPLAY_OPTIONS_INIT;
    pleat_cli_collection_t collection = {.has_curve = timeline && timeline->file,
                                         .has_events =
                                             job->events_file && job->events_file->is_open};
    int exit_status = PLEAT_CLI_EXIT_GOOD;

    pleat_cli_replay_job_prepare(job, mode_index, conf_index, &replay_options);
    pleat_status_t status = pleat_cli_collection_init(&collection, &replay_options);
    if (status == PLEAT_OK) {
        status = pleat_cli_replay_job_perform(job, &replay_options, metrics_out);
    }
    if (status != PLEAT_OK) {
        exit_status = pleat_cli_error("%s: %s", job->name, pleat_last_error());
    } else {
        metrics_out->trace = job->name;
        metrics_out->mode = pleat_mode_name(replay_options.mode);
        metrics_out->conf = job->options->confs[conf_index];
        exit_status = pleat_cli_replay_job_keep(job, &collection, timeline, metrics_out);
    }
    if (collection.has_events && job->replay) {
        pleat_replay_events_detach(job->replay);
    }
    pleat_cli_collection_fini(&collection);
    return exit_status;
}
