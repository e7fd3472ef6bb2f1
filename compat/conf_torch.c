/*
 * conf_torch: reads a text as PyTorch 2.11 does (conf_torch.h).
 *
 * Two parsers walk the same tokens, the generic one and the CUDA one; each takes the options that
 * it knows and steps over those of the other. Both take the token after next for the value without
 * looking at what stands between, and step over whatever follows a value. At run time the generic
 * parser goes first; at the start a scan for the backend, the CUDA parser, then the generic one.
 * What the walk does with a malformed text is as much part of the behaviour as the rest.
 *
 * PyTorch's exceptions are returned as false, with text and Python class in the report. No state
 * outside one reading, no lock.
 */
#include "conf_torch.h"

#include "vmm/base.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* From the end of a value to the next key, over a comma or whatever stands there. */
enum { TORCH_STEP = 2 };

/* The tokens of a text; words without any of their white space, all in one allocation. */
typedef struct torch_tokens {
    size_t count;
    char *storage; /* each token with a null byte behind it */
    size_t *starts;
} torch_tokens_t;

typedef struct torch_reader {
    torch_tokens_t tokens;
    pleat_conf_t *conf;
    pleat_conf_source_t source;
    pleat_conf_report_t *report;
} torch_reader_t;

static bool torch_is_space(char character)
{
    return character == ' ' || (character >= '\t' && character <= '\r');
}

static bool torch_is_mark(char character)
{
    return character == ',' || character == ':' || character == '[' || character == ']';
}

/* Split a text; false: no host memory. */
static bool torch_tokens_init(torch_tokens_t *tokens, const char *text)
{
    const size_t length = strlen(text);
    /* At most one token a byte, each with its null byte. */
    tokens->count = 0;
    tokens->storage = malloc(2 * length + 1);
    tokens->starts = malloc((length + 1) * sizeof *tokens->starts);
    if (tokens->storage == NULL || tokens->starts == NULL) {
        free(tokens->storage);
        free(tokens->starts);
        return false;
    }
    size_t used = 0;
    bool in_word = false;
    for (size_t i = 0; i < length; i++) {
        if (torch_is_space(text[i])) {
            continue;
        }
        const bool is_mark = torch_is_mark(text[i]);
        if (in_word && is_mark) {
            tokens->storage[used++] = '\0';
        }
        if (is_mark || !in_word) {
            tokens->starts[tokens->count++] = used;
        }
        tokens->storage[used++] = text[i];
        if (is_mark) {
            tokens->storage[used++] = '\0';
        }
        in_word = !is_mark;
    }
    tokens->storage[used] = '\0';
    return true;
}

static void torch_tokens_fini(torch_tokens_t *tokens)
{
    free(tokens->storage);
    free(tokens->starts);
}

/* The token at an index that is in range. */
static const char *torch_token(const torch_reader_t *reader, size_t index)
{
    PLEAT_ASSERT(index < reader->tokens.count);
    return reader->tokens.storage + reader->tokens.starts[index];
}

static bool torch_is(const torch_reader_t *reader, size_t index, const char *token)
{
    return strcmp(torch_token(reader, index), token) == 0;
}

/* Start the text of an error; the reading ends with it. */
static pleat_text_t torch_raise(torch_reader_t *reader, const char *python_class)
{
    reader->report->python_class = python_class;
    reader->report->source = reader->source;
    return pleat_text_begin(reader->report->message, sizeof reader->report->message);
}

static bool torch_fail(torch_reader_t *reader, const char *python_class, const char *message)
{
    pleat_text_t text = torch_raise(reader, python_class);
    pleat_text_append(&text, "%s", message);
    return false;
}

static bool torch_check(torch_reader_t *reader, size_t index)
{
    return index < reader->tokens.count ||
           torch_fail(reader, "RuntimeError", "Index out of bounds in ConfigTokenizer");
}

/* The value of the key at an index: two tokens on, and the one between must at least exist. */
static bool torch_value(torch_reader_t *reader, size_t key_index, size_t *value_index_out)
{
    if (!torch_check(reader, key_index + 1) || !torch_check(reader, key_index + 2)) {
        return false;
    }
    *value_index_out = key_index + 2;
    return true;
}

