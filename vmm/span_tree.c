/*
 * span_tree: treaps over one pool of nodes; see span_tree.h for the invariants.
 *
 * Priorities come from a counter that is mixed, so shape and order are the same in every run. The
 * expected depth is about 1.4 log2(n), which bounds the recursion of insert, split and merge.
 */
#include "span_tree.h"

#include <stdlib.h>

struct pleat_span_node {
    pleat_span_t span;
    uint64_t max_bytes; /* largest span in the subtree of this node */
    uint32_t left;      /* in the free list: the next free node */
    uint32_t right;
    uint32_t priority;
};

#define FIRST_CAPACITY 64u

void pleat_span_pool_init(pleat_span_pool_t *pool)
{
    *pool = (pleat_span_pool_t){.nodes = NULL};
}

void pleat_span_pool_fini(pleat_span_pool_t *pool)
{
    free(pool->nodes);
    pleat_span_pool_init(pool);
}

pleat_status_t pleat_span_pool_reserve(pleat_span_pool_t *pool, uint32_t count)
{
    if (pool->free_count >= count) {
        return PLEAT_OK;
    }
    uint64_t capacity = pool->capacity == 0 ? FIRST_CAPACITY : UINT64_C(2) * pool->capacity;
    while (capacity - pool->capacity < (uint64_t)count + 1) {
        capacity *= 2;
    }
    pleat_span_node_t *nodes =
        capacity > UINT32_MAX ? NULL : realloc(pool->nodes, (size_t)capacity * sizeof *nodes);
    if (nodes == NULL) {
        pleat_error_set("no host memory for %llu address spans", (unsigned long long)capacity);
        return PLEAT_ERR_OOM_HOST;
    }
    pool->nodes = nodes;
    /* Lowest index on top of the free list; node 0 stands for "none" and is never handed out. */
    const uint32_t first = pool->capacity == 0 ? 1 : pool->capacity;
    for (uint32_t i = (uint32_t)capacity; i-- > first;) {
        nodes[i] = (pleat_span_node_t){.left = pool->free_head};
        pool->free_head = i;
        pool->free_count++;
    }
    nodes[0] = (pleat_span_node_t){.max_bytes = 0};
    pool->capacity = (uint32_t)capacity;
    return PLEAT_OK;
}

/* Mixes a counter (the finaliser of splitmix64). */
static uint32_t span_next_priority(pleat_span_pool_t *pool)
{
    pool->priority_state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t mixed = pool->priority_state;
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((mixed ^ (mixed >> 31)) >> 32);
}

static void span_update(pleat_span_node_t *nodes, uint32_t index)
{
    pleat_span_node_t *node = &nodes[index];
    uint64_t max_bytes = node->span.bytes;
    if (nodes[node->left].max_bytes > max_bytes) {
        max_bytes = nodes[node->left].max_bytes;
    }
    if (nodes[node->right].max_bytes > max_bytes) {
        max_bytes = nodes[node->right].max_bytes;
    }
    node->max_bytes = max_bytes;
}

/* Spans below begin go left, the others right. */
static void span_split(pleat_span_node_t *nodes, uint32_t root, uint64_t begin, uint32_t *left_out,
                       uint32_t *right_out)
{
    if (root == 0) {
        *left_out = 0;
        *right_out = 0;
        return;
    }
    if (nodes[root].span.begin < begin) {
        uint32_t rest = 0;
        span_split(nodes, nodes[root].right, begin, &rest, right_out);
        nodes[root].right = rest;
        *left_out = root;
    } else {
        uint32_t rest = 0;
        span_split(nodes, nodes[root].left, begin, left_out, &rest);
        nodes[root].left = rest;
        *right_out = root;
    }
    span_update(nodes, root);
}

/* All spans of left lie below all of right. */
static uint32_t span_merge(pleat_span_node_t *nodes, uint32_t left, uint32_t right)
{
    if (left == 0 || right == 0) {
        return left == 0 ? right : left;
    }
    if (nodes[left].priority > nodes[right].priority) {
        nodes[left].right = span_merge(nodes, nodes[left].right, right);
        span_update(nodes, left);
        return left;
    }
    nodes[right].left = span_merge(nodes, left, nodes[right].left);
    span_update(nodes, right);
    return right;
}

static uint32_t span_insert_below(pleat_span_node_t *nodes, uint32_t root, uint32_t index)
{
    const uint64_t begin = nodes[index].span.begin;
    if (root == 0 || nodes[index].priority > nodes[root].priority) {
        uint32_t left = 0;
        uint32_t right = 0;
        span_split(nodes, root, begin, &left, &right);
        nodes[index].left = left;
        nodes[index].right = right;
        span_update(nodes, index);
        return index;
    }
    if (begin < nodes[root].span.begin) {
        nodes[root].left = span_insert_below(nodes, nodes[root].left, index);
    } else {
        nodes[root].right = span_insert_below(nodes, nodes[root].right, index);
    }
    span_update(nodes, root);
    return root;
}

