// The scales of a row's groups as compact weights have them (ScaleKind::half): a power of two for the row, times a
// float16 for each group.
#pragma once

#include <algorithm>
#include <cmath>

#include "base/convert.h"

namespace nanolith {

// The power of two for a row whose largest |scale| is `most`. Divided by it the largest is 2^8 to 2^9, so that the
// product of a scale and a zero point is a float16 too, and scales with the 8 bits of a bfloat16 are exact down to
// 2^-25 of the largest.
inline float row_power(float most) {
    if (most == 0 || !std::isfinite(most)) return 1;
    int exponent = 0;
    std::frexp(most, &exponent);
    return std::ldexp(1.0F, std::clamp(exponent - 9, -126, 127));
}

// The float16 that, multiplied by `power`, is nearest to the scale.
inline Half divided_scale(float scale, float power) {
    return to_half(scale / power);
}

// Whether that product is the scale itself. Scales that are not finite count as exact: they stay so.
inline bool splits_exactly(float scale, float power) {
    return !std::isfinite(scale) || to_float(divided_scale(scale, power)) * power == scale;
}

}  // namespace nanolith
