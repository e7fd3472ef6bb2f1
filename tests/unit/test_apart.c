/*
 * Tests of segments that the device makes while others use the allocator: what a hook does in the
 * middle of an allocation is what other threads would do then.
 */
#include "core/allocator.h"
#include "core/private_pool.h"

#include "apart_device.h"
#include "fixture.h"
#include "host_fault.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#define MIB(count) ((uint64_t)(count)*PLEAT_MIB)

static fixture_t create(uint64_t capacity_bytes)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.release_lock_on_alloc = 1;
    return fixture_create(&(fixture_options_t){
        .capacity_bytes = capacity_bytes, .options = &options, .allocates_apart = true});
}

static int64_t reserved(const fixture_t *f)
{
    return fixture_stats(f).reserved_bytes[PLEAT_STAT_ALL].current;
}

/* ---- others go on ---- */

typedef struct visitor {
    fixture_t *f;
    pleat_devptr_t ptr; /* of an allocation that it may free */
    pleat_devptr_t made;
    pleat_status_t status;
    uint64_t asked_bytes;
    uint64_t held_bytes;
} visitor_t;

/* Each call takes the lock: without it the test would hang. */
static void use_everything(void *context, uint64_t bytes)
{
    visitor_t *visitor = context;
    const fixture_t *f = visitor->f;
    visitor->asked_bytes = f->allocator->asked_bytes;
    visitor->held_bytes = f->allocator->held_bytes;
    cr_expect(eq(u64, bytes, visitor->asked_bytes));
    fixture_check(f);
    fixture_record(f, visitor->ptr, 7);
    fixture_free(f, visitor->ptr);
    visitor->made = fixture_alloc(f, MIB(12), 0);
    fixture_empty(f);
    fixture_check(f);
}

Test(apart, others_use_the_allocator_meanwhile, .timeout = 10)
{
    fixture_t f = create(MIB(512));
    visitor_t visitor = {.f = &f, .ptr = fixture_alloc(&f, 512, 0)};
    apart_device_set_hook(f.vmm, use_everything, &visitor);
    const pleat_devptr_t ptr = fixture_alloc(&f, MIB(30), 0);
    cr_expect(eq(u64, visitor.asked_bytes, MIB(30)));
    cr_expect(eq(u64, visitor.held_bytes, MIB(32)));
    cr_expect(ne(u64, ptr, visitor.made));
    cr_expect(eq(u64, f.allocator->asked_bytes, 0));
    cr_expect(eq(u64, f.allocator->held_bytes, MIB(42)));
    cr_expect(eq(i64, reserved(&f), (int64_t)MIB(42)), "the small segment went");
    cr_expect(eq(u64, apart_device_count(f.vmm), 3));
    cr_expect(eq(u64, apart_device_most(f.vmm), 2));
    cr_expect(eq(u64, fixture_calls(&f, PLEAT_VMM_CALL_MEM_ALLOC), 3));
    fixture_free(&f, ptr);
    fixture_free(&f, visitor.made);
    fixture_check_and_destroy(&f);
}

static void count_visit(void *context, uint64_t bytes)
{
    (void)bytes;
    (*(unsigned *)context)++;
}

Test(apart, only_when_it_is_asked_for, .timeout = 5)
{
    fixture_t f = create(MIB(512));
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    fixture_set_options(&f, &options);
    unsigned visits = 0;
    apart_device_set_hook(f.vmm, count_visit, &visits);
    (void)fixture_alloc(&f, MIB(30), 0);
    cr_expect(eq(u32, visits, 0));
    options.release_lock_on_alloc = 1;
    options.mode = PLEAT_MODE_TORCH_EXPANDABLE;
    fixture_set_options(&f, &options);
    (void)fixture_alloc(&f, MIB(30), 0);
    options.mode = PLEAT_MODE_PLEATED;
    fixture_set_options(&f, &options);
    (void)fixture_alloc(&f, MIB(30), 0);
    cr_expect(eq(u32, visits, 0));
    options.mode = PLEAT_MODE_CLASSIC;
    fixture_set_options(&f, &options);
    (void)fixture_alloc(&f, MIB(30), 0);
    cr_expect(eq(u32, visits, 1));
    fixture_check_and_destroy(&f);
    options.release_lock_on_alloc = 2;
    pleat_allocator_t *allocator = NULL;
    f = fixture_create(NULL);
    cr_expect(eq(int, pleat_allocator_create(&options, f.vmm, &allocator), PLEAT_ERR_INVALID));
    cr_expect(ne(ptr, strstr(pleat_last_error(), "release_lock_on_alloc is 2"), NULL));
    fixture_check_and_destroy(&f);
}

