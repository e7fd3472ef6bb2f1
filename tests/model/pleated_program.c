/*
 * pleated_program: what random programs consist of.
 *
 * Each program has a character of its own: few or many streams, much or little memory, a few sizes
 * or many, short or long kernels, more or fewer allocations alive. The device and the chunks are
 * small, so that memory runs out, views are made and given up, and little is left to luck.
 */
#include "pleated_program.h"

#include "fixture.h"

#include <inttypes.h>
#include <string.h>

#define MIB(count) ((uint64_t)(count)*PLEAT_MIB)

static const pleat_options_t default_options = PLEAT_OPTIONS_INIT;

typedef struct maker {
    fixture_random_t random;
    pleated_program_t *program;
    unsigned modes;
    unsigned stream_count;
    unsigned small_percent; /* of the requests */
    unsigned usual_percent; /* of the others */
    uint64_t usual_bytes[8];
    uint64_t largest_bytes;
    uint64_t longest_ns;
    unsigned ahead_percent;
    unsigned fault_permille;
    unsigned check_percent; /* of the frees */
    unsigned foreign_permille;
    size_t live_target;
    unsigned pool_permille;
    bool has_option_changes;
    bool has_mode_changes;
    uint32_t ids[PLEATED_CALLS_MAX]; /* allocated and not freed, as far as the maker knows */
    size_t id_count;
} maker_t;

static uint64_t below(maker_t *maker, uint64_t end)
{
    return fixture_random_below(&maker->random, end);
}

static bool has_luck(maker_t *maker, unsigned permille)
{
    return below(maker, 1000) < permille;
}

/* ---- sizes, times ---- */

static uint64_t make_any_size(maker_t *maker)
{
    const uint64_t bytes = MIB(1) + 1 + (below(maker, maker->largest_bytes) >> below(maker, 6));
    return has_luck(maker, 500) ? pleat_round_up(bytes, MIB(2)) : bytes;
}

static uint64_t make_size(maker_t *maker)
{
    if (has_luck(maker, 2)) {
        static const uint64_t odd[] = {
            0, 1, 512, UINT64_C(1) << 60, UINT64_C(1) << 40, PLEAT_GIB * 2};
        return odd[below(maker, sizeof(odd) / sizeof(odd[0]))];
    }
    if (below(maker, 100) < maker->small_percent) {
        return 1 + (below(maker, MIB(1)) >> below(maker, 12));
    }
    return below(maker, 100) < maker->usual_percent ? maker->usual_bytes[below(maker, 8)]
                                                    : make_any_size(maker);
}

static uint64_t make_duration(maker_t *maker)
{
    return maker->longest_ns == 0 ? 0 : below(maker, maker->longest_ns) >> below(maker, 10);
}

/* ---- options ---- */

static pleat_mode_t make_mode(maker_t *maker)
{
    /* Pleated mode is what this is about: it comes up as often as the others together. */
    if ((maker->modes & (1u << PLEAT_MODE_PLEATED)) != 0 && has_luck(maker, 500)) {
        return PLEAT_MODE_PLEATED;
    }
    pleat_mode_t mode = PLEAT_MODE_PLEATED;
    do {
        mode = (pleat_mode_t)below(maker, PLEAT_MODE_COUNT);
    } while ((maker->modes & (1u << mode)) == 0);
    return mode;
}

static void make_pleated_options(maker_t *maker, pleat_options_t *options)
{
    static const double slacks[] = {0.0, 0.005, 0.02, 0.1, 0.5, 1.0};
    static const double fractions[] = {0.0, 0.003, 0.02, 0.1, 1.0};
    static const uint64_t mappings[] = {0, 1, 3, 8, 20, 60, 100000};
    static const uint64_t idle_ms[] = {0, 0, 0, 1, 5, 100};
    options->pleated_slack = slacks[below(maker, sizeof(slacks) / sizeof(slacks[0]))];
    options->pleated_handle_fraction =
        fractions[below(maker, sizeof(fractions) / sizeof(fractions[0]))];
    options->pleated_handle_min_bytes = MIB(2) << below(maker, 5);
    options->pleated_handle_max_bytes = MIB(2) << below(maker, 6);
    options->pleated_view_mappings = mappings[below(maker, sizeof(mappings) / sizeof(mappings[0]))];
    options->pleated_idle_ms = idle_ms[below(maker, sizeof(idle_ms) / sizeof(idle_ms[0]))];
    static const double factors[] = {1.0, 1.0, 1.0, 1.25, 2.0};
    options->pleated_growth_factor = factors[below(maker, sizeof(factors) / sizeof(factors[0]))];
}

