#include "api/option_table.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "backend/batch.h"
#include "backend/page_size.h"
#include "grammar/grammar_limits.h"
#include "text/json_writer.h"

namespace nanolith::api {
namespace {

constexpr int32_t kEngine = NL_OPTIONS_ENGINE;
constexpr int32_t kSampling = NL_OPTIONS_SAMPLING;
constexpr int32_t kGeneration = NL_OPTIONS_GENERATION;
constexpr int64_t kMostInt32 = INT32_MAX;
constexpr auto kMostConstraint = static_cast<int64_t>(grammar::kMaxConstraintBytes);

struct Integers {
    int64_t least, most, standard;
};
struct Numbers {
    double least, most, standard;
};
struct Lengths {
    int64_t least, most;
};

constexpr Option integer(int32_t key, int32_t kind, const char* name, Integers bounds, const char* doc) {
    return {.key = key,
            .kind = kind,
            .name = name,
            .type = OptionType::integer,
            .least = bounds.least,
            .most = bounds.most,
            .standard = bounds.standard,
            .doc = doc};
}

constexpr Option with_type(Option option, OptionType type) {
    option.type = type;
    return option;
}

constexpr Option power_of_two(Option option) {
    option.power_of_two = true;
    return option;
}

constexpr Option number(int32_t key, int32_t kind, const char* name, Numbers bounds, const char* doc) {
    return {.key = key,
            .kind = kind,
            .name = name,
            .type = OptionType::number,
            .least_number = bounds.least,
            .most_number = bounds.most,
            .standard_number = bounds.standard,
            .doc = doc};
}

constexpr Option text(int32_t key, int32_t kind, const char* name, Lengths lengths, const char* standard,
                      const char* doc) {
    return {.key = key,
            .kind = kind,
            .name = name,
            .type = OptionType::text,
            .least = lengths.least,
            .most = lengths.most,
            .standard_text = standard,
            .doc = doc};
}

// Sorted by key; the options of one kind are therefore adjacent.
constexpr Option kOptions[] = {
    text(NL_OPTION_DEVICE, kEngine, "DEVICE", {1, 64}, "auto",
         "\"auto\" (CUDA where there is a GPU and its backend, else the CPU), \"cpu\", \"cuda\" or \"cuda:1\"."),
    integer(NL_OPTION_DTYPE, kEngine, "DTYPE", {NL_DTYPE_AUTO, NL_DTYPE_BF16, NL_DTYPE_AUTO},
            "Format of weights and activations, NL_DTYPE_*."),
    integer(NL_OPTION_KV_DTYPE, kEngine, "KV_DTYPE", {NL_DTYPE_AUTO, NL_DTYPE_F8_E4M3, NL_DTYPE_AUTO},
            "Format of keys and values in pages, NL_DTYPE_*; NL_DTYPE_AUTO: as the activations."),
    power_of_two(integer(NL_OPTION_PAGE_SIZE, kEngine, "PAGE_SIZE", {kLeastPageSize, kMostPageSize, 64},
                         "Tokens a page, a power of two.")),
    integer(NL_OPTION_NUM_PAGES, kEngine, "NUM_PAGES", {0, kMostInt32, 0},
            "Pages in the pool; 0 sizes the pool from the model and the memory that is free."),
    integer(NL_OPTION_MAX_CONTEXT, kEngine, "MAX_CONTEXT", {0, kMostInt32, 0},
            "Longest context of a cache in tokens, at most the model's own; 0 takes the model's."),
    integer(NL_OPTION_MAX_BATCH_TOKENS, kEngine, "MAX_BATCH_TOKENS", {1, 65536, 2048},
            "Most tokens computed in one step: longer prefills are cut into slices."),
    integer(NL_OPTION_MAX_OUTPUT_ROWS, kEngine, "MAX_OUTPUT_ROWS", {1, 4096, 256},
            "Most conversations that get a token in one step."),
    number(NL_OPTION_STEP_MS, kEngine, "STEP_MS", {0, 1e6, 0},
           "Milliseconds that a step may take which prefills beside running conversations; 0 takes 25, or more where "
           "prefills would lose over a tenth of their speed."),
    integer(NL_OPTION_QUEUE_LIMIT, kEngine, "QUEUE_LIMIT", {1, 1 << 20, 4096},
            "Most requests that wait to be computed; one more is NL_ERROR_BUSY."),
    integer(NL_OPTION_THREADS, kEngine, "THREADS", {0, 1024, 0},
            "CPU threads; 0 takes the cores that the process may use."),
    integer(NL_OPTION_WARM_UP, kEngine, "WARM_UP", {0, 1, 1},
            "1: everything is made ready while the engine is created; 0: when it is needed first."),
    integer(NL_OPTION_BATCH_INVARIANT, kEngine, "BATCH_INVARIANT", {0, 1, 0},
            "1: a token's logits do not depend, to the bit, on what else is computed in the same step; slower."),
    integer(
        NL_OPTION_MAP_WEIGHTS, kEngine, "MAP_WEIGHTS", {0, 1, 1},
        "1: the CPU uses weights where they lie in their mapped files, which nobody may then cut short; 0: they are "
        "read into memory."),
    integer(NL_OPTION_ALLOW_NOT_FINITE, kEngine, "ALLOW_NOT_FINITE", {0, 1, 0},
            "1: weights that are NaN or infinite are logged; 0: they are an error."),
    integer(NL_OPTION_PROFILE, kEngine, "PROFILE", {0, 1, 0},
            "1: each phase of each step is timed, and the log has a table of them when the engine is gone; slower."),
    integer(NL_OPTION_SHARE_PREFIXES, kEngine, "SHARE_PREFIXES", {0, 1, 1},
            "1: a conversation takes over pages that another one with the same beginning has filled."),
    text(NL_OPTION_STORE_FOLDER, kEngine, "STORE_FOLDER", {0, 4096}, "",
         "A folder where chunks are kept in files, for later engines and other processes; empty: none."),
    integer(NL_OPTION_STORE_BYTES, kEngine, "STORE_BYTES", {0, INT64_MAX, 0},
            "Most bytes of the chunk files in that folder; 0: no limit."),
    integer(NL_OPTION_HOST_BYTES, kEngine, "HOST_BYTES", {0, INT64_MAX, 0},
            "Bytes of the host's memory for chunks that are evicted from the device; 0: none."),
    text(NL_OPTION_STORE_SERVER, kEngine, "STORE_SERVER", {0, 4096}, "",
         "A Redis or Valkey server where chunks are kept for the engines of several machines: "
         "redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE], rediss:// with the same and "
         "[?ca=FILE&cert=FILE&key=FILE] for encrypted connections, or unix:PATH; empty: none."),
    integer(NL_OPTION_STORE_DEADLINE_MS, kEngine, "STORE_DEADLINE_MS", {1, 600000, 1000},
            "Milliseconds that reading a chunk from that server, or writing it there, may take."),
    integer(NL_OPTION_WEIGHTS, kEngine, "WEIGHTS", {NL_WEIGHTS_AUTO, NL_WEIGHTS_FP8, NL_WEIGHTS_AUTO},
            "How matrices of weights are kept in memory, NL_WEIGHTS_*."),

    integer(NL_OPTION_COMPOSITION, NL_OPTIONS_CACHE, "COMPOSITION",
            {NL_COMPOSE_EXACT, NL_COMPOSE_BLENDED, NL_COMPOSE_EXACT}, "How chunks are composed, NL_COMPOSE_*."),
    number(NL_OPTION_BLEND_SHARE, NL_OPTIONS_CACHE, "BLEND_SHARE", {0, 1, 0},
           "Share of the chunks' tokens that NL_COMPOSE_BLENDED recomputes at most; 0 takes 0.1."),

    number(NL_OPTION_TEMPERATURE, kSampling, "TEMPERATURE", {0, 3e38, 0}, "What logits are divided by; 0: greedy."),
    integer(NL_OPTION_TOP_K, kSampling, "TOP_K", {0, kMostInt32, 0}, "Keeps the k highest logits; 0 keeps all."),
    number(NL_OPTION_TOP_P, kSampling, "TOP_P", {1e-30, 1, 1},
           "Keeps the most probable tokens until their share reaches p; 1 keeps all."),
    number(NL_OPTION_MIN_P, kSampling, "MIN_P", {0, 1, 0},
           "Keeps tokens whose probability is at least this times that of the most probable one; 0 keeps all."),
    integer(NL_OPTION_SEED, kSampling, "SEED", {INT64_MIN, INT64_MAX, 0},
            "The seed of the random numbers that tokens are drawn with; all of its 64 bits count."),
    number(NL_OPTION_REPETITION_PENALTY, kSampling, "REPETITION_PENALTY", {1e-3, 1e3, 1},
           "Divides the logits of tokens in the window where they are positive, else multiplies them; 1: off."),
    number(NL_OPTION_FREQUENCY_PENALTY, kSampling, "FREQUENCY_PENALTY", {-100, 100, 0},
           "Subtracted from a token's logit once for each time that it stands in the window."),
    number(NL_OPTION_PRESENCE_PENALTY, kSampling, "PRESENCE_PENALTY", {-100, 100, 0},
           "Subtracted once from the logit of each token in the window."),
    integer(NL_OPTION_PENALTY_WINDOW, kSampling, "PENALTY_WINDOW", {1, kMostInt32, 64},
            "The number of latest tokens of the context that the penalties look at: their window."),
    with_type(text(NL_OPTION_BIASED_TOKEN, kSampling, "BIASED_TOKEN", {3, 64}, "",
                   "Tokens and what is added to their logits, for example \"198:-2.5\"."),
              OptionType::texts),
    with_type(
        integer(NL_OPTION_BANNED_TOKEN, kSampling, "BANNED_TOKEN", {0, kMostInt32, 0}, "Tokens that are never drawn."),
        OptionType::integers),
    with_type(integer(NL_OPTION_ALLOWED_TOKEN, kSampling, "ALLOWED_TOKEN", {0, kMostInt32, 0},
                      "The only tokens that may be drawn; none: all may be."),
              OptionType::integers),
    number(NL_OPTION_DRY_MULTIPLIER, kSampling, "DRY_MULTIPLIER", {0, 1e6, 0},
           "Factor of what DRY subtracts from the logit of a token that would continue a repetition; 0: no DRY."),
    number(NL_OPTION_DRY_BASE, kSampling, "DRY_BASE", {1, 100, 1.75},
           "The factor by which DRY's penalty grows with each further repeated token."),
    integer(NL_OPTION_DRY_ALLOWED_LENGTH, kSampling, "DRY_ALLOWED_LENGTH", {1, kMostInt32, 2},
            "The least number of repeated tokens that DRY penalises."),
    integer(NL_OPTION_DRY_WINDOW, kSampling, "DRY_WINDOW", {1, kMostInt32, 1024},
            "The number of latest tokens of the context that DRY looks at."),
    with_type(text(NL_OPTION_DRY_BREAKER, kSampling, "DRY_BREAKER", {0, 40}, "",
                   "Texts that end a repetition for DRY; none given: a newline, \":\", \"\\\"\" and \"*\"."),
              OptionType::texts),
    number(
        NL_OPTION_XTC_PROBABILITY, kSampling, "XTC_PROBABILITY", {0, 1, 0},
        "Probability with which XTC drops all but the least probable of the tokens that reach its threshold; 0: off."),
    number(NL_OPTION_XTC_THRESHOLD, kSampling, "XTC_THRESHOLD", {1e-30, 1, 0.1},
           "The least probability of the tokens that XTC drops."),
    number(NL_OPTION_TYPICAL_P, kSampling, "TYPICAL_P", {1e-30, 1, 1},
           "Keeps the tokens whose surprise is nearest to the mean surprise until their share reaches p; 1 keeps all."),
    number(NL_OPTION_MIROSTAT_TAU, kSampling, "MIROSTAT_TAU", {0, 1000, 0},
           "The surprise in bits that Mirostat 2 aims at; 0: no Mirostat."),
    number(NL_OPTION_MIROSTAT_ETA, kSampling, "MIROSTAT_ETA", {1e-30, 1, 0.1},
           "How fast Mirostat's bound follows the surprise of the tokens drawn."),
    with_type(integer(NL_OPTION_FILTER, kSampling, "FILTER", {NL_FILTER_TEMPERATURE, NL_FILTER_XTC, 0},
                      "The order in which filters are applied, NL_FILTER_*; none: the default order."),
              OptionType::integers),

    integer(NL_OPTION_MAX_TOKENS, kGeneration, "MAX_TOKENS", {0, kMostInt32, 0},
            "Most tokens to draw; 0: until the context is full."),
    integer(NL_OPTION_MIN_TOKENS, kGeneration, "MIN_TOKENS", {0, kMostInt32, 0},
            "Least tokens to draw: until then no end token and no stop token is drawn, and stop texts do not count."),
    with_type(integer(NL_OPTION_STOP_TOKEN, kGeneration, "STOP_TOKEN", {0, kMostInt32, 0},
                      "Tokens that end it, beside the model's end tokens."),
              OptionType::integers),
    integer(NL_OPTION_END_TOKENS, kGeneration, "END_TOKENS", {0, 1, 1}, "1: the model's own end tokens end it."),
    with_type(text(NL_OPTION_STOP_TEXT, kGeneration, "STOP_TEXT", {1, 1024}, "",
                   "Texts that end it; the text that it gives ends before them."),
              OptionType::texts),
    integer(NL_OPTION_DEADLINE_MS, kGeneration, "DEADLINE_MS", {0, kMostInt32, 0},
            "Milliseconds from its start after which it ends; 0: none."),
    integer(NL_OPTION_PRIORITY, kGeneration, "PRIORITY", {-100, 100, 0}, "Higher ones are served first."),
    integer(NL_OPTION_BUFFER_TOKENS, kGeneration, "BUFFER_TOKENS", {1, 1 << 20, 1024},
            "Tokens that wait for nl_generation_next before the generation pauses."),
    integer(NL_OPTION_TEXT, kGeneration, "TEXT", {0, 1, 1}, "1: tokens are turned into text; 0: they are not."),
    integer(NL_OPTION_LOGPROBS, kGeneration, "LOGPROBS", {0, 1, 0},
            "1: the log-probability of each token drawn is kept for nl_generation_logprobs."),
    integer(NL_OPTION_TOP_LOGPROBS, kGeneration, "TOP_LOGPROBS", {0, kMostTopLogprobs, 0},
            "How many most probable tokens are kept for each token drawn, for nl_generation_top_logprobs."),
    with_type(text(NL_OPTION_CHOICE, kGeneration, "CHOICE", {1, 65536}, "", "The text is one of these texts."),
              OptionType::texts),
    text(NL_OPTION_REGEX, kGeneration, "REGEX", {0, kMostConstraint}, "",
         "The whole text matches this regular expression; empty: any text."),
    text(NL_OPTION_JSON_SCHEMA, kGeneration, "JSON_SCHEMA", {0, kMostConstraint}, "",
         "The text is JSON that satisfies this JSON schema; empty: any text."),
    integer(NL_OPTION_JSON_OBJECT, kGeneration, "JSON_OBJECT", {0, 1, 0}, "1: the text is a JSON object."),
    text(NL_OPTION_GRAMMAR, kGeneration, "GRAMMAR", {0, kMostConstraint}, "",
         "The whole text is derived from the rule root of this grammar, in llama.cpp's EBNF; empty: any text."),
    integer(NL_OPTION_CONSTRAINED_TOKENS, kGeneration, "CONSTRAINED_TOKENS", {0, kMostInt32, 0},
            "How many of the cache's last tokens, with those given to the call, the constrained text begins with."),
    integer(NL_OPTION_JUMP_AHEAD, kGeneration, "JUMP_AHEAD", {0, 1, 0},
            "1: where the constraint leaves one text alone to go on with, its tokens are appended without a draw."),
};
static_assert(std::ranges::is_sorted(kOptions, {}, &Option::key));
static_assert(std::ranges::is_sorted(kOptions, {}, &Option::kind));

}  // namespace

std::span<const Option> options_of(int32_t kind) {
    return {std::ranges::lower_bound(kOptions, kind, {}, &Option::kind),
            std::ranges::upper_bound(kOptions, kind, {}, &Option::kind)};
}

const Option* find_option(int32_t key) {
    const Option* const found = std::ranges::lower_bound(kOptions, key, {}, &Option::key);
    return found != std::end(kOptions) && found->key == key ? found : nullptr;
}

const char* kind_name(int32_t kind) {
    switch (kind) {
        case NL_OPTIONS_ENGINE:
            return "NL_OPTIONS_ENGINE";
        case NL_OPTIONS_CACHE:
            return "NL_OPTIONS_CACHE";
        case NL_OPTIONS_SAMPLING:
            return "NL_OPTIONS_SAMPLING";
        case NL_OPTIONS_GENERATION:
            return "NL_OPTIONS_GENERATION";
        default:
            return nullptr;
    }
}

const char* type_phrase(OptionType type) {
    constexpr const char* kPhrases[] = {"an integer", "a float", "a text", "a list of integers", "a list of texts"};
    return kPhrases[static_cast<size_t>(type)];
}

const char* type_name(OptionType type) {
    constexpr const char* kTypeNames[] = {"int", "float", "text", "int list", "text list"};
    return kTypeNames[static_cast<size_t>(type)];
}

Result<void> check_value(const Option& option, int64_t value) {
    const bool fits = value >= option.least && value <= option.most &&
                      (!option.power_of_two || std::has_single_bit(static_cast<uint64_t>(value)));
    if (!fits)
        return fail(NL_ERROR_INVALID_ARGUMENT, "NL_OPTION_", option.name, " is ", value, ": expected ",
                    option.power_of_two ? "a power of two from " : "", option.least, " to ", option.most);
    return {};
}

Result<void> check_value(const Option& option, double value) {
    const bool fits = value >= option.least_number && value <= option.most_number;  // not where it is NaN
    if (!fits)
        return fail(NL_ERROR_INVALID_ARGUMENT, "NL_OPTION_", option.name, " is ", shortest_digits(value), ": expected ",
                    shortest_digits(option.least_number), " to ", shortest_digits(option.most_number));
    return {};
}

Result<void> check_value(const Option& option, std::string_view text) {
    const auto length = static_cast<int64_t>(text.size());
    if (length < option.least || length > option.most)
        return fail(NL_ERROR_INVALID_ARGUMENT, "NL_OPTION_", option.name, " has ", length, " bytes: expected ",
                    option.least, " to ", option.most);
    return {};
}

}  // namespace nanolith::api
