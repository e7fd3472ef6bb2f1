/*
 * gpu_kernels: PTX texts. Each thread starts at its own number in the grid and goes on by the size
 * of the grid.
 */
#include "gpu_kernels.h"

#define HEAD          \
    ".version 7.0\n"  \
    ".target sm_75\n" \
    ".address_size 64\n"

/* %rd3: number of the thread, %rd5: threads of the grid. */
#define GRID                         \
    "mov.u32 %r3, %ctaid.x;\n"       \
    "mov.u32 %r4, %ntid.x;\n"        \
    "mov.u32 %r5, %tid.x;\n"         \
    "mul.wide.u32 %rd3, %r3, %r4;\n" \
    "cvt.u64.u32 %rd4, %r5;\n"       \
    "add.u64 %rd3, %rd3, %rd4;\n"    \
    "mov.u32 %r6, %nctaid.x;\n"      \
    "mul.wide.u32 %rd5, %r6, %r4;\n"

/* %r9: the pattern at %rd3; %r2: seed times its factor. %rd6: address of the word. */
#define PATTERN                               \
    "cvt.u32.u64 %r7, %rd3;\n"                \
    "mad.lo.u32 %r8, %r7, 2654435761, %r2;\n" \
    "shr.u32 %r9, %r8, 13;\n"                 \
    "xor.b32 %r9, %r9, %r8;\n"                \
    "shl.b64 %rd6, %rd3, 2;\n"                \
    "add.u64 %rd6, %rd6, %rd1;\n"

const char pleat_gpu_fill_text[] =
    HEAD ".visible .entry pleat_fill(.param .u64 p_ptr, .param .u64 p_words, .param .u32 p_seed)\n"
         "{\n"
         ".reg .pred %p<3>;\n"
         ".reg .b32 %r<12>;\n"
         ".reg .b64 %rd<8>;\n"
         "ld.param.u64 %rd1, [p_ptr];\n"
         "ld.param.u64 %rd2, [p_words];\n"
         "ld.param.u32 %r1, [p_seed];\n"
         "mul.lo.u32 %r2, %r1, 2246822507;\n" GRID "$next:\n"
         "setp.ge.u64 %p1, %rd3, %rd2;\n"
         "@%p1 bra $done;\n" PATTERN "st.global.u32 [%rd6], %r9;\n"
         "add.u64 %rd3, %rd3, %rd5;\n"
         "bra $next;\n"
         "$done:\n"
         "ret;\n"
         "}\n";

const char pleat_gpu_check_text[] =
    HEAD ".visible .entry pleat_check(.param .u64 p_ptr, .param .u64 p_words, .param .u32 p_seed,\n"
         ".param .u64 p_counter)\n"
         "{\n"
         ".reg .pred %p<4>;\n"
         ".reg .b32 %r<14>;\n"
         ".reg .b64 %rd<10>;\n"
         "ld.param.u64 %rd1, [p_ptr];\n"
         "ld.param.u64 %rd2, [p_words];\n"
         "ld.param.u32 %r1, [p_seed];\n"
         "ld.param.u64 %rd8, [p_counter];\n"
         "mul.lo.u32 %r2, %r1, 2246822507;\n"
         "mov.u64 %rd7, 0;\n" GRID "$next:\n"
         "setp.ge.u64 %p1, %rd3, %rd2;\n"
         "@%p1 bra $sum;\n" PATTERN "ld.global.u32 %r10, [%rd6];\n"
         "setp.ne.u32 %p2, %r10, %r9;\n"
         "@%p2 add.u64 %rd7, %rd7, 1;\n"
         "add.u64 %rd3, %rd3, %rd5;\n"
         "bra $next;\n"
         "$sum:\n"
         "setp.eq.u64 %p3, %rd7, 0;\n"
         "@%p3 bra $done;\n"
         "red.global.add.u64 [%rd8], %rd7;\n"
         "$done:\n"
         "ret;\n"
         "}\n";

const char pleat_gpu_copy_text[] =
    HEAD ".visible .entry pleat_copy(.param .u64 p_to, .param .u64 p_from, .param .u64 p_quads)\n"
         "{\n"
         ".reg .pred %p<3>;\n"
         ".reg .b32 %r<14>;\n"
         ".reg .b64 %rd<12>;\n"
         "ld.param.u64 %rd1, [p_to];\n"
         "ld.param.u64 %rd7, [p_from];\n"
         "ld.param.u64 %rd2, [p_quads];\n" GRID "$next:\n"
         "setp.ge.u64 %p1, %rd3, %rd2;\n"
         "@%p1 bra $done;\n"
         "shl.b64 %rd6, %rd3, 4;\n"
         "add.u64 %rd8, %rd7, %rd6;\n"
         "add.u64 %rd9, %rd1, %rd6;\n"
         "ld.global.v4.u32 {%r9, %r10, %r11, %r12}, [%rd8];\n"
         "st.global.v4.u32 [%rd9], {%r9, %r10, %r11, %r12};\n"
         "add.u64 %rd3, %rd3, %rd5;\n"
         "bra $next;\n"
         "$done:\n"
         "ret;\n"
         "}\n";

const char pleat_gpu_spin_text[] =
    HEAD ".visible .entry pleat_spin(.param .u64 p_flag, .param .u64 p_limit)\n"
         "{\n"
         ".reg .pred %p<3>;\n"
         ".reg .b32 %r<3>;\n"
         ".reg .b64 %rd<7>;\n"
         "ld.param.u64 %rd1, [p_flag];\n"
         "ld.param.u64 %rd2, [p_limit];\n"
         "mov.u64 %rd3, %globaltimer;\n"
         "$next:\n"
         "ld.volatile.global.u32 %r1, [%rd1];\n"
         "setp.ne.u32 %p1, %r1, 0;\n"
         "@%p1 bra $done;\n"
         "mov.u64 %rd4, %globaltimer;\n"
         "sub.u64 %rd5, %rd4, %rd3;\n"
         "setp.gt.u64 %p2, %rd5, %rd2;\n"
         "@%p2 bra $done;\n"
         "nanosleep.u32 1000;\n"
         "bra $next;\n"
         "$done:\n"
         "ret;\n"
         "}\n";
