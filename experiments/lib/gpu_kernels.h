/*
 * gpu_kernels: the few kernels that tests and measurements run on a GPU, as PTX text, which the
 * driver compiles: no compiler for GPUs is needed. One text a kernel; gpu_work.c launches them.
 *
 * The pattern of a block: word i of a block with seed s is P(i, s) = x ^ (x >> 13) with
 * x = i * 2654435761 + s * 2246822507, all in 32 bits. At one place two seeds never give the same
 * word.
 */
#ifndef PLEAT_GPU_KERNELS_H
#define PLEAT_GPU_KERNELS_H

#include <stdint.h>

/* (u64 ptr, u64 words, u32 seed): write the pattern. */
extern const char pleat_gpu_fill_text[];

/* (u64 ptr, u64 words, u32 seed, u64 counter): add the number of wrong words to a 64-bit counter.
 */
extern const char pleat_gpu_check_text[];

/* (u64 to, u64 from, u64 quads): copy 16 bytes a step. */
extern const char pleat_gpu_copy_text[];

/* (u64 flag, u64 limit_ns): run until the 32-bit flag is not 0, but no longer than the limit. */
extern const char pleat_gpu_spin_text[];

/* The pattern on the host. */
static inline uint32_t pleat_gpu_pattern(uint64_t index, uint32_t seed)
{
    const uint32_t x = (uint32_t)index * UINT32_C(2654435761) + seed * UINT32_C(2246822507);
    return x ^ (x >> 13);
}

#endif