static bool torch_fail_number(torch_reader_t *reader, const char *function, bool is_too_large)
{
    /* Called from Python the C++ exceptions become Python's own; at the start they do not. */
    const bool is_runtime = reader->source == PLEAT_CONF_SOURCE_RUNTIME;
    const char *at_runtime = is_too_large ? "IndexError" : "ValueError";
    return torch_fail(reader, is_runtime ? at_runtime : "RuntimeError", function);
}

static bool torch_whole(torch_reader_t *reader, size_t index, uint64_t *number_out)
{
    const char *token = torch_token(reader, index);
    char *end = NULL;
    errno = 0;
    const unsigned long long number = strtoull(token, &end, 10);
    if (end == token || errno == ERANGE) {
        return torch_fail_number(reader, "stoull", end != token);
    }
    *number_out = number;
    return true;
}

static bool torch_real(torch_reader_t *reader, size_t index, double *real_out)
{
    const char *token = torch_token(reader, index);
    char *end = NULL;
    errno = 0;
    const double real = pleat_text_to_real(token, &end);
    if (end == token || errno == ERANGE) {
        return torch_fail_number(reader, "stod", end != token);
    }
    *real_out = real;
    return true;
}

static bool torch_read_bool(torch_reader_t *reader, pleat_conf_option_t option, size_t index)
{
    const bool is_true = torch_is(reader, index, "True");
    if (!is_true && !torch_is(reader, index, "False")) {
        pleat_text_t text = torch_raise(reader, "ValueError");
        pleat_text_append(&text,
                          "Expected 'True' or 'False' at index %zu in ConfigTokenizer but got '%s'",
                          index, torch_token(reader, index));
        return false;
    }
    pleat_conf_set_number(reader->conf, option, is_true ? 1 : 0, reader->source);
    return true;
}

static bool torch_read_bytes(torch_reader_t *reader, pleat_conf_option_t option, size_t index)
{
    uint64_t megabytes = 0;
    if (!torch_whole(reader, index, &megabytes)) {
        return false;
    }
    const pleat_conf_key_t *key = &pleat_conf_keys[option];
    const uint64_t segment_mb =
        reader->conf->settings[PLEAT_CONF_LARGE_SEGMENT_SIZE].number / PLEAT_MIB;
    if (key->bounds == PLEAT_CONF_ABOVE && megabytes <= key->smallest) {
        pleat_text_t text = torch_raise(reader, "ValueError");
        pleat_text_append(&text, "CachingAllocator option %s must be > %llu MB", key->key,
                          (unsigned long long)key->smallest);
        return false;
    }
    if (key->bounds == PLEAT_CONF_SEGMENT && megabytes < segment_mb) {
        pleat_text_t text = torch_raise(reader, "ValueError");
        pleat_text_append(&text, "CachingAllocator option %s too small, must be >= %llu", key->key,
                          (unsigned long long)segment_mb);
        return false;
    }
    if (megabytes > PLEAT_CONF_MOST_MEGABYTES) {
        megabytes = PLEAT_CONF_MOST_MEGABYTES;
    }
    pleat_conf_set_number(reader->conf, option, megabytes * PLEAT_MIB, reader->source);
    return true;
}

static bool torch_read_real(torch_reader_t *reader, pleat_conf_option_t option, size_t index)
{
    double real = 0;
    if (!torch_real(reader, index, &real)) {
        return false;
    }
    /* Written so that a NaN is refused. */
    if (option == PLEAT_CONF_GARBAGE_COLLECTION_THRESHOLD && !(real > 0 && real < 1)) {
        return torch_fail(reader, "ValueError",
                          "garbage_collect_threshold is invalid, set it in (0.0, 1.0)");
    }
    if (option == PLEAT_CONF_PER_PROCESS_MEMORY_FRACTION && !(real >= 0 && real <= 1)) {
        return torch_fail(reader, "ValueError",
                          "per_process_memory_fraction is invalid, set it in [0.0, 1.0]");
    }
    pleat_conf_set_real(reader->conf, option, real, reader->source);
    return true;
}

