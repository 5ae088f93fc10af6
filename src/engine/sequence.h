// A conversation inside the engine: its context, how it draws tokens, and which of its rows are in flight. A chunk is a
// sequence too while it is prefilled. The engine's mutex guards all of it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "engine/blend.h"
#include "engine/options.h"
#include "engine/sampling.h"
#include "kv/blend_store.h"
#include "kv/context.h"

namespace nanolith {

struct Request;

struct DrawnToken {
    int32_t token = 0;
    float surprise = 0;  // -log2 of its probability in the draw (Executor::read_surprises); 0 where Mirostat is off
};

class ResidentSequence {
  public:
    ResidentSequence(Context context, int32_t page_size);
    ResidentSequence(const ResidentSequence&) = delete;
    ResidentSequence& operator=(const ResidentSequence&) = delete;

    // ---- What calls see: the state of the latest commit
    [[nodiscard]] int32_t num_tokens() const { return context.tail_base() + committed_size_; }
    [[nodiscard]] std::vector<int32_t> tokens() const { return context.tokens(num_tokens()); }

    // ---- One commit protocol for every request
    // Makes the present tokens and pages the state that calls see and that roll_back() restores.
    void commit() noexcept;
    // Restores the state of the latest commit. Pages reserved since then become free.
    void roll_back() noexcept;
    // Keeps the first `num_tokens` tokens, and commits. No request may be under way.
    void truncate(int32_t num_tokens);

    // ---- Drawing
    // Draws differently from now on: a known next token is forgotten, and Mirostat's bound begins anew.
    void set_sampling(std::shared_ptr<const Sampling> changed);
    // Appends the token to the context and updates Mirostat's bound. Memory for the token must be reserved.
    void append_drawn(const DrawnToken& drawn);

    // ---- Pages
    // How many pages the rows [0, end) of the tail need beyond those that it has.
    [[nodiscard]] int32_t missing_pages(int32_t end) const;
    // Whether the next row would be written into a page that other lists hold too.
    [[nodiscard]] bool writes_shared_page() const;
    // To be called before that row is written into a page of this sequence alone: what the page is remembered for ends.
    void forget_written_page();
    // Replaces that page by the only page of `copy`. The old page is kept until the next commit. Returns its number.
    int32_t replace_shared_page(PageList copy);

    // ---- Pages that other conversations have filled (PrefixIndex)
    // Takes what is remembered of the tail's next pages, where no row of it is in flight. The number of tokens.
    int32_t take_prefix() noexcept;
    void remember_prefix() noexcept;

    // ---- Blended composition
    // To be called before a request's blend begins; roll_back() undoes what follows.
    void keep_before_blend();
    // Whether rows of the blend come before rows of the tail.
    [[nodiscard]] bool blends() const { return blend && !blend->resting(); }

    Context context;
    std::optional<Blend> blend;       // where it is composed so
    bool shares_blend = true;         // its chunks are all those of the store's result for them
    std::shared_ptr<KeptBlend> kept;  // that result, which it uses, or null
    std::shared_ptr<const Sampling> sampling = std::make_shared<const Sampling>();
    float surprise_bound = 0;          // Mirostat's, for the next draw
    bool shares_prefixes = false;      // whether it takes and leaves remembered pages
    std::optional<DrawnToken> next;    // the token drawn after the last one, where it is known
    std::shared_ptr<Request> request;  // under way, or null
    int32_t draws_in_a_row = 0;        // calls of nl_decode_step in a row, no other call between them

    // ---- In flight
    int32_t planned = 0;           // rows of the tail that are computed or in flight
    int32_t steps_in_flight = 0;   // steps with rows of this sequence, for its request or for one that has ended
    int32_t draws_in_flight = 0;   // of these steps, for its request, those that draw
    int32_t last_output_row = -1;  // its output row in the step submitted last, if that draws for this sequence

  private:
    const int32_t page_size_;
    int32_t committed_size_ = 0;
    int32_t committed_computed_ = 0;
    struct BeforeBlend {
        std::vector<ChunkUse> chunks;
        Blend blend;
        int64_t tokens_blended;
        int64_t tokens_reused;
        int64_t chunk_tokens_reused;
    };
    std::optional<BeforeBlend> before_blend_;  // since the latest commit
    std::optional<PageList> replaced_;         // the shared page that was replaced since the latest commit
    int32_t replaced_index_ = 0;
};

// What an nl_cache handle holds. A request under way shares the sequence, which so outlives a handle that is freed.
struct Cache {
    int32_t composition = NL_COMPOSE_EXACT;  // how it was composed in the end
    std::shared_ptr<ResidentSequence> sequence;
};

}  // namespace nanolith
