#include "grammar/text_reader.h"

namespace nanolith::grammar {

Result<uint32_t> TextReader::hex(size_t digits) {
    uint32_t value = 0;
    for (size_t i = 0; i < digits; ++i, ++at_) {
        const char c = peek();
        const char lower = static_cast<char>(c | 0x20);
        const bool digit = c >= '0' && c <= '9';
        if (!digit && (lower < 'a' || lower > 'f')) return error("expected a hexadecimal digit");
        value = value * 16 + static_cast<uint32_t>(digit ? c - '0' : lower - 'a' + 10);
    }
    return value;
}

Result<int32_t> TextReader::number() {
    if (peek() < '0' || peek() > '9') return error("expected a number");
    int32_t value = 0;
    while (peek() >= '0' && peek() <= '9') {
        value = value * 10 + (peek() - '0');
        if (value > kMaxRepeat) return unsupported("more than " + std::to_string(kMaxRepeat) + " repetitions");
        ++at_;
    }
    return value;
}

Result<void> TextReader::counts(int32_t& least, int32_t& most) {
    take("{");
    skip();
    NL_ASSIGN(least, number());
    skip();
    most = least;
    if (take(",")) {
        most = -1;
        skip();
        if (peek() != '}') {
            NL_ASSIGN(most, number());
        }
    }
    skip();
    if (!take("}")) return error("expected '}'");
    if (most >= 0 && most < least) return error("the repetition's most is less than its least");
    return {};
}

}  // namespace nanolith::grammar
