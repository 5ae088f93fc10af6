#include "batch/page_table.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "runtime/check.h"

namespace nanolith::cuda {

namespace {

constexpr size_t kLeastEntries = 16 * 1024;

}  // namespace

Result<std::span<const PageChange>> PageTable::changes_of(const Batch& batch, cudaStream_t stream, bool* moved) {
    const size_t size = batch.page_table.size();
    *moved = size * sizeof(int32_t) > entries_.bytes() || entries_.bytes() == 0;
    if (*moved) {
        const size_t bytes = std::bit_ceil(std::max(size, kLeastEntries)) * sizeof(int32_t);
        NL_ASSIGN(DeviceBuffer entries, allocate_device(bytes, "the page table"));
        NL_CUDA_TRY(cudaStreamSynchronize(stream));  // steps in flight read the old one
        entries_ = std::move(entries);
    }
    const bool known = std::exchange(known_, false) && !*moved;
    changes_.clear();
    const auto add = [&](const TableRange& range) {
        for (int32_t entry = range.first; entry < range.first + range.count; ++entry)
            changes_.push_back({entry, batch.page_table[entry]});
    };
    if (known) {
        for (const TableRange& range : batch.changed_entries) add(range);
    } else {
        add({0, static_cast<int32_t>(size)});
    }
    return std::span<const PageChange>(changes_);
}

}  // namespace nanolith::cuda
