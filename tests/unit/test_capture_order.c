/*
 * Tests of capture_order: which frees end inside a capture, on a small graph that the test builds
 * as a capture would.
 */
#include "core/allocator.h"
#include "core/capture_order.h"
#include "core/deferred.h"

#include "apart_device.h"
#include "fixture.h"
#include "host_fault.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#define MIB(count) ((uint64_t)(count)*PLEAT_MIB)

static const pleat_pool_id_t id = {0, 7};

/* ---- a graph ---- */

enum { NODES_MAX = 4096, STREAMS = 4, LAST_MAX = 200 };

typedef struct graph {
    struct {
        uint64_t capture; /* 0: does not capture */
        size_t count;
        pleat_node_t last[LAST_MAX];
    } streams[STREAMS];
    struct {
        size_t count;
        pleat_node_t parents[LAST_MAX];
    } * nodes; /* by handle, from 1 on */
    size_t node_count;
    uint64_t looks; /* at nodes */
    bool fails_last;
    uint64_t fails_node; /* the n-th look from now on; 0: none */
} graph_t;

static pleat_status_t graph_refuse(void)
{
    pleat_error_set("the graph does not tell");
    return PLEAT_ERR_DRIVER;
}

static void graph_copy(const pleat_node_t *from, size_t count, size_t capacity, pleat_node_t *nodes)
{
    memcpy(nodes, from, (count < capacity ? count : capacity) * sizeof(*nodes));
}

static pleat_status_t graph_last(void *context, pleat_stream_t stream, size_t capacity,
                                 pleat_node_t *nodes, size_t *count_out, uint64_t *capture_out)
{
    const graph_t *graph = context;
    if (graph->fails_last) {
        return graph_refuse();
    }
    *capture_out = graph->streams[stream].capture;
    *count_out = *capture_out == 0 ? 0 : graph->streams[stream].count;
    graph_copy(graph->streams[stream].last, *count_out, capacity, nodes);
    return PLEAT_OK;
}

static pleat_status_t graph_dependencies(void *context, pleat_node_t node, size_t capacity,
                                         pleat_node_t *nodes, size_t *count_out)
{
    graph_t *graph = context;
    graph->looks++;
    if (graph->fails_node > 0 && --graph->fails_node == 0) {
        return graph_refuse();
    }
    *count_out = graph->nodes[node].count;
    graph_copy(graph->nodes[node].parents, *count_out, capacity, nodes);
    return PLEAT_OK;
}

/* A kernel: one node behind the last ones, which is now the last. */
static pleat_node_t kernel(graph_t *graph, pleat_stream_t stream)
{
    FIXTURE_REQUIRE(graph->node_count + 1 < NODES_MAX, "too many nodes");
    const pleat_node_t node = ++graph->node_count;
    graph->nodes[node].count = graph->streams[stream].count;
    memcpy(graph->nodes[node].parents, graph->streams[stream].last,
           sizeof(graph->nodes[node].parents));
    graph->streams[stream].count = 1;
    graph->streams[stream].last[0] = node;
    return node;
}

/* @p stream waits for @p other, and captures from now on if that does. */
static void join(graph_t *graph, pleat_stream_t stream, pleat_stream_t other)
{
    graph->streams[stream].capture = graph->streams[other].capture;
    for (size_t i = 0; i < graph->streams[other].count; i++) {
        const size_t count = graph->streams[stream].count++;
        FIXTURE_REQUIRE(count < LAST_MAX, "too many last nodes");
        graph->streams[stream].last[count] = graph->streams[other].last[i];
    }
}

typedef struct scene {
    fixture_t f;
    graph_t graph;
} scene_t;

static void scene_init(scene_t *scene, pleat_mode_t mode)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.mode = mode;
    options.reuse_in_capture = 1;
    *scene = (scene_t){
        .f = fixture_create(&(fixture_options_t){.options = &options, .allocates_apart = true})};
    scene->graph.nodes = calloc(NODES_MAX, sizeof(*scene->graph.nodes));
    FIXTURE_REQUIRE(scene->graph.nodes != NULL, "no host memory");
    apart_device_set_captures(scene->f.vmm, graph_last, graph_dependencies, &scene->graph);
}

static void scene_fini(scene_t *scene)
{
    fixture_check_and_destroy(&scene->f);
    free(scene->graph.nodes);
}

