/*
 * probe: the measurements. Each call is timed by the host's clock around it; a kernel that spins on
 * a stream of its own stands for work on the device.
 */
#include "probe.h"

#include "vmm/base.h"
#include "vmm/cost.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KERNEL_NS UINT64_C(30000000)
#define KERNEL_LIMIT_NS UINT64_C(5000000000)

typedef struct prober {
    pleat_vmm_t *vmm;
    const pleat_gpu_t *gpu;
    uint32_t reps;
    pleat_stream_t stream;
    pleat_gpu_spin_t spin;
    pleat_event_t event;                     /* behind the spinning kernel */
    uint64_t free_bytes;                     /* at the start */
    double (*samples)[PLEAT_PROBE_REPS_MAX]; /* by kind of call */
    pleat_probe_t *probe;
} prober_t;

/* Give the status up to the caller unless it is good. */
#define TRY(call)                            \
    do {                                     \
        const pleat_status_t tried = (call); \
        if (tried != PLEAT_OK) {             \
            return tried;                    \
        }                                    \
    } while (0)

/* The same, with the duration of the call. */
#define TIME(duration_ns, call)                              \
    do {                                                     \
        const uint64_t begin_ns = probe_now_ns();            \
        const pleat_status_t timed = (call);                 \
        (duration_ns) = (double)(probe_now_ns() - begin_ns); \
        if (timed != PLEAT_OK) {                             \
            return timed;                                    \
        }                                                    \
    } while (0)

