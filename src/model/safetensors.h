// The safetensors container: 8 bytes of header length (little-endian), a JSON header, then the tensors' bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/dtype.h"
#include "backend/weight_view.h"
#include "base/result.h"

namespace nanolith {

// A tensor inside a file's bytes, which it does not own.
struct Tensor {
    std::string dtype;           // as the file spells it: "F32", "F16", "BF16", ...
    std::vector<int64_t> shape;  // row-major
    std::span<const std::byte> bytes;
    WeightSource* source = nullptr;          // where set, the bytes are read through it alone
    const CompactSource* compact = nullptr;  // of a matrix that is compact, see WeightView
};

using TensorMap = std::map<std::string, Tensor, std::less<>>;

// "[2, 3]", for messages.
std::string show_shape(std::span<const int64_t> shape);

constexpr size_t kSafetensorsLengthBytes = 8;

// The header's length, from the file's first kSafetensorsLengthBytes (fewer where the file ends before) and the file's
// size. BAD_MODEL: it is more than the file has or than any header is long.
Result<uint64_t> safetensors_header_length(std::span<const std::byte> begin, size_t file_size,
                                           const std::string& where);

// The tensors that `header` describes; `data` is what follows it, which is not touched. BAD_MODEL names what
// contradicts the format: a header that is cut short or is not JSON, a name twice, an offset outside of the file, a
// span that is not shape times dtype, tensors that overlap or leave a gap. The size of a dtype that is not known here
// is not checked. `where` begins messages: the file's path.
Result<TensorMap> parse_safetensors_header(std::string_view header, std::span<const std::byte> data,
                                           const std::string& where);
// The same of a whole file in memory.
Result<TensorMap> parse_safetensors(std::span<const std::byte> file, const std::string& where);

// The format of weights that a file calls `name`; nothing where no weight of that kind is read here.
std::optional<DType> weight_dtype(std::string_view name);

}  // namespace nanolith
