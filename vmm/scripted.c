/*
 * scripted: addresses by a script of recorded driver steps; see scripted.h. A placer (sim.h) is all
 * that it adds to the simulated device.
 * No lock: one thread at a time for a device.
 */
#include "scripted.h"

#include "sim.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct script {
    pleat_script_step_t *steps;
    size_t count;
    size_t capacity;
    size_t next; /* first unused step */
    uint64_t strays;
    pleat_devptr_t reserve_address; /* where the next range begins; 0: anywhere */

    /* How far the next step, a map or an unmap of several chunks, has come. */
    uint64_t created_bytes;
    uint64_t moved_bytes;
} script_t;

static const pleat_script_step_t *script_peek(const script_t *script)
{
    return script->next < script->count ? &script->steps[script->next] : NULL;
}

static pleat_status_t script_take(void *self, pleat_sim_t *sim, uint64_t bytes,
                                  pleat_devptr_t *ptr_out)
{
    script_t *script = self;
    const pleat_script_step_t *step = script_peek(script);
    if (step == NULL || step->call != PLEAT_VMM_CALL_MEM_ALLOC || step->bytes != bytes) {
        return pleat_sim_out_of_memory(sim, bytes);
    }
    if (bytes > pleat_sim_free_bytes(sim)) {
        pleat_error_set("script: the recording allocates %" PRIu64 " bytes at 0x%" PRIx64
                        ", the device has %" PRIu64 " left: is its total too small?",
                        bytes, step->address, pleat_sim_free_bytes(sim));
        return PLEAT_ERR_FORMAT;
    }
    pleat_span_t live;
    if (pleat_sim_find_overlap(sim, (pleat_span_t){step->address, bytes}, &live)) {
        pleat_error_set("script: the recording allocates %" PRIu64 " bytes at 0x%" PRIx64
                        ", inside them is the live allocation at 0x%" PRIx64 " of %" PRIu64
                        " bytes",
                        bytes, step->address, live.begin, live.bytes);
        return PLEAT_ERR_FORMAT;
    }
    script->next++;
    *ptr_out = step->address;
    return PLEAT_OK;
}

static void script_give(void *self, pleat_devptr_t ptr, uint64_t bytes)
{
    script_t *script = self;
    (void)bytes;
    const pleat_script_step_t *step = script_peek(script);
    if (step != NULL && step->call == PLEAT_VMM_CALL_MEM_FREE && step->address == ptr) {
        script->next++;
    } else {
        script->strays++;
    }
}

/* A new range is mapped from its start on, so the next mapping of the script tells its address. */
static pleat_devptr_t script_reserve(void *self)
{
    script_t *script = self;
    pleat_devptr_t address = script->reserve_address;
    for (size_t i = script->next; i < script->count; i++) {
        if (script->steps[i].call == PLEAT_VMM_CALL_MAP) {
            address = script->steps[i].address;
            break;
        }
    }
    script->reserve_address = 0;
    return address;
}

/* The device has the chunks of the next mapping, and no more. */
static bool script_create(void *self, uint64_t bytes)
{
    script_t *script = self;
    const pleat_script_step_t *step = script_peek(script);
    if (step == NULL || step->call != PLEAT_VMM_CALL_MAP ||
        bytes > step->bytes - script->created_bytes) {
        return false;
    }
    script->created_bytes += bytes;
    return true;
}

/* Chunks that were made for a mapping which then failed. */
static void script_release(void *self, uint64_t bytes)
{
    script_t *script = self;
    script->created_bytes -= bytes < script->created_bytes ? bytes : script->created_bytes;
}

/* A chunk was mapped or unmapped; the step is used up once all its bytes were. */
static void script_move(script_t *script, pleat_vmm_call_t call, pleat_devptr_t ptr, uint64_t bytes)
{
    const pleat_script_step_t *step = script_peek(script);
    if (step == NULL || step->call != call || ptr != step->address + script->moved_bytes ||
        bytes > step->bytes - script->moved_bytes) {
        script->strays++;
        return;
    }
    script->moved_bytes += bytes;
    if (script->moved_bytes == step->bytes) {
        script->next++;
        script->moved_bytes = 0;
        script->created_bytes = 0;
    }
}

static void script_map(void *self, pleat_devptr_t ptr, uint64_t bytes)
{
    script_move(self, PLEAT_VMM_CALL_MAP, ptr, bytes);
}

static void script_unmap(void *self, pleat_devptr_t ptr, uint64_t bytes)
{
    script_move(self, PLEAT_VMM_CALL_UNMAP, ptr, bytes);
}

static void script_destroy(void *self)
{
    script_t *script = self;
    free(script->steps);
    free(script);
}

static const pleat_sim_placer_t script_placer = {
    .name = "scripted",
    .take = script_take,
    .give = script_give,
    .destroy = script_destroy,
    .reserve = script_reserve,
    .create = script_create,
    .release = script_release,
    .map = script_map,
    .unmap = script_unmap,
};

