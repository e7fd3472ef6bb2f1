/*
 * contract: what every device behind the operations table of pleat/vmm.h must do, as a table of
 * checks that run on a simulated device and on a GPU alike.
 *
 *   gpu_contract [--device sim|unbacked|cuda] [--driver FILE] [--only NAME]
 *
 * Other arguments are for the processes that it starts itself (contract_share.h).
 *
 * Exit status: 0 all hold, 1 one does not, 77 no GPU here (1 when PLEAT_REQUIRE_GPU is set).
 */
#include "contract_expect.h"
#include "contract_share.h"

#include "vmm/base.h"

#include <inttypes.h>
#include <pleat/sim.h>
#include <stdio.h>
#include <string.h>

static uint64_t waits_of(pleat_vmm_t *vmm)
{
    pleat_vmm_counters_t counters = PLEAT_VMM_COUNTERS_INIT;
    pleat_vmm_read_counters(vmm, &counters);
    return counters.waits;
}

static uint64_t free_bytes_of(pleat_vmm_t *vmm)
{
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    EXPECT_OK(pleat_vmm_mem_info(vmm, &free_bytes, &total_bytes));
    EXPECT(free_bytes <= total_bytes);
    return free_bytes;
}

static uint64_t total_bytes_of(pleat_vmm_t *vmm)
{
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    EXPECT_OK(pleat_vmm_mem_info(vmm, &free_bytes, &total_bytes));
    return total_bytes;
}

static uint64_t granule_of(pleat_vmm_t *vmm)
{
    uint64_t bytes = 0;
    EXPECT_OK(pleat_vmm_granularity(vmm, &bytes));
    return bytes;
}

/* ---- plain memory ---- */

static void check_memory_comes_and_goes(contract_device_t *device)
{
    static const uint64_t sizes[] = {1, 512, 513, PLEAT_MIB, 2 * PLEAT_MIB, 20 * PLEAT_MIB + 3};
    pleat_devptr_t ptrs[6] = {0};
    for (int i = 0; i < 6; i++) {
        EXPECT_OK(pleat_vmm_mem_alloc(device->vmm, sizes[i], &ptrs[i]));
        EXPECT(ptrs[i] % (sizes[i] >= 2 * PLEAT_MIB ? 2 * PLEAT_MIB : 512) == 0);
    }
    for (int i = 0; i < 6; i++) {
        for (int j = 0; j < i; j++) {
            EXPECT(ptrs[i] + sizes[i] <= ptrs[j] || ptrs[j] + sizes[j] <= ptrs[i]);
        }
    }
    for (int i = 0; i < 6; i++) {
        EXPECT_OK(pleat_vmm_mem_free(device->vmm, ptrs[i]));
    }
}

static void check_memory_errors(contract_device_t *device)
{
    pleat_devptr_t ptr = 0;
    pleat_devptr_t untouched = 5;
    EXPECT_STATUS(pleat_vmm_mem_alloc(device->vmm, 0, &untouched), PLEAT_ERR_INVALID);
    EXPECT_STATUS(pleat_vmm_mem_alloc(device->vmm, UINT64_C(1) << 46, &untouched),
                  PLEAT_ERR_OOM_DEVICE);
    EXPECT_STATUS(pleat_vmm_mem_alloc(device->vmm, total_bytes_of(device->vmm) + 1, &untouched),
                  PLEAT_ERR_OOM_DEVICE);
    EXPECT(untouched == 5);
    EXPECT_OK(pleat_vmm_mem_alloc(device->vmm, 4 * PLEAT_MIB, &ptr));
    EXPECT_STATUS(pleat_vmm_mem_free(device->vmm, ptr + 512), PLEAT_ERR_INVALID_POINTER);
    EXPECT_STATUS(pleat_vmm_mem_free(device->vmm, 512), PLEAT_ERR_INVALID_POINTER);
    EXPECT_OK(pleat_vmm_mem_free(device->vmm, ptr));
    EXPECT_STATUS(pleat_vmm_mem_free(device->vmm, ptr), PLEAT_ERR_INVALID_POINTER);
}

static void check_memory_is_counted(contract_device_t *device)
{
    pleat_devptr_t ptr = 0;
    const uint64_t before = free_bytes_of(device->vmm);
    EXPECT_OK(pleat_vmm_mem_alloc(device->vmm, 256 * PLEAT_MIB, &ptr));
    EXPECT(free_bytes_of(device->vmm) <= before - 256 * PLEAT_MIB);
    EXPECT_OK(pleat_vmm_mem_free(device->vmm, ptr));
    EXPECT(free_bytes_of(device->vmm) >= before);
}

