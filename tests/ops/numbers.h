// The number formats of tensors, written down from their definitions, and random numbers in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace nanolith::test {

// As NL_DTYPE_*.
enum class Format : int32_t { f32 = 1, f16 = 2, bf16 = 3, f8 = 4 };

size_t format_bytes(Format format);
const char* format_name(Format format);

// The nearest number of the format, ties to even; beyond the range its largest.
double round_to(Format format, double value);
// The bits of a number that is one of the format's. NaN: all ones, as in poison().
uint32_t encode(Format format, double value);
double decode(Format format, uint32_t bits);

// Element i of a tensor's bytes.
void put(Format format, double value, std::vector<std::byte>& bytes, size_t i);
double get(Format format, const std::vector<std::byte>& bytes, size_t i);

// A tensor of NaN.
std::vector<std::byte> poison(Format format, size_t elements);

// What rounding an output of at most 1 and intermediate results in the format may cost.
double tolerance(Format format);

// A generator with a seed of its own, printed with the test's messages.
class Random {
  public:
    Random();
    explicit Random(uint32_t seed) : seed_(seed), engine_(seed) {}
    [[nodiscard]] uint32_t seed() const { return seed_; }
    double uniform(double low, double high) { return std::uniform_real_distribution<double>(low, high)(engine_); }
    int32_t integer(int32_t low, int32_t high) { return std::uniform_int_distribution<int32_t>(low, high)(engine_); }
    std::mt19937& engine() { return engine_; }

  private:
    uint32_t seed_;
    std::mt19937 engine_;
};

}  // namespace nanolith::test
