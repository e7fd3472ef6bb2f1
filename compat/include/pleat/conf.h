/*
 * conf: the options of an ALLOC_CONF text: every value in force and where it came from.
 *
 * A text can be read in two ways. PLEAT_CONF_TORCH reads it exactly as PyTorch 2.11 does, with its
 * resets, its tolerance and its error texts. PLEAT_CONF_STRICT accepts only what is well formed,
 * says in which column a text goes wrong, and warns of what is accepted but cannot act. What the
 * strict reading accepts without a warning means the same in both.
 *
 * No function here keeps a pointer to a caller's memory or any state of its own. Errors come as a
 * status and in a report; pleat_last_error has the same text.
 */
#ifndef PLEAT_CONF_H
#define PLEAT_CONF_H

#include <pleat/conf_keys.h>
#include <pleat/options.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pleat_conf_option {
#define PLEAT_CONF_OPTION_ENUM(name, key, second, value, parser, type, bounds, initial, smallest, \
                               largest, words, in_effect, help)                                   \
    PLEAT_CONF_##name,
    PLEAT_CONF_KEY_LIST(PLEAT_CONF_OPTION_ENUM)
#undef PLEAT_CONF_OPTION_ENUM
        PLEAT_CONF_OPTION_COUNT
} pleat_conf_option_t;

/* X(name, text): where a value came from. */
#define PLEAT_CONF_SOURCE_LIST(X)                         \
    X(DEFAULT, "default")                                 \
    X(PLEAT_ALLOC_CONF, "PLEAT_ALLOC_CONF")               \
    X(PYTORCH_CUDA_ALLOC_CONF, "PYTORCH_CUDA_ALLOC_CONF") \
    X(PYTORCH_HIP_ALLOC_CONF, "PYTORCH_HIP_ALLOC_CONF")   \
    X(PYTORCH_ALLOC_CONF, "PYTORCH_ALLOC_CONF")           \
    X(START, "text given at the start")                   \
    X(RUNTIME, "run-time text")

typedef enum pleat_conf_source {
#define PLEAT_CONF_SOURCE_ENUM(name, text) PLEAT_CONF_SOURCE_##name,
    PLEAT_CONF_SOURCE_LIST(PLEAT_CONF_SOURCE_ENUM)
#undef PLEAT_CONF_SOURCE_ENUM
        PLEAT_CONF_SOURCE_COUNT
} pleat_conf_source_t;

/* Values of the option `backend`. */
#define PLEAT_CONF_BACKEND_NATIVE 0
#define PLEAT_CONF_BACKEND_CUDA_MALLOC_ASYNC 1

/* Values of the option `expandable_policy`. */
#define PLEAT_CONF_POLICY_PLEATED 0
#define PLEAT_CONF_POLICY_TORCH 1

typedef struct pleat_conf_setting {
    uint64_t number; /* every type but PLEAT_CONF_REAL and PLEAT_CONF_DIVISIONS */
    double real;     /* PLEAT_CONF_REAL */
    pleat_conf_source_t source;
} pleat_conf_setting_t;

typedef struct pleat_conf {
    size_t size;    /* set by PLEAT_CONF_INIT */
    bool has_limit; /* a memory limit holds; set by readings at the start, or by the caller who
                       gives a limit by other means. Only a warning depends on it */
    uint64_t roundup_power2_divisions[PLEAT_ROUNDUP_ENTRIES];
    pleat_conf_setting_t settings[PLEAT_CONF_OPTION_COUNT]; /* by pleat_conf_option_t */
} pleat_conf_t;

#define PLEAT_CONF_SETTING_INIT(name, key, second, value, parser, type, bounds, initial, smallest, \
                                largest, words, in_effect, help)                                   \
    {(uint64_t)(initial), (double)(initial), PLEAT_CONF_SOURCE_DEFAULT},
