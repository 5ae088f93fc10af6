#include "option_values.h"

#include <algorithm>
#include <stdexcept>

#include "api_error.h"

namespace server {
namespace {

std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text;
}

void set_from_text(nl_options* options, const OptionFacts& facts, const std::string& value, const std::string& text) {
    try {
        size_t read = value.size();
        if (facts.type == "int") {
            must(nl_options_set_int(options, facts.key, std::stoll(value, &read)));
        } else if (facts.type == "float") {
            must(nl_options_set_float(options, facts.key, std::stod(value, &read)));
        } else {
            must(nl_options_set_text(options, facts.key, value.data(), value.size()));
        }
        if (read != value.size()) throw std::invalid_argument(value);
    } catch (const std::logic_error&) {
        throw bad_request("", "--engine " + text + ": expected a number");
    }
}

}  // namespace

std::map<std::string, OptionFacts> options_of_kind(int32_t kind) {
    const std::string text = text_of([kind](char* buffer, size_t capacity, size_t* length) {
        return nl_option_describe(kind, buffer, capacity, length);
    });
    std::map<std::string, OptionFacts> options;
    for (const Json& option : Json::parse(text)) {
        OptionFacts facts;
        facts.key = option.at("key").get<int32_t>();
        facts.type = option.at("type").get<std::string>();
        facts.least = option.at("least").get<double>();
        facts.most = option.at("most").get<double>();
        if (facts.type == "int" || facts.type == "int list") {
            facts.least_int = option.at("least").get<int64_t>();
            facts.most_int = option.at("most").get<int64_t>();
        }
        options.emplace(lower(option.at("name").get<std::string>()), facts);
    }
    return options;
}

void set_from_texts(nl_options* options, const std::vector<std::string>& texts) {
    const auto known = options_of_kind(NL_OPTIONS_ENGINE);
    for (const std::string& text : texts) {
        const size_t sign = text.find('=');
        const auto found = known.find(lower(text.substr(0, sign)));
        if (sign == std::string::npos || found == known.end())
            throw bad_request("", "--engine " + text + ": expected NAME=VALUE with the name of an engine's option");
        set_from_text(options, found->second, text.substr(sign + 1), text);
    }
}

}  // namespace server
