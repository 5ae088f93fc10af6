// Finds calls of functions in a model's answer while it comes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "json.h"

namespace server {

struct ToolCall {
    std::string id;  // nine letters and digits, which all templates take
    std::string name;
    std::string arguments;  // JSON
};

// The ways in which models write calls:
// - <tool_call>{"name": ..., "arguments": {...}}</tool_call>, any number, also behind text (Hermes, Qwen);
// - an answer that is nothing but {"name": ..., "parameters": {...}}, or several with ';' between, or a list of them
//   (Llama 3);
// - behind the token [TOOL_CALLS] such a list, or name{...} (Mistral).
// What only looks like a call, or calls a function that the request does not have, stays text.
class ToolCallParser {
  public:
    // `names` are the functions that may be called.
    explicit ToolCallParser(std::vector<std::string> names) : names_(std::move(names)) {}

    // The model has drawn [TOOL_CALLS]: all that follows are calls.
    void mark() { marked_ = true; }
    // Takes what comes; appends to `text` what surely is no call.
    void push(std::string_view piece, std::string& text, std::vector<ToolCall>& calls);
    // The answer is over.
    void finish(std::string& text, std::vector<ToolCall>& calls);

  private:
    void give(size_t end, std::string& text);
    bool take_tagged(std::string& text, std::vector<ToolCall>& calls);
    std::optional<ToolCall> read_call(const Json& json) const;
    bool read_calls(std::string_view text, std::vector<ToolCall>& calls) const;
    bool read_named(std::string_view text, std::vector<ToolCall>& calls) const;

    std::vector<std::string> names_;
    std::string held_;     // what may yet be a call
    bool marked_ = false;  // [TOOL_CALLS] came
    bool begun_ = false;   // the answer has begun with something else than white space or a bare call
    bool called_ = false;  // there was a call
    bool blank_ = true;    // nothing but white space since the beginning or the last call
};

}  // namespace server