static void check_free_waits_for_the_device(contract_device_t *device)
{
    pleat_devptr_t ptr = 0;
    pleat_event_t event = 0;
    EXPECT_OK(pleat_vmm_mem_alloc(device->vmm, PLEAT_MIB, &ptr));
    EXPECT_OK(pleat_vmm_event_create(device->vmm, &event));
    contract_short_work(device, 1);
    EXPECT_OK(pleat_vmm_event_record(device->vmm, event, device->streams[1]));
    EXPECT_STATUS(pleat_vmm_event_query(device->vmm, event), PLEAT_ERR_NOT_READY);
    const uint64_t waits = waits_of(device->vmm);
    EXPECT_OK(pleat_vmm_mem_free(device->vmm, ptr));
    EXPECT_OK(pleat_vmm_event_query(device->vmm, event));
    EXPECT(waits_of(device->vmm) == waits + 1);
    EXPECT_OK(pleat_vmm_event_destroy(device->vmm, event));
}

static void check_memory_holds_contents(contract_device_t *device)
{
    pleat_devptr_t ptrs[3] = {0};
    const uint64_t words = 3 * PLEAT_MIB / 4 + 5;
    for (uint32_t i = 0; i < 3; i++) {
        EXPECT_OK(pleat_vmm_mem_alloc(device->vmm, 4 * words, &ptrs[i]));
        contract_fill(device, 0, ptrs[i], words, 100 + i);
    }
    for (uint32_t i = 0; i < 3; i++) {
        EXPECT(contract_wrong(device, 0, ptrs[i], words, 100 + i) == 0);
        EXPECT(contract_wrong(device, 0, ptrs[i], words, 200 + i) == words);
        EXPECT_OK(pleat_vmm_mem_free(device->vmm, ptrs[i]));
    }
}

/* ---- events and streams ---- */

static void check_events_follow_their_stream(contract_device_t *device)
{
    pleat_event_t events[2] = {0};
    EXPECT_OK(pleat_vmm_event_create(device->vmm, &events[0]));
    EXPECT_OK(pleat_vmm_event_create(device->vmm, &events[1]));
    EXPECT(events[0] != events[1]);
    EXPECT_OK(pleat_vmm_event_query(device->vmm, events[0])); /* never recorded */
    EXPECT_OK(pleat_vmm_event_synchronize(device->vmm, events[0]));
    contract_begin_work(device, 1);
    EXPECT_OK(pleat_vmm_event_record(device->vmm, events[0], device->streams[1]));
    EXPECT_OK(pleat_vmm_event_record(device->vmm, events[1], device->streams[2]));
    EXPECT_OK(pleat_vmm_stream_synchronize(device->vmm, device->streams[2]));
    EXPECT_OK(pleat_vmm_event_query(device->vmm, events[1]));
    EXPECT_STATUS(pleat_vmm_event_query(device->vmm, events[0]), PLEAT_ERR_NOT_READY);
    contract_end_work(device, 1);
    EXPECT_OK(pleat_vmm_event_query(device->vmm, events[0]));
    /* Recorded again it stands for what came since. */
    contract_begin_work(device, 2);
    EXPECT_OK(pleat_vmm_event_record(device->vmm, events[0], device->streams[2]));
    EXPECT_STATUS(pleat_vmm_event_query(device->vmm, events[0]), PLEAT_ERR_NOT_READY);
    contract_end_work(device, 2);
    EXPECT_OK(pleat_vmm_event_query(device->vmm, events[0]));
    EXPECT_OK(pleat_vmm_event_destroy(device->vmm, events[0]));
    EXPECT_OK(pleat_vmm_event_destroy(device->vmm, events[1]));
}

static void check_streams_wait_for_events(contract_device_t *device)
{
    pleat_event_t events[2] = {0};
    EXPECT_OK(pleat_vmm_event_create(device->vmm, &events[0]));
    EXPECT_OK(pleat_vmm_event_create(device->vmm, &events[1]));
    contract_begin_work(device, 1);
    EXPECT_OK(pleat_vmm_event_record(device->vmm, events[0], device->streams[1]));
    const uint64_t waits = waits_of(device->vmm);
    EXPECT_OK(pleat_vmm_stream_wait_event(device->vmm, device->streams[2], events[0]));
    EXPECT_OK(pleat_vmm_event_record(device->vmm, events[1], device->streams[2]));
    EXPECT(waits_of(device->vmm) == waits);
    EXPECT_STATUS(pleat_vmm_event_query(device->vmm, events[1]), PLEAT_ERR_NOT_READY);
    contract_end_work(device, 1);
    EXPECT_OK(pleat_vmm_event_synchronize(device->vmm, events[1]));
    EXPECT_OK(pleat_vmm_event_query(device->vmm, events[1]));
    EXPECT_OK(pleat_vmm_event_destroy(device->vmm, events[0]));
    EXPECT_OK(pleat_vmm_event_destroy(device->vmm, events[1]));
}

