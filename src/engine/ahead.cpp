// Rows computed before they are asked for. A caller of nl_decode_step asks for the next token only when it has seen the
// previous one. Until its thread has woken and called again the device would be idle, and of many threads that each
// step a cache some would miss the next step. Therefore, when a sequence has been stepped twice in a row, the row of
// the token just drawn is queued at once, as a request that nobody waits for. The next nl_decode_step takes this
// request over, or finds the token that it drew (ResidentSequence::next); any other call on the sequence waits until it
// has ended. Such a request never reserves a page, so that others find as many pages as without it. At worst one row is
// computed in vain. A row that was not computed would be one of the probe's of a blend: while that may choose pages,
// nothing is computed ahead, or the choice would depend on how soon the next call comes.
#include <algorithm>

#include "engine/scheduler.h"

namespace nanolith {

// Queues the row of the sequence's last token, which has just been drawn. False, with the sequence unchanged, if it
// cannot or should not be computed ahead.
bool Scheduler::go_ahead(const std::shared_ptr<ResidentSequence>& sequence) noexcept {
    constexpr int32_t kDrawsInARow = 2;
    sequence->draws_in_a_row = std::min(sequence->draws_in_a_row + 1, kDrawsInARow);
    const bool has_page =
        sequence->missing_pages(sequence->context.tail_size()) == 0 && !sequence->writes_shared_page();
    const bool full = sequence->num_tokens() >= options_.max_context;
    const bool chooses = sequence->blend && sequence->blend->may_choose(sequence->context);
    if (sequence->draws_in_a_row < kDrawsInARow || !has_page || full || chooses || stopping_) return false;
    try {
        auto request = std::make_shared<Request>();
        request->sequence = sequence;
        request->draw = Draw::remember;
        insert(request);
    } catch (...) {
        return false;  // out of memory: the next call will compute the row
    }
    ++events_;
    return true;
}

// If the sequence's next row is queued or in flight already, the call takes that request over as its own.
bool Scheduler::take_over(std::shared_ptr<Request>& request) {
    const auto ahead = request->sequence->request;
    if (!ahead) return false;
    ahead->draw = request->draw;
    ahead->call = request->call;
    request = ahead;
    return true;
}

// Ends the requests that compute ahead for these sequences. False if it had to wait for the device without the mutex:
// the sequences may have got other requests since.
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
