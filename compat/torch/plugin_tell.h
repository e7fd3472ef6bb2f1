/*
 * plugin_tell (internal): failures that the plug-in can only tell on standard error.
 */
#ifndef PLEAT_TORCH_PLUGIN_TELL_H
#define PLEAT_TORCH_PLUGIN_TELL_H

typedef enum pleat_torch_failure {
    PLEAT_TORCH_MALLOC,
    PLEAT_TORCH_FREE,
    PLEAT_TORCH_RECORD_STREAM,
    PLEAT_TORCH_CONF,
    PLEAT_TORCH_RESET,
    PLEAT_TORCH_FRACTION,
    PLEAT_TORCH_POOL_BEGIN,
    PLEAT_TORCH_POOL_END,
    PLEAT_TORCH_POOL_RELEASE,
    PLEAT_TORCH_FAILURE_COUNT
} pleat_torch_failure_t;

/* Tell what failed and why, once for each kind of failure. */
void pleat_torch_tell(pleat_torch_failure_t failure, const char *what, const char *why);

#endif