static void check_waits_are_counted(contract_device_t *device)
{
    pleat_event_t event = 0;
    EXPECT_OK(pleat_vmm_event_create(device->vmm, &event));
    const uint64_t waits = waits_of(device->vmm);
    EXPECT_OK(pleat_vmm_stream_synchronize(device->vmm, device->streams[1]));
    EXPECT(waits_of(device->vmm) == waits);
    contract_short_work(device, 1);
    EXPECT_OK(pleat_vmm_event_record(device->vmm, event, device->streams[1]));
    EXPECT_OK(pleat_vmm_event_synchronize(device->vmm, event));
    EXPECT(waits_of(device->vmm) == waits + 1);
    EXPECT_OK(pleat_vmm_event_query(device->vmm, event));
    contract_short_work(device, 1);
    EXPECT_OK(pleat_vmm_stream_synchronize(device->vmm, device->streams[1]));
    EXPECT(waits_of(device->vmm) == waits + 2);
    EXPECT_OK(pleat_vmm_event_destroy(device->vmm, event));
}

/* ---- ranges, chunks, mappings ---- */

static void check_granularity(contract_device_t *device)
{
    EXPECT(pleat_vmm_has_mapping(device->vmm));
    const uint64_t granule = granule_of(device->vmm);
    EXPECT(granule >= 4096);
    EXPECT((granule & (granule - 1)) == 0);
    static const int64_t offsets[] = {1, -1, 512};
    for (int i = 0; i < 3; i++) {
        const uint64_t bytes = granule + (uint64_t)offsets[i];
        pleat_devptr_t ptr = 5;
        EXPECT_STATUS(pleat_vmm_address_reserve(device->vmm, bytes, &ptr), PLEAT_ERR_INVALID);
        EXPECT_STATUS(pleat_vmm_chunk_create(device->vmm, bytes, &ptr), PLEAT_ERR_INVALID);
        EXPECT(ptr == 5);
    }
    pleat_devptr_t ptr = 5;
    EXPECT_STATUS(pleat_vmm_address_reserve(device->vmm, 0, &ptr), PLEAT_ERR_INVALID);
    EXPECT_STATUS(pleat_vmm_chunk_create(device->vmm, 0, &ptr), PLEAT_ERR_INVALID);
    EXPECT(ptr == 5);
}

static void check_ranges(contract_device_t *device)
{
    const uint64_t granule = granule_of(device->vmm);
    static const uint64_t granules[] = {1, 8, 80000, 1 << 17};
    pleat_devptr_t ranges[4] = {0};
    for (int i = 0; i < 4; i++) {
        EXPECT_OK(pleat_vmm_address_reserve(device->vmm, granules[i] * granule, &ranges[i]));
        EXPECT(ranges[i] % granule == 0);
        for (int j = 0; j < i; j++) {
            EXPECT(ranges[i] + granules[i] * granule <= ranges[j] ||
                   ranges[j] + granules[j] * granule <= ranges[i]);
        }
    }
    for (int i = 0; i < 4; i++) {
        EXPECT_OK(pleat_vmm_address_free(device->vmm, ranges[i], granules[i] * granule));
    }
    pleat_devptr_t ptr = 5;
    EXPECT_STATUS(pleat_vmm_address_reserve(device->vmm, UINT64_C(120) << 40, &ptr),
                  PLEAT_ERR_OOM_DEVICE);
    EXPECT(ptr == 5);
}

static void check_a_range_is_freed_whole(contract_device_t *device)
{
    const uint64_t granule = granule_of(device->vmm);
    pleat_devptr_t range = 0;
    EXPECT_OK(pleat_vmm_address_reserve(device->vmm, 4 * granule, &range));
    EXPECT_STATUS(pleat_vmm_address_free(device->vmm, range, 2 * granule), PLEAT_ERR_INVALID);
    EXPECT_STATUS(pleat_vmm_address_free(device->vmm, range + granule, 3 * granule),
                  PLEAT_ERR_INVALID);
    EXPECT_STATUS(pleat_vmm_address_free(device->vmm, range, 4 * granule + 512), PLEAT_ERR_INVALID);
    EXPECT_OK(pleat_vmm_address_free(device->vmm, range, 4 * granule));
    EXPECT_STATUS(pleat_vmm_address_free(device->vmm, range, 4 * granule), PLEAT_ERR_INVALID);
}

/* A range with chunks of 1, 3 and 2 granules from its begin on, and room for two more. */
typedef struct stretch {
    uint64_t granule;
    pleat_devptr_t range;
    pleat_chunk_t chunks[3];
} stretch_t;

static const uint64_t stretch_granules[3] = {1, 3, 2};
static const uint64_t stretch_offsets[3] = {0, 1, 4};

