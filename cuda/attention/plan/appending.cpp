#include "attention/plan/appending.h"

#include <algorithm>
#include <array>

namespace nanolith::cuda {

namespace {

// The narrow kernel writes keys and values in steps of at most so many rows. The warps that copy tiles to shared memory
// do this too, so that copies wait meanwhile: from 12 rows on that cost as much as a launch of its own saved.
constexpr size_t kMostRows = 8;

class Check {
  public:
    Check(const PlanShape& shape, const AttentionStep& step, const WrittenRows& written, const AttentionPlan& plan)
        : shape_(shape), step_(step), written_(written), plan_(plan) {}

    bool passes() {
        const size_t rows = step_.positions.size();
        if (!shape_.appends || rows == 0 || rows > kMostRows || !plan_.wide.empty() || plan_.narrow.empty() ||
            written_.slots.size() != rows || written_.key_positions.size() != rows ||
            shape_.heads_per_kv() > kNarrowVectors) {
            return false;
        }
        for (size_t row = 0; row < rows; ++row) {
            if (written_.slots[row] == kNoSlot) return false;
            for (size_t other = 0; other < row; ++other) {
                if (page_of(row) == page_of(other)) return false;
            }
        }
        if (!std::ranges::all_of(plan_.narrow, [&](const NarrowItem& item) { return accepts(item.item); }))
            return false;
        return std::all_of(times_.begin(), times_.begin() + static_cast<ptrdiff_t>(rows),
                           [](int32_t times) { return times == 1; });
    }

  private:
    [[nodiscard]] int32_t page_of(size_t row) const { return written_.slots[row] / shape_.page_size; }

    // Counts the item's own tokens. False where it meets a token that is written and not its own.
    bool accepts(const AttentionItem& item) {
        if (item.num_vectors == 0) return true;
        const bool one_row = item.first_vector + item.num_vectors <= shape_.heads_per_kv();
        const QueryRow& row = plan_.queries[item.first_query];
        for (int32_t s = 0; s < item.num_spans; ++s) {
            const Span& span = plan_.spans[item.first_span + s];
            const int32_t own = row.position - span.base;
            // The kernel takes this for the first row's own token.
            const bool has_own = own >= span.first_token && own < span.end_token;
            if (has_own) {
                if (!one_row || own + 1 != span.end_token || own != written_.key_positions[row.row]) return false;
                if (slot_of(span, own) != written_.slots[row.row]) return false;
                ++times_[row.row];
            }
            if (!meets_no_other(span, has_own ? row.row : -1)) return false;
        }
        return true;
    }

    [[nodiscard]] int32_t slot_of(const Span& span, int32_t token) const {
        const int32_t page = step_.page_table[span.first_page + token / shape_.page_size];
        return page * shape_.page_size + token % shape_.page_size;
    }

    // Whether no row but `row` writes one of the span's tokens.
    [[nodiscard]] bool meets_no_other(const Span& span, int32_t row) const {
        const int32_t last = (span.end_token - 1) / shape_.page_size;
        for (int32_t i = span.first_token / shape_.page_size; i <= last; ++i) {
            const int32_t page = step_.page_table[span.first_page + i];
            for (size_t writer = 0; writer < written_.slots.size(); ++writer) {
                if (page != page_of(writer) || static_cast<int32_t>(writer) == row) continue;
                const int32_t token = i * shape_.page_size + written_.slots[writer] % shape_.page_size;
                if (token >= span.first_token && token < span.end_token) return false;
            }
        }
        return true;
    }

    const PlanShape& shape_;
    const AttentionStep& step_;
    const WrittenRows& written_;
    const AttentionPlan& plan_;
    std::array<int32_t, kMostRows> times_{};  // that an item has the row's own token
};

}  // namespace

bool items_append(const PlanShape& shape, const AttentionStep& step, const WrittenRows& written,
                  const AttentionPlan& plan) {
    return Check(shape, step, written, plan).passes();
}

}  // namespace nanolith::cuda
