#include "tools.h"

#include <algorithm>
#include <array>

#include "api_error.h"

namespace server {
namespace {

// Members of a schema whose own members are schemas by name, and those that are values and no schemas.
constexpr std::array kNamedSchemas = {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"};
constexpr std::array kValues = {"const", "enum", "default", "examples"};

bool is_one_of(const auto& names, const std::string& name) {
    return std::ranges::find(names, name) != names.end();
}

// Schemas that mean the whole schema by "#" mean the part of another one that stands at `place` afterwards.
void move_references(Json& schema, const std::string& place) {
    if (schema.is_array()) {
        for (Json& element : schema) move_references(element, place);
    } else if (schema.is_object()) {
        for (auto& [key, value] : schema.items()) {
            if (key == "$ref" && value.is_string()) {
                const auto to = value.get<std::string>();
                if (to.starts_with('#')) value = "#" + place + to.substr(1);
            } else if (is_one_of(kNamedSchemas, key) && value.is_object()) {
                for (auto& member : value.items()) move_references(member.value(), place);
            } else if (!is_one_of(kValues, key)) {
                move_references(value, place);
            }
        }
    }
}

// What a function's arguments are: an object, whatever else its schema says of it.
Json arguments_schema(const Json& function, const std::string& place) {
    const auto found = function.find("parameters");
    if (found == function.end() || found->is_null()) return {{"type", "object"}, {"additionalProperties", false}};
    Json schema = *found;
    move_references(schema, place);
    const bool says_what = std::ranges::any_of(std::array{"type", "$ref", "anyOf", "oneOf", "allOf"},
                                               [&](const char* key) { return schema.contains(key); });
    if (schema.is_object() && !says_what) schema["type"] = "object";
    return schema;
}

// The schema of a call of this function, which stands at `place` of the whole schema.
Json call_schema(const Json& function, const std::string& place) {
    const Json properties = {{"name", {{"const", function["name"]}}},
                             {"arguments", arguments_schema(function, place + "/properties/arguments")}};
    return {{"type", "object"},
            {"properties", properties},
            {"required", Json::array({"name", "arguments"})},
            {"additionalProperties", false}};
}

std::string schema_of_calls(const Json& tools) {
    if (tools.size() == 1) return to_text(call_schema(tools[0]["function"], ""));
    Json calls = Json::array();
    for (size_t i = 0; i < tools.size(); ++i)
        calls.push_back(call_schema(tools[i]["function"], "/anyOf/" + std::to_string(i)));
    return to_text({{"anyOf", calls}});
}

const Json& function_of(const Json& tool) {
    const auto is_function = [](const Json& json) {
        return json.is_object() && json.contains("type") && json["type"] == "function" && json.contains("function") &&
               json["function"].is_object() && json["function"].contains("name") &&
               json["function"]["name"].is_string();
    };
    if (!is_function(tool))
        throw bad_request("tools",
                          R"(tools has an element that is not {"type": "function", "function": {"name": ...}}.)");
    return tool["function"];
}

bool is_strict(const Json& tool) {
    const Json& function = tool["function"];
    return function.contains("strict") && function["strict"] == true;
}

// The functions of which the answer must call one, as `choice` says; none where it need not.
Json forced_tools(const Json& choice, const Json& tools) {
    if (choice.is_null() || choice == "auto") return Json::array();
    const bool named = choice.is_object() && choice.size() == 2 && choice.contains("type") &&
                       choice["type"] == "function" && choice.contains("function") && choice["function"].is_object() &&
                       choice["function"].size() == 1 && choice["function"].contains("name");
    if (!named && choice != "required")
        throw bad_request("tool_choice", "tool_choice is " + to_text(choice) +
                                             ": expected auto, none, required, or {\"type\": \"function\", "
                                             "\"function\": {\"name\": ...}}.");
    if (tools.empty())
        throw bad_request("tool_choice", "tool_choice is " + to_text(choice) + " and there are no tools.");
    if (!named) return tools;
    for (const Json& tool : tools) {
        if (tool["function"]["name"] == choice["function"]["name"]) return Json::array({tool});
    }
    throw bad_request("tool_choice", "tool_choice names " + to_text(choice["function"]["name"]) +
                                         ", which is none of the functions in tools.");
}

}  // namespace

Tools read_tools(Fields& fields) {
    Tools result;
    for (const Json& tool : fields.list("tools", 128)) {
        result.names.push_back(function_of(tool)["name"].get<std::string>());
        result.list.push_back(tool);
    }
    const Json& choice = fields.any("tool_choice");
    const bool one_call = !fields.boolean("parallel_tool_calls").value_or(true);
    if (choice == "none") return {};
    const Json forced = forced_tools(choice, result.list);
    if (!forced.empty()) {
        result.call_schema = schema_of_calls(forced);
        return result;
    }
    if (std::ranges::any_of(result.list, is_strict))
        throw unsupported("tools",
                          "tools has a function with strict: that is promised only of an answer that must be a call, "
                          "with tool_choice required or a function's name.");
    if (one_call && !result.list.empty())
        throw unsupported("parallel_tool_calls",
                          "parallel_tool_calls is false: that is promised only of an answer that must be a call, with "
                          "tool_choice required or a function's name.");
    return result;
}

}  // namespace server
