// Turns nl_options into the structs that the engine takes.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <tuple>

#include "api/guard.h"
#include "api/options.h"

namespace nanolith::api {
namespace {

int64_t integer(const nl_options& options, int32_t key) {
    return options.get<int64_t>(key);
}
// For options whose bounds are within 32 bits.
int32_t small(const nl_options& options, int32_t key) {
    return static_cast<int32_t>(integer(options, key));
}
bool flag(const nl_options& options, int32_t key) {
    return integer(options, key) != 0;
}
double number(const nl_options& options, int32_t key) {
    return options.get<double>(key);
}

EngineOptions read_engine(const nl_options& options) {
    return {.device = options.get<std::string>(NL_OPTION_DEVICE),
            .dtype = small(options, NL_OPTION_DTYPE),
            .kv_dtype = small(options, NL_OPTION_KV_DTYPE),
            .weights = static_cast<WeightForm>(integer(options, NL_OPTION_WEIGHTS)),
            .page_size = small(options, NL_OPTION_PAGE_SIZE),
            .num_pages = integer(options, NL_OPTION_NUM_PAGES),
            .max_context = integer(options, NL_OPTION_MAX_CONTEXT),
            .max_batch_tokens = small(options, NL_OPTION_MAX_BATCH_TOKENS),
            .max_output_rows = small(options, NL_OPTION_MAX_OUTPUT_ROWS),
            .step_ms = number(options, NL_OPTION_STEP_MS),
            .queue_limit = small(options, NL_OPTION_QUEUE_LIMIT),
            .num_threads = small(options, NL_OPTION_THREADS),
            .map_weights = flag(options, NL_OPTION_MAP_WEIGHTS),
            .allow_not_finite = flag(options, NL_OPTION_ALLOW_NOT_FINITE),
            .warm_up = flag(options, NL_OPTION_WARM_UP),
            .batch_invariant = flag(options, NL_OPTION_BATCH_INVARIANT),
            .share_prefixes = flag(options, NL_OPTION_SHARE_PREFIXES),
            .store_folder = options.get<std::string>(NL_OPTION_STORE_FOLDER),
            .store_bytes = integer(options, NL_OPTION_STORE_BYTES),
            .store_server = options.get<std::string>(NL_OPTION_STORE_SERVER),
            .store_deadline_ms = integer(options, NL_OPTION_STORE_DEADLINE_MS),
            .host_bytes = integer(options, NL_OPTION_HOST_BYTES),
            .profile = flag(options, NL_OPTION_PROFILE),
            .log = options.log,
            .log_user_data = options.log_user_data,
            .progress = options.progress,
            .progress_user_data = options.progress_user_data};
}

float single(const nl_options& options, int32_t key) {
    return static_cast<float>(number(options, key));
}
std::vector<int32_t> ids(const nl_options& options, int32_t key) {
    const auto& list = options.get<std::vector<int64_t>>(key);
    return {list.begin(), list.end()};
}

// Reads a token and its bias, for example "198:-2.5".
std::optional<LogitBias> parse_bias(std::string_view text) {
    constexpr float kMost = 1e6F;
    LogitBias parsed;
    const char* const end = text.data() + text.size();
    const auto token = std::from_chars(text.data(), end, parsed.token);
    if (token.ec != std::errc() || token.ptr == end || *token.ptr != ':') return {};
    const auto bias = std::from_chars(token.ptr + 1, end, parsed.bias);
    if (bias.ec != std::errc() || bias.ptr != end || !(std::fabs(parsed.bias) <= kMost)) return {};
    return parsed;
}

Result<std::vector<LogitBias>> read_biases(const nl_options& options) {
    const auto& texts = options.get<std::vector<std::string>>(NL_OPTION_BIASED_TOKEN);
    std::vector<LogitBias> biases;
    for (size_t i = 0; i < texts.size(); ++i) {
        const auto bias = parse_bias(texts[i]);
        if (!bias)
            return fail(NL_ERROR_INVALID_ARGUMENT, "NL_OPTION_BIASED_TOKEN[", i, "] is \"", texts[i],
                        "\": expected a token and a number from -1000000 to 1000000, as \"198:-2.5\"");
        biases.push_back(*bias);
    }
    return biases;
}

Result<std::vector<Filter>> read_order(const nl_options& options) {
    const auto& numbers = options.get<std::vector<int64_t>>(NL_OPTION_FILTER);
    std::vector<Filter> order;
    for (size_t i = 0; i < numbers.size(); ++i) {
        const auto filter = static_cast<Filter>(numbers[i] - NL_FILTER_TEMPERATURE);
        if (std::ranges::find(order, filter) != order.end())
            return fail(NL_ERROR_INVALID_ARGUMENT, "NL_OPTION_FILTER[", i, "] is ", numbers[i],
                        ": expected each filter once");
        order.push_back(filter);
    }
    return order;
}

Result<SamplingOptions> read_sampling(const nl_options& options) {
    NL_ASSIGN(auto biases, read_biases(options));
    NL_ASSIGN(auto order, read_order(options));
    return SamplingOptions{.temperature = single(options, NL_OPTION_TEMPERATURE),
                           .top_k = small(options, NL_OPTION_TOP_K),
                           .top_p = single(options, NL_OPTION_TOP_P),
                           .min_p = single(options, NL_OPTION_MIN_P),
                           .seed = static_cast<uint64_t>(integer(options, NL_OPTION_SEED)),
                           .repetition_penalty = single(options, NL_OPTION_REPETITION_PENALTY),
                           .frequency_penalty = single(options, NL_OPTION_FREQUENCY_PENALTY),
                           .presence_penalty = single(options, NL_OPTION_PRESENCE_PENALTY),
                           .penalty_window = small(options, NL_OPTION_PENALTY_WINDOW),
                           .biases = std::move(biases),
                           .banned = ids(options, NL_OPTION_BANNED_TOKEN),
                           .allowed = ids(options, NL_OPTION_ALLOWED_TOKEN),
                           .dry_multiplier = single(options, NL_OPTION_DRY_MULTIPLIER),
                           .dry_base = single(options, NL_OPTION_DRY_BASE),
                           .dry_allowed_length = small(options, NL_OPTION_DRY_ALLOWED_LENGTH),
                           .dry_window = small(options, NL_OPTION_DRY_WINDOW),
                           .dry_breakers = options.get<std::vector<std::string>>(NL_OPTION_DRY_BREAKER),
                           .xtc_probability = single(options, NL_OPTION_XTC_PROBABILITY),
                           .xtc_threshold = single(options, NL_OPTION_XTC_THRESHOLD),
                           .typical_p = single(options, NL_OPTION_TYPICAL_P),
                           .mirostat_tau = single(options, NL_OPTION_MIROSTAT_TAU),
                           .mirostat_eta = single(options, NL_OPTION_MIROSTAT_ETA),
                           .order = std::move(order)};
}

GenerationOptions read_generation(const nl_options& options) {
    return {.max_tokens = integer(options, NL_OPTION_MAX_TOKENS),
            .min_tokens = integer(options, NL_OPTION_MIN_TOKENS),
            .stop_tokens = ids(options, NL_OPTION_STOP_TOKEN),
            .end_tokens = flag(options, NL_OPTION_END_TOKENS),
            .stop_texts = options.get<std::vector<std::string>>(NL_OPTION_STOP_TEXT),
            .deadline_ms = integer(options, NL_OPTION_DEADLINE_MS),
            .priority = small(options, NL_OPTION_PRIORITY),
            .buffer_tokens = small(options, NL_OPTION_BUFFER_TOKENS),
            .text = flag(options, NL_OPTION_TEXT),
            .logprobs = flag(options, NL_OPTION_LOGPROBS),
            .top_logprobs = small(options, NL_OPTION_TOP_LOGPROBS),
            .constrained_tokens = small(options, NL_OPTION_CONSTRAINED_TOKENS),
            .jump_ahead = flag(options, NL_OPTION_JUMP_AHEAD),
            .change_logits = options.logits,
            .change_logits_user_data = options.logits_user_data};
}

}  // namespace

Result<void> check_kind(const nl_options* options, int32_t expected) {
    if (options != nullptr && options->kind != expected)
        return fail(NL_ERROR_INVALID_ARGUMENT, "options are of ", kind_name(options->kind), ": expected ",
                    kind_name(expected));
    return {};
}

Result<EngineOptions> engine_options(const nl_options* options) {
    NL_TRY(check_kind(options, NL_OPTIONS_ENGINE));
    return options != nullptr ? read_engine(*options) : EngineOptions{};
}

Result<CacheOptions> cache_options(const nl_options* options) {
    NL_TRY(check_kind(options, NL_OPTIONS_CACHE));
    if (options == nullptr) return CacheOptions{};
    CacheOptions read;
    read.composition = small(*options, NL_OPTION_COMPOSITION);
    const double share = number(*options, NL_OPTION_BLEND_SHARE);
    if (share > 0) read.blend_share = share;
    return read;
}

Result<SamplingOptions> sampling_options(const nl_options& options) {
    NL_TRY(check_kind(&options, NL_OPTIONS_SAMPLING));
    return read_sampling(options);
}

namespace {

// The constraint that the options set, if any; INVALID_ARGUMENT where they set two.
Result<grammar::Constraint> read_constraint(const nl_options& options) {
    using Kind = grammar::ConstraintKind;
    grammar::Constraint result;
    const char* name = nullptr;
    const auto choose = [&](Kind kind, const char* option) -> Result<void> {
        if (name != nullptr)
            return fail(NL_ERROR_INVALID_ARGUMENT, name, " and ", option, " are both set: expected one constraint");
        result.kind = kind;
        name = option;
        return {};
    };
    if (result.choices = options.get<std::vector<std::string>>(NL_OPTION_CHOICE); !result.choices.empty())
        NL_TRY(choose(Kind::choices, "NL_OPTION_CHOICE"));
    if (flag(options, NL_OPTION_JSON_OBJECT)) NL_TRY(choose(Kind::json_object, "NL_OPTION_JSON_OBJECT"));
    for (const auto& [key, kind, option] :
         {std::tuple(NL_OPTION_REGEX, Kind::regex, "NL_OPTION_REGEX"),
          std::tuple(NL_OPTION_JSON_SCHEMA, Kind::json_schema, "NL_OPTION_JSON_SCHEMA"),
          std::tuple(NL_OPTION_GRAMMAR, Kind::ebnf, "NL_OPTION_GRAMMAR")}) {
        const auto& text = options.get<std::string>(key);
        if (text.empty()) continue;
        NL_TRY(choose(kind, option));
        result.text = text;
    }
    return result;
}

}  // namespace

Result<GenerationOptions> generation_options(const nl_options* options) {
    NL_TRY(check_kind(options, NL_OPTIONS_GENERATION));
    if (options == nullptr) return GenerationOptions{};
    GenerationOptions read = read_generation(*options);
    if (!read.text && !read.stop_texts.empty())
        return fail(NL_ERROR_INVALID_ARGUMENT, "NL_OPTION_STOP_TEXT has ", read.stop_texts.size(),
                    " elements: expected none where NL_OPTION_TEXT is 0");
    if (!read.logprobs && read.top_logprobs > 0)
        return fail(NL_ERROR_INVALID_ARGUMENT, "NL_OPTION_TOP_LOGPROBS is ", read.top_logprobs,
                    ": expected 0 where NL_OPTION_LOGPROBS is 0");
    if (read.logprobs && read.jump_ahead)
        return fail(NL_ERROR_INVALID_ARGUMENT,
                    "NL_OPTION_JUMP_AHEAD is 1: expected 0 where NL_OPTION_LOGPROBS is 1, since tokens that are not "
                    "drawn have no log-probabilities");
    NL_ASSIGN(read.constraint, read_constraint(*options));
    if (read.constrained_tokens > 0 && read.constraint.kind == grammar::ConstraintKind::none)
        return fail(NL_ERROR_INVALID_ARGUMENT, "NL_OPTION_CONSTRAINED_TOKENS is ", read.constrained_tokens,
                    ": expected 0 where no constraint is set");
    return read;
}

}  // namespace nanolith::api