Test(apart, a_device_that_cannot_keeps_the_lock, .timeout = 5)
{
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.release_lock_on_alloc = 1;
    fixture_t f = fixture_create(&(fixture_options_t){.options = &options});
    (void)fixture_alloc(&f, MIB(30), 0);
    cr_expect(eq(u64, fixture_calls(&f, PLEAT_VMM_CALL_MEM_ALLOC), 1));
    fixture_check_and_destroy(&f);
}

static void free_one(void *context, uint64_t bytes)
{
    const visitor_t *visitor = context;
    (void)bytes;
    fixture_free(visitor->f, visitor->ptr);
}

Test(apart, what_comes_free_meanwhile_is_not_searched_again, .timeout = 5)
{
    fixture_t f = create(MIB(512));
    visitor_t visitor = {.f = &f, .ptr = fixture_alloc(&f, MIB(30), 0)};
    apart_device_set_hook(f.vmm, free_one, &visitor);
    cr_expect(ne(u64, fixture_alloc(&f, MIB(30), 0), visitor.ptr));
    cr_expect(eq(u64, fixture_alloc(&f, MIB(30), 0), visitor.ptr));
    fixture_check_and_destroy(&f);
}

/* ---- the limit ---- */

static void ask_too(void *context, uint64_t bytes)
{
    visitor_t *visitor = context;
    visitor->status = pleat_alloc(visitor->f->allocator, bytes, 1, &visitor->made);
}

Test(apart, requests_at_once_keep_the_limit_together, .timeout = 5)
{
    fixture_t f = create(MIB(512));
    fixture_set_limit(&f, MIB(79));
    visitor_t visitor = {.f = &f};
    apart_device_set_hook(f.vmm, ask_too, &visitor);
    const pleat_devptr_t ptr = fixture_alloc(&f, MIB(40), 0);
    cr_expect(eq(int, visitor.status, PLEAT_ERR_OOM_DEVICE));
    cr_expect(eq(u64, f.allocator->held_bytes, MIB(40)));
    fixture_free(&f, ptr);
    fixture_empty(&f);
    fixture_set_limit(&f, MIB(80));
    apart_device_set_hook(f.vmm, ask_too, &visitor);
    (void)fixture_alloc(&f, MIB(40), 0);
    cr_expect(eq(int, visitor.status, PLEAT_OK));
    cr_expect(eq(i64, reserved(&f), (int64_t)MIB(80)));
    fixture_check_and_destroy(&f);
}

/* ---- failures ---- */

Test(apart, a_refused_segment_changes_nothing, .timeout = 5)
{
    fixture_t f = create(MIB(512));
    (void)fixture_alloc(&f, 512, 0);
    fixture_state_t state = fixture_state(&f);
    const size_t unused_count = f.allocator->blocks.unused_count;
    fixture_fail_call(&f, PLEAT_VMM_CALL_MEM_ALLOC, 1, PLEAT_ERR_DRIVER);
    pleat_devptr_t ptr = 5;
    cr_expect(eq(int, pleat_alloc(f.allocator, MIB(30), 0, &ptr), PLEAT_ERR_DRIVER));
    cr_expect(eq(u64, ptr, 5));
    cr_expect(eq(u64, f.allocator->asked_bytes, 0));
    cr_expect(eq(sz, f.allocator->blocks.unused_count, unused_count));
    cr_expect(fixture_state_is(&f, &state));
    fixture_state_drop(&state);
    pleat_vmm_counters_t counters = PLEAT_VMM_COUNTERS_INIT;
    pleat_vmm_read_counters(f.vmm, &counters);
    cr_expect(eq(u64, counters.calls[PLEAT_VMM_CALL_MEM_ALLOC], 2));
    cr_expect(eq(u64, counters.failures[PLEAT_VMM_CALL_MEM_ALLOC], 1));
    cr_expect(lt(u64, 0, counters.time_ns[PLEAT_VMM_CALL_MEM_ALLOC]));
    fixture_check_and_destroy(&f);
}

