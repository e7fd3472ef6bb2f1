/*
 * Tests of pickle_writer: bytes as Python's own pickle writes them, frames, texts that come again,
 * failures. What the bytes mean is also checked with Python (tests/snapshot).
 */
#include "compat/pickle_writer.h"

#include "vmm/base.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct sink {
    uint8_t *bytes;
    size_t count;
    size_t capacity; /* more than that fails */
} sink_t;

static pleat_status_t sink_write(void *context, const void *bytes, size_t byte_count)
{
    sink_t *sink = context;
    if (byte_count > sink->capacity - sink->count) {
        pleat_error_set("the sink is full");
        return PLEAT_ERR_IO;
    }
    memcpy(sink->bytes + sink->count, bytes, byte_count);
    sink->count += byte_count;
    return PLEAT_OK;
}

static sink_t sink_of(size_t capacity)
{
    return (sink_t){.bytes = calloc(1, capacity + 1), .capacity = capacity};
}

static pleat_pickle_writer_t *writer_of(sink_t *sink, unsigned protocol)
{
    pleat_pickle_writer_t *writer = malloc(sizeof *writer);
    cr_assert(ne(ptr, writer, NULL));
    pleat_pickle_writer_init(writer, protocol, sink_write, sink);
    return writer;
}

static void finish(pleat_pickle_writer_t *writer)
{
    cr_expect(eq(int, pleat_pickle_writer_finish(writer), PLEAT_OK));
    free(writer);
}

/* Compare with bytes written as hexadecimal digits, and drop the sink. */
static void expect_hex(sink_t *sink, const char *want)
{
    char *got = calloc(2, sink->count + 1);
    for (size_t i = 0; i < sink->count; i++) {
        (void)sprintf(got + 2 * i, "%02x", sink->bytes[i]);
    }
    cr_expect(eq(str, got, (char *)want));
    free(got);
    free(sink->bytes);
}

static void expect_number(bool is_negative, uint64_t magnitude, const char *want)
{
    sink_t sink = sink_of(64);
    pleat_pickle_writer_t *writer = writer_of(&sink, 4);
    if (is_negative) {
        pleat_pickle_put_signed(writer, (int64_t)(0 - magnitude));
    } else {
        pleat_pickle_put_unsigned(writer, magnitude);
    }
    finish(writer);
    expect_hex(&sink, want);
}

/* Golden bytes: pickle.dumps(number, 4) of Python 3.11. Python leaves out frames of fewer than 4
 * bytes, too. */
Test(pickle_writer, numbers_are_those_of_python, .timeout = 5)
{
    expect_number(false, 0, "80044b002e");
    expect_number(false, 255, "80044bff2e");
    expect_number(false, 256, "80049504000000000000004d00012e");
    expect_number(false, 65535, "80049504000000000000004dffff2e");
    expect_number(false, 65536, "80049506000000000000004a000001002e");
    expect_number(false, INT32_MAX, "80049506000000000000004affffff7f2e");
    expect_number(false, UINT64_C(1) << 31, "80049508000000000000008a0500000080002e");
    expect_number(false, UINT32_MAX, "80049508000000000000008a05ffffffff002e");
    expect_number(false, INT64_MAX, "8004950b000000000000008a08ffffffffffffff7f2e");
    expect_number(false, UINT64_C(1) << 63, "8004950c000000000000008a090000000000000080002e");
    expect_number(false, UINT64_MAX, "8004950c000000000000008a09ffffffffffffffff002e");
    expect_number(true, 1, "80049506000000000000004affffffff2e");
    expect_number(true, UINT64_C(1) << 31, "80049506000000000000004a000000802e");
    expect_number(true, UINT64_C(1) << 63, "8004950b000000000000008a0800000000000000802e");
}

Test(pickle_writer, a_signed_number_may_be_positive, .timeout = 5)
{
    sink_t sink = sink_of(64);
    pleat_pickle_writer_t *writer = writer_of(&sink, 4);
    pleat_pickle_put_signed(writer, 7);
    finish(writer);
    expect_hex(&sink, "80044b072e");
}

Test(pickle_writer, truth_values_and_reals_are_those_of_python, .timeout = 5)
{
    sink_t sink = sink_of(64);
    pleat_pickle_writer_t *writer = writer_of(&sink, 2);
    pleat_pickle_put_bool(writer, true);
    pleat_pickle_put_bool(writer, false);
    pleat_pickle_put_pair(writer);
    pleat_pickle_put_real(writer, 0.8);
    pleat_pickle_put_pair(writer);
    finish(writer);
    expect_hex(&sink, "80028889"
                      "86473fe999999999999a862e");
}

