/*
 * trace_event_code: see trace_event_code.h.
 *
 * A kind is an action (everything about it is in the columns) or one of the three short forms.
 * Differences are taken modulo 2^64, so that a step back is possible, only long.
 */
#include "trace_event_code.h"

#include "trace_text.h"

/* Kinds in the file; the first nine are actions and have their own order, which must not follow
 * that of core. */
static const pleat_action_t kind_actions[] = {
    PLEAT_ACTION_ALLOC,         PLEAT_ACTION_FREE_REQUESTED, PLEAT_ACTION_FREE_COMPLETED,
    PLEAT_ACTION_SEGMENT_ALLOC, PLEAT_ACTION_SEGMENT_FREE,   PLEAT_ACTION_SEGMENT_MAP,
    PLEAT_ACTION_SEGMENT_UNMAP, PLEAT_ACTION_SNAPSHOT,       PLEAT_ACTION_OOM};

enum {
    KIND_ACTION_COUNT = sizeof(kind_actions) / sizeof(kind_actions[0]),
    KIND_ALLOC_GUESSED = 16, /* at the address that trace_placement guesses */
    KIND_FREE_AGED = 17,     /* request, allocation told by its age */
    KIND_FREE_PAIR = 18      /* the same, and its completion */
};

void pleat_trace_coder_init(pleat_trace_coder_t *coder)
{
    *coder = (pleat_trace_coder_t){0};
    pleat_trace_live_init(&coder->live);
    pleat_trace_placement_init(&coder->placement);
}

void pleat_trace_coder_fini(pleat_trace_coder_t *coder)
{
    pleat_trace_live_fini(&coder->live);
    pleat_trace_placement_fini(&coder->placement);
}

bool pleat_trace_coder_begins_pair(const pleat_trace_coder_t *coder,
                                   const pleat_trace_event_t *event)
{
    uint64_t age = 0;
    return event->action == PLEAT_ACTION_FREE_REQUESTED &&
           pleat_trace_live_age(&coder->live, event, &age);
}

bool pleat_trace_coder_is_pair(const pleat_trace_event_t *first, const pleat_trace_event_t *second)
{
    return second->action == PLEAT_ACTION_FREE_COMPLETED && first->address == second->address &&
           first->bytes == second->bytes && first->stream == second->stream;
}

/* What both sides learn from an event. */
static bool pleat_trace_coder_learn(pleat_trace_coder_t *coder, const pleat_trace_event_t *event)
{
    coder->last_time_us = event->time_us;
    if (event->action == PLEAT_ACTION_FREE_REQUESTED) {
        pleat_trace_live_remove(&coder->live, event->address);
    } else if (event->action == PLEAT_ACTION_ALLOC && !pleat_trace_live_add(&coder->live, event)) {
        return false;
    }
    return pleat_trace_placement_learn(&coder->placement, event);
}

static uint8_t pleat_kind_of_action(pleat_action_t action)
{
    uint8_t kind = 0;
    while (kind < KIND_ACTION_COUNT - 1 && kind_actions[kind] != action) {
        kind++;
    }
    return kind;
}

static bool pleat_trace_coder_put_values(pleat_trace_coder_t *coder, pleat_trace_block_t *block,
                                         const pleat_trace_event_t *event, uint8_t *kind_out)
{
    pleat_bytes_t *columns = block->columns;
    uint64_t age = 0;
    if (event->action == PLEAT_ACTION_FREE_REQUESTED &&
        pleat_trace_live_age(&coder->live, event, &age)) {
        *kind_out = KIND_FREE_AGED;
        return pleat_bytes_append_number(&columns[PLEAT_COLUMN_AGE], age);
    }
    *kind_out = pleat_kind_of_action(event->action);
    if (event->action == PLEAT_ACTION_ALLOC &&
        pleat_trace_placement_guess(&coder->placement, event->bytes, event->stream) ==
            event->address) {
        *kind_out = KIND_ALLOC_GUESSED;
    } else {
        const uint64_t difference = event->address - coder->last_address;
        coder->last_address = event->address;
        if (!pleat_bytes_append_number(&columns[PLEAT_COLUMN_ADDRESS], difference)) {
            return false;
        }
    }
    return pleat_bytes_append_number(&columns[PLEAT_COLUMN_SIZE], event->bytes) &&
           pleat_bytes_append_number(&columns[PLEAT_COLUMN_STREAM], event->stream);
}

