// What a chat is made of, and what comes of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "nanolith/nanolith.h"

namespace nanolith {

struct ChatMessage {
    int32_t role = NL_ROLE_USER;  // NL_ROLE_*
    std::string_view content;     // as a caller gave it, perhaps ill-formed
};

struct RenderedChat {
    std::vector<int32_t> tokens;
    std::vector<size_t> ends;  // for each message, where its part of the tokens ends
};

}  // namespace nanolith
