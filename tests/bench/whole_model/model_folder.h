// Model folders of known models' shapes with random weights in bfloat16, as programs find them that know a library by
// its public interface alone, and peers too.
#pragma once

#include <filesystem>
#include <string>

#include "bench/shapes.h"

namespace nanolith::bench {

// Writes config.json and the weights to the folder, which is made where it is not there: safetensors files of about a
// gigabyte with their index, written by several threads. A folder that has these very files already is left as it is.
// Returns what went wrong, or an empty text.
std::string write_model_folder(const Shape& shape, const std::filesystem::path& folder);

}  // namespace nanolith::bench
