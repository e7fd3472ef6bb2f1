/*
 * address_map: growth; everything else is short enough to be inline.
 */
#include "address_map.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_BUCKETS_LOG2 10u

bool pleat_address_map_grow(pleat_address_map_t *map)
{
    const unsigned log2 = map->bucket_count == 0 ? FIRST_BUCKETS_LOG2 : 65 - map->shift;
    pleat_address_map_t grown = {.bucket_count = (size_t)1 << log2, .shift = 64 - log2};
    grown.buckets = (pleat_block_t **)calloc(grown.bucket_count, sizeof(*grown.buckets));
    if (grown.buckets == NULL) {
        return false;
    }
    for (size_t i = 0; i < map->bucket_count; i++) {
        pleat_block_t *next = NULL;
        for (pleat_block_t *block = map->buckets[i]; block != NULL; block = next) {
            next = block->next_live;
            pleat_address_map_insert(&grown, block);
        }
    }
    free((void *)map->buckets);
    *map = grown;
    return true;
}

void pleat_address_map_fini(pleat_address_map_t *map)
{
    free((void *)map->buckets);
    memset(map, 0, sizeof(*map));
}
