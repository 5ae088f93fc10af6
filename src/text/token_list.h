// Lists of tokens that grow in small steps: a long text's tokens are most of the memory that encoding takes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace nanolith {

// Makes room for `more` tokens. A list that grows takes a quarter more than it has, not as much again.
inline void make_room(std::vector<int32_t>& tokens, size_t more) {
    const size_t needed = tokens.size() + more;
    if (needed > tokens.capacity()) tokens.reserve(std::max(needed, tokens.capacity() + tokens.capacity() / 4));
}

}  // namespace nanolith
