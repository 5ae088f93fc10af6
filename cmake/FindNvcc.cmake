# Looks for nvcc without making its absence an error.
include(CheckLanguage)
check_language(CUDA)
if(CMAKE_CUDA_COMPILER)
  set(NL_NVCC TRUE)
else()
  set(NL_NVCC FALSE)
endif()
