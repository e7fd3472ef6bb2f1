/*
 * player: performs the calls of a program against an allocator on a simulated (or scripted) device,
 * one after the other; replay and trace_check both drive one.
 *
 * A free that waits is given a stream of its own that is kept busy until the program says that the
 * work is over, so the program alone decides when a block may be used again. Those streams have
 * handles above all that a device gives out; they rise in the order of the frees, which is then
 * the order in which the engine looks at them. Where a trace completes frees in another order, the
 * engine is told that order.
 *
 * Invariants: an address of 0 marks a slot whose allocation failed or that is not live.
 * Locks: none; a player belongs to one thread at a time.
 */
#ifndef PLEAT_EXPERIMENTS_PLAYER_H
#define PLEAT_EXPERIMENTS_PLAYER_H

#include "program.h"

#define PLEAT_PLAYER_WAIT_STREAM (UINT64_C(1) << 62) /* first handle of the streams of waits */

typedef struct pleat_player {
    const pleat_program_t *program;
    pleat_vmm_t *vmm;
    pleat_allocator_t *allocator;
    pleat_devptr_t *addresses; /* by slot */
    pleat_stream_t *waits;     /* by slot: the stream that the free waits for; 0: none */
    pleat_stream_t *done;      /* streams of the completions since the last allocator call */
    size_t done_count;
    size_t done_capacity;
    uint64_t free_count;  /* blocks that calls of the program freed */
    uint64_t wait_next;   /* number of the next stream for a wait */
    uint64_t wait_live;   /* frees that wait */
    bool is_done_rising;  /* the handles in done rise */
    bool is_done_by_call; /* the next call itself waits for those in done */
} pleat_player_t;

/**
 * Begin to play @p program; everything stays the caller's and must outlive the player.
 * @retval PLEAT_ERR_OOM_HOST  no host memory.
 */
PLEAT_NODISCARD pleat_status_t pleat_player_init(pleat_player_t *player,
                                                 const pleat_program_t *program, pleat_vmm_t *vmm,
                                                 pleat_allocator_t *allocator);

/** Free what the player holds; the allocator keeps its live blocks. */
void pleat_player_fini(pleat_player_t *player);

/**
 * Perform one call of the program. An allocation that failed in the recording and succeeds here is
 * freed again at once. A free of an allocation that failed does nothing.
 *
 * @return the status of the allocator or of the device; PLEAT_ERR_OOM_DEVICE leaves the slot empty
 *         and the player goes on.
 */
PLEAT_NODISCARD pleat_status_t pleat_player_perform(pleat_player_t *player,
                                                    const pleat_program_call_t *call);

/** Free every block that is still live and end every wait. */
PLEAT_NODISCARD pleat_status_t pleat_player_free_all(pleat_player_t *player);

#endif