static uint64_t probe_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static int compare_samples(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static pleat_probe_times_t times_of(double *samples, uint32_t count)
{
    qsort(samples, count, sizeof *samples, compare_samples);
    return (pleat_probe_times_t){
        .count = count,
        .median_ns = samples[count / 2],
        .least_ns = samples[0],
        .p95_ns = samples[(uint64_t)count * 95 / 100],
        .most_ns = samples[count - 1],
    };
}

/* ---- the kernel beside ---- */

static pleat_status_t kernel_begin(prober_t *prober, uint64_t limit_ns)
{
    TRY(pleat_gpu_spin_begin(prober->gpu, &prober->spin, prober->stream, limit_ns));
    return pleat_vmm_event_record(prober->vmm, prober->event, prober->stream);
}

static bool kernel_is_running(prober_t *prober)
{
    return pleat_vmm_event_query(prober->vmm, prober->event) == PLEAT_ERR_NOT_READY;
}

static pleat_status_t kernel_end(prober_t *prober)
{
    pleat_gpu_spin_end(&prober->spin);
    return pleat_gpu_finish(prober->gpu);
}

/* ---- one chunk of a size ---- */

static pleat_status_t measure_chunk(prober_t *prober, uint64_t bytes, pleat_devptr_t range,
                                    uint32_t rep)
{
    pleat_chunk_t chunk = 0;
    double(*samples)[PLEAT_PROBE_REPS_MAX] = prober->samples;
    TIME(samples[PLEAT_VMM_CALL_CHUNK_CREATE][rep],
         pleat_vmm_chunk_create(prober->vmm, bytes, &chunk));
    TIME(samples[PLEAT_VMM_CALL_MAP][rep], pleat_vmm_map(prober->vmm, range, bytes, chunk));
    TIME(samples[PLEAT_VMM_CALL_SET_ACCESS][rep], pleat_vmm_set_access(prober->vmm, range, bytes));
    TIME(samples[PLEAT_VMM_CALL_UNMAP][rep], pleat_vmm_unmap(prober->vmm, range, bytes));
    TIME(samples[PLEAT_VMM_CALL_CHUNK_RELEASE][rep], pleat_vmm_chunk_release(prober->vmm, chunk));
    return PLEAT_OK;
}

static pleat_status_t measure_plain(prober_t *prober, uint64_t bytes, uint32_t rep, bool frees)
{
    pleat_devptr_t ptr = 0;
    TIME(prober->samples[PLEAT_VMM_CALL_MEM_ALLOC][rep],
         pleat_vmm_mem_alloc(prober->vmm, bytes, &ptr));
    if (!frees) {
        TRY(kernel_end(prober)); /* it would wait for the kernel */
        TRY(pleat_vmm_mem_free(prober->vmm, ptr));
        return kernel_begin(prober, KERNEL_LIMIT_NS);
    }
    TIME(prober->samples[PLEAT_VMM_CALL_MEM_FREE][rep], pleat_vmm_mem_free(prober->vmm, ptr));
    return PLEAT_OK;
}

static void keep_times(const prober_t *prober, pleat_probe_times_t *times, bool has_free)
{
    for (unsigned i = 0; i < PLEAT_VMM_CALL_COUNT; i++) {
        const pleat_vmm_call_t call = (pleat_vmm_call_t)i;
        if (pleat_cost_is_sized(call) && (has_free || call != PLEAT_VMM_CALL_MEM_FREE)) {
            times[i] = times_of(prober->samples[i], prober->reps);
        }
    }
}

static pleat_status_t measure_row(prober_t *prober, pleat_probe_row_t *row, pleat_devptr_t range)
{
    /* Once without keeping the times: the first call of a size may make tables. */
    TRY(measure_chunk(prober, row->bytes, range, 0));
    for (uint32_t rep = 0; rep < prober->reps; rep++) {
        TRY(measure_chunk(prober, row->bytes, range, rep));
        TRY(measure_plain(prober, row->bytes, rep, true));
    }
    keep_times(prober, row->idle, true);
    TRY(kernel_begin(prober, KERNEL_LIMIT_NS));
    row->has_kernel_run_on = true;
    for (uint32_t rep = 0; rep < prober->reps; rep++) {
        TRY(measure_chunk(prober, row->bytes, range, rep));
        row->has_kernel_run_on = row->has_kernel_run_on && kernel_is_running(prober);
        TRY(measure_plain(prober, row->bytes, rep, false));
    }
    TRY(kernel_end(prober));
    keep_times(prober, row->busy, false);
    return PLEAT_OK;
}

static pleat_status_t measure_rows(prober_t *prober)
{
    static const uint64_t mibs[PLEAT_PROBE_ROWS] = {2, 4, 8, 20, 64, 256, 1024};
    const uint64_t range_bytes = 1024 * PLEAT_MIB;
    pleat_probe_t *probe = prober->probe;
    pleat_devptr_t range = 0;
    TRY(pleat_vmm_address_reserve(prober->vmm, range_bytes, &range));
    for (uint32_t i = 0; i < PLEAT_PROBE_ROWS; i++) {
        const uint64_t bytes = mibs[i] * PLEAT_MIB;
        if (bytes % probe->granularity_bytes != 0 || 2 * bytes > prober->free_bytes / 2) {
            continue;
        }
        probe->rows[probe->row_count].bytes = bytes;
        TRY(measure_row(prober, &probe->rows[probe->row_count], range));
        probe->row_count++;
    }
    return pleat_vmm_address_free(prober->vmm, range, range_bytes);
}

/* ---- calls that do not depend on a size ---- */

static pleat_status_t measure_calls(prober_t *prober)
{
    pleat_vmm_t *vmm = prober->vmm;
    double(*samples)[PLEAT_PROBE_REPS_MAX] = prober->samples;
    const uint64_t range_bytes = UINT64_C(160) * PLEAT_GIB;
    for (uint32_t rep = 0; rep < prober->reps; rep++) {
        uint64_t a = 0;
        uint64_t b = 0;
        TIME(samples[PLEAT_VMM_CALL_MEM_INFO][rep], pleat_vmm_mem_info(vmm, &a, &b));
        TIME(samples[PLEAT_VMM_CALL_EVENT_CREATE][rep], pleat_vmm_event_create(vmm, &a));
        TIME(samples[PLEAT_VMM_CALL_EVENT_RECORD][rep],
             pleat_vmm_event_record(vmm, a, prober->stream));
        TIME(samples[PLEAT_VMM_CALL_STREAM_WAIT_EVENT][rep],
             pleat_vmm_stream_wait_event(vmm, prober->stream, a));
        TRY(pleat_gpu_finish(prober->gpu));
        TIME(samples[PLEAT_VMM_CALL_EVENT_QUERY][rep], pleat_vmm_event_query(vmm, a));
        TIME(samples[PLEAT_VMM_CALL_EVENT_SYNCHRONIZE][rep], pleat_vmm_event_synchronize(vmm, a));
        TIME(samples[PLEAT_VMM_CALL_STREAM_SYNCHRONIZE][rep],
             pleat_vmm_stream_synchronize(vmm, prober->stream));
        TIME(samples[PLEAT_VMM_CALL_EVENT_DESTROY][rep], pleat_vmm_event_destroy(vmm, a));
        TIME(samples[PLEAT_VMM_CALL_ADDRESS_RESERVE][rep],
             pleat_vmm_address_reserve(vmm, range_bytes, &a));
        TIME(samples[PLEAT_VMM_CALL_ADDRESS_FREE][rep],
             pleat_vmm_address_free(vmm, a, range_bytes));
    }
    /* Calls for other processes and devices, which come last, are not measured. */
    for (unsigned i = 0; i < PLEAT_VMM_CALL_CHUNK_EXPORT; i++) {
        if (!pleat_cost_is_sized((pleat_vmm_call_t)i)) {
            prober->probe->calls[i] = times_of(samples[i], prober->reps);
        }
    }
    return PLEAT_OK;
}

/* ---- many chunks ---- */

/* Two ranges side by side for the mappings and for their aliases. */
typedef struct crowd {
    pleat_chunk_t *chunks;
    pleat_devptr_t range;
    pleat_devptr_t aliases;
} crowd_t;

static pleat_status_t crowd_map(prober_t *prober, const pleat_probe_many_t *many,
                                const crowd_t *crowd, pleat_devptr_t range)
{
    for (uint32_t i = 0; i < many->count; i++) {
        TRY(pleat_vmm_map(prober->vmm, range + i * many->chunk_bytes, many->chunk_bytes,
                          crowd->chunks[i]));
    }
    return PLEAT_OK;
}

static pleat_status_t crowd_access_each(prober_t *prober, const pleat_probe_many_t *many,
                                        pleat_devptr_t range)
{
    for (uint32_t i = 0; i < many->count; i++) {
        TRY(pleat_vmm_set_access(prober->vmm, range + i * many->chunk_bytes, many->chunk_bytes));
    }
    return PLEAT_OK;
}

static pleat_status_t crowd_unmap_each(prober_t *prober, const pleat_probe_many_t *many,
                                       pleat_devptr_t range)
{
    for (uint32_t i = 0; i < many->count; i++) {
        TRY(pleat_vmm_unmap(prober->vmm, range + i * many->chunk_bytes, many->chunk_bytes));
    }
    return PLEAT_OK;
}

static pleat_status_t crowd_recycle(prober_t *prober, const pleat_probe_many_t *many,
                                    const crowd_t *crowd)
{
    for (uint32_t i = 0; i < many->count; i++) {
        const pleat_devptr_t ptr = crowd->range + i * many->chunk_bytes;
        TRY(pleat_vmm_map(prober->vmm, ptr, many->chunk_bytes, crowd->chunks[many->count - 1 - i]));
        TRY(pleat_vmm_set_access(prober->vmm, ptr, many->chunk_bytes));
    }
    return PLEAT_OK;
}

static pleat_status_t crowd_create(prober_t *prober, const pleat_probe_many_t *many,
                                   const crowd_t *crowd)
{
    for (uint32_t i = 0; i < many->count; i++) {
        TRY(pleat_vmm_chunk_create(prober->vmm, many->chunk_bytes, &crowd->chunks[i]));
    }
    return PLEAT_OK;
}

static pleat_status_t crowd_release(prober_t *prober, const pleat_probe_many_t *many,
                                    const crowd_t *crowd)
{
    for (uint32_t i = 0; i < many->count; i++) {
        TRY(pleat_vmm_chunk_release(prober->vmm, crowd->chunks[i]));
    }
    return PLEAT_OK;
}

static pleat_status_t measure_crowd(prober_t *prober, pleat_probe_many_t *many,
                                    const crowd_t *crowd)
{
    const uint64_t bytes = many->count * many->chunk_bytes;
    pleat_vmm_t *vmm = prober->vmm;
    TIME(many->create_ns, crowd_create(prober, many, crowd));
    TIME(many->map_ns, crowd_map(prober, many, crowd, crowd->range));
    TIME(many->access_ns, pleat_vmm_set_access(vmm, crowd->range, bytes));
    TIME(many->alias_map_ns, crowd_map(prober, many, crowd, crowd->aliases));
    TIME(many->alias_access_ns, crowd_access_each(prober, many, crowd->aliases));
    TIME(many->unmap_one_ns, crowd_unmap_each(prober, many, crowd->aliases));
    TIME(many->unmap_ns, pleat_vmm_unmap(vmm, crowd->range, bytes));
    TIME(many->recycle_ns, crowd_recycle(prober, many, crowd));
    TRY(pleat_vmm_unmap(vmm, crowd->range, bytes));
    TIME(many->release_ns, crowd_release(prober, many, crowd));
    double *const sums[] = {&many->create_ns,    &many->map_ns,          &many->access_ns,
                            &many->unmap_ns,     &many->release_ns,      &many->recycle_ns,
                            &many->alias_map_ns, &many->alias_access_ns, &many->unmap_one_ns};
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) {
        *sums[i] /= many->count;
    }
    return PLEAT_OK;
}

