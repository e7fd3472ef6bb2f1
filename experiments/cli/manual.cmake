# Pages for man and completions for shells: the program writes them, from the tables of its help.
if(CMAKE_CROSSCOMPILING OR PLEAT_FUZZ OR "thread" IN_LIST PLEAT_SANITIZE)
    return() # it does not run here, or is too picky about where it runs
endif()

# The subcommands stand in command.h.
set(pleat_command_header ${CMAKE_CURRENT_SOURCE_DIR}/cli/command.h)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${pleat_command_header})
file(STRINGS ${pleat_command_header} pleat_command_lines REGEX "^    X\\([a-z]+\\)")
string(REGEX MATCHALL "X\\([a-z]+\\)" pleat_commands "${pleat_command_lines}")
list(TRANSFORM pleat_commands REPLACE "X\\(([a-z]+)\\)" "\\1")

set(pleat_written)
# pleat_write(file arguments...): what `pleat help` prints with the arguments, as a file.
function(pleat_write file)
    add_custom_command(OUTPUT ${file} COMMAND pleat_cli help ${ARGN} > ${file} DEPENDS pleat_cli
                       VERBATIM)
    set(pleat_written ${pleat_written} ${file} PARENT_SCOPE)
endfunction()

# Pages are installed as manuals want them: compressed, and the same for the same text.
find_program(PLEAT_GZIP gzip)
function(pleat_write_page name)
    set(page ${CMAKE_CURRENT_BINARY_DIR}/man/${name}.1)
    pleat_write(${page} --man ${ARGN})
    if(PLEAT_GZIP)
        add_custom_command(OUTPUT ${page}.gz COMMAND ${PLEAT_GZIP} -9nkf ${page} DEPENDS ${page}
                           VERBATIM)
        list(APPEND pleat_written ${page}.gz)
        set(page ${page}.gz)
    endif()
    install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
    set(pleat_written ${pleat_written} PARENT_SCOPE)
endfunction()

file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/man ${CMAKE_CURRENT_BINARY_DIR}/completion)
pleat_write_page(pleat)
foreach(command IN LISTS pleat_commands)
    pleat_write_page(pleat-${command} ${command})
endforeach()

set(pleat_completion ${CMAKE_CURRENT_BINARY_DIR}/completion)
pleat_write(${pleat_completion}/pleat --completion bash)
pleat_write(${pleat_completion}/_pleat --completion zsh)
pleat_write(${pleat_completion}/pleat.fish --completion fish)
install(FILES ${pleat_completion}/pleat COMPONENT program
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${pleat_completion}/_pleat COMPONENT program
        DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
install(FILES ${pleat_completion}/pleat.fish COMPONENT program
        DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
add_custom_target(pleat_manual ALL DEPENDS ${pleat_written})
