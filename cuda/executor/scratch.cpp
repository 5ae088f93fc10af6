#include "executor/scratch.h"

#include <algorithm>

#include "linear/matmul.h"

namespace nanolith::cuda {

Result<Scratch> allocate_scratch(const ModelSpec& spec, const HeadShape& heads, const ExecutorOptions& options) {
    const auto rows = static_cast<size_t>(padded_rows(options.max_rows, options.batch_invariant));
    const auto outputs = static_cast<size_t>(padded_rows(options.max_output_rows, options.batch_invariant));
    const auto hidden = static_cast<size_t>(spec.hidden_size);
    const auto inner = static_cast<size_t>(spec.intermediate_size);
    const auto head_dim = static_cast<size_t>(spec.head_dim);
    const size_t element = dtype_bytes(options.dtype);

    Scratch scratch;
    NL_ASSIGN(scratch.residual, allocate_device(rows * hidden * sizeof(float), "the residual stream"));
    NL_ASSIGN(scratch.normed, allocate_device(std::max(rows, outputs) * hidden * element, "normalised rows"));
    NL_ASSIGN(scratch.qkv,
              allocate_device(rows * static_cast<size_t>(heads.qkv_size()) * element, "queries, keys and values"));
    NL_ASSIGN(scratch.attended,
              allocate_device(rows * static_cast<size_t>(spec.num_heads) * head_dim * element, "attention outputs"));
    NL_ASSIGN(scratch.gate_up, allocate_device(rows * 2 * inner * element, "gate and up projections"));
    NL_ASSIGN(scratch.inner, allocate_device(rows * inner * element, "MLP activations"));
    NL_ASSIGN(scratch.added, allocate_device(rows * hidden * sizeof(float), "rows to be added"));
    const size_t logits = outputs * static_cast<size_t>(spec.vocab_size) * sizeof(float);
    NL_ASSIGN(scratch.logits, allocate_device(logits, "logits"));
    NL_ASSIGN(scratch.sampled, allocate_device(outputs * sizeof(int32_t), "drawn tokens"));
    return scratch;
}

}  // namespace nanolith::cuda
