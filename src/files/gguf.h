// The GGUF container, versions 2 and 3 (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md): typed metadata by
// key, the table of tensors, then the tensors' bytes. Little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "files/open_file.h"

namespace nanolith {

// The most bytes of a file's header: its metadata and its table of tensors.
constexpr size_t kMaxGgufHeaderBytes = size_t{512} << 20U;

enum class GgufType : uint8_t {
    u8 = 0,
    i8 = 1,
    u16 = 2,
    i16 = 3,
    u32 = 4,
    i32 = 5,
    f32 = 6,
    boolean = 7,
    string = 8,
    array = 9,
    u64 = 10,
    i64 = 11,
    f64 = 12
};

// Where a value lies in the header's bytes.
struct GgufValue {
    GgufType type = GgufType::u8;  // of an array: the type of its elements
    bool is_array = false;
    uint64_t count = 1;  // elements
    size_t offset = 0;   // of the first element
};

// A tensor as the table has it. Whether its bytes are inside of the file is not checked here but in place_tensors()
// (model/gguf/gguf_files.h): their number depends on the tensor's type, which is not interpreted here.
struct GgufTensor {
    std::string name;
    std::vector<int64_t> shape;  // row-major: the format's dimensions in reverse
    uint32_t type = 0;
    uint64_t offset = 0;  // from the beginning of the data; a multiple of the alignment
};

// The header of one file. All its lengths and counts are checked against the file's size and the limits of gguf.cpp;
// what values mean is not checked.
class GgufHeader {
  public:
    // BAD_MODEL: it is cut short, a count or a length is more than the file has, a key or a tensor is there twice, a
    // dimension or an offset is not possible. UNSUPPORTED: a version or byte order that is not read here. Messages
    // begin with the path.
    static Result<GgufHeader> read(const OpenFile& file);
    // The same of a whole file in memory.
    static Result<GgufHeader> parse(std::string_view file, const std::string& path);

    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] uint32_t version() const { return version_; }
    // Where the tensors' bytes begin in the file, which may be its end.
    [[nodiscard]] uint64_t data_offset() const { return data_offset_; }
    [[nodiscard]] const std::vector<GgufTensor>& tensors() const { return tensors_; }

    [[nodiscard]] bool has(std::string_view key) const { return values_.find(key) != values_.end(); }
    // Values by key; nothing where the key is missing. BAD_MODEL, by key and value, for another type or out of
    // [min, max].
    [[nodiscard]] Result<std::optional<int64_t>> integer(std::string_view key, int64_t min, int64_t max) const;
    [[nodiscard]] Result<std::optional<double>> number(std::string_view key) const;
    [[nodiscard]] Result<std::optional<bool>> boolean(std::string_view key) const;
    // The view is valid as long as this header.
    [[nodiscard]] Result<std::optional<std::string_view>> string(std::string_view key) const;
    // Arrays; empty where the key is missing. A single value counts as an array of one.
    [[nodiscard]] Result<std::vector<std::string_view>> strings(std::string_view key) const;
    [[nodiscard]] Result<std::vector<int64_t>> integers(std::string_view key, int64_t min, int64_t max) const;
    // BAD_MODEL too for a number that float32 does not hold.
    [[nodiscard]] Result<std::vector<float>> numbers(std::string_view key) const;

    // "<path>: <key> is <value>: expected <expectation>", or "<key> is missing" and the same end.
    [[nodiscard]] Error wrong(std::string_view key, const std::string& expectation,
                              nl_status status = NL_ERROR_BAD_MODEL) const;

  private:
    friend class GgufReader;

    [[nodiscard]] const GgufValue* find(std::string_view key) const;
    [[nodiscard]] std::optional<int64_t> integer_at(GgufType type, size_t offset) const;
    [[nodiscard]] std::optional<double> number_at(GgufType type, size_t offset) const;
    [[nodiscard]] std::string_view string_at(size_t offset) const;
    [[nodiscard]] std::string show(const GgufValue& value) const;

    std::string path_;
    std::string bytes_;  // of the file's beginning, the whole header at least
    uint32_t version_ = 0;
    uint64_t data_offset_ = 0;
    std::map<std::string, GgufValue, std::less<>> values_;
    std::vector<GgufTensor> tensors_;
};

// Whether the file at `path` is a file, not a folder: a model in one file.
bool is_model_file(const std::string& path);
// UNSUPPORTED where the folder has a GGUF file, which the message names: such a model is loaded by the file's own path.
Result<void> check_no_gguf(const std::string& folder);

}  // namespace nanolith
