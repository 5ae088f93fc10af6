# cpack: an archive that may be unpacked anywhere (cpack -G TGZ), and Debian packages (cpack -G DEB): libnanolith0,
# libnanolith-cuda and libnanolith-redis where these were built, and libnanolith-dev. For packages configure with
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
foreach(plugin cuda redis)
  if(TARGET nanolith_${plugin})
    list(APPEND CPACK_COMPONENTS_ALL ${plugin})
  endif()
endforeach()

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME libnanolith${PROJECT_VERSION_MAJOR})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON) # and with it scripts that run ldconfig
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS "libnanolith-cuda, libnanolith-redis")
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "Nanolith's shared library, with the CPU backend")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libnanolith-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "${CPACK_DEBIAN_RUNTIME_PACKAGE_NAME} (= ${PROJECT_VERSION})")
# What a program needs that is linked to libnanolith.a.
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "libdnnl-dev, libpcre2-dev, libsentencepiece-dev, libutf8proc-dev, nettle-dev")
set(CPACK_COMPONENT_DEV_DESCRIPTION "Nanolith's headers, its static library, and its files for pkg-config and CMake")

# cuBLASLt comes from NVIDIA's repository, in a package named after CUDA's version, of which none older than this one
# will do. It is recommended and no more: a machine may have it from elsewhere, or know no such repository. Without it
# an engine for a GPU is refused with a sentence that names the library, and everything else works.
if(TARGET nanolith_cuda)
  find_package(CUDAToolkit REQUIRED)
  foreach(minor RANGE ${CUDAToolkit_VERSION_MINOR} 9)
    list(APPEND NL_CUBLAS_PACKAGES libcublas-${CUDAToolkit_VERSION_MAJOR}-${minor})
  endforeach()
  list(JOIN NL_CUBLAS_PACKAGES " | " CPACK_DEBIAN_CUDA_PACKAGE_RECOMMENDS)
  # Of the toolkit's folder this library alone: another there with a system library's name would hide its package.
  set(cublas_folder ${CMAKE_BINARY_DIR}/cublas)
  set(cublas_file libcublasLt.so.${CUDAToolkit_VERSION_MAJOR})
  file(MAKE_DIRECTORY ${cublas_folder})
  file(CREATE_LINK ${CUDAToolkit_LIBRARY_DIR}/${cublas_file} ${cublas_folder}/${cublas_file} SYMBOLIC)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${cublas_folder})
endif()
set(CPACK_DEBIAN_CUDA_PACKAGE_NAME libnanolith-cuda)
set(CPACK_DEBIAN_CUDA_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_CUDA_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS "${CPACK_DEBIAN_RUNTIME_PACKAGE_NAME} (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_CUDA_DESCRIPTION "Nanolith's CUDA backend; needs cuBLASLt of the CUDA toolkit and NVIDIA's driver")

set(CPACK_DEBIAN_REDIS_PACKAGE_NAME libnanolith-redis)
set(CPACK_DEBIAN_REDIS_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_REDIS_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_REDIS_PACKAGE_DEPENDS "${CPACK_DEBIAN_RUNTIME_PACKAGE_NAME} (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_REDIS_DESCRIPTION "Nanolith's store of chunks upon a Redis or Valkey server")
include(CPack)