static bool torch_read_threads(torch_reader_t *reader, pleat_conf_option_t option, size_t index)
{
    uint64_t threads = 0;
    if (!torch_whole(reader, index, &threads)) {
        return false;
    }
    const uint64_t largest = pleat_conf_keys[option].largest;
    if (!pleat_is_power_of_two(threads)) {
        pleat_text_t text = torch_raise(reader, "ValueError");
        pleat_text_append(&text, "Number of register threads has to be power of 2, got %llu",
                          (unsigned long long)threads);
        return false;
    }
    if (threads > largest) {
        pleat_text_t text = torch_raise(reader, "ValueError");
        pleat_text_append(
            &text, "Number of register threads should be less than or equal to %llu, got %llu",
            (unsigned long long)largest, (unsigned long long)threads);
        return false;
    }
    pleat_conf_set_number(reader->conf, option, threads, reader->source);
    return true;
}

static bool torch_read_megabytes(torch_reader_t *reader, pleat_conf_option_t option, size_t index)
{
    uint64_t megabytes = 0;
    if (!torch_whole(reader, index, &megabytes)) {
        return false;
    }
    if (megabytes == 0) {
        return torch_fail(reader, "ValueError",
                          "Pinned reserve segment size has to be greater than 0");
    }
    pleat_conf_set_number(reader->conf, option, megabytes, reader->source);
    return true;
}

static bool torch_read_backend(torch_reader_t *reader, pleat_conf_option_t option, size_t index)
{
    const char *token = torch_token(reader, index);
    const uint64_t loaded = reader->conf->settings[option].number;
    uint64_t wanted = 0;
    if (!pleat_conf_find_word(option, token, strlen(token), &wanted)) {
        return torch_fail(reader, "ValueError",
                          "Unknown allocator backend, options are native and cudaMallocAsync");
    }
    if (wanted != loaded) {
        pleat_text_t text = torch_raise(reader, "RuntimeError");
        pleat_text_append(&text,
                          "Allocator backend parsed at runtime != "
                          "allocator backend parsed at load time, %s != ",
                          token);
        pleat_conf_append_word(&text, option, loaded);
        return false;
    }
    pleat_conf_set_number(reader->conf, option, wanted, reader->source);
    return true;
}

/* One `interval:divisions` of a list; leaves the index at the divisions. */
static bool torch_read_interval(torch_reader_t *reader, pleat_conf_list_t *list, size_t *index)
{
    const size_t interval_index = *index;
    uint64_t divisions = 0;
    /* The divisions come first: an error in them hides one in the interval. */
    if (!torch_value(reader, interval_index, index) || !torch_whole(reader, *index, &divisions)) {
        return false;
    }
    if (divisions != 0 && !pleat_is_power_of_two(divisions)) {
        return torch_fail(
            reader, "ValueError",
            "For roundups, the divisions has to be power of 2 or 0 to disable roundup ");
    }
    if (torch_is(reader, interval_index, ">")) {
        pleat_conf_list_rest(list, divisions);
        return true;
    }
    uint64_t interval_mb = 0;
    if (!torch_whole(reader, interval_index, &interval_mb)) {
        return false;
    }
    if (!pleat_is_power_of_two(interval_mb)) {
        return torch_fail(reader, "ValueError",
                          "For roundups, the intervals have to be power of 2 ");
    }
    pleat_conf_list_interval(list, interval_mb, divisions);
    return true;
}

/* A list from its opening bracket on; leaves the index at the closing one. */
static bool torch_read_list(torch_reader_t *reader, size_t *index)
{
    pleat_conf_list_t list = {.table = reader->conf->roundup_power2_divisions};
    (*index)++;
    while (*index < reader->tokens.count && !torch_is(reader, *index, "]")) {
        if (!torch_read_interval(reader, &list, index) || !torch_check(reader, *index + 1)) {
            return false;
        }
        if (!torch_is(reader, *index + 1, "]")) {
            (*index)++; /* a comma, or whatever stands there */
        }
        (*index)++;
    }
    return *index < reader->tokens.count ||
           torch_fail(reader, "RuntimeError",
                      "Expected closing bracket ']' in ConfigTokenizer but reached end of config");
}

