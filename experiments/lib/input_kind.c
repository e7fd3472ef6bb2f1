/*
 * input_kind: see input_kind.h.
 */
#include "input_kind.h"

#include "session.h"

#include <pleat/allocator.h>

#include <string.h>

enum { WORDS_MAX = 6 };

typedef struct pleat_word {
    const char *text;
    size_t length;
} pleat_word_t;

static bool pleat_word_is(pleat_word_t word, const char *text)
{
    return word.length == strlen(text) && memcmp(word.text, text, word.length) == 0;
}

/* Words of the line that begins at text, at most WORDS_MAX. */
static size_t pleat_line_split(const char *text, const char *end, pleat_word_t *words)
{
    size_t count = 0;
    const char *cursor = text;
    while (count < WORDS_MAX) {
        while (cursor < end && (*cursor == ' ' || *cursor == '\t' || *cursor == '\r')) {
            cursor++;
        }
        const char *start = cursor;
        while (cursor < end && *cursor != ' ' && *cursor != '\t' && *cursor != '\r') {
            cursor++;
        }
        if (cursor == start) {
            break;
        }
        words[count++] = (pleat_word_t){.text = start, .length = (size_t)(cursor - start)};
    }
    return count;
}

static bool pleat_word_is_action(pleat_word_t word)
{
    for (int action = 0; action < PLEAT_ACTION_COUNT; action++) {
        if (pleat_word_is(word, pleat_action_name((pleat_action_t)action))) {
            return true;
        }
    }
    return false;
}

static bool pleat_word_is_of_case(pleat_word_t word)
{
    static const char *const header_words[] = {"settings", "total_memory", "limit",  "fraction",
                                               "streams",  "mode",         "repeat", "recorded",
                                               "keys",     "base",         "end"};
    for (size_t i = 0; i < sizeof(header_words) / sizeof(header_words[0]); i++) {
        if (pleat_word_is(word, header_words[i])) {
            return true;
        }
    }
    for (int kind = 0; kind < PLEAT_SESSION_CALL_COUNT; kind++) {
        if (pleat_word_is(word, pleat_session_call_word((pleat_session_call_kind_t)kind))) {
            return true;
        }
    }
    return false;
}

static bool pleat_word_is_number(pleat_word_t word)
{
    size_t digits = 0;
    while (digits < word.length && word.text[digits] >= '0' && word.text[digits] <= '9') {
        digits++;
    }
    return digits == word.length;
}

/* `alloc`, `oom` and `snapshot` begin lines of both formats. The alloc of a case ends in an address
 * that is `*` or begins with 0x, that of a trace in a time. */
static pleat_input_kind_t pleat_line_kind(const pleat_word_t *words, size_t word_count)
{
    const size_t trace_words = 5;
    const pleat_word_t last = words[word_count - 1];
    const bool ends_in_address =
        pleat_word_is(last, "*") || (last.length > 2 && last.text[0] == '0' && last.text[1] == 'x');
    if (pleat_word_is(words[0], "pleat-oracle")) {
        return PLEAT_INPUT_RECORDING;
    }
    if (pleat_word_is_action(words[0]) && !ends_in_address &&
        (word_count == trace_words || !pleat_word_is_of_case(words[0]))) {
        return PLEAT_INPUT_TRACE_TEXT;
    }
    if (pleat_word_is_of_case(words[0])) {
        return PLEAT_INPUT_CASE;
    }
    /* An unknown action in the shape of an event: the reader of traces will name it. */
    const bool has_shape = word_count == trace_words && pleat_word_is_number(words[2]) &&
                           pleat_word_is_number(words[3]) && pleat_word_is_number(words[4]);
    return has_shape ? PLEAT_INPUT_TRACE_TEXT : PLEAT_INPUT_UNKNOWN;
}

pleat_input_kind_t pleat_input_kind_recognize(const char *text, size_t length)
{
    const unsigned char pickle_start = 0x80; /* opcode PROTO, then the protocol */
    if (length >= PLEAT_TRACE_BINARY_MAGIC_BYTES &&
        memcmp(text, PLEAT_TRACE_BINARY_MAGIC, PLEAT_TRACE_BINARY_MAGIC_BYTES) == 0) {
        return PLEAT_INPUT_TRACE_BINARY;
    }
    if (length >= 2 && (unsigned char)text[0] == pickle_start && text[1] >= 2 && text[1] <= 5) {
        return PLEAT_INPUT_PICKLE;
    }
    const char *end = text + length;
    bool has_comment = false;
    for (const char *cursor = text; cursor < end;) {
        const char *line_end = memchr(cursor, '\n', (size_t)(end - cursor));
        line_end = line_end != NULL ? line_end : end;
        pleat_word_t words[WORDS_MAX];
        const size_t word_count = pleat_line_split(cursor, line_end, words);
        if (word_count > 0 && words[0].text[0] != '#') {
            return pleat_line_kind(words, word_count);
        }
        has_comment = has_comment || word_count > 0;
        cursor = line_end < end ? line_end + 1 : end;
    }
    /* Only comments: a trace without events, which its reader refuses with a better message. */
    return has_comment ? PLEAT_INPUT_TRACE_TEXT : PLEAT_INPUT_UNKNOWN;
}

const char *pleat_input_kind_text(pleat_input_kind_t kind)
{
    switch (kind) {
#define PLEAT_INPUT_KIND_CASE(name, text) \
    case PLEAT_INPUT_##name:              \
        return text;
        PLEAT_INPUT_KIND_LIST(PLEAT_INPUT_KIND_CASE)
#undef PLEAT_INPUT_KIND_CASE
    case PLEAT_INPUT_KIND_COUNT:
        break;
    }
    return "an unknown kind of file";
}
