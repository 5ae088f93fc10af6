#include "settings.h"

#include <algorithm>
#include <array>
#include <limits>

#include "api_error.h"
#include "random.h"

namespace server {
namespace {

constexpr std::array<const char*, 3> kCompositions = {"exact", "independent", "blended"};
constexpr size_t kMostStops = 16;

void set_option(nl_options* options, const OptionFacts& facts, const std::string& name, Fields& fields) {
    if (facts.type == "int") {
        const auto value = fields.integer(name, facts.least_int, facts.most_int);
        if (value) must(nl_options_set_int(options, facts.key, *value), name);
    } else if (facts.type == "float") {
        const auto value = fields.number(name, facts.least, facts.most);
        if (value) must(nl_options_set_float(options, facts.key, *value), name);
    } else if (facts.type == "int list") {
        for (const int32_t value : fields.integers(name, 1024))
            must(nl_options_set_int(options, facts.key, value), name);
    } else {
        for (const std::string& value : fields.texts(name, 1024))
            must(nl_options_set_text(options, facts.key, value.data(), value.size()), name);
    }
}

}  // namespace

void constrain(Settings& settings, const std::string& param, int32_t key, const std::string& text) {
    if (!settings.constrained_by.empty())
        throw bad_request(param, param + " and " + settings.constrained_by + " are both there.");
    must(nl_options_set_text(settings.generation.get(), key, text.data(), text.size()), param);
    settings.constrained_by = param;
}

SettingsReader::SettingsReader(const Config& config, const Model& model)
    : config_(&config), model_(&model), sampling_(options_of_kind(NL_OPTIONS_SAMPLING)) {
    sampling_.erase("seed");  // each of several answers has its own
}

Settings SettingsReader::read(Fields& fields, int64_t standard_tokens) const {
    Settings settings;
    settings.n = fields.integer("n", 1, config_->max_n).value_or(1);
    settings.stream = fields.boolean("stream").value_or(false);
    const Json& stream_options = fields.object("stream_options");
    if (!stream_options.is_null()) {
        if (!settings.stream) throw bad_request("stream_options", "stream_options is there and stream is not true.");
        Fields inside(stream_options, "stream_options.");
        settings.include_usage = inside.boolean("include_usage").value_or(false);
        inside.finish();
    }
    settings.composition = composition_named(fields.text("composition").value_or(config_->composition), "composition");
    fields.text("user");  // names the client's own user, which means nothing here
    read_sampling(fields, settings);
    settings.generation = made<Options>([](nl_options** out) { return nl_options_create(NL_OPTIONS_GENERATION, out); });
    read_end(fields, standard_tokens, settings.generation.get());
    read_constraint(fields, settings);
    return settings;
}

void SettingsReader::read_sampling(Fields& fields, Settings& settings) const {
    settings.sampling = made<Options>([](nl_options** out) { return nl_options_create(NL_OPTIONS_SAMPLING, out); });
    nl_options* const options = settings.sampling.get();
    must(nl_options_set_float(options, NL_OPTION_TEMPERATURE, model_->drawing().temperature));
    must(nl_options_set_float(options, NL_OPTION_TOP_P, model_->drawing().top_p));
    must(nl_options_set_int(options, NL_OPTION_TOP_K, model_->drawing().top_k));
    for (const auto& [name, facts] : sampling_) set_option(options, facts, name, fields);
    const auto seed = fields.integer("seed", std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
    settings.seed = seed ? *seed : static_cast<int64_t>(random_bits() >> 1U);
    const std::string why = "this engine has no such option.";
    for (const char* name : {"frequency_penalty", "presence_penalty"}) {
        if (sampling_.count(name) == 0) fields.refuse(name, {0}, why);
    }
    read_bias(fields, settings);
}

// OpenAI's {"198": -2.5}; the engine takes the texts "198:-2.5".
void SettingsReader::read_bias(Fields& fields, Settings& settings) const {
    const auto biased = sampling_.find("biased_token");
    if (biased == sampling_.end()) {
        fields.refuse("logit_bias", {Json::object()}, "this engine has no such option.");
        return;
    }
    const Json& bias = fields.object("logit_bias");
    if (bias.is_null()) return;
    settings.biased = true;
    for (const auto& [token, value] : bias.items()) {
        if (!value.is_number()) throw bad_request("logit_bias", "logit_bias has a value that is no number.");
        const std::string text = token + ":" + to_text(value);
        must(nl_options_set_text(settings.sampling.get(), biased->second.key, text.data(), text.size()), "logit_bias");
    }
}

void SettingsReader::read_end(Fields& fields, int64_t standard_tokens, nl_options* generation) const {
    const int64_t context = static_cast<int64_t>(model_->max_context());
    const int64_t limit = config_->max_tokens > 0 ? std::min(config_->max_tokens, context) : context;
    const auto old_name = fields.integer("max_tokens", 1, limit);
    const auto new_name = fields.integer("max_completion_tokens", 1, limit);
    if (old_name && new_name && *old_name != *new_name)
        throw bad_request("max_tokens", "max_tokens and max_completion_tokens differ: give one of them.");
    const int64_t standard = standard_tokens > 0 ? std::min(standard_tokens, limit) : config_->max_tokens;
    must(nl_options_set_int(generation, NL_OPTION_MAX_TOKENS, new_name.value_or(old_name.value_or(standard))));
    const int64_t least = fields.integer("min_tokens", 0, limit).value_or(0);
    must(nl_options_set_int(generation, NL_OPTION_MIN_TOKENS, least), "min_tokens");
    const bool ignores_end = fields.boolean("ignore_eos").value_or(false);
    must(nl_options_set_int(generation, NL_OPTION_END_TOKENS, ignores_end ? 0 : 1), "ignore_eos");
    for (const std::string& text : fields.texts("stop", kMostStops))
        must(nl_options_set_text(generation, NL_OPTION_STOP_TEXT, text.data(), text.size()), "stop");
    for (const int32_t token : fields.integers("stop_token_ids", kMostStops))
        must(nl_options_set_int(generation, NL_OPTION_STOP_TOKEN, token), "stop_token_ids");
}

// OpenAI's response_format, and `regex`, `choice` and `grammar` as the engine has them.
void SettingsReader::read_constraint(Fields& fields, Settings& settings) {
    const Json& format = fields.object("response_format");
    if (!format.is_null()) {
        Fields inside(format, "response_format.");
        const std::string type = inside.text("type").value_or("");
        const Json& wrapped = inside.object("json_schema");
        inside.finish();
        if (type == "json_schema" && wrapped.is_object()) {
            Fields schema(wrapped, "response_format.json_schema.");
            schema.text("name");
            schema.text("description");
            schema.boolean("strict");  // answers follow the schema either way
            constrain(settings, "response_format", NL_OPTION_JSON_SCHEMA, to_text(schema.object("schema")));
            schema.finish();
        } else if (type == "json_object") {
            must(nl_options_set_int(settings.generation.get(), NL_OPTION_JSON_OBJECT, 1), "response_format");
            settings.constrained_by = "response_format";
        } else if (type != "text") {
            throw bad_request("response_format",
                              "response_format is " + to_text(format) +
                                  ": expected type text, json_object, or json_schema with a schema.");
        }
    }
    if (const auto regex = fields.text("regex")) constrain(settings, "regex", NL_OPTION_REGEX, *regex);
    if (const auto grammar = fields.text("grammar")) constrain(settings, "grammar", NL_OPTION_GRAMMAR, *grammar);
    const auto choices = fields.texts("choice", 1024);
    for (size_t i = 0; i < choices.size(); ++i) {
        if (i > 0) settings.constrained_by.clear();
        constrain(settings, "choice", NL_OPTION_CHOICE, choices[i]);
    }
}

int32_t composition_named(const std::string& name, const std::string& param) {
    for (size_t i = 0; i < kCompositions.size(); ++i) {
        if (name == kCompositions[i]) return static_cast<int32_t>(i);
    }
    throw bad_request(param, param + " is " + name + ": expected exact, independent or blended.");
}

std::string composition_name(int64_t composition) {
    const auto i = static_cast<size_t>(composition);
    return i < kCompositions.size() ? kCompositions[i] : "unknown";
}

}  // namespace server
