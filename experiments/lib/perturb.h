/*
 * perturb: the same program with other sizes, to see whether a result depends on the exact ones.
 * Each distinct size above 1 MiB is scaled by a factor of its own between 0.9 and 1.1, drawn from
 * the seed and the size, so that equal sizes stay equal.
 * Locks: none.
 */
#ifndef PLEAT_EXPERIMENTS_PERTURB_H
#define PLEAT_EXPERIMENTS_PERTURB_H

#include "program.h"

/** Perturbed size of @p bytes; sizes up to 1 MiB stay. @par Cost constant. */
uint64_t pleat_perturb_bytes(uint64_t bytes, uint64_t seed);

/** Perturb the allocations of a program in place. @par Cost O(calls). */
void pleat_perturb_program(pleat_program_t *program, uint64_t seed);

#endif
