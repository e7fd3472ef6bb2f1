/*
 * fuzz target: any bytes as a session or a case. What loads must be consistent: ranges inside their
 * arrays, keys and ids below their counts, ids allocated where they are used.
 */
#include "session.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool is_good)
{
    if (!is_good) {
        abort();
    }
}

static void check_range(pleat_session_range_t range, uint32_t item_count)
{
    require(range.count == 0 ||
            (range.first < item_count && range.count <= item_count - range.first));
}

static void check_call(const pleat_session_t *session, const pleat_session_call_t *call)
{
    check_range(call->events, session->event_count);
    check_range(call->changes, session->change_count);
    check_range(call->expects, session->expect_count);
    check_range(call->expect_errors, session->expect_error_count);
    check_range(call->deferred, session->number_count);
    check_range(call->stale, session->number_count);
    check_range(call->freeable, session->number_count);
    check_range(call->segments, session->segment_count);
    require(call->stream < session->stream_count || call->stream == 0);
    for (uint32_t i = 0; i < call->deferred.count; i++) {
        require(session->numbers[call->deferred.first + i] < session->id_count);
    }
    for (uint32_t i = 0; i < call->expects.count; i++) {
        require(session->expects[call->expects.first + i].key[0] != '\0');
    }
}

static void check_ids(const pleat_session_t *session)
{
    bool *live = calloc(session->id_count + 1u, sizeof(*live));
    require(live != NULL);
    for (uint32_t i = 0; i < session->call_count; i++) {
        const pleat_session_call_t *call = &session->calls[i];
        check_call(session, call);
        if (call->kind == PLEAT_SESSION_ALLOC || call->kind == PLEAT_SESSION_FREE ||
            call->kind == PLEAT_SESSION_RECORD) {
            require(call->id < session->id_count);
            require(live[call->id] == (call->kind != PLEAT_SESSION_ALLOC));
            live[call->id] = call->kind != PLEAT_SESSION_FREE;
        } else {
            require(call->id == PLEAT_SESSION_NO_ID);
        }
    }
    free(live);
}

static void check_session(const pleat_session_t *session)
{
    check_ids(session);
    check_range(session->end_segments, session->segment_count);
    for (uint32_t i = 0; i < session->change_count; i++) {
        require(session->changes[i].key < session->key_count);
    }
    for (uint32_t i = 0; i < session->segment_count; i++) {
        const pleat_segment_info_t *info = &session->segments[i].info;
        require(info->first_block <= session->block_count &&
                info->block_count <= session->block_count - info->first_block);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pleat_input_t *input = NULL;
    pleat_session_t *session = NULL;
    if (pleat_input_open_memory("fuzz", data, size, &input) == PLEAT_OK &&
        pleat_session_load_input(input, &session) == PLEAT_OK) {
        check_session(session);
        pleat_session_destroy(session);
    }
    pleat_input_close(input);
    return 0;
}
