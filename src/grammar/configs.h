// All ways to read a text so far under a grammar. One way is a configuration: a state, how many units a counted rule
// has read, and a stack of rules that wait for their calls to return. Stacks are shared: a frame names the one below
// it, and equal frames are one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "grammar/grammar.h"

namespace nanolith::grammar {

constexpr int32_t kBottom = -1;         // the empty stack: where a rule ends with it, the text may end
constexpr int32_t kUnknownCaller = -2;  // a stack that is not known

struct Configuration {
    int32_t state = 0;
    int32_t count = 0;
    int32_t frame = kBottom;
    bool operator==(const Configuration&) const = default;
};

// A call that has not returned: where its caller goes on when it does.
struct Frame {
    int32_t state = 0;
    int32_t count = 0;
    int32_t below = kBottom;
    int32_t depth = 1;  // frames from here to the bottom
};

class Frames {
  public:
    [[nodiscard]] const Frame& operator[](int32_t frame) const { return frames_[frame]; }
    [[nodiscard]] int32_t depth(int32_t frame) const { return frame < 0 ? 0 : frames_[frame].depth; }
    int32_t add(int32_t state, int32_t count, int32_t below);
    // Removes the latest frames until `size` are left.
    void shrink(size_t size);
    [[nodiscard]] size_t size() const { return frames_.size(); }

  private:
    struct Key {
        int32_t state, count, below;
        bool operator==(const Key&) const = default;
    };
    struct KeyHash {
        size_t operator()(const Key& key) const {
            uint64_t hash = static_cast<uint32_t>(key.state) * 0x9e3779b97f4a7c15U;
            hash = (hash ^ static_cast<uint32_t>(key.count)) * 0xbf58476d1ce4e5b9U;
            hash = (hash ^ static_cast<uint32_t>(key.below)) * 0x94d049bb133111ebU;
            return hash ^ (hash >> 29U);
        }
    };
    std::vector<Frame> frames_;
    std::unordered_map<Key, int32_t, KeyHash> ids_;
};

// The configurations of a text, after all calls and returns that need no further byte.
struct Situation {
    std::vector<Configuration> configs;  // that can read a byte; none where there are more than kMaxConfigs
    bool ends = false;                   // the text may end here
    bool escapes = false;                // a rule with an unknown caller may end here
    std::vector<int32_t> escape_units;   // with escapes: the numbers of units that such a rule has read
};

// Computes the situation of a text from that of the text before its last byte. Holds scratch memory, so it is for one
// thread at a time.
class Stepper {
  public:
    Stepper(const Grammar& grammar, Frames& frames) : grammar_(grammar), frames_(frames) {}

    // The situation of the empty text.
    void begin(Situation& result);
    // The situation of `configs` before another byte.
    void enter(std::span<const Configuration> configs, Situation& result);
    // The situation after one more byte: without configurations, and not at an end, where the byte can't be read.
    void step(const std::vector<Configuration>& configs, uint8_t byte, Situation& result);
    // The configuration in which the caller goes on when the call that `frame` stands for returns.
    [[nodiscard]] Configuration returned(int32_t frame) const;

  private:
    void close(Situation& result);
    void add(const Configuration& config);
    void end(const Configuration& config, Situation& result);
    void call(const Configuration& config);

    const Grammar& grammar_;
    Frames& frames_;
    std::vector<Configuration> open_;  // all that were found; close() goes through them from the front
};

}  // namespace nanolith::grammar
