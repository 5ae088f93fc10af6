// What the next step computes: rows of conversations, slices of prefills, and the pages that they write.
#include <algorithm>

#include "backend/page_size.h"
#include "engine/generation.h"
#include "engine/scheduler.h"
#include "engine/state_pool.h"

namespace nanolith {
namespace {

// This many prefills share the rows of a step; later ones in the queue get what these leave. If all of them shared,
// each would end about as late as the last one does.
constexpr size_t kSharedPrefills = 4;
// Rows of every step that are kept for prefills, however many conversations run.
constexpr int32_t kLeastPrefillRows = 16;

}  // namespace

bool Scheduler::may_draw(const Request& request) const {
    const ResidentSequence& sequence = *request.sequence;
    if (request.draw != Draw::generate) return true;
    return sequence.context.num_tokens() + sequence.draws_in_flight < options_.max_context &&
           request.generation->has_room(sequence.draws_in_flight);
}

// How many rows the request could compute in the next step. 1: a row that draws a token, or the last row of a prefill.
// A blend's rows count as a prefill's, even where there is but one.
int32_t Scheduler::rows_left(const Request& request) const {
    if (request.finished || request.cancelled || request.ready) return 0;
    const ResidentSequence& sequence = *request.sequence;
    const int32_t left = sequence.context.tail_size() - sequence.planned;
    if (sequence.blends()) {
        const Blend& blend = *sequence.blend;
        if (blend.stage() == Blend::Stage::recomputing) return std::max(2, blend.rows_left() + left);
        return blend.probe_in_flight ? 0 : std::max(2, blend.probe_rows().num_rows);
    }
    if (left > 1) return left;
    if (left == 1) return may_draw(request) ? 1 : 0;  // also the last row of a chunk, which draws nothing
    if (sequence.draws_in_flight > 0) {
        // The row of the token that is being drawn now. The step that draws it must be the one submitted last
        // (drawn_by).
        const bool goes_on = request.draw == Draw::generate && sequence.draws_in_flight == 1 && num_in_flight_ == 1;
        return goes_on && may_draw(request) ? 1 : 0;
    }
    // Every token is computed, but no token has been drawn after the last one, or its hidden state is asked for: that
    // one's row is computed once more.
    if (request.draw == Draw::none) return request.states != nullptr && !request.states->planned ? 1 : 0;
    return may_draw(request) ? 1 : 0;
}

void Scheduler::plan(Step& step) {
    for (const auto& request : queue_) request->waits_for_pages = false;
    begin_blends(step);
    plan_conversations(step);
    plan_prefills(step);
    step.batch().page_table = pool_.table().entries();
    const auto changes = pool_.table().changes();
    step.batch().changed_entries.assign(changes.begin(), changes.end());
    step.added_last.reset();
}

void Scheduler::plan_conversations(Step& step) {
    const bool prefills = std::ranges::any_of(queue_, [this](const auto& request) { return rows_left(*request) > 1; });
    int32_t kept_for_prefills = prefills ? std::min(kLeastPrefillRows, (options_.max_rows + 1) / 2) : 0;
    for (const auto& request : queue_) {
        const auto& sequence = request->sequence;
        if (!request->finished && sequence->blends() && sequence->blend->stage() == Blend::Stage::probing)
            kept_for_prefills = std::max(kept_for_prefills, sequence->blend->probe_rows().num_rows);
    }
    for (const auto& request : queue_) {
        if (step.num_rows() >= options_.max_rows - kept_for_prefills) return;
        if (rows_left(*request) == 1) add_rows(step, request, 1);
    }
}

// A probe's rows are of one step, beside which some conversations have rows too.
int32_t Scheduler::most_probe_rows() const {
    return options_.probes ? options_.max_rows / 2 : 0;
}

// What other conversations have recomputed of the same chunks is there for each request that begins.
void Scheduler::begin_blends(Step& step) {
    for (const auto& request : queue_) {
        if (request->blends || request->finished || !request->sequence->blend) continue;
        step.added_last = request;
        ResidentSequence& sequence = *request->sequence;
        sequence.keep_before_blend();
        if (sequence.shares_blend && options_.keeps_blends) {
            sequence.kept = blends_.find(sequence.context);
            if (sequence.kept) use_kept(*sequence.kept, sequence.context);
        }
        sequence.blend->begin(sequence.context, most_probe_rows());
        request->blends = true;
    }
}

void Scheduler::plan_prefills(Step& step) {
    std::vector<std::shared_ptr<Request>> waiting;
    for (const auto& request : queue_)
        if (rows_left(*request) > 1) waiting.push_back(request);
    if (waiting.empty()) return;
    const bool alone = step.empty();
    const int32_t most =
        alone ? pacer_.rows_alone() : std::max(pacer_.rows_beside_conversations(), step.num_rows() + kLeastPrefillRows);
    // Prefills of a few tokens do not wait for long ones that came earlier, which still get half of the rows.
    const int32_t half = step.num_rows() + (std::min(most, options_.max_rows) - step.num_rows()) / 2;
    std::erase_if(waiting, [&](const auto& request) {
        const int32_t rows = rows_left(*request);
        return rows <= kLeastPrefillRows && step.num_rows() + rows <= half && add_rows(step, request, rows);
    });
    // The first few share the other rows, shortest first, so that rows which one does not need are left to the next.
    for (size_t first = 0; first < waiting.size(); first += kSharedPrefills) {
        const auto begin = waiting.begin() + first;
        const auto end =
            waiting.begin() + static_cast<std::ptrdiff_t>(std::min(waiting.size(), first + kSharedPrefills));
        std::stable_sort(begin, end, [this](const auto& a, const auto& b) { return rows_left(*a) < rows_left(*b); });
        for (auto it = begin; it != end; ++it) {
            const int32_t room = std::min(most, options_.max_rows) - step.num_rows();
            if (room <= 0) return;
            const auto sharing = static_cast<int32_t>(end - it);
            add_rows(step, *it, std::min(rows_left(**it), (room + sharing - 1) / sharing));
        }
    }
}

// Adds rows of the request to the step if the step and the pool have room for them. Fails a call for which there are no
// pages.
bool Scheduler::add_rows(Step& step, const std::shared_ptr<Request>& request, int32_t rows) {
    if (request->finished || request->cancelled) return false;  // it ended together with another request of its call
    step.added_last = request;
    ResidentSequence& sequence = *request->sequence;
    if (sequence.blends()) return add_blend_rows(step, request, rows);
    // Every token that is scored, and every one whose hidden state is wanted, needs its row computed: then no pages of
    // others are taken.
    if (!request->scores.empty()) {
        // Each scored row is an output row too.
        const auto room = [&] {
            return std::min(options_.max_output_rows - step.num_outputs(), options_.max_rows - step.num_rows());
        };
        if (scores_before(*request) && room() > 0) step.add_row_before(request);
        rows = std::min(rows, room());
        if (rows <= 0 || scores_before(*request)) return false;
    } else if (request->states == nullptr || !request->states->wants_all()) {
        if (const int32_t taken = sequence.take_prefix(); taken > 0 && request->generation)
            request->generation->reused(taken);
    }
    const int32_t left = sequence.context.tail_size() - sequence.planned;
    rows = std::min(rows, std::max(left, 1));
    bool draws = request->draw != Draw::none && rows >= left;
    const bool keeps = !request->logits.empty();
    const bool no_room =
        step.num_outputs() >= options_.max_output_rows || (keeps && step.num_kept_logits() >= options_.max_kept_logits);
    if (draws && no_room) {
        draws = false;
        rows = left - 1;  // the last row waits for a step with room for its draw
    }
    if (rows <= 0 && !draws) return false;
    if (step.num_rows() + rows > options_.max_rows) return false;
    if (left == 0 && sequence.draws_in_flight == 0) {
        begin(*request);
        step.add_recomputed(request, keeps);
        return true;
    }
    const Result<void> taken = take_pages(step, *request, rows);
    if (!taken.ok()) {
        no_pages_for(*request, taken.error());
        return false;
    }
    begin(*request);
    step.add(request, rows, draws, draws && keeps, options_.page_size);
    return true;
}

// Rows of the blend and, where these are the last ones, of the tail, which sees them in the same step.
bool Scheduler::add_blend_rows(Step& step, const std::shared_ptr<Request>& request, int32_t rows) {
    ResidentSequence& sequence = *request->sequence;
    Blend& blend = *sequence.blend;
    if (blend.stage() == Blend::Stage::probing) return add_probe(step, request);
    const int32_t of_blend = std::min(rows, blend.rows_left());
    if (step.num_rows() + of_blend > options_.max_rows) return false;
    if (!blend.has_pages) {
        const Result<void> room = make_room(blend.num_pages());
        if (!room.ok()) {
            no_pages_for(*request, room.error());
            return false;
        }
        step.copies().reserve(step.copies().size() + static_cast<size_t>(blend.num_pages()));
        for (const PageCopy& copy : sequence.context.exchange_pages(blend.runs(), options_.page_size))
            step.copies().push_back(copy);
        blend.has_pages = true;
    }
    begin(*request);
    step.add_blended(request, of_blend, options_.page_size);
    const int32_t of_tail = std::min({rows - of_blend, rows_left(*request), options_.max_rows - step.num_rows()});
    if (!sequence.blends() && of_tail > 0) add_rows(step, request, of_tail);
    return true;
}

bool Scheduler::add_probe(Step& step, const std::shared_ptr<Request>& request) {
    ResidentSequence& sequence = *request->sequence;
    if (sequence.blend->probe_in_flight) return false;
    if (step.num_rows() + sequence.blend->probe_rows().num_rows > options_.max_rows) return false;
    const Result<void> taken = take_pages(step, *request, sequence.context.tail_size() - sequence.planned);
    if (!taken.ok()) {
        no_pages_for(*request, taken.error());
        return false;
    }
    begin(*request);
    step.add_probe(request, options_.page_size);
    return true;
}

// A generation waits for pages, a call fails.
void Scheduler::no_pages_for(Request& request, const Error& error) {
    if (!request.generation) return fail(request, error);
    request.waits_for_pages = true;
    no_pages_ = error;
}

void Scheduler::begin(Request& request) {
    if (request.started) return;
    request.started = true;
    if (request.generation) request.generation->begin();
}

// A call reserves the pages of all its rows when it begins, so that it fails then or not at all for want of pages. A
// generation reserves pages step by step.
Result<void> Scheduler::take_pages(Step& step, Request& request, int32_t rows) {
    ResidentSequence& sequence = *request.sequence;
    const int32_t last = request.call && !request.started ? sequence.context.tail_size() : sequence.planned + rows;
    const int32_t missing = sequence.missing_pages(last);
    const bool copies = sequence.writes_shared_page();
    if (!copies) sequence.forget_written_page();
    if (missing == 0 && !copies) return {};
    NL_TRY(make_room(missing + (copies ? 1 : 0)));
    if (missing > 0) sequence.context.tail_pages().grow(missing);
    if (copies) {
        step.copies().reserve(step.copies().size() + 1);
        PageList copy(pool_);
        copy.grow(1);
        const int32_t to = copy[0];
        step.copies().push_back({sequence.replace_shared_page(std::move(copy)), to});
    }
    return {};
}

Result<void> Scheduler::make_room(int32_t pages) {
    const int32_t missing = pages - pool_.num_free();
    if (missing <= 0) return {};
    const int32_t evictable = store_.evictable_pages() + blends_.evictable_pages();
    if (evictable < missing)
        return nanolith::fail(NL_ERROR_OUT_OF_PAGES, pages, " pages are needed, ", pool_.num_free(), " are free and ",
                              evictable, " held by unused chunks and blends, of ", pool_.num_pages(),
                              " in the pool (num_pages)")
            .with(NL_DETAIL_NEEDED, pages)
            .with(NL_DETAIL_AVAILABLE, pool_.num_free() + evictable);
    blends_.evict(missing);
    if (pool_.num_free() >= pages) return {};
    for (const auto& chunk : store_.evict(pages - pool_.num_free())) send_down(*chunk);
    return {};
}

// When nothing runs, generations that wait for pages wait for each other, or for readers who may never come. The last
// of them fails, and its pages serve the others. True if there was one.
bool Scheduler::fail_one_without_pages() {
    const auto last = std::find_if(queue_.rbegin(), queue_.rend(),
                                   [](const auto& request) { return request->waits_for_pages && !request->finished; });
    if (last == queue_.rend()) return false;
    const auto request = *last;
    fail(*request, *no_pages_);
    return true;
}

}  // namespace nanolith
