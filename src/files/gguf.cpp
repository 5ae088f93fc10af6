#include "files/gguf.h"

#include <dirent.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include "files/json.h"

namespace nanolith {
namespace {

static_assert(std::endian::native == std::endian::little, "values are taken as they lie in the file");

constexpr std::string_view kMagic = "GGUF";
constexpr uint64_t kDefaultAlignment = 32;
constexpr int64_t kMaxAlignment = 1 << 20;
constexpr uint64_t kMaxNameBytes = 65535;
constexpr uint32_t kMaxDimensions = 4;
// These limits are far above any published model.
constexpr uint64_t kMaxTensors = 1U << 20U;
constexpr uint64_t kMaxValues = 1U << 16U;
constexpr uint64_t kMaxStrings = 1U << 24U;  // of one array

// Bytes of a value; 0 for strings and arrays, which have their length in front.
size_t size_of(GgufType type) {
    switch (type) {
        case GgufType::u8:
        case GgufType::i8:
        case GgufType::boolean:
            return 1;
        case GgufType::u16:
        case GgufType::i16:
            return 2;
        case GgufType::u32:
        case GgufType::i32:
        case GgufType::f32:
            return 4;
        case GgufType::u64:
        case GgufType::i64:
        case GgufType::f64:
            return 8;
        case GgufType::string:
        case GgufType::array:
            break;
    }
    return 0;
}

template <typename T>
T value_at(std::string_view bytes, size_t offset) {
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
}

// Reads bytes from `offset` on, fewer where the file ends.
using ReadAt = std::function<Result<size_t>(size_t offset, size_t count, char* to)>;

}  // namespace

// Parses the header from its beginning, and reads more of the file into memory whenever it needs more bytes.
class GgufReader {
  public:
    GgufReader(ReadAt read_at, uint64_t file_size, const std::string& path)
        : read_at_(std::move(read_at)), file_size_(file_size) {
        header_.path_ = path;
    }

    Result<GgufHeader> read() {
        NL_TRY(read_version());
        NL_ASSIGN(const auto num_tensors, take<uint64_t>());
        NL_ASSIGN(const auto num_values, take<uint64_t>());
        NL_TRY(check_count("tensors", num_tensors, kLeastTensorBytes, kMaxTensors));
        NL_TRY(check_count("metadata", num_values, kLeastValueBytes, kMaxValues));
        for (uint64_t i = 0; i < num_values; ++i) NL_TRY(read_key_and_value());
        for (uint64_t i = 0; i < num_tensors; ++i) NL_TRY(read_tensor());
        NL_TRY(find_data());
        return std::move(header_);
    }

  private:
    static constexpr uint64_t kLeastTensorBytes = 8 + 4 + 4 + 8;
    static constexpr uint64_t kLeastValueBytes = 8 + 4 + 1;
    static constexpr size_t kLeastRead = size_t{1} << 20U;

    template <typename... Parts>
    [[nodiscard]] Error bad(const Parts&... parts) const {
        return fail(NL_ERROR_BAD_MODEL, header_.path_, ": ", parts...);
    }

    // Makes sure that the next `count` bytes are in header_.bytes_.
    Result<void> need(uint64_t count) {
        std::string& bytes = header_.bytes_;
        if (count <= bytes.size() - at_) return {};
        if (count > file_size_ - at_)
            return bad("it is cut short: ", count, " bytes are expected at byte ", at_, ", and it has ", file_size_,
                       " bytes");
        if (count > kMaxGgufHeaderBytes - at_)
            return fail(NL_ERROR_UNSUPPORTED, header_.path_, ": its metadata have more than ", kMaxGgufHeaderBytes,
                        " bytes: expected fewer");
        const uint64_t wanted = std::min<uint64_t>(
            {std::max<uint64_t>({at_ + count, 2 * bytes.size(), kLeastRead}), file_size_, kMaxGgufHeaderBytes});
        const size_t before = bytes.size();
        bytes.resize(wanted);
        NL_ASSIGN(const size_t got, read_at_(before, wanted - before, bytes.data() + before));
        bytes.resize(before + got);
        if (count <= bytes.size() - at_) return {};
        return fail(NL_ERROR_IO, header_.path_, " changed while it was read: it has ", bytes.size(),
                    " bytes: expected ", file_size_, " as at the beginning");
    }

    template <typename T>
    Result<T> take() {
        NL_TRY(need(sizeof(T)));
        const T value = value_at<T>(header_.bytes_, at_);
        at_ += sizeof(T);
        return value;
    }

