/*
 * replay_options: the options that replay, compare, summary and stats share: which modes and
 * settings, on which device, how often, and where timeline, picture and events go.
 */
#ifndef PLEAT_CLI_REPLAY_OPTIONS_H
#define PLEAT_CLI_REPLAY_OPTIONS_H

#include "args.h"

#include "replay.h"
#include "trace_set.h"

enum { PLEAT_CLI_SETTINGS_MAX = 64, PLEAT_CLI_PASSES_MAX = 10000 };

/* Keys of the options; a command's table holds those that it takes, as the macros below. */
enum {
    PLEAT_CLI_KEY_MODE = 128,
    PLEAT_CLI_KEY_MODES,
    PLEAT_CLI_KEY_CONF,
    PLEAT_CLI_KEY_LIMIT,
    PLEAT_CLI_KEY_DEVICE_MEMORY,
    PLEAT_CLI_KEY_PASSES,
    PLEAT_CLI_KEY_EMPTY_CACHE,
    PLEAT_CLI_KEY_PERTURB,
    PLEAT_CLI_KEY_COSTS,
    PLEAT_CLI_KEY_TIMELINE,
    PLEAT_CLI_KEY_PLOT,
    PLEAT_CLI_KEY_PERFETTO,
    PLEAT_CLI_KEY_JSON,
    PLEAT_CLI_KEY_SNAPSHOT_DEVICE,
    PLEAT_CLI_KEY_SNAPSHOT_MEMORY,
    PLEAT_CLI_KEY_OWN /* first key for a command's own options */
};

#define PLEAT_CLI_MODE_HELP                                                                       \
    "mode of the allocator: classic (PyTorch's default), torch_expandable (PyTorch's expandable " \
    "segments) or pleated; without it the one that --conf asks for, or classic"
#define PLEAT_CLI_OPTION_MODE                                \
    {                                                        \
        PLEAT_CLI_KEY_MODE, "mode", "M", PLEAT_CLI_MODE_HELP \
    }
#define PLEAT_CLI_OPTION_MODES                                                                   \
    {                                                                                            \
        PLEAT_CLI_KEY_MODES, "modes", "A,B,...",                                                 \
            "modes to compare, in this order; without it all three: classic, torch_expandable, " \
            "pleated"                                                                            \
    }
#define PLEAT_CLI_OPTION_CONF                                                            \
    {                                                                                    \
        PLEAT_CLI_KEY_CONF, "conf", "STRING", "settings as in ALLOC_CONF, read strictly" \
    }
#define PLEAT_CLI_OPTION_CONFS                                                                   \
    {                                                                                            \
        PLEAT_CLI_KEY_CONF, "conf", "STRING",                                                    \
            "settings as in ALLOC_CONF, read strictly; give it several times for several rows, " \
            "'' for "                                                                            \
            "the defaults"                                                                       \
    }
#define PLEAT_CLI_OPTION_LIMIT                                                              \
    {                                                                                       \
        PLEAT_CLI_KEY_LIMIT, "limit", "BYTES",                                              \
            "most memory to hold from the device, as PyTorch's memory fraction; 0 refuses " \
            "everything"                                                                    \
    }
#define PLEAT_CLI_OPTION_DEVICE                                                              \
    {                                                                                        \
        PLEAT_CLI_KEY_DEVICE_MEMORY, "device-memory", "BYTES",                               \
            "memory of the simulated device; without it that of an H200, 150109880320 bytes" \
    }
#define PLEAT_CLI_OPTION_SNAPSHOT_DEVICE                                                     \
    {                                                                                        \
        PLEAT_CLI_KEY_SNAPSHOT_DEVICE, "device", "N",                                        \
            "of a memory snapshot, the device whose history is taken; without it every one " \
            "that has a history, as FILE:DEVICE if there are several"                        \
    }
#define PLEAT_CLI_OPTION_SNAPSHOT_MEMORY                                                         \
    {                                                                                            \
        PLEAT_CLI_KEY_SNAPSHOT_MEMORY, "snapshot-memory", "BYTES",                               \
            "most host memory to read a memory snapshot with; without it 16GiB, or half of the " \
            "machine's memory if that is less"                                                   \
    }
