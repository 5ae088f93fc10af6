#include "text/bert_normalizer.h"

#include <string>

#include "text/character_changes.h"
#include "text/character_sets.h"
#include "text/unicode.h"

namespace nanolith {
namespace {

template <typename Set>
void remove_characters(NormalText& normal, Set&& set) {
    for_each_character(normal, [&](char32_t character, std::string& changed) {
        if (!set(character)) append_character(changed, character);
    });
}

void clean(char32_t character, std::string& changed) {
    if (is_removed_by_bert(character)) return;
    append_character(changed, is_white_space(character) ? U' ' : character);
}

// The blocks of ideographs that BERT knows.
bool is_ideograph(char32_t c) {
    return (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0xF900 && c <= 0xFAFF) ||
           (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
           (c >= 0x2F800 && c <= 0x2FA1F);
}

void set_apart(char32_t character, std::string& changed) {
    const bool apart = is_ideograph(character);
    if (apart) changed += ' ';
    append_character(changed, character);
    if (apart) changed += ' ';
}

}  // namespace

Result<std::unique_ptr<const Normalizer>> BertNormalizer::read(const JsonFields& fields) {
    auto made = std::make_unique<BertNormalizer>();
    NL_ASSIGN(made->clean_text_, fields.boolean_or("clean_text", true));
    NL_ASSIGN(made->handle_chinese_chars_, fields.boolean_or("handle_chinese_chars", true));
    NL_ASSIGN(made->lowercase_, fields.boolean_or("lowercase", true));
    NL_ASSIGN(made->strip_accents_, fields.boolean_or("strip_accents", made->lowercase_));
    return std::unique_ptr<const Normalizer>(std::move(made));
}

Result<void> BertNormalizer::apply(NormalText& normal) const {
    if (clean_text_) for_each_character(normal, clean);
    if (handle_chinese_chars_) for_each_character(normal, set_apart);
    if (strip_accents_) {
        normal.text = normalize_unicode(normal.text, NormalForm::nfd);
        remove_characters(normal, is_nonspacing_mark);
    }
    if (lowercase_) normal.text = lower_case(normal.text);
    return {};
}

Result<void> StripAccents::apply(NormalText& normal) const {
    remove_characters(normal, is_mark);
    return {};
}

}  // namespace nanolith
