// Scores and log-sum-exps are to base 2 in the kernels, because a power of two is one instruction, and natural where
// callers see them.
#pragma once

namespace nanolith::cuda {

constexpr float kLog2E = 1.44269504088896341F;  // a natural logarithm times this is the logarithm to base 2
constexpr float kLn2 = 0.693147180559945309F;   // a logarithm to base 2 times this is the natural one

}  // namespace nanolith::cuda