Test(apart, a_full_device_is_flushed_and_asked_again, .timeout = 5)
{
    fixture_t f = create(MIB(64));
    visitor_t visitor = {.f = &f, .ptr = fixture_alloc(&f, MIB(40), 0)};
    apart_device_set_hook(f.vmm, free_one, &visitor);
    (void)fixture_alloc(&f, MIB(50), 0);
    cr_expect(eq(i64, reserved(&f), (int64_t)MIB(50)));
    cr_expect(eq(i64, fixture_stats(&f).num_alloc_retries, 1));
    cr_expect(eq(u64, apart_device_count(f.vmm), 3));
    pleat_devptr_t ptr = 0;
    cr_expect(eq(int, pleat_alloc(f.allocator, MIB(50), 0, &ptr), PLEAT_ERR_OOM_DEVICE));
    cr_expect(ne(ptr, strstr(pleat_last_error(), "out of device memory"), NULL));
    fixture_check_and_destroy(&f);
}

/* Takes the block objects that are in reserve, and lets the host refuse more. */
static void take_objects(void *context, uint64_t bytes)
{
    fixture_t *f = context;
    (void)bytes;
    while (f->allocator->blocks.unused_count > 1) {
        (void)fixture_alloc(f, 512, 0);
    }
    host_fault_after(1);
}

Test(apart, objects_that_were_reserved_are_kept, .timeout = 10)
{
    fixture_t f = create(MIB(512));
    fixture_free(&f, fixture_alloc(&f, 512, 0)); /* a segment that serves the hook */
    apart_device_set_hook(f.vmm, take_objects, &f);
    (void)fixture_alloc(&f, MIB(3), 0);
    host_fault_after(0);
    cr_expect(eq(i64, reserved(&f), (int64_t)MIB(22)));
    fixture_check_and_destroy(&f);
}

/* Fills the address map as full as it is made for, and lets the host refuse more. */
static void fill_map(void *context, uint64_t bytes)
{
    fixture_t *f = context;
    (void)bytes;
    while (f->allocator->live.used_count < f->allocator->live.bucket_count) {
        (void)fixture_alloc(f, 512, 0);
    }
    host_fault_after(1);
}

Test(apart, a_full_map_of_addresses_takes_one_more, .timeout = 10)
{
    fixture_t f = create(MIB(512));
    fixture_free(&f, fixture_alloc(&f, 512, 0));
    apart_device_set_hook(f.vmm, fill_map, &f);
    const pleat_devptr_t ptr = fixture_alloc(&f, MIB(3), 0);
    const pleat_address_map_t *live = &f.allocator->live;
    cr_expect(lt(sz, live->bucket_count, live->used_count));
    host_fault_after(0);
    fixture_check(&f);
    (void)fixture_alloc(&f, 512, 0);
    cr_expect(lt(sz, live->used_count, live->bucket_count), "it grows later");
    fixture_free(&f, ptr);
    fixture_check_and_destroy(&f);
}

/* ---- changes of mode and pools ---- */

static void change_mode(void *context, uint64_t bytes)
{
    const visitor_t *visitor = context;
    (void)bytes;
    pleat_options_t options = PLEAT_OPTIONS_INIT;
    options.mode = (pleat_mode_t)visitor->made;
    options.max_split_bytes = MIB(25);
    fixture_set_options(visitor->f, &options);
    fixture_free(visitor->f, fixture_alloc(visitor->f, MIB(3), 0));
    fixture_check(visitor->f);
}