static stretch_t stretch_create(contract_device_t *device)
{
    stretch_t stretch = {.granule = granule_of(device->vmm)};
    EXPECT_OK(pleat_vmm_address_reserve(device->vmm, 8 * stretch.granule, &stretch.range));
    for (int i = 0; i < 3; i++) {
        EXPECT_OK(pleat_vmm_chunk_create(device->vmm, stretch_granules[i] * stretch.granule,
                                         &stretch.chunks[i]));
        EXPECT_OK(pleat_vmm_map(device->vmm, stretch.range + stretch_offsets[i] * stretch.granule,
                                stretch_granules[i] * stretch.granule, stretch.chunks[i]));
    }
    return stretch;
}

static void stretch_release(contract_device_t *device, const stretch_t *stretch)
{
    for (int i = 0; i < 3; i++) {
        EXPECT_OK(pleat_vmm_chunk_release(device->vmm, stretch->chunks[i]));
    }
    EXPECT_OK(pleat_vmm_address_free(device->vmm, stretch->range, 8 * stretch->granule));
}

static void check_a_chunk_is_mapped_whole(contract_device_t *device)
{
    pleat_vmm_t *vmm = device->vmm;
    const stretch_t stretch = stretch_create(device);
    const uint64_t granule = stretch.granule;
    const pleat_devptr_t end = stretch.range + 6 * granule;
    const pleat_status_t bad = PLEAT_ERR_INVALID;
    EXPECT_STATUS(pleat_vmm_map(vmm, stretch.range, granule, stretch.chunks[0]), bad); /* again */
    EXPECT_STATUS(pleat_vmm_map(vmm, stretch.range + 5 * granule, 2 * granule, stretch.chunks[2]),
                  bad); /* over another */
    EXPECT_STATUS(pleat_vmm_map(vmm, end + 512, granule, stretch.chunks[0]), bad);
    EXPECT_OK(pleat_vmm_map(vmm, end, 2 * granule, stretch.chunks[2])); /* a second time */
    EXPECT_OK(pleat_vmm_unmap(vmm, stretch.range, 8 * granule));
    stretch_release(device, &stretch);
}

static void check_mappings_go_whole(contract_device_t *device)
{
    pleat_vmm_t *vmm = device->vmm;
    const stretch_t stretch = stretch_create(device);
    /* One unmap may cover several. */
    EXPECT_OK(pleat_vmm_set_access(vmm, stretch.range, 6 * stretch.granule));
    EXPECT_OK(pleat_vmm_unmap(vmm, stretch.range, 4 * stretch.granule));
    EXPECT_STATUS(pleat_vmm_set_access(vmm, stretch.range, 4 * stretch.granule), PLEAT_ERR_INVALID);
    EXPECT_OK(pleat_vmm_set_access(vmm, stretch.range + 4 * stretch.granule, 2 * stretch.granule));
    EXPECT_OK(pleat_vmm_unmap(vmm, stretch.range + 4 * stretch.granule, 2 * stretch.granule));
    stretch_release(device, &stretch);
}

static void check_access_is_for_mappings(contract_device_t *device)
{
    pleat_vmm_t *vmm = device->vmm;
    const stretch_t stretch = stretch_create(device);
    const uint64_t granule = stretch.granule;
    const pleat_status_t bad = PLEAT_ERR_INVALID;
    EXPECT_STATUS(pleat_vmm_set_access(vmm, stretch.range + 6 * granule, granule), bad);
    EXPECT_STATUS(pleat_vmm_set_access(vmm, stretch.range, 8 * granule), bad);
    EXPECT_STATUS(pleat_vmm_set_access(vmm, stretch.range + 512, granule), bad);
    EXPECT_OK(pleat_vmm_set_access(vmm, stretch.range, granule));
    EXPECT_OK(pleat_vmm_set_access(vmm, stretch.range, 6 * granule)); /* again, and several */
    EXPECT_OK(pleat_vmm_unmap(vmm, stretch.range, 6 * granule));
    EXPECT_STATUS(pleat_vmm_set_access(vmm, stretch.range, granule), bad);
    stretch_release(device, &stretch);
}

static void check_access_in_part_is_refused(contract_device_t *device)
{
    const stretch_t stretch = stretch_create(device);
    EXPECT_STATUS(
        pleat_vmm_set_access(device->vmm, stretch.range + stretch.granule, stretch.granule),
        PLEAT_ERR_INVALID);
    EXPECT_OK(pleat_vmm_unmap(device->vmm, stretch.range, 6 * stretch.granule));
    stretch_release(device, &stretch);
}

static void check_a_range_with_mappings_stays(contract_device_t *device)
{
    const stretch_t stretch = stretch_create(device);
    EXPECT_STATUS(pleat_vmm_address_free(device->vmm, stretch.range, 8 * stretch.granule),
                  PLEAT_ERR_INVALID);
    EXPECT_OK(pleat_vmm_unmap(device->vmm, stretch.range, 6 * stretch.granule));
    stretch_release(device, &stretch);
}

