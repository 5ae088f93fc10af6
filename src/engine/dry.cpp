#include "engine/dry.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "text/utf8.h"

namespace nanolith {
namespace {

// Most tokens of a breaker that are compared after its first one, as in llama.cpp.
constexpr size_t kLongestTail = 20;

// The number of bytes that `text` and `bytes` from index `at` on have in common at their beginnings, where one of them
// ends before they differ; else 0.
size_t agreeing(std::string_view text, std::string_view bytes, size_t at) {
    const std::string_view rest = bytes.substr(at);
    const size_t length = std::min(text.size(), rest.size());
    return text.substr(0, length) == rest.substr(0, length) ? length : 0;
}

// For each k from 1 on: the length of the longest common prefix of `text` and its suffix from k on (the Z algorithm, in
// linear time). Element 0 is 0.
std::vector<size_t> common_beginnings(std::span<const int32_t> text) {
    std::vector<size_t> lengths(text.size(), 0);
    size_t begin = 0;
    size_t end = 0;  // [begin, end) is the match that reaches farthest
    for (size_t k = 1; k < text.size(); ++k) {
        size_t length = k < end ? std::min(lengths[k - begin], end - k) : 0;
        while (k + length < text.size() && text[length] == text[k + length]) ++length;
        lengths[k] = length;
        if (k + length > end) {
            begin = k;
            end = k + length;
        }
    }
    return lengths;
}

}  // namespace

Result<DryBreakers> DryBreakers::make(std::span<const std::string> texts, const Tokenizer& tokenizer) {
    DryBreakers breakers;
    // rests[i][n]: the tokens of texts[i] from byte n on; empty until they are needed.
    std::vector<std::vector<std::vector<int32_t>>> rests;
    for (const std::string& text : texts) rests.emplace_back(text.size() + 1);
    for (int32_t token = 0; token < tokenizer.vocab_size(); ++token) {
        const auto surface = tokenizer.surface(token, false);
        if (!surface.ok() || surface->bytes.empty()) continue;
        for (size_t i = 0; i < texts.size(); ++i)
            NL_TRY(breakers.add_token(token, surface->bytes, texts[i], tokenizer, rests[i]));
    }
    std::ranges::stable_sort(breakers.sequences_, {}, &Sequence::head);
    return breakers;
}

Result<void> DryBreakers::add_token(int32_t token, std::string_view bytes, const std::string& text,
                                    const Tokenizer& tokenizer, std::span<std::vector<int32_t>> rests) {
    if (text.empty()) return {};
    if (bytes.find(text) != std::string_view::npos) {
        sequences_.push_back({token, {}});
        return {};
    }
    for (size_t at = bytes.find(text[0]); at != std::string_view::npos; at = bytes.find(text[0], at + 1)) {
        const size_t length = agreeing(text, bytes, at);
        if (length == 0) continue;
        std::vector<int32_t>& rest = rests[length];
        // The text is the caller's, and a token may end inside a character: encode_part must be given valid UTF-8.
        if (rest.empty()) NL_TRY(tokenizer.encode_part(replace_invalid_utf8(text.substr(length)), {}, false, rest));
        rest.resize(std::min(rest.size(), kLongestTail));
        sequences_.push_back({token, rest});
    }
    return {};
}

std::span<const DryBreakers::Sequence> DryBreakers::sequences_of(int32_t head) const {
    const auto first = std::ranges::lower_bound(sequences_, head, {}, &Sequence::head);
    const auto end = std::ranges::upper_bound(sequences_, head, {}, &Sequence::head);
    return {first, end};
}

size_t DryBreakers::tokens_after_last(std::span<const int32_t> history) const {
    if (sequences_.empty()) return history.size();
    for (size_t after = 0; after < history.size(); ++after) {
        const auto following = history.last(after);
        bool found = false;
        size_t longest = 0;
        for (const Sequence& sequence : sequences_of(history[history.size() - 1 - after])) {
            const size_t length = sequence.tail.size();
            if (length > after || !std::ranges::equal(sequence.tail, following.first(length))) continue;
            found = true;
            longest = std::max(longest, length);
        }
        if (found) return after - longest;
    }
    return history.size();
}

bool DryBreakers::contains(int32_t token) const {
    return std::ranges::any_of(sequences_of(token), [](const Sequence& sequence) { return sequence.tail.empty(); });
}

void add_dry_edits(std::span<const int32_t> history, const DryRule& rule, const DryBreakers& breakers,
                   std::vector<LogitEdit>& edits) {
    const auto allowed = static_cast<size_t>(rule.allowed_length);
    if (history.size() <= allowed) return;
    const size_t longest = breakers.tokens_after_last(history);
    if (longest < allowed) return;
    const std::vector<int32_t> reversed(history.rbegin(), history.rend());
    const std::vector<size_t> lengths = common_beginnings(reversed);
    struct Repeat {
        int32_t token;
        size_t length;
    };
    std::vector<Repeat> repeats;  // the token after each earlier occurrence, and how many tokens occurred again
    for (size_t k = 1; k < reversed.size(); ++k) {
        const size_t length = std::min(lengths[k], longest);
        if (length >= allowed) repeats.push_back({reversed[k - 1], length});
    }
    std::ranges::sort(repeats, [](const Repeat& a, const Repeat& b) {
        return a.token != b.token ? a.token < b.token : a.length > b.length;
    });
    // Beyond this exponent the penalty would be infinite.
    const double most = std::log(static_cast<double>(std::numeric_limits<float>::max() / 2));
    const double log_base = std::log(static_cast<double>(rule.base));
    int32_t before = -1;
    for (const Repeat& repeat : repeats) {
        if (repeat.token == before) continue;
        before = repeat.token;
        if (breakers.contains(repeat.token)) continue;
        const double exponent = std::min(static_cast<double>(repeat.length - allowed) * log_base, most);
        const double penalty = std::min(static_cast<double>(rule.multiplier) * std::exp(exponent),
                                        static_cast<double>(std::numeric_limits<float>::max() / 2));
        edits.push_back({.token = repeat.token, .subtract = static_cast<float>(penalty)});
    }
}

}  // namespace nanolith