static pleat_status_t measure_many(prober_t *prober, pleat_probe_many_t *many, uint64_t chunk_bytes,
                                   uint32_t count)
{
    const uint64_t bytes = count * chunk_bytes;
    crowd_t crowd = {.chunks = calloc(count, sizeof *crowd.chunks)};
    if (crowd.chunks == NULL) {
        pleat_error_set("probe: no host memory for %" PRIu32 " chunks", count);
        return PLEAT_ERR_OOM_HOST;
    }
    *many = (pleat_probe_many_t){.chunk_bytes = chunk_bytes, .count = count};
    pleat_status_t status = pleat_vmm_address_reserve(prober->vmm, bytes, &crowd.range);
    if (status == PLEAT_OK) {
        status = pleat_vmm_address_reserve(prober->vmm, bytes, &crowd.aliases);
    }
    if (status == PLEAT_OK) {
        status = measure_crowd(prober, many, &crowd);
    }
    if (status == PLEAT_OK) {
        status = pleat_vmm_address_free(prober->vmm, crowd.range, bytes);
    }
    if (status == PLEAT_OK) {
        status = pleat_vmm_address_free(prober->vmm, crowd.aliases, bytes);
    }
    free(crowd.chunks);
    return status;
}

static pleat_status_t measure_crowds(prober_t *prober)
{
    static const struct {
        uint64_t mib;
        uint32_t count;
    } kinds[PLEAT_PROBE_MANY] = {{2, 1024}, {20, 256}};
    for (uint32_t i = 0; i < PLEAT_PROBE_MANY; i++) {
        const uint64_t bytes = kinds[i].mib * PLEAT_MIB;
        if (bytes % prober->probe->granularity_bytes != 0 ||
            bytes * kinds[i].count > prober->free_bytes / 2) {
            continue;
        }
        TRY(measure_many(prober, &prober->probe->many[i], bytes, kinds[i].count));
    }
    return PLEAT_OK;
}