/* Stream 0 captures a first kernel; requests go to a pool. */
static void scene_begin(scene_t *scene)
{
    FIXTURE_REQUIRE(pleat_pool_begin(scene->f.allocator, id, NULL, NULL) == PLEAT_OK, "%s",
                    pleat_last_error());
    scene->graph.streams[0].capture++;
    (void)kernel(&scene->graph, 0);
}

static void scene_end(scene_t *scene)
{
    FIXTURE_REQUIRE(pleat_pool_end(scene->f.allocator, id) == PLEAT_OK, "%s", pleat_last_error());
    for (size_t i = 0; i < STREAMS; i++) {
        scene->graph.streams[i].capture = 0;
        scene->graph.streams[i].count = 0;
    }
}

/* Memory of stream 0 that stream 1 used, freed while the two do not know of each other any more. */
static pleat_devptr_t scene_free(scene_t *scene)
{
    const pleat_devptr_t ptr = fixture_alloc(&scene->f, MIB(24), 0);
    join(&scene->graph, 1, 0);
    (void)kernel(&scene->graph, 1);
    fixture_record(&scene->f, ptr, 1);
    (void)kernel(&scene->graph, 0);
    fixture_free(&scene->f, ptr);
    fixture_check(&scene->f);
    return ptr;
}

static size_t deferred(const scene_t *scene)
{
    return scene->f.allocator->waiting.deferred.count;
}

static const pleat_mode_t modes[] = {PLEAT_MODE_CLASSIC, PLEAT_MODE_TORCH_EXPANDABLE,
                                     PLEAT_MODE_PLEATED};

/* ---- reuse ---- */

Test(capture_order, memory_is_used_again_behind_all_its_uses, .timeout = 20)
{
    for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
        scene_t s;
        scene_init(&s, modes[m]);
        scene_begin(&s);
        const pleat_devptr_t ptr = scene_free(&s);
        const pleat_devptr_t other = fixture_alloc(&s.f, MIB(24), 0);
        cr_expect(ne(u64, other, ptr), "stream 0 does not wait for stream 1 yet");
        cr_expect(eq(sz, deferred(&s), 1));
        (void)kernel(&s.graph, 0);
        join(&s.graph, 0, 1);
        cr_expect(eq(u64, fixture_alloc(&s.f, MIB(24), 0), ptr));
        cr_expect(eq(sz, deferred(&s), 0));
        cr_expect(eq(ptr, s.f.allocator->waiting.capture.marks, NULL));
        cr_expect(eq(u64, fixture_calls(&s.f, PLEAT_VMM_CALL_EVENT_RECORD), 0));
        scene_end(&s);
        cr_expect(eq(ptr, s.f.allocator->waiting.capture.pasts, NULL));
        scene_fini(&s);
    }
}

Test(capture_order, only_when_it_is_asked_for, .timeout = 10)
{
    scene_t s;
    scene_init(&s, PLEAT_MODE_CLASSIC);
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    fixture_set_options(&s.f, &options);
    s.graph.fails_last = true; /* nobody asks */
    scene_begin(&s);
    const pleat_devptr_t ptr = scene_free(&s);
    join(&s.graph, 0, 1);
    cr_expect(ne(u64, fixture_alloc(&s.f, MIB(24), 0), ptr));
    cr_expect(eq(sz, deferred(&s), 1));
    cr_expect(eq(u64, s.graph.looks, 0));
    scene_end(&s);
    scene_fini(&s);
}

Test(capture_order, switched_off_meanwhile_the_free_waits, .timeout = 10)
{
    scene_t s;
    scene_init(&s, PLEAT_MODE_CLASSIC);
    scene_begin(&s);
    const pleat_devptr_t ptr = scene_free(&s);
    join(&s.graph, 0, 1);
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    fixture_set_options(&s.f, &options);
    cr_expect(ne(u64, fixture_alloc(&s.f, MIB(24), 0), ptr));
    cr_expect(eq(sz, deferred(&s), 1));
    scene_end(&s);
    fixture_empty(&s.f);
    cr_expect(eq(ptr, s.f.allocator->waiting.capture.marks, NULL));
    scene_fini(&s);
}

Test(capture_order, other_streams_get_nothing_of_it, .timeout = 10)
{
    scene_t s;
    scene_init(&s, PLEAT_MODE_CLASSIC);
    scene_begin(&s);
    (void)scene_free(&s);
    join(&s.graph, 1, 0);
    (void)fixture_alloc(&s.f, MIB(24), 1);
    cr_expect(eq(sz, deferred(&s), 1));
    cr_expect(eq(u64, s.graph.looks, 0), "no block of stream 1 is marked");
    scene_end(&s);
    scene_fini(&s);
}