static bool torch_read_divisions(torch_reader_t *reader, pleat_conf_option_t option, size_t *index)
{
    reader->conf->settings[option].source = reader->source;
    if (torch_is(reader, *index, "[")) {
        return torch_read_list(reader, index);
    }
    uint64_t divisions = 0;
    if (!torch_whole(reader, *index, &divisions)) {
        return false;
    }
    if (!pleat_is_power_of_two(divisions)) {
        return torch_fail(reader, "ValueError",
                          "For roundups, the divisions has to be power of 2 ");
    }
    for (size_t entry = 0; entry < PLEAT_ROUNDUP_ENTRIES; entry++) {
        reader->conf->roundup_power2_divisions[entry] = divisions;
    }
    return true;
}

/* The value of the key at *index; leaves the index at the value's last token. */
static bool torch_read_option(torch_reader_t *reader, pleat_conf_option_t option, size_t *index)
{
    if (!torch_value(reader, *index, index)) {
        return false;
    }
    switch (pleat_conf_keys[option].type) {
    case PLEAT_CONF_BOOL:
        return torch_read_bool(reader, option, *index);
    case PLEAT_CONF_BYTES:
        return torch_read_bytes(reader, option, *index);
    case PLEAT_CONF_MEGABYTES:
        return torch_read_megabytes(reader, option, *index);
    case PLEAT_CONF_COUNT:
        return torch_read_threads(reader, option, *index);
    case PLEAT_CONF_REAL:
        return torch_read_real(reader, option, *index);
    case PLEAT_CONF_WORD:
        return torch_read_backend(reader, option, *index);
    case PLEAT_CONF_DIVISIONS:
        break;
    }
    return torch_read_divisions(reader, option, index);
}

/* Step over the value of the key at *index, a list as far as its bracket. */
static bool torch_skip(torch_reader_t *reader, size_t *index)
{
    if (!torch_value(reader, *index, index)) {
        return false;
    }
    if (!torch_is(reader, *index, "[")) {
        return true;
    }
    while (*index < reader->tokens.count && !torch_is(reader, *index, "]")) {
        (*index)++;
    }
    return *index < reader->tokens.count ||
           torch_fail(reader, "RuntimeError",
                      "Expected closing bracket ']' in ConfigTokenizer but reached end of config");
}

/* The walk of one parser over all keys. */
static bool torch_walk(torch_reader_t *reader, pleat_conf_parser_t parser)
{
    for (size_t index = 0; index < reader->tokens.count; index += TORCH_STEP) {
        const char *token = torch_token(reader, index);
        const pleat_conf_option_t option = pleat_conf_find_bytes(token, strlen(token));
        if (option == PLEAT_CONF_OPTION_COUNT || pleat_conf_keys[option].parser == PLEAT_CONF_OWN) {
            pleat_text_t text = torch_raise(reader, "ValueError");
            pleat_text_append(&text, "Unrecognized key '%s' in %s allocator config.", token,
                              parser == PLEAT_CONF_CUDA ? "CUDA" : "Accelerator");
            return false;
        }
        /* The segment size was read before the walk. */
        const bool is_ours =
            pleat_conf_keys[option].parser == parser && option != PLEAT_CONF_LARGE_SEGMENT_SIZE;
        if (!(is_ours ? torch_read_option(reader, option, &index) : torch_skip(reader, &index))) {
            return false;
        }
    }
    return true;
}

