#include "model/gguf/gguf_files.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "files/json.h"

namespace nanolith {
namespace {

constexpr const char* kPart = "split.no";
constexpr const char* kParts = "split.count";
constexpr const char* kTensors = "split.tensors.count";
constexpr int64_t kMaxParts = 65535;

// "-00001-of-00003.gguf"; `part` counts from 0.
std::string name_end(int64_t part, int64_t parts) {
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), "-%05lld-of-%05lld.gguf", static_cast<long long>(part + 1),
                  static_cast<long long>(parts));
    return text.data();
}

Result<StoredTensor> place_tensor(const GgufHeader& header, const GgufTensor& tensor, std::span<const std::byte> data) {
    const auto bad = [&](nl_status status, const auto&... parts) {
        return fail(status, header.path(), ": tensor ", show_json(tensor.name), " ", parts...);
    };
    StoredTensor stored{tensor.shape, find_block_type(tensor.type), {}, nullptr};
    if (stored.type == nullptr) {
        std::string known;
        for (const BlockType& type : block_types()) known += (known.empty() ? "" : ", ") + std::string(type.name);
        const char* const name = other_block_type_name(tensor.type);
        return bad(NL_ERROR_UNSUPPORTED, "has the type ", name != nullptr ? name : std::to_string(tensor.type),
                   ": expected one of ", known);
    }
    const BlockType& type = *stored.type;
    int64_t elements = 1;  // fewer than 2^63, see GgufTensor
    for (const int64_t size : tensor.shape) elements *= size;
    const int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
    if (row % type.elements != 0)
        return bad(NL_ERROR_BAD_MODEL, "has rows of ", row, " elements: expected a multiple of ", type.elements,
                   ", a block of ", type.name);
    const uint64_t blocks = static_cast<uint64_t>(elements) / static_cast<uint64_t>(type.elements);
    const uint64_t there = tensor.offset < data.size() ? data.size() - tensor.offset : 0;
    if (blocks > there / static_cast<uint64_t>(type.bytes))
        return bad(NL_ERROR_BAD_MODEL, "has ", blocks, " blocks of ", type.bytes, " bytes at byte ", tensor.offset,
                   ": expected them inside of the ", data.size(), " bytes of data");
    stored.bytes = data.subspan(tensor.offset, blocks * static_cast<uint64_t>(type.bytes));
    return stored;
}

Result<void> check_overlaps(const StoredTensors& tensors, const std::string& path) {
    std::vector<const StoredTensors::value_type*> order;
    order.reserve(tensors.size());
    for (const auto& tensor : tensors) order.push_back(&tensor);
    std::ranges::sort(order, {}, [](const auto* tensor) { return tensor->second.bytes.data(); });
    for (size_t i = 1; i < order.size(); ++i) {
        const auto& before = order[i - 1]->second.bytes;
        if (before.data() + before.size() > order[i]->second.bytes.data())
            return fail(NL_ERROR_BAD_MODEL, path, ": tensor ", show_json(order[i]->first), " overlaps ",
                        show_json(order[i - 1]->first));
    }
    return {};
}

// Opens one file and puts its tensors among the others.
Result<GgufHeader> open_part(const std::string& path, WeightPlace place, GgufFiles& files) {
    NL_ASSIGN(OpenFile opened, OpenFile::open(path));
    NL_ASSIGN(auto file, WeightFile::of(std::move(opened), place));
    NL_ASSIGN(GgufHeader header, GgufHeader::read(file->file()));
    NL_ASSIGN(StoredTensors tensors, place_tensors(header, file->bytes().subspan(header.data_offset())));
    TensorMap plain;  // tensors whose elements WeightFile checks itself; DecodedWeights checks those in blocks
    for (auto& [name, tensor] : tensors) {
        tensor.file = file.get();
        if (!tensor.type->quantised()) plain.emplace(name, Tensor{tensor.type->name, tensor.shape, tensor.bytes});
        if (!files.tensors.emplace(name, std::move(tensor)).second)
            return fail(NL_ERROR_BAD_MODEL, path, ": tensor ", show_json(name), " is in another part too");
    }
    file->set_tensors(std::move(plain));
    files.files.push_back(std::move(file));
    return header;
}

Result<void> open_other_parts(const std::string& path, WeightPlace place, int64_t parts, GgufFiles& files) {
    const std::string end = name_end(0, parts);
    if (!path.ends_with(end))
        return fail(NL_ERROR_BAD_MODEL, path, " is the first of ", parts, " parts: expected a name that ends in ", end);
    const std::string begin = path.substr(0, path.size() - end.size());
    for (int64_t part = 1; part < parts; ++part) {
        NL_ASSIGN(const GgufHeader header, open_part(begin + name_end(part, parts), place, files));
        NL_ASSIGN(const auto number, header.integer(kPart, part, part));
        NL_ASSIGN(const auto count, header.integer(kParts, parts, parts));
        if (!number) return header.wrong(kPart, std::to_string(part));
        if (!count) return header.wrong(kParts, std::to_string(parts));
    }
    NL_ASSIGN(const auto tensors, files.header.integer(kTensors, 0, INT64_MAX));
    if (tensors && static_cast<size_t>(*tensors) != files.tensors.size())
        return files.header.wrong(kTensors, std::to_string(files.tensors.size()) + ", as the parts have");
    return {};
}

}  // namespace

Result<StoredTensors> place_tensors(const GgufHeader& header, std::span<const std::byte> data) {
    StoredTensors tensors;
    for (const GgufTensor& tensor : header.tensors()) {
        NL_ASSIGN(StoredTensor stored, place_tensor(header, tensor, data));
        tensors.emplace(tensor.name, std::move(stored));
    }
    NL_TRY(check_overlaps(tensors, header.path()));
    return tensors;
}

Result<GgufFiles> open_gguf(const std::string& path, WeightPlace place) {
    GgufFiles files;
    NL_ASSIGN(files.header, open_part(path, place, files));
    NL_ASSIGN(const auto part, files.header.integer(kPart, 0, kMaxParts));
    NL_ASSIGN(const auto parts, files.header.integer(kParts, 0, kMaxParts));
    if (part.value_or(0) != 0)
        return files.header.wrong(kPart, "0: name the first part, and keep the others beside it");
    if (parts.value_or(1) > 1) NL_TRY(open_other_parts(path, place, *parts, files));
    return files;
}

}  // namespace nanolith
