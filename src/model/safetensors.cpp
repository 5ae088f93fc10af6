#include "model/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>

#include "files/json.h"

namespace nanolith {
namespace {

constexpr const char* kMetadata = "__metadata__";

struct DTypeSize {
    std::string_view name;
    uint64_t bytes;
};
constexpr std::array kDTypeSizes = {
    DTypeSize{"F64", 8},     DTypeSize{"F32", 4}, DTypeSize{"F16", 2},     DTypeSize{"BF16", 2},
    DTypeSize{"I64", 8},     DTypeSize{"I32", 4}, DTypeSize{"I16", 2},     DTypeSize{"I8", 1},
    DTypeSize{"U64", 8},     DTypeSize{"U32", 4}, DTypeSize{"U16", 2},     DTypeSize{"U8", 1},
    DTypeSize{"BOOL", 1},    DTypeSize{"C64", 8}, DTypeSize{"F8_E4M3", 1}, DTypeSize{"F8_E5M2", 1},
    DTypeSize{"F8_E8M0", 1},
};

// Both files and messages speak of one tensor at a time.
struct Place {
    const std::string& where;
    const std::string& name;

    template <typename... Parts>
    [[nodiscard]] Error bad(const Parts&... parts) const {
        return fail(NL_ERROR_BAD_MODEL, where, ": tensor ", show_json(name), ": ", parts...);
    }
};

// A JSON array of non-negative integers up to INT64_MAX.
std::optional<std::vector<int64_t>> read_integers(const Json& entry, const char* key) {
    const Json* found = entry.find(key);
    const auto* items = found != nullptr ? found->as<Json::Array>() : nullptr;
    if (items == nullptr) return std::nullopt;
    std::vector<int64_t> integers;
    for (const Json& item : *items) {
        const auto* value = item.as<uint64_t>();
        if (value == nullptr || *value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
            return std::nullopt;
        integers.push_back(static_cast<int64_t>(*value));
    }
    return integers;
}

// Bytes of a tensor; nothing where the product does not fit in 64 bits.
std::optional<uint64_t> byte_size(uint64_t element_bytes, std::span<const int64_t> shape) {
    // A zero anywhere makes the tensor empty, however large the other factors are.
    if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
    uint64_t bytes = element_bytes;
    for (const int64_t dimension : shape) {
        if (bytes > std::numeric_limits<uint64_t>::max() / static_cast<uint64_t>(dimension)) return std::nullopt;
        bytes *= static_cast<uint64_t>(dimension);
    }
    return bytes;
}

Result<void> check_size(const Place& place, const Tensor& tensor) {
    const auto* known = std::find_if(kDTypeSizes.begin(), kDTypeSizes.end(),
                                     [&](const DTypeSize& size) { return size.name == tensor.dtype; });
    if (known == kDTypeSizes.end()) return {};
    const std::optional<uint64_t> expected = byte_size(known->bytes, tensor.shape);
    if (!expected) return place.bad("shape ", show_shape(tensor.shape), " has more bytes than 64 bits can count");
    if (*expected != tensor.bytes.size()) {
        return place.bad("data_offsets span ", tensor.bytes.size(), " bytes: expected ", *expected, " for shape ",
                         show_shape(tensor.shape), " of ", tensor.dtype);
    }
    return {};
}

Result<Tensor> read_tensor(const Place& place, const Json& entry, std::span<const std::byte> data) {
    if (entry.as<Json::Object>() == nullptr) return place.bad("it is ", show_json(entry), ": expected an object");
    Tensor tensor;
    const Json* dtype = entry.find("dtype");
    const auto* dtype_name = dtype != nullptr ? dtype->as<std::string>() : nullptr;
    if (dtype_name == nullptr) return place.bad("dtype is missing or not a string");
    tensor.dtype = *dtype_name;
    const auto shape = read_integers(entry, "shape");
    if (!shape) return place.bad("shape is missing or not a list of sizes: ", show_json(entry));
    tensor.shape = *shape;
    const auto offsets = read_integers(entry, "data_offsets");
    if (!offsets || offsets->size() != 2) {
        return place.bad("data_offsets is missing or not [begin, end]: ", show_json(entry));
    }
    const auto begin = static_cast<uint64_t>((*offsets)[0]);
    const auto end = static_cast<uint64_t>((*offsets)[1]);
    if (begin > end || end > data.size()) {
        return place.bad("data_offsets are [", begin, ", ", end, "]: expected a span inside of the ", data.size(),
                         " bytes of data");
    }
    tensor.bytes = data.subspan(begin, end - begin);
    NL_TRY(check_size(place, tensor));
    return tensor;
}

// The format wants every byte to belong to exactly one tensor: neither overlaps nor gaps.
Result<void> check_layout(const TensorMap& tensors, std::span<const std::byte> data, const std::string& where) {
    std::vector<const TensorMap::value_type*> order;
    for (const auto& item : tensors) order.push_back(&item);
    std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
        const auto& left = a->second.bytes;
        const auto& right = b->second.bytes;
        return left.data() != right.data() ? left.data() < right.data() : left.size() < right.size();
    });
    size_t reached = 0;
    for (const auto* item : order) {
        const auto begin = static_cast<size_t>(item->second.bytes.data() - data.data());
        if (begin != reached) {
            return Place{where, item->first}.bad("it begins at byte ", begin, " of the data: expected ", reached,
                                                 begin < reached ? ": it overlaps another" : ": it leaves a gap");
        }
        reached += item->second.bytes.size();
    }
    if (reached != data.size()) {
        return fail(NL_ERROR_BAD_MODEL, where, ": tensors take ", reached, " bytes: expected all ", data.size(),
                    " bytes of the data");
    }
    return {};
}

}  // namespace