pleat_status_t pleat_scripted_create(uint64_t total_bytes, pleat_vmm_t **vmm_out)
{
    if (vmm_out == NULL) {
        pleat_error_set("scripted_create: vmm_out is NULL");
        return PLEAT_ERR_INVALID;
    }
    script_t *script = calloc(1, sizeof *script);
    if (script == NULL) {
        pleat_error_set("scripted_create: no host memory for a script of %zu bytes",
                        sizeof *script);
        return PLEAT_ERR_OOM_HOST;
    }
    pleat_sim_options_t options = PLEAT_SIM_OPTIONS_INIT;
    options.capacity_bytes = total_bytes;
    const pleat_status_t status =
        pleat_sim_create_placed(&options, &script_placer, script, vmm_out);
    if (status != PLEAT_OK) {
        script_destroy(script);
    }
    return status;
}

static pleat_status_t step_refuse(const pleat_script_step_t *step, size_t index, const char *what)
{
    pleat_error_set("script: step %zu (call %d, address 0x%" PRIx64 ", %" PRIu64 " bytes): %s",
                    index, (int)step->call, step->address, step->bytes, what);
    return PLEAT_ERR_INVALID;
}

static pleat_status_t step_check(const pleat_script_step_t *step, size_t index)
{
    if (step->call != PLEAT_VMM_CALL_MEM_ALLOC && step->call != PLEAT_VMM_CALL_MEM_FREE &&
        step->call != PLEAT_VMM_CALL_MAP && step->call != PLEAT_VMM_CALL_UNMAP) {
        return step_refuse(step, index, "the call must be mem_alloc, mem_free, map or unmap");
    }
    if (step->address == 0) {
        return step_refuse(step, index, "the address is 0");
    }
    if (step->call == PLEAT_VMM_CALL_MEM_FREE) {
        return PLEAT_OK;
    }
    uint64_t end = 0;
    if (step->bytes == 0 || !pleat_add_checked(step->address, step->bytes, &end)) {
        return step_refuse(step, index, "no such range of addresses");
    }
    return PLEAT_OK;
}

static pleat_status_t script_grow(script_t *script, size_t count)
{
    if (count <= script->capacity) {
        return PLEAT_OK;
    }
    const size_t doubled = 2 * script->capacity;
    const size_t capacity = count > doubled ? count : doubled;
    pleat_script_step_t *steps = capacity > SIZE_MAX / sizeof *steps
                                     ? NULL
                                     : realloc(script->steps, capacity * sizeof *steps);
    if (steps == NULL) {
        pleat_error_set("script: no host memory for %zu steps", capacity);
        return PLEAT_ERR_OOM_HOST;
    }
    script->steps = steps;
    script->capacity = capacity;
    return PLEAT_OK;
}

pleat_status_t pleat_scripted_expect(pleat_vmm_t *vmm, const pleat_script_step_t *steps,
                                     size_t count)
{
    script_t *script = pleat_sim_placer_self(vmm, &script_placer);
    if (script == NULL) {
        pleat_error_set("scripted_expect: device '%s' is no scripted one", pleat_vmm_name(vmm));
        return PLEAT_ERR_INVALID;
    }
    if (steps == NULL && count > 0) {
        pleat_error_set("scripted_expect: steps is NULL, %zu were announced", count);
        return PLEAT_ERR_INVALID;
    }
    const pleat_status_t status = script_grow(script, count);
    if (status != PLEAT_OK) {
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        const pleat_status_t checked = step_check(&steps[i], i);
        if (checked != PLEAT_OK) {
            return checked;
        }
    }
    if (count > 0) {
        memcpy(script->steps, steps, count * sizeof *steps);
    }
    script->count = count;
    script->next = 0;
    script->created_bytes = 0;
    script->moved_bytes = 0;
    return PLEAT_OK;
}

pleat_status_t pleat_scripted_place_range(pleat_vmm_t *vmm, pleat_devptr_t address)
{
    script_t *script = pleat_sim_placer_self(vmm, &script_placer);
    if (script == NULL) {
        pleat_error_set("scripted_place_range: device '%s' is no scripted one",
                        pleat_vmm_name(vmm));
        return PLEAT_ERR_INVALID;
    }
    script->reserve_address = address;
    return PLEAT_OK;
}

size_t pleat_scripted_left(const pleat_vmm_t *vmm)
{
    const script_t *script = pleat_sim_placer_self(vmm, &script_placer);
    return script == NULL ? 0 : script->count - script->next;
}

const pleat_script_step_t *pleat_scripted_next(const pleat_vmm_t *vmm)
{
    const script_t *script = pleat_sim_placer_self(vmm, &script_placer);
    return script == NULL ? NULL : script_peek(script);
}

uint64_t pleat_scripted_strays(const pleat_vmm_t *vmm)
{
    const script_t *script = pleat_sim_placer_self(vmm, &script_placer);
    return script == NULL ? 0 : script->strays;
}
