/*
 * history_token (internal): counting references to the callers' tokens of a history
 * (pleat/history.h). NULL is no token.
 */
#ifndef PLEAT_INTERNAL_HISTORY_TOKEN_H
#define PLEAT_INTERNAL_HISTORY_TOKEN_H

#include <pleat/history.h>

static inline void pleat_token_retain(const pleat_history_hooks_t *hooks, void *token)
{
    if (token != NULL && hooks->retain != NULL) {
        hooks->retain(hooks->context, token);
    }
}

static inline void pleat_token_release(const pleat_history_hooks_t *hooks, void *token)
{
    if (token != NULL && hooks->release != NULL) {
        hooks->release(hooks->context, token);
    }
}

#endif