Test(apart, the_mode_may_change_meanwhile, .timeout = 20)
{
    for (unsigned mode = 0; mode < PLEAT_MODE_COUNT; mode++) {
        fixture_t f = create(MIB(512));
        visitor_t visitor = {.f = &f, .made = mode};
        apart_device_set_hook(f.vmm, change_mode, &visitor);
        const pleat_devptr_t small = fixture_alloc(&f, 512, 0);
        fixture_check(&f);
        pleat_options_t options = PLEAT_OPTIONS_INIT;
        options.release_lock_on_alloc = 1;
        fixture_set_options(&f, &options);
        apart_device_set_hook(f.vmm, change_mode, &visitor);
        const pleat_devptr_t large = fixture_alloc(&f, MIB(30), 0);
        fixture_check(&f);
        fixture_free(&f, small);
        fixture_free(&f, large);
        fixture_check(&f);
        fixture_empty(&f);
        cr_expect(eq(i64, reserved(&f), 0), "mode %u", mode);
        fixture_check_and_destroy(&f);
    }
}

static const pleat_pool_id_t pool_id = {0, 1};

static void begin(const fixture_t *f)
{
    FIXTURE_REQUIRE(pleat_pool_begin(f->allocator, pool_id, NULL, NULL) == PLEAT_OK, "%s",
                    pleat_last_error());
}

static void end_pool(void *context, uint64_t bytes)
{
    fixture_t *f = context;
    (void)bytes;
    FIXTURE_REQUIRE(pleat_pool_end(f->allocator, pool_id) == PLEAT_OK &&
                        pleat_pool_release(f->allocator, pool_id) == PLEAT_OK,
                    "%s", pleat_last_error());
    fixture_empty(f);
    fixture_check(f);
}

Test(apart, the_pool_of_a_request_outlasts_it, .timeout = 5)
{
    fixture_t f = create(MIB(512));
    begin(&f);
    apart_device_set_hook(f.vmm, end_pool, &f);
    const pleat_devptr_t ptr = fixture_alloc(&f, MIB(30), 0);
    cr_assert(ne(ptr, f.allocator->private_pools.first, NULL));
    cr_expect(eq(u64, f.allocator->private_pools.first->holding_count, 1));
    fixture_check(&f);
    fixture_free(&f, ptr);
    fixture_empty(&f);
    cr_expect(eq(ptr, f.allocator->private_pools.first, NULL));
    fixture_check_and_destroy(&f);
}

/* The flush that follows would end the pool, too. */
Test(apart, a_pool_that_ended_meanwhile_may_get_nothing, .timeout = 5)
{
    fixture_t f = create(MIB(16));
    begin(&f);
    apart_device_set_hook(f.vmm, end_pool, &f);
    pleat_devptr_t ptr = 0;
    cr_expect(eq(int, pleat_alloc(f.allocator, MIB(30), 0, &ptr), PLEAT_ERR_OOM_DEVICE));
    cr_expect(eq(i64, fixture_stats(&f).num_alloc_retries, 1));
    fixture_check(&f);
    fixture_empty(&f);
    cr_expect(eq(ptr, f.allocator->private_pools.first, NULL));
    fixture_check_and_destroy(&f);
}

static pleat_devptr_t source_alloc(void *context, uint64_t bytes, pleat_stream_t stream)
{
    (void)bytes;
    (void)stream;
    return *(pleat_devptr_t *)context;
}

static void source_free(void *context, pleat_devptr_t ptr, uint64_t bytes, pleat_stream_t stream)
{
    (void)context;
    (void)ptr;
    (void)bytes;
    (void)stream;
}

Test(apart, a_source_of_segments_is_asked_under_the_lock, .timeout = 5)
{
    fixture_t f = create(MIB(512));
    pleat_devptr_t address = UINT64_C(1) << 44;
    pleat_segment_source_t source = PLEAT_SEGMENT_SOURCE_INIT;
    source.alloc = source_alloc;
    source.free = source_free;
    source.context = &address;
    cr_assert(eq(int, pleat_pool_acquire(f.allocator, pool_id, &source), PLEAT_OK));
    begin(&f);
    unsigned visits = 0;
    apart_device_set_hook(f.vmm, count_visit, &visits);
    cr_expect(eq(u64, fixture_alloc(&f, MIB(30), 0), address));
    cr_expect(eq(u32, visits, 0));
    fixture_check_and_destroy(&f);
}
