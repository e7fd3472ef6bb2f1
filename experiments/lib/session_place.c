/*
 * session_place: see session_place.h. One pass forward for the redirections, one back for the
 * addresses.
 */
#include "session_place.h"

#include <stdlib.h>
#include <string.h>

#include "../../core/size_class.h"

typedef struct place_list {
    uint64_t *pools; /* open redirections, oldest first */
    size_t count;
    size_t capacity;
} place_list_t;

static bool place_list_push(place_list_t *list, uint64_t pool)
{
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity == 0 ? 16 : 2 * list->capacity;
        uint64_t *pools = realloc(list->pools, capacity * sizeof(*pools));
        if (pools == NULL) {
            return false;
        }
        list->pools = pools;
        list->capacity = capacity;
    }
    list->pools[list->count++] = pool;
    return true;
}

static void place_list_remove(place_list_t *list, uint64_t pool)
{
    size_t i = 0;
    while (i < list->count && list->pools[i] != pool) {
        i++;
    }
    if (i < list->count) {
        list->count--;
        memmove(&list->pools[i], &list->pools[i + 1], (list->count - i) * sizeof(*list->pools));
    }
}

static bool call_is_request(const pleat_session_call_t *call)
{
    return (call->kind == PLEAT_SESSION_ALLOC || call->kind == PLEAT_SESSION_OOM) &&
           call->bytes > 0;
}

pleat_status_t pleat_session_request_pools(const pleat_session_t *session, uint64_t **pools_out)
{
    place_list_t open = {0};
    uint64_t *pools = calloc((size_t)session->call_count + 1, sizeof(*pools));
    bool is_good = pools != NULL;
    for (uint32_t i = 0; i < session->call_count && is_good; i++) {
        const pleat_session_call_t *call = &session->calls[i];
        if (call->kind == PLEAT_SESSION_POOL_BEGIN) {
            is_good = place_list_push(&open, call->pool);
        } else if (call->kind == PLEAT_SESSION_POOL_END) {
            place_list_remove(&open, call->pool);
        } else if (call_is_request(call) && open.count > 0) {
            pools[i] = open.pools[open.count - 1];
        }
    }
    free(open.pools);
    if (!is_good) {
        free(pools);
        return PLEAT_ERR_OOM_HOST;
    }
    *pools_out = pools;
    return PLEAT_OK;
}

/* What a range is for, and where the next mapping for it lies. */
typedef struct place {
    uint64_t pool;
    pleat_stream_t stream;
    pleat_devptr_t address;
    bool is_small;
} place_t;

typedef struct place_table {
    place_t *places;
    size_t count;
    size_t capacity;
} place_table_t;

/* The entry of a call's request; NULL: no host memory. */
static place_t *place_table_find(place_table_t *table, const pleat_session_call_t *call,
                                 uint64_t pool)
{
    /* Rounding never takes a size across this bound. */
    const bool is_small = call->bytes <= PLEAT_SMALL_MAX_BYTES;
    for (size_t i = table->count; i > 0; i--) {
        place_t *place = &table->places[i - 1];
        if (place->stream == call->stream && place->is_small == is_small && place->pool == pool) {
            return place;
        }
    }
    if (table->count == table->capacity) {
        const size_t capacity = table->capacity == 0 ? 16 : 2 * table->capacity;
        place_t *places = realloc(table->places, capacity * sizeof(*places));
        if (places == NULL) {
            return NULL;
        }
        table->places = places;
        table->capacity = capacity;
    }
    place_t *place = &table->places[table->count++];
    *place = (place_t){.pool = pool, .stream = call->stream, .is_small = is_small};
    return place;
}

/* Address of the first mapping of a call, 0 for none. */
static pleat_devptr_t call_first_map(const pleat_session_t *session,
                                     const pleat_session_call_t *call)
{
    for (uint32_t i = 0; i < call->events.count; i++) {
        const pleat_session_event_t *event = &session->events[call->events.first + i];
        if (event->action == PLEAT_ACTION_SEGMENT_MAP) {
            return event->address;
        }
    }
    return 0;
}

static bool places_fill(const pleat_session_t *session, const uint64_t *pools,
                        pleat_devptr_t *places)
{
    place_table_t table = {0};
    bool is_good = true;
    for (uint32_t i = session->call_count; i > 0 && is_good; i--) {
        const pleat_session_call_t *call = &session->calls[i - 1];
        if (!call_is_request(call)) {
            continue;
        }
        place_t *place = place_table_find(&table, call, pools[i - 1]);
        is_good = place != NULL;
        if (is_good) {
            const pleat_devptr_t first = call_first_map(session, call);
            places[i - 1] = place->address;
            place->address = first != 0 ? first : place->address;
        }
    }
    free(table.places);
    return is_good;
}

pleat_status_t pleat_session_places(const pleat_session_t *session, const uint64_t *pools,
                                    pleat_devptr_t **places_out)
{
    pleat_devptr_t *places = calloc((size_t)session->call_count + 1, sizeof(*places));
    if (places == NULL || !places_fill(session, pools, places)) {
        free(places);
        return PLEAT_ERR_OOM_HOST;
    }
    *places_out = places;
    return PLEAT_OK;
}
