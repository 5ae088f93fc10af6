// The safetensors container: 8 bytes of header length (little-endian), a JSON header, then the tensors' bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace nanolith {

// A tensor inside a file's bytes, which it does not own.
struct Tensor {
    std::string dtype;           // as the file spells it: "F32", "F16", "BF16", ...
    std::vector<int64_t> shape;  // row-major
    std::span<const std::byte> bytes;
};

using TensorMap = std::map<std::string, Tensor, std::less<>>;

// "[2, 3]", for messages.
std::string show_shape(std::span<const int64_t> shape);

// The tensors of a whole file. BAD_MODEL names what contradicts the format: a header that is cut short or is not
// JSON, a name twice, an offset outside of the file, a span that is not shape times dtype, tensors that overlap or
// leave a gap. The size of a dtype that is not known here is not checked. `where` begins messages: the file's path.
Result<TensorMap> parse_safetensors(std::span<const std::byte> file, const std::string& where);

}  // namespace nanolith
