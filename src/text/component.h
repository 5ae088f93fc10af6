// What the readers of a tokenizer.json's components share.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "files/json_fields.h"
#include "text/pattern.h"

namespace nanolith {

// A component's "type". BAD_MODEL where there is none; `what` is "normalizer" or the like.
inline Result<std::string> read_type(const JsonFields& fields, const char* what) {
    NL_ASSIGN(std::string type, fields.string_or("type", ""));
    if (type.empty()) return fields.wrong("type", std::string("the name of a ") + what);
    return type;
}

inline Error unknown_component(const std::string& where, const char* what, const std::string& type) {
    return fail(NL_ERROR_UNSUPPORTED, where, ": the ", what, " ", show_json(type), " is not supported");
}

inline Result<std::string> read_string(const JsonFields& fields, const char* name) {
    const Json* const value = fields.find(name);
    const auto* const text = value != nullptr ? value->as<std::string>() : nullptr;
    if (text == nullptr) return fields.wrong(name, "a string");
    return *text;
}

// A "pattern": {"String": ".."} or {"Regex": ".."}.
inline Result<Pattern> read_pattern(const JsonFields& fields, const std::string& where) {
    const Json* const value = fields.find("pattern");
    const Json* const literal = value != nullptr ? value->find("String") : nullptr;
    const Json* const regex = value != nullptr ? value->find("Regex") : nullptr;
    if (literal != nullptr && literal->as<std::string>() != nullptr)
        return Pattern::literal(*literal->as<std::string>());
    if (regex != nullptr && regex->as<std::string>() != nullptr)
        return Pattern::regex(*regex->as<std::string>(), where);
    return fields.wrong("pattern", "an object with a \"String\" or a \"Regex\"");
}

// The members of a "Sequence", under `name`.
inline Result<const Json::Array*> read_list(const JsonFields& fields, const char* name) {
    const Json* const value = fields.find(name);
    const auto* const list = value != nullptr ? value->as<Json::Array>() : nullptr;
    if (list == nullptr) return fields.wrong(name, "an array");
    return list;
}

}  // namespace nanolith
