// Fuzzes constraints: compiles one and generates a text under it. The first byte chooses the kind of constraint, the
// bytes behind a NUL byte the tokens that are drawn.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "grammar/constraint.h"
#include "grammar/matcher.h"

namespace {

using namespace nanolith;
using namespace nanolith::grammar;

constexpr int32_t kEnd = 256;

std::shared_ptr<const TokenTable> make_table() {
    std::vector<std::string> bytes;
    for (int byte = 0; byte < 256; ++byte) bytes.emplace_back(1, static_cast<char>(byte));
    bytes.emplace_back();
    for (const char* word : {"\"}", "\":", "\", \"", "{\"", "true", "]]", "ab", "123", "\xC3\xA9", "\n  \""})
        bytes.emplace_back(word);
    return TokenTable::make(std::move(bytes), {});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const auto table = make_table();
    if (size < 2) return 0;
    constexpr ConstraintKind kKinds[] = {ConstraintKind::regex, ConstraintKind::json_schema, ConstraintKind::ebnf,
                                         ConstraintKind::choices, ConstraintKind::json_object};
    Constraint constraint;
    constraint.kind = kKinds[data[0] % std::size(kKinds)];
    const std::string all(reinterpret_cast<const char*>(data) + 1, size - 1);
    const size_t split = std::min(all.find('\0'), all.size());
    constraint.text = all.substr(0, split);
    if (constraint.kind == ConstraintKind::choices) constraint.choices = {constraint.text, "other"};
    const auto grammar = compile(constraint, table);
    if (!grammar.ok()) return 0;
    Matcher matcher(*grammar, {kEnd});
    std::vector<uint32_t> mask((static_cast<size_t>(table->vocab_size()) + 31) / 32);
    for (size_t i = split + 1; i < all.size() && !matcher.over(); ++i) {
        const bool any = matcher.fill_mask(mask, static_cast<int64_t>(all.size() - i) * 4);
        // Every byte has a token: so a text can always go on or end.
        if (!any && !matcher.may_end()) abort();
        std::vector<int32_t> allowed;
        for (int32_t token = 0; token < table->vocab_size(); ++token)
            if ((mask[token / 32] >> (token % 32) & 1U) != 0) allowed.push_back(token);
        if (allowed.empty()) break;
        if (!matcher.accept(allowed[static_cast<uint8_t>(all[i]) % allowed.size()])) abort();
        if (all[i] % 7 == 0) matcher.roll_back(all[i] % 3);
    }
    return 0;
}
