/*
 * completion: scripts for bash, zsh and fish. What an option's value can be is read off its
 * metavar: FILE is a file, words with '|' between them are those words, modes have their own names,
 * and the rest is the user's.
 */
#include "completion.h"
#include "command.h"

#include <pleat/options.h>

#include <string.h>

#define MODE_WORD(name, text) " " text
static const char mode_words[] = PLEAT_MODE_LIST(MODE_WORD); /* begins with a blank */
#undef MODE_WORD

static bool option_takes_file(const pleat_cli_option_t *option)
{
    return option->metavar && strstr(option->metavar, "FILE") != NULL;
}

/* Print the words that a value can be, with blanks between them; false: it can be anything. */
static bool option_print_words(const pleat_cli_option_t *option, FILE *stream)
{
    if (!option->metavar) {
        return false;
    }
    if (strcmp(option->name, "mode") == 0 || strcmp(option->name, "modes") == 0) {
        (void)fputs(mode_words + 1, stream);
        return true;
    }
    if (strchr(option->metavar, '|') == NULL) {
        return false;
    }
    for (const char *at = option->metavar; *at != '\0'; at++) {
        (void)fputc(*at == '|' ? ' ' : *at, stream);
    }
    return true;
}

/* The first clause of a help text, what a shell would take for its own hidden. */
static void print_clause(const char *text, const char *special, FILE *stream)
{
    const size_t length = strcspn(text, ";");
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\'') {
            (void)fputs("'\\''", stream);
        } else if (strchr(special, text[i]) != NULL) {
            (void)fprintf(stream, "\\%c", text[i]);
        } else {
            (void)fputc(text[i], stream);
        }
    }
}

/* Call `print` for every option of a command, --help the last. */
static void for_each_option(const pleat_cli_command_t *command, FILE *stream,
                            void (*print)(const pleat_cli_command_t *command,
                                          const pleat_cli_option_t *option, FILE *stream))
{
    for (size_t i = 0; i < command->option_count; i++) {
        print(command, &command->options[i], stream);
    }
    print(command, &pleat_cli_help_option, stream);
}

static void print_command_names(FILE *stream)
{
    for (size_t i = 0; i < PLEAT_CLI_COMMAND_COUNT; i++) {
        (void)fprintf(stream, "%s ", pleat_cli_commands[i]->name);
    }
}

/* ---- bash ---- */

static void bash_option_name(const pleat_cli_command_t *command, const pleat_cli_option_t *option,
                             FILE *stream)
{
    (void)command;
    (void)fprintf(stream, " --%s", option->name);
}

static void bash_option_value(const pleat_cli_command_t *command, const pleat_cli_option_t *option,
                              FILE *stream)
{
    if (!option->metavar) {
        return;
    }
    (void)fprintf(stream, "    '%s --%s'", command->name, option->name);
    if (pleat_cli_option_is_short(option)) {
        (void)fprintf(stream, " | '%s -%c'", command->name, option->key);
    }
    if (option_takes_file(option)) {
        (void)fputs(") return ;;\n", stream);
        return;
    }
    (void)fputs(") words='", stream);
    (void)option_print_words(option, stream);
    (void)fputs("' ;;\n", stream);
}

static void bash_print(FILE *stream)
{
    (void)fputs("# bash completion of pleat, written by 'pleat help --completion bash'.\n"
                "_pleat()\n"
                "{\n"
                "    local word=${COMP_WORDS[COMP_CWORD]} at=$((COMP_CWORD - 1)) words=\n"
                "    COMPREPLY=()\n"
                "    # --option=value arrives as three words.\n"
                "    if [[ $word == = ]]; then\n"
                "        word=\n"
                "    elif [[ ${COMP_WORDS[at]} == = ]]; then\n"
                "        at=$((at - 1))\n"
                "    fi\n"
                "    if ((COMP_CWORD == 1)); then\n"
                "        words='",
                stream);
    print_command_names(stream);
    (void)fputs("help --help --version'\n"
                "        COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
                "        return\n"
                "    fi\n"
                "    case \"${COMP_WORDS[1]} ${COMP_WORDS[at]}\" in\n",
                stream);
    for (size_t i = 0; i < PLEAT_CLI_COMMAND_COUNT; i++) {
        for_each_option(pleat_cli_commands[i], stream, bash_option_value);
    }
    (void)fputs("    'help --completion') words='bash zsh fish' ;;\n"
                "    'help help' | 'help --man') words='",
                stream);
    print_command_names(stream);
    (void)fputs("--man --completion' ;;\n"
                "    *)\n"
                "        [[ $word == -* ]] || return # a file\n"
                "        case ${COMP_WORDS[1]} in\n",
                stream);
    for (size_t i = 0; i < PLEAT_CLI_COMMAND_COUNT; i++) {
        (void)fprintf(stream, "        %s) words='", pleat_cli_commands[i]->name);
        for_each_option(pleat_cli_commands[i], stream, bash_option_name);
        (void)fputs("' ;;\n", stream);
    }
    (void)fputs("        esac\n"
                "        ;;\n"
                "    esac\n"
                "    compopt +o default 2>/dev/null # no file can stand here\n"
                "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
                "}\n"
                "complete -o default -F _pleat pleat\n",
                stream);
}