/* pickle.dumps({"ab": ["", "ab"]}, 4), but for the memo of what is never referred to. */
Test(pickle_writer, texts_that_come_again_are_references, .timeout = 5)
{
    for (unsigned protocol = 2; protocol <= 5; protocol++) {
        sink_t sink = sink_of(256);
        pleat_pickle_writer_t *writer = writer_of(&sink, protocol);
        char copy[] = "ab"; /* found by its content, not by its address */
        pleat_pickle_begin_dict(writer);
        pleat_pickle_put_text(writer, "ab");
        pleat_pickle_put_text(writer, NULL);
        pleat_pickle_put_text(writer, "");
        pleat_pickle_put_text(writer, copy);
        pleat_pickle_end_dict(writer);
        finish(writer);
        static const char *const want[] = {
            "80027d28"
            "58020000006162"
            "7100"
            "5800000000"
            "7101"
            "6801"
            "6800"
            "752e",
            "80037d28"
            "58020000006162"
            "7100"
            "5800000000"
            "7101"
            "6801"
            "6800"
            "752e",
            "80049510000000000000007d28"
            "8c026162"
            "94"
            "8c00"
            "94"
            "6801"
            "6800"
            "752e",
            "80059510000000000000007d28"
            "8c026162"
            "94"
            "8c00"
            "94"
            "6801"
            "6800"
            "752e",
        };
        expect_hex(&sink, want[protocol - 2]);
    }
}

Test(pickle_writer, bytes_that_are_no_utf8_are_replaced, .timeout = 5)
{
    sink_t sink = sink_of(256);
    pleat_pickle_writer_t *writer = writer_of(&sink, 4);
    /* Latin-1, a cut sequence, a lone surrogate (kept), a control character (kept). */
    pleat_pickle_put_text(writer, "\xe4x\xe2\x82"
                                  "\xed\xb3\xbf\t\xc3\xa4");
    finish(writer);
    expect_hex(&sink, "80049514000000000000008c10"
                      "efbfbd78efbfbdefbfbdedb3bf09c3a4"
                      "942e");
}

static void put_index(void *context, uint64_t index)
{
    pleat_pickle_put_unsigned(context, index % 200);
}

Test(pickle_writer, long_lists_come_in_batches, .timeout = 5)
{
    sink_t sink = sink_of(1 << 16);
    pleat_pickle_writer_t *writer = writer_of(&sink, 3);
    pleat_pickle_put_list(writer, 2 * PLEAT_PICKLE_WRITER_BATCH + 1, put_index, writer);
    finish(writer);
    size_t marks = 0;
    size_t appends = 0;
    for (size_t i = 3; i < sink.count - 1; i++) {
        if (sink.bytes[i] == 'K') {
            i++;
        } else {
            marks += sink.bytes[i] == '(';
            appends += sink.bytes[i] == 'e';
        }
    }
    cr_expect(eq(sz, marks, 3));
    cr_expect(eq(sz, appends, 3));
    free(sink.bytes);
}

/* Frames follow one another without a gap, and a long text stands between two. */
Test(pickle_writer, frames_cover_what_is_not_a_long_text, .timeout = 5)
{
    enum { LONG = 70000 };
    char *text = calloc(1, LONG + 1);
    memset(text, 'y', LONG);
    sink_t sink = sink_of(1 << 20);
    pleat_pickle_writer_t *writer = writer_of(&sink, 4);
    pleat_pickle_put_list(writer, 50000, put_index, writer);
    pleat_pickle_put_text(writer, text);
    pleat_pickle_put_text(writer, text);
    finish(writer);
    size_t at = 2;
    size_t frames = 0;
    size_t texts = 0;
    while (at < sink.count) {
        if (sink.bytes[at] == 'X') {
            cr_assert(eq(
                u32,
                (uint32_t)(sink.bytes[at + 1] | sink.bytes[at + 2] << 8 | sink.bytes[at + 3] << 16),
                LONG));
            at += 5 + LONG;
            texts++;
        } else if (sink.bytes[at] == 0x95) {
            uint64_t length = 0;
            memcpy(&length, sink.bytes + at + 1, sizeof length);
            cr_assert(le(u64, length, PLEAT_PICKLE_WRITER_FRAME_BYTES));
            at += 9 + length;
            frames++;
        } else {
            cr_fatal("byte %zu stands outside frames", at);
        }
    }
    cr_expect(eq(sz, at, sink.count));
    cr_expect(eq(sz, texts, 1));
    cr_expect(le(sz, 3, frames));
    free(sink.bytes);
    free(text);
}

/* More texts than are kept: some are written again, and all are right (checked with Python). */
Test(pickle_writer, forgets_texts_rather_than_growing, .timeout = 5)
{
    enum { TEXTS = 20000 };
    char(*texts)[8] = calloc(TEXTS, sizeof *texts);
    sink_t sink = sink_of(1 << 20);
    pleat_pickle_writer_t *writer = writer_of(&sink, 2);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < TEXTS; i++) {
            (void)snprintf(texts[i], sizeof *texts, "%d", i);
            pleat_pickle_put_text(writer, texts[i]);
        }
    }
    cr_expect(lt(u32, TEXTS, writer->memo_count));
    cr_expect(le(u32, writer->memo_count, 2 * TEXTS));
    finish(writer);
    free(sink.bytes);
    free(texts);
}

Test(pickle_writer, the_first_failure_stays, .timeout = 5)
{
    sink_t sink = sink_of(100);
    pleat_pickle_writer_t *writer = writer_of(&sink, 4);
    pleat_pickle_put_list(writer, UINT64_MAX, put_index, writer); /* ends with the failure */
    pleat_pickle_put_text(writer, "more");
    cr_expect(eq(int, pleat_pickle_writer_finish(writer), PLEAT_ERR_IO));
    cr_expect(eq(str, (char *)pleat_last_error(), "the sink is full"));
    free(writer);
    free(sink.bytes);
}