static void check_nothing_is_mapped_outside_ranges(contract_device_t *device)
{
    pleat_vmm_t *vmm = device->vmm;
    const uint64_t granule = granule_of(vmm);
    pleat_chunk_t chunk = 0;
    pleat_devptr_t range = 0;
    EXPECT_OK(pleat_vmm_chunk_create(vmm, granule, &chunk));
    EXPECT_OK(pleat_vmm_address_reserve(vmm, granule, &range));
    EXPECT_OK(pleat_vmm_address_free(vmm, range, granule));
    EXPECT_STATUS(pleat_vmm_map(vmm, range, granule, chunk), PLEAT_ERR_INVALID);
    EXPECT_STATUS(pleat_vmm_unmap(vmm, range, granule), PLEAT_ERR_INVALID);
    EXPECT_STATUS(pleat_vmm_set_access(vmm, range, granule), PLEAT_ERR_INVALID);
    EXPECT_OK(pleat_vmm_chunk_release(vmm, chunk));
}

static void check_a_released_chunk_keeps_its_memory(contract_device_t *device)
{
    pleat_vmm_t *vmm = device->vmm;
    const uint64_t bytes = pleat_round_up(512 * PLEAT_MIB, granule_of(vmm));
    const uint64_t words = PLEAT_MIB / 4;
    pleat_devptr_t range = 0;
    pleat_chunk_t chunk = 0;
    EXPECT_OK(pleat_vmm_address_reserve(vmm, 2 * bytes, &range));
    const uint64_t before = free_bytes_of(vmm);
    EXPECT_OK(pleat_vmm_chunk_create(vmm, bytes, &chunk));
    EXPECT(free_bytes_of(vmm) <= before - bytes);
    EXPECT_OK(pleat_vmm_map(vmm, range, bytes, chunk));
    EXPECT_OK(pleat_vmm_map(vmm, range + bytes, bytes, chunk));
    EXPECT_OK(pleat_vmm_set_access(vmm, range, 2 * bytes));
    contract_fill(device, 0, range, words, 7);
    EXPECT_OK(pleat_vmm_chunk_release(vmm, chunk));
    EXPECT(free_bytes_of(vmm) <= before - bytes);
    EXPECT(contract_wrong(device, 0, range + bytes, words, 7) == 0);
    EXPECT_OK(pleat_vmm_unmap(vmm, range, bytes));
    EXPECT(free_bytes_of(vmm) <= before - bytes);
    EXPECT(contract_wrong(device, 0, range + bytes, words, 7) == 0);
    EXPECT_OK(pleat_vmm_unmap(vmm, range + bytes, bytes));
    EXPECT(free_bytes_of(vmm) >= before);
    EXPECT_OK(pleat_vmm_address_free(vmm, range, 2 * bytes));
}

static void check_a_full_device_refuses_chunks(contract_device_t *device)
{
    const uint64_t granule = granule_of(device->vmm);
    const uint64_t before = free_bytes_of(device->vmm);
    const uint64_t bytes = pleat_round_up(total_bytes_of(device->vmm), granule) + granule;
    pleat_chunk_t chunk = 5;
    EXPECT_STATUS(pleat_vmm_chunk_create(device->vmm, bytes, &chunk), PLEAT_ERR_OOM_DEVICE);
    EXPECT(chunk == 5);
    EXPECT(free_bytes_of(device->vmm) >= before);
}

static void check_no_mapping_call_waits(contract_device_t *device)
{
    pleat_vmm_t *vmm = device->vmm;
    pleat_event_t event = 0;
    EXPECT_OK(pleat_vmm_event_create(vmm, &event));
    contract_begin_work(device, 1);
    EXPECT_OK(pleat_vmm_event_record(vmm, event, device->streams[1]));
    const uint64_t waits = waits_of(vmm);
    const stretch_t stretch = stretch_create(device);
    EXPECT_OK(pleat_vmm_set_access(vmm, stretch.range, 6 * stretch.granule));
    EXPECT_OK(pleat_vmm_map(vmm, stretch.range + 6 * stretch.granule, 2 * stretch.granule,
                            stretch.chunks[2]));
    EXPECT_OK(pleat_vmm_unmap(vmm, stretch.range, 8 * stretch.granule));
    stretch_release(device, &stretch);
    EXPECT_STATUS(pleat_vmm_event_query(vmm, event), PLEAT_ERR_NOT_READY);
    EXPECT(waits_of(vmm) == waits);
    contract_end_work(device, 1);
    EXPECT_OK(pleat_vmm_event_query(vmm, event));
    EXPECT_OK(pleat_vmm_event_destroy(vmm, event));
}

/* ---- contents ---- */

