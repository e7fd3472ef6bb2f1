/*
 * test_input: packed and plain content gives the same bytes and lines; kinds are recognised;
 * damage and truncation are reported with their place.
 */
#include "host_fault.h"
#include "input_fixture.h"

#include <criterion/new/assert.h>
#include <unistd.h>

static const pleat_packing_t packings[] = {PLEAT_PACKING_NONE, PLEAT_PACKING_GZIP, PLEAT_PACKING_XZ,
                                           PLEAT_PACKING_ZSTD};

enum { PACKING_COUNT = sizeof(packings) / sizeof(packings[0]), TEXT_LINES = 20000 };

/* A text longer than every buffer on the way, whose lines differ. */
static char *long_text(size_t *count_out)
{
    char *text = NULL;
    FILE *file = open_memstream(&text, count_out);
    cr_assert(file != NULL);
    for (unsigned i = 0; i < TEXT_LINES; i++) {
        fprintf(file, "alloc %x %u 0 %u\n", i * 7919u, i * i, i);
    }
    (void)fclose(file);
    return text;
}

static void write_file(char *path, const void *data, size_t count)
{
    const int descriptor = mkstemp(path);
    cr_assert(descriptor >= 0);
    cr_assert(write(descriptor, data, count) == (ssize_t)count);
    cr_assert(close(descriptor) == 0);
}

Test(input, every_packing_gives_the_same_bytes)
{
    size_t count = 0;
    char *text = long_text(&count);
    char *back = malloc(count + 1);
    for (size_t i = 0; i < PACKING_COUNT; i++) {
        input_bytes_t bytes = input_fixture_pack(text, count, packings[i]);
        char path[] = "/tmp/pleat_test_XXXXXX";
        write_file(path, bytes.data, bytes.count);
        pleat_input_t *input = NULL;
        cr_assert(pleat_input_open(path, &input) == PLEAT_OK, "%s", pleat_last_error());
        size_t got = 0;
        cr_assert(pleat_input_read(input, back, count + 1, &got) == PLEAT_OK);
        cr_expect(eq(sz, got, count));
        cr_expect(memcmp(text, back, count) == 0);
        cr_expect(eq(u64, pleat_input_offset(input), count));
        cr_assert(pleat_input_read(input, back, 1, &got) == PLEAT_OK);
        cr_expect(eq(sz, got, 0));
        cr_expect(eq(str, (char *)pleat_input_name(input), path));
        pleat_input_close(input);
        (void)unlink(path);
        free(bytes.data);
    }
    free(back);
    free(text);
}

Test(input, lines_come_with_their_numbers)
{
    size_t count = 0;
    char *text = long_text(&count);
    input_bytes_t bytes = input_fixture_pack(text, count, PLEAT_PACKING_XZ);
    pleat_input_t *input = input_fixture_open(bytes.data, bytes.count);
    pleat_input_line_t line;
    bool has_line = false;
    const char *expected = text;
    for (unsigned i = 1; i <= TEXT_LINES; i++) {
        cr_assert(pleat_input_read_line(input, &line, &has_line) == PLEAT_OK);
        cr_assert(has_line);
        cr_assert(eq(u64, line.number, i));
        cr_assert(memcmp(line.text, expected, line.length) == 0);
        cr_assert(expected[line.length] == '\n');
        expected += line.length + 1;
    }
    cr_assert(pleat_input_read_line(input, &line, &has_line) == PLEAT_OK);
    cr_expect(not(has_line));
    pleat_input_close(input);
    free(bytes.data);
    free(text);
}

Test(input, line_ends_may_be_missing_or_have_a_carriage_return)
{
    const char text[] = "first\r\n\nthird\r";
    static const size_t lengths[] = {5, 0, 6};
    pleat_input_t *input = input_fixture_open(text, strlen(text));
    pleat_input_line_t line;
    bool has_line = false;
    for (size_t i = 0; i < 3; i++) {
        cr_assert(pleat_input_read_line(input, &line, &has_line) == PLEAT_OK);
        cr_assert(has_line);
        cr_expect(eq(sz, line.length, lengths[i]));
    }
    cr_assert(pleat_input_read_line(input, &line, &has_line) == PLEAT_OK);
    cr_expect(not(has_line));
    pleat_input_close(input);
}

