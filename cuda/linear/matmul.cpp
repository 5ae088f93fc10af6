#include "linear/matmul.h"

#include "runtime/check.h"

namespace nanolith::cuda {

namespace {

// What cuBLAS's own documentation recommends for Hopper.
constexpr size_t kWorkspaceBytes = size_t{32} << 20;
// Prefills come in any number of rows; beyond this many shapes the memory of them starts over.
constexpr size_t kMaxProblems = 1024;

cudaDataType_t data_type(DType dtype) {
    switch (dtype) {
        case DType::f16:
            return CUDA_R_16F;
        case DType::bf16:
            return CUDA_R_16BF;
        case DType::f32:
        case DType::f8_e4m3:  // of files and pages
            break;
    }
    return CUDA_R_32F;
}

struct DestroyDescription {
    void operator()(cublasLtMatmulDesc_t description) const noexcept { cublasLtMatmulDescDestroy(description); }
};
struct DestroyLayout {
    void operator()(cublasLtMatrixLayout_t layout) const noexcept { cublasLtMatrixLayoutDestroy(layout); }
};
struct DestroyPreference {
    void operator()(cublasLtMatmulPreference_t preference) const noexcept {
        cublasLtMatmulPreferenceDestroy(preference);
    }
};
using Description = std::unique_ptr<std::remove_pointer_t<cublasLtMatmulDesc_t>, DestroyDescription>;
using MatrixLayout = std::unique_ptr<std::remove_pointer_t<cublasLtMatrixLayout_t>, DestroyLayout>;
using Preference = std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>, DestroyPreference>;

// cuBLASLt counts in columns: a row-major [rows, cols] matrix whose rows are `stride` elements apart is a column-major
// [cols, rows] one.
Result<MatrixLayout> create_layout(DType dtype, int32_t rows, int32_t cols, int32_t stride) {
    cublasLtMatrixLayout_t layout = nullptr;
    NL_CUBLAS_TRY(cublasLtMatrixLayoutCreate(&layout, data_type(dtype), static_cast<uint64_t>(cols),
                                             static_cast<uint64_t>(rows), stride));
    return MatrixLayout(layout);
}

Result<Description> create_description() {
    cublasLtMatmulDesc_t created = nullptr;
    NL_CUBLAS_TRY(cublasLtMatmulDescCreate(&created, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    Description description(created);
    // y^T = W x^T, of which W lies transposed in memory and x^T and y^T do not.
    const cublasOperation_t transposed = CUBLAS_OP_T;
    NL_CUBLAS_TRY(cublasLtMatmulDescSetAttribute(created, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed));
    return description;
}

// Of a y that is a part of a matrix, which need not begin where allocations do.
constexpr uint32_t kPartAlignment = 16;

Result<Preference> create_preference(bool y_is_part) {
    cublasLtMatmulPreference_t created = nullptr;
    NL_CUBLAS_TRY(cublasLtMatmulPreferenceCreate(&created));
    Preference preference(created);
    const size_t bytes = kWorkspaceBytes;
    NL_CUBLAS_TRY(
        cublasLtMatmulPreferenceSetAttribute(created, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes));
    // Parts of a product that was split add up in float32, not in the output's dtype.
    const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    NL_CUBLAS_TRY(cublasLtMatmulPreferenceSetAttribute(created, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions,
                                                       sizeof reductions));
    if (!y_is_part) return preference;
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
        NL_CUBLAS_TRY(cublasLtMatmulPreferenceSetAttribute(created, attribute, &kPartAlignment, sizeof kPartAlignment));
    }
    return preference;
}

}  // namespace

// A shape as cuBLASLt describes it.
struct Matmul::Problem {
    Description description;
    MatrixLayout weight;
    MatrixLayout x;
    MatrixLayout y;
    float beta = 0;      // 1: y += x W^T
    bool known = false;  // whether there is an algorithm
    cublasLtMatmulAlgo_t algorithm{};
};

size_t Matmul::Hash::operator()(const MatmulShape& shape) const {
    size_t hash = 0;
    for (const int32_t part : {shape.rows, shape.size, shape.outputs, shape.stride, static_cast<int32_t>(shape.input),
                               static_cast<int32_t>(shape.output), static_cast<int32_t>(shape.add)}) {
        hash = hash * 1000003 + static_cast<size_t>(part);
    }
    return hash;
}

Result<std::unique_ptr<Matmul>> Matmul::create() {
    std::unique_ptr<Matmul> matmul(new Matmul);
    NL_CUBLAS_TRY(cublasLtCreate(&matmul->handle_));
    NL_ASSIGN(matmul->workspace_, allocate_device(kWorkspaceBytes, "the workspace of matrix products"));
    return matmul;
}

Matmul::~Matmul() {
    if (handle_ != nullptr) cublasLtDestroy(handle_);
}

Result<const Matmul::Problem*> Matmul::find_problem(const MatmulShape& shape) {
    const auto found = problems_.find(shape);
    if (found != problems_.end()) return found->second.get();

    auto problem = std::make_unique<Problem>();
    problem->beta = shape.add ? 1.0F : 0.0F;
    NL_ASSIGN(problem->description, create_description());
    NL_ASSIGN(problem->weight, create_layout(shape.input, shape.outputs, shape.size, shape.size));
    NL_ASSIGN(problem->x, create_layout(shape.input, shape.rows, shape.size, shape.size));
    NL_ASSIGN(problem->y, create_layout(shape.output, shape.rows, shape.outputs, shape.stride));
    NL_ASSIGN(const Preference preference, create_preference(shape.stride != shape.outputs));

    cublasLtMatmulHeuristicResult_t first{};
    int count = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle_, problem->description.get(), problem->weight.get(), problem->x.get(),
                                       problem->y.get(), problem->y.get(), preference.get(), 1, &first, &count);
    if (status != CUBLAS_STATUS_SUCCESS && status != CUBLAS_STATUS_NOT_SUPPORTED) {
        return cublas_error(status, "cublasLtMatmulAlgoGetHeuristic");
    }
    problem->known = status == CUBLAS_STATUS_SUCCESS && count > 0 && first.state == CUBLAS_STATUS_SUCCESS;
    problem->algorithm = first.algo;
    if (problems_.size() >= kMaxProblems) problems_.clear();
    const Problem* const kept = problem.get();
    problems_.emplace(shape, std::move(problem));
    return kept;
}

Result<bool> Matmul::multiply(const MatmulShape& shape, const void* x, const void* weight, void* y,
                              cudaStream_t stream) {
    NL_ASSIGN(const Problem* const problem, find_problem(shape));
    if (!problem->known) return false;
    const float one = 1;
    NL_CUBLAS_TRY(cublasLtMatmul(handle_, problem->description.get(), &one, weight, problem->weight.get(), x,
                                 problem->x.get(), &problem->beta, y, problem->y.get(), y, problem->y.get(),
                                 &problem->algorithm, workspace_.data(), kWorkspaceBytes, stream));
    return true;
}

}  // namespace nanolith::cuda
