#include "batch/device_batch.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "runtime/check.h"

namespace nanolith::cuda {

namespace {

// The least size of the block: enough for decode steps of all sizes that are recorded as graphs.
constexpr size_t kLeastBytes = size_t{256} << 10;

struct Offsets {
    size_t head = 0;
    size_t key_positions = 0;
    size_t slots = 0;
    size_t output_rows = 0;
    size_t sampling = 0;
    std::vector<WorkArrays> work;
    // Not in BatchShape: kernels find them through the head, or no graph has them.
    size_t edits = 0;
    size_t queries = 0;
    size_t state_rows = 0;
    size_t copied = 0;  // all of the above is copied to the device; what follows is read only by the first kernel
    size_t tokens = 0;
    size_t changes = 0;
    size_t end = 0;
};

Offsets place(const BatchShape& shape, const Batch& batch, size_t num_changes) {
    const auto rows = static_cast<size_t>(shape.rows);
    const auto outputs = static_cast<size_t>(shape.output_rows);
    Layout layout;
    Offsets at;
    at.head = layout.reserve<StepHead>(1);
    at.key_positions = layout.reserve<int32_t>(rows);
    at.slots = layout.reserve<int32_t>(rows);
    at.output_rows = layout.reserve<int32_t>(outputs);
    at.sampling = layout.reserve<SampleParams>(shape.draws_late ? 0 : outputs);
    for (const WorkCounts& counts : shape.work) at.work.emplace_back(layout, counts);
    at.edits = layout.reserve<LogitEdit>(shape.draws_late ? 0 : batch.edits.size());
    at.queries = layout.reserve<RowQuery>(batch.logprobs.empty() ? 0 : outputs);
    at.state_rows = layout.reserve<int32_t>(batch.state_rows.size());
    at.copied = layout.used();
    at.tokens = layout.reserve<int32_t>(rows);
    at.changes = layout.reserve<PageChange>(num_changes);
    at.end = layout.used();
    return at;
}

template <typename T>
void put_all(std::byte* to, const std::vector<T>& from) {
    put(to, std::span<const T>(from), 0);
}

std::vector<RowQuery> queries_of(const Batch& batch) {
    std::vector<RowQuery> queries(batch.output_rows.size());
    int32_t first = 0;
    for (const LogprobQuery& query : batch.logprobs) {
        queries[static_cast<size_t>(query.output_row)] = {query.token, query.top, first};
        first += 1 + query.top;
    }
    return queries;
}

}  // namespace

Result<void> DeviceBatch::lay_out(const Batch& batch, std::span<const AttentionPlan* const> plans,
                                  std::span<const PageChange> changes, DrawTables draw, PinnedBuffer& host,
                                  cudaStream_t stream, bool* moved) {
    shape_.rows = static_cast<int32_t>(batch.tokens.size());
    shape_.output_rows = static_cast<int32_t>(batch.output_rows.size());
    shape_.has_results = has_results(batch);
    shape_.work.clear();
    for (const AttentionPlan* plan : plans) shape_.work.push_back(count_work(*plan));
    shape_.draws_late = batch.draws_late || !batch.masks.empty();
    const Offsets at = place(shape_, batch, changes.size());

    *moved = at.copied > device_.bytes();
    if (*moved) {
        const size_t bytes = std::bit_ceil(std::max(at.copied, kLeastBytes));
        NL_ASSIGN(DeviceBuffer device, allocate_device(bytes, "the batch"));
        NL_CUDA_TRY(cudaStreamSynchronize(stream));  // steps in flight read the old block
        device_ = std::move(device);
    }
    if (host.bytes() < at.end) {
        NL_ASSIGN(host, allocate_pinned(std::bit_ceil(std::max(at.end, kLeastBytes)), "the batch"));
    }

    std::byte* const to = host.data();
    draw.edits = reinterpret_cast<LogitEdit*>(device_.data() + at.edits);
    if (!batch.logprobs.empty()) draw.queries = reinterpret_cast<const RowQuery*>(device_.data() + at.queries);
    draw_tables_ = draw;
    const StepHead head{draw, static_cast<int32_t>(changes.size())};
    put(to + at.head, std::span(&head, 1), 0);
    put_all(to + at.tokens, batch.tokens);
    put_all(to + at.key_positions, batch.key_positions);
    put_all(to + at.slots, batch.slots);
    put_all(to + at.output_rows, batch.output_rows);
    if (!shape_.draws_late) put_all(to + at.sampling, batch.sampling);
    for (size_t i = 0; i < plans.size(); ++i) at.work[i].put(to, *plans[i]);
    if (!shape_.draws_late) put_all(to + at.edits, batch.edits);
    if (!batch.logprobs.empty()) put_all(to + at.queries, queries_of(batch));
    put_all(to + at.state_rows, batch.state_rows);
    put(to + at.changes, changes, 0);

    host_.head = reinterpret_cast<const StepHead*>(to + at.head);
    host_.tokens = reinterpret_cast<const int32_t*>(to + at.tokens);
    host_.changes = reinterpret_cast<const PageChange*>(to + at.changes);
    host_.from = to;
    host_.to = device_.data();
    host_.bytes = at.copied;

    const std::byte* const base = device_.data();
    const auto ints = [base](size_t offset) { return reinterpret_cast<const int32_t*>(base + offset); };
    view_.head = reinterpret_cast<const StepHead*>(base + at.head);
    view_.key_positions = ints(at.key_positions);
    view_.slots = ints(at.slots);
    view_.output_rows = ints(at.output_rows);
    view_.state_rows = ints(at.state_rows);
    view_.sampling = reinterpret_cast<const SampleParams*>(base + at.sampling);
    view_.work.clear();
    view_.short_work.clear();
    for (const WorkArrays& arrays : at.work) {
        view_.work.push_back(arrays.view(base));
        view_.short_work.push_back(arrays.short_view(base));
    }
    return {};
}

}  // namespace nanolith::cuda
