// The part of cuBLASLt that the backend calls: column-major products with float64 sums.
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>
#include <functional>
#include <vector>

#include "stream_work.h"

namespace {

struct Description {
    cublasOperation_t transpose_a = CUBLAS_OP_N;
};

// Fits into cublasLtMatrixLayoutOpaque_t's place: the handle is this object's address.
struct Layout {
    cudaDataType type;
    int64_t rows;
    int64_t cols;
    int64_t step;
};

const Layout& layout_of(cublasLtMatrixLayout_t layout) {
    return *reinterpret_cast<const Layout*>(layout);
}

float read(const void* data, cudaDataType type, int64_t index) {
    switch (type) {
        case CUDA_R_16F:
            return __half2float(static_cast<const __half*>(data)[index]);
        case CUDA_R_16BF:
            return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[index]);
        default:
            return static_cast<const float*>(data)[index];
    }
}

void write(void* data, cudaDataType type, int64_t index, float value) {
    switch (type) {
        case CUDA_R_16F:
            static_cast<__half*>(data)[index] = __float2half_rn(value);
            break;
        case CUDA_R_16BF:
            static_cast<__nv_bfloat16*>(data)[index] = __float2bfloat16_rn(value);
            break;
        default:
            static_cast<float*>(data)[index] = value;
    }
}

// The rows or columns of a matrix that a product sums over, in float64.
class Vectors {
  public:
    // `count` vectors of `length` elements: element k of vector i is matrix[i * next + k * step].
    Vectors(const void* matrix, cudaDataType type, int64_t count, int64_t length, int64_t next, int64_t step)
        : length_(length) {
        elements_.reserve(static_cast<size_t>(count * length));
        for (int64_t i = 0; i < count; ++i) {
            for (int64_t k = 0; k < length; ++k) {
                elements_.push_back(static_cast<double>(read(matrix, type, i * next + k * step)));
            }
        }
    }
    [[nodiscard]] const double* at(int64_t i) const { return elements_.data() + i * length_; }

  private:
    int64_t length_;
    std::vector<double> elements_;
};

double dot(const double* a, const double* b, int64_t length) {
    double sum = 0;
    for (int64_t i = 0; i < length; ++i) sum += a[i] * b[i];
    return sum;
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
    *handle = reinterpret_cast<cublasLtHandle_t>(new char);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    delete reinterpret_cast<char*>(handle);
    return CUBLAS_STATUS_SUCCESS;
}
const char* cublasLtGetStatusName(cublasStatus_t) {
    return "CUBLAS_STATUS";
}
const char* cublasLtGetStatusString(cublasStatus_t) {
    return "an error of the host emulation";
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description, cublasComputeType_t compute, cudaDataType) {
    if (compute != CUBLAS_COMPUTE_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
    *description = reinterpret_cast<cublasLtMatmulDesc_t>(new Description);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
    delete reinterpret_cast<Description*>(description);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t name,
                                              const void* value, size_t bytes) {
    auto& transpose = reinterpret_cast<Description*>(description)->transpose_a;
    if (name != CUBLASLT_MATMUL_DESC_TRANSA || bytes != sizeof transpose) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&transpose, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t step) {
    *layout = reinterpret_cast<cublasLtMatrixLayout_t>(
        new Layout{type, static_cast<int64_t>(rows), static_cast<int64_t>(cols), step});
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
    delete reinterpret_cast<Layout*>(layout);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
    *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new char);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
    delete reinterpret_cast<char*>(preference);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, size_t) {
    return CUBLAS_STATUS_SUCCESS;
}
// Knows no algorithm for odd numbers of 16-bit inputs, so that tests see what becomes of such shapes, and else as many
// as are asked for, which are all the same.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int* count) {
    const Layout& weight = layout_of(a);
    *count = weight.type != CUDA_R_32F && weight.step % 2 != 0 ? 0 : wanted;
    for (int i = 0; i < wanted; ++i) results[i] = {};
    return *count == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}

// All attributes that the backend asks for are 0: sums are not cut into parts.
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t*, cublasLtMatmulAlgoConfigAttributes_t,
                                                    void* value, size_t bytes, size_t*) {
    std::memset(value, 0, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t*, void*, size_t,
                              cudaStream_t stream) {
    const bool transposed = reinterpret_cast<const Description*>(description)->transpose_a == CUBLAS_OP_T;
    const Layout la = layout_of(a_layout);
    const Layout lb = layout_of(b_layout);
    const Layout lc = layout_of(c_layout);
    const Layout ld = layout_of(d_layout);
    const int64_t inner = transposed ? la.rows : la.cols;
    const int64_t outputs = transposed ? la.cols : la.rows;
    if (inner != lb.rows || outputs != ld.rows || lb.cols != ld.cols) return CUBLAS_STATUS_INVALID_VALUE;
    const float alpha_value = *static_cast<const float*>(alpha);
    const float beta_value = *static_cast<const float*>(beta);
    cuda_host::submit(stream, [=] {
        const Vectors left(a, la.type, outputs, inner, transposed ? la.step : 1, transposed ? 1 : la.step);
        const Vectors right(b, lb.type, lb.cols, inner, lb.step, 1);
        for (int64_t col = 0; col < ld.cols; ++col) {
            for (int64_t row = 0; row < ld.rows; ++row) {
                double result = dot(left.at(row), right.at(col), inner) * static_cast<double>(alpha_value);
                if (beta_value != 0) {
                    result +=
                        static_cast<double>(beta_value) * static_cast<double>(read(c, lc.type, col * lc.step + row));
                }
                write(d, ld.type, col * ld.step + row, static_cast<float>(result));
            }
        }
    });
    return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