#define PLEAT_CONF_INIT                                  \
    {                                                    \
        sizeof(pleat_conf_t), false, {0},                \
        {                                                \
            PLEAT_CONF_KEY_LIST(PLEAT_CONF_SETTING_INIT) \
        }                                                \
    }

typedef enum pleat_conf_reading { PLEAT_CONF_STRICT, PLEAT_CONF_TORCH } pleat_conf_reading_t;

#define PLEAT_CONF_MESSAGE_BYTES 1024
#define PLEAT_CONF_WARNING_BYTES 512
#define PLEAT_CONF_WARNING_COUNT 5

/* What a reading found. Texts are cut at their buffer's end. */
typedef struct pleat_conf_report {
    size_t size; /* set by PLEAT_CONF_REPORT_INIT */
    pleat_status_t status;
    pleat_conf_source_t source; /* of the text that was refused */
    size_t column;            /* byte where it goes wrong, counted from 1; 0: PyTorch names none */
    const char *python_class; /* "ValueError", "IndexError" or "RuntimeError"; "" without error */
    char message[PLEAT_CONF_MESSAGE_BYTES];
    size_t warning_count;
    char warnings[PLEAT_CONF_WARNING_COUNT][PLEAT_CONF_WARNING_BYTES];
} pleat_conf_report_t;
#define PLEAT_CONF_REPORT_INIT                                                           \
    {                                                                                    \
        sizeof(pleat_conf_report_t), PLEAT_OK, PLEAT_CONF_SOURCE_DEFAULT, 0, "", {0}, 0, \
        {                                                                                \
            {                                                                            \
                0                                                                        \
            }                                                                            \
        }                                                                                \
    }

/**
 * Read a text that is set at run time.
 *
 * The strict reading keeps every option that the text does not name, and a refused text changes
 * nothing. The reading as PyTorch resets what PyTorch resets, and options before an error stay
 * applied.
 *
 * @param conf    set up by PLEAT_CONF_INIT; changed in place.
 * @param text    ends with a null byte.
 * @param report  NULL, or set up by PLEAT_CONF_REPORT_INIT; replaced.
 * @retval PLEAT_ERR_INVALID   the text is refused; the report says where and why.
 * @retval PLEAT_ERR_OOM_HOST  no host memory; nothing changed.
 * @par Threads any, one at a time for each @p conf.   @par Cost linear in the text.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_conf_read(pleat_conf_t *conf,
                                                         pleat_conf_reading_t reading,
                                                         const char *text,
                                                         pleat_conf_report_t *report);

/**
 * Read a text that is given before the allocator is made, as if it stood in the variable that all
 * readers look at first. A refused text changes nothing in either reading. Otherwise as
 * pleat_conf_read.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_conf_read_start(pleat_conf_t *conf,
                                                               pleat_conf_reading_t reading,
                                                               const char *text,
                                                               pleat_conf_report_t *report);

/* Value of a variable, NULL if it does not exist. The text must stay until the reading returns. */
typedef const char *(*pleat_conf_lookup_fn_t)(void *context, const char *name);

/** Lookup in the environment of the process. @par Threads as getenv.   @par Cost as getenv. */
PLEAT_API const char *pleat_conf_environment(void *context, const char *name);

