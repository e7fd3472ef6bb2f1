/*
 * torch_snapshot_check (internal): is a snapshot that a caller made fit to be written? Every index
 * lies in its table, every value has a name in PyTorch's files.
 */
#ifndef PLEAT_COMPAT_TORCH_SNAPSHOT_CHECK_H
#define PLEAT_COMPAT_TORCH_SNAPSHOT_CHECK_H

#include <pleat/torch_snapshot.h>

/** @retval PLEAT_ERR_INVALID the message names what and where. @par Cost linear. */
PLEAT_NODISCARD pleat_status_t pleat_torch_snapshot_check(const pleat_torch_snapshot_t *snapshot);

#endif
