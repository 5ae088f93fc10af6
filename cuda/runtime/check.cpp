#include "runtime/check.h"

#include <string>

namespace nanolith::cuda {

namespace {

std::string call_name(const char* call) {
    const std::string text = call;
    return text.substr(0, text.find('('));
}

}  // namespace

Error cuda_error(cudaError_t status, const char* call) {
    cudaGetLastError();
    return fail(NL_ERROR_DEVICE, call_name(call), " failed: ", cudaGetErrorName(status), ": ",
                cudaGetErrorString(status));
}

Error cublas_error(cublasStatus_t status, const char* call) {
    const nl_status code = status == CUBLAS_STATUS_ALLOC_FAILED ? NL_ERROR_OUT_OF_MEMORY : NL_ERROR_DEVICE;
    return fail(code, call_name(call), " failed: ", cublasLtGetStatusName(status), ": ",
                cublasLtGetStatusString(status));
}

Error allocation_error(cudaError_t status, const char* call, const char* what, size_t bytes) {
    if (status != cudaErrorMemoryAllocation) return cuda_error(status, call);
    cudaGetLastError();
    return fail(NL_ERROR_OUT_OF_MEMORY, call, " could not allocate ", bytes, " bytes for ", what);
}

}  // namespace nanolith::cuda
