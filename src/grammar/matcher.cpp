#include "grammar/matcher.h"

#include <algorithm>

#include "grammar/state_mask.h"

namespace nanolith::grammar {
namespace {

constexpr int64_t kSpareRoom = 32;  // tokens of room beyond the estimate, below which room counts as scarce

}  // namespace

Matcher::Matcher(std::shared_ptr<const Grammar> grammar, std::vector<int32_t> end_tokens)
    : grammar_(std::move(grammar)), end_tokens_(std::move(end_tokens)) {
    const int32_t vocab_size = grammar_->tokens().vocab_size();
    std::erase_if(end_tokens_, [vocab_size](int32_t token) { return token < 0 || token >= vocab_size; });
    Situation situation;
    Stepper(*grammar_, frames_).begin(situation);
    history_.push_back({std::move(situation.configs), situation.ends, false});
}

bool Matcher::accept(int32_t token) {
    const TokenTable& tokens = grammar_->tokens();
    if (token < 0 || token >= tokens.vocab_size() || over()) return false;
    if (std::ranges::find(end_tokens_, token) != end_tokens_.end()) {
        if (!may_end()) return false;
        history_.push_back({.over = true});
        return true;
    }
    const std::string& bytes = tokens.bytes_of(token, at_start());
    if (bytes.empty()) return false;
    Stepper stepper(*grammar_, frames_);
    Situation now;
    Situation next;
    now.configs = history_.back().configs;
    for (const char byte : bytes) {
        stepper.step(now.configs, static_cast<uint8_t>(byte), next);
        std::swap(now, next);
    }
    if (now.configs.empty() && !now.ends) return false;
    history_.push_back({std::move(now.configs), now.ends, false});
    return true;
}

// The one byte that any of the configurations can read; none where there are several. Counts and depths, which may
// leave fewer bytes, are not looked at.
std::optional<uint8_t> Matcher::only_byte(const std::vector<Configuration>& configs) const {
    int32_t found = kNoByte;
    for (const Configuration& config : configs) {
        const int32_t byte = grammar_->only_byte(config.state);
        if (byte == kNoByte) continue;
        if (byte == kSeveralBytes || (found != kNoByte && byte != found)) return {};
        found = byte;
    }
    if (found == kNoByte) return {};
    return static_cast<uint8_t>(found);
}

std::string Matcher::forced_bytes(size_t most) {
    std::string bytes;
    if (over()) return bytes;
    Stepper stepper(*grammar_, frames_);
    Situation now;
    Situation next;
    now.configs = history_.back().configs;
    now.ends = history_.back().ends;
    while (bytes.size() < most && !now.ends) {
        const auto byte = only_byte(now.configs);
        if (!byte) return bytes;
        stepper.step(now.configs, *byte, next);
        if (next.configs.empty() && !next.ends) return bytes;
        bytes.push_back(static_cast<char>(*byte));
        std::swap(now, next);
    }
    return bytes;
}

void Matcher::roll_back(int32_t tokens) {
    history_.resize(history_.size() - static_cast<size_t>(std::clamp(tokens, 0, num_tokens())));
}

// Everything that the mask depends on: each configuration with its whole stack.
std::string Matcher::key() const {
    std::string text(1, at_start() ? 'f' : 'n');
    const auto put = [&text](int32_t number) { text.append(reinterpret_cast<const char*>(&number), sizeof(number)); };
    for (const Configuration& config : history_.back().configs) {
        put(config.state);
        put(config.count);
        for (int32_t frame = config.frame; frame != kBottom; frame = frames_[frame].below) {
            put(frames_[frame].state);
            put(frames_[frame].count);
        }
        put(-1);
    }
    return text;
}

bool Matcher::fill_mask(std::span<uint32_t> mask, int64_t room) {
    std::ranges::fill(mask, 0U);
    if (over()) return false;
    // A token may open rules that must be closed again: an estimate of what this takes is the longest rule, twice.
    const Moment& now = history_.back();
    const int64_t needed = bytes_needed(now.configs, now.ends);
    const bool scarce = room >= needed && room < needed + 2 * grammar_->most_bytes_needed() + kSpareRoom;
    if (scarce && grammar_->tokens().spells_ascii) {
        recall_or_fill_scarce(mask, room);
    } else {
        fill_all(mask);
    }
    // The text may end here, but there is no end token to say so: it goes on, and its length may cut it short.
    const auto allows_none = [mask] { return std::ranges::none_of(mask, [](uint32_t word) { return word != 0; }); };
    if (scarce && now.ends && end_tokens_.empty() && !now.configs.empty() && allows_none()) fill_all(mask);
    for (const int32_t token : end_tokens_) {
        if (may_end()) {
            allow(mask, token);
        } else {
            mask[static_cast<size_t>(token) / 32] &= ~(1U << (static_cast<uint32_t>(token) % 32));
        }
    }
    return std::ranges::any_of(mask, [](uint32_t word) { return word != 0; });
}

void Matcher::fill_all(std::span<uint32_t> mask) {
    const std::lock_guard lock(grammar_->masks().mutex);
    const std::string situation = key();
    if (recall(situation, mask)) return;
    for (const Configuration& config : history_.back().configs) allow_after(config, mask);
    remember(situation, mask);
}

// A walk through the whole vocabulary is made once for all texts that stand so, with so much room.
void Matcher::recall_or_fill_scarce(std::span<uint32_t> mask, int64_t room) {
    const std::lock_guard lock(grammar_->masks().mutex);
    std::string situation = key();
    situation += (history_.back().ends ? "e" : "") + std::string(end_tokens_.empty() ? "g" : "");
    situation += std::to_string(room);
    if (recall(situation, mask)) return;
    if (fill_scarce(mask, room)) remember(situation, mask);
}

bool Matcher::recall(const std::string& situation, std::span<uint32_t> mask) const {
    const auto& situations = grammar_->masks().situations;
    const auto found = situations.find(situation);
    if (found == situations.end()) return false;
    std::ranges::copy(*found->second, mask.begin());
    return true;
}

void Matcher::remember(const std::string& situation, std::span<const uint32_t> mask) const {
    constexpr size_t kMostSituations = 512;
    auto& situations = grammar_->masks().situations;
    if (situations.size() >= kMostSituations) situations.clear();
    situations[situation] = std::make_shared<const Mask>(mask.begin(), mask.end());
}

int64_t Matcher::bytes_behind(int32_t frame) const {
    int64_t bytes = 0;
    for (; frame != kBottom; frame = frames_[frame].below) {
        const Frame& caller = frames_[frame];
        const int32_t rule = grammar_->rule_of(caller.state);
        const bool is_unit = caller.state - grammar_->first_state(rule) == grammar_->rule(rule).boundary;
        bytes += grammar_->bytes_needed(caller.state, caller.count + (is_unit ? 1 : 0));
    }
    return bytes;
}

// The fewest bytes after which the text may end.
int64_t Matcher::bytes_needed(const std::vector<Configuration>& configs, bool ends) const {
    if (ends) return 0;
    int64_t least = INT64_MAX / 2;
    for (const Configuration& config : configs)
        least = std::min(least, grammar_->bytes_needed(config.state, config.count) + bytes_behind(config.frame));
    return least;
}

// Allows the tokens after which at most room - 1 bytes are needed. Returns whether it walked through the vocabulary.
bool Matcher::fill_scarce(std::span<uint32_t> mask, int64_t room) {
    bool walked = false;
    const TokenTrie& trie = grammar_->tokens().trie_for(at_start());
    for (const Configuration& config : history_.back().configs) {
        const int32_t rule = grammar_->rule_of(config.state);
        // Inside a rule without calls any token may be followed by the rest of the rule.
        const int64_t inside = grammar_->most_bytes_needed(rule) + bytes_behind(config.frame);
        const bool near_limit =
            frames_.depth(config.frame) + trie.longest() + grammar_->most_depth_needed() >= kMaxDepth;
        if (!grammar_->is_leaf(rule) || near_limit || inside > room - 1) {
            // Walking the whole vocabulary takes long. It is left out where the text may end, or where
            // allow_shortest() finds a token.
            const bool must_go_on = history_.back().ends && end_tokens_.empty();
            if (grammar_->is_leaf(rule) && inside > room - 1 && !must_go_on) continue;
            Situation situation;
            situation.configs = {config};
            walk_within(0, situation, room - 1, mask);
            walked = true;
            continue;
        }
        const auto found = find_state_mask(*grammar_, config.state, config.count, at_start());
        allow_inside(*grammar_, *found, config.state, config.count, mask);
        allow_escapes(*found, config, mask, room - 1);
    }
    if (!history_.back().ends && std::ranges::none_of(mask, [](uint32_t word) { return word != 0; }))
        allow_shortest(mask);
    return walked;
}

// Allows one token: going byte by byte, it always takes a byte after which the fewest bytes are needed to the end.
void Matcher::allow_shortest(std::span<uint32_t> mask) {
    const TokenTrie& trie = grammar_->tokens().trie_for(at_start());
    const size_t before = frames_.size();
    Stepper stepper(*grammar_, frames_);
    Situation now;
    now.configs = history_.back().configs;
    now.ends = history_.back().ends;
    Situation next;
    int32_t node = 0;
    int32_t chosen = -1;
    while (!now.ends) {
        // Of the bytes that tokens continue with, one after which the fewest bytes are needed to the end.
        int32_t best = -1;
        int64_t least = INT64_MAX;
        for (int32_t child = node + 1; child < trie.end(node); child = trie.end(child)) {
            stepper.step(now.configs, trie.byte(child), next);
            if (next.configs.empty() && !next.ends) continue;
            const int64_t needed = bytes_needed(next.configs, next.ends);
            if (needed >= least) continue;
            least = needed;
            best = child;
        }
        if (best < 0 || (chosen >= 0 && least >= bytes_needed(now.configs, now.ends))) break;
        stepper.step(now.configs, trie.byte(best), next);
        std::swap(now, next);
        node = best;
        if (!trie.tokens(node).empty()) chosen = trie.tokens(node)[0];
    }
    frames_.shrink(before);
    if (chosen >= 0) allow(mask, chosen);
}

void Matcher::allow_after(const Configuration& config, std::span<uint32_t> mask) {
    const TokenTrie& trie = grammar_->tokens().trie_for(at_start());
    // Masks of states are found without the limit of depth (kMaxDepth): close to it the stack itself is followed.
    if (frames_.depth(config.frame) + trie.longest() + grammar_->most_depth_needed() >= kMaxDepth) {
        Situation situation;
        situation.configs = {config};
        return walk(0, situation, mask);
    }
    const auto found = find_state_mask(*grammar_, config.state, config.count, at_start());
    allow_inside(*grammar_, *found, config.state, config.count, mask);
    allow_escapes(*found, config, mask, INT64_MAX);
}

// Allows the tokens inside of which the rule ends and its caller goes on.
void Matcher::allow_escapes(const StateMask& state, const Configuration& config, std::span<uint32_t> mask,
                            int64_t most_bytes) {
    if (state.escapes.empty()) return;
    const TokenTrie& trie = grammar_->tokens().trie_for(at_start());
    const Rule& rule = grammar_->rule(grammar_->rule_of(config.state));
    const size_t before = frames_.size();
    Stepper stepper(*grammar_, frames_);
    Situation situation;
    if (config.frame != kBottom) {
        const Configuration behind = stepper.returned(config.frame);
        stepper.enter({&behind, 1}, situation);
    }
    const bool leaf = grammar_->is_leaf(grammar_->rule_of(config.state));
    for (const StateMask::Escape& escape : state.escapes) {
        if (rule.counted && leaf) {
            const int32_t count = config.count + escape.units;
            if (count < rule.least || count > rule.most) continue;
            for (const int32_t token : trie.tokens(escape.node)) allow(mask, token);
        }
        if (situation.configs.empty()) continue;
        if (most_bytes == INT64_MAX) {
            walk(escape.node, situation, mask);
        } else {
            walk_within(escape.node, situation, most_bytes, mask);
        }
    }
    frames_.shrink(before);
}

void Matcher::walk(int32_t node, const Situation& situation, std::span<uint32_t> mask) {
    const TokenTrie& trie = grammar_->tokens().trie_for(at_start());
    const size_t before = frames_.size();
    Stepper stepper(*grammar_, frames_);
    walk_trie(trie, node, situation, stepper, [&](int32_t below, const Situation&) {
        for (const int32_t token : trie.tokens(below)) allow(mask, token);
    });
    frames_.shrink(before);
}

// As walk(), but allows only tokens after which at most `most_bytes` bytes are needed to the end.
void Matcher::walk_within(int32_t node, const Situation& situation, int64_t most_bytes, std::span<uint32_t> mask) {
    const TokenTrie& trie = grammar_->tokens().trie_for(at_start());
    const size_t before = frames_.size();
    Stepper stepper(*grammar_, frames_);
    walk_trie(trie, node, situation, stepper, [&](int32_t below, const Situation& here) {
        const auto tokens = trie.tokens(below);
        if (tokens.empty() || bytes_needed(here.configs, here.ends) > most_bytes) return;
        for (const int32_t token : tokens) allow(mask, token);
    });
    frames_.shrink(before);
}

}  // namespace nanolith::grammar
