#include "engine/sampling.h"

#include <algorithm>
#include <limits>
#include <string>

namespace nanolith {
namespace {

constexpr float kBan = -std::numeric_limits<float>::infinity();

// DRY's breakers where the options give none, those of llama.cpp.
const std::vector<std::string>& default_breakers() {
    static const std::vector<std::string> breakers = {"\n", ":", "\"", "*"};
    return breakers;
}

// SplitMix64's output function (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

// A random number in [0, 1). Each `stream` gives another sequence of numbers for the same seed.
double uniform_at(uint64_t seed, int32_t position, uint64_t stream) {
    const uint64_t bits = mix(mix(seed ^ stream) + static_cast<uint64_t>(position));
    return static_cast<double>(bits >> 11) * 0x1.0p-53;
}
constexpr uint64_t kDraws = 0;
constexpr uint64_t kXtcCoins = 0xd1b54a32d192ed03U;

// Sorts the edits from index `first` on by token, and merges those of the same token into one.
void merge_edits(std::vector<LogitEdit>& edits, size_t first) {
    const auto begin = edits.begin() + static_cast<std::ptrdiff_t>(first);
    std::stable_sort(begin, edits.end(), [](const LogitEdit& a, const LogitEdit& b) { return a.token < b.token; });
    auto last = begin;
    for (auto it = begin; it != edits.end(); ++it) {
        if (it == last) continue;
        if (it->token == last->token) {
            last->add += it->add;
            last->divide *= it->divide;
            last->subtract += it->subtract;
        } else {
            *++last = *it;
        }
    }
    if (last != edits.end()) edits.erase(last + 1, edits.end());
}

// The last `count` tokens before `position`, or all of them where there are fewer.
std::vector<int32_t> tokens_before(const Context& context, int32_t position, int32_t count) {
    std::vector<int32_t> tokens;
    const int32_t first = count < position ? position - count : 0;
    tokens.reserve(static_cast<size_t>(position - first));
    for (int32_t at = first; at < position; ++at) tokens.push_back(context.token_at(at));
    return tokens;
}

struct FilterUse {
    const char* name;
    const char* option;
    Filter filter;
    bool on;
};

Result<void> check_order(const SamplingOptions& options) {
    if (options.order.empty() || options.temperature <= 0) return {};
    const FilterUse uses[] = {{"TEMPERATURE", "TEMPERATURE", Filter::temperature, options.temperature != 1},
                              {"TOP_K", "TOP_K", Filter::top_k, options.top_k > 0},
                              {"TYPICAL_P", "TYPICAL_P", Filter::typical_p, options.typical_p < 1},
                              {"TOP_P", "TOP_P", Filter::top_p, options.top_p < 1},
                              {"MIN_P", "MIN_P", Filter::min_p, options.min_p > 0},
                              {"XTC", "XTC_PROBABILITY", Filter::xtc, options.xtc_probability > 0}};
    for (const FilterUse& use : uses) {
        if (use.on && std::ranges::find(options.order, use.filter) == options.order.end())
            return fail(NL_ERROR_INVALID_ARGUMENT, "NL_OPTION_FILTER does not name NL_FILTER_", use.name,
                        ": expected it there, since NL_OPTION_", use.option, " is set");
    }
    return {};
}

Result<void> check_ids(const char* option, std::span<const int32_t> tokens, int32_t vocab_size) {
    for (size_t i = 0; i < tokens.size(); ++i) {
        if (tokens[i] < 0 || tokens[i] >= vocab_size)
            return fail(NL_ERROR_INVALID_ARGUMENT, "NL_OPTION_", option, "[", i, "] is ", tokens[i],
                        ": expected an id from 0 to ", vocab_size - 1);
    }
    return {};
}

Result<void> check_biases(std::span<const LogitBias> biases, int32_t vocab_size) {
    std::vector<int32_t> tokens;
    for (const LogitBias& bias : biases) tokens.push_back(bias.token);
    NL_TRY(check_ids("BIASED_TOKEN", tokens, vocab_size));
    std::ranges::sort(tokens);
    const auto twice = std::ranges::adjacent_find(tokens);
    if (twice == tokens.end()) return {};
    return fail(NL_ERROR_INVALID_ARGUMENT, "NL_OPTION_BIASED_TOKEN has token ", *twice, " twice: expected it once");
}

Result<DryBreakers> make_breakers(const SamplingOptions& options, const Tokenizer* tokenizer) {
    if (options.dry_multiplier <= 0) return DryBreakers();
    if (tokenizer != nullptr)
        return DryBreakers::make(options.dry_breakers.empty() ? default_breakers() : options.dry_breakers, *tokenizer);
    const bool none = std::ranges::all_of(options.dry_breakers, &std::string::empty);
    if (none) return DryBreakers();
    return fail(NL_ERROR_UNSUPPORTED, "NL_OPTION_DRY_BREAKER needs text: expected a model with a tokenizer");
}

}  // namespace

SampleParams sample_params(const SamplingOptions& options, int32_t position) {
    SampleParams params{.temperature = options.temperature,
                        .top_k = options.top_k,
                        .top_p = options.top_p,
                        .min_p = options.min_p,
                        .uniform = uniform_at(options.seed, position, kDraws),
                        .typical_p = options.typical_p};
    if (options.xtc_probability > 0 &&
        uniform_at(options.seed, position, kXtcCoins) < static_cast<double>(options.xtc_probability))
        params.xtc_threshold = options.xtc_threshold;
    if (options.order.empty()) return params;
    // The filters that are not named come last; check_order() made sure that they are off.
    const auto named = std::ranges::copy(options.order, std::begin(params.order));
    const auto is_named = [&](Filter filter) {
        return std::ranges::find(options.order, filter) != options.order.end();
    };
    std::ranges::remove_copy_if(SampleParams().order, named.out, is_named);
    return params;
}

Result<std::shared_ptr<const Sampling>> Sampling::make(const SamplingOptions& options, int32_t vocab_size,
                                                       const Tokenizer* tokenizer) {
    NL_TRY(check_ids("BANNED_TOKEN", options.banned, vocab_size));
    NL_TRY(check_ids("ALLOWED_TOKEN", options.allowed, vocab_size));
    NL_TRY(check_biases(options.biases, vocab_size));
    NL_TRY(check_order(options));
    auto sampling = std::make_shared<Sampling>();
    sampling->options_ = options;
    for (const LogitBias& bias : options.biases)
        sampling->fixed_edits_.push_back({.token = bias.token, .add = bias.bias});
    for (const int32_t token : options.banned) sampling->fixed_edits_.push_back({.token = token, .add = kBan});
    merge_edits(sampling->fixed_edits_, 0);
    if (!options.allowed.empty()) {
        sampling->mask_.assign(mask_words(vocab_size), 0);
        for (const int32_t token : options.allowed) sampling->mask_[token / 32] |= 1U << (token % 32);
    }
    if (!sampling->leaves_something({}, vocab_size))
        return fail(NL_ERROR_INVALID_ARGUMENT, "NL_OPTION_BANNED_TOKEN has ", options.banned.size(),
                    " elements: expected that a token is left to draw");
    NL_ASSIGN(sampling->breakers_, make_breakers(options, tokenizer));
    return std::shared_ptr<const Sampling>(std::move(sampling));
}

bool Sampling::may_draw(int32_t token) const {
    const bool allowed = mask_.empty() || ((mask_[token / 32] >> (token % 32)) & 1U) != 0;
    return allowed && std::ranges::find(options_.banned, token) == options_.banned.end();
}

bool Sampling::leaves_something(std::span<const int32_t> banned, int32_t vocab_size) const {
    std::vector<int32_t> left = options_.allowed;
    if (left.empty() && options_.banned.size() + banned.size() < static_cast<size_t>(vocab_size)) return true;
    if (left.empty())
        for (int32_t token = 0; token < vocab_size; ++token) left.push_back(token);
    const auto is_in = [](std::span<const int32_t> list, int32_t token) {
        return std::ranges::find(list, token) != list.end();
    };
    return std::ranges::any_of(left,
                               [&](int32_t token) { return !is_in(options_.banned, token) && !is_in(banned, token); });
}

void Sampling::add_penalties(std::vector<int32_t> window, std::vector<LogitEdit>& edits) const {
    std::ranges::sort(window);
    for (auto first = window.begin(); first != window.end();) {
        const auto end = std::upper_bound(first, window.end(), *first);
        const auto count = static_cast<float>(end - first);
        edits.push_back({.token = *first,
                         .divide = options_.repetition_penalty,
                         .subtract = count * options_.frequency_penalty + options_.presence_penalty});
        first = end;
    }
}

SampleParams Sampling::add_draw(const Context& context, int32_t position, std::span<const int32_t> banned,
                                float surprise_bound, Batch& batch) const {
    SampleParams params = sample_params(options_, position);
    if (surprise_counts()) params.most_surprise = surprise_bound;
    const size_t first = batch.edits.size();
    batch.edits.insert(batch.edits.end(), fixed_edits_.begin(), fixed_edits_.end());
    for (const int32_t token : banned) batch.edits.push_back({.token = token, .add = kBan});
    if (penalises()) add_penalties(tokens_before(context, position, options_.penalty_window), batch.edits);
    if (dries()) {
        const DryRule rule{options_.dry_multiplier, options_.dry_base, options_.dry_allowed_length};
        add_dry_edits(tokens_before(context, position, options_.dry_window), rule, breakers_, batch.edits);
    }
    if (batch.edits.size() > first + fixed_edits_.size()) merge_edits(batch.edits, first);
    params.first_edit = static_cast<int32_t>(first);
    params.num_edits = static_cast<int32_t>(batch.edits.size() - first);
    if (!mask_.empty()) {
        params.mask = static_cast<int32_t>(batch.masks.size() / mask_.size());
        batch.masks.insert(batch.masks.end(), mask_.begin(), mask_.end());
    }
    return params;
}

}  // namespace nanolith
