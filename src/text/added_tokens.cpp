#include "text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "files/json_fields.h"
#include "text/unicode.h"

namespace nanolith {
namespace {

// Longer than any that is published. It bounds the search at one place of a text.
constexpr size_t kMaxContentBytes = 512;

bool is_word_before(std::string_view text, size_t at) {
    if (at == 0) return false;
    size_t begin = at - 1;
    while (begin > 0 && (static_cast<uint8_t>(text[begin]) & 0xC0U) == 0x80) --begin;
    size_t length = 0;
    return is_word_character(first_character(text.substr(begin), length));
}

bool is_word_behind(std::string_view text, size_t at) {
    size_t length = 0;
    return at < text.size() && is_word_character(first_character(text.substr(at), length));
}

bool counts(const AddedToken& token, const TokenFilter& filter) {
    if (token.special && !filter.special) return false;
    return std::find(filter.unread.begin(), filter.unread.end(), token.id) == filter.unread.end();
}

}  // namespace

Result<AddedToken> read_added_token(const Json& json, const std::string& where, const int32_t* id) {
    const JsonFields fields(json, where);
    AddedToken token;
    const Json* const content = fields.find("content");
    const auto* text = content != nullptr ? content->as<std::string>() : nullptr;
    if (text == nullptr || text->empty() || text->size() > kMaxContentBytes)
        return fields.wrong("content", "a string of 1 to 512 bytes");
    token.content = *text;
    if (id != nullptr) {
        token.id = *id;
    } else {
        NL_ASSIGN(const int64_t read, fields.integer("id", 0, INT32_MAX));
        token.id = static_cast<int32_t>(read);
    }
    NL_ASSIGN(token.single_word, fields.boolean_or("single_word", false));
    NL_ASSIGN(token.lstrip, fields.boolean_or("lstrip", false));
    NL_ASSIGN(token.rstrip, fields.boolean_or("rstrip", false));
    NL_ASSIGN(token.special, fields.boolean_or("special", false));
    NL_ASSIGN(token.normalized, fields.boolean_or("normalized", !token.special));
    return token;
}

void TokenMatcher::add(std::string_view pattern, const AddedToken* token) {
    index_.add(pattern, static_cast<int32_t>(tokens_.size()));
    tokens_.push_back(token);
}

bool TokenMatcher::Parts::find() {
    if (matcher_->index_.empty()) at_ = text_.size();
    while (at_ < text_.size()) {
        const PieceIndex::Match match = matcher_->index_.longest_at(text_.substr(at_));
        if (match.length == 0) {
            ++at_;
            continue;
        }
        size_t begin = at_;
        size_t end = at_ + match.length;
        at_ = end;
        const AddedToken& token = *matcher_->tokens_[static_cast<size_t>(match.value)];
        if (!counts(token, *filter_)) continue;
        if (token.single_word && (is_word_before(text_, begin) || is_word_behind(text_, end))) continue;
        // The token before may have taken the white space already.
        if (token.lstrip && begin > done_) begin -= trailing_white_space(text_.substr(done_, begin - done_));
        if (token.rstrip) end += leading_white_space(text_.substr(end));
        found_ = {text_.substr(begin, end - begin), token.id};
        return true;
    }
    return false;
}

bool TokenMatcher::Parts::next(TextPart& part) {
    if (found_.token < 0 && !find()) {
        part = {text_.substr(done_), -1};
        done_ = text_.size();
        return !part.text.empty();
    }
    const auto begin = static_cast<size_t>(found_.text.data() - text_.data());
    if (done_ < begin) {
        part = {text_.substr(done_, begin - done_), -1};
        done_ = begin;
        return true;
    }
    part = std::exchange(found_, {});
    done_ = begin + part.text.size();
    return true;
}

}  // namespace nanolith
