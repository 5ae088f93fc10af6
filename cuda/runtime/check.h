// CUDA and cuBLAS statuses as Errors.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstddef>

#include "base/result.h"

namespace nanolith::cuda {

// The Error for a failed runtime call: NL_ERROR_DEVICE with the call's name (`call` up to its parenthesis) and
// CUDA's own text. Clears the thread's pending error, so that the host program does not meet it later.
Error cuda_error(cudaError_t status, const char* call);
Error cublas_error(cublasStatus_t status, const char* call);

// The Error for an allocation of `bytes` that failed: NL_ERROR_OUT_OF_MEMORY where that is the reason.
Error allocation_error(cudaError_t status, const char* call, const char* what, size_t bytes);

}  // namespace nanolith::cuda

#define NL_CUDA_TRY(call)                                                                      \
    do {                                                                                       \
        const cudaError_t nl_status_ = (call);                                                 \
        if (nl_status_ != cudaSuccess) return ::nanolith::cuda::cuda_error(nl_status_, #call); \
    } while (0)

#define NL_CUBLAS_TRY(call)                                                                                \
    do {                                                                                                   \
        const cublasStatus_t nl_status_ = (call);                                                          \
        if (nl_status_ != CUBLAS_STATUS_SUCCESS) return ::nanolith::cuda::cublas_error(nl_status_, #call); \
    } while (0)