static bool torch_parse_generic(torch_reader_t *reader)
{
    pleat_conf_reset(reader->conf, PLEAT_CONF_MAX_SPLIT_SIZE);
    pleat_conf_reset(reader->conf, PLEAT_CONF_ROUNDUP_POWER2_DIVISIONS);
    pleat_conf_reset(reader->conf, PLEAT_CONF_GARBAGE_COLLECTION_THRESHOLD);
    /* Looks at every token, so a value of this name counts as well. */
    for (size_t index = 0; index < reader->tokens.count; index++) {
        if (torch_is(reader, index, pleat_conf_keys[PLEAT_CONF_LARGE_SEGMENT_SIZE].key) &&
            !torch_read_option(reader, PLEAT_CONF_LARGE_SEGMENT_SIZE, &index)) {
            return false;
        }
    }
    pleat_conf_set_number(reader->conf, PLEAT_CONF_MAX_NON_SPLIT_ROUNDING,
                          reader->conf->settings[PLEAT_CONF_LARGE_SEGMENT_SIZE].number,
                          PLEAT_CONF_SOURCE_DEFAULT);
    return torch_walk(reader, PLEAT_CONF_GENERIC);
}

/* The first backend that is named and known is loaded; nothing else is looked at. */
static bool torch_scan_backend(torch_reader_t *reader)
{
    for (size_t index = 0; index < reader->tokens.count; index += TORCH_STEP) {
        if (!torch_is(reader, index, pleat_conf_keys[PLEAT_CONF_BACKEND].key)) {
            if (!torch_skip(reader, &index)) {
                return false;
            }
        } else {
            if (!torch_value(reader, index, &index)) {
                return false;
            }
            const char *token = torch_token(reader, index);
            uint64_t backend = 0;
            if (pleat_conf_find_word(PLEAT_CONF_BACKEND, token, strlen(token), &backend)) {
                pleat_conf_set_number(reader->conf, PLEAT_CONF_BACKEND, backend, reader->source);
                return true;
            }
        }
    }
    return true;
}

typedef bool (*torch_parse_fn_t)(torch_reader_t *reader);

static bool torch_parse_cuda(torch_reader_t *reader)
{
    return torch_walk(reader, PLEAT_CONF_CUDA);
}

/* Run parsers over one text, in order, until one fails. */
static pleat_status_t torch_run(pleat_conf_t *conf, pleat_conf_source_t source, const char *text,
                                const torch_parse_fn_t parsers[2], pleat_conf_report_t *report)
{
    torch_reader_t reader = {.conf = conf, .source = source, .report = report};
    if (!torch_tokens_init(&reader.tokens, text)) {
        (void)torch_fail(&reader, "MemoryError", "no host memory to read the configuration");
        return PLEAT_ERR_OOM_HOST;
    }
    bool good = true;
    for (size_t i = 0; i < 2 && good && parsers[i] != NULL; i++) {
        good = parsers[i](&reader);
    }
    torch_tokens_fini(&reader.tokens);
    return good ? PLEAT_OK : PLEAT_ERR_INVALID;
}

pleat_status_t pleat_conf_torch_start(pleat_conf_t *conf, const pleat_conf_torch_texts_t *texts,
                                      pleat_conf_report_t *report)
{
    static const torch_parse_fn_t scan[2] = {torch_scan_backend, NULL};
    static const torch_parse_fn_t cuda[2] = {torch_parse_cuda, NULL};
    static const torch_parse_fn_t generic[2] = {torch_parse_generic, NULL};
    if (texts->cuda != NULL) {
        pleat_status_t status = torch_run(conf, texts->cuda_source, texts->cuda, scan, report);
        /* The other backend has no use for options: neither parser is ever asked. */
        if (status != PLEAT_OK ||
            conf->settings[PLEAT_CONF_BACKEND].number != PLEAT_CONF_BACKEND_NATIVE) {
            return status;
        }
        status = torch_run(conf, texts->cuda_source, texts->cuda, cuda, report);
        if (status != PLEAT_OK) {
            return status;
        }
    }
    if (texts->generic == NULL) {
        return PLEAT_OK;
    }
    return torch_run(conf, texts->generic_source, texts->generic, generic, report);
}

pleat_status_t pleat_conf_torch_runtime(pleat_conf_t *conf, const char *text,
                                        pleat_conf_report_t *report)
{
    static const torch_parse_fn_t both[2] = {torch_parse_generic, torch_parse_cuda};
    return torch_run(conf, PLEAT_CONF_SOURCE_RUNTIME, text, both, report);
}
