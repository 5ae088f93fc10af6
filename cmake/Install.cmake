install(FILES ${CMAKE_SOURCE_DIR}/include/nanolith/nanolith.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/nanolith)