bool pleat_trace_coder_put(pleat_trace_coder_t *coder, pleat_trace_block_t *block,
                           const pleat_trace_event_t *first, const pleat_trace_event_t *second)
{
    pleat_bytes_t *columns = block->columns;
    uint8_t kind = 0;
    if (!pleat_trace_coder_put_values(coder, block, first, &kind) ||
        !pleat_bytes_append_number(&columns[PLEAT_COLUMN_TIME],
                                   first->time_us - coder->last_time_us) ||
        !pleat_trace_coder_learn(coder, first)) {
        return false;
    }
    if (second != NULL) {
        kind = KIND_FREE_PAIR;
        if (!pleat_bytes_append_number(&columns[PLEAT_COLUMN_COMPLETION],
                                       second->time_us - first->time_us) ||
            !pleat_trace_coder_learn(coder, second)) {
            return false;
        }
    }
    block->event_count += second != NULL ? 2 : 1;
    return pleat_bytes_append_number(&columns[PLEAT_COLUMN_KIND], kind);
}

/* Everything but the time. NULL, or what is wrong. */
static const char *pleat_trace_coder_get_values(pleat_trace_coder_t *coder,
                                                pleat_trace_block_t *block, uint64_t kind,
                                                pleat_trace_event_t *event)
{
    pleat_bytes_t *columns = block->columns;
    uint64_t number = 0;
    if (kind == KIND_FREE_AGED || kind == KIND_FREE_PAIR) {
        if (!pleat_bytes_read_number(&columns[PLEAT_COLUMN_AGE], &number)) {
            return "the column of ages is too short";
        }
        const pleat_live_block_t *live = pleat_trace_live_at(&coder->live, number);
        if (live == NULL) {
            return "a free of an allocation that does not exist";
        }
        *event = (pleat_trace_event_t){.action = PLEAT_ACTION_FREE_REQUESTED,
                                       .address = live->address,
                                       .bytes = live->bytes,
                                       .stream = live->stream};
        return NULL;
    }
    if (kind != KIND_ALLOC_GUESSED && kind >= KIND_ACTION_COUNT) {
        return "unknown kind of event";
    }
    if (!pleat_bytes_read_number(&columns[PLEAT_COLUMN_SIZE], &event->bytes) ||
        !pleat_bytes_read_number(&columns[PLEAT_COLUMN_STREAM], &event->stream)) {
        return "the column of sizes or streams is too short";
    }
    if (kind == KIND_ALLOC_GUESSED) {
        event->action = PLEAT_ACTION_ALLOC;
        event->address =
            pleat_trace_placement_guess(&coder->placement, event->bytes, event->stream);
    } else {
        event->action = kind_actions[kind];
        if (!pleat_bytes_read_number(&columns[PLEAT_COLUMN_ADDRESS], &number)) {
            return "the column of addresses is too short";
        }
        event->address = coder->last_address + number;
        coder->last_address = event->address;
    }
    return pleat_trace_event_fault(event);
}

pleat_status_t pleat_trace_coder_get(pleat_trace_coder_t *coder, pleat_trace_block_t *block,
                                     pleat_trace_event_t events[2], size_t *count_out,
                                     const char **cause_out)
{
    pleat_bytes_t *columns = block->columns;
    uint64_t kind = 0;
    uint64_t difference = 0;
    *cause_out = NULL;
    if (!pleat_bytes_read_number(&columns[PLEAT_COLUMN_KIND], &kind)) {
        *cause_out = "the column of kinds is too short";
    } else {
        *cause_out = pleat_trace_coder_get_values(coder, block, kind, &events[0]);
    }
    if (*cause_out == NULL && !pleat_bytes_read_number(&columns[PLEAT_COLUMN_TIME], &difference)) {
        *cause_out = "the column of times is too short";
    }
    if (*cause_out != NULL) {
        return PLEAT_ERR_FORMAT;
    }
    events[0].time_us = coder->last_time_us + difference;
    if (!pleat_trace_coder_learn(coder, &events[0])) {
        return PLEAT_ERR_OOM_HOST;
    }
    *count_out = 1;
    if (kind == KIND_FREE_PAIR) {
        if (!pleat_bytes_read_number(&columns[PLEAT_COLUMN_COMPLETION], &difference)) {
            *cause_out = "the column of completions is too short";
            return PLEAT_ERR_FORMAT;
        }
        events[1] = events[0];
        events[1].action = PLEAT_ACTION_FREE_COMPLETED;
        events[1].time_us += difference;
        if (!pleat_trace_coder_learn(coder, &events[1])) {
            return PLEAT_ERR_OOM_HOST;
        }
        *count_out = 2;
    }
    return PLEAT_OK;
}
