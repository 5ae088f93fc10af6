// Grammars over a vocabulary of all bytes and some words.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "grammar/constraint.h"
#include "grammar/matcher.h"

namespace nanolith::grammar::test {

constexpr int32_t kEnd = 256;  // the end token; tokens 0 to 255 are the bytes

inline std::shared_ptr<const TokenTable> make_table(const std::vector<std::string>& words = {}) {
    std::vector<std::string> bytes;
    for (int byte = 0; byte < 256; ++byte) bytes.emplace_back(1, static_cast<char>(byte));
    bytes.emplace_back();
    bytes.insert(bytes.end(), words.begin(), words.end());
    return TokenTable::make(std::move(bytes), {});
}

inline Result<std::shared_ptr<const Grammar>> compile_text(ConstraintKind kind, const std::string& text,
                                                           std::shared_ptr<const TokenTable> table = make_table()) {
    return compile(Constraint{.kind = kind, .text = text}, std::move(table));
}

// Whether the text, byte by byte, is one that the grammar has.
inline bool accepts(const std::shared_ptr<const Grammar>& grammar, const std::string& text) {
    Matcher matcher(grammar, {kEnd});
    for (const char byte : text)
        if (!matcher.accept(static_cast<uint8_t>(byte))) return false;
    return matcher.may_end();
}

inline std::vector<uint32_t> mask_of(Matcher& matcher, const TokenTable& table) {
    std::vector<uint32_t> mask((static_cast<size_t>(table.vocab_size()) + 31) / 32, 0xA5A5A5A5U);
    matcher.fill_mask(mask);
    return mask;
}

inline bool allows(const std::vector<uint32_t>& mask, int32_t token) {
    return (mask[static_cast<size_t>(token) / 32] >> (static_cast<uint32_t>(token) % 32) & 1U) != 0;
}

}  // namespace nanolith::grammar::test
