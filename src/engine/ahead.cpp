// Rows computed before they are asked for. A caller of nl_decode_step asks for the next token only when it has seen the
// last one: while its thread wakes and comes back, the device would wait, and of many threads that each step a cache
// some would miss the next step. So when a sequence has been stepped twice in a row, the row of the token just drawn is
// queued at once, as a request that nobody waits for. The next call takes it over, or finds the token that it drew
// (ResidentSequence::next); any other call upon the sequence waits until it has ended. It never takes a page, so that
// calls and generations find as many as without it, and what it computes in vain is one row.
#include <algorithm>

#include "engine/scheduler.h"

namespace nanolith {

// Queues the row of the sequence's last token, which has just been drawn. False where it can't or should not be
// computed ahead; the sequence is as it was then.
bool Scheduler::go_ahead(const std::shared_ptr<ResidentSequence>& sequence) noexcept {
    constexpr int32_t kDrawsInARow = 2;
    sequence->draws_in_a_row = std::min(sequence->draws_in_a_row + 1, kDrawsInARow);
    const bool has_page =
        sequence->missing_pages(sequence->context.tail_size()) == 0 && !sequence->writes_shared_page();
    const bool full = sequence->num_tokens() >= options_.max_context;
    if (sequence->draws_in_a_row < kDrawsInARow || !has_page || full || stopping_) return false;
    try {
        auto request = std::make_shared<Request>();
        request->sequence = sequence;
        request->draw = Draw::remember;
        insert(request);
    } catch (...) {
        return false;  // no memory; the next call computes the row
    }
    ++events_;
    return true;
}

// Where the sequence's row is queued or in flight already, that request becomes its caller's.
bool Scheduler::take_over(std::shared_ptr<Request>& request) {
    const auto ahead = request->sequence->request;
    if (!ahead) return false;
    ahead->draw = request->draw;
    ahead->call = request->call;
    request = ahead;
    return true;
}

// Ends what computes ahead for the sequences. False where it had to wait for the device: others may have come since.
bool Scheduler::end_ahead(Lock& lock, std::span<ResidentSequence* const> sequences) {
    bool in_flight = false;
    for (ResidentSequence* sequence : sequences) {
        const auto request = sequence->request;
        if (!request) continue;
        if (sequence->steps_in_flight == 0)
            finish(*request, true);
        else
            in_flight = true;
    }
    if (in_flight) wait_for_an_end(lock);
    return !in_flight;
}

}  // namespace nanolith
