// A text that grows token by token under a grammar, and the tokens that it allows next.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/configs.h"

namespace nanolith::grammar {

// A copy goes on by itself. For one thread at a time; matchers that share a grammar may run on several threads at once.
class Matcher {
  public:
    // Each of `end_tokens` ends the text and is no part of it.
    Matcher(std::shared_ptr<const Grammar> grammar, std::vector<int32_t> end_tokens);

    // Sets the bits of the tokens that the text can go on with, [vocab_size / 32 rounded up], and clears the others.
    // End tokens are allowed where the text may end. Returns false where no token is allowed: where it is over, or
    // where the vocabulary has no token for any byte that could follow.
    // `room` is how many tokens may still follow, end tokens not counted. Where it gets scarce only tokens are allowed
    // after which the text can still be completed in the room that is left, with one token for each byte (if it could
    // before): so a text that is cut short parses too. Not so where !TokenTable::spells_ascii.
    bool fill_mask(std::span<uint32_t> mask, int64_t room = INT64_MAX);
    // The bytes, up to `most` of them, that every text which satisfies the grammar goes on with: none where the text
    // may end, or where the next byte is not certain. It may stop short of what is certain, and never goes beyond it.
    [[nodiscard]] std::string forced_bytes(size_t most);
    // Appends a token to the text; an end token ends it. False where it is not allowed, which changes nothing.
    bool accept(int32_t token);
    // Takes back the latest `tokens` tokens, or all where there are fewer.
    void roll_back(int32_t tokens);

    // The bytes that a token adds to a text that is not empty: none for a token that gives no text, or that there is
    // not.
    [[nodiscard]] std::string_view bytes_of(int32_t token) const {
        const TokenTable& tokens = grammar_->tokens();
        return token >= 0 && token < tokens.vocab_size() ? tokens.bytes_of(token, false) : std::string_view();
    }

    [[nodiscard]] bool may_end() const { return history_.back().ends && !over(); }
    // Nothing can follow, not even an end token.
    [[nodiscard]] bool complete() const { return over() || (history_.back().configs.empty() && end_tokens_.empty()); }
    // No token can follow but one that ends it.
    [[nodiscard]] bool only_ends() const { return history_.back().configs.empty(); }
    [[nodiscard]] bool over() const { return history_.back().over; }
    [[nodiscard]] int32_t num_tokens() const { return static_cast<int32_t>(history_.size()) - 1; }

  private:
    struct Moment {
        std::vector<Configuration> configs = {};
        bool ends = false;
        bool over = false;
    };
    void allow_after(const Configuration& config, std::span<uint32_t> mask);
    void allow_escapes(const StateMask& state, const Configuration& config, std::span<uint32_t> mask,
                       int64_t most_bytes);
    void walk(int32_t node, const Situation& situation, std::span<uint32_t> mask);
    void fill_all(std::span<uint32_t> mask);
    // With the lock of the grammar's masks held, as recall() and remember().
    bool fill_scarce(std::span<uint32_t> mask, int64_t room);
    void recall_or_fill_scarce(std::span<uint32_t> mask, int64_t room);
    bool recall(const std::string& situation, std::span<uint32_t> mask) const;
    void remember(const std::string& situation, std::span<const uint32_t> mask) const;
    void allow_shortest(std::span<uint32_t> mask);
    [[nodiscard]] std::optional<uint8_t> only_byte(const std::vector<Configuration>& configs) const;
    [[nodiscard]] int64_t bytes_needed(const std::vector<Configuration>& configs, bool ends) const;
    [[nodiscard]] int64_t bytes_behind(int32_t frame) const;
    void walk_within(int32_t node, const Situation& situation, int64_t most_bytes, std::span<uint32_t> mask);
    [[nodiscard]] std::string key() const;
    [[nodiscard]] bool at_start() const { return history_.size() == 1; }

    std::shared_ptr<const Grammar> grammar_;
    std::vector<int32_t> end_tokens_;
    Frames frames_;
    std::vector<Moment> history_;  // the latest at the end; the first before any token
};

}  // namespace nanolith::grammar
