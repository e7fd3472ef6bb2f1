# The shared library's exported names and version, and what `cmake --install` puts where.

set(pleat_map ${PROJECT_SOURCE_DIR}/core/cmake/pleat.map)
target_link_options(pleat PRIVATE LINKER:--version-script=${pleat_map})
if(NOT PLEAT_SANITIZE AND NOT PLEAT_FUZZ)
    # Sanitizers leave their own names to the program.
    target_link_options(pleat PRIVATE LINKER:-z,defs)
endif()
# Before 1.0 every minor version is an ABI of its own (pleat/base.h says so).
set_target_properties(pleat PROPERTIES VERSION ${PROJECT_VERSION}
                      SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
                      LINK_DEPENDS ${pleat_map} LINKER_LANGUAGE C
                      VERIFY_INTERFACE_HEADER_SETS ON)
# Headers are compiled alone with the project's own warnings (target all_verify_interface_header_sets).
set_target_properties(pleat PROPERTIES C_STANDARD 17 C_EXTENSIONS OFF)

include(CMakePackageConfigHelpers)
set(pleat_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/pleat)
configure_package_config_file(core/cmake/pleatConfig.cmake.in ${PROJECT_BINARY_DIR}/pleatConfig.cmake
                              INSTALL_DESTINATION ${pleat_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/pleatConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)

set(pleat_pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH PLEAT_PC_TO_PREFIX /prefix/${pleat_pc_dir} /prefix)
string(REGEX REPLACE "/$" "" PLEAT_PC_TO_PREFIX "${PLEAT_PC_TO_PREFIX}")
configure_file(core/cmake/pleat.pc.in ${PROJECT_BINARY_DIR}/pleat.pc @ONLY)

# Components: runtime (what programs need to run), development, program. All are installed unless one
# is asked for.
install(TARGETS pleat EXPORT pleatTargets
        LIBRARY COMPONENT runtime NAMELINK_COMPONENT development
        FILE_SET HEADERS COMPONENT development)
install(EXPORT pleatTargets NAMESPACE pleat:: DESTINATION ${pleat_package_dir}
        COMPONENT development)
install(FILES ${PROJECT_BINARY_DIR}/pleatConfig.cmake ${PROJECT_BINARY_DIR}/pleatConfigVersion.cmake
        DESTINATION ${pleat_package_dir} COMPONENT development)
install(FILES ${PROJECT_BINARY_DIR}/pleat.pc DESTINATION ${pleat_pc_dir} COMPONENT development)
