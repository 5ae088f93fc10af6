#include "files/serde_number.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>

namespace nanolith {
namespace {

constexpr int64_t kMaxPower = 308;
constexpr int64_t kMaxExponent = std::numeric_limits<int32_t>::max();

// The double nearest to 10 to the power of 0 to kMaxPower.
double power_of_ten(int64_t power) {
    std::array<char, 8> text{'1', 'e'};
    const auto end = std::to_chars(text.data() + 2, text.data() + text.size(), power).ptr;
    double value = 0;
    std::from_chars(text.data(), end, value);
    return value;
}

// significand * 10^exponent, rounded once for the significand and once more for each multiplication or division.
double scaled(uint64_t significand, int64_t exponent) {
    auto value = static_cast<double>(significand);
    while (std::abs(exponent) > kMaxPower && value != 0) {
        if (exponent > 0) return std::numeric_limits<double>::infinity();
        value /= power_of_ten(kMaxPower);
        exponent += kMaxPower;
    }
    if (value == 0) return value;
    return exponent >= 0 ? value * power_of_ten(exponent) : value / power_of_ten(-exponent);
}

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

// Takes digits into the significand as long as it has room for them; the others count as zeros.
class SignificandReader {
  public:
    void take(char digit, bool is_fraction) {
        const auto value = static_cast<uint64_t>(digit - '0');
        constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
        full_ = full_ || significand_ > kMost / 10 || (significand_ == kMost / 10 && value > kMost % 10);
        if (!full_) significand_ = significand_ * 10 + value;
        if (!full_ && is_fraction) --exponent_;
        if (full_ && !is_fraction) ++exponent_;
    }
    [[nodiscard]] uint64_t significand() const { return significand_; }
    [[nodiscard]] int64_t exponent() const { return exponent_; }
    // A point: what follows begins to count anew.
    void begin_fraction() { full_ = false; }

  private:
    uint64_t significand_ = 0;
    int64_t exponent_ = 0;
    bool full_ = false;
};

}  // namespace

double serde_number(std::string_view text) {
    const bool negative = text.starts_with('-');
    size_t at = negative ? 1 : 0;
    SignificandReader reader;
    for (; at < text.size() && is_digit(text[at]); ++at) reader.take(text[at], false);
    if (at < text.size() && text[at] == '.') {
        reader.begin_fraction();
        for (++at; at < text.size() && is_digit(text[at]); ++at) reader.take(text[at], true);
    }
    int64_t exponent = reader.exponent();
    if (at < text.size()) {  // an e
        ++at;
        const bool small = text.substr(at).starts_with('-');
        if (small || text.substr(at).starts_with('+')) ++at;
        int64_t written = 0;
        for (; at < text.size(); ++at) written = std::min<int64_t>(written * 10 + (text[at] - '0'), kMaxExponent);
        exponent += small ? -written : written;
    }
    const double value = scaled(reader.significand(), exponent);
    return negative ? -value : value;
}

}  // namespace nanolith