Test(input, a_line_beyond_16_mib_is_refused)
{
    const size_t count = (16u << 20) + 10;
    char *text = malloc(count);
    memset(text, 'x', count);
    pleat_input_t *input = input_fixture_open(text, count);
    pleat_input_line_t line;
    bool has_line = false;
    cr_expect(eq(int, pleat_input_read_line(input, &line, &has_line), PLEAT_ERR_FORMAT));
    INPUT_FIXTURE_EXPECT_ERROR("line 1 is longer than 16 MiB");
    cr_expect(eq(int, pleat_input_read_line(input, &line, &has_line), PLEAT_ERR_FORMAT));
    pleat_input_close(input);
    free(text);
}

Test(input, a_zero_byte_is_no_text)
{
    const char text[] = "# text\nal\0oc 7f00\n";
    pleat_input_t *input = input_fixture_open(text, sizeof(text) - 1);
    pleat_input_line_t line;
    bool has_line = false;
    cr_assert(pleat_input_read_line(input, &line, &has_line) == PLEAT_OK);
    cr_expect(eq(int, pleat_input_read_line(input, &line, &has_line), PLEAT_ERR_FORMAT));
    INPUT_FIXTURE_EXPECT_ERROR("test: line 2, column 3: a zero byte");
    pleat_input_close(input);
}

Test(input, streams_behind_each_other_count_as_one)
{
    for (size_t i = 1; i < PACKING_COUNT; i++) {
        input_bytes_t first = input_fixture_pack("one ", 4, packings[i]);
        input_bytes_t second = input_fixture_pack("two", 3, packings[i]);
        char *both = malloc(first.count + second.count);
        memcpy(both, first.data, first.count);
        memcpy(both + first.count, second.data, second.count);
        pleat_input_t *input = input_fixture_open(both, first.count + second.count);
        char back[16] = "";
        size_t got = 0;
        cr_assert(pleat_input_read(input, back, sizeof(back) - 1, &got) == PLEAT_OK);
        cr_expect(eq(str, back, "one two"));
        pleat_input_close(input);
        free(both);
        free(first.data);
        free(second.data);
    }
}