    // Checks that the rest of the file has room for `count` entries of at least `each` bytes, and that they are at most
    // `limit`.
    [[nodiscard]] Result<void> check_count(const char* what, uint64_t count, uint64_t each, uint64_t limit) const {
        const uint64_t most = std::min(limit, (file_size_ - at_) / each);
        if (count <= most) return {};
        return bad("it has ", count, " ", what, ": expected at most ", most, " in a file of ", file_size_, " bytes");
    }

    Result<void> read_version() {
        if (file_size_ < kMagic.size() + sizeof(uint32_t)) return not_gguf();
        NL_TRY(need(kMagic.size() + sizeof(uint32_t)));
        if (!header_.bytes_.starts_with(kMagic)) return not_gguf();
        at_ = kMagic.size();
        NL_ASSIGN(header_.version_, take<uint32_t>());
        if (header_.version_ == 2 || header_.version_ == 3) return {};
        const bool big_endian = header_.version_ == 2U << 24U || header_.version_ == 3U << 24U;
        return fail(NL_ERROR_UNSUPPORTED, header_.path_, " is a GGUF file ",
                    big_endian ? "of a big-endian machine" : "of version " + std::to_string(header_.version_),
                    ": expected version 2 or 3, little-endian");
    }
    [[nodiscard]] Error not_gguf() const { return bad("it is no GGUF file: expected one, or a model folder"); }

    Result<std::string_view> take_string(uint64_t most) {
        NL_ASSIGN(const auto length, take<uint64_t>());
        if (length > most) return bad("a string at byte ", at_, " has ", length, " bytes: expected at most ", most);
        NL_TRY(need(length));
        const std::string_view text = std::string_view(header_.bytes_).substr(at_, length);
        at_ += length;
        return text;
    }

    Result<GgufType> take_type(const std::string& key) {
        NL_ASSIGN(const auto number, take<uint32_t>());
        if (number > static_cast<uint32_t>(GgufType::f64))
            return bad(show_json(key), " has the type ", number, ": expected 0 to 12");
        return static_cast<GgufType>(number);
    }

    Result<void> read_key_and_value() {
        NL_ASSIGN(const std::string_view name, take_string(kMaxNameBytes));
        const std::string key(name);
        GgufValue value;
        NL_ASSIGN(value.type, take_type(key));
        if (value.type == GgufType::array) {
            value.is_array = true;
            NL_ASSIGN(value.type, take_type(key));
            if (value.type == GgufType::array) return bad(show_json(key), " is an array of arrays: expected no such");
            NL_ASSIGN(value.count, take<uint64_t>());
        }
        value.offset = at_;
        NL_TRY(skip(key, value));
        if (!header_.values_.emplace(key, value).second) return bad(show_json(key), " is there twice");
        return {};
    }

    Result<void> skip(const std::string& key, const GgufValue& value) {
        const bool is_string = value.type == GgufType::string;
        const uint64_t each = is_string ? sizeof(uint64_t) : std::max<uint64_t>(1, size_of(value.type));
        const uint64_t most = std::min(is_string ? kMaxStrings : UINT64_MAX, (file_size_ - at_) / each);
        if (value.count > most)
            return bad(show_json(key), " has ", value.count, " elements: expected at most ", most, " in a file of ",
                       file_size_, " bytes");
        if (!is_string) {
            NL_TRY(need(value.count * each));
            at_ += value.count * each;
            return {};
        }
        for (uint64_t i = 0; i < value.count; ++i) NL_TRY(take_string(kMaxGgufHeaderBytes));
        return {};
    }

    Result<void> read_tensor() {
        GgufTensor tensor;
        NL_ASSIGN(const std::string_view name, take_string(kMaxNameBytes));
        tensor.name = name;
        NL_ASSIGN(const auto dimensions, take<uint32_t>());
        if (dimensions > kMaxDimensions)
            return bad("tensor ", show_json(tensor.name), " has ", dimensions, " dimensions: expected at most ",
                       kMaxDimensions);
        uint64_t elements = 1;
        for (uint32_t i = 0; i < dimensions; ++i) {
            NL_ASSIGN(const auto size, take<uint64_t>());
            if (size == 0 || size > static_cast<uint64_t>(INT64_MAX) / elements)
                return bad("tensor ", show_json(tensor.name), " has a dimension of ", size,
                           ": expected at least 1, and fewer than 2^63 elements");
            elements *= size;
            tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(size));
        }
        NL_ASSIGN(tensor.type, take<uint32_t>());
        NL_ASSIGN(tensor.offset, take<uint64_t>());
        if (!names_.insert(tensor.name).second) return bad("tensor ", show_json(tensor.name), " is there twice");
        header_.tensors_.push_back(std::move(tensor));
        return {};
    }

