#include "grammar/matcher.h"

#include <algorithm>

#include "grammar/state_mask.h"

namespace nanolith::grammar {

Matcher::Matcher(std::shared_ptr<const Grammar> grammar) : grammar_(std::move(grammar)) {
    Situation situation;
    Stepper(*grammar_, frames_).begin(situation);
    history_.push_back({std::move(situation.configs), situation.ends, false});
}

bool Matcher::accept(int32_t token) {
    const TokenTable& tokens = grammar_->tokens();
    if (token < 0 || token >= tokens.vocab_size() || over()) return false;
    if (std::ranges::find(tokens.end_tokens, token) != tokens.end_tokens.end()) {
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

bool Matcher::fill_mask(std::span<uint32_t> mask) {
    std::ranges::fill(mask, 0U);
    if (over()) return false;
    GrammarMasks& masks = grammar_->masks();
    const std::lock_guard lock(masks.mutex);
    const std::string situation = key();
    if (const auto found = masks.situations.find(situation); found != masks.situations.end()) {
        std::ranges::copy(*found->second, mask.begin());
    } else {
        for (const Configuration& config : history_.back().configs) allow_after(config, mask);
        if (may_end())
            for (const int32_t token : grammar_->tokens().end_tokens) allow(mask, token);
        constexpr size_t kMostSituations = 512;
        if (masks.situations.size() >= kMostSituations) masks.situations.clear();
        masks.situations[situation] = std::make_shared<const Mask>(mask.begin(), mask.end());
    }
    return std::ranges::any_of(mask, [](uint32_t word) { return word != 0; });
}

void Matcher::allow_after(const Configuration& config, std::span<uint32_t> mask) {
    const TokenTrie& trie = grammar_->tokens().trie_for(at_start());
    // What is remembered of a state knows no limit of depth: near it the stack is followed instead.
    if (frames_.depth(config.frame) + trie.longest() + grammar_->most_depth_needed() >= kMaxDepth) {
        Situation situation;
        situation.configs = {config};
        return walk(0, situation, mask);
    }
    const auto found = find_state_mask(*grammar_, config.state, config.count, at_start());
    allow_inside(*grammar_, *found, config.state, config.count, mask);
    allow_escapes(*found, config, mask);
}

// Tokens in which the rule ends and its caller goes on.
void Matcher::allow_escapes(const StateMask& state, const Configuration& config, std::span<uint32_t> mask) {
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
        if (!situation.configs.empty()) walk(escape.node, situation, mask);
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

}  // namespace nanolith::grammar