std::optional<DType> weight_dtype(std::string_view name) {
    if (name == "F32") return DType::f32;
    if (name == "F16") return DType::f16;
    if (name == "BF16") return DType::bf16;
    if (name == "F8_E4M3") return DType::f8_e4m3;
    return std::nullopt;
}

Result<uint64_t> safetensors_header_length(std::span<const std::byte> begin, size_t file_size,
                                           const std::string& where) {
    if (begin.size() < kSafetensorsLengthBytes) {
        return fail(NL_ERROR_BAD_MODEL, where, ": ", begin.size(), " bytes: expected a header length of ",
                    kSafetensorsLengthBytes, " bytes at least");
    }
    uint64_t length = 0;
    for (size_t i = 0; i < kSafetensorsLengthBytes; ++i) length |= std::to_integer<uint64_t>(begin[i]) << (8 * i);
    const uint64_t most = std::min<uint64_t>(file_size - kSafetensorsLengthBytes, kMaxJsonBytes);
    if (length > most) {
        return fail(NL_ERROR_BAD_MODEL, where, ": the header's length is ", length, ": expected at most ", most,
                    " in a file of ", file_size, " bytes");
    }
    return length;
}

std::string show_shape(std::span<const int64_t> shape) {
    std::string text = "[";
    for (size_t i = 0; i < shape.size(); ++i) {
        if (i > 0) text += ", ";
        if (i == 8) return text + "...]";
        text += std::to_string(shape[i]);
    }
    return text + "]";
}

Result<TensorMap> parse_safetensors(std::span<const std::byte> file, const std::string& where) {
    const auto begin = file.first(std::min(file.size(), kSafetensorsLengthBytes));
    NL_ASSIGN(const uint64_t length, safetensors_header_length(begin, file.size(), where));
    const auto header = file.subspan(kSafetensorsLengthBytes, length);
    return parse_safetensors_header({reinterpret_cast<const char*>(header.data()), header.size()},
                                    file.subspan(kSafetensorsLengthBytes + length), where);
}

Result<TensorMap> parse_safetensors_header(std::string_view text, std::span<const std::byte> data,
                                           const std::string& where) {
    NL_ASSIGN(const Json header, parse_json_object(text, where + " (header)"));
    TensorMap tensors;
    for (const auto& [name, entry] : *header.as<Json::Object>()) {
        if (name == kMetadata) {
            if (entry.as<Json::Object>() != nullptr) continue;
            return Place{where, name}.bad("it is ", show_json(entry), ": expected an object");
        }
        NL_ASSIGN(Tensor tensor, read_tensor(Place{where, name}, entry, data));
        tensors.emplace(name, std::move(tensor));
    }
    NL_TRY(check_layout(tensors, data, where));
    return tensors;
}

}  // namespace nanolith
