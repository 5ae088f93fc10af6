// What blended composition chooses, recomputes and saves as one.
#pragma once

#include <cstdint>

namespace nanolith {

// Tokens: few, so that a short document's share reaches several places, and several, so that rows that are computed
// side by side are not too many sequences. Divides every page size.
constexpr int32_t kBlendUnit = 4;

// How many units hold `tokens` tokens.
constexpr int32_t units_for(int32_t tokens) {
    return (tokens + kBlendUnit - 1) / kBlendUnit;
}

}  // namespace nanolith
