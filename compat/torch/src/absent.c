/*
 * absent: stands in for functions of the library that are not there yet, and gives way to them.
 */
#include <pleat/private_pool.h>

#define ABSENT __attribute__((weak))

ABSENT pleat_status_t pleat_pool_checkpoint_take(pleat_allocator_t *allocator, pleat_pool_id_t id,
                                                 pleat_pool_checkpoint_t **checkpoint_out)
{
    (void)allocator;
    (void)id;
    (void)checkpoint_out;
    return PLEAT_ERR_UNSUPPORTED;
}

ABSENT void pleat_pool_checkpoint_destroy(pleat_pool_checkpoint_t *checkpoint)
{
    (void)checkpoint;
}

ABSENT pleat_status_t pleat_pool_checkpoint_restore(pleat_allocator_t *allocator,
                                                    const pleat_pool_checkpoint_t *checkpoint,
                                                    pleat_pool_delta_t *delta_out)
{
    (void)allocator;
    (void)checkpoint;
    (void)delta_out;
    return PLEAT_ERR_UNSUPPORTED;
}

ABSENT void pleat_pool_delta_fini(pleat_pool_delta_t *delta)
{
    (void)delta;
}