/* ---- growth and eviction, beside the built-in table ---- */

static pleat_status_t grow_range(prober_t *prober, const pleat_probe_growth_t *growth,
                                 pleat_devptr_t range, pleat_chunk_t *chunks)
{
    const uint64_t count = growth->bytes / growth->chunk_bytes;
    for (uint64_t i = 0; i < count; i++) {
        TRY(pleat_vmm_chunk_create(prober->vmm, growth->chunk_bytes, &chunks[i]));
        TRY(pleat_vmm_map(prober->vmm, range + i * growth->chunk_bytes, growth->chunk_bytes,
                          chunks[i]));
    }
    return pleat_vmm_set_access(prober->vmm, range, growth->bytes);
}

static pleat_status_t evict_range(prober_t *prober, const pleat_probe_growth_t *growth,
                                  pleat_devptr_t range, const pleat_chunk_t *chunks)
{
    TRY(pleat_vmm_unmap(prober->vmm, range, growth->bytes));
    for (uint64_t i = 0; i < growth->bytes / growth->chunk_bytes; i++) {
        TRY(pleat_vmm_chunk_release(prober->vmm, chunks[i]));
    }
    return PLEAT_OK;
}

static double predict(const pleat_probe_growth_t *growth, const pleat_vmm_call_t *calls,
                      size_t count)
{
    const uint64_t chunk_count = growth->bytes / growth->chunk_bytes;
    uint64_t sum_ns = 0;
    for (size_t i = 0; i < count; i++) {
        sum_ns += pleat_cost_of(pleat_cost_table_h200(), calls[i], growth->chunk_bytes);
    }
    return (double)(sum_ns * chunk_count);
}

