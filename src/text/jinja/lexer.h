// A template's source cut into text, tags and the words inside them, with Jinja's rules for white space as Transformers
// sets them: trim_blocks and lstrip_blocks are on, and the template's last line break is dropped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace nanolith::jinja {

enum class TokenKind : uint8_t {
    data,            // text outside of tags
    variable_begin,  // {{
    variable_end,    // }}
    block_begin,     // {%
    block_end,       // %}
    name,            // also keywords
    string,          // `text` is what it stands for
    integer,
    real,
    punctuation,  // `text` is the operator
    end
};

struct Token {
    TokenKind kind = TokenKind::end;
    std::string text;
    size_t line = 1;
};

// UNSUPPORTED where it is no template: says why and in which line.
Result<std::vector<Token>> read_tokens(std::string_view source);

}  // namespace nanolith::jinja
