// A chat as JSON: messages, tools, documents and what else a template takes.
#pragma once

#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja/run.h"

namespace nanolith {

struct ChatRequest {
    jinja::Value messages;   // a list of dictionaries, at least one
    jinja::Value tools;      // a list, or none
    jinja::Value documents;  // a list, or none
    std::vector<std::pair<std::string, jinja::Value>> variables;
    std::tm date{};
    std::vector<std::string_view> texts;  // all texts in the messages' contents
};

// As templates know it.
const char* role_name(int32_t role);
// The system's clock.
std::tm today();

// INVALID_ARGUMENT where it is longer than a text may be.
Result<void> check_request_size(std::string_view json);
// INVALID_ARGUMENT where it is not such a request: names the member.
Result<ChatRequest> read_chat_request(jinja::Run& run, std::string_view json);

// What a template sees. `special_tokens` are "bos_token" and its like, and their spellings.
Result<std::vector<std::pair<std::string, jinja::Value>>> template_variables(
    jinja::Run& run, ChatRequest request, bool generation,
    const std::vector<std::pair<std::string, std::string>>& special_tokens);

}  // namespace nanolith