#define PLEAT_CLI_OPTION_PASSES                                      \
    {                                                                \
        PLEAT_CLI_KEY_PASSES, "passes", "N",                         \
            "play the trace N times in a row, as a longer run would" \
    }
#define PLEAT_CLI_OPTION_EMPTY_CACHE                                                             \
    {                                                                                            \
        PLEAT_CLI_KEY_EMPTY_CACHE, "empty-cache", "keep|drop",                                   \
            "make the calls of empty_cache that the trace tells of (keep, the default), or not " \
            "(drop)"                                                                             \
    }
#define PLEAT_CLI_OPTION_PERTURB                                                                \
    {                                                                                           \
        PLEAT_CLI_KEY_PERTURB, "perturb", "SEED",                                               \
            "scale each distinct size above 1 MiB by a factor of its own between 0.9 and 1.1, " \
            "drawn from SEED"                                                                   \
    }
#define PLEAT_CLI_OPTION_COSTS                                                           \
    {                                                                                    \
        PLEAT_CLI_KEY_COSTS, "costs", "FILE",                                            \
            "cost table of the simulated device; without it the one measured on an H200" \
    }
#define PLEAT_CLI_OPTION_TIMELINE                                                            \
    {                                                                                        \
        PLEAT_CLI_KEY_TIMELINE, "timeline", "FILE",                                          \
            "write reserved, allocated, active, inactive_split and unreturnable bytes over " \
            "time as CSV"                                                                    \
    }
#define PLEAT_CLI_OPTION_PLOT                                                                     \
    {                                                                                             \
        PLEAT_CLI_KEY_PLOT, "plot", "FILE",                                                       \
            "draw the timeline; the name ends with .png, .pdf or .svg (needs python3-matplotlib)" \
    }
#define PLEAT_CLI_OPTION_PERFETTO                                                                 \
    {                                                                                             \
        PLEAT_CLI_KEY_PERFETTO, "perfetto", "FILE",                                               \
            "write the replay as events for ui.perfetto.dev: memory as counters, calls of the "   \
            "simulated device as slices, failures and retries; JSON, packed if the name ends in " \
            ".gz"                                                                                 \
    }
#define PLEAT_CLI_OPTION_JSON                                                           \
    {                                                                                   \
        PLEAT_CLI_KEY_JSON, "json", NULL, "print for machines: JSON, one object a line" \
    }

typedef struct pleat_cli_replay_options {
    pleat_mode_t modes[PLEAT_MODE_COUNT];
    size_t mode_count;
    bool compares;      /* set by a command that replays in several modes: without --modes in all */
    bool has_all_modes; /* none was chosen, so it is all that there are */
    const char *confs[PLEAT_CLI_SETTINGS_MAX];          /* "": the defaults */
    pleat_options_t allocators[PLEAT_CLI_SETTINGS_MAX]; /* by text, with the mode that it names */
    uint64_t limits[PLEAT_CLI_SETTINGS_MAX][PLEAT_MODE_COUNT]; /* by text and mode, bytes */
    size_t conf_count;
    bool has_limit;
    uint64_t limit_bytes;
    uint64_t device_bytes;
    uint32_t passes;
    bool drops_empty_cache;
    bool is_perturbed;
    uint64_t perturb_seed;
    bool has_costs;
    pleat_cost_table_t costs;
    const char *timeline_path;
    const char *plot_path;
    const char *perfetto_path;
    bool is_json;
    pleat_trace_set_options_t set; /* how snapshots are read */
} pleat_cli_replay_options_t;

/** How snapshots are read without options. */
pleat_trace_set_options_t pleat_cli_set_options(void);

/** Take one of the two options of snapshots. 0, or an exit status after a message. */
int pleat_cli_set_options_take(pleat_trace_set_options_t *set, const pleat_cli_args_t *args,
                               int key);

/** All defaults. */
void pleat_cli_replay_options_init(pleat_cli_replay_options_t *options);

/** Take the option that pleat_cli_args_next returned as @p key. 0, or an exit status after a
 * message. */
int pleat_cli_replay_options_take(pleat_cli_replay_options_t *options, const pleat_cli_args_t *args,
                                  int key);

/**
 * Fill in what was not given, and read all texts of settings; to be called once, after the last
 * option. 0, or an exit status after a message.
 */
int pleat_cli_replay_options_finish(pleat_cli_replay_options_t *options);

#endif
