#include "text/normalizer.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "text/bert_normalizer.h"
#include "text/byte_level.h"
#include "text/character_changes.h"
#include "text/component.h"
#include "text/precompiled.h"
#include "text/unicode.h"

namespace nanolith {
namespace {

constexpr const char* kNormalizer = "normalizer";

class Unicode final : public Normalizer {
  public:
    explicit Unicode(NormalForm form) : form_(form) {}
    Result<void> apply(NormalText& normal) const override {
        std::string& text = normal.text;
        text = normalize_unicode(text, form_);
        return {};
    }

  private:
    NormalForm form_;
};

class Lowercase final : public Normalizer {
  public:
    Result<void> apply(NormalText& normal) const override {
        std::string& text = normal.text;
        text = lower_case(text);
        return {};
    }
};

// What SentencePiece's rules for neural machine translation do: control characters go, other characters that are white
// space to it become a space.
class Nmt final : public Normalizer {
  public:
    Result<void> apply(NormalText& normal) const override {
        for_each_character(normal, [](char32_t character, std::string& changed) {
            if (!is_removed(character)) append_character(changed, is_space(character) ? U' ' : character);
        });
        return {};
    }

  private:
    static bool is_removed(char32_t c) {
        return (c >= 0x1 && c <= 0x8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
    }
    static bool is_space(char32_t c) {
        constexpr char32_t kSpaces[] = {0x9, 0xA, 0xC, 0xD, 0x1680, 0x2028, 0x2029, 0x2581, 0xFEFF, 0xFFFD};
        return (c >= 0x200B && c <= 0x200F) ||
               std::find(std::begin(kSpaces), std::end(kSpaces), c) != std::end(kSpaces);
    }
};

// Each byte as the character that spells it (byte_level.h).
class ByteLevel final : public Normalizer {
  public:
    Result<void> apply(NormalText& normal) const override {
        std::string spelled;
        spelled.reserve(normal.text.size());
        append_byte_level(spelled, normal.text);
        normal.text = std::move(spelled);
        return {};
    }
};

class Prepend final : public Normalizer {
  public:
    explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
    Result<void> apply(NormalText& normal) const override {
        std::string& text = normal.text;
        if (!text.empty()) text.insert(0, prefix_);
        return {};
    }

  private:
    std::string prefix_;
};

class Replace final : public Normalizer {
  public:
    Replace(Pattern pattern, std::string content) : pattern_(std::move(pattern)), content_(std::move(content)) {}
    Result<void> apply(NormalText& normal) const override {
        if (normal.at_start && content_.empty()) NL_TRY(look_at_start(normal));
        NL_ASSIGN(normal.text, replace_all(normal.text, pattern_, content_));
        return {};
    }

  private:
    // Whether the beginning is taken away.
    Result<void> look_at_start(NormalText& normal) const {
        Pattern::Finder finder(pattern_);
        finder.start(normal.text);
        Span match;
        NL_ASSIGN(const bool found, finder.next(match));
        normal.at_start = !found || match.begin > 0 || match.end == 0;
        return {};
    }

    Pattern pattern_;
    std::string content_;
};

class Strip final : public Normalizer {
  public:
    Strip(bool left, bool right) : left_(left), right_(right) {}
    Result<void> apply(NormalText& normal) const override {
        std::string& text = normal.text;
        if (right_) text.resize(text.size() - trailing_white_space(text));
        const size_t leading = left_ ? leading_white_space(text) : 0;
        normal.at_start = normal.at_start && leading == 0;
        text.erase(0, leading);
        return {};
    }

  private:
    bool left_;
    bool right_;
};

class Sequence final : public Normalizer {
  public:
    explicit Sequence(std::vector<std::unique_ptr<const Normalizer>> members) : members_(std::move(members)) {}
    Result<void> apply(NormalText& normal) const override {
        for (const auto& member : members_) NL_TRY(member->apply(normal));
        return {};
    }

  private:
    std::vector<std::unique_ptr<const Normalizer>> members_;
};

using Read = Result<std::unique_ptr<const Normalizer>>;

template <typename T, typename... Arguments>
Read make(Arguments&&... arguments) {
    return std::unique_ptr<const Normalizer>(std::make_unique<T>(std::forward<Arguments>(arguments)...));
}

Read read_sequence(const JsonFields& fields, const std::string& where) {
    NL_ASSIGN(const auto* const list, read_list(fields, "normalizers"));
    std::vector<std::unique_ptr<const Normalizer>> members;
    for (const Json& json : *list) {
        NL_ASSIGN(auto member, Normalizer::read(&json, where));
        if (member != nullptr) members.push_back(std::move(member));
    }
    return make<Sequence>(std::move(members));
}

std::optional<NormalForm> normal_form(const std::string& type) {
    if (type == "NFC") return NormalForm::nfc;
    if (type == "NFD") return NormalForm::nfd;
    if (type == "NFKC") return NormalForm::nfkc;
    if (type == "NFKD") return NormalForm::nfkd;
    return std::nullopt;
}

}  // namespace

Read Normalizer::read(const Json* json, const std::string& where) {
    if (json == nullptr || json->is_null()) return std::unique_ptr<const Normalizer>();
    const JsonFields fields(*json, where, "normalizer.");
    NL_ASSIGN(const std::string type, read_type(fields, kNormalizer));
    if (const auto form = normal_form(type)) return make<Unicode>(*form);
    if (type == "Lowercase") return make<Lowercase>();
    if (type == "StripAccents") return make<StripAccents>();
    if (type == "Nmt") return make<Nmt>();
    if (type == "ByteLevel") return make<ByteLevel>();
    if (type == "BertNormalizer") return BertNormalizer::read(fields);
    if (type == "Precompiled") return Precompiled::read(fields, where);
    if (type == "Sequence") return read_sequence(fields, where);
    if (type == "Prepend") {
        NL_ASSIGN(std::string prefix, read_string(fields, "prepend"));
        return make<Prepend>(std::move(prefix));
    }
    if (type == "Replace") {
        NL_ASSIGN(Pattern pattern, read_pattern(fields, where));
        NL_ASSIGN(std::string content, read_string(fields, "content"));
        return make<Replace>(std::move(pattern), std::move(content));
    }
    if (type == "Strip") {
        NL_ASSIGN(const bool left, fields.boolean_or("strip_left", false));
        NL_ASSIGN(const bool right, fields.boolean_or("strip_right", false));
        return make<Strip>(left, right);
    }
    return unknown_component(where, kNormalizer, type);
}

}  // namespace nanolith
