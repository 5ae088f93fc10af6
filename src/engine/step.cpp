#include "engine/step.h"

#include <algorithm>

#include "backend/probe.h"
#include "engine/generation.h"
#include "engine/state_pool.h"

namespace nanolith {

bool scores_before(const Request& request) {
    const ResidentSequence& sequence = *request.sequence;
    return !request.scores.empty() && sequence.planned == request.scored_from &&
           sequence.context.tail_base() + sequence.planned > 0 && !request.row_before_planned;
}

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
    batch_.edits.clear();
    batch_.masks.clear();
    batch_.draws_late = false;
    batch_.kept_logits.clear();
    masked_.clear();
    changed_.clear();
    batch_.logprobs.clear();
    batch_.state_rows.clear();
    slices_.clear();
    added_last.reset();
    batch_.probes.clear();
    token_weights.clear();
    num_token_weights_ = 0;
    copies_.clear();
    prefill_rows = 0;
    answers_callers = false;
    surprises.clear();
    wants_surprises = false;
    logprobs.clear();
    num_logprobs = 0;
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
    Slice slice{request, request->sequence, first, num_rows};
    add_slice(request, slice, first + num_rows);
    if (!request->scores.empty()) add_scores(*request, slices_.back());
    if (request->states != nullptr) add_states(*request, slices_.back());
    if (draws) add_output(*request, slices_.back(), keep_logits);
    sequence.planned += num_rows;
    if (num_rows > 1) prefill_rows += num_rows;
}

void Step::add_recomputed(const std::shared_ptr<Request>& request, bool keep_logits) {
    const Context& context = request->sequence->context;
    const int32_t position = context.num_tokens() - 1;
    add_row(context, position, 0, kNoSlot);
    Slice slice{request, request->sequence, context.tail_size() - 1, 1};
    slice.rows = Rows::drawn_again;
    add_slice(request, std::move(slice), context.tail_size());
    if (request->states != nullptr) return add_states(*request, slices_.back());
    add_output(*request, slices_.back(), keep_logits);
}

// The rows are written to places of the tail that are overwritten later. Tokens in front of them that are not computed
// are left out of what they see. Chunks are seen as they were prefilled, so that what a question chooses does not
// depend on what others have asked before.
void Step::add_probe(const std::shared_ptr<Request>& request, int32_t page_size) {
    ResidentSequence& sequence = *request->sequence;
    Context& context = sequence.context;
    const ProbeRows& probe = sequence.blend->probe_rows();
    const int32_t computed = context.tail_computed();
    const bool follows = probe.first_row == computed;  // the rows are in one segment with the computed ones
    const int32_t base = context.tail_base();
    for (int32_t i = 0; i < probe.num_rows; ++i) {
        const int32_t place = probe.place + i;
        add_row(context, base + probe.first_row + i, follows ? place : i,
                context.tail_pages()[place / page_size] * page_size + place % page_size);
    }
    const size_t first_segment = batch_.segments.size();
    for (const ChunkUse& use : context.chunks())
        batch_.segments.push_back({use.chunk->pages.table_entry(), use.length, use.base});
    const int32_t tail = context.tail_pages().table_entry();
    if (follows) {
        batch_.segments.push_back({tail, computed + probe.num_rows, base});
    } else {
        if (computed > 0) batch_.segments.push_back({tail, computed, base});
        batch_.segments.push_back({tail + probe.place / page_size, probe.num_rows, base + probe.first_row});
    }
    batch_.probes.push_back({static_cast<int32_t>(batch_.sequences.size())});
    add_sequence(probe.num_rows, first_segment);
    Slice slice{request, request->sequence, probe.first_row, probe.num_rows};
    slice.rows = Rows::probe;
    slice.first_token_weight = num_token_weights_;
    num_token_weights_ += tokens_of(batch_, batch_.sequences.back());
    keep_slice(std::move(slice));
    sequence.blend->probe_in_flight = true;
    prefill_rows += probe.num_rows;
}

