// Rotary position embedding (Su et al., "RoFormer", 2021): elements i and i + head_dim/2 of a head are
// rotated by the angle position * frequency[i], and multiplied by a magnitude where a model extends its context so.
#pragma once

namespace nanolith::cuda {

// Cosine and sine of position * frequency, times the magnitude. The product is exact in double and is reduced to one
// turn there, so that the error stays at float32 rounding for every position; float32 alone loses 1e-2 at position
// 131072.
__device__ inline float2 rope_rotation(int position, float frequency, float magnitude = 1.0F) {
    constexpr double kInversePi = 0.318309886183790671537767526745;
    const double half_turns = static_cast<double>(position) * static_cast<double>(frequency) * kInversePi;
    const double reduced = half_turns - 2.0 * rint(half_turns * 0.5);
    float2 rotation;
    sincospif(static_cast<float>(reduced), &rotation.y, &rotation.x);
    rotation.x *= magnitude;
    rotation.y *= magnitude;
    return rotation;
}

}  // namespace nanolith::cuda