/* Options that a settings text can say. */
static pleat_options_t make_options(maker_t *maker, pleat_mode_t mode)
{
    pleat_options_t options = default_options;
    options.mode = mode;
    if (has_luck(maker, 250)) {
        options.large_segment_bytes = MIB(12 + 2 * below(maker, 10));
    }
    if (has_luck(maker, 250)) {
        options.max_split_bytes = MIB(options.large_segment_bytes / PLEAT_MIB + below(maker, 20));
    }
    if (has_luck(maker, 150)) {
        options.garbage_collection_threshold = (double)(1 + below(maker, 98)) / 100.0;
    }
    if (has_luck(maker, 800)) {
        make_pleated_options(maker, &options);
    }
    return options;
}

static uint64_t make_limit(maker_t *maker)
{
    return has_luck(maker, 400) ? PLEAT_NO_LIMIT : MIB(30 + below(maker, 400)) + below(maker, 3);
}

/* ---- calls ---- */

static void make_fault(maker_t *maker, pleated_call_t *call)
{
    call->kind = PLEATED_FAULT;
    call->fault_call = (pleat_vmm_call_t)below(maker, PLEAT_VMM_CALL_COUNT);
    call->fault_status = PLEAT_ERR_DRIVER;
    const bool takes_memory = call->fault_call == PLEAT_VMM_CALL_MEM_ALLOC ||
                              call->fault_call == PLEAT_VMM_CALL_ADDRESS_RESERVE ||
                              call->fault_call == PLEAT_VMM_CALL_CHUNK_CREATE ||
                              call->fault_call == PLEAT_VMM_CALL_MAP;
    if (takes_memory && has_luck(maker, 500)) {
        call->fault_status = PLEAT_ERR_OOM_DEVICE;
    }
    call->bytes = 1 + below(maker, 6);
}

static void make_set(maker_t *maker, pleated_call_t *call)
{
    pleated_program_t *program = maker->program;
    call->kind = PLEATED_SYNC;
    if (program->option_count < PLEATED_OPTIONS_MAX && maker->has_option_changes) {
        call->kind = PLEATED_SET;
        call->options = program->option_count++;
        program->options[call->options] = make_options(
            maker, maker->has_mode_changes ? make_mode(maker) : program->options[0].mode);
    }
}

/* A call that is neither a request nor a free. */
static void make_rare(maker_t *maker, pleated_call_t *call)
{
    static const struct {
        pleated_kind_t kind;
        unsigned weight;
    } kinds[] = {{PLEATED_BUSY, 20},     {PLEATED_DONE, 18},
                 {PLEATED_SYNC, 8},      {PLEATED_ADVANCE, 20},
                 {PLEATED_EMPTY, 8},     {PLEATED_RESET_PEAK, 2},
                 {PLEATED_SET, 6},       {PLEATED_RESET_ACCUMULATED, 2},
                 {PLEATED_SET_LIMIT, 6}, {PLEATED_FREE_INTERIOR, 2},
                 {PLEATED_SNAPSHOT, 2}};
    uint64_t pick = below(maker, 94);
    size_t i = 0;
    while (pick >= kinds[i].weight) {
        pick -= kinds[i].weight;
        i++;
    }
    call->kind = kinds[i].kind;
    call->stream = below(maker, maker->stream_count);
    call->duration_ns = below(maker, 10 * maker->longest_ns + 1);
    if (call->kind == PLEATED_SET) {
        make_set(maker, call);
    } else if (call->kind == PLEATED_SET_LIMIT && !maker->has_option_changes) {
        call->kind = PLEATED_DONE;
    } else if (call->kind == PLEATED_SET_LIMIT) {
        call->bytes = make_limit(maker);
    } else if (call->kind == PLEATED_FREE_INTERIOR && maker->id_count > 0) {
        call->id = maker->ids[below(maker, maker->id_count)];
    }
}

static void make_pool_call(maker_t *maker, pleated_call_t *call)
{
    static const struct {
        pleated_kind_t kind;
        unsigned weight;
    } kinds[] = {{PLEATED_POOL_BEGIN, 30},   {PLEATED_POOL_END, 32},    {PLEATED_POOL_ACQUIRE, 4},
                 {PLEATED_POOL_RELEASE, 14}, {PLEATED_POOL_DELETE, 10}, {PLEATED_POOL_EMPTY, 3},
                 {PLEATED_POOL_OVERFLOW, 5}, {PLEATED_POOL_NO_SPLIT, 6}};
    uint64_t pick = below(maker, 104);
    size_t i = 0;
    while (pick >= kinds[i].weight) {
        pick -= kinds[i].weight;
        i++;
    }
    call->kind = kinds[i].kind;
    call->id = (uint32_t)below(maker, PLEATED_POOLS_MAX);
    call->stream = has_luck(maker, 400) ? PLEATED_STREAMS_MAX : below(maker, maker->stream_count);
}

