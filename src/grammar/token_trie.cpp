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
    const auto add_node = [this](uint8_t byte, size_t depth) {
        byte_.push_back(byte);
        depth_.push_back(static_cast<uint16_t>(depth));
        end_.push_back(0);
        first_token_.push_back(static_cast<int32_t>(tokens_.size()));
    };
    const auto leave = [&](size_t depth) {
        while (path.size() > depth + 1) {
            end_[path.back()] = size();
            path.pop_back();
        }
    };
    add_node(0, 0);
    std::string_view before;
    for (const int32_t token : order) {
        const std::string_view text = bytes[token];
        const auto common = static_cast<size_t>(std::ranges::mismatch(before, text).in1 - before.begin());
        leave(common);
        for (size_t i = common; i < text.size(); ++i) {
            path.push_back(size());
            add_node(static_cast<uint8_t>(text[i]), i + 1);
        }
        tokens_.push_back(token);
        longest_ = std::max(longest_, static_cast<int32_t>(text.size()));
        before = text;
    }
    leave(0);
    end_[0] = size();
    first_token_.push_back(static_cast<int32_t>(tokens_.size()));
}

TokenTable::TokenTable() = default;
TokenTable::~TokenTable() = default;

std::shared_ptr<const TokenTable> TokenTable::make(std::vector<std::string> bytes, std::vector<std::string> first_bytes,
                                                   std::vector<int32_t> end_tokens) {
    auto table = std::make_shared<TokenTable>();
    table->trie = std::make_unique<TokenTrie>(bytes);
    if (first_bytes != bytes && !first_bytes.empty()) table->first_trie = std::make_unique<TokenTrie>(first_bytes);
    table->bytes = std::move(bytes);
    if (table->first_trie) table->first_bytes = std::move(first_bytes);
    table->end_tokens = std::move(end_tokens);
    table->cache = std::make_unique<MaskCache>();
    return table;
}

Result<std::shared_ptr<const TokenTable>> TokenTable::of(const Tokenizer& tokenizer, int32_t vocab_size,
                                                         std::vector<int32_t> end_tokens) {
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
    // A token that ends the text is nothing but that.
    for (const int32_t token : end_tokens) {
        if (token < 0 || token >= vocab_size) continue;
        bytes[token].clear();
        first_bytes[token].clear();
    }
    std::erase_if(end_tokens, [vocab_size](int32_t token) { return token < 0 || token >= vocab_size; });
    return make(std::move(bytes), std::move(first_bytes), std::move(end_tokens));
}

}  // namespace nanolith::grammar
