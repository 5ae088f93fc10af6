#include "grammar/configs.h"

#include <algorithm>

namespace nanolith::grammar {

int32_t Frames::add(int32_t state, int32_t count, int32_t below) {
    const auto [found, is_new] = ids_.try_emplace(Key{state, count, below}, static_cast<int32_t>(frames_.size()));
    if (is_new) frames_.push_back({state, count, below, depth(below) + 1});
    return found->second;
}

void Frames::shrink(size_t size) {
    while (frames_.size() > size) {
        const Frame& frame = frames_.back();
        ids_.erase(Key{frame.state, frame.count, frame.below});
        frames_.pop_back();
    }
}

void Stepper::begin(Situation& result) {
    const Configuration first = {grammar_.start(), 0, kBottom};
    enter({&first, 1}, result);
}

void Stepper::step(const std::vector<Configuration>& configs, uint8_t byte, Situation& result) {
    open_.clear();
    for (const Configuration& config : configs) {
        const int32_t to = grammar_.after(config.state, byte);
        if (to == kNoState) continue;
        Configuration next = {to, config.count, config.frame};
        const Rule& rule = grammar_.rule(grammar_.rule_of(to));
        if (rule.counted) {
            const int32_t first = grammar_.first_state(grammar_.rule_of(to));
            if (grammar_.is_boundary(config.state)) {
                const bool closes = to - first == rule.closed;
                if (closes ? config.count < rule.least : config.count >= rule.most) continue;
            }
            if (to - first == rule.boundary) ++next.count;
        }
        if (frames_.depth(next.frame) + grammar_.depth_needed(to) > kMaxDepth) continue;
        add(next);
    }
    close(result);
}

void Stepper::enter(std::span<const Configuration> configs, Situation& result) {
    open_.clear();
    for (const Configuration& config : configs) add(config);
    close(result);
}

void Stepper::add(const Configuration& config) {
    if (std::ranges::find(open_, config) == open_.end()) open_.push_back(config);
}

// open_ grows while it is looked through, by the callers of rules that end and by the rules that are called.
void Stepper::close(Situation& result) {
    result.configs.clear();
    result.escape_units.clear();
    result.ends = result.escapes = false;
    for (size_t i = 0; i < open_.size(); ++i) {
        if (open_.size() > kMaxConfigs || frames_.size() > kMaxFrames) {
            result.configs.clear();
            return;
        }
        const Configuration config = open_[i];
        end(config, result);
        call(config);
        if (!grammar_.only_ends(config.state)) result.configs.push_back(config);
    }
}

void Stepper::end(const Configuration& config, Situation& result) {
    if (!grammar_.is_final(config.state)) return;
    const Rule& rule = grammar_.rule(grammar_.rule_of(config.state));
    if (grammar_.is_boundary(config.state) && config.count < rule.least) return;
    if (config.frame == kBottom) {
        result.ends = true;
    } else if (config.frame == kUnknownCaller) {
        result.escapes = true;
        if (std::ranges::find(result.escape_units, config.count) == result.escape_units.end())
            result.escape_units.push_back(config.count);
    } else {
        add(returned(config.frame));
    }
}

Configuration Stepper::returned(int32_t frame) const {
    const Frame& caller = frames_[frame];
    const int32_t rule = grammar_.rule_of(caller.state);
    const bool is_unit = caller.state - grammar_.first_state(rule) == grammar_.rule(rule).boundary;
    return {caller.state, caller.count + (is_unit ? 1 : 0), caller.below};
}

void Stepper::call(const Configuration& config) {
    const auto& calls = grammar_.calls(config.state);
    if (calls.empty()) return;
    const int32_t rule = grammar_.rule_of(config.state);
    if (grammar_.is_boundary(config.state) && config.count >= grammar_.rule(rule).most) return;
    for (const Call& call : calls) {
        const int32_t behind = call.to + grammar_.first_state(rule);
        const int32_t start = grammar_.first_state(call.rule);
        const int32_t depth = frames_.depth(config.frame);
        const int32_t frames = grammar_.only_ends(behind) ? 0 : 1;
        if (depth + frames + grammar_.depth_needed(start) > kMaxDepth) continue;
        if (depth + grammar_.depth_needed(behind) > kMaxDepth) continue;
        // A caller that can only end when the call returns needs no frame: so rules that call themselves last do not
        // deepen the stack.
        const int32_t frame =
            grammar_.only_ends(behind) ? config.frame : frames_.add(behind, config.count, config.frame);
        add({start, 0, frame});
    }
}

}  // namespace nanolith::grammar
