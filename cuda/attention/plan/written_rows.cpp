#include "attention/plan/written_rows.h"

#include <algorithm>

#include "backend/kernels.h"

namespace nanolith::cuda {

void WrittenPages::find(const WrittenRows& written, int32_t page_size) {
    known_ = !written.slots.empty();
    pages_.clear();
    for (const int32_t slot : written.slots) {
        if (slot == kNoSlot) continue;
        const int32_t page = slot / page_size;
        if (pages_.empty() || pages_.back() != page) pages_.push_back(page);
    }
    std::ranges::sort(pages_);
    pages_.erase(std::unique(pages_.begin(), pages_.end()), pages_.end());
}

bool WrittenPages::contains(int32_t page) const {
    return !known_ || std::ranges::binary_search(pages_, page);
}

}  // namespace nanolith::cuda