    Result<void> find_data() {
        constexpr const char* kKey = "general.alignment";
        NL_ASSIGN(const auto wanted, header_.integer(kKey, 1, kMaxAlignment));
        const auto alignment = static_cast<uint64_t>(wanted.value_or(kDefaultAlignment));
        if (!std::has_single_bit(alignment)) return header_.wrong(kKey, "a power of two");
        header_.data_offset_ = std::min((at_ + alignment - 1) / alignment * alignment, file_size_);
        for (const GgufTensor& tensor : header_.tensors_) {
            if (tensor.offset % alignment != 0)
                return bad("tensor ", show_json(tensor.name), " begins at byte ", tensor.offset,
                           " of the data: expected a multiple of ", alignment);
        }
        return {};
    }

    ReadAt read_at_;
    uint64_t file_size_;
    uint64_t at_ = 0;
    std::set<std::string> names_;  // of tensors
    GgufHeader header_;
};

Result<GgufHeader> GgufHeader::read(const OpenFile& file) {
    const auto read_at = [&file](size_t offset, size_t count, char* to) { return file.read_at(offset, count, to); };
    return GgufReader(read_at, file.size(), file.path()).read();
}

Result<GgufHeader> GgufHeader::parse(std::string_view file, const std::string& path) {
    const auto read_at = [file](size_t offset, size_t count, char* to) -> Result<size_t> {
        return file.copy(to, count, offset);
    };
    return GgufReader(read_at, file.size(), path).read();
}

const GgufValue* GgufHeader::find(std::string_view key) const {
    const auto found = values_.find(key);
    return found != values_.end() ? &found->second : nullptr;
}

