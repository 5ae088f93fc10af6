// The kept corpus and the tokens that the reference packages make of it: tests/text/make_fixtures.py.
#pragma once

#include <string>
#include <vector>

#include "files/json.h"

namespace nanolith {

inline std::string text_fixture(const std::string& name) {
    return std::string(NL_TEXT_FIXTURES) + "/" + name;
}

// A character of latin-1 text is a byte.
inline std::string bytes_of_latin1(const std::string& text) {
    std::string bytes;
    for (size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<uint8_t>(text[i]);
        bytes += byte < 0x80 ? text[i] : static_cast<char>((byte & 3U) << 6U | (static_cast<uint8_t>(text[++i]) & 63U));
    }
    return bytes;
}

inline std::vector<std::string> read_corpus() {
    const auto json = read_json_object(text_fixture("corpus.json"));
    std::vector<std::string> texts;
    for (const Json& entry : *json->find("texts")->as<Json::Array>()) {
        const auto& pair = *entry.as<Json::Array>();
        const auto& text = *pair[1].as<std::string>();
        texts.push_back(*pair[0].as<std::string>() == "latin-1" ? bytes_of_latin1(text) : text);
    }
    return texts;
}

inline std::vector<int32_t> read_tokens(const Json& json) {
    std::vector<int32_t> tokens;
    for (const Json& token : *json.as<Json::Array>()) tokens.push_back(static_cast<int32_t>(*token.as<uint64_t>()));
    return tokens;
}

}  // namespace nanolith