static void make_alloc(maker_t *maker, pleated_call_t *call)
{
    call->kind = has_luck(maker, 30) ? PLEATED_ALLOC_SINGLE : PLEATED_ALLOC;
    call->id = maker->program->id_count++;
    call->bytes = make_size(maker);
    call->stream = has_luck(maker, 300) ? 0 : below(maker, maker->stream_count);
    call->duration_ns = make_duration(maker);
    maker->ids[maker->id_count++] = call->id;
}

static void make_call(maker_t *maker, pleated_call_t *call)
{
    *call = (pleated_call_t){.kind = PLEATED_SYNC};
    if (has_luck(maker, maker->fault_permille)) {
        make_fault(maker, call);
    } else if (has_luck(maker, maker->pool_permille)) {
        make_pool_call(maker, call);
    } else if (has_luck(maker, 60)) {
        make_rare(maker, call);
    } else if (maker->id_count == 0 || below(maker, 2 * maker->live_target) >= maker->id_count) {
        make_alloc(maker, call);
    } else {
        const size_t i = below(maker, maker->id_count);
        call->id = maker->ids[i];
        call->stream = below(maker, maker->stream_count);
        call->duration_ns = make_duration(maker);
        call->kind = has_luck(maker, maker->foreign_permille)
                         ? (has_luck(maker, 500) ? PLEATED_RECORD : PLEATED_BORROW)
                     : has_luck(maker, 50) ? PLEATED_CHECK
                                           : PLEATED_FREE;
        if (call->kind == PLEATED_FREE) {
            maker->ids[i] = maker->ids[--maker->id_count];
            call->duration_ns =
                below(maker, 100) < maker->check_percent ? 1 + call->duration_ns : 0;
        }
    }
    if (below(maker, 100) < maker->ahead_percent) {
        call->ahead_stream = below(maker, maker->stream_count);
        call->ahead_count = 1 + (uint32_t)below(maker, 8);
    }
}

void pleated_program_make(pleated_program_t *program, uint64_t seed, size_t count, unsigned modes)
{
    static const uint64_t longest_ns[] = {0, 1000, 100000, 1000000, 20000000};
    static maker_t maker;
    memset(&maker, 0, sizeof(maker));
    maker.random.state = seed;
    maker.program = program;
    maker.modes = modes;
    maker.stream_count = 1 + (unsigned)below(&maker, PLEATED_STREAMS_MAX);
    maker.small_percent = has_luck(&maker, 500) ? 0 : (unsigned)below(&maker, 101);
    maker.usual_percent = (unsigned)below(&maker, 101);
    maker.largest_bytes = MIB(8) << below(&maker, 5);
    for (unsigned i = 0; i < 8; i++) {
        maker.usual_bytes[i] = make_any_size(&maker);
    }
    maker.longest_ns = longest_ns[below(&maker, sizeof(longest_ns) / sizeof(longest_ns[0]))];
    maker.ahead_percent = has_luck(&maker, 500) ? (unsigned)below(&maker, 101) : 0;
    maker.check_percent = (unsigned)below(&maker, 101);
    maker.foreign_permille = has_luck(&maker, 500) ? 150 : 0;
    maker.fault_permille = has_luck(&maker, 400) ? 15 : 0;
    maker.live_target = 2 + (UINT64_C(1) << below(&maker, 7)) + below(&maker, 30);
    maker.pool_permille = has_luck(&maker, 500) ? 5 + (unsigned)below(&maker, 60) : 0;
    maker.has_option_changes = has_luck(&maker, 400);
    maker.has_mode_changes = has_luck(&maker, 500);
    *program = (pleated_program_t){.seed = seed};
    program->capacity_bytes = MIB(64 + 2 * (below(&maker, 480) >> below(&maker, 3)));
    program->options[0] = make_options(&maker, make_mode(&maker));
    program->options[0].limit_bytes = has_luck(&maker, 700) ? PLEAT_NO_LIMIT : make_limit(&maker);
    program->option_count = 1;
    program->is_abrupt = has_luck(&maker, 300);
    program->count = count < PLEATED_CALLS_MAX ? count : PLEATED_CALLS_MAX;
    for (size_t i = 0; i < program->count; i++) {
        make_call(&maker, &program->calls[i]);
    }
}