static void check_stitched_chunks_are_one_piece(contract_device_t *device)
{
    pleat_vmm_t *vmm = device->vmm;
    const stretch_t stretch = stretch_create(device);
    const uint64_t words = 6 * stretch.granule / 4;
    EXPECT_OK(pleat_vmm_set_access(vmm, stretch.range, 6 * stretch.granule));
    contract_fill(device, 0, stretch.range, words, 1);
    EXPECT(contract_wrong(device, 0, stretch.range, words, 1) == 0);
    /* What spans a border is in both chunks. */
    const pleat_devptr_t border = stretch.range + 4 * stretch.granule - 4096;
    contract_fill(device, 0, border, 2048, 2);
    EXPECT(contract_wrong(device, 0, border, 2048, 2) == 0);
    EXPECT(contract_wrong(device, 0, stretch.range, stretch.granule / 4, 1) == 0);
    EXPECT_OK(pleat_vmm_unmap(vmm, stretch.range, 6 * stretch.granule));
    stretch_release(device, &stretch);
}

static void check_contents_move_with_a_chunk(contract_device_t *device)
{
    pleat_vmm_t *vmm = device->vmm;
    const stretch_t stretch = stretch_create(device);
    const uint64_t granule = stretch.granule;
    EXPECT_OK(pleat_vmm_set_access(vmm, stretch.range, 6 * granule));
    for (uint32_t i = 0; i < 3; i++) {
        contract_fill(device, 0, stretch.range + stretch_offsets[i] * granule,
                      stretch_granules[i] * granule / 4, 10 + i);
    }
    EXPECT_OK(pleat_vmm_stream_synchronize(vmm, device->streams[0]));
    EXPECT_OK(pleat_vmm_unmap(vmm, stretch.range, 6 * granule));
    /* In the other order now: 2, 3 and 1 granules. */
    static const uint64_t offsets[3] = {5, 2, 0};
    for (uint32_t i = 0; i < 3; i++) {
        EXPECT_OK(pleat_vmm_map(vmm, stretch.range + offsets[i] * granule,
                                stretch_granules[i] * granule, stretch.chunks[i]));
    }
    EXPECT_OK(pleat_vmm_set_access(vmm, stretch.range, 6 * granule));
    for (uint32_t i = 0; i < 3; i++) {
        EXPECT(contract_wrong(device, 0, stretch.range + offsets[i] * granule,
                              stretch_granules[i] * granule / 4, 10 + i) == 0);
    }
    EXPECT_OK(pleat_vmm_unmap(vmm, stretch.range, 6 * granule));
    stretch_release(device, &stretch);
}

/* A second view of the chunks of a stretch, in another order; its chunk i begins at offsets[i]. */
static pleat_devptr_t view_create(contract_device_t *device, const stretch_t *stretch,
                                  const uint64_t *offsets)
{
    pleat_devptr_t view = 0;
    EXPECT_OK(pleat_vmm_address_reserve(device->vmm, 6 * stretch->granule, &view));
    for (int i = 0; i < 3; i++) {
        EXPECT_OK(pleat_vmm_map(device->vmm, view + offsets[i] * stretch->granule,
                                stretch_granules[i] * stretch->granule, stretch->chunks[i]));
    }
    EXPECT_OK(pleat_vmm_set_access(device->vmm, view, 6 * stretch->granule));
    return view;
}

static void check_aliases_are_coherent_in_stream_order(contract_device_t *device)
{
    static const uint64_t offsets[3] = {5, 0, 3};
    pleat_vmm_t *vmm = device->vmm;
    const stretch_t stretch = stretch_create(device);
    const uint64_t granule = stretch.granule;
    EXPECT_OK(pleat_vmm_set_access(vmm, stretch.range, 6 * granule));
    const pleat_devptr_t view = view_create(device, &stretch, offsets);
    uint64_t wrong = 0;
    for (uint32_t round = 0; round < 20; round++) {
        for (uint32_t i = 0; i < 3; i++) {
            const pleat_devptr_t a = stretch.range + stretch_offsets[i] * granule;
            const pleat_devptr_t b = view + offsets[i] * granule;
            const uint64_t words = stretch_granules[i] * granule / 4;
            contract_fill(device, 1, a, words, 100 * round + i);
            wrong += contract_wrong(device, 1, b, words, 100 * round + i);
            contract_fill(device, 1, b, words, 100 * round + 50 + i);
            wrong += contract_wrong(device, 1, a, words, 100 * round + 50 + i);
        }
    }
    EXPECT(wrong == 0);
    EXPECT_OK(pleat_vmm_unmap(vmm, view, 6 * granule));
    EXPECT_OK(pleat_vmm_address_free(vmm, view, 6 * granule));
    EXPECT_OK(pleat_vmm_unmap(vmm, stretch.range, 6 * granule));
    stretch_release(device, &stretch);
}

