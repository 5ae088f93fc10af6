#include "ops/numbers.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>

namespace nanolith::test {
namespace {

struct Layout {
    int exponent_bits;
    int fraction_bits;
    double largest;
};

Layout layout_of(Format format) {
    switch (format) {
        case Format::f32:
            return {8, 23, std::numeric_limits<float>::max()};
        case Format::f16:
            return {5, 10, 65504};
        case Format::bf16:
            return {8, 7, std::ldexp(255.0 / 128.0, 127)};
        case Format::f8:
            return {4, 3, 448};
    }
    std::abort();
}

int bias_of(const Layout& layout) {
    return (1 << (layout.exponent_bits - 1)) - 1;
}

// The exponent that a magnitude is stored with: subnormal numbers share the lowest.
int stored_exponent(const Layout& layout, double magnitude) {
    const int lowest = 1 - bias_of(layout);
    return magnitude == 0 ? lowest : std::max(std::ilogb(magnitude), lowest);
}

}  // namespace

size_t format_bytes(Format format) {
    return format == Format::f32 ? 4 : format == Format::f8 ? 1 : 2;
}

const char* format_name(Format format) {
    constexpr const char* kNames[] = {"", "f32", "f16", "bf16", "f8"};
    return kNames[static_cast<int>(format)];
}

double round_to(Format format, double value) {
    const Layout layout = layout_of(format);
    const double unit = std::ldexp(1.0, stored_exponent(layout, std::fabs(value)) - layout.fraction_bits);
    return std::clamp(std::nearbyint(value / unit) * unit, -layout.largest, layout.largest);
}

uint32_t encode(Format format, double value) {
    if (std::isnan(value)) return ~0U;
    const Layout layout = layout_of(format);
    const double magnitude = std::fabs(value);
    const int exponent = stored_exponent(layout, magnitude);
    // The leading 1 of a normal number, at bit fraction_bits, makes the exponent field 1 for the lowest exponent.
    const auto fraction = static_cast<uint32_t>(std::ldexp(magnitude, layout.fraction_bits - exponent));
    const auto field = static_cast<uint32_t>(exponent + bias_of(layout) - 1) << layout.fraction_bits;
    const uint32_t sign = std::signbit(value) ? 1U : 0U;
    return (sign << (layout.exponent_bits + layout.fraction_bits)) | (field + fraction);
}

double decode(Format format, uint32_t bits) {
    const Layout layout = layout_of(format);
    const uint32_t fraction_mask = (1U << layout.fraction_bits) - 1;
    const uint32_t exponent_mask = (1U << layout.exponent_bits) - 1;
    const uint32_t fraction = bits & fraction_mask;
    const uint32_t exponent = (bits >> layout.fraction_bits) & exponent_mask;
    const bool negative = ((bits >> (layout.fraction_bits + layout.exponent_bits)) & 1U) != 0;
    const bool special = exponent == exponent_mask;
    double magnitude;
    if (special && format != Format::f8) {
        magnitude = fraction == 0 ? std::numeric_limits<double>::infinity() : std::nan("");
    } else if (special && fraction == fraction_mask) {
        magnitude = std::nan("");
    } else {
        const double leading = exponent == 0 ? 0 : 1;
        const int power = std::max(static_cast<int>(exponent), 1) - bias_of(layout);
        magnitude = std::ldexp(leading + std::ldexp(fraction, -layout.fraction_bits), power);
    }
    return negative ? -magnitude : magnitude;
}

void put(Format format, double value, std::vector<std::byte>& bytes, size_t i) {
    const uint32_t bits = encode(format, value);
    std::memcpy(bytes.data() + i * format_bytes(format), &bits, format_bytes(format));
}

double get(Format format, const std::vector<std::byte>& bytes, size_t i) {
    uint32_t bits = 0;
    std::memcpy(&bits, bytes.data() + i * format_bytes(format), format_bytes(format));
    return decode(format, bits);
}

std::vector<std::byte> poison(Format format, size_t elements) {
    return std::vector<std::byte>(elements * format_bytes(format), std::byte{0xFF});  // NaN in every format
}

double tolerance(Format format) {
    return format == Format::f32 ? 2e-5 : format == Format::f16 ? 1e-3 : 5e-3;
}

Random::Random()
    : Random([] {
          const char* const fixed = std::getenv("NANOLITH_TEST_SEED");
          return fixed != nullptr ? static_cast<uint32_t>(std::stoul(fixed)) : std::random_device()();
      }()) {}

}  // namespace nanolith::test
