/*
 * pickle_opcodes: names and uses by code.
 */
#include "pickle_opcodes.h"

#include <stddef.h>

enum { OPCODE_COUNT = 256 };

static const struct {
    const char *name;
    pleat_pickle_use_t use;
} opcode_table[OPCODE_COUNT] = {
#define PLEAT_PICKLE_OPCODE_ROW(code, name, use) [code] = {#name, PLEAT_PICKLE_##use},
    PLEAT_PICKLE_OPCODE_LIST(PLEAT_PICKLE_OPCODE_ROW)
#undef PLEAT_PICKLE_OPCODE_ROW
};

const char *pleat_pickle_opcode_name(int opcode)
{
    const char *name = opcode >= 0 && opcode < OPCODE_COUNT ? opcode_table[opcode].name : NULL;
    return name != NULL ? name : "";
}

pleat_pickle_use_t pleat_pickle_opcode_use(int opcode)
{
    return opcode >= 0 && opcode < OPCODE_COUNT ? opcode_table[opcode].use : PLEAT_PICKLE_UNKNOWN;
}
