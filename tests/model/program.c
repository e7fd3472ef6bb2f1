/*
 * program: what random programs consist of.
 *
 * Each program has a character of its own: few or many streams, much or little memory, a mix of
 * sizes, more or fewer allocations alive. Sizes gather where rules change: 512 bytes, 1, 2, 10 and
 * 20 MiB, the split limit, each with a little more and a little less.
 */
#include "program.h"

#include "fixture.h"

#include <inttypes.h>
#include <string.h>

#define MIB(count) ((uint64_t)(count)*PLEAT_MIB)

static const pleat_options_t default_options = PLEAT_OPTIONS_INIT;

typedef struct maker {
    fixture_random_t random;
    program_t *program;
    unsigned stream_count;
    unsigned small_percent;  /* of the requests */
    unsigned border_percent; /* of the others */
    unsigned split_percent;  /* of the others: about the split limit */
    uint64_t split_bytes;    /* the split limit in force, or 40 MiB */
    uint64_t rounding_bytes;
    unsigned fault_permille;
    size_t live_target;
    bool has_option_changes;
    uint32_t ids[PROGRAM_CALLS_MAX]; /* allocated and not freed, as far as the maker knows */
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

static uint64_t make_border_size(maker_t *maker)
{
    static const uint64_t borders[] = {512,     4096,    MIB(1),  MIB(2),  MIB(10),
                                       MIB(11), MIB(20), MIB(32), MIB(40), MIB(64)};
    static const int64_t offsets[] = {0, 0, 0, -1, 1, -512, 512, -513, 513};
    const uint64_t border = borders[below(maker, sizeof(borders) / sizeof(borders[0]))];
    const int64_t offset = offsets[below(maker, sizeof(offsets) / sizeof(offsets[0]))];
    const uint64_t bytes = border + (uint64_t)offset;
    return bytes < 1 || bytes > MIB(100) ? border : bytes;
}

/* About the split limit, or about what a block may exceed a request by. */
static uint64_t make_split_size(maker_t *maker)
{
    const uint64_t base =
        has_luck(maker, 700) ? maker->split_bytes : maker->split_bytes + maker->rounding_bytes;
    const uint64_t even = (base + MIB(below(maker, 12)) - MIB(4)) / MIB(2) * MIB(2);
    return has_luck(maker, 800) ? even : even + 512 * below(maker, 3) - 512;
}

static uint64_t make_size(maker_t *maker)
{
    if (has_luck(maker, 2)) {
        static const uint64_t odd[] = {0, (UINT64_C(1) << 60) - 1, UINT64_C(1) << 60, UINT64_MAX,
                                       UINT64_C(1) << 40};
        return odd[below(maker, sizeof(odd) / sizeof(odd[0]))];
    }
    if (below(maker, 100) < maker->small_percent) {
        return 1 + (below(maker, MIB(1)) >> below(maker, 12));
    }
    if (below(maker, 100) < maker->split_percent) {
        return make_split_size(maker);
    }
    if (below(maker, 100) < maker->border_percent) {
        return make_border_size(maker);
    }
    return MIB(1) + (below(maker, MIB(96)) >> below(maker, 7));
}

/* Options that a settings text can say. */
static pleat_options_t make_options(maker_t *maker)
{
    pleat_options_t options = default_options;
    if (has_luck(maker, 250)) {
        options.large_segment_bytes = MIB(11 + below(maker, 40));
    }
    const uint64_t least_mib = options.large_segment_bytes / PLEAT_MIB;
    if (has_luck(maker, 400)) {
        options.max_split_bytes = MIB(least_mib + below(maker, 40));
    }
    if (has_luck(maker, 250)) {
        options.max_non_split_rounding_bytes = MIB(least_mib + below(maker, 40));
    }
    if (has_luck(maker, 300)) {
        for (unsigned i = 0; i < PLEAT_ROUNDUP_ENTRIES; i++) {
            options.roundup_power2_divisions[i] =
                has_luck(maker, 300) ? 0 : UINT64_C(1) << below(maker, 6);
        }
    }
    if (has_luck(maker, 400)) {
        options.garbage_collection_threshold = (double)(1 + below(maker, 98)) / 100.0;
    }
    maker->split_bytes =
        options.max_split_bytes == PLEAT_UNLIMITED ? MIB(40) : options.max_split_bytes;
    maker->rounding_bytes = options.max_non_split_rounding_bytes == 0
                                ? options.large_segment_bytes
                                : options.max_non_split_rounding_bytes;
    return options;
}

static uint64_t make_limit(maker_t *maker)
{
    return has_luck(maker, 300) ? PLEAT_NO_LIMIT : MIB(40 + below(maker, 600)) + below(maker, 3);
}

static void make_fault(maker_t *maker, program_call_t *call)
{
    static const pleat_vmm_call_t kinds[] = {
        PLEAT_VMM_CALL_MEM_ALLOC,        PLEAT_VMM_CALL_MEM_FREE,     PLEAT_VMM_CALL_MEM_INFO,
        PLEAT_VMM_CALL_EVENT_CREATE,     PLEAT_VMM_CALL_EVENT_RECORD, PLEAT_VMM_CALL_EVENT_QUERY,
        PLEAT_VMM_CALL_EVENT_SYNCHRONIZE};
    call->kind = PROGRAM_FAULT;
    call->fault_call = kinds[below(maker, sizeof(kinds) / sizeof(kinds[0]))];
    call->fault_status = PLEAT_ERR_DRIVER;
    if (call->fault_call == PLEAT_VMM_CALL_MEM_ALLOC && has_luck(maker, 500)) {
        call->fault_status = PLEAT_ERR_OOM_DEVICE;
    }
    call->bytes = 1 + below(maker, 4);
}

/* A call that is neither a request nor a free. */
static void make_rare(maker_t *maker, program_call_t *call)
{
    static const struct {
        program_kind_t kind;
        unsigned weight;
    } kinds[] = {{PROGRAM_BUSY, 30}, {PROGRAM_DONE, 25},      {PROGRAM_SYNC, 5},
                 {PROGRAM_EMPTY, 8}, {PROGRAM_RESET_PEAK, 4}, {PROGRAM_RESET_ACCUMULATED, 4},
                 {PROGRAM_SET, 6},   {PROGRAM_SET_LIMIT, 6}};
    uint64_t pick = below(maker, 88);
    size_t i = 0;
    while (pick >= kinds[i].weight) {
        pick -= kinds[i].weight;
        i++;
    }
    call->kind = kinds[i].kind;
    call->stream = below(maker, maker->stream_count);
    if (call->kind == PROGRAM_SET) {
        call->options = make_options(maker);
    }
    if (call->kind == PROGRAM_SET_LIMIT) {
        call->bytes = make_limit(maker);
    }
    const bool is_option = call->kind == PROGRAM_SET || call->kind == PROGRAM_SET_LIMIT;
    if (is_option && !maker->has_option_changes) {
        call->kind = PROGRAM_SYNC;
    }
}

static void make_alloc(maker_t *maker, program_call_t *call)
{
    call->kind = PROGRAM_ALLOC;
    call->id = maker->program->id_count++;
    call->bytes = make_size(maker);
    call->stream = below(maker, maker->stream_count);
    if (has_luck(maker, 500)) {
        call->stream = 0;
    }
    maker->ids[maker->id_count++] = call->id;
}

static void make_call(maker_t *maker, program_call_t *call)
{
    *call = (program_call_t){.kind = PROGRAM_SYNC};
    if (has_luck(maker, maker->fault_permille)) {
        make_fault(maker, call);
    } else if (has_luck(maker, 60)) {
        make_rare(maker, call);
    } else if (maker->id_count == 0 || below(maker, 2 * maker->live_target) >= maker->id_count) {
        make_alloc(maker, call);
    } else {
        const size_t i = below(maker, maker->id_count);
        call->id = maker->ids[i];
        call->stream = below(maker, maker->stream_count);
        call->kind = has_luck(maker, 200)  ? PROGRAM_RECORD
                     : has_luck(maker, 20) ? PROGRAM_FREE_INTERIOR
                                           : PROGRAM_FREE;
        if (call->kind == PROGRAM_FREE) {
            maker->ids[i] = maker->ids[--maker->id_count];
        }
    }
}

void program_make(program_t *program, uint64_t seed, size_t count)
{
    static maker_t maker;
    memset(&maker, 0, sizeof(maker));
    maker.random.state = seed;
    maker.program = program;
    maker.stream_count = 1 + (unsigned)below(&maker, PROGRAM_STREAMS_MAX);
    maker.small_percent = (unsigned)below(&maker, 101);
    maker.border_percent = (unsigned)below(&maker, 101);
    maker.split_percent = has_luck(&maker, 300) ? (unsigned)below(&maker, 101) : 0;
    maker.fault_permille = has_luck(&maker, 400) ? 15 : 0;
    maker.live_target = 4 + (UINT64_C(1) << below(&maker, 9));
    maker.has_option_changes = has_luck(&maker, 400);
    *program = (program_t){.seed = seed};
    program->capacity_bytes = has_luck(&maker, 300)
                                  ? PLEAT_GIB * 100
                                  : MIB(60 + (below(&maker, 2000) >> below(&maker, 5)));
    program->options = make_options(&maker);
    program->options.limit_bytes = make_limit(&maker);
    program->count = count < PROGRAM_CALLS_MAX ? count : PROGRAM_CALLS_MAX;
    for (size_t i = 0; i < program->count; i++) {
        make_call(&maker, &program->calls[i]);
    }
}

/* ---- text ---- */

static void print_settings(const pleat_options_t *options, FILE *file)
{
    fprintf(file, "large_segment_size_mb:%" PRIu64, options->large_segment_bytes / PLEAT_MIB);
    if (options->max_split_bytes != PLEAT_UNLIMITED) {
        fprintf(file, ",max_split_size_mb:%" PRIu64, options->max_split_bytes / PLEAT_MIB);
    }
    if (options->max_non_split_rounding_bytes != 0) {
        fprintf(file, ",max_non_split_rounding_mb:%" PRIu64,
                options->max_non_split_rounding_bytes / PLEAT_MIB);
    }
    if (options->garbage_collection_threshold > 0) {
        fprintf(file, ",garbage_collection_threshold:%.2f", options->garbage_collection_threshold);
    }
    static const uint64_t none[PLEAT_ROUNDUP_ENTRIES] = {0};
    if (memcmp(options->roundup_power2_divisions, none, sizeof(none)) != 0) {
        for (unsigned i = 0; i < PLEAT_ROUNDUP_ENTRIES; i++) {
            fprintf(file, "%s%u:%" PRIu64, i == 0 ? ",roundup_power2_divisions:[" : ",", 1u << i,
                    options->roundup_power2_divisions[i]);
        }
        fputc(']', file);
    }
    fputc('\n', file);
}

static void print_call(const program_call_t *call, FILE *file)
{
    switch (call->kind) {
    case PROGRAM_ALLOC:
        if (call->has_failed) {
            fprintf(file, "oom %" PRIu64 " %" PRIu64 "\n", call->bytes, call->stream);
        } else {
            fprintf(file, "alloc a%u %" PRIu64 " %" PRIu64 " *\n", call->id, call->bytes,
                    call->stream);
        }
        break;
    case PROGRAM_FREE:
        fprintf(file, "free a%u\n", call->id);
        break;
    case PROGRAM_FREE_INTERIOR:
        fprintf(file, "# free of an address inside a%u\n", call->id);
        break;
    case PROGRAM_RECORD:
        fprintf(file, "record a%u %" PRIu64 "\n", call->id, call->stream);
        break;
    case PROGRAM_EMPTY:
        fputs("empty\n", file);
        break;
    case PROGRAM_BUSY:
        fprintf(file, "busy %" PRIu64 "\n", call->stream);
        break;
    case PROGRAM_DONE:
        fprintf(file, "done %" PRIu64 "\n", call->stream);
        break;
    case PROGRAM_SYNC:
        fputs("sync\n", file);
        break;
    case PROGRAM_RESET_PEAK:
        fputs("reset_peak\n", file);
        break;
    case PROGRAM_RESET_ACCUMULATED:
        fputs("reset_acc\n", file);
        break;
    case PROGRAM_SET:
        fputs("set ", file);
        print_settings(&call->options, file);
        break;
    case PROGRAM_SET_LIMIT:
        fprintf(file, "set_limit %" PRIu64 "\n", call->bytes == PLEAT_NO_LIMIT ? 0 : call->bytes);
        break;
    case PROGRAM_FAULT:
        fprintf(file, "# %s number %" PRIu64 " from here fails: %s\n",
                pleat_vmm_call_name(call->fault_call), call->bytes,
                pleat_status_text(call->fault_status));
        break;
    }
}

void program_print(const program_t *program, FILE *file)
{
    fprintf(file, "# Random program, seed %" PRIu64 "\nmode classic\nsettings ", program->seed);
    print_settings(&program->options, file);
    fprintf(file, "total_memory %" PRIu64 "\n", program->capacity_bytes);
    if (program->options.limit_bytes != PLEAT_NO_LIMIT) {
        fprintf(file, "limit %" PRIu64 "\n", program->options.limit_bytes);
    }
    for (size_t i = 0; i < program->count; i++) {
        print_call(&program->calls[i], file);
    }
}
