#include "text/utf8.h"

namespace nanolith {
namespace {

// What may follow a lead byte: the number of continuation bytes and the range of the first of them. The others
// are 80..BF.
struct Lead {
    size_t continuations;
    uint8_t low;
    uint8_t high;
};

// The lead's row of table 3-7; {0, 1, 0} for a byte that leads nothing.
Lead lead_of(uint8_t byte) {
    if (byte < 0x80) return {0, 0, 0};
    if (byte < 0xC2) return {0, 1, 0};
    if (byte < 0xE0) return {1, 0x80, 0xBF};
    if (byte == 0xE0) return {2, 0xA0, 0xBF};
    if (byte == 0xED) return {2, 0x80, 0x9F};
    if (byte < 0xF0) return {2, 0x80, 0xBF};
    if (byte == 0xF0) return {3, 0x90, 0xBF};
    if (byte < 0xF4) return {3, 0x80, 0xBF};
    if (byte == 0xF4) return {3, 0x80, 0x8F};
    return {0, 1, 0};
}

// Calls `found` with each character and, in place of what is none, U+FFFD.
template <typename Found>
void for_each_valid(std::string_view text, Found&& found) {
    while (!text.empty()) {
        const Utf8Step step = next_utf8(text);
        found(step.kind == Utf8Kind::well_formed ? text.substr(0, step.length) : kReplacementCharacter);
        text.remove_prefix(step.length);
    }
}

}  // namespace

Utf8Step next_utf8(std::string_view text) {
    Lead lead = lead_of(static_cast<uint8_t>(text[0]));
    if (lead.low > lead.high) return {Utf8Kind::ill_formed, 1};
    for (size_t i = 1; i <= lead.continuations; ++i) {
        if (i == text.size()) return {Utf8Kind::unfinished, i};
        const auto byte = static_cast<uint8_t>(text[i]);
        if (byte < lead.low || byte > lead.high) return {Utf8Kind::ill_formed, i};
        lead.low = 0x80;
        lead.high = 0xBF;
    }
    return {Utf8Kind::well_formed, lead.continuations + 1};
}

bool is_valid_utf8(std::string_view text) {
    while (!text.empty()) {
        const Utf8Step step = next_utf8(text);
        if (step.kind != Utf8Kind::well_formed) return false;
        text.remove_prefix(step.length);
    }
    return true;
}

std::string replace_invalid_utf8(std::string_view text) {
    size_t bytes = 0;
    for_each_valid(text, [&](std::string_view part) { bytes += part.size(); });
    std::string valid;
    valid.reserve(bytes);
    for_each_valid(text, [&](std::string_view part) { valid += part; });
    return valid;
}

void take_finished_utf8(std::string& bytes, std::string& text) {
    std::string_view rest = bytes;
    while (!rest.empty()) {
        const Utf8Step step = next_utf8(rest);
        if (step.kind == Utf8Kind::unfinished) break;
        text += step.kind == Utf8Kind::well_formed ? rest.substr(0, step.length) : kReplacementCharacter;
        rest.remove_prefix(step.length);
    }
    bytes.erase(0, bytes.size() - rest.size());
}

}  // namespace nanolith