/* ---- no mark ---- */

Test(capture_order, without_a_mark_it_waits_for_the_end, .timeout = 20)
{
    enum {
        BEFORE,
        BEFORE_AND_INSIDE,
        EAGER,
        EAGER_LATER,
        NOT_CAPTURING,
        OTHER_CAPTURE,
        NOT_TOLD,
        NO_HOST_MEMORY,
        NO_NODES,
        CASES
    };
    for (int i = 0; i < CASES; i++) {
        scene_t s;
        scene_init(&s, PLEAT_MODE_CLASSIC);
        const pleat_devptr_t ptr = fixture_alloc(&s.f, MIB(24), 0);
        if (i == BEFORE || i == BEFORE_AND_INSIDE) {
            fixture_record(&s.f, ptr, 2);
        }
        scene_begin(&s);
        if (i == EAGER) {
            fixture_record(&s.f, ptr, 2);
        }
        join(&s.graph, 1, 0);
        join(&s.graph, 2, 0);
        fixture_record(&s.f, ptr, 1);
        if (i == BEFORE_AND_INSIDE) {
            fixture_record(&s.f, ptr, 2);
        }
        if (i == EAGER_LATER) {
            s.graph.streams[1].capture = 0;
            fixture_record(&s.f, ptr, 1);
            join(&s.graph, 1, 0);
        }
        s.graph.streams[1].capture += i == OTHER_CAPTURE;
        s.graph.streams[1].capture = i == NOT_CAPTURING ? 0 : s.graph.streams[1].capture;
        s.graph.fails_last = i == NOT_TOLD;
        if (i == NO_NODES) {
            s.graph.streams[0].count = 0;
            s.graph.streams[1].count = 0;
        }
        host_fault_after(i == NO_HOST_MEMORY ? 1 : 0);
        fixture_free(&s.f, ptr);
        host_fault_after(0);
        cr_expect(eq(ptr, s.f.allocator->waiting.capture.marks, NULL), "case %d", i);
        cr_expect(eq(sz, deferred(&s), 1));
        s.graph.fails_last = false;
        (void)fixture_alloc(&s.f, MIB(3), 0);
        cr_expect(eq(sz, deferred(&s), 1), "case %d", i);
        scene_end(&s);
        (void)fixture_alloc(&s.f, MIB(3), 0);
        cr_expect(eq(sz, deferred(&s), 0), "case %d", i);
        scene_fini(&s);
    }
}

/* A handle may name another node in the next capture. */
Test(capture_order, marks_of_a_former_capture_mean_nothing, .timeout = 10)
{
    scene_t s;
    scene_init(&s, PLEAT_MODE_CLASSIC);
    const pleat_pool_id_t outer = {0, 9};
    cr_assert(eq(int, pleat_pool_begin(s.f.allocator, outer, NULL, NULL), PLEAT_OK));
    scene_begin(&s);
    const pleat_devptr_t ptr = scene_free(&s);
    scene_end(&s);
    s.graph.node_count = 0;
    s.graph.streams[0].capture = 1;
    scene_begin(&s); /* the second */
    for (int i = 0; i < 5; i++) {
        (void)kernel(&s.graph, 0);
    }
    cr_expect(ne(u64, fixture_alloc(&s.f, MIB(24), 0), ptr));
    cr_expect(eq(sz, deferred(&s), 1));
    scene_end(&s);
    cr_assert(eq(int, pleat_pool_end(s.f.allocator, outer), PLEAT_OK));
    scene_fini(&s);
}

/* ---- walks ---- */

Test(capture_order, a_walk_looks_at_new_nodes_only, .timeout = 10)
{
    scene_t s;
    scene_init(&s, PLEAT_MODE_CLASSIC);
    scene_begin(&s);
    for (int i = 0; i < 1000; i++) {
        (void)kernel(&s.graph, 0);
    }
    (void)scene_free(&s);
    (void)fixture_alloc(&s.f, MIB(24), 0);
    cr_expect(eq(u64, s.graph.looks, 1002), "all of stream 0");
    (void)kernel(&s.graph, 0);
    (void)kernel(&s.graph, 0);
    (void)fixture_alloc(&s.f, MIB(24), 0);
    cr_expect(eq(u64, s.graph.looks, 1004));
    (void)fixture_alloc(&s.f, MIB(24), 0);
    cr_expect(eq(u64, s.graph.looks, 1004));
    join(&s.graph, 0, 1);
    (void)fixture_alloc(&s.f, MIB(24), 0);
    cr_expect(eq(u64, s.graph.looks, 1005));
    cr_expect(eq(sz, deferred(&s), 0));
    scene_end(&s);
    scene_fini(&s);
}

