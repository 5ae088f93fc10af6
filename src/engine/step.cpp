#include "engine/step.h"

#include "engine/sampling.h"

namespace nanolith {

void Step::clear() {
    batch_.tokens.clear();
    batch_.positions.clear();
    batch_.key_positions.clear();
    batch_.slots.clear();
    batch_.page_table = {};
    batch_.changed_entries.clear();
    batch_.segments.clear();
    batch_.sequences.clear();
    batch_.output_rows.clear();
    batch_.sampling.clear();
    batch_.kept_logits.clear();
    slices_.clear();
    copies_.clear();
    prefill_rows = 0;
    answers_callers = false;
}

void Step::add(const std::shared_ptr<Request>& request, int32_t num_rows, bool draws, bool keep_logits,
               int32_t page_size) {
    ResidentSequence& sequence = *request->sequence;
    const Context& context = sequence.context;
    const int32_t base = context.tail_base();
    const int32_t first = sequence.planned;
    for (int32_t row = first; row < first + num_rows; ++row) {
        // The row after the known tokens is that of the token which the previous step draws.
        batch_.tokens.push_back(row < context.tail_size() ? context.token_at(base + row)
                                                          : drawn_by(sequence.last_output_row));
        batch_.positions.push_back(base + row);
        batch_.key_positions.push_back(row);
        batch_.slots.push_back(context.tail_pages()[row / page_size] * page_size + row % page_size);
    }
    Slice slice{request, request->sequence, first, num_rows, -1, false};
    add_slice(request, slice, first + num_rows);
    if (draws) add_output(*request, slices_.back(), keep_logits);
    sequence.planned += num_rows;
    if (num_rows > 1) prefill_rows += num_rows;
}

void Step::add_recomputed(const std::shared_ptr<Request>& request, bool keep_logits) {
    const Context& context = request->sequence->context;
    const int32_t position = context.num_tokens() - 1;
    batch_.tokens.push_back(context.token_at(position));
    batch_.positions.push_back(position);
    batch_.key_positions.push_back(0);
    batch_.slots.push_back(kNoSlot);
    add_slice(request, {request, request->sequence, context.tail_size() - 1, 1, -1, true}, context.tail_size());
    add_output(*request, slices_.back(), keep_logits);
}

void Step::add_slice(const std::shared_ptr<Request>& request, Slice slice, int32_t visible) {
    Context& context = request->sequence->context;
    const auto rows_before = num_rows() - slice.num_rows;
    const auto first_segment = static_cast<int32_t>(batch_.segments.size());
    for (const ChunkUse& use : context.chunks())
        batch_.segments.push_back({use.chunk->pages.table_entry(), use.length, use.base});
    if (visible > 0) batch_.segments.push_back({context.tail_pages().table_entry(), visible, context.tail_base()});
    batch_.sequences.push_back(
        {rows_before, slice.num_rows, first_segment, static_cast<int32_t>(batch_.segments.size()) - first_segment});
    slices_.push_back(std::move(slice));
    ++slices_.back().sequence->steps_in_flight;
}

void Step::add_output(const Request& request, Slice& slice, bool keep_logits) {
    ResidentSequence& sequence = *request.sequence;
    slice.output_index = num_outputs();
    batch_.output_rows.push_back(num_rows() - 1);
    batch_.sampling.push_back(sample_params(sequence.sampling, batch_.positions.back() + 1));
    if (keep_logits) batch_.kept_logits.push_back(slice.output_index);
    sequence.last_output_row = slice.output_index;
    ++sequence.draws_in_flight;
    if (request.draw == Draw::append || request.is_ahead()) answers_callers = true;
}

}  // namespace nanolith
