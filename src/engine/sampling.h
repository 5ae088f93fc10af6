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

// The draw for the token at `position`, but for edits, mask and Mirostat: its random numbers are functions of the seed
// and the position alone, so that a draw can be repeated and nothing has to be remembered between two.
SampleParams sample_params(const SamplingOptions& options, int32_t position);

// Sampling options, checked and made ready for draws. Immutable; forks share it.
class Sampling {
  public:
    Sampling() = default;  // every default: greedy
    // `tokenizer` may be null; then DRY has no breakers. INVALID_ARGUMENT, UNSUPPORTED.
    static Result<std::shared_ptr<const Sampling>> make(const SamplingOptions& options, int32_t vocab_size,
                                                        const Tokenizer* tokenizer);

    [[nodiscard]] const SamplingOptions& options() const { return options_; }
    // Whether a draw depends on the tokens before it, otherwise than through the logits: then it is made ready only
    // when they are known (Step::draws_wait).
    [[nodiscard]] bool follows_history() const { return penalises() || dries() || surprise_counts(); }
    [[nodiscard]] bool surprise_counts() const { return options_.mirostat_tau > 0 && options_.temperature > 0; }
    // Whether something may be drawn while these tokens are banned.
    [[nodiscard]] bool leaves_something(std::span<const int32_t> banned, int32_t vocab_size) const;

    // Mirostat's bound of surprise in bits: before the first draw, and after a draw of such a surprise.
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
    std::vector<LogitEdit> fixed_edits_;  // biases and bans
    std::vector<uint32_t> mask_;          // of the tokens that are allowed; empty: all
    DryBreakers breakers_;
};

}  // namespace nanolith
