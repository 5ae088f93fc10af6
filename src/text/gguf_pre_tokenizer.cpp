#include "text/gguf_pre_tokenizer.h"

#include <algorithm>
#include <array>
#include <utility>

namespace nanolith {
namespace {

// GPT-4's, Llama 3's and Qwen's patterns, which differ in how many digits a word has.
#define NL_WORDS_WITH(DIGITS)                                            \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" DIGITS \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
constexpr const char* kThreeDigits = NL_WORDS_WITH("\\p{N}{1,3}");
constexpr const char* kOneDigit = NL_WORDS_WITH("\\p{N}");
#undef NL_WORDS_WITH
// GPT-4o's, and Mistral's without English endings: a word's capitals stand in front of its small letters.
#define NL_WORDS_BY_CASE(ENDINGS, DIGITS)                                                                           \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+" ENDINGS             \
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*" ENDINGS "|" DIGITS \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
constexpr const char* kO200k = NL_WORDS_BY_CASE("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "\\p{N}{1,3}");
constexpr const char* kTekken = NL_WORDS_BY_CASE("", "\\p{N}");
#undef NL_WORDS_BY_CASE
// Qwen 3.5's, whose words have marks too.
constexpr const char* kMarks =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

constexpr GgufPreTokenizer llama3(std::string_view name) {
    return {.name = name, .pattern = kThreeDigits, .takes_known_words = true, .adds_bos = true};
}
constexpr GgufPreTokenizer with_digits(std::string_view name) {
    return {.name = name, .digits_alone = true};
}

constexpr std::array kKnown = {
    GgufPreTokenizer{.name = "gpt-2"},
    GgufPreTokenizer{.name = "olmo"},
    GgufPreTokenizer{.name = "exaone4"},
    llama3("llama-bpe"),
    llama3("llama3"),
    llama3("llama-v3"),
    llama3("falcon3"),
    GgufPreTokenizer{.name = "dbrx", .pattern = kThreeDigits},
    GgufPreTokenizer{.name = "smaug-bpe", .pattern = kThreeDigits},
    GgufPreTokenizer{.name = "glm4", .pattern = kThreeDigits, .takes_known_words = true},
    GgufPreTokenizer{.name = "qwen2", .pattern = kOneDigit, .nfc = true},
    GgufPreTokenizer{.name = "deepseek-r1-qwen", .pattern = kOneDigit, .nfc = true},
    GgufPreTokenizer{.name = "megrez", .pattern = kOneDigit},
    GgufPreTokenizer{.name = "qwen35", .pattern = kMarks, .nfc = true},
    GgufPreTokenizer{.name = "tekken", .pattern = kTekken, .takes_known_words = true, .adds_bos = true},
    GgufPreTokenizer{.name = "gpt-4o", .pattern = kO200k},
    GgufPreTokenizer{.name = "llama4", .pattern = kO200k},
    with_digits("smollm"),
    with_digits("starcoder"),
    with_digits("refact"),
    with_digits("codeshell"),
    with_digits("command-r"),
    with_digits("minerva-7b"),
};

Json object_of(Json::Object members) {
    std::ranges::sort(members, {}, &JsonMember::name);
    return Json(Json::Value(std::move(members)));
}
JsonMember text(const char* name, const char* value) {
    return {name, Json(Json::Value(std::string(value)))};
}
JsonMember flag(const char* name, bool value) {
    return {name, Json(Json::Value(value))};
}

Json split_at(const char* pattern) {
    Json::Object regex;
    regex.push_back(text("Regex", pattern));
    Json::Object split;
    split.push_back(text("type", "Split"));
    split.push_back(text("behavior", "Isolated"));
    split.push_back({"pattern", object_of(std::move(regex))});
    return object_of(std::move(split));
}

}  // namespace

const GgufPreTokenizer* find_gguf_pre_tokenizer(std::string_view name) {
    const auto* const found = std::ranges::find(kKnown, name, &GgufPreTokenizer::name);
    return found != kKnown.end() ? found : nullptr;
}

std::string gguf_pre_tokenizer_names() {
    std::string names;
    for (const GgufPreTokenizer& known : kKnown) names.append(names.empty() ? "" : ", ").append(known.name);
    return names;
}

Json pre_tokenizer_json(const GgufPreTokenizer& pre_tokenizer) {
    Json::Array steps;
    if (pre_tokenizer.digits_alone) {
        Json::Object digits;
        digits.push_back(text("type", "Digits"));
        digits.push_back(flag("individual_digits", true));
        steps.push_back(object_of(std::move(digits)));
    }
    if (pre_tokenizer.pattern != nullptr) steps.push_back(split_at(pre_tokenizer.pattern));
    Json::Object bytes;
    bytes.push_back(text("type", "ByteLevel"));
    bytes.push_back(flag("add_prefix_space", false));
    bytes.push_back(flag("use_regex", pre_tokenizer.pattern == nullptr));
    steps.push_back(object_of(std::move(bytes)));
    Json::Object sequence;
    sequence.push_back(text("type", "Sequence"));
    sequence.push_back({"pretokenizers", Json(Json::Value(std::move(steps)))});
    return object_of(std::move(sequence));
}

}  // namespace nanolith
