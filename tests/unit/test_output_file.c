/*
 * Tests of experiments/lib/output_file: files appear whole or not at all.
 */
#include "output_file.h"

#include "host_fault.h"
#include "input.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/pleat-test-XXXXXX";

static void in_folder(void)
{
    cr_assert(ne(ptr, mkdtemp(folder), NULL));
    cr_assert(eq(int, chdir(folder), 0));
}

/* Entries of the current folder beside itself and its parent. */
static int count_files(void)
{
    int count = -2;
    DIR *files = opendir(".");
    while (readdir(files) != NULL) {
        count++;
    }
    (void)closedir(files);
    return count;
}

static void remove_folder(const char *const *names)
{
    for (; *names != NULL; names++) {
        (void)unlink(*names);
    }
    cr_expect(eq(int, count_files(), 0));
    cr_assert(eq(int, chdir("/"), 0));
    (void)rmdir(folder);
}
#define REMOVE_FOLDER(...) remove_folder((const char *const[]){__VA_ARGS__, NULL})

static void expect_content(const char *path, const char *want)
{
    char buffer[64] = {0};
    size_t count = 0;
    pleat_input_t *input = NULL;
    cr_assert(eq(int, pleat_input_open(path, &input), PLEAT_OK));
    cr_assert(eq(int, pleat_input_read(input, buffer, sizeof buffer - 1, &count), PLEAT_OK));
    cr_expect(eq(str, buffer, (char *)want), "%s", path);
    pleat_input_close(input);
}

Test(output_file, appears_when_it_is_complete, .timeout = 5)
{
    static const char *const names[] = {"a", "a.gz", "a.xz", "a.zst"};
    in_folder();
    for (size_t i = 0; i < 4; i++) {
        pleat_output_file_t file;
        struct stat found;
        cr_assert(eq(int, pleat_output_file_open(names[i], &file), PLEAT_OK));
        cr_assert(eq(int, pleat_output_file_write(&file, "some ", 5), PLEAT_OK));
        cr_expect(ne(int, access(names[i], F_OK), 0));
        cr_assert(eq(int, pleat_output_file_write(&file, "text", 4), PLEAT_OK));
        cr_assert(eq(int, pleat_output_file_finish(&file), PLEAT_OK));
        expect_content(names[i], "some text");
        const mode_t mask = umask(0);
        (void)umask(mask);
        cr_assert(eq(int, stat(names[i], &found), 0));
        cr_expect(eq(u32, found.st_mode & 0777, 0666 & ~mask));
    }
    struct stat plain;
    struct stat packed;
    cr_assert(eq(int, stat("a", &plain), 0));
    cr_assert(eq(int, stat("a.gz", &packed), 0));
    cr_expect(ne(i64, plain.st_size, packed.st_size));
    REMOVE_FOLDER("a", "a.gz", "a.xz", "a.zst");
}

Test(output_file, an_older_file_stays_until_then, .timeout = 5)
{
    pleat_output_file_t file;
    in_folder();
    cr_assert(eq(int, pleat_output_file_open("a", &file), PLEAT_OK));
    cr_assert(eq(int, pleat_output_file_write(&file, "old", 3), PLEAT_OK));
    cr_assert(eq(int, pleat_output_file_finish(&file), PLEAT_OK));
    cr_assert(eq(int, pleat_output_file_open("a", &file), PLEAT_OK));
    cr_assert(eq(int, pleat_output_file_write(&file, "new", 3), PLEAT_OK));
    pleat_output_file_abandon(&file);
    pleat_output_file_abandon(&file); /* nothing is left to be abandoned */
    expect_content("a", "old");
    REMOVE_FOLDER("a");
}

Test(output_file, says_what_cannot_be_written, .timeout = 5)
{
    pleat_output_file_t file;
    in_folder();
    cr_expect(eq(int, pleat_output_file_open("no/such/folder", &file), PLEAT_ERR_IO));
    cr_expect(eq(str, (char *)pleat_last_error(),
                 "no/such/folder: cannot write: No such file or directory"));
    cr_expect(eq(int, pleat_output_file_open(".", &file), PLEAT_ERR_IO));
    cr_assert(eq(int, pleat_output_file_open("/dev/full", &file), PLEAT_OK));
    cr_expect(eq(int, pleat_output_file_write(&file, "text", 4), PLEAT_OK)); /* in a buffer */
    cr_expect(eq(int, pleat_output_file_finish(&file), PLEAT_ERR_IO));
    cr_expect(
        eq(str, (char *)pleat_last_error(), "/dev/full: cannot write: No space left on device"));
    REMOVE_FOLDER(NULL);
}

/* The name became a folder in between. */
Test(output_file, leaves_nothing_when_it_cannot_get_its_name, .timeout = 5)
{
    pleat_output_file_t file;
    in_folder();
    cr_assert(eq(int, pleat_output_file_open("a", &file), PLEAT_OK));
    cr_assert(eq(int, mkdir("a", 0777), 0));
    cr_expect(eq(int, pleat_output_file_finish(&file), PLEAT_ERR_IO));
    cr_assert(eq(int, rmdir("a"), 0));
    REMOVE_FOLDER(NULL);
}

Test(output_file, writes_to_what_is_no_plain_file, .timeout = 5)
{
    pleat_output_file_t file;
    cr_assert(eq(int, pleat_output_file_open("/dev/null", &file), PLEAT_OK));
    cr_assert(eq(int, pleat_output_file_write(&file, "text", 4), PLEAT_OK));
    cr_expect(eq(int, pleat_output_file_finish(&file), PLEAT_OK));
    struct stat found;
    cr_assert(eq(int, stat("/dev/null", &found), 0));
    const bool is_device = S_ISCHR(found.st_mode);
    cr_expect(is_device, "it is one still");
    cr_assert(eq(int, pleat_output_file_open("-", &file), PLEAT_OK));
    cr_expect(eq(ptr, file.file, stdout));
    pleat_output_file_abandon(&file);
    cr_expect(le(int, 0, fileno(stdout)));
}

Test(output_file, needs_host_memory, .timeout = 5)
{
    in_folder();
    pleat_output_file_t file;
    host_fault_after(1);
    cr_expect(eq(int, pleat_output_file_open("a", &file), PLEAT_ERR_OOM_HOST));
    REMOVE_FOLDER(NULL);
}
