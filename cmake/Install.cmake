# cmake --install: headers, libraries, nanolith.pc and the CMake package nanolith (target nanolith::nanolith), in the
# components runtime, cuda, redis and dev. See Package.cmake for archives of these.
include(CMakePackageConfigHelpers)

# A library finds those that are installed beside it, wherever that is.
set_target_properties(nanolith PROPERTIES INSTALL_RPATH "$ORIGIN")
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/nanolith DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev
        FILES_MATCHING PATTERN "*.h")
install(TARGETS nanolith EXPORT nanolith-targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# Through pkg-config alone: find_package gives the shared library. CMake strips no static libraries by itself.
install(TARGETS nanolith_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
install(CODE "if(CMAKE_INSTALL_DO_STRIP)
  execute_process(COMMAND ${CMAKE_STRIP} --strip-debug
                  \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/libnanolith.a\" COMMAND_ERROR_IS_FATAL ANY)
endif()" COMPONENT dev)
# Opened at run time, from the folder that libnanolith.so is in.
foreach(plugin cuda redis)
  if(TARGET nanolith_${plugin})
    set_target_properties(nanolith_${plugin} PROPERTIES INSTALL_RPATH "$ORIGIN")
    install(TARGETS nanolith_${plugin} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${plugin})
  endif()
endforeach()

# The file finds its prefix from where it lies, so that an installation may be moved.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig
           OUTPUT_VARIABLE NL_PC_PREFIX)
configure_file(${CMAKE_SOURCE_DIR}/pkgconfig/nanolith.pc.in ${CMAKE_BINARY_DIR}/nanolith.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/nanolith.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)

set(NL_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/nanolith)
install(EXPORT nanolith-targets NAMESPACE nanolith:: DESTINATION ${NL_PACKAGE_DIR} COMPONENT dev)
configure_package_config_file(${CMAKE_SOURCE_DIR}/pkgconfig/nanolith-config.cmake.in
                              ${CMAKE_BINARY_DIR}/nanolith-config.cmake INSTALL_DESTINATION ${NL_PACKAGE_DIR})
# Before 1.0 a minor version may change the ABI.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/nanolith-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/nanolith-config.cmake ${CMAKE_BINARY_DIR}/nanolith-config-version.cmake
        DESTINATION ${NL_PACKAGE_DIR} COMPONENT dev)

foreach(package libnanolith0 libnanolith-cuda libnanolith-redis libnanolith-dev)
  string(REGEX REPLACE ".*(cuda|redis|dev)$" "\\1" component ${package})
  string(REPLACE libnanolith0 runtime component ${component})
  if(NOT component MATCHES "cuda|redis" OR TARGET nanolith_${component})
    install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} RENAME copyright
            COMPONENT ${component})
  endif()
endforeach()
include(Package)
