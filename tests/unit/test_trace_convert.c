/*
 * test_trace_convert: the bundled traces through every form and back, and conversions that fail
 * without leaving anything behind.
 */
#include "host_fault.h"
#include "input_fixture.h"
#include "trace_convert.h"

#include <criterion/new/assert.h>
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_CAPACITY = 512 };

static char folder[] = "/tmp/pleat_convert_XXXXXX";

static void make_folder(void)
{
    cr_assert(mkdtemp(folder) != NULL);
}

static void remove_folder(void)
{
    DIR *directory = opendir(folder);
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        char path[PATH_CAPACITY];
        (void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        (void)unlink(path);
    }
    (void)closedir(directory);
    (void)rmdir(folder);
}

TestSuite(trace_convert, .init = make_folder, .fini = remove_folder, .timeout = 60);

static const char *in_folder(const char *name, char *path)
{
    (void)snprintf(path, PATH_CAPACITY, "%s/%s", folder, name);
    return path;
}

static unsigned files_in_folder(void)
{
    unsigned count = 0;
    DIR *directory = opendir(folder);
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        count += entry->d_name[0] != '.';
    }
    (void)closedir(directory);
    return count;
}

static input_bytes_t read_file(const char *path)
{
    input_bytes_t bytes = {0};
    FILE *file = fopen(path, "rb");
    cr_assert(file != NULL, "%s", path);
    cr_assert(fseek(file, 0, SEEK_END) == 0);
    bytes.count = (size_t)ftell(file);
    bytes.data = malloc(bytes.count + 1);
    rewind(file);
    cr_assert(fread(bytes.data, 1, bytes.count, file) == bytes.count);
    (void)fclose(file);
    return bytes;
}

static void expect_same_content(const char *path, const char *other_path)
{
    input_bytes_t one = read_file(path);
    input_bytes_t other = read_file(other_path);
    cr_expect(one.count == other.count && memcmp(one.data, other.data, one.count) == 0,
              "%s and %s differ", path, other_path);
    free(one.data);
    free(other.data);
}

static void expect_convert(const char *in_path, const char *out_path, uint64_t expected_events)
{
    uint64_t event_count = 0;
    cr_assert(pleat_trace_convert(in_path, out_path, NULL, &event_count) == PLEAT_OK, "%s",
              pleat_last_error());
    cr_expect(eq(u64, event_count, expected_events));
}

/* FNV-1a of a file. */
static uint64_t hash_file(const char *path)
{
    input_bytes_t bytes = read_file(path);
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < bytes.count; i++) {
        hash = (hash ^ (unsigned char)bytes.data[i]) * UINT64_C(1099511628211);
    }
    free(bytes.data);
    return hash;
}

Test(trace_convert, bundled_traces_give_the_recorded_texts)
{
    static const struct {
        const char *name;
        uint64_t event_count;
        uint64_t hash; /* of the text as it was recorded */
    } traces[] = {
        {"case12b", 188315, UINT64_C(0xef95e5a934a9ed19)},
        {"detection", 188601, UINT64_C(0x8896ae151980e2be)},
        {"fsdp2_rank0", 221338, UINT64_C(0x1172307e75dafeb5)},
        {"gpt_varlen", 339515, UINT64_C(0x0165719a3bd58d1c)},
        {"llama_lora_ckpt", 394751, UINT64_C(0xe10e1c877cd5ca06)},
        {"prefetch_streams", 32231, UINT64_C(0x3d5a941e8fd27cba)},
        {"resnet_multiscale", 159351, UINT64_C(0xfaa739daee44ae83)},
        {"rlhf", 710311, UINT64_C(0xddea5a5053291b0f)},
    };
    for (size_t i = 0; i < sizeof(traces) / sizeof(traces[0]); i++) {
        char bundled[PATH_CAPACITY];
        char text[PATH_CAPACITY];
        (void)snprintf(bundled, sizeof(bundled), "%s/%s.pleat", PLEAT_TEST_TRACES, traces[i].name);
        expect_convert(bundled, in_folder("t.trace", text), traces[i].event_count);
        cr_expect(hash_file(text) == traces[i].hash, "%s", traces[i].name);
    }
}

Test(trace_convert, text_gives_the_bundled_form)
{
    static const char *const names[] = {"prefetch_streams", "resnet_multiscale"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char bundled[PATH_CAPACITY];
        char text[PATH_CAPACITY];
        char compact[PATH_CAPACITY];
        uint64_t event_count = 0;
        (void)snprintf(bundled, sizeof(bundled), "%s/%s.pleat", PLEAT_TEST_TRACES, names[i]);
        cr_assert(pleat_trace_convert(bundled, in_folder("t.trace", text), NULL, &event_count) ==
                  PLEAT_OK);
        expect_convert(text, in_folder("t.pleat", compact), event_count);
        expect_same_content(bundled, compact);
    }
}