/* cudaStreamUpdateCaptureDependencies can do that. */
Test(capture_order, a_stream_that_was_set_back_is_walked_anew, .timeout = 10)
{
    scene_t s;
    scene_init(&s, PLEAT_MODE_CLASSIC);
    scene_begin(&s);
    const pleat_node_t first = s.graph.streams[0].last[0];
    const pleat_devptr_t wanted = scene_free(&s);
    const pleat_devptr_t held = fixture_alloc(&s.f, MIB(24), 0); /* walks */
    fixture_record(&s.f, held, 1);
    fixture_free(&s.f, held); /* marked behind both streams */
    s.graph.streams[0].count = 1;
    s.graph.streams[0].last[0] = first;
    (void)kernel(&s.graph, 0);
    join(&s.graph, 1, 0);
    const pleat_devptr_t got = fixture_alloc(&s.f, MIB(24), 0);
    cr_expect(ne(u64, got, wanted));
    cr_expect(ne(u64, got, held));
    cr_expect(eq(sz, deferred(&s), 2));
    join(&s.graph, 0, 1);
    (void)fixture_alloc(&s.f, MIB(24), 0);
    cr_expect(eq(sz, deferred(&s), 2), "the node of stream 0 that was left is in no past");
    scene_end(&s);
    scene_fini(&s);
}

Test(capture_order, many_last_nodes_and_many_frees, .timeout = 20)
{
    enum { BLOCKS = 150 };
    scene_t s;
    scene_init(&s, PLEAT_MODE_CLASSIC);
    scene_begin(&s);
    const pleat_node_t first = s.graph.streams[0].last[0];
    join(&s.graph, 1, 0);
    pleat_devptr_t ptrs[BLOCKS];
    pleat_node_t branches[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) { /* stream 1 makes a branch for each */
        ptrs[i] = fixture_alloc(&s.f, MIB(2), 0);
        s.graph.streams[1].count = 1;
        s.graph.streams[1].last[0] = first;
        branches[i] = kernel(&s.graph, 1);
        fixture_record(&s.f, ptrs[i], 1);
        fixture_free(&s.f, ptrs[i]);
    }
    cr_expect(eq(sz, deferred(&s), BLOCKS));
    for (size_t i = 0; i < BLOCKS; i++) {
        s.graph.streams[1].last[i] = branches[i];
    }
    s.graph.streams[1].count = BLOCKS;
    join(&s.graph, 0, 1);
    (void)fixture_alloc(&s.f, MIB(2), 0);
    cr_expect(eq(sz, deferred(&s), 0));
    fixture_check(&s.f);
    scene_end(&s);
    scene_fini(&s);
}

/* Whatever fails on the way, the request is served, and the free ends with a later one. */
Test(capture_order, a_walk_that_fails_is_made_again, .timeout = 20)
{
    for (unsigned i = 0; i < 40; i++) {
        scene_t s;
        scene_init(&s, PLEAT_MODE_CLASSIC);
        scene_begin(&s);
        for (int k = 0; k < 100; k++) {
            (void)kernel(&s.graph, 0);
        }
        const pleat_devptr_t kept = fixture_alloc(&s.f, MIB(24), 0);
        fixture_free(&s.f, kept); /* for the request, so that it needs no host memory itself */
        const pleat_devptr_t ptr = fixture_alloc(&s.f, MIB(24), 0);
        (void)fixture_alloc(&s.f, MIB(30), 0);
        join(&s.graph, 1, 0);
        (void)kernel(&s.graph, 1);
        fixture_record(&s.f, ptr, 1);
        fixture_free(&s.f, ptr);
        fixture_free(&s.f, fixture_alloc(&s.f, MIB(30), 0));
        join(&s.graph, 0, 1);
        (void)kernel(&s.graph, 0);
        if (i < 20) {
            host_fault_after(i % 10 + 1);
        } else {
            s.graph.fails_node = i - 19;
        }
        (void)fixture_alloc(&s.f, MIB(30), 0);
        host_fault_after(0);
        s.graph.fails_node = 0;
        fixture_check(&s.f);
        (void)fixture_alloc(&s.f, MIB(24), 0);
        cr_expect(eq(sz, deferred(&s), 0), "run %u", i);
        scene_end(&s);
        scene_fini(&s);
    }
}