static void check_aliases_are_coherent_behind_events(contract_device_t *device)
{
    static const uint64_t offsets[3] = {2, 3, 0};
    pleat_vmm_t *vmm = device->vmm;
    const stretch_t stretch = stretch_create(device);
    const uint64_t granule = stretch.granule;
    pleat_event_t event = 0;
    EXPECT_OK(pleat_vmm_event_create(vmm, &event));
    EXPECT_OK(pleat_vmm_set_access(vmm, stretch.range, 6 * granule));
    const pleat_devptr_t view = view_create(device, &stretch, offsets);
    uint64_t wrong = 0;
    for (uint32_t round = 0; round < 20; round++) {
        const uint32_t i = round % 3;
        const uint64_t words = stretch_granules[i] * granule / 4;
        contract_fill(device, 1, stretch.range + stretch_offsets[i] * granule, words, 900 + round);
        EXPECT_OK(pleat_vmm_event_record(vmm, event, device->streams[1]));
        EXPECT_OK(pleat_vmm_stream_wait_event(vmm, device->streams[2], event));
        wrong += contract_wrong(device, 2, view + offsets[i] * granule, words, 900 + round);
    }
    EXPECT(wrong == 0);
    EXPECT_OK(pleat_vmm_event_destroy(vmm, event));
    EXPECT_OK(pleat_vmm_unmap(vmm, view, 6 * granule));
    EXPECT_OK(pleat_vmm_address_free(vmm, view, 6 * granule));
    EXPECT_OK(pleat_vmm_unmap(vmm, stretch.range, 6 * granule));
    stretch_release(device, &stretch);
}

/* ---- misuse that a sim refuses and a GPU's driver may not notice; see vmm.h ---- */

static void check_no_part_of_a_chunk_is_mapped(contract_device_t *device)
{
    pleat_vmm_t *vmm = device->vmm;
    const stretch_t stretch = stretch_create(device);
    const uint64_t granule = stretch.granule;
    const pleat_devptr_t end = stretch.range + 6 * granule;
    const pleat_status_t bad = PLEAT_ERR_INVALID;
    EXPECT_STATUS(pleat_vmm_map(vmm, end, granule, stretch.chunks[2]), bad);     /* in part */
    EXPECT_STATUS(pleat_vmm_map(vmm, end, 2 * granule, stretch.chunks[0]), bad); /* too much */
    EXPECT_STATUS(pleat_vmm_map(vmm, end, 3 * granule, stretch.chunks[1]), bad); /* past the end */
    EXPECT_OK(pleat_vmm_unmap(vmm, stretch.range, 6 * granule));
    stretch_release(device, &stretch);
}

static void check_no_part_of_a_mapping_goes(contract_device_t *device)
{
    static const struct {
        uint64_t offset, granules;
    } rows[] = {{0, 2}, {0, 3}, {1, 1}, {1, 2}, {2, 2}, {3, 1}, {0, 5},
                {5, 1}, {6, 1}, {4, 3}, {0, 8}, {5, 2}, {6, 2}};
    pleat_vmm_t *vmm = device->vmm;
    const stretch_t stretch = stretch_create(device);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const pleat_devptr_t ptr = stretch.range + rows[i].offset * stretch.granule;
        EXPECT_STATUS(pleat_vmm_unmap(vmm, ptr, rows[i].granules * stretch.granule),
                      PLEAT_ERR_INVALID);
    }
    /* None of that unmapped anything. */
    EXPECT_OK(pleat_vmm_set_access(vmm, stretch.range, 6 * stretch.granule));
    EXPECT_OK(pleat_vmm_unmap(vmm, stretch.range, 6 * stretch.granule));
    EXPECT_STATUS(pleat_vmm_unmap(vmm, stretch.range, 6 * stretch.granule), PLEAT_ERR_INVALID);
    stretch_release(device, &stretch);
}

/* A real driver follows a handle as a pointer. */
static void check_foreign_handles(contract_device_t *device)
{
    pleat_vmm_t *vmm = device->vmm;
    const uint64_t granule = granule_of(vmm);
    pleat_devptr_t range = 0;
    pleat_chunk_t chunk = 0;
    EXPECT_OK(pleat_vmm_address_reserve(vmm, granule, &range));
    EXPECT_OK(pleat_vmm_chunk_create(vmm, granule, &chunk));
    EXPECT_OK(pleat_vmm_chunk_release(vmm, chunk));
    EXPECT_STATUS(pleat_vmm_chunk_release(vmm, chunk), PLEAT_ERR_INVALID);
    EXPECT_STATUS(pleat_vmm_map(vmm, range, granule, chunk), PLEAT_ERR_INVALID);
    EXPECT_STATUS(pleat_vmm_event_query(vmm, UINT64_C(0xdead0000)), PLEAT_ERR_INVALID);
    EXPECT_OK(pleat_vmm_address_free(vmm, range, granule));
}

