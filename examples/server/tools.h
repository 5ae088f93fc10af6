// The functions that a chat's request lets an answer call.
#pragma once

#include <string>
#include <vector>

#include "fields.h"

namespace server {

struct Tools {
    Json list = Json::array();       // as templates take them; empty where the request wants none called
    std::vector<std::string> names;  // of these
    // Where the answer must be a call: the JSON schema of {"name": ..., "arguments": ...}. Empty otherwise.
    std::string call_schema;
};

// The fields `tools`, `tool_choice` and `parallel_tool_calls`.
Tools read_tools(Fields& fields);

}  // namespace server