// Each run of rows sees all that is in front of it, tokens that earlier runs recompute in this very step included: a
// layer's keys and values of all rows are written before its attention.
void Step::add_blended(const std::shared_ptr<Request>& request, int32_t num_rows, int32_t page_size) {
    ResidentSequence& sequence = *request->sequence;
    const Context& context = sequence.context;
    for (const ChunkRun& run : sequence.blend->take_rows(num_rows)) {
        const ChunkUse& use = context.chunks()[run.chunk];
        for (int32_t token = run.begin; token < run.end; ++token)
            add_row(context, use.base + token, token, use.pages()[token / page_size] * page_size + token % page_size);
        const size_t first_segment = batch_.segments.size();
        add_chunks(context, run.chunk);
        batch_.segments.push_back({use.pages().table_entry(), run.end, use.base});
        add_sequence(run.end - run.begin, first_segment);
    }
    Slice slice{request, request->sequence, 0, num_rows};
    slice.rows = Rows::blended;
    keep_slice(std::move(slice));
    prefill_rows += num_rows;
}

// Gives the draw a mask for the tokens that the constraint allows. The mask begins as that of the sampling options,
// where they have one.
void Step::add_mask(const Request& request, SampleParams& params) {
    const size_t words = mask_words(vocab_size_);
    if (params.mask < 0) {
        params.mask = static_cast<int32_t>(batch_.masks.size() / words);
        batch_.masks.resize(batch_.masks.size() + words, ~0U);
    }
    masked_.push_back({request.generation, max_context_ - request.sequence->context.num_tokens(), params.mask});
}

void Step::add_draws() {
    batch_.sampling.resize(batch_.output_rows.size());  // the highest logit, where nothing else is said
    for (const Slice& slice : slices_)
        if (slice.output_index >= 0 && !slice.request->finished) add_draw(slice);
}

void Step::add_draw(const Slice& slice) {
    const Request& request = *slice.request;
    const ResidentSequence& sequence = *slice.sequence;
    const bool generates = request.generation != nullptr;
    const auto banned =
        generates ? request.generation->banned(sequence.draws_in_flight - 1) : std::span<const int32_t>();
    const int32_t position = batch_.positions[batch_.output_rows[slice.output_index]] + 1;
    SampleParams& params = batch_.sampling[slice.output_index];
    params = sequence.sampling->add_draw(sequence.context, position, banned, sequence.surprise_bound, batch_);
    if (generates && request.generation->constrained()) add_mask(request, params);
    if (generates && request.generation->changes_logits())
        changed_.push_back({slice.request, slice.output_index, sequence.context.tokens(position)});
}

void Step::drop_draw(ResidentSequence& sequence) {
    for (Slice& slice : slices_) {
        if (slice.sequence.get() != &sequence || slice.output_index < 0) continue;
        slice.output_index = -1;
        --sequence.draws_in_flight;
    }
}

void Step::fill_masks() noexcept {
    const size_t words = mask_words(vocab_size_);
    for (const Masked& one : masked_)
        one.generation->narrow_mask(std::span(batch_.masks).subspan(static_cast<size_t>(one.mask) * words, words),
                                    one.room);
}

void Step::add_row(const Context& context, int32_t position, int32_t key_position, int32_t slot) {
    batch_.tokens.push_back(context.token_at(position));
    batch_.positions.push_back(position);
    batch_.key_positions.push_back(key_position);
    batch_.slots.push_back(slot);
}

// The sequence's rows are the last `num_rows` ones, its segments those from `first_segment` on.
void Step::add_sequence(int32_t rows, size_t first_segment) {
    const auto first = static_cast<int32_t>(first_segment);
    batch_.sequences.push_back({num_rows() - rows, rows, first, static_cast<int32_t>(batch_.segments.size()) - first});
}

