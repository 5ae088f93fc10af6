// The names of tensors in GGUF files, which are the same in all families.
#pragma once

#include "model/architecture.h"

namespace nanolith {

inline constexpr const char* kGgufEmbedding = "token_embd.weight";
inline constexpr const char* kGgufHead = "output.weight";
inline constexpr const char* kGgufRopeFactors = "rope_freqs.weight";
inline constexpr const char* kGgufRopeShort = "rope_factors_short.weight";
inline constexpr const char* kGgufRopeLong = "rope_factors_long.weight";
// Ends the name of a tensor that has one matrix for each expert; that of expert 3 alone is called NAME[3] here.
inline constexpr const char* kGgufExpertsEnd = "_exps.weight";

// The names in GGUF files of the tensors that a family has in its checkpoints.
TensorNames gguf_tensor_names(const TensorNames& names);

}  // namespace nanolith