/* ---- the table ---- */

typedef struct check {
    const char *name;
    void (*run)(contract_device_t *device);
    bool is_for_sim_only;
    bool needs_contents;
} check_t;

static const check_t checks[] = {
    {"memory_comes_and_goes", check_memory_comes_and_goes, false, false},
    {"memory_errors", check_memory_errors, false, false},
    {"memory_is_counted", check_memory_is_counted, false, false},
    {"free_waits_for_the_device", check_free_waits_for_the_device, false, false},
    {"memory_holds_contents", check_memory_holds_contents, false, true},
    {"events_follow_their_stream", check_events_follow_their_stream, false, false},
    {"streams_wait_for_events", check_streams_wait_for_events, false, false},
    {"waits_are_counted", check_waits_are_counted, false, false},
    {"granularity", check_granularity, false, false},
    {"ranges", check_ranges, false, false},
    {"a_chunk_is_mapped_whole", check_a_chunk_is_mapped_whole, false, false},
    {"mappings_go_whole", check_mappings_go_whole, false, false},
    {"access_is_for_mappings", check_access_is_for_mappings, false, false},
    {"nothing_is_mapped_outside_ranges", check_nothing_is_mapped_outside_ranges, false, false},
    {"a_released_chunk_keeps_its_memory", check_a_released_chunk_keeps_its_memory, false, false},
    {"a_full_device_refuses_chunks", check_a_full_device_refuses_chunks, false, false},
    {"no_mapping_call_waits", check_no_mapping_call_waits, false, false},
    {"stitched_chunks_are_one_piece", check_stitched_chunks_are_one_piece, false, true},
    {"contents_move_with_a_chunk", check_contents_move_with_a_chunk, false, true},
    {"aliases_are_coherent_in_stream_order", check_aliases_are_coherent_in_stream_order, false,
     true},
    {"aliases_are_coherent_behind_events", check_aliases_are_coherent_behind_events, false, true},
    {"access_in_part_is_refused", check_access_in_part_is_refused, false, false},
    {"a_range_is_freed_whole", check_a_range_is_freed_whole, false, false},
    {"a_range_with_mappings_stays", check_a_range_with_mappings_stays, false, false},
    {"a_chunk_comes_back_from_a_descriptor", check_a_chunk_comes_back_from_a_descriptor, false,
     true},
    {"another_process_uses_chunks", check_another_process_uses_chunks, false, true},
    {"another_process_uses_plain_memory", check_another_process_uses_plain_memory, false, true},
    {"another_device_uses_mappings", check_another_device_uses_mappings, false, true},
    {"no_part_of_a_chunk_is_mapped", check_no_part_of_a_chunk_is_mapped, true, false},
    {"no_part_of_a_mapping_goes", check_no_part_of_a_mapping_goes, true, false},
    {"foreign_handles", check_foreign_handles, true, false},
};

/* A simulated device must hold nothing between checks. */
static void expect_nothing_left(contract_device_t *device)
{
    pleat_sim_usage_t usage = PLEAT_SIM_USAGE_INIT;
    if (device->gpu == NULL) {
        EXPECT_OK(pleat_sim_read_usage(device->vmm, &usage));
        EXPECT(usage.allocations + usage.events == 0);
        EXPECT(usage.ranges + usage.chunks + usage.mappings == 0);
    }
}

int main(int argc, char **argv)
{
    contract_device_t device = contract_open(argc, argv);
    device.arguments = argv;
    if (gpu_argument(argc, argv, "--export", NULL) != NULL) {
        return contract_share_export(&device, argc, argv);
    }
    const char *only = gpu_argument(argc, argv, "--only", NULL);
    uint64_t held = 0;
    uint64_t run = 0;
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        const check_t *check = &checks[i];
        if ((check->is_for_sim_only && device.gpu != NULL) ||
            (check->needs_contents && !device.has_contents) ||
            (only != NULL && strcmp(only, check->name) != 0)) {
            continue;
        }
        const uint64_t failures = contract_tally.failures;
        check->run(&device);
        expect_nothing_left(&device);
        const bool holds = contract_tally.failures == failures;
        (void)printf("%-40s %s\n", check->name, holds ? "holds" : "FAILS");
        (void)fflush(stdout);
        run++;
        held += holds;
    }
    contract_close(&device);
    (void)printf("contract on %s: %" PRIu64 " of %" PRIu64 " checks hold, %" PRIu64
                 " expectations, %" PRIu64 " failed\n",
                 gpu_argument(argc, argv, "--device", "sim"), held, run,
                 contract_tally.expectations, contract_tally.failures);
    return run > 0 && held == run ? GPU_EXIT_PASS : GPU_EXIT_FAIL;
}
