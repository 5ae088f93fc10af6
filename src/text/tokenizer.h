// Text to tokens and back: what every kind of tokenizer file can do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/added_tokens.h"

namespace nanolith {

// Longest text that is encoded in one call, in bytes: libsentencepiece counts in int, and normalisation may lengthen a
// text many times.
constexpr size_t kMaxTextBytes = size_t{64} << 20U;

// How decoding treats the beginning of a text.
struct DecodeRules {
    // Whether it drops a space there: the first one only (it was put there by the encoder), or all of them (the
    // encoder removes extra spaces anyway).
    bool drops_first_space = false;
    bool drops_leading_spaces = false;
};

// How a text is encoded.
struct EncodeRules {
    TokenFilter filter;
    int32_t max_threads = 1;  // that may work on it, the caller's among them
};

// Immutable after load, so every member may be called from any thread.
class Tokenizer {
  public:
    // That of a GGUF file (see load_gguf_tokenizer) or of a folder: reads its tokenizer.json or, where there is none,
    // tokenizer.model or else tekken.json, and what is beside it (see TokenizerConfig). Where several are there
    // tokenizer.json counts: it is what the reference implementation reads, and chat models have their markers only in
    // it. NOT_FOUND where there is none, BAD_MODEL where a file is damaged, UNSUPPORTED where it has a component that
    // is not known; all name the path.
    static Result<std::shared_ptr<const Tokenizer>> load(const std::string& path);

    Tokenizer() = default;
    Tokenizer(const Tokenizer&) = delete;
    Tokenizer& operator=(const Tokenizer&) = delete;
    virtual ~Tokenizer();

    // `flags` are NL_ENCODE_*. Ill-formed UTF-8 is read as U+FFFD.
    [[nodiscard]] Result<std::vector<int32_t>> encode(std::string_view text, uint32_t flags) const;

    // Valid UTF-8 always. INVALID_ARGUMENT for a token outside of the vocabulary.
    [[nodiscard]] Result<std::string> decode(std::span<const int32_t> tokens) const;

    // Appends the tokens of `text`, which is valid UTF-8 of at most kMaxTextBytes. `at_start`: nothing stands before
    // it, so that a tokenizer which puts a space before a text does.
    [[nodiscard]] virtual Result<void> encode_part(std::string_view text, const EncodeRules& rules, bool at_start,
                                                   std::vector<int32_t>& tokens) const = 0;

    // One more than the highest token.
    [[nodiscard]] virtual int32_t vocab_size() const = 0;
    // The token spelled exactly `piece`, or NOT_FOUND.
    [[nodiscard]] virtual Result<int32_t> find(std::string_view piece) const = 0;
    // The spelling of a token. INVALID_ARGUMENT for a token outside of the vocabulary.
    [[nodiscard]] virtual Result<std::string> piece(int32_t token) const = 0;

    // The bytes that a token stands for, and what a decoder must know of them.
    struct Surface {
        std::string bytes;     // a byte token's single byte; of control tokens nothing
        bool is_text = false;  // may begin with a space that is the encoder's
        // In place of `bytes` where no further text follows.
        std::optional<std::string> last_bytes = {};
    };
    // `is_first`: no token before it gave text.
    [[nodiscard]] virtual Result<Surface> surface(int32_t token, bool is_first) const = 0;

    // Special tokens: -1 where the model has none.
    [[nodiscard]] int32_t bos() const { return bos_; }
    [[nodiscard]] int32_t eos() const { return eos_; }
    [[nodiscard]] int32_t unk() const { return unk_; }
    [[nodiscard]] int32_t pad() const { return pad_; }

    // What NL_ENCODE_ADD_SPECIAL puts in front of a text.
    [[nodiscard]] std::span<const int32_t> tokens_before() const { return before_; }

    [[nodiscard]] const DecodeRules& decode_rules() const { return rules_; }
    // Sorted by id.
    [[nodiscard]] std::span<const AddedToken> added_tokens() const { return added_tokens_; }
    // The added token of that id, or null.
    [[nodiscard]] const AddedToken* added_token(int32_t token) const;
    // The model folder's chat template (Jinja), empty where it has none.
    [[nodiscard]] const std::string& chat_template() const { return chat_template_; }

  protected:
    [[nodiscard]] Result<void> check_token(int32_t token) const;

    // Filled by those who load a kind of tokenizer.
    int32_t bos_ = -1;
    int32_t eos_ = -1;
    int32_t unk_ = -1;
    int32_t pad_ = -1;
    // What NL_ENCODE_ADD_SPECIAL puts around a text.
    std::vector<int32_t> before_;
    std::vector<int32_t> after_;
    DecodeRules rules_;
    std::vector<AddedToken> added_tokens_;  // sorted by id
    std::string chat_template_;
};

}  // namespace nanolith