/* ---- text ---- */

/* What PyTorch's settings can say, and the rest as a comment. */
static void print_settings(const pleat_options_t *options, FILE *file)
{
    fprintf(file, "large_segment_size_mb:%" PRIu64, options->large_segment_bytes / PLEAT_MIB);
    if (options->max_split_bytes != PLEAT_UNLIMITED) {
        fprintf(file, ",max_split_size_mb:%" PRIu64, options->max_split_bytes / PLEAT_MIB);
    }
    if (options->garbage_collection_threshold > 0) {
        fprintf(file, ",garbage_collection_threshold:%.2f", options->garbage_collection_threshold);
    }
    if (options->mode != PLEAT_MODE_CLASSIC) {
        fputs(",expandable_segments:True", file);
    }
    fprintf(
        file,
        "\n# mode %s, pleated_slack:%g,pleated_handle_fraction:%g,pleated_handle_min_mb:%" PRIu64
        ",pleated_handle_max_mb:%" PRIu64 ",pleated_view_mappings:%" PRIu64
        ",pleated_idle_ms:%" PRIu64 ",growth_factor:%g\n",
        pleat_mode_name(options->mode), options->pleated_slack, options->pleated_handle_fraction,
        options->pleated_handle_min_bytes / PLEAT_MIB,
        options->pleated_handle_max_bytes / PLEAT_MIB, options->pleated_view_mappings,
        options->pleated_idle_ms, options->pleated_growth_factor);
}

static void print_request(const pleated_call_t *call, FILE *file)
{
    if (call->status == PLEAT_ERR_OOM_DEVICE) {
        fprintf(file, "oom %" PRIu64 " %" PRIu64 "\n", call->bytes, call->stream);
    } else {
        fprintf(file, "%salloc a%u %" PRIu64 " %" PRIu64 " *\n",
                call->status == PLEAT_OK ? "" : "# fails: ", call->id, call->bytes, call->stream);
    }
    fprintf(file, "# %sfilled in %" PRIu64 " ns\n",
            call->kind == PLEATED_ALLOC ? "" : "in one chunk, ", call->duration_ns);
}

/* Calls on an allocation. */
static void print_use(const pleated_call_t *call, FILE *file)
{
    if (call->kind == PLEATED_FREE) {
        fprintf(file, "%sfree a%u\n", call->duration_ns > 0 ? "# checked before\n" : "", call->id);
    } else if (call->kind == PLEATED_RECORD) {
        fprintf(file, "record a%u %" PRIu64 "\n# which checks it in %" PRIu64 " ns\n", call->id,
                call->stream, call->duration_ns);
    } else if (call->kind == PLEATED_CHECK) {
        fprintf(file, "# a%u is checked in %" PRIu64 " ns\n", call->id, call->duration_ns);
    } else if (call->kind == PLEATED_BORROW) {
        fprintf(file, "# stream %" PRIu64 " writes a%u in %" PRIu64 " ns, both ordered by events\n",
                call->stream, call->id, call->duration_ns);
    } else {
        fprintf(file, "# free of an address inside a%u\n", call->id);
    }
}

static bool is_request(const pleated_call_t *call)
{
    return call->kind == PLEATED_ALLOC || call->kind == PLEATED_ALLOC_SINGLE;
}

/* Is it a call on an allocation that is not there? Keeps what is there up to date. */
static bool is_skipped(const pleated_call_t *call, bool *live)
{
    const bool is_use = call->kind == PLEATED_FREE || call->kind == PLEATED_FREE_INTERIOR ||
                        call->kind == PLEATED_CHECK || call->kind == PLEATED_RECORD ||
                        call->kind == PLEATED_BORROW;
    const bool was_live = live[call->id];
    if (is_request(call)) {
        live[call->id] = call->status == PLEAT_OK && call->bytes > 0;
    } else if (call->kind == PLEATED_FREE) {
        live[call->id] = false;
    }
    return is_use && !was_live;
}