/* ---- zsh ---- */

static void zsh_option(const pleat_cli_command_t *command, const pleat_cli_option_t *option,
                       FILE *stream)
{
    (void)command;
    (void)fputs("            ", stream);
    if (pleat_cli_option_is_short(option)) {
        (void)fprintf(stream, "'(-%c --%s)'{-%c,--%s}'[", option->key, option->name, option->key,
                      option->name);
    } else {
        (void)fprintf(stream, "'*--%s[", option->name);
    }
    print_clause(option->help, "[]:\\", stream);
    (void)fputc(']', stream);
    if (option->metavar) {
        (void)fputs(":value:", stream);
        if (option_takes_file(option)) {
            (void)fputs("_files", stream);
        } else {
            (void)fputc('(', stream);
            (void)option_print_words(option, stream);
            (void)fputc(')', stream);
        }
    }
    (void)fputs("' \\\n", stream);
}

static void zsh_print(FILE *stream)
{
    (void)fputs("#compdef pleat\n"
                "# zsh completion of pleat, written by 'pleat help --completion zsh'.\n"
                "_pleat()\n"
                "{\n"
                "    local -a commands\n"
                "    commands=(\n",
                stream);
    for (size_t i = 0; i < PLEAT_CLI_COMMAND_COUNT; i++) {
        (void)fprintf(stream, "        '%s:", pleat_cli_commands[i]->name);
        print_clause(pleat_cli_commands[i]->brief, ":\\", stream);
        (void)fputs("'\n", stream);
    }
    (void)fputs("        'help:print the help page of a command'\n"
                "    )\n"
                "    if ((CURRENT == 2)); then\n"
                "        _describe command commands\n"
                "        return\n"
                "    fi\n"
                "    local command=$words[2]\n"
                "    shift words\n"
                "    ((CURRENT--))\n"
                "    case $command in\n",
                stream);
    for (size_t i = 0; i < PLEAT_CLI_COMMAND_COUNT; i++) {
        (void)fprintf(stream, "    %s)\n        _arguments \\\n", pleat_cli_commands[i]->name);
        for_each_option(pleat_cli_commands[i], stream, zsh_option);
        (void)fputs("            '*:file:_files'\n        ;;\n", stream);
    }
    (void)fputs("    help)\n"
                "        _arguments '--man[print a page for man]' \\\n"
                "            '--completion[print a completion]:shell:(bash zsh fish)' \\\n"
                "            '*:command:(",
                stream);
    print_command_names(stream);
    (void)fputs(")'\n        ;;\n    esac\n}\n_pleat \"$@\"\n", stream);
}

/* ---- fish ---- */

static void fish_option(const pleat_cli_command_t *command, const pleat_cli_option_t *option,
                        FILE *stream)
{
    (void)fprintf(stream, "complete -c pleat -n '__fish_seen_subcommand_from %s' -l %s",
                  command->name, option->name);
    if (pleat_cli_option_is_short(option)) {
        (void)fprintf(stream, " -s %c", option->key);
    }
    if (option_takes_file(option)) {
        (void)fputs(" -r -F", stream);
    } else if (option->metavar) {
        (void)fputs(" -x -a '", stream);
        (void)option_print_words(option, stream);
        (void)fputc('\'', stream);
    }
    (void)fputs(" -d '", stream);
    print_clause(option->help, "\\", stream);
    (void)fputs("'\n", stream);
}

static void fish_print(FILE *stream)
{
    (void)fputs("# fish completion of pleat, written by 'pleat help --completion fish'.\n", stream);
    for (size_t i = 0; i < PLEAT_CLI_COMMAND_COUNT; i++) {
        (void)fprintf(stream, "complete -c pleat -f -n __fish_use_subcommand -a %s -d '",
                      pleat_cli_commands[i]->name);
        print_clause(pleat_cli_commands[i]->brief, "\\", stream);
        (void)fputs("'\n", stream);
    }
    (void)fputs("complete -c pleat -f -n __fish_use_subcommand -a help "
                "-d 'print the help page of a command'\n"
                "complete -c pleat -f -n __fish_use_subcommand -l version -d 'print the version'\n"
                "complete -c pleat -n '__fish_seen_subcommand_from help' -l man "
                "-d 'print a page for man'\n"
                "complete -c pleat -n '__fish_seen_subcommand_from help' -l completion "
                "-x -a 'bash zsh fish' -d 'print a completion'\n"
                "complete -c pleat -f -n '__fish_seen_subcommand_from help' -a '",
                stream);
    print_command_names(stream);
    (void)fputs("'\n", stream);
    for (size_t i = 0; i < PLEAT_CLI_COMMAND_COUNT; i++) {
        for_each_option(pleat_cli_commands[i], stream, fish_option);
    }
}

bool pleat_cli_completion_print(const char *shell, FILE *stream)
{
    static const struct {
        const char *name;
        void (*print)(FILE *stream);
    } shells[] = {{"bash", bash_print}, {"zsh", zsh_print}, {"fish", fish_print}};
    for (size_t i = 0; i < sizeof shells / sizeof shells[0]; i++) {
        if (strcmp(shells[i].name, shell) == 0) {
            shells[i].print(stream);
            return true;
        }
    }
    return false;
}