Test(input, kinds_are_recognised_by_content)
{
    static const struct {
        const char *text;
        size_t count;
        pleat_input_kind_t kind;
    } rows[] = {
        {"", 0, PLEAT_INPUT_UNKNOWN},
        {"hello world\n", 12, PLEAT_INPUT_UNKNOWN},
        {"\n\n", 2, PLEAT_INPUT_UNKNOWN},
        {"# only a comment\n", 17, PLEAT_INPUT_TRACE_TEXT},
        {"# c\n\n alloc 7f00 512 0 5\n", 25, PLEAT_INPUT_TRACE_TEXT},
        {"free_requested 7f00", 19, PLEAT_INPUT_TRACE_TEXT},
        {"resurrect 7f00 512 0 5", 22, PLEAT_INPUT_TRACE_TEXT},
        {"oom 7f00 512 0 5", 16, PLEAT_INPUT_TRACE_TEXT},
        {"alloc a 512 0 *\n", 16, PLEAT_INPUT_CASE},
        {"alloc 7f00 512 0 0x5\n", 21, PLEAT_INPUT_CASE},
        {"oom 512 0\n", 10, PLEAT_INPUT_CASE},
        {"# c\nmode classic\n", 17, PLEAT_INPUT_CASE},
        {"repeat 5\n", 9, PLEAT_INPUT_CASE},
        {"pleat-oracle 1\n", 15, PLEAT_INPUT_RECORDING},
        {"\x80\x04\x95", 3, PLEAT_INPUT_PICKLE},
        {"\x80\x09\x95", 3, PLEAT_INPUT_UNKNOWN},
        {"\x89PLEAT\r\n", 8, PLEAT_INPUT_TRACE_BINARY},
        {"\x89PLEAT\r", 7, PLEAT_INPUT_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        pleat_input_t *input = input_fixture_open(rows[i].text, rows[i].count);
        cr_expect(pleat_input_kind(input) == rows[i].kind, "'%s' is %s", rows[i].text,
                  pleat_input_kind_text(pleat_input_kind(input)));
        pleat_input_close(input);
    }
    cr_expect(
        eq(str, (char *)pleat_input_kind_text(PLEAT_INPUT_KIND_COUNT), "an unknown kind of file"));
}

Test(input, a_damaged_first_line_is_of_the_kind_of_the_others)
{
    static const struct {
        const char *text;
        pleat_input_kind_t kind;
    } rows[] = {
        /* A word of both formats: whatever is behind it decides. */
        {"alloc 7f00 512\n", PLEAT_INPUT_TRACE_TEXT},
        {"alloc 7f00 512 0 0 9\n", PLEAT_INPUT_TRACE_TEXT},
        {"alloc\nfree_requested 7f00 512 0 1\n", PLEAT_INPUT_TRACE_TEXT},
        {"oom 512\n", PLEAT_INPUT_TRACE_TEXT},
        {"snapshot 0\n", PLEAT_INPUT_TRACE_TEXT},
        {"alloc a 512\nfree a\n", PLEAT_INPUT_CASE},
        {"alloc a 512\n\n# c\nalloc b 512 0 *\n", PLEAT_INPUT_CASE},
        {"alloc a 1MiB 0\n", PLEAT_INPUT_CASE},
        {"alloc a {1} 0\n", PLEAT_INPUT_CASE},
        {"alloc a 512 *\nfree_requested 7f00 512 0 1\n", PLEAT_INPUT_CASE},
        {"snapshot\n", PLEAT_INPUT_CASE},
        /* A word of neither: only a whole event or allocation is proof. */
        {"allocc 7f00 512\nalloc 7f00 512 0 0\n", PLEAT_INPUT_TRACE_TEXT},
        {"moed classic\nalloc a 512 0 *\n", PLEAT_INPUT_CASE},
        {"moed classic\nalloc a 1MiB 0 0x7f00\n", PLEAT_INPUT_CASE},
        {"Dear reader\nfree the block\nset it aside\nalloc it\n", PLEAT_INPUT_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        pleat_input_t *input = input_fixture_open(rows[i].text, strlen(rows[i].text));
        cr_expect(pleat_input_kind(input) == rows[i].kind, "'%s' is %s", rows[i].text,
                  pleat_input_kind_text(pleat_input_kind(input)));
        pleat_input_close(input);
    }
}

Test(input, refusals_say_what_it_is_and_what_is_wanted)
{
    static const struct {
        const char *text;
        size_t count;
        const char *error;
    } rows[] = {
        {"", 0, "test: the file is empty, a trace was expected"},
        {"\x80\x04\x95", 3, "test: a pickle file"},
        {"hello\n", 6, "test: unknown kind of file"},
        {"sync\n", 5, "test: this is a hand-written case, a trace was expected"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        pleat_input_t *input = input_fixture_open(rows[i].text, rows[i].count);
        pleat_input_refuse(input, "a trace");
        INPUT_FIXTURE_EXPECT_ERROR(rows[i].error);
        pleat_input_close(input);
    }
}

/* Read everything; the status of opening or reading. */
static pleat_status_t read_all(const void *data, size_t count, size_t *got_out)
{
    static char back[1 << 16];
    pleat_input_t *input = NULL;
    size_t got = 0;
    pleat_status_t status = pleat_input_open_memory("test", data, count, &input);
    *got_out = 0;
    do {
        status = status == PLEAT_OK ? pleat_input_read(input, back, sizeof(back), &got) : status;
        *got_out += status == PLEAT_OK ? got : 0;
    } while (status == PLEAT_OK && got > 0);
    pleat_input_close(input);
    return status;
}

Test(input, truncated_data_is_reported_with_its_place)
{
    size_t count = 0;
    size_t got = 0;
    char *text = long_text(&count);
    for (size_t i = 1; i < PACKING_COUNT; i++) {
        input_bytes_t bytes = input_fixture_pack(text, count, packings[i]);
        for (size_t cut = 6; cut < bytes.count; cut += 1 + bytes.count / 13) {
            cr_assert(eq(int, read_all(bytes.data, cut, &got), PLEAT_ERR_FORMAT));
            char place[64];
            (void)snprintf(place, sizeof(place), "%s data wrong at byte %zu of the file: truncated",
                           pleat_packing_name(packings[i]), cut);
            INPUT_FIXTURE_EXPECT_ERROR(place);
        }
        cr_expect(eq(int, read_all(bytes.data, bytes.count - 1, &got), PLEAT_ERR_FORMAT));
        free(bytes.data);
    }
    free(text);
}

Test(input, damaged_data_is_reported)
{
    size_t count = 0;
    size_t got = 0;
    char *text = long_text(&count);
    for (size_t i = 1; i < PACKING_COUNT; i++) {
        input_bytes_t bytes = input_fixture_pack(text, count, packings[i]);
        unsigned noticed = 0;
        unsigned tried = 0;
        for (size_t at = 10; at < bytes.count; at += 1 + bytes.count / 13) {
            bytes.data[at] ^= 0x10;
            noticed += read_all(bytes.data, bytes.count, &got) == PLEAT_ERR_FORMAT;
            tried++;
            bytes.data[at] ^= 0x10;
        }
        cr_expect(eq(uint, noticed, tried));
        /* The checksum at the end of the data. */
        bytes.data[bytes.count - (packings[i] == PLEAT_PACKING_GZIP ? 8 : 4)] ^= 1;
        cr_expect(eq(int, read_all(bytes.data, bytes.count, &got), PLEAT_ERR_FORMAT));
        free(bytes.data);
    }
    free(text);
}

Test(input, bytes_behind_packed_data_are_refused)
{
    size_t got = 0;
    for (size_t i = 1; i < PACKING_COUNT; i++) {
        input_bytes_t bytes = input_fixture_pack("text", 4, packings[i]);
        static const char garbage[] = {'g', 'a', 'r', 'b', 'a', 'g', 'e'};
        char *longer = calloc(1, bytes.count + sizeof(garbage));
        memcpy(longer, bytes.data, bytes.count);
        memcpy(longer + bytes.count, garbage, sizeof(garbage));
        cr_expect(eq(int, read_all(longer, bytes.count + sizeof(garbage), &got), PLEAT_ERR_FORMAT));
        free(longer);
        free(bytes.data);
    }
}

Test(input, files_that_cannot_be_read_are_named)
{
    pleat_input_t *input = NULL;
    cr_expect(eq(int, pleat_input_open("/nonexistent/trace", &input), PLEAT_ERR_IO));
    INPUT_FIXTURE_EXPECT_ERROR("/nonexistent/trace: cannot open: No such file");
    cr_expect(eq(int, pleat_input_open("/", &input), PLEAT_ERR_IO));
    INPUT_FIXTURE_EXPECT_ERROR("/: cannot read: Is a directory");
    cr_expect(eq(int, pleat_input_open(NULL, &input), PLEAT_ERR_INVALID));
    cr_expect(eq(int, pleat_input_open_memory("test", NULL, 1, &input), PLEAT_ERR_INVALID));
    cr_expect(input == NULL);
    pleat_input_close(NULL);
}

Test(input, standard_input_may_come_in_pieces)
{
    int pipe_ends[2];
    size_t count = 0;
    char *text = long_text(&count);
    input_bytes_t bytes = input_fixture_pack(text, 2000, PLEAT_PACKING_GZIP);
    cr_assert(pipe(pipe_ends) == 0);
    cr_assert(dup2(pipe_ends[0], STDIN_FILENO) == STDIN_FILENO);
    const pid_t child = fork();
    if (child == 0) {
        for (size_t i = 0; i < bytes.count; i++) {
            if (write(pipe_ends[1], bytes.data + i, 1) != 1) {
                _exit(1);
            }
        }
        _exit(0);
    }
    (void)close(pipe_ends[1]);
    pleat_input_t *input = NULL;
    char back[4000];
    size_t got = 0;
    cr_assert(pleat_input_open("-", &input) == PLEAT_OK, "%s", pleat_last_error());
    cr_assert(pleat_input_read(input, back, sizeof(back), &got) == PLEAT_OK);
    cr_expect(eq(sz, got, 2000));
    cr_expect(memcmp(back, text, 2000) == 0);
    cr_expect(eq(str, (char *)pleat_input_name(input), "standard input"));
    pleat_input_close(input);
    free(bytes.data);
    free(text);
}

Test(input, lack_of_host_memory_is_reported)
{
    size_t got = 0;
    for (size_t i = 0; i < PACKING_COUNT; i++) {
        input_bytes_t bytes = input_fixture_pack("# text\n", 7, packings[i]);
        for (uint64_t nth = 1; nth < 4; nth++) {
            host_fault_after(nth);
            const pleat_status_t status = read_all(bytes.data, bytes.count, &got);
            host_fault_after(0);
            const bool has_decoder = packings[i] != PLEAT_PACKING_NONE;
            cr_expect(eq(int, status, nth < (has_decoder ? 4 : 3) ? PLEAT_ERR_OOM_HOST : PLEAT_OK));
        }
        free(bytes.data);
    }
}
