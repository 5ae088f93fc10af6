#include "engine/sampling.h"

namespace nanolith {
namespace {

// SplitMix64's output function (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

}  // namespace

SampleParams sample_params(const SamplingOptions& options, int32_t position) {
    const uint64_t bits = mix(mix(options.seed) + static_cast<uint64_t>(position));
    return SampleParams{.temperature = options.temperature,
                        .top_k = options.top_k,
                        .top_p = options.top_p,
                        .min_p = options.min_p,
                        .uniform = static_cast<double>(bits >> 11) * 0x1.0p-53};
}

}  // namespace nanolith
