#include "executor/warm_up.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>
#include <vector>

#include "backend/page_size.h"
#include "backend/progress.h"
#include "linear/matmul.h"

namespace nanolith::cuda {

namespace {

// How many tokens a decode row attends to.
constexpr int32_t kDecodeContext = 128;
constexpr int32_t kMostDecodeRows = 64;
// Up to so many rows each number of rows that products are made with (product_rows) is tried, since cuBLASLt chooses an
// algorithm for each and loads its kernel when it first runs, which takes up to 27 ms; beyond it powers of two.
constexpr int32_t kMostProductRows = 1024;

// Slices of a prefill that continue a long history: attention is planned differently there than at the beginning of a
// context, and its kernels are loaded when they first run.
constexpr int32_t kLongContext = 2048;
constexpr int32_t kMostSliceRows = 512;

// A step, with the page table that it names: page 0 again and again.
struct SyntheticStep {
    Batch batch;
    std::vector<int32_t> page_table;
};

// `rows` rows: sequences of `sequence_rows` rows (the last one may have fewer), each at the end of `context` tokens,
// and a draw after each of the first `outputs` rows.
SyntheticStep make_step(int32_t rows, int32_t sequence_rows, int32_t context, int32_t outputs, int32_t page_size) {
    SyntheticStep step;
    Batch& batch = step.batch;
    for (int32_t first = 0; first < rows; first += sequence_rows) {
        const int32_t count = std::min(sequence_rows, rows - first);
        const auto entry = static_cast<int32_t>(step.page_table.size());
        step.page_table.resize(step.page_table.size() + static_cast<size_t>(pages_for(context, page_size)));
        for (int32_t i = 0; i < count; ++i) {
            batch.tokens.push_back(0);
            batch.positions.push_back(context - count + i);
            batch.key_positions.push_back(context - count + i);
            batch.slots.push_back(kNoSlot);
        }
        batch.sequences.push_back({first, count, static_cast<int32_t>(batch.segments.size()), 1});
        batch.segments.push_back({entry, context, 0});
    }
    batch.output_rows.resize(static_cast<size_t>(outputs));
    std::iota(batch.output_rows.begin(), batch.output_rows.end(), 0);
    batch.sampling.resize(static_cast<size_t>(outputs));
    batch.page_table = step.page_table;
    batch.changed_entries = {{0, static_cast<int32_t>(step.page_table.size())}};
    return step;
}

// How many layers from the first on have one of each kind: window, rotation, and whether there are experts.
int32_t layers_of_each_kind(const ModelSpec& spec, const ModelWeights& weights) {
    std::set<std::tuple<int32_t, int32_t, bool>> kinds;
    int32_t needed = 0;
    for (int32_t layer = 0; layer < spec.num_layers; ++layer) {
        const LayerSpec& is = spec.layers[layer];
        if (kinds.emplace(is.window, is.rope, weights.layers[layer].router.present()).second) needed = layer + 1;
    }
    return needed;
}

}  // namespace

Result<void> warm_up(const RunStep& run, const ModelSpec& spec, const ModelWeights& weights,
                     const ExecutorOptions& options, const Progress& progress) {
    std::vector<int32_t> decodes;
    for (int32_t rows = 1; rows <= std::min({kMostDecodeRows, options.max_rows, options.max_output_rows}); rows *= 2)
        decodes.push_back(rows);
    std::vector<int32_t> prefills;
    for (int32_t rows = product_rows(1); rows < options.max_rows;
         rows = rows < kMostProductRows ? product_rows(rows + 1) : 2 * rows)
        prefills.push_back(rows);
    prefills.push_back(options.max_rows);

    std::vector<int32_t> slices;
    for (int32_t rows = 1; rows <= std::min({kMostSliceRows, options.max_rows, spec.max_context}); rows *= 4)
        slices.push_back(rows);

    const int32_t few_layers = layers_of_each_kind(spec, weights);
    PartProgress part(progress, 0, 1, prefills.size() + slices.size() + decodes.size());
    for (const int32_t rows : prefills) {
        const int32_t context = std::min(rows, spec.max_context);
        const int32_t outputs = std::min(rows, options.max_output_rows);
        NL_TRY(run(make_step(rows, context, context, outputs, options.page_size).batch, few_layers));
        NL_TRY(part.add(1));
    }
    for (const int32_t rows : slices) {
        const int32_t context = std::min(kLongContext, spec.max_context);
        NL_TRY(run(make_step(rows, rows, context, 1, options.page_size).batch, few_layers));
        NL_TRY(part.add(1));
    }
    const int32_t context = std::min(kDecodeContext, spec.max_context);
    for (const int32_t rows : decodes) {
        const SyntheticStep step = make_step(rows, 1, context, rows, options.page_size);
        NL_TRY(run(step.batch, spec.num_layers));  // without a graph
        NL_TRY(run(step.batch, spec.num_layers));  // records one
        NL_TRY(part.add(1));
    }
    return {};
}

}  // namespace nanolith::cuda
