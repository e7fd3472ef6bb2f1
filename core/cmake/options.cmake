# Options of the build, and the target pleat_build that carries what they mean: every target of the
# project links it, no flag is global.

option(PLEAT_BUILD_TESTS "Build the tests (needs Criterion)" ${PROJECT_IS_TOP_LEVEL})
option(PLEAT_BUILD_GPU_TESTS "Build the programs of tests/gpu (needs nothing else)" OFF)
option(PLEAT_BUILD_EXPERIMENTS "Build the pleat program and its library" ${PROJECT_IS_TOP_LEVEL})
option(PLEAT_DEVELOPER "Treat compiler warnings as errors" OFF)
option(PLEAT_COVERAGE "Instrument for line coverage (gcov)" OFF)
option(PLEAT_FUZZ "Build fuzz targets with libFuzzer (Clang only)" OFF)
set(PLEAT_CHECKS fast CACHE STRING
    "Assertions: off, fast (constant-time ones) or full (those that walk structures too)")
set(PLEAT_SANITIZE "" CACHE STRING "Sanitizers, for example address;undefined or thread")
string(REPLACE "," ";" PLEAT_SANITIZE "${PLEAT_SANITIZE}") # a comma separates as well
set_property(CACHE PLEAT_CHECKS PROPERTY STRINGS off fast full)

set(pleat_checks_names off fast full)
list(FIND pleat_checks_names "${PLEAT_CHECKS}" pleat_checks_level)
if(pleat_checks_level EQUAL -1)
    message(FATAL_ERROR "PLEAT_CHECKS is '${PLEAT_CHECKS}': expected off, fast or full")
endif()
if(PLEAT_FUZZ AND NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "PLEAT_FUZZ needs Clang: set CMAKE_C_COMPILER=clang")
endif()
if(PLEAT_FUZZ AND NOT PLEAT_BUILD_TESTS)
    message(FATAL_ERROR "PLEAT_FUZZ needs PLEAT_BUILD_TESTS=ON: the fuzz targets are tests")
endif()

foreach(name IN ITEMS CMAKE_BUILD_TYPE PLEAT_BUILD_TESTS PLEAT_BUILD_GPU_TESTS
                      PLEAT_BUILD_EXPERIMENTS PLEAT_DEVELOPER PLEAT_CHECKS PLEAT_SANITIZE
                      PLEAT_COVERAGE PLEAT_FUZZ)
    message(STATUS "${name}=${${name}}")
endforeach()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

add_library(pleat_build INTERFACE)
target_compile_features(pleat_build INTERFACE c_std_17)
target_compile_definitions(pleat_build INTERFACE _GNU_SOURCE PLEAT_CHECKS=${pleat_checks_level})
# Internal headers are found by their name, or by folder and name: "block.h", "core/block.h".
target_include_directories(
    pleat_build INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/vmm/include
                          ${PROJECT_SOURCE_DIR}/core/include ${PROJECT_SOURCE_DIR}/compat/include
                          ${PROJECT_SOURCE_DIR}/vmm ${PROJECT_SOURCE_DIR}/core
                          ${PROJECT_SOURCE_DIR}/compat)
target_compile_options(
    pleat_build INTERFACE -std=c17 -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                          -Wmissing-prototypes -Wstrict-prototypes -Wvla -Wundef -Wformat=2
                          -Wswitch-enum $<$<CONFIG:Release>:-g1>)
if(PLEAT_DEVELOPER)
    target_compile_options(pleat_build INTERFACE -Werror)
endif()
if(PLEAT_SANITIZE)
    list(JOIN PLEAT_SANITIZE "," pleat_sanitizers)
    set(pleat_sanitize_flags -fsanitize=${pleat_sanitizers} -fno-sanitize-recover=all)
    target_compile_options(pleat_build INTERFACE ${pleat_sanitize_flags} -fno-omit-frame-pointer)
    target_link_options(pleat_build INTERFACE ${pleat_sanitize_flags})
endif()
if(PLEAT_COVERAGE)
    target_compile_options(pleat_build INTERFACE --coverage -fprofile-abs-path)
    target_link_options(pleat_build INTERFACE --coverage)
endif()
if(PLEAT_FUZZ)
    target_compile_options(pleat_build INTERFACE -fsanitize=fuzzer-no-link)
endif()