Test(trace_convert, packed_text_is_the_same_text)
{
    static const char *const names[] = {"p.trace.gz", "p.trace.xz", "p.trace.zst"};
    char plain[PATH_CAPACITY];
    char packed[PATH_CAPACITY];
    char back[PATH_CAPACITY];
    const char *bundled = PLEAT_TEST_TRACES "/prefetch_streams.pleat";
    expect_convert(bundled, in_folder("p.trace", plain), 32231);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct stat status;
        struct stat plain_status;
        expect_convert(bundled, in_folder(names[i], packed), 32231);
        cr_assert(stat(packed, &status) == 0);
        cr_assert(stat(plain, &plain_status) == 0);
        cr_expect(lt(i64, (int64_t)status.st_size, (int64_t)plain_status.st_size / 4));
        expect_convert(packed, in_folder("back.trace", back), 32231);
        expect_same_content(plain, back);
    }
}

Test(trace_convert, the_name_decides_the_form)
{
    char path[PATH_CAPACITY];
    static const char *const names[] = {"t.txt", "t.gz", ".pleat.bak", "pleat", ""};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        cr_expect(eq(int,
                     pleat_trace_convert(PLEAT_TEST_TRACES "/case12b.pleat",
                                         in_folder(names[i], path), NULL, NULL),
                     PLEAT_ERR_INVALID));
        INPUT_FIXTURE_EXPECT_ERROR("the name must end in .pleat (compact form), .trace, ");
    }
    cr_expect(eq(uint, files_in_folder(), 0));
}

Test(trace_convert, a_failure_leaves_an_older_file_as_it_was)
{
    char in[PATH_CAPACITY];
    char out[PATH_CAPACITY];
    FILE *file = fopen(in_folder("in.trace", in), "w");
    fputs("alloc 7f00 512 0 5\nalloc 7f00 512 0\n", file);
    (void)fclose(file);
    file = fopen(in_folder("out.pleat", out), "w");
    fputs("older", file);
    (void)fclose(file);
    cr_expect(eq(int, pleat_trace_convert(in, out, NULL, NULL), PLEAT_ERR_FORMAT));
    INPUT_FIXTURE_EXPECT_ERROR("in.trace:2:17: time is missing");
    input_bytes_t bytes = read_file(out);
    cr_expect(eq(sz, bytes.count, 5));
    free(bytes.data);
    cr_expect(eq(uint, files_in_folder(), 2));
}

Test(trace_convert, files_that_cannot_be_read_or_written_are_named)
{
    char out[PATH_CAPACITY];
    cr_expect(eq(int,
                 pleat_trace_convert("/nonexistent/a.trace", in_folder("a.pleat", out), NULL, NULL),
                 PLEAT_ERR_IO));
    INPUT_FIXTURE_EXPECT_ERROR("/nonexistent/a.trace: cannot open");
    cr_expect(eq(
        int,
        pleat_trace_convert(PLEAT_TEST_TRACES "/case12b.pleat", "/nonexistent/a.pleat", NULL, NULL),
        PLEAT_ERR_IO));
    INPUT_FIXTURE_EXPECT_ERROR("/nonexistent/a.pleat");
    cr_expect(eq(uint, files_in_folder(), 0));
}

Test(trace_convert, a_full_disk_is_reported)
{
    static const pleat_packing_t packings[] = {PLEAT_PACKING_NONE, PLEAT_PACKING_GZIP,
                                               PLEAT_PACKING_XZ, PLEAT_PACKING_ZSTD};
    for (size_t i = 0; i < sizeof(packings) / sizeof(packings[0]); i++) {
        FILE *file = fopen("/dev/full", "wb");
        pleat_output_t *output = NULL;
        cr_assert(file != NULL);
        cr_assert(pleat_output_create(file, "full", packings[i], &output) == PLEAT_OK);
        pleat_status_t status = pleat_output_write(output, "text", 4);
        status = status == PLEAT_OK ? pleat_output_finish(output) : status;
        cr_expect(eq(int, status, PLEAT_ERR_IO));
        INPUT_FIXTURE_EXPECT_ERROR("full: cannot write: No space left on device");
        pleat_output_destroy(output);
        (void)fclose(file);
    }
}

Test(trace_convert, lack_of_host_memory_leaves_nothing_behind)
{
    char in[PATH_CAPACITY];
    char out[PATH_CAPACITY];
    FILE *file = fopen(in_folder("in.trace", in), "w");
    fputs("segment_alloc 200000 2097152 0 1\nalloc 200000 512 0 5\nfree_requested 200000 512 0 7\n",
          file);
    (void)fclose(file);
    pleat_status_t status = PLEAT_ERR_OOM_HOST;
    uint64_t nth = 0;
    in_folder("out.pleat", out);
    while (status == PLEAT_ERR_OOM_HOST) {
        cr_assert(eq(uint, files_in_folder(), 1));
        host_fault_after(++nth);
        status = pleat_trace_convert(in, out, NULL, NULL);
        host_fault_after(0);
    }
    cr_expect(eq(int, status, PLEAT_OK));
    cr_expect(eq(uint, files_in_folder(), 2));
    cr_expect(lt(u64, 15, nth));
}
