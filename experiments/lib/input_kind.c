/*
 * input_kind: see input_kind.h.
 */
#include "input_kind.h"

#include "session.h"

#include <pleat/allocator.h>

#include <string.h>

enum { WORDS_MAX = 6, EVENT_WORDS = 5 };

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

/* Does a word stand there that only cases have: a sum in braces, or a size with a unit? */
static bool pleat_word_is_only_of_case(pleat_word_t word)
{
    const bool has_unit =
        word.length > 3 && word.text[word.length - 1] == 'B' && word.text[word.length - 2] == 'i';
    return has_unit || memchr(word.text, '{', word.length) != NULL;
}

static bool pleat_word_is_case_address(pleat_word_t word)
{
    return pleat_word_is(word, "*") ||
           (word.length > 2 && word.text[0] == '0' && word.text[1] == 'x');
}

/*
 * `alloc`, `oom` and `snapshot` begin lines of both formats. The alloc of a case ends in an address
 * that is `*` or begins with 0x, that of a trace in a time. UNKNOWN: neither, so it is damaged.
 */
static pleat_input_kind_t pleat_shared_line_kind(const pleat_word_t *words, size_t word_count)
{
    if (pleat_word_is_case_address(words[word_count - 1])) {
        return PLEAT_INPUT_CASE;
    }
    for (size_t i = 1; i < word_count; i++) {
        if (pleat_word_is_only_of_case(words[i])) {
            return PLEAT_INPUT_CASE;
        }
    }
    if (word_count == EVENT_WORDS) {
        return PLEAT_INPUT_TRACE_TEXT;
    }
    const bool is_call = (pleat_word_is(words[0], "oom") && word_count == 3) ||
                         (pleat_word_is(words[0], "snapshot") && word_count == 1);
    return is_call ? PLEAT_INPUT_CASE : PLEAT_INPUT_UNKNOWN;
}

static bool pleat_line_is_shared(const pleat_word_t *words)
{
    return pleat_word_is_action(words[0]) && pleat_word_is_of_case(words[0]);
}

/* What a line belongs to; UNKNOWN when it tells nothing. */
static pleat_input_kind_t pleat_line_kind(const pleat_word_t *words, size_t word_count)
{
    if (pleat_word_is(words[0], "pleat-oracle")) {
        return PLEAT_INPUT_RECORDING;
    }
    if (pleat_line_is_shared(words)) {
        return pleat_shared_line_kind(words, word_count);
    }
    if (pleat_word_is_action(words[0])) {
        return PLEAT_INPUT_TRACE_TEXT;
    }
    if (pleat_word_is_of_case(words[0])) {
        return PLEAT_INPUT_CASE;
    }
    /* An unknown action in the shape of an event: the reader of traces will name it. */
    const bool has_shape = word_count == EVENT_WORDS && pleat_word_is_number(words[2]) &&
                           pleat_word_is_number(words[3]) && pleat_word_is_number(words[4]);
    return has_shape ? PLEAT_INPUT_TRACE_TEXT : PLEAT_INPUT_UNKNOWN;
}

/* As pleat_line_kind, for a line behind one that tells nothing: only a whole event or a whole
 * allocation counts, because other words are those of any text. */
static pleat_input_kind_t pleat_later_line_kind(const pleat_word_t *words, size_t word_count)
{
    const pleat_input_kind_t kind = pleat_line_kind(words, word_count);
    const bool is_sure = word_count == EVENT_WORDS && pleat_word_is_action(words[0]) &&
                         (pleat_word_is_number(words[2]) || pleat_word_is_only_of_case(words[2])) &&
                         pleat_word_is_number(words[3]);
    return is_sure ? kind : PLEAT_INPUT_UNKNOWN;
}

/* Lines of a text, one after the other, without comments and empty ones. */
typedef struct pleat_line_walk {
    const char *cursor;
    const char *end;
    pleat_word_t words[WORDS_MAX];
    size_t word_count;
    bool has_comment; /* one was passed */
} pleat_line_walk_t;

static bool pleat_line_walk_next(pleat_line_walk_t *walk)
{
    while (walk->cursor < walk->end) {
        const char *line = walk->cursor;
        const char *line_end = memchr(line, '\n', (size_t)(walk->end - line));
        line_end = line_end != NULL ? line_end : walk->end;
        walk->cursor = line_end < walk->end ? line_end + 1 : walk->end;
        walk->word_count = pleat_line_split(line, line_end, walk->words);
        if (walk->word_count > 0 && walk->words[0].text[0] != '#') {
            return true;
        }
        walk->has_comment |= walk->word_count > 0;
    }
    return false;
}

static pleat_input_kind_t pleat_text_kind(const char *text, size_t length)
{
    pleat_line_walk_t walk = {.cursor = text, .end = text + length};
    if (!pleat_line_walk_next(&walk)) {
        /* Only comments: a trace without events, which its reader refuses with a better message. */
        return walk.has_comment ? PLEAT_INPUT_TRACE_TEXT : PLEAT_INPUT_UNKNOWN;
    }
    pleat_input_kind_t kind = pleat_line_kind(walk.words, walk.word_count);
    /* The first line is damaged. Those behind it tell of what; its reader will name the damage. */
    const bool is_shared = pleat_line_is_shared(walk.words);
    while (kind == PLEAT_INPUT_UNKNOWN && pleat_line_walk_next(&walk)) {
        kind = is_shared ? pleat_line_kind(walk.words, walk.word_count)
                         : pleat_later_line_kind(walk.words, walk.word_count);
    }
    return kind == PLEAT_INPUT_UNKNOWN && is_shared ? PLEAT_INPUT_TRACE_TEXT : kind;
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
    return pleat_text_kind(text, length);
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
