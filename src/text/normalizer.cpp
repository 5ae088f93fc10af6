#include "text/normalizer.h"

#include <optional>
#include <utility>

#include "text/component.h"
#include "text/unicode.h"

namespace nanolith {
namespace {

constexpr const char* kWhat = "normalizer";
// Replace and Prepend may lengthen a text; no further than this.
constexpr size_t kMaxNormalizedBytes = size_t{1} << 30U;

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
        std::string& text = normal.text;
        std::vector<Span> matches;
        NL_TRY(pattern_.find_all(text, matches));
        if (matches.empty()) return {};
        if (content_.size() > kMaxNormalizedBytes / matches.size())
            return fail(NL_ERROR_INVALID_ARGUMENT, "the text becomes too long when it is normalised: ", matches.size(),
                        " replacements of ", content_.size(), " bytes");
        std::string replaced;
        replaced.reserve(text.size());
        size_t done = 0;
        for (const Span& match : matches) {
            replaced.append(text, done, match.begin - done).append(content_);
            done = match.end;
        }
        replaced.append(text, done);
        const bool cuts = content_.empty() && matches[0].begin == 0 && matches[0].end > 0;
        normal.at_start = normal.at_start && !cuts;
        text = std::move(replaced);
        return {};
    }

  private:
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
    NL_ASSIGN(const std::string type, read_type(fields, kWhat));
    if (const auto form = normal_form(type)) return make<Unicode>(*form);
    if (type == "Lowercase") return make<Lowercase>();
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
    return unknown_component(where, kWhat, type);
}

}  // namespace nanolith
