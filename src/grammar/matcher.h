// A text that grows token by token under a grammar, and the tokens that it allows next.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "grammar/configs.h"

namespace nanolith::grammar {

// Copying it forks it. For one thread at a time; copies of one grammar may be used at once.
class Matcher {
  public:
    explicit Matcher(std::shared_ptr<const Grammar> grammar);

    // Sets the bits of the tokens that the text can go on with, [vocab_size / 32 rounded up], and clears the others.
    // End tokens are allowed where the text may end. Returns false where no token is allowed: where it is over, or
    // where the vocabulary has no token for any byte that could follow.
    bool fill_mask(std::span<uint32_t> mask);
    // Makes a token part of the text; an end token ends it. False where it is not allowed, which changes nothing.
    bool accept(int32_t token);
    // Takes back the latest tokens, at most those that were accepted.
    void roll_back(int32_t tokens);

    [[nodiscard]] bool may_end() const { return history_.back().ends && !over(); }
    [[nodiscard]] bool over() const { return history_.back().over; }
    [[nodiscard]] int32_t num_tokens() const { return static_cast<int32_t>(history_.size()) - 1; }

  private:
    struct Moment {
        std::vector<Configuration> configs = {};
        bool ends = false;
        bool over = false;
    };
    void allow_after(const Configuration& config, std::span<uint32_t> mask);
    void allow_escapes(const StateMask& state, const Configuration& config, std::span<uint32_t> mask);
    void walk(int32_t node, const Situation& situation, std::span<uint32_t> mask);
    [[nodiscard]] std::string key() const;
    [[nodiscard]] bool at_start() const { return history_.size() == 1; }

    std::shared_ptr<const Grammar> grammar_;
    Frames frames_;
    std::vector<Moment> history_;  // the latest at the end; the first before any token
};

}  // namespace nanolith::grammar
