// The one rule for page sizes, and how many pages tokens need.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>

#include "base/result.h"

namespace nanolith {

// A page holds a power of two of tokens, within these bounds: devices shift and mask to find a token.
constexpr int32_t kLeastPageSize = 16;
constexpr int32_t kMostPageSize = 256;

inline Result<void> check_page_size(int32_t page_size) {
    if (page_size >= kLeastPageSize && page_size <= kMostPageSize &&
        std::has_single_bit(static_cast<uint32_t>(page_size)))
        return {};
    return fail(NL_ERROR_INVALID_ARGUMENT, "page_size is ", page_size, ": expected a power of two from ",
                kLeastPageSize, " to ", kMostPageSize);
}

// How many pages hold `tokens` tokens.
template <std::integral Tokens>
constexpr Tokens pages_for(Tokens tokens, int32_t page_size) {
    return (tokens + page_size - 1) / page_size;
}

}  // namespace nanolith
