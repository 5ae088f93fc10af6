#include "engine/batch_builder.h"

#include <algorithm>

namespace nanolith {

void BatchBuilder::clear() {
    batch_.tokens.clear();
    batch_.positions.clear();
    batch_.key_positions.clear();
    batch_.slots.clear();
    page_table_.clear();
    batch_.segments.clear();
    batch_.sequences.clear();
    batch_.output_rows.clear();
    batch_.sampling.clear();
    batch_.kept_logits.clear();
    slices_.clear();
    placed_.clear();
}

bool BatchBuilder::add(Job& job) {
    const auto rows_before = static_cast<int32_t>(batch_.tokens.size());
    const int32_t take = std::min(job.rows_left(), max_rows_ - rows_before);
    const bool keeps_logits = take == job.rows_left() && !job.logits.empty();
    if (take <= 0 || (keeps_logits && batch_.kept_logits.size() == kMaxKeptLogits)) return false;

    Sequence sequence{rows_before, take, static_cast<int32_t>(batch_.segments.size()), 0};
    for (const History& history : job.history)
        batch_.segments.push_back({place_pages(history), history.length, history.base});
    const int32_t visible = job.own.length + (job.recompute_last ? 0 : job.rows_done + take);
    batch_.segments.push_back({place_pages(job.own), visible, job.own.base});
    sequence.num_segments = static_cast<int32_t>(batch_.segments.size()) - sequence.first_segment;
    batch_.sequences.push_back(sequence);

    for (int32_t i = 0; i < take; ++i) add_row(job, job.rows_done + i);
    Slice slice{&job, take, -1};
    if (take == job.rows_left() && (job.wants_token || !job.logits.empty())) {
        slice.output_index = static_cast<int32_t>(batch_.output_rows.size());
        batch_.output_rows.push_back(rows_before + take - 1);
        batch_.sampling.push_back(job.sampling);
        if (keeps_logits) batch_.kept_logits.push_back(slice.output_index);
    }
    batch_.page_table = page_table_;
    batch_.changed_entries = {{0, static_cast<int32_t>(page_table_.size())}};
    slices_.push_back(slice);
    return true;
}

void BatchBuilder::add_row(const Job& job, int32_t row) {
    const int32_t in_segment = job.recompute_last ? job.own.length - 1 : job.own.length + row;
    batch_.tokens.push_back(job.tokens[static_cast<size_t>(row)]);
    batch_.positions.push_back(job.own.base + in_segment);
    batch_.key_positions.push_back(in_segment);
    const int32_t page = job.own.pages[static_cast<size_t>(in_segment / page_size_)];
    batch_.slots.push_back(job.recompute_last ? kNoSlot : page * page_size_ + in_segment % page_size_);
}

int32_t BatchBuilder::place_pages(const History& history) {
    const auto end = static_cast<int32_t>(page_table_.size());
    if (history.key != nullptr) {
        // A truncated use of a chunk still lists all its pages, so that equal keys mean equal page lists.
        const auto [it, is_new] = placed_.try_emplace(history.key, end);
        if (!is_new) return it->second;
    }
    page_table_.insert(page_table_.end(), history.pages.begin(), history.pages.end());
    return end;
}

}  // namespace nanolith
