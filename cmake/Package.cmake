# cpack: an archive that may be unpacked anywhere (cpack -G TGZ), and Debian packages (cpack -G DEB): libnanolith0,
# libnanolith-cuda where the CUDA backend was built, and libnanolith-dev. For packages configure with
# -DCMAKE_INSTALL_PREFIX=/usr, so that libraries go to the folder of their architecture.
set(CPACK_PACKAGE_NAME nanolith)
set(CPACK_PACKAGE_VENDOR "Nanolith")
set(CPACK_PACKAGE_CONTACT "The Nanolith authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_FILE_NAME nanolith-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR TGZ DEB)
set(CPACK_COMPONENTS_ALL runtime dev)
if(TARGET nanolith_cuda)
  list(APPEND CPACK_COMPONENTS_ALL cuda)
endif()

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME libnanolith${PROJECT_VERSION_MAJOR})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON) # and with it scripts that run ldconfig
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS libnanolith-cuda)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "Nanolith's shared library, with the CPU backend")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libnanolith-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "${CPACK_DEBIAN_RUNTIME_PACKAGE_NAME} (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_DEV_DESCRIPTION "Nanolith's headers, and its files for pkg-config and CMake")

# cuBLASLt comes from NVIDIA's repository, under names that change with its version.
set(CPACK_DEBIAN_CUDA_PACKAGE_NAME libnanolith-cuda)
set(CPACK_DEBIAN_CUDA_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS "${CPACK_DEBIAN_RUNTIME_PACKAGE_NAME} (= ${PROJECT_VERSION}), libc6, libstdc++6")
set(CPACK_COMPONENT_CUDA_DESCRIPTION "Nanolith's CUDA backend; needs the CUDA toolkit's libcublasLt and a driver")
include(CPack)