std::optional<int64_t> GgufHeader::integer_at(GgufType type, size_t offset) const {
    switch (type) {
        case GgufType::u8:
            return value_at<uint8_t>(bytes_, offset);
        case GgufType::i8:
            return value_at<int8_t>(bytes_, offset);
        case GgufType::u16:
            return value_at<uint16_t>(bytes_, offset);
        case GgufType::i16:
            return value_at<int16_t>(bytes_, offset);
        case GgufType::u32:
            return value_at<uint32_t>(bytes_, offset);
        case GgufType::i32:
            return value_at<int32_t>(bytes_, offset);
        case GgufType::u64: {
            const auto value = value_at<uint64_t>(bytes_, offset);
            if (value > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
            return static_cast<int64_t>(value);
        }
        case GgufType::i64:
            return value_at<int64_t>(bytes_, offset);
        default:
            return std::nullopt;
    }
}

std::optional<double> GgufHeader::number_at(GgufType type, size_t offset) const {
    double value = 0;
    if (type == GgufType::f32) {
        value = value_at<float>(bytes_, offset);
    } else if (type == GgufType::f64) {
        value = value_at<double>(bytes_, offset);
    } else if (const auto integer = integer_at(type, offset)) {
        value = static_cast<double>(*integer);
    } else {
        return std::nullopt;
    }
    return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::string_view GgufHeader::string_at(size_t offset) const {
    return std::string_view(bytes_).substr(offset + sizeof(uint64_t), value_at<uint64_t>(bytes_, offset));
}

std::string GgufHeader::show(const GgufValue& value) const {
    if (value.is_array) return "an array of " + std::to_string(value.count);
    if (value.type == GgufType::string) return show_json(string_at(value.offset));
    if (value.type == GgufType::boolean) return value_at<uint8_t>(bytes_, value.offset) != 0 ? "true" : "false";
    if (const auto integer = integer_at(value.type, value.offset)) return std::to_string(*integer);
    if (const auto number = number_at(value.type, value.offset)) return show_json(Json(Json::Value(*number)));
    return "not a finite number";
}

Error GgufHeader::wrong(std::string_view key, const std::string& expectation, nl_status status) const {
    const GgufValue* const value = find(key);
    if (value == nullptr) return fail(status, path_, ": ", key, " is missing: expected ", expectation);
    return fail(status, path_, ": ", key, " is ", show(*value), ": expected ", expectation);
}

Result<std::optional<int64_t>> GgufHeader::integer(std::string_view key, int64_t min, int64_t max) const {
    const GgufValue* const value = find(key);
    if (value == nullptr) return std::optional<int64_t>();
    const auto integer = value->is_array ? std::nullopt : integer_at(value->type, value->offset);
    if (integer && *integer >= min && *integer <= max) return integer;
    return wrong(key, "an integer from " + std::to_string(min) + " to " + std::to_string(max));
}

Result<std::optional<double>> GgufHeader::number(std::string_view key) const {
    const GgufValue* const value = find(key);
    if (value == nullptr) return std::optional<double>();
    const auto number = value->is_array ? std::nullopt : number_at(value->type, value->offset);
    if (number) return number;
    return wrong(key, "a finite number");
}

Result<std::optional<bool>> GgufHeader::boolean(std::string_view key) const {
    const GgufValue* const value = find(key);
    if (value == nullptr) return std::optional<bool>();
    if (!value->is_array && value->type == GgufType::boolean)
        return std::optional<bool>(value_at<uint8_t>(bytes_, value->offset) != 0);
    return wrong(key, "true or false");
}

Result<std::optional<std::string_view>> GgufHeader::string(std::string_view key) const {
    const GgufValue* const value = find(key);
    if (value == nullptr) return std::optional<std::string_view>();
    if (!value->is_array && value->type == GgufType::string) return std::optional(string_at(value->offset));
    return wrong(key, "a string");
}

Result<std::vector<std::string_view>> GgufHeader::strings(std::string_view key) const {
    std::vector<std::string_view> list;
    const GgufValue* const value = find(key);
    if (value == nullptr) return list;
    if (value->type != GgufType::string) return wrong(key, "an array of strings");
    size_t offset = value->offset;
    list.reserve(value->count);
    for (uint64_t i = 0; i < value->count; ++i) {
        list.push_back(string_at(offset));
        offset += sizeof(uint64_t) + list.back().size();
    }
    return list;
}

Result<std::vector<int64_t>> GgufHeader::integers(std::string_view key, int64_t min, int64_t max) const {
    std::vector<int64_t> list;
    const GgufValue* const value = find(key);
    if (value == nullptr) return list;
    const auto at = [&](uint64_t i) -> std::optional<int64_t> {
        const size_t offset = value->offset + i * std::max<size_t>(1, size_of(value->type));
        if (value->type == GgufType::boolean) return value_at<uint8_t>(bytes_, offset) != 0 ? 1 : 0;
        return integer_at(value->type, offset);
    };
    for (uint64_t i = 0; i < value->count; ++i) {
        const auto integer = at(i);
        if (!integer || *integer < min || *integer > max)
            return wrong(key, "integers from " + std::to_string(min) + " to " + std::to_string(max));
        list.push_back(*integer);
    }
    return list;
}

Result<std::vector<float>> GgufHeader::numbers(std::string_view key) const {
    std::vector<float> list;
    const GgufValue* const value = find(key);
    if (value == nullptr) return list;
    list.reserve(value->count);
    for (uint64_t i = 0; i < value->count; ++i) {
        const auto number = number_at(value->type, value->offset + i * std::max<size_t>(1, size_of(value->type)));
        if (!number || std::fabs(*number) > static_cast<double>(std::numeric_limits<float>::max()))
            return wrong(key, "finite numbers");
        list.push_back(static_cast<float>(*number));
    }
    return list;
}

bool is_model_file(const std::string& path) {
    std::error_code error;
    return path.find('\0') == std::string::npos && std::filesystem::is_regular_file(path, error);
}

Result<void> check_no_gguf(const std::string& folder) {
    // std::filesystem's iterator ends the process where it gets no memory for an entry's name.
    struct Close {
        void operator()(DIR* entries) const { ::closedir(entries); }
    };
    const std::unique_ptr<DIR, Close> entries(::opendir(folder.c_str()));
    if (entries == nullptr) {
        if (errno == ENOMEM) return fail(NL_ERROR_OUT_OF_MEMORY, "there is no memory for listing ", folder);
        return {};
    }
    std::string first;
    while (const dirent* const entry = ::readdir(entries.get())) {
        const std::string_view name = entry->d_name;
        if (name.ends_with(".gguf") && (first.empty() || name < first)) first = name;
    }
    if (first.empty()) return {};
    return fail(NL_ERROR_UNSUPPORTED, folder, " has its model in ", first,
                ": expected the path of that file in the place of the folder's");
}

}  // namespace nanolith
