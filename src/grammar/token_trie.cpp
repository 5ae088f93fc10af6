#include "grammar/token_trie.h"

#include <algorithm>

#include "grammar/mask_cache.h"

namespace nanolith::grammar {

TokenTrie::TokenTrie(const std::vector<std::string>& bytes) {
    // Longer tokens than a node's depth can count do not exist in published vocabularies, and are left out.
    constexpr size_t kLongest = 4096;
    std::vector<int32_t> order;
    for (size_t t = 0; t < bytes.size(); ++t)
        if (!bytes[t].empty() && bytes[t].size() <= kLongest) order.push_back(static_cast<int32_t>(t));
    std::ranges::stable_sort(order, [&](int32_t a, int32_t b) { return bytes[a] < bytes[b]; });
    std::vector<int32_t> path = {0};  // nodes from the root to the latest one
    const auto leave = [&](size_t depth) {
        while (path.size() > depth + 1) {
            nodes_[path.back()].end = size();
            path.pop_back();
        }
    };
    nodes_.emplace_back();
    std::string_view before;
    for (const int32_t token : order) {
        const std::string_view text = bytes[token];
        const auto common = static_cast<size_t>(std::ranges::mismatch(before, text).in1 - before.begin());
        leave(common);
        for (size_t i = common; i < text.size(); ++i) {
            path.push_back(size());
            nodes_.push_back({.first_token = static_cast<int32_t>(tokens_.size()),
                              .depth = static_cast<uint16_t>(i + 1),
                              .byte = static_cast<uint8_t>(text[i])});
        }
        ++nodes_.back().num_tokens;
        tokens_.push_back(token);
        longest_ = std::max(longest_, static_cast<int32_t>(text.size()));
        before = text;
    }
    leave(0);
    nodes_[0].end = size();
}

TokenTable::TokenTable() = default;
TokenTable::~TokenTable() = default;

std::shared_ptr<const TokenTable> TokenTable::make(std::vector<std::string> bytes,
                                                   std::vector<std::string> first_bytes) {
    auto table = std::make_shared<TokenTable>();
    table->trie = std::make_unique<TokenTrie>(bytes);
    if (first_bytes != bytes && !first_bytes.empty()) table->first_trie = std::make_unique<TokenTrie>(first_bytes);
    table->bytes = std::move(bytes);
    if (table->first_trie) table->first_bytes = std::move(first_bytes);
    const TokenTrie& trie = *table->trie;
    int32_t spelled = 0;
    for (int32_t child = 1; child < trie.size(); child = trie.end(child))
        if (trie.byte(child) >= ' ' && trie.byte(child) <= '~' && !trie.tokens(child).empty()) ++spelled;
    table->spells_ascii = spelled == '~' - ' ' + 1;
    table->cache = std::make_unique<MaskCache>();
    return table;
}

Result<std::shared_ptr<const TokenTable>> TokenTable::of(const Tokenizer& tokenizer, int32_t vocab_size) {
    std::vector<std::string> bytes(static_cast<size_t>(vocab_size));
    std::vector<std::string> first_bytes(static_cast<size_t>(vocab_size));
    const DecodeRules& rules = tokenizer.decode_rules();
    for (int32_t token = 0; token < std::min(vocab_size, tokenizer.vocab_size()); ++token) {
        NL_ASSIGN(Tokenizer::Surface inner, tokenizer.surface(token, false));
        NL_ASSIGN(Tokenizer::Surface first, tokenizer.surface(token, true));
        if (inner.last_bytes || first.last_bytes)
            return fail(NL_ERROR_UNSUPPORTED,
                        "the text of this model's tokens depends on the tokens behind them: constraints need a "
                        "tokenizer whose tokens stand for bytes");
        // As TextDecoder does: a space that the encoder put before a text is not the text's own.
        if (rules.drops_first_space && first.is_text && first.bytes.starts_with(' ')) first.bytes.erase(0, 1);
        bytes[token] = std::move(inner.bytes);
        first_bytes[token] = std::move(first.bytes);
    }
    return make(std::move(bytes), std::move(first_bytes));
}

}  // namespace nanolith::grammar