void Step::add_chunks(const Context& context, size_t count) {
    for (const ChunkUse& use : std::span(context.chunks()).first(count))
        batch_.segments.push_back({use.pages().table_entry(), use.length, use.base});
}

void Step::keep_slice(Slice slice) {
    slices_.push_back(std::move(slice));
    ++slices_.back().sequence->steps_in_flight;
}

void Step::add_slice(const std::shared_ptr<Request>& request, Slice slice, int32_t visible) {
    Context& context = request->sequence->context;
    const size_t first_segment = batch_.segments.size();
    add_chunks(context, context.chunks().size());
    if (visible > 0) batch_.segments.push_back({context.tail_pages().table_entry(), visible, context.tail_base()});
    add_sequence(slice.num_rows, first_segment);
    keep_slice(std::move(slice));
}

// Each row of the slice whose next token is known becomes an output row with a query for it. What it draws is not used.
void Step::add_scores(const Request& request, Slice& slice) {
    const Context& context = request.sequence->context;
    slice.first_scored = std::max(slice.first_row + 1, request.scored_from);
    const int32_t end = std::min(slice.first_row + slice.num_rows + 1, context.tail_size());
    slice.num_scores = std::max(0, end - slice.first_scored);
    for (int32_t scored = slice.first_scored; scored < end; ++scored) {
        const int32_t output = num_outputs();
        batch_.output_rows.push_back(num_rows() - (slice.first_row + slice.num_rows - scored) - 1);
        add_logprobs(slice, output, context.token_at(context.tail_base() + scored), 0);
    }
}

void Step::add_states(const Request& request, Slice& slice) {
    StatePool& states = *request.states;
    const int32_t end = slice.first_row + slice.num_rows;
    slice.first_state = static_cast<int32_t>(batch_.state_rows.size());
    for (int32_t row = std::max(slice.first_row, states.first_wanted()); row < end; ++row)
        batch_.state_rows.push_back(num_rows() - (end - row));
    slice.num_states = static_cast<int32_t>(batch_.state_rows.size()) - slice.first_state;
    states.planned = end == states.end_wanted();
}

void Step::add_row_before(const std::shared_ptr<Request>& request) {
    const ResidentSequence& sequence = *request->sequence;
    const int32_t before = sequence.planned - 1;
    add_row(sequence.context, sequence.context.tail_base() + before, 0, kNoSlot);
    Slice slice{request, request->sequence, before, 1};
    slice.rows = Rows::drawn_again;
    add_slice(request, std::move(slice), sequence.planned);
    add_scores(*request, slices_.back());
    request->row_before_planned = true;
}

void Step::add_logprobs(Slice& slice, int32_t output, int32_t token, int32_t top) {
    if (slice.num_logprobs == 0) slice.first_logprob = num_logprobs;
    batch_.logprobs.push_back({output, token, top});
    slice.num_logprobs += 1 + static_cast<size_t>(top);
    num_logprobs += 1 + static_cast<size_t>(top);
}

void Step::add_output(const Request& request, Slice& slice, bool keep_logits) {
    ResidentSequence& sequence = *request.sequence;
    slice.output_index = num_outputs();
    batch_.output_rows.push_back(num_rows() - 1);
    const Sampling& sampling = *sequence.sampling;
    const bool generates = request.generation != nullptr;
    const bool waits = generates && (request.generation->constrained() || request.generation->changes_logits());
    if (sampling.surprise_counts()) wants_surprises = true;
    if (waits || (sampling.follows_history() && request.draw == Draw::generate)) batch_.draws_late = true;
    if (generates && request.generation->wants_logprobs())
        add_logprobs(slice, slice.output_index, -1, request.generation->top_logprobs());
    if (keep_logits) batch_.kept_logits.push_back(slice.output_index);
    sequence.last_output_row = slice.output_index;
    ++sequence.draws_in_flight;
    if (request.draw == Draw::append || request.is_ahead()) answers_callers = true;
}

}  // namespace nanolith
