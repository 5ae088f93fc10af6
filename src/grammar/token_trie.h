// The bytes of a vocabulary's tokens as a trie, in the order of a depth-first search: for each node its byte, its
// depth, where its subtree ends, and the tokens that are spelled so. An automaton walks it once to find every token
// that it can read. Immutable, so it may be used from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

namespace nanolith::grammar {

class TokenTrie {
  public:
    // `bytes[t]` is what token t stands for; tokens with no bytes are left out.
    explicit TokenTrie(const std::vector<std::string>& bytes);

    // Nodes are 1 to size() - 1; 0 is the root, whose subtree is everything.
    [[nodiscard]] int32_t size() const { return static_cast<int32_t>(nodes_.size()); }
    [[nodiscard]] uint8_t byte(int32_t node) const { return nodes_[node].byte; }
    [[nodiscard]] int32_t depth(int32_t node) const { return nodes_[node].depth; }  // bytes from the root
    [[nodiscard]] int32_t end(int32_t node) const { return nodes_[node].end; }      // the first node behind its subtree
    [[nodiscard]] std::span<const int32_t> tokens(int32_t node) const {
        return {tokens_.data() + nodes_[node].first_token, static_cast<size_t>(nodes_[node].num_tokens)};
    }
    [[nodiscard]] int32_t longest() const { return longest_; }  // bytes of the longest token

  private:
    struct Node {
        int32_t end = 0;
        int32_t first_token = 0;
        int32_t num_tokens = 0;
        uint16_t depth = 0;
        uint8_t byte = 0;
    };
    std::vector<Node> nodes_;
    std::vector<int32_t> tokens_;
    int32_t longest_ = 0;
};

struct MaskCache;  // what automata have found in a trie (mask_cache.h)

// The tokens of a model as constraints see them.
struct TokenTable {
    std::vector<std::string> bytes;  // [vocab_size] empty: a token that gives no text, which is never allowed
    std::vector<std::string>
        first_bytes;            // [vocab_size] those of the first token of a text; empty where they are `bytes`
    bool spells_ascii = false;  // every printable ASCII character has a token of its own
    std::unique_ptr<const TokenTrie> trie;
    std::unique_ptr<const TokenTrie> first_trie;  // of first_bytes; null where these are empty
    std::unique_ptr<MaskCache> cache;

    TokenTable();
    ~TokenTable();
    TokenTable(const TokenTable&) = delete;
    TokenTable& operator=(const TokenTable&) = delete;

    [[nodiscard]] int32_t vocab_size() const { return static_cast<int32_t>(bytes.size()); }
    [[nodiscard]] const std::string& bytes_of(int32_t token, bool first) const {
        return first && !first_bytes.empty() ? first_bytes[token] : bytes[token];
    }
    [[nodiscard]] const TokenTrie& trie_for(bool first) const { return first && first_trie ? *first_trie : *trie; }

    // Of the given bytes.
    static std::shared_ptr<const TokenTable> make(std::vector<std::string> bytes, std::vector<std::string> first_bytes);
    // `vocab_size` is the model's: tokens that the tokenizer does not have give no text. UNSUPPORTED where the text of
    // a token depends on the token behind it.
    static Result<std::shared_ptr<const TokenTable>> of(const Tokenizer& tokenizer, int32_t vocab_size);
};

}  // namespace nanolith::grammar
