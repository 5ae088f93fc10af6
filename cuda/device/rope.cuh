// Rotary position embedding (Su et al., "RoFormer", 2021): elements i and i + head_dim/2 of a head turn by
// position * frequency[i], and are multiplied by a magnitude where a model stretches its context so.
#pragma once

namespace nanolith::cuda {

// Cosine and sine of position * frequency, times the magnitude. The product is exact in double and is reduced to one
// turn there, so that the error stays at float32 rounding for every position; float32 alone loses 1e-2 at position
// 131072.
__device__ inline float2 rope_turn(int position, float frequency, float magnitude = 1.0F) {
    constexpr double kInversePi = 0.318309886183790671537767526745;
    const double half_turns = static_cast<double>(position) * static_cast<double>(frequency) * kInversePi;
    const double reduced = half_turns - 2.0 * rint(half_turns * 0.5);
    float2 turn;
    sincospif(static_cast<float>(reduced), &turn.y, &turn.x);
    turn.x *= magnitude;
    turn.y *= magnitude;
    return turn;
}

}  // namespace nanolith::cuda