static pleat_status_t measure_growth(prober_t *prober, pleat_probe_growth_t *growth)
{
    static const pleat_vmm_call_t grow_calls[] = {PLEAT_VMM_CALL_CHUNK_CREATE, PLEAT_VMM_CALL_MAP,
                                                  PLEAT_VMM_CALL_SET_ACCESS};
    static const pleat_vmm_call_t evict_calls[] = {PLEAT_VMM_CALL_UNMAP,
                                                   PLEAT_VMM_CALL_CHUNK_RELEASE};
    static pleat_chunk_t chunks[PLEAT_PROBE_MAPPINGS_MAX];
    pleat_devptr_t range = 0;
    PLEAT_ASSERT(growth->bytes / growth->chunk_bytes <= PLEAT_PROBE_MAPPINGS_MAX);
    TRY(pleat_vmm_address_reserve(prober->vmm, growth->bytes, &range));
    for (uint32_t rep = 0; rep < prober->reps; rep++) {
        TIME(prober->samples[0][rep], grow_range(prober, growth, range, chunks));
        TIME(prober->samples[1][rep], evict_range(prober, growth, range, chunks));
    }
    growth->grow = times_of(prober->samples[0], prober->reps);
    growth->evict = times_of(prober->samples[1], prober->reps);
    growth->grow_predicted_ns = predict(growth, grow_calls, 3);
    growth->evict_predicted_ns = predict(growth, evict_calls, 2);
    return pleat_vmm_address_free(prober->vmm, range, growth->bytes);
}

static pleat_status_t measure_growths(prober_t *prober)
{
    static const uint64_t chunk_mibs[PLEAT_PROBE_GROWTHS] = {1000, 200, 20, 2};
    const uint64_t bytes = 1000 * PLEAT_MIB;
    for (uint32_t i = 0; i < PLEAT_PROBE_GROWTHS; i++) {
        pleat_probe_growth_t growth = {.bytes = bytes, .chunk_bytes = chunk_mibs[i] * PLEAT_MIB};
        if (growth.chunk_bytes % prober->probe->granularity_bytes != 0 ||
            bytes > prober->free_bytes / 2) {
            continue;
        }
        TRY(measure_growth(prober, &growth));
        prober->probe->growths[i] = growth;
    }
    return PLEAT_OK;
}

/* ---- who waits for whom ---- */

/* What the calls on the way need and leave. */
typedef struct course {
    pleat_devptr_t range;
    pleat_devptr_t aliases;
    pleat_chunk_t chunk;
    pleat_devptr_t plain;
} course_t;

#define COURSE_BYTES (UINT64_C(20) * PLEAT_MIB)

