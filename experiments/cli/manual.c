/*
 * manual: roff with the macros of man(7). A line of our own texts becomes
 *   - filled text; an empty line ends the paragraph,
 *   - "  term   text": an entry of a list; deeper lines go on with its text,
 *   - another indented line: a line that is kept as it is.
 */
#include "manual.h"

#include <pleat/base.h>

#include <ctype.h>
#include <string.h>

enum { LIST_INDENT = 2 };

/* Text with what roff would take for its own hidden. */
static void manual_text(FILE *stream, const char *text, size_t length)
{
    if (length > 0 && (text[0] == '.' || text[0] == '\'')) {
        (void)fputs("\\&", stream);
    }
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\\') {
            (void)fputs("\\e", stream);
        } else if (text[i] == '-') {
            (void)fputs("\\-", stream);
        } else if (text[i] == '\'') {
            (void)fputs("\\(aq", stream);
        } else if (text[i] == '`') {
            (void)fputs("\\(ga", stream);
        } else if (text[i] == '~') {
            (void)fputs("\\(ti", stream);
        } else if (text[i] == '^') {
            (void)fputs("\\(ha", stream);
        } else {
            (void)fputc(text[i], stream);
        }
    }
}

static void manual_line(FILE *stream, const char *text)
{
    manual_text(stream, text, strlen(text));
    (void)fputc('\n', stream);
}

/* One line of a list, without its indent: the term's end and the text's start, or false. */
static bool manual_split_term(const char *line, size_t length, size_t *term_out, size_t *text_out)
{
    for (size_t i = 0; i + 1 < length; i++) {
        if (line[i] == ' ' && line[i + 1] == ' ') {
            *term_out = i;
            while (i < length && line[i] == ' ') {
                i++;
            }
            *text_out = i;
            return i < length;
        }
    }
    return false;
}

/* Print an indented line; tells whether a list goes on after it. */
static bool manual_indented(FILE *stream, const char *line, size_t length, bool is_in_list)
{
    const size_t indent = strspn(line, " ");
    size_t term = 0;
    size_t text = 0;
    line += indent;
    length -= indent;
    if (is_in_list && indent > LIST_INDENT) {
        manual_text(stream, line, length);
        (void)fputc('\n', stream);
        return true;
    }
    if (indent == LIST_INDENT && manual_split_term(line, length, &term, &text)) {
        (void)fputs(".TP\n.B ", stream);
        manual_text(stream, line, term);
        (void)fputc('\n', stream);
        manual_text(stream, line + text, length - text);
        (void)fputc('\n', stream);
        return true;
    }
    (void)fputs(".PP\n.in +4n\n.nf\n", stream);
    manual_text(stream, line, length);
    (void)fputs("\n.fi\n.in\n", stream);
    return false;
}

/* A description: paragraphs, lists and lines. */
static void manual_prose(FILE *stream, const char *text)
{
    bool is_in_list = false;
    bool needs_paragraph = false;
    while (*text != '\0') {
        const size_t length = strcspn(text, "\n");
        if (length == 0) {
            needs_paragraph = true;
            is_in_list = false;
        } else if (text[0] == ' ') {
            is_in_list = manual_indented(stream, text, length, is_in_list);
            needs_paragraph = true;
        } else {
            if (needs_paragraph) {
                (void)fputs(".PP\n", stream);
            }
            needs_paragraph = false;
            is_in_list = false;
            manual_text(stream, text, length);
            (void)fputc('\n', stream);
        }
        text += length + (text[length] == '\n' ? 1 : 0);
    }
}

static void manual_option(FILE *stream, const pleat_cli_option_t *option)
{
    (void)fputs(".TP\n", stream);
    if (pleat_cli_option_is_short(option)) {
        (void)fprintf(stream, "\\fB\\-%c\\fR, ", option->key);
    }
    (void)fputs("\\fB", stream);
    manual_text(stream, "--", 2);
    manual_text(stream, option->name, strlen(option->name));
    (void)fputs("\\fR", stream);
    if (option->metavar) {
        (void)fputs(" \\fI", stream);
        manual_text(stream, option->metavar, strlen(option->metavar));
        (void)fputs("\\fR", stream);
    }
    (void)fputc('\n', stream);
    manual_line(stream, option->help);
}

static void manual_options(FILE *stream, const pleat_cli_command_t *command)
{
    for (size_t i = 0; i < command->option_count; i++) {
        manual_option(stream, &command->options[i]);
    }
    manual_option(stream, &pleat_cli_help_option);
}

static void manual_usage(FILE *stream, const pleat_cli_command_t *command)
{
    (void)fprintf(stream, "\\fBpleat %s\\fR [\\fIoptions\\fR] ", command->name);
    manual_line(stream, command->operands);
}

