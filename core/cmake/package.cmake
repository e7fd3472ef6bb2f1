# Debian packages, one a component of the installation: cpack -G DEB in the build folder. Configured
# with CMAKE_INSTALL_PREFIX=/usr, libraries go where Debian has them (lib/<architecture>).

set(pleat_soversion ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME pleat)
set(CPACK_PACKAGE_VENDOR Pleat)
set(CPACK_PACKAGE_CONTACT "Pleat maintainers <maintainers@pleat.invalid>")
string(REGEX REPLACE "^[Aa]n? " "" CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
find_program(PLEAT_SHLIBDEPS dpkg-shlibdeps)
if(PLEAT_SHLIBDEPS)
    set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
endif()

# pleat_package(component package section text): one package, with its license and history.
function(pleat_package component package section text)
    string(TOUPPER ${component} name)
    set(CPACK_DEBIAN_${name}_PACKAGE_NAME ${package} PARENT_SCOPE)
    set(CPACK_DEBIAN_${name}_PACKAGE_SECTION ${section} PARENT_SCOPE)
    set(CPACK_DEBIAN_${name}_DESCRIPTION "${text}" PARENT_SCOPE)
    install(FILES ${PROJECT_SOURCE_DIR}/core/cmake/copyright COMPONENT ${component}
            DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package})
    if(PLEAT_CHANGELOG)
        install(FILES ${PLEAT_CHANGELOG} COMPONENT ${component}
                DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package})
    endif()
endfunction()

find_program(PLEAT_GZIP gzip)
set(PLEAT_CHANGELOG)
if(PLEAT_GZIP)
    set(PLEAT_CHANGELOG ${PROJECT_BINARY_DIR}/changelog.gz)
    add_custom_command(
        OUTPUT ${PLEAT_CHANGELOG}
        COMMAND ${PLEAT_GZIP} -9nc ${PROJECT_SOURCE_DIR}/core/cmake/changelog > ${PLEAT_CHANGELOG}
        DEPENDS core/cmake/changelog VERBATIM)
    add_custom_target(pleat_changelog ALL DEPENDS ${PLEAT_CHANGELOG})
endif()

pleat_package(runtime libpleat${pleat_soversion} libs
              "The library: keeps freed memory of a GPU and hands it out again, joins and
shares physical memory where it is needed, and speaks the configuration and
the reports of PyTorch. With the plug-in for PyTorch's CUDAPluggableAllocator.")
pleat_package(development libpleat-dev libdevel
              "Headers, and what CMake and pkg-config need to find the library.")
# The loader's cache, and what packages of programs depend on.
file(WRITE ${PROJECT_BINARY_DIR}/debian/triggers "activate-noawait ldconfig\n")
file(WRITE ${PROJECT_BINARY_DIR}/debian/shlibs
     "libpleat ${pleat_soversion} libpleat${pleat_soversion} (>= ${PROJECT_VERSION})\n")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA
    "${PROJECT_BINARY_DIR}/debian/triggers;${PROJECT_BINARY_DIR}/debian/shlibs")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libpleat${pleat_soversion} (= ${PROJECT_VERSION})")
set(CPACK_COMPONENTS_ALL runtime development)
if(PLEAT_BUILD_EXPERIMENTS)
    pleat_package(program pleat utils
                  "The program pleat: replays allocation traces on a simulated device and shows
what a caching allocator makes of them.")
    set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS "python3:any") # draws pictures
    set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS python3-matplotlib)
    list(APPEND CPACK_COMPONENTS_ALL program)
endif()

include(CPack)
