#include "batch/device_batch.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "runtime/check.h"

namespace nanolith::cuda {

namespace {

struct Offsets {
    size_t tokens = 0;
    size_t key_positions = 0;
    size_t slots = 0;
    size_t output_rows = 0;
    size_t sampling = 0;
    std::vector<WorkArrays> work;
    size_t page_table = 0;
    size_t end = 0;
};

Offsets place(const BatchShape& shape, size_t page_table_length) {
    const auto rows = static_cast<size_t>(shape.rows);
    const auto outputs = static_cast<size_t>(shape.output_rows);
    Layout layout;
    Offsets at;
    at.tokens = layout.reserve<int32_t>(rows);
    at.key_positions = layout.reserve<int32_t>(rows);
    at.slots = layout.reserve<int32_t>(rows);
    at.output_rows = layout.reserve<int32_t>(outputs);
    at.sampling = layout.reserve<SampleParams>(outputs);
    for (const WorkCounts& counts : shape.work) at.work.emplace_back(layout, counts);
    at.page_table = layout.reserve<int32_t>(page_table_length);
    at.end = layout.used();
    return at;
}

template <typename T>
void put_all(std::byte* to, const std::vector<T>& from) {
    put(to, std::span<const T>(from), 0);
}

}  // namespace

Result<void> DeviceBatch::pack(const Batch& batch, std::span<const AttentionPlan* const> plans, bool* moved) {
    BatchShape shape;
    shape.rows = static_cast<int32_t>(batch.tokens.size());
    shape.output_rows = static_cast<int32_t>(batch.output_rows.size());
    for (const AttentionPlan* plan : plans) shape.work.push_back(count_work(*plan));
    const Offsets at = place(shape, batch.page_table.size());

    *moved = at.end > device_.bytes();
    if (*moved) {
        const size_t bytes = std::bit_ceil(std::max<size_t>(at.end, 64 * 1024));
        NL_ASSIGN(PinnedBuffer host, allocate_pinned(bytes, "the batch"));
        NL_ASSIGN(DeviceBuffer device, allocate_device(bytes, "the batch"));
        host_ = std::move(host);
        device_ = std::move(device);
    }

    std::byte* const to = host_.data();
    put_all(to + at.tokens, batch.tokens);
    put_all(to + at.key_positions, batch.key_positions);
    put_all(to + at.slots, batch.slots);
    put_all(to + at.output_rows, batch.output_rows);
    put_all(to + at.sampling, batch.sampling);
    for (size_t i = 0; i < plans.size(); ++i) at.work[i].put(to, *plans[i]);
    put_all(to + at.page_table, batch.page_table);

    const std::byte* const base = device_.data();
    const auto ints = [base](size_t offset) { return reinterpret_cast<const int32_t*>(base + offset); };
    view_.tokens = ints(at.tokens);
    view_.key_positions = ints(at.key_positions);
    view_.slots = ints(at.slots);
    view_.output_rows = ints(at.output_rows);
    view_.sampling = reinterpret_cast<const SampleParams*>(base + at.sampling);
    view_.work.clear();
    for (const WorkArrays& arrays : at.work) {
        view_.work.push_back(arrays.view(base));
        view_.work.back().page_table = ints(at.page_table);
    }
    used_ = at.end;
    shape_ = std::move(shape);
    return {};
}

Result<void> DeviceBatch::upload(cudaStream_t stream) const {
    NL_CUDA_TRY(cudaMemcpyAsync(device_.data(), host_.data(), used_, cudaMemcpyHostToDevice, stream));
    return {};
}

}  // namespace nanolith::cuda