static void manual_examples(FILE *stream, const char *examples)
{
    (void)fputs(".nf\n", stream);
    while (*examples != '\0') {
        const size_t length = strcspn(examples, "\n");
        const size_t indent = strspn(examples, " ");
        manual_text(stream, examples + indent, length - indent);
        (void)fputc('\n', stream);
        examples += length + (examples[length] == '\n' ? 1 : 0);
    }
    (void)fputs(".fi\n", stream);
}

static void manual_conventions(FILE *stream)
{
    (void)fputs(".SH CONVENTIONS\n", stream);
    manual_prose(stream, PLEAT_CLI_CONVENTIONS);
}

/* Name of the page in capitals, its section, its edition. */
static void manual_title(FILE *stream, const char *name)
{
    (void)fputs(".\\\" Written by 'pleat help --man'.\n.TH PLEAT", stream);
    (void)fputs(name[0] != '\0' ? "\\-" : "", stream);
    for (; *name != '\0'; name++) {
        const int letter = (toupper)((unsigned char)*name); /* not the macro */
        (void)fputc(letter, stream);
    }
    (void)fprintf(stream, " 1 \"\" \"pleat %s\" \"User Commands\"\n.nh\n.SH NAME\n",
                  PLEAT_VERSION_STRING);
}

static void manual_command_page(const pleat_cli_command_t *command, FILE *stream)
{
    manual_title(stream, command->name);
    (void)fprintf(stream, "pleat\\-%s \\- ", command->name);
    manual_line(stream, command->brief);
    (void)fputs(".SH SYNOPSIS\n", stream);
    manual_usage(stream, command);
    (void)fputs(".SH DESCRIPTION\n", stream);
    manual_prose(stream, command->description);
    (void)fputs(".SH OPTIONS\n", stream);
    manual_options(stream, command);
    if (command->examples) {
        (void)fputs(".SH EXAMPLES\n", stream);
        manual_examples(stream, command->examples);
    }
    manual_conventions(stream);
    (void)fputs(".SH SEE ALSO\n.BR pleat (1)\n", stream);
}

/* What is read from the environment: by the program here, by the library in other programs. */
static void manual_environment(FILE *stream)
{
    static const char *const variables[][2] = {
        {"PLEAT_ALLOC_CONF",
         "configuration text that 'pleat conf' reads, and the library where it takes the place of "
         "another allocator"},
        {"PYTORCH_CUDA_ALLOC_CONF", "read when PLEAT_ALLOC_CONF does not exist"},
        {"PYTORCH_ALLOC_CONF", "read when neither of the two exists"},
        {"NO_COLOR", "if not empty: no colours on a terminal"},
    };
    (void)fputs(".SH ENVIRONMENT\n", stream);
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        (void)fprintf(stream, ".TP\n.B %s\n", variables[i][0]);
        manual_line(stream, variables[i][1]);
    }
}

static void manual_program_page(FILE *stream)
{
    manual_title(stream, "");
    (void)fputs("pleat \\- replay the memory allocations of GPU programs\n.SH SYNOPSIS\n"
                "\\fBpleat\\fR \\fICOMMAND\\fR [\\fIoptions\\fR] ...\n.br\n"
                "\\fBpleat help\\fR [\\fICOMMAND\\fR]\n.br\n"
                "\\fBpleat help \\-\\-man\\fR [\\fICOMMAND\\fR] | "
                "\\fB\\-\\-completion\\fR \\fISHELL\\fR\n.br\n"
                "\\fBpleat \\-\\-version\\fR\n.SH DESCRIPTION\n",
                stream);
    manual_prose(stream, PLEAT_CLI_ABOUT);
    (void)fputs(".SH COMMANDS\n", stream);
    for (size_t i = 0; i < PLEAT_CLI_COMMAND_COUNT; i++) {
        (void)fprintf(stream, ".SS %s\n", pleat_cli_commands[i]->name);
        manual_usage(stream, pleat_cli_commands[i]);
        (void)fputs(".PP\n", stream);
        manual_line(stream, pleat_cli_commands[i]->brief);
        manual_options(stream, pleat_cli_commands[i]);
    }
    (void)fputs(".SS help\n", stream);
    manual_prose(stream,
                 "Prints the help page of a command, or of the program.\n"
                 "  --man [COMMAND]   print this page, or that of a command, for man\n"
                 "  --completion SHELL   print what makes a shell complete commands and options:\n"
                 "      bash, zsh or fish\n");
    manual_conventions(stream);
    manual_environment(stream);
    (void)fputs(".SH SEE ALSO\n", stream);
    for (size_t i = 0; i < PLEAT_CLI_COMMAND_COUNT; i++) {
        (void)fprintf(stream, ".BR pleat\\-%s (1)%s\n", pleat_cli_commands[i]->name,
                      i + 1 < PLEAT_CLI_COMMAND_COUNT ? "," : "");
    }
}

void pleat_cli_manual_print(const pleat_cli_command_t *command, FILE *stream)
{
    if (command) {
        manual_command_page(command, stream);
    } else {
        manual_program_page(stream);
    }
}
