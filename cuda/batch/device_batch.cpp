#include "batch/device_batch.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "runtime/check.h"

namespace nanolith::cuda {

namespace {

constexpr size_t kAlignment = 16;

int32_t round_up_to_power(size_t count) {
    return static_cast<int32_t>(std::bit_ceil(count));
}

// Hands out the places of the arrays one after the other.
class Layout {
  public:
    template <typename T>
    size_t reserve(size_t count) {
        const size_t at = used_;
        used_ += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
        return at;
    }
    [[nodiscard]] size_t used() const { return used_; }

  private:
    size_t used_ = 0;
};

struct Offsets {
    size_t tokens, positions, key_positions, slots, output_rows, sampling, segments, items, merges, page_table, end;
};

Offsets place(const BatchShape& shape, size_t page_table_length) {
    const auto rows = static_cast<size_t>(shape.rows);
    const auto outputs = static_cast<size_t>(shape.output_rows);
    Layout layout;
    Offsets at{};
    at.tokens = layout.reserve<int32_t>(rows);
    at.positions = layout.reserve<int32_t>(rows);
    at.key_positions = layout.reserve<int32_t>(rows);
    at.slots = layout.reserve<int32_t>(rows);
    at.output_rows = layout.reserve<int32_t>(outputs);
    at.sampling = layout.reserve<SampleParams>(outputs);
    at.segments = layout.reserve<Segment>(static_cast<size_t>(shape.segments));
    at.items = layout.reserve<AttentionItem>(static_cast<size_t>(shape.items));
    at.merges = layout.reserve<MergeItem>(static_cast<size_t>(shape.merges));
    at.page_table = layout.reserve<int32_t>(page_table_length);
    at.end = layout.used();
    return at;
}

// Copies `from` and fills up to `count` elements with T().
template <typename T>
void put(std::byte* to, const std::vector<T>& from, size_t count) {
    if (!from.empty()) std::memcpy(to, from.data(), from.size() * sizeof(T));
    const T nothing{};
    for (size_t i = from.size(); i < count; ++i) std::memcpy(to + i * sizeof(T), &nothing, sizeof(T));
}

}  // namespace

Result<void> DeviceBatch::pack(const Batch& batch, const AttentionPlan& plan, bool* moved) {
    BatchShape shape;
    shape.rows = static_cast<int32_t>(batch.tokens.size());
    shape.output_rows = static_cast<int32_t>(batch.output_rows.size());
    shape.segments = round_up_to_power(batch.segments.size());
    shape.items = round_up_to_power(plan.items.size());
    shape.merges = plan.merges.empty() ? 0 : round_up_to_power(plan.merges.size());
    shape.tile_vectors = plan.tile_vectors;
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
    put(to + at.tokens, batch.tokens, 0);
    put(to + at.positions, batch.positions, 0);
    put(to + at.key_positions, batch.key_positions, 0);
    put(to + at.slots, batch.slots, 0);
    put(to + at.output_rows, batch.output_rows, 0);
    put(to + at.sampling, batch.sampling, 0);
    put(to + at.segments, batch.segments, static_cast<size_t>(shape.segments));
    put(to + at.items, plan.items, static_cast<size_t>(shape.items));
    put(to + at.merges, plan.merges, static_cast<size_t>(shape.merges));
    put(to + at.page_table, batch.page_table, 0);

    const std::byte* const base = device_.data();
    const auto address = [base](size_t offset, auto* type) { return reinterpret_cast<decltype(type)>(base + offset); };
    constexpr const int32_t* kInts = nullptr;
    view_.tokens = address(at.tokens, kInts);
    view_.positions = address(at.positions, kInts);
    view_.key_positions = address(at.key_positions, kInts);
    view_.slots = address(at.slots, kInts);
    view_.output_rows = address(at.output_rows, kInts);
    view_.sampling = address(at.sampling, view_.sampling);
    view_.segments = address(at.segments, view_.segments);
    view_.items = address(at.items, view_.items);
    view_.merges = address(at.merges, view_.merges);
    view_.page_table = address(at.page_table, kInts);
    used_ = at.end;
    shape_ = shape;
    return {};
}

Result<void> DeviceBatch::upload(cudaStream_t stream) const {
    NL_CUDA_TRY(cudaMemcpyAsync(device_.data(), host_.data(), used_, cudaMemcpyHostToDevice, stream));
    return {};
}

}  // namespace nanolith::cuda
