/*
 * pickle_opcodes: the opcodes of Python's pickle format up to protocol 5, as the module pickletools
 * of Python names them, and what the reader does with each.
 */
#ifndef PLEAT_COMPAT_PICKLE_OPCODES_H
#define PLEAT_COMPAT_PICKLE_OPCODES_H

/* X(code, name, use)
 *   DATA  plain data: read
 *   CODE  names, calls or builds objects of a program: refused, whatever stands behind it
 *   OTHER harmless, but nothing that a memory snapshot is made of: refused
 *   TEXT  a number or text in the line form of protocol 0: refused */
#define PLEAT_PICKLE_OPCODE_LIST(X) \
    X(0x80, PROTO, DATA)            \
    X(0x95, FRAME, DATA)            \
    X('.', STOP, DATA)              \
    X('(', MARK, DATA)              \
    X('0', POP, DATA)               \
    X('1', POP_MARK, DATA)          \
    X('2', DUP, DATA)               \
    X('N', NONE, DATA)              \
    X(0x88, NEWTRUE, DATA)          \
    X(0x89, NEWFALSE, DATA)         \
    X('K', BININT1, DATA)           \
    X('M', BININT2, DATA)           \
    X('J', BININT, DATA)            \
    X(0x8a, LONG1, DATA)            \
    X(0x8b, LONG4, DATA)            \
    X('G', BINFLOAT, DATA)          \
    X('U', SHORT_BINSTRING, DATA)   \
    X('T', BINSTRING, DATA)         \
    X(0x8c, SHORT_BINUNICODE, DATA) \
    X('X', BINUNICODE, DATA)        \
    X(0x8d, BINUNICODE8, DATA)      \
    X('C', SHORT_BINBYTES, DATA)    \
    X('B', BINBYTES, DATA)          \
    X(0x8e, BINBYTES8, DATA)        \
    X(')', EMPTY_TUPLE, DATA)       \
    X(0x85, TUPLE1, DATA)           \
    X(0x86, TUPLE2, DATA)           \
    X(0x87, TUPLE3, DATA)           \
    X('t', TUPLE, DATA)             \
    X(']', EMPTY_LIST, DATA)        \
    X('l', LIST, DATA)              \
    X('a', APPEND, DATA)            \
    X('e', APPENDS, DATA)           \
    X('}', EMPTY_DICT, DATA)        \
    X('d', DICT, DATA)              \
    X('s', SETITEM, DATA)           \
    X('u', SETITEMS, DATA)          \
    X('q', BINPUT, DATA)            \
    X('r', LONG_BINPUT, DATA)       \
    X(0x94, MEMOIZE, DATA)          \
    X('h', BINGET, DATA)            \
    X('j', LONG_BINGET, DATA)       \
    X('c', GLOBAL, CODE)            \
    X(0x93, STACK_GLOBAL, CODE)     \
    X('R', REDUCE, CODE)            \
    X('b', BUILD, CODE)             \
    X('i', INST, CODE)              \
    X('o', OBJ, CODE)               \
    X(0x81, NEWOBJ, CODE)           \
    X(0x92, NEWOBJ_EX, CODE)        \
    X('P', PERSID, CODE)            \
    X('Q', BINPERSID, CODE)         \
    X(0x82, EXT1, CODE)             \
    X(0x83, EXT2, CODE)             \
    X(0x84, EXT4, CODE)             \
    X(0x8f, EMPTY_SET, OTHER)       \
    X(0x90, ADDITEMS, OTHER)        \
    X(0x91, FROZENSET, OTHER)       \
    X(0x96, BYTEARRAY8, OTHER)      \
    X(0x97, NEXT_BUFFER, OTHER)     \
    X(0x98, READONLY_BUFFER, OTHER) \
    X('I', INT, TEXT)               \
    X('L', LONG, TEXT)              \
    X('F', FLOAT, TEXT)             \
    X('S', STRING, TEXT)            \
    X('V', UNICODE, TEXT)           \
    X('g', GET, TEXT)               \
    X('p', PUT, TEXT)

typedef enum pleat_pickle_opcode {
#define PLEAT_PICKLE_OPCODE_ENUM(code, name, use) PLEAT_PICKLE_OP_##name = (code),
    PLEAT_PICKLE_OPCODE_LIST(PLEAT_PICKLE_OPCODE_ENUM)
#undef PLEAT_PICKLE_OPCODE_ENUM
} pleat_pickle_opcode_t;

typedef enum pleat_pickle_use {
    PLEAT_PICKLE_UNKNOWN, /* no opcode */
    PLEAT_PICKLE_DATA,
    PLEAT_PICKLE_CODE,
    PLEAT_PICKLE_OTHER,
    PLEAT_PICKLE_TEXT
} pleat_pickle_use_t;

/* "REDUCE" for 'R'; "" for a byte that is no opcode. Static. */
const char *pleat_pickle_opcode_name(int opcode);

pleat_pickle_use_t pleat_pickle_opcode_use(int opcode);

#endif
