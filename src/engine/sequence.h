// A conversation as it lives in the engine: its context, how it draws, and what of it is in flight. A chunk that is
// being prefilled is a sequence too, for as long as that takes. The engine's mutex guards it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "engine/options.h"
#include "kv/context.h"

namespace nanolith {

struct Request;

class ResidentSequence {
  public:
    ResidentSequence(Context context, int32_t page_size);
    ResidentSequence(const ResidentSequence&) = delete;
    ResidentSequence& operator=(const ResidentSequence&) = delete;

    // ---- What calls see: the state of the latest commit
    [[nodiscard]] int32_t num_tokens() const { return context.tail_base() + committed_size_; }
    [[nodiscard]] std::vector<int32_t> tokens() const { return context.tokens(num_tokens()); }

    // ---- One commit protocol for every request
    // Makes the tokens and pages of the moment those that calls see, and that a later roll_back() comes back to.
    void commit();
    // Back to the latest commit. Pages taken since are given back.
    void roll_back();
    // A truncation or another change while no request is under way.
    void truncate(int32_t num_tokens);

    // ---- Pages
    // Pages that rows up to `end` of the tail need beyond those there are.
    [[nodiscard]] int32_t missing_pages(int32_t end) const;
    // Whether the next row would be written to a page that others hold too.
    [[nodiscard]] bool writes_shared_page() const;
    // Puts the one page of `copy` in the place of that page, which is kept until the next commit. Gives its number.
    int32_t replace_shared_page(PageList copy);

    Context context;
    SamplingOptions sampling;
    std::optional<int32_t> next;       // the token drawn after the last one, where it is known
    std::shared_ptr<Request> request;  // under way, or null
    int32_t draws_in_a_row = 0;        // of nl_decode_step, with no other call between them

    // ---- In flight
    int32_t planned = 0;           // rows of the tail that are computed or in flight
    int32_t steps_in_flight = 0;   // that compute rows of this sequence, for its request or for one that has ended
    int32_t draws_in_flight = 0;   // of its request
    int32_t last_output_row = -1;  // in the step submitted last, where that draws for this sequence

  private:
    const int32_t page_size_;
    int32_t committed_size_ = 0;
    int32_t committed_computed_ = 0;
    std::optional<PageList> replaced_;  // a shared page since the latest commit
    int32_t replaced_index_ = 0;
};

// What an nl_cache handle holds. A request under way shares the sequence, which so outlives a handle that is freed.
struct Cache {
    std::shared_ptr<ResidentSequence> sequence;
};

}  // namespace nanolith
