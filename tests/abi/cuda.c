/*
 * cuda: compares the declarations and constants of vmm/cuda_symbols.h and of experiments/lib/
 * gpu_work.h with those of a cuda.h. All of it happens when this is compiled; running it says so.
 */
#include <cuda.h>

/* Structs of ours stand in declarations; to compare those, let theirs stand there. */
#define PLEAT_CU_PROPERTIES CUmemAllocationProp
#define PLEAT_CU_ACCESS CUmemAccessDesc
#define PLEAT_CU_IPC_HANDLE CUipcMemHandle
#include "experiments/lib/gpu_work.h"

#include <stdio.h>

#define CHECK_CONSTANT(name, value, theirs) \
    _Static_assert((unsigned)(value) == (unsigned)(theirs), #theirs " has another value");
PLEAT_CU_CONSTANT_LIST(CHECK_CONSTANT)

#define CHECK_FUNCTION(name, parameters)                                                    \
    _Static_assert(                                                                         \
        __builtin_types_compatible_p(pleat_cu_result_t(*) parameters, __typeof__(&(name))), \
        #name " is declared in another way");
PLEAT_CU_REQUIRED_LIST(CHECK_FUNCTION)
PLEAT_CU_MAPPING_LIST(CHECK_FUNCTION)
PLEAT_CU_FILE_LIST(CHECK_FUNCTION)
PLEAT_CU_IPC_LIST(CHECK_FUNCTION)
PLEAT_CU_PEER_LIST(CHECK_FUNCTION)
PLEAT_GPU_WORK_LIST(CHECK_FUNCTION)
/* The version that we call is not declared by every toolkit; this is how those declare it that do.
 */
typedef CUresult cuStreamGetCaptureInfo_v2_t(CUstream, CUstreamCaptureStatus *, cuuint64_t *,
                                             CUgraph *, const CUgraphNode **, size_t *);
#define cuStreamGetCaptureInfo_v2 (*(cuStreamGetCaptureInfo_v2_t *)0)
PLEAT_CU_CAPTURE_LIST(CHECK_FUNCTION)
typedef CUresult cuGraphNodeGetDependencies_v1_t(CUgraphNode, CUgraphNode *, size_t *);
#undef cuGraphNodeGetDependencies
#define cuGraphNodeGetDependencies (*(cuGraphNodeGetDependencies_v1_t *)0)
PLEAT_CU_GRAPH_LIST(CHECK_FUNCTION)

#define CHECK_FIELD(ours, our_field, theirs, their_field)                                \
    _Static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field),           \
                   #theirs "." #their_field " lies elsewhere");                          \
    _Static_assert(sizeof(((ours *)0)->our_field) == sizeof(((theirs *)0)->their_field), \
                   #theirs "." #their_field " has another size");
CHECK_FIELD(pleat_cu_properties_t, type, CUmemAllocationProp, type)
CHECK_FIELD(pleat_cu_properties_t, handle_types, CUmemAllocationProp, requestedHandleTypes)
CHECK_FIELD(pleat_cu_properties_t, location.type, CUmemAllocationProp, location.type)
CHECK_FIELD(pleat_cu_properties_t, location.id, CUmemAllocationProp, location.id)
CHECK_FIELD(pleat_cu_properties_t, windows_data, CUmemAllocationProp, win32HandleMetaData)
CHECK_FIELD(pleat_cu_properties_t, flags.compression, CUmemAllocationProp,
            allocFlags.compressionType)
CHECK_FIELD(pleat_cu_properties_t, flags.can_rdma, CUmemAllocationProp,
            allocFlags.gpuDirectRDMACapable)
CHECK_FIELD(pleat_cu_properties_t, flags.usage, CUmemAllocationProp, allocFlags.usage)
CHECK_FIELD(pleat_cu_access_t, location.id, CUmemAccessDesc, location.id)
CHECK_FIELD(pleat_cu_access_t, flags, CUmemAccessDesc, flags)
_Static_assert(sizeof(pleat_cu_properties_t) == sizeof(CUmemAllocationProp), "another size");
_Static_assert(sizeof(pleat_cu_ipc_handle_t) == sizeof(CUipcMemHandle), "another size");
_Static_assert(sizeof(pleat_cu_access_t) == sizeof(CUmemAccessDesc), "another size");

int main(void)
{
    (void)printf("declarations agree with cuda.h of CUDA %d.%d\n", CUDA_VERSION / 1000,
                 CUDA_VERSION % 1000 / 10);
    return 0;
}