/* Pools as cases know them, which have no filter by stream. */
static void print_pool_call(const pleated_call_t *call, FILE *file)
{
    if (call->kind == PLEATED_POOL_BEGIN && call->stream == PLEATED_STREAMS_MAX) {
        fprintf(file, "pool_begin %u all\n", call->id);
    } else if (call->kind == PLEATED_POOL_BEGIN) {
        fprintf(file, "# pool_begin %u, requests of stream %" PRIu64 "\n", call->id, call->stream);
    } else if (call->kind == PLEATED_POOL_ACQUIRE) {
        fprintf(file, "# a use more of pool %u\n", call->id);
    } else if (call->kind == PLEATED_POOL_EMPTY) {
        fprintf(file, "# pool %u is emptied\n", call->id);
    } else if (call->kind == PLEATED_POOL_OVERFLOW || call->kind == PLEATED_POOL_NO_SPLIT) {
        fprintf(file, "# pool %u %s\n", call->id,
                call->kind == PLEATED_POOL_OVERFLOW ? "helps others, or no longer"
                                                    : "hands out whole segments");
    } else {
        fprintf(file, "%s %u\n",
                call->kind == PLEATED_POOL_END       ? "pool_end"
                : call->kind == PLEATED_POOL_RELEASE ? "pool_release"
                                                     : "pool_delete",
                call->id);
    }
}

static void print_call(const pleated_program_t *program, const pleated_call_t *call, FILE *file)
{
    switch (call->kind) {
    case PLEATED_ALLOC:
    case PLEATED_ALLOC_SINGLE:
        print_request(call, file);
        break;
    case PLEATED_FREE:
    case PLEATED_FREE_INTERIOR:
    case PLEATED_CHECK:
    case PLEATED_RECORD:
    case PLEATED_BORROW:
        print_use(call, file);
        break;
    case PLEATED_EMPTY:
        fputs("empty\n", file);
        break;
    case PLEATED_BUSY:
        fprintf(file, "busy %" PRIu64 "\n", call->stream);
        break;
    case PLEATED_DONE:
        fprintf(file, "done %" PRIu64 "\n", call->stream);
        break;
    case PLEATED_SYNC:
        fprintf(file, "done %" PRIu64 "\n# waited for by the host\n", call->stream);
        break;
    case PLEATED_ADVANCE:
        fprintf(file, "# %" PRIu64 " ns pass\n", call->duration_ns);
        break;
    case PLEATED_RESET_PEAK:
        fputs("reset_peak\n", file);
        break;
    case PLEATED_RESET_ACCUMULATED:
        fputs("reset_acc\n", file);
        break;
    case PLEATED_SET:
        fputs("set ", file);
        print_settings(&program->options[call->options], file);
        break;
    case PLEATED_SET_LIMIT:
        fprintf(file, "set_limit %" PRIu64 "\n", call->bytes == PLEAT_NO_LIMIT ? 0 : call->bytes);
        break;
    case PLEATED_FAULT:
        fprintf(file, "# %s number %" PRIu64 " from here fails: %s\n",
                pleat_vmm_call_name(call->fault_call), call->bytes,
                pleat_status_text(call->fault_status));
        break;
    case PLEATED_SNAPSHOT:
        fputs("# a snapshot is taken\n", file);
        break;
    case PLEATED_POOL_ACQUIRE:
    case PLEATED_POOL_BEGIN:
    case PLEATED_POOL_END:
    case PLEATED_POOL_RELEASE:
    case PLEATED_POOL_DELETE:
    case PLEATED_POOL_EMPTY:
    case PLEATED_POOL_OVERFLOW:
    case PLEATED_POOL_NO_SPLIT:
        print_pool_call(call, file);
        break;
    }
    if (call->ahead_count > 0) {
        fprintf(file, "# %u kernels of stream %" PRIu64 " run, if they can\n", call->ahead_count,
                call->ahead_stream);
    }
}

void pleated_program_print(const pleated_program_t *program, FILE *file)
{
    fprintf(file, "# Random program, seed %" PRIu64 "\nmode %s\nsettings ", program->seed,
            pleat_mode_name(program->options[0].mode));
    print_settings(&program->options[0], file);
    fprintf(file, "total_memory %" PRIu64 "\n", program->capacity_bytes);
    if (program->options[0].limit_bytes != PLEAT_NO_LIMIT) {
        fprintf(file, "limit %" PRIu64 "\n", program->options[0].limit_bytes);
    }
    static bool live[PLEATED_CALLS_MAX];
    memset(live, 0, sizeof(live));
    for (size_t i = 0; i < program->count; i++) {
        if (!is_skipped(&program->calls[i], live)) {
            print_call(program, &program->calls[i], file);
        }
    }
    if (program->is_abrupt) {
        fputs("# The allocator is destroyed while its streams work.\n", file);
    }
}