void pleat_span_insert(pleat_span_pool_t *pool, pleat_span_tree_t *tree, pleat_span_t span)
{
    PLEAT_ASSERT(span.bytes > 0);
    PLEAT_ASSERT(span.begin <= UINT64_MAX - span.bytes);
    PLEAT_ASSERT(pool->free_count > 0);
    PLEAT_ASSERT_SLOW(!pleat_span_find_overlap(pool, tree, span, &(pleat_span_t){0, 0}));
    const uint32_t index = pool->free_head;
    pool->free_head = pool->nodes[index].left;
    pool->free_count--;
    pool->nodes[index] = (pleat_span_node_t){
        .span = span, .max_bytes = span.bytes, .priority = span_next_priority(pool)};
    tree->root = span_insert_below(pool->nodes, tree->root, index);
    tree->count++;
}

void pleat_span_remove(pleat_span_pool_t *pool, pleat_span_tree_t *tree, uint64_t begin)
{
    pleat_span_node_t *nodes = pool->nodes;
    uint32_t below = 0;
    uint32_t index = 0;
    uint32_t above = 0;
    /* begin itself, and nothing else, lies in [begin, begin + 1). */
    span_split(nodes, tree->root, begin, &below, &index);
    span_split(nodes, index, begin + 1, &index, &above);
    PLEAT_ASSERT(index != 0);
    PLEAT_ASSERT(nodes[index].left == 0);
    PLEAT_ASSERT(nodes[index].right == 0);
    tree->root = span_merge(nodes, below, above);
    tree->count--;
    nodes[index] = (pleat_span_node_t){.left = pool->free_head};
    pool->free_head = index;
    pool->free_count++;
}

bool pleat_span_find_at_or_below(const pleat_span_pool_t *pool, const pleat_span_tree_t *tree,
                                 uint64_t address, pleat_span_t *span_out)
{
    bool is_found = false;
    for (uint32_t index = tree->root; index != 0;) {
        const pleat_span_node_t *node = &pool->nodes[index];
        if (node->span.begin <= address) {
            *span_out = node->span;
            is_found = true;
            index = node->right;
        } else {
            index = node->left;
        }
    }
    return is_found;
}

bool pleat_span_find_at_or_above(const pleat_span_pool_t *pool, const pleat_span_tree_t *tree,
                                 uint64_t address, pleat_span_t *span_out)
{
    bool is_found = false;
    for (uint32_t index = tree->root; index != 0;) {
        const pleat_span_node_t *node = &pool->nodes[index];
        if (node->span.begin >= address) {
            *span_out = node->span;
            is_found = true;
            index = node->left;
        } else {
            index = node->right;
        }
    }
    return is_found;
}

bool pleat_span_find_lowest_fit(const pleat_span_pool_t *pool, const pleat_span_tree_t *tree,
                                uint64_t bytes, pleat_span_t *span_out)
{
    for (uint32_t index = tree->root; index != 0 && pool->nodes[index].max_bytes >= bytes;) {
        const pleat_span_node_t *node = &pool->nodes[index];
        if (pool->nodes[node->left].max_bytes >= bytes && node->left != 0) {
            index = node->left;
        } else if (node->span.bytes >= bytes) {
            *span_out = node->span;
            return true;
        } else {
            index = node->right;
        }
    }
    return false;
}

bool pleat_span_find_highest_fit(const pleat_span_pool_t *pool, const pleat_span_tree_t *tree,
                                 uint64_t bytes, pleat_span_t *span_out)
{
    for (uint32_t index = tree->root; index != 0 && pool->nodes[index].max_bytes >= bytes;) {
        const pleat_span_node_t *node = &pool->nodes[index];
        if (pool->nodes[node->right].max_bytes >= bytes && node->right != 0) {
            index = node->right;
        } else if (node->span.bytes >= bytes) {
            *span_out = node->span;
            return true;
        } else {
            index = node->left;
        }
    }
    return false;
}

bool pleat_span_find_overlap(const pleat_span_pool_t *pool, const pleat_span_tree_t *tree,
                             pleat_span_t span, pleat_span_t *span_out)
{
    pleat_span_t other;
    if (pleat_span_find_at_or_below(pool, tree, span.begin, &other) &&
        span.begin - other.begin < other.bytes) {
        *span_out = other;
        return true;
    }
    if (pleat_span_find_at_or_above(pool, tree, span.begin, &other) &&
        other.begin - span.begin < span.bytes) {
        *span_out = other;
        return true;
    }
    return false;
}