static pleat_status_t course_event(prober_t *prober)
{
    pleat_event_t event = 0;
    TRY(pleat_vmm_event_create(prober->vmm, &event));
    TRY(pleat_vmm_event_record(prober->vmm, event, 0));
    const pleat_status_t status = pleat_vmm_event_query(prober->vmm, event);
    if (status != PLEAT_OK && status != PLEAT_ERR_NOT_READY) {
        return status;
    }
    return pleat_vmm_event_destroy(prober->vmm, event);
}

static pleat_status_t course_call(prober_t *prober, course_t *course, pleat_probe_wait_t wait)
{
    pleat_vmm_t *vmm = prober->vmm;
    uint64_t a = 0;
    uint64_t b = 0;
    switch (wait) {
    case PLEAT_PROBE_WAIT_MEM_INFO:
        return pleat_vmm_mem_info(vmm, &a, &b);
    case PLEAT_PROBE_WAIT_EVENT:
        return course_event(prober);
    case PLEAT_PROBE_WAIT_ADDRESS_RESERVE:
        return pleat_vmm_address_reserve(vmm, COURSE_BYTES, &course->range);
    case PLEAT_PROBE_WAIT_CHUNK_CREATE:
        return pleat_vmm_chunk_create(vmm, COURSE_BYTES, &course->chunk);
    case PLEAT_PROBE_WAIT_MAP:
        return pleat_vmm_map(vmm, course->range, COURSE_BYTES, course->chunk);
    case PLEAT_PROBE_WAIT_SET_ACCESS:
        return pleat_vmm_set_access(vmm, course->range, COURSE_BYTES);
    case PLEAT_PROBE_WAIT_ALIAS_MAP:
        return pleat_vmm_map(vmm, course->aliases, COURSE_BYTES, course->chunk);
    case PLEAT_PROBE_WAIT_ALIAS_SET_ACCESS:
        return pleat_vmm_set_access(vmm, course->aliases, COURSE_BYTES);
    case PLEAT_PROBE_WAIT_ALIAS_UNMAP:
        return pleat_vmm_unmap(vmm, course->aliases, COURSE_BYTES);
    case PLEAT_PROBE_WAIT_UNMAP:
        return pleat_vmm_unmap(vmm, course->range, COURSE_BYTES);
    case PLEAT_PROBE_WAIT_CHUNK_RELEASE:
        return pleat_vmm_chunk_release(vmm, course->chunk);
    case PLEAT_PROBE_WAIT_ADDRESS_FREE:
        return pleat_vmm_address_free(vmm, course->range, COURSE_BYTES);
    case PLEAT_PROBE_WAIT_MEM_ALLOC:
        return pleat_vmm_mem_alloc(vmm, COURSE_BYTES, &course->plain);
    case PLEAT_PROBE_WAIT_MEM_FREE:
        return pleat_vmm_mem_free(vmm, course->plain);
    case PLEAT_PROBE_WAIT_COUNT:
        break;
    }
    return PLEAT_ERR_INVALID;
}

/* Each call beside a kernel of its own that ends after a while by itself. */
static pleat_status_t measure_waits(prober_t *prober)
{
    course_t course = {.range = 0};
    prober->probe->kernel_ns = KERNEL_NS;
    TRY(pleat_vmm_address_reserve(prober->vmm, COURSE_BYTES, &course.aliases));
    for (unsigned i = 0; i < PLEAT_PROBE_WAIT_COUNT; i++) {
        double duration_ns = 0;
        TRY(kernel_begin(prober, KERNEL_NS));
        TIME(duration_ns, course_call(prober, &course, (pleat_probe_wait_t)i));
        prober->probe->waits[i].is_kernel_running = kernel_is_running(prober);
        prober->probe->waits[i].ns = duration_ns;
        TRY(kernel_end(prober));
    }
    return pleat_vmm_address_free(prober->vmm, course.aliases, COURSE_BYTES);
}

/* ---- all of it ---- */

