// Tokens are drawn by one block for each row; sampler.cuh says in how many passes. Bytes: 4 * vocab_size a pass; bound
// by instructions with many rows, and by what one multiprocessor reads with few. Edits are written into the row of
// logits, and taken back at the end.
#include "sample/sample.h"

#include "device/dependent.cuh"
#include "runtime/launch.h"
#include "sample/sampler.cuh"

namespace nanolith::cuda {

namespace {

// What an edit makes of a logit.
__device__ inline float edited(float logit, const LogitEdit& edit) {
    if (isnan(logit)) return logit;
    if (edit.add == -INFINITY) return -INFINITY;  // plus infinity is banned too
    const float biased = logit + edit.add;
    return (biased > 0 ? biased / edit.divide : biased * edit.divide) - edit.subtract;
}

// Edits the row. What the logits were is left in the edits, in place of what was to be added.
template <int Threads>
__device__ void edit_row(float* logits, LogitEdit* edits, int count) {
    for (int i = static_cast<int>(threadIdx.x); i < count; i += Threads) {
        float& logit = logits[edits[i].token];
        const float before = logit;
        logit = edited(before, edits[i]);
        edits[i].add = before;
    }
    __syncthreads();
}

template <int Threads>
__device__ void restore_row(float* logits, const LogitEdit* edits, int count) {
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < count; i += Threads) logits[edits[i].token] = edits[i].add;
    __syncthreads();
}

template <int N, int Threads>
__global__ void __launch_bounds__(Threads, kMostThreads / Threads)
    sample_kernel(float* all_logits, const SampleParams* parameters, int vocab_size, int32_t* tokens,
                  const DrawTables* tables) {
    __shared__ Shared shared;
    wait_for_launches_before();
    const int row = static_cast<int>(blockIdx.x);
    float* const logits = all_logits + static_cast<int64_t>(row) * vocab_size;
    const SampleParams& mine = parameters[row];
    LogitEdit* const edits = tables->edits + mine.first_edit;
    if (mine.num_edits > 0) edit_row<Threads>(logits, edits, mine.num_edits);
    const auto words = static_cast<int64_t>((vocab_size + 31) / 32);
    const uint32_t* const mask = mine.mask < 0 ? nullptr : tables->masks + mine.mask * words;
    const DrawnToken drawn = Sampler<N, Threads>(logits, vocab_size, mask, shared).sample(mine);
    if (mine.num_edits > 0) restore_row<Threads>(logits, edits, mine.num_edits);
    if (threadIdx.x == 0) {
        tokens[row] = max(drawn.token, 0);  // a step that is in flight already may take it
        tables->sampled[row] = drawn.token;
        if (!isinf(mine.most_surprise)) tables->surprises[row] = drawn.surprise;
    }
    if (tables->queries == nullptr || tables->queries[row].first < 0) return;
    __syncthreads();
    const RowQuery query = tables->queries[row];
    Sampler<N, Threads>(logits, vocab_size, nullptr, shared)
        .find_logprobs(query.token < 0 ? max(drawn.token, 0) : query.token, query.top, tables->logprobs + query.first);
}

template <int Threads>
Result<void> launch_sample(float* logits, const SampleParams* parameters, int rows, int vocab_size, int32_t* tokens,
                           const DrawTables* tables, bool early, cudaStream_t stream) {
    const LaunchShape shape{dim3(static_cast<unsigned>(rows)), dim3(Threads), 0, early};
    const auto kernel = vocab_size % 4 == 0 ? sample_kernel<4, Threads> : sample_kernel<1, Threads>;
    return launch(kernel, shape, stream, logits, parameters, vocab_size, tokens, tables);
}

}  // namespace

Result<void> sample(float* logits, const SampleParams* parameters, int rows, int vocab_size, int32_t* tokens,
                    const DrawTables* tables, bool early, cudaStream_t stream) {
    // With few rows a block has a multiprocessor for itself; with more, two share one.
    constexpr int kFewRows = 128;
    if (rows <= kFewRows) {
        return launch_sample<kMostThreads>(logits, parameters, rows, vocab_size, tokens, tables, early, stream);
    }
    return launch_sample<kMostThreads / 2>(logits, parameters, rows, vocab_size, tokens, tables, early, stream);
}

}  // namespace nanolith::cuda
