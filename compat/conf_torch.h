/*
 * conf_torch (internal): the reading of PyTorch 2.11, flaw for flaw (conf.h).
 */
#ifndef PLEAT_INTERNAL_CONF_TORCH_H
#define PLEAT_INTERNAL_CONF_TORCH_H

#include "conf.h"

/* The texts that PyTorch's readers find at the start; NULL: no variable. */
typedef struct pleat_conf_torch_texts {
    const char *cuda; /* for the scan for the backend and for the CUDA parser */
    pleat_conf_source_t cuda_source;
    const char *generic;
    pleat_conf_source_t generic_source;
} pleat_conf_torch_texts_t;

/*
 * Read what stands in the variables. On failure conf may have changed: the caller drops it, as
 * there is no allocator then.
 */
pleat_status_t pleat_conf_torch_start(pleat_conf_t *conf, const pleat_conf_torch_texts_t *texts,
                                      pleat_conf_report_t *report);

/* Read a run-time text. After PLEAT_ERR_INVALID conf holds what PyTorch would be left with. */
pleat_status_t pleat_conf_torch_runtime(pleat_conf_t *conf, const char *text,
                                        pleat_conf_report_t *report);

#endif