static pleat_status_t probe_measure(prober_t *prober)
{
    uint64_t total_bytes = 0;
    TRY(pleat_vmm_granularity(prober->vmm, &prober->probe->granularity_bytes));
    TRY(pleat_vmm_mem_info(prober->vmm, &prober->free_bytes, &total_bytes));
    TRY(measure_rows(prober));
    TRY(measure_calls(prober));
    TRY(measure_crowds(prober));
    TRY(measure_growths(prober));
    return measure_waits(prober);
}

pleat_status_t pleat_probe_run(pleat_vmm_t *vmm, const pleat_gpu_t *gpu, uint32_t reps,
                               pleat_probe_t *probe_out)
{
    if (reps < 1 || reps > PLEAT_PROBE_REPS_MAX) {
        pleat_error_set("probe: %" PRIu32 " repetitions; 1 to %u are possible", reps,
                        PLEAT_PROBE_REPS_MAX);
        return PLEAT_ERR_INVALID;
    }
    if (!pleat_vmm_has_mapping(vmm)) {
        pleat_error_set("probe: device '%s' has no virtual memory to measure", pleat_vmm_name(vmm));
        return PLEAT_ERR_UNSUPPORTED;
    }
    prober_t prober = {.vmm = vmm, .gpu = gpu, .reps = reps, .probe = probe_out};
    memset(probe_out, 0, sizeof *probe_out);
    (void)snprintf(probe_out->gpu, sizeof probe_out->gpu, "%s", pleat_gpu_name(gpu));
    prober.samples = calloc(PLEAT_VMM_CALL_COUNT, sizeof *prober.samples);
    if (prober.samples == NULL) {
        pleat_error_set("probe: no host memory for the samples");
        return PLEAT_ERR_OOM_HOST;
    }
    pleat_status_t status = pleat_gpu_spin_init(gpu, &prober.spin);
    if (status != PLEAT_OK) {
        goto err_samples;
    }
    status = pleat_gpu_stream_create(gpu, &prober.stream);
    if (status != PLEAT_OK) {
        goto err_spin;
    }
    status = pleat_vmm_event_create(vmm, &prober.event);
    if (status == PLEAT_OK) {
        status = probe_measure(&prober);
        pleat_gpu_spin_end(&prober.spin);
        const pleat_status_t ignored = pleat_vmm_event_destroy(vmm, prober.event);
        (void)ignored;
    }
    pleat_gpu_stream_destroy(gpu, prober.stream);
err_spin:
    pleat_gpu_spin_fini(gpu, &prober.spin);
err_samples:
    free((void *)prober.samples);
    return status;
}

void pleat_probe_costs(const pleat_probe_t *probe, pleat_cost_table_t *costs_out)
{
    *costs_out = *pleat_cost_table_h200();
    if (probe->row_count > 0) {
        costs_out->row_count = probe->row_count;
        memset(costs_out->rows, 0, sizeof costs_out->rows);
    }
    for (uint32_t i = 0; i < probe->row_count; i++) {
        costs_out->rows[i].bytes = probe->rows[i].bytes;
        for (unsigned call = 0; call < PLEAT_VMM_CALL_COUNT; call++) {
            if (pleat_cost_is_sized((pleat_vmm_call_t)call)) {
                *pleat_cost_of_row(&costs_out->rows[i], (pleat_vmm_call_t)call) =
                    (uint64_t)probe->rows[i].idle[call].median_ns;
            }
        }
    }
    for (unsigned call = 0; call < PLEAT_VMM_CALL_COUNT; call++) {
        if (probe->calls[call].count > 0) {
            costs_out->call_ns[call] = (uint64_t)probe->calls[call].median_ns;
        }
    }
}

const char *pleat_probe_wait_text(pleat_probe_wait_t wait)
{
    switch (wait) {
#define WAIT_TEXT(NAME, text)     \
    case PLEAT_PROBE_WAIT_##NAME: \
        return text;
        PLEAT_PROBE_WAIT_LIST(WAIT_TEXT)
#undef WAIT_TEXT
    case PLEAT_PROBE_WAIT_COUNT:
        break;
    }
    return "unknown call";
}
