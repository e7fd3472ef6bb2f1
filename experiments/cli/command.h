/*
 * command: what every subcommand of `pleat` is made of: a name, texts for its help page, a table of
 * options and a function that runs it. main.c dispatches, args.c reads options and prints help.
 */
#ifndef PLEAT_CLI_COMMAND_H
#define PLEAT_CLI_COMMAND_H

#include <stddef.h>

/* Exit statuses of the program, the same for every subcommand. */
enum {
    PLEAT_CLI_EXIT_GOOD = 0,
    PLEAT_CLI_EXIT_NO = 1,   /* the answer is no: a difference, an out-of-memory in the replay */
    PLEAT_CLI_EXIT_USAGE = 2 /* the call or the input is wrong */
};

typedef struct pleat_cli_option {
    int key;          /* what pleat_cli_args_next returns; positive, a letter is a short option */
    const char *name; /* long name without dashes */
    const char *metavar; /* NULL: takes no value */
    const char *help;    /* one sentence, may be long */
} pleat_cli_option_t;

typedef struct pleat_cli_command {
    const char *name;
    const char *brief;                 /* half a sentence for the list of commands */
    const char *operands;              /* for the usage line */
    const char *description;           /* a paragraph or more; line ends are kept */
    const char *examples;              /* lines as a user types them */
    const pleat_cli_option_t *options; /* --help is understood without an entry */
    size_t option_count;
    int (*run)(const struct pleat_cli_command *command, int argc, char **argv);
} pleat_cli_command_t;

/* X(name): every subcommand, in the order of the help page. */
#define PLEAT_CLI_COMMAND_LIST(X) \
    X(compare)                    \
    X(replay)                     \
    X(verify)                     \
    X(conf)                       \
    X(summary)                    \
    X(stats)                      \
    X(snapshot)                   \
    X(convert)                    \
    X(probe)

#define PLEAT_CLI_COMMAND_EXTERN(name) extern const pleat_cli_command_t pleat_cli_##name;
PLEAT_CLI_COMMAND_LIST(PLEAT_CLI_COMMAND_EXTERN)
#undef PLEAT_CLI_COMMAND_EXTERN

/* NOLINTNEXTLINE(bugprone-macro-parentheses) */
#define PLEAT_CLI_COMMAND_ONE(name) +1
enum { PLEAT_CLI_COMMAND_COUNT = PLEAT_CLI_COMMAND_LIST(PLEAT_CLI_COMMAND_ONE) };
#undef PLEAT_CLI_COMMAND_ONE

/* All of them, in that order. */
extern const pleat_cli_command_t *const pleat_cli_commands[PLEAT_CLI_COMMAND_COUNT];

/* --help and -h, which every subcommand understands. */
extern const pleat_cli_option_t pleat_cli_help_option;

/** The subcommand of a name; NULL if there is none. */
const pleat_cli_command_t *pleat_cli_command_find(const char *name);

/* Does an option have a short name beside the long one? */
static inline int pleat_cli_option_is_short(const pleat_cli_option_t *option)
{
    return option->key < 128;
}

/* Texts of the help page and of the manual. */
#define PLEAT_CLI_ABOUT                                                                 \
    "Replays allocation traces of GPU programs on a simulated device, and shows what\n" \
    "a caching allocator makes of them. Only 'probe' needs a GPU.\n"
#define PLEAT_CLI_CONVENTIONS                                                        \
    "Exit status: 0 good; 1 the answer is no (a difference, out of memory in a\n"    \
    "replay); 2 the call or the input is wrong. '-' is standard input. Sizes take\n" \
    "units: 40GiB, 512MiB, bytes. Every command understands --help and, for\n"       \
    "machines, --json.\n"

#endif
