// GGUF files for tests, right or wrong as they ask for.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace nanolith::test {

template <typename T>
std::string raw(T value) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
}

inline std::string gguf_string(std::string_view text) {
    return raw(uint64_t{text.size()}).append(text);
}

class GgufWriter {
  public:
    // A value of any type by its number, with its bytes.
    GgufWriter& add(std::string_view key, uint32_t type, const std::string& bytes) {
        values_ += gguf_string(key) + raw(type) + bytes;
        ++num_values_;
        return *this;
    }
    GgufWriter& add_u32(std::string_view key, uint32_t value) { return add(key, 4, raw(value)); }
    GgufWriter& add_f32(std::string_view key, float value) { return add(key, 6, raw(value)); }
    GgufWriter& add_text(std::string_view key, std::string_view text) { return add(key, 8, gguf_string(text)); }
    GgufWriter& add_texts(std::string_view key, const std::vector<std::string>& texts) {
        std::string bytes = raw(uint32_t{8}) + raw(uint64_t{texts.size()});
        for (const std::string& text : texts) bytes += gguf_string(text);
        return add(key, 9, bytes);
    }
    template <typename T>
    GgufWriter& add_numbers(std::string_view key, uint32_t type, const std::vector<T>& numbers) {
        std::string bytes = raw(type) + raw(uint64_t{numbers.size()});
        for (const T number : numbers) bytes += raw(number);
        return add(key, 9, bytes);
    }

    // `shape` as the file has it: the row's length first. At the next multiple of 32 bytes.
    GgufWriter& add_tensor(std::string_view name, const std::vector<uint64_t>& shape, uint32_t type,
                           const std::string& bytes) {
        data_.resize((data_.size() + 31) / 32 * 32);
        add_entry(name, shape, type, data_.size());
        data_ += bytes;
        return *this;
    }
    // The entry alone.
    GgufWriter& add_entry(std::string_view name, const std::vector<uint64_t>& shape, uint32_t type, uint64_t offset) {
        tensors_ += gguf_string(name) + raw(static_cast<uint32_t>(shape.size()));
        for (const uint64_t side : shape) tensors_ += raw(side);
        tensors_ += raw(type) + raw(offset);
        ++num_tensors_;
        return *this;
    }
    GgufWriter& add_floats(std::string_view name, const std::vector<uint64_t>& shape,
                           const std::vector<float>& values) {
        std::string bytes(values.size() * sizeof(float), '\0');
        std::memcpy(bytes.data(), values.data(), bytes.size());
        return add_tensor(name, shape, 0, bytes);
    }

    [[nodiscard]] std::string finish(uint32_t version = 3) const {
        std::string file = "GGUF" + raw(version) + raw(num_tensors_) + raw(num_values_) + values_ + tensors_;
        file.resize((file.size() + 31) / 32 * 32);
        return file + data_;
    }

  private:
    std::string values_;
    std::string tensors_;
    std::string data_;
    uint64_t num_values_ = 0;
    uint64_t num_tensors_ = 0;
};

}  // namespace nanolith::test
