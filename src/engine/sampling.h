// From a cache's sampling options to one draw.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/batch.h"
#include "backend/sampling_options.h"
#include "base/result.h"
#include "engine/dry.h"
#include "kv/context.h"

namespace nanolith {

// The parameters of the draw of the token at `position`, without edits, mask and Mirostat's bound. Its random numbers
// are functions of the seed and the position alone, so that a draw can be repeated and no state is kept between draws.
SampleParams sample_params(const SamplingOptions& options, int32_t position);

// Sampling options, checked and made ready for draws. Immutable; forks share it.
class Sampling {
  public:
    Sampling() = default;  // every default: greedy
    // `tokenizer` may be null; then DRY has no breakers. INVALID_ARGUMENT, UNSUPPORTED.
    static Result<std::shared_ptr<const Sampling>> make(const SamplingOptions& options, int32_t vocab_size,
                                                        const Tokenizer* tokenizer);

    [[nodiscard]] const SamplingOptions& options() const { return options_; }
    // Whether a draw depends on the tokens before it in another way than through the logits (penalties, DRY, Mirostat).
    // Then it is made ready only when these tokens are known (Step::draws_wait).
    [[nodiscard]] bool follows_history() const { return penalises() || dries() || surprise_counts(); }
    // Whether Mirostat is on, which needs the surprise of each drawn token.
    [[nodiscard]] bool surprise_counts() const { return options_.mirostat_tau > 0 && options_.temperature > 0; }
    // Whether the token is allowed and not banned.
    [[nodiscard]] bool may_draw(int32_t token) const;
    // Whether any token may be drawn while these tokens are banned too.
    [[nodiscard]] bool leaves_something(std::span<const int32_t> banned, int32_t vocab_size) const;

    // Mirostat's bound, in bits: for the first draw, and for the next one after a draw with this bound and surprise.
    [[nodiscard]] float first_surprise_bound() const { return 2 * options_.mirostat_tau; }
    [[nodiscard]] float next_surprise_bound(float bound, float surprise) const {
        return bound - options_.mirostat_eta * (surprise - options_.mirostat_tau);
    }

    // The draw of the token at `position` of the context, whose earlier tokens are all known where follows_history().
    // Its edits and its mask are added to the batch's. `banned`: further tokens that are not drawn.
    [[nodiscard]] SampleParams add_draw(const Context& context, int32_t position, std::span<const int32_t> banned,
                                        float surprise_bound, Batch& batch) const;

  private:
    [[nodiscard]] bool penalises() const {
        return options_.repetition_penalty != 1 || options_.frequency_penalty != 0 || options_.presence_penalty != 0;
    }
    [[nodiscard]] bool dries() const { return options_.dry_multiplier > 0; }
    void add_penalties(std::vector<int32_t> window, std::vector<LogitEdit>& edits) const;

    SamplingOptions options_;
    std::vector<LogitEdit> fixed_edits_;  // biases and bans, sorted by token, each token once
    std::vector<uint32_t> mask_;          // a bit for each allowed token, see mask_words(); empty: all are allowed
    DryBreakers breakers_;
};

}  // namespace nanolith
