/*
 * perturb: factors by hashing.
 */
#include "perturb.h"

#include <math.h>

#include "../../vmm/base.h"

/* Largest size that stays; the small pool's. */
#define KEPT_BYTES PLEAT_MIB

/* The finaliser of MurmurHash3 (A. Appleby, public domain), twice over two words. */
static uint64_t perturb_hash(uint64_t value)
{
    value ^= value >> 33;
    value *= UINT64_C(0xFF51AFD7ED558CCD);
    value ^= value >> 33;
    value *= UINT64_C(0xC4CEB9FE1A85EC53);
    return value ^ (value >> 33);
}

uint64_t pleat_perturb_bytes(uint64_t bytes, uint64_t seed)
{
    if (bytes <= KEPT_BYTES) {
        return bytes;
    }
    const uint64_t hash = perturb_hash(perturb_hash(seed + 1) ^ bytes);
    const double drawn = (double)(hash >> 11) / (double)(UINT64_C(1) << 53);
    const double scaled = (double)bytes * (0.9 + 0.2 * drawn);
    /* What was large stays large. */
    return scaled <= (double)KEPT_BYTES ? KEPT_BYTES + 1 : (uint64_t)llround(scaled);
}

void pleat_perturb_program(pleat_program_t *program, uint64_t seed)
{
    for (size_t i = 0; i < program->call_count; i++) {
        if (program->calls[i].kind == PLEAT_PROGRAM_ALLOC) {
            program->calls[i].bytes = pleat_perturb_bytes(program->calls[i].bytes, seed);
        }
    }
}