/* ---- against all ancestors ---- */

enum { FREES_MAX = 400 };

/* A free that was put off: what the streams had captured then. */
typedef struct put_off {
    pleat_devptr_t ptr;
    pleat_stream_t stream;
    size_t count;
    pleat_node_t nodes[2 * LAST_MAX];
} put_off_t;

static void colour_ancestors(const graph_t *graph, pleat_node_t node, bool *is_before)
{
    if (is_before[node]) {
        return;
    }
    is_before[node] = true;
    for (size_t i = 0; i < graph->nodes[node].count; i++) {
        colour_ancestors(graph, graph->nodes[node].parents[i], is_before);
    }
}

/* Drop those that are in the past of @p stream. */
static size_t drop_ordered(const graph_t *graph, pleat_stream_t stream, put_off_t *frees,
                           size_t count)
{
    static bool is_before[NODES_MAX];
    memset(is_before, 0, sizeof is_before);
    for (size_t i = 0; i < graph->streams[stream].count; i++) {
        colour_ancestors(graph, graph->streams[stream].last[i], is_before);
    }
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        bool is_ordered = frees[i].stream == stream;
        for (size_t k = 0; k < frees[i].count; k++) {
            is_ordered = is_ordered && is_before[frees[i].nodes[k]];
        }
        if (!is_ordered) {
            frees[kept++] = frees[i];
        }
    }
    return kept;
}

static void note_nodes(const graph_t *graph, pleat_stream_t stream, put_off_t *free)
{
    memcpy(&free->nodes[free->count], graph->streams[stream].last,
           graph->streams[stream].count * sizeof(pleat_node_t));
    free->count += graph->streams[stream].count;
}

static bool is_put_off(const scene_t *s, pleat_devptr_t ptr)
{
    const pleat_block_t *block = s->f.allocator->waiting.deferred.first;
    while (block != NULL && block->address != ptr) {
        block = block->next_live;
    }
    return block != NULL;
}

Test(capture_order, random_graphs_agree_with_all_ancestors, .timeout = 60)
{
    static put_off_t frees[FREES_MAX];
    uint64_t ended_count = 0;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        scene_t s;
        scene_init(&s, modes[seed % 3]);
        scene_begin(&s);
        fixture_random_t random = {.state = seed};
        size_t count = 0;
        for (pleat_stream_t stream = 1; stream < STREAMS; stream++) {
            join(&s.graph, stream, 0);
        }
        for (int step = 0; step < 600; step++) {
            const pleat_stream_t stream = fixture_random_below(&random, STREAMS);
            const pleat_stream_t other = (stream + 1 + fixture_random_below(&random, 3)) % STREAMS;
            const uint64_t kind = fixture_random_below(&random, 16);
            if (kind < 6) {
                (void)kernel(&s.graph, stream);
            } else if (kind < 9 && s.graph.streams[stream].count < 20) {
                join(&s.graph, stream, other);
            } else if (kind == 9 && fixture_random_below(&random, 8) == 0) { /* set back */
                s.graph.streams[stream].count = 1;
                s.graph.streams[stream].last[0] =
                    1 + fixture_random_below(&random, s.graph.node_count);
            } else if (kind > 9 && count < FREES_MAX) {
                const pleat_devptr_t ptr =
                    fixture_alloc(&s.f, MIB(2) * (1 + fixture_random_below(&random, 3)), stream);
                const size_t left = drop_ordered(&s.graph, stream, frees, count);
                ended_count += count - left;
                count = left;
                cr_assert(eq(sz, deferred(&s), count), "seed %d step %d", (int)seed, step);
                for (size_t i = 0; i < count; i++) {
                    cr_assert(is_put_off(&s, frees[i].ptr), "seed %d step %d", (int)seed, step);
                }
                frees[count] = (put_off_t){.ptr = ptr, .stream = stream};
                note_nodes(&s.graph, stream, &frees[count]);
                note_nodes(&s.graph, other, &frees[count]);
                fixture_record(&s.f, ptr, other);
                fixture_free(&s.f, ptr);
                count++;
            }
        }
        scene_end(&s);
        scene_fini(&s);
    }
    cr_expect(lt(u64, 100, ended_count));
}
