/*
 * test_session_place: which pool a request goes to, and where ranges begin that a call reserves
 * without mapping them.
 */
#include "session_place.h"

#include "host_fault.h"
#include "input_fixture.h"

#include <criterion/new/assert.h>

/* A call per line that is no event; the events are those of four ranges. */
static const char text[] = "settings expandable_segments:True\n"
                           "pool_create 1\n"                    /* 0 */
                           "pool_create 2\n"                    /* 1 */
                           "alloc a 1MiB 0 *\n"                 /* 2 */
                           "alloc b 1048577 0 *\n"              /* 3 */
                           "pool_begin 1 all\n"                 /* 4 */
                           "alloc c 3MiB 0 *\n"                 /* 5 */
                           " segment_map 0x1000 20971520 0\n"   /* pool 1 */
                           "pool_begin 2 thread\n"              /* 6 */
                           "alloc d 3MiB 0 *\n"                 /* 7 */
                           "pool_end 1\n"                       /* 8 */
                           "oom 3MiB 0\n"                       /* 9 */
                           "pool_end 2\n"                       /* 10 */
                           "alloc e 0 0 *\n"                    /* 11: no request */
                           "alloc f 3MiB 1 *\n"                 /* 12 */
                           " segment_map 0x2000 20971520 1\n"   /* stream 1 */
                           "alloc g 3MiB 0 *\n"                 /* 13 */
                           " segment_unmap 0x5000 20971520 0\n" /* what was there before */
                           " segment_map 0x3000 20971520 0\n"   /* no pool */
                           " segment_map 0x4000 20971520 0\n"   /* more of it */
                           "alloc h 7 0 *\n"                    /* 14 */
                           " segment_map 0x6000 2097152 0\n"    /* small */
                           "pool_begin 2 all\n"                 /* 15 */
                           "alloc i 3MiB 0 *\n"                 /* 16 */
                           " segment_map 0x7000 20971520 0\n"   /* pool 2 */
                           "pool_end 2\n"                       /* 17 */
                           "alloc j 3MiB 0 *\n";                /* 18 */

static pleat_session_t *load(void)
{
    pleat_session_t *session = NULL;
    cr_assert(input_fixture_session(text, strlen(text), &session) == PLEAT_OK, "%s",
              pleat_last_error());
    cr_assert(eq(u32, session->call_count, 19));
    return session;
}

Test(session_place, the_newest_redirection_takes_a_request, .timeout = 5)
{
    static const uint64_t expected[19] = {[5] = 1, [7] = 2, [9] = 2, [16] = 2};
    pleat_session_t *session = load();
    uint64_t *pools = NULL;
    cr_assert(eq(int, pleat_session_request_pools(session, &pools), PLEAT_OK));
    for (uint32_t i = 0; i < session->call_count; i++) {
        cr_expect(eq(u64, pools[i], expected[i]), "call %u", i);
    }
    free(pools);
    pleat_session_destroy(session);
}

Test(session_place, a_range_begins_where_the_next_mapping_for_it_lies, .timeout = 5)
{
    static const pleat_devptr_t expected[19] = {
        [2] = 0x6000, [3] = 0x3000, [7] = 0x7000, [9] = 0x7000};
    pleat_session_t *session = load();
    uint64_t *pools = NULL;
    pleat_devptr_t *places = NULL;
    cr_assert(eq(int, pleat_session_request_pools(session, &pools), PLEAT_OK));
    cr_assert(eq(int, pleat_session_places(session, pools, &places), PLEAT_OK));
    for (uint32_t i = 0; i < session->call_count; i++) {
        cr_expect(eq(u64, places[i], expected[i]), "call %u", i);
    }
    free(places);
    free(pools);
    pleat_session_destroy(session);
}

Test(session_place, lack_of_host_memory_is_reported, .timeout = 5)
{
    pleat_session_t *session = load();
    pleat_status_t status = PLEAT_ERR_OOM_HOST;
    uint64_t nth = 0;
    while (status == PLEAT_ERR_OOM_HOST) {
        uint64_t *pools = NULL;
        pleat_devptr_t *places = NULL;
        host_fault_after(++nth);
        status = pleat_session_request_pools(session, &pools);
        cr_expect(eq(int, pools == NULL, status != PLEAT_OK));
        if (status == PLEAT_OK) {
            status = pleat_session_places(session, pools, &places);
            cr_expect(eq(int, places == NULL, status != PLEAT_OK));
        }
        host_fault_after(0);
        free(places);
        free(pools);
    }
    cr_expect(eq(int, status, PLEAT_OK));
    cr_expect(eq(u64, nth, 5)); /* each of four allocations failed once */
    pleat_session_destroy(session);
}