/**
 * Read the configuration from variables; the first that exists is read, an empty one too, and texts
 * are never merged. Without any, nothing changes.
 *
 * Strict: PLEAT_ALLOC_CONF, PYTORCH_CUDA_ALLOC_CONF, PYTORCH_ALLOC_CONF; a warning when two differ.
 * As PyTorch: PYTORCH_CUDA_ALLOC_CONF, PYTORCH_ALLOC_CONF, and for the options shared by all
 * accelerators PYTORCH_HIP_ALLOC_CONF between the two.
 *
 * A refused text changes nothing in either reading. Otherwise as pleat_conf_read.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_conf_read_variables(pleat_conf_t *conf,
                                                                   pleat_conf_reading_t reading,
                                                                   pleat_conf_lookup_fn_t lookup,
                                                                   void *context,
                                                                   pleat_conf_report_t *report);

/**
 * Set the options of an allocator that is about to be made, the memory limit included.
 *
 * @param device_total_bytes  what per_process_memory_fraction is a fraction of.
 * @param[out] options        set up by PLEAT_OPTIONS_INIT; untouched on failure.
 * @retval PLEAT_ERR_INVALID  a value that PyTorch accepts but no allocator can use; the message
 *                            names the option.
 * @par Threads any.   @par Cost constant.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_conf_apply(const pleat_conf_t *conf,
                                                          uint64_t device_total_bytes,
                                                          pleat_options_t *options);

/**
 * As pleat_conf_apply for an allocator that exists: the limit in @p options stays as it is.
 * @par Threads any.   @par Cost constant.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t pleat_conf_apply_runtime(const pleat_conf_t *conf,
                                                                  pleat_options_t *options);

#define PLEAT_CONF_VALUE_BYTES 352
#define PLEAT_CONF_ALLOWED_BYTES 128

/* One option for people: the strings are static, the texts are those of the configuration. */
typedef struct pleat_conf_description {
    size_t size; /* set by PLEAT_CONF_DESCRIPTION_INIT */
    const char *key;
    const char *second_key; /* "": none */
    const char *value_name; /* name of the value; key without its unit where it is kept in bytes */
    const char *source;
    const char *help;
    pleat_conf_type_t type;
    bool is_default; /* the value is the default's, wherever it came from */
    bool in_effect;  /* false: read and kept, but nothing acts on it */
    char value[PLEAT_CONF_VALUE_BYTES];
    char default_value[PLEAT_CONF_VALUE_BYTES];
    char allowed[PLEAT_CONF_ALLOWED_BYTES];
} pleat_conf_description_t;
#define PLEAT_CONF_DESCRIPTION_INIT                                                               \
    {                                                                                             \
        sizeof(pleat_conf_description_t), "", "", "", "", "", PLEAT_CONF_BOOL, false, false, {0}, \
            {0},                                                                                  \
        {                                                                                         \
            0                                                                                     \
        }                                                                                         \
    }

/**
 * Describe one option. Values: True and False; sizes in bytes, max_split_size among them as a
 * signed number of 64 bits (-1: unlimited), as PyTorch shows it; the round-up table as 16 numbers
 * with commas; words as they are.
 * @retval PLEAT_ERR_INVALID  no such option; the description is untouched.
 * @par Threads any.   @par Cost constant.
 */
PLEAT_API PLEAT_NODISCARD pleat_status_t
pleat_conf_describe(const pleat_conf_t *conf, pleat_conf_option_t option,
                    pleat_conf_description_t *description_out);

/**
 * Option of a key, by its first or second name; PLEAT_CONF_OPTION_COUNT if there is none.
 * @par Threads any.   @par Cost linear in the number of keys.
 */
PLEAT_API pleat_conf_option_t pleat_conf_find(const char *key);

/**
 * Announce the options that differ from their default without effect: "not yet in effect: a, b",
 * what backend:cudaMallocAsync means, or nothing. Works as snprintf: returns the length of the
 * whole text, cuts what does not fit.
 * @par Threads any.   @par Cost constant.
 */
PLEAT_API size_t pleat_conf_notice(const pleat_conf_t *conf, char *buffer, size_t buffer_bytes);

/**
 * Can an option change what an allocator of a mode does? True for those that pleat_conf_notice
 * speaks of: they act in no mode.
 * @par Threads any.   @par Cost constant.
 */
PLEAT_API bool pleat_conf_acts(pleat_conf_option_t option, pleat_mode_t mode);

/**
 * Announce the options that differ from their default and cannot act in a mode: "a, b without
 * effect in mode pleated", or nothing. As pleat_conf_notice.
 */
PLEAT_API size_t pleat_conf_mode_notice(const pleat_conf_t *conf, pleat_mode_t mode, char *buffer,
                                        size_t buffer_bytes);

#ifdef __cplusplus
}
#endif
#endif
