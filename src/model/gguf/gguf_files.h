// The files of a GGUF model, one or the parts that it is split into, and the tensors in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/block_type.h"
#include "base/result.h"
#include "files/gguf.h"
#include "model/weight_file.h"

namespace nanolith {

// A tensor with its place in a file.
struct StoredTensor {
    std::vector<int64_t> shape;  // row-major
    const BlockType* type = nullptr;
    std::span<const std::byte> bytes;  // whole blocks, at addresses of the file
    WeightFile* file = nullptr;
};

using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;

// The tensors that the header of a file names, `data` being the bytes behind the header, which are not touched.
// UNSUPPORTED: a type that is not decoded here. BAD_MODEL: rows that are not whole blocks, a tensor that is not inside
// of the data, tensors that overlap. Messages name the tensor.
Result<StoredTensors> place_tensors(const GgufHeader& header, std::span<const std::byte> data);

struct GgufFiles {
    GgufHeader header;  // of the first file, which has the model's metadata
    std::vector<std::unique_ptr<WeightFile>> files;
    StoredTensors tensors;
};

// Opens the file and, where it is the first of several (split.count), the others beside it by their names
// (NAME-00002-of-00003.gguf). BAD_MODEL: they are not parts of one model, or `path` is not the first.
// Errors of GgufHeader::read and place_tensors besides.
Result<GgufFiles> open_gguf(const std::string& path, WeightPlace place);

}  // namespace nanolith
