#include "text/added_tokens.h"

#include <algorithm>

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

void TokenMatcher::add(std::string pattern, const AddedToken* token) {
    if (!pattern.empty()) patterns_.push_back({std::move(pattern), token});
}

void TokenMatcher::finish() {
    std::stable_sort(patterns_.begin(), patterns_.end(),
                     [](const Entry& a, const Entry& b) { return a.pattern < b.pattern; });
    // Of those that are the same the last stays.
    const auto same = [](const Entry& a, const Entry& b) { return a.pattern == b.pattern; };
    const auto kept = std::unique(patterns_.rbegin(), patterns_.rend(), same);
    patterns_.erase(patterns_.begin(), kept.base());
    for (const Entry& entry : patterns_) ++first_byte_[static_cast<uint8_t>(entry.pattern[0]) + 1U];
    for (size_t byte = 1; byte < first_byte_.size(); ++byte) first_byte_[byte] += first_byte_[byte - 1];
}

const TokenMatcher::Entry* TokenMatcher::longest_at(std::string_view text) const {
    const auto byte = static_cast<uint8_t>(text[0]);
    auto low = patterns_.begin() + first_byte_[byte];
    auto high = patterns_.begin() + first_byte_[byte + 1U];
    const Entry* longest = nullptr;
    // low to high are the patterns that begin with the first `depth` bytes of the text.
    for (size_t depth = 1; low != high; ++depth) {
        if (low->pattern.size() == depth) longest = &*low++;
        if (depth == text.size()) break;
        const auto next = static_cast<uint8_t>(text[depth]);
        const auto at = [depth](const Entry& entry) { return static_cast<uint8_t>(entry.pattern[depth]); };
        low = std::partition_point(low, high, [&](const Entry& entry) { return at(entry) < next; });
        high = std::partition_point(low, high, [&](const Entry& entry) { return at(entry) == next; });
    }
    return longest;
}

void TokenMatcher::split(std::string_view text, const TokenFilter& filter, std::vector<TextPart>& parts) const {
    parts.clear();
    size_t done = 0;  // what lies before is in a part
    for (size_t at = 0; at < text.size() && !patterns_.empty();) {
        const auto byte = static_cast<uint8_t>(text[at]);
        const Entry* const found = first_byte_[byte] == first_byte_[byte + 1U] ? nullptr : longest_at(text.substr(at));
        if (found == nullptr) {
            ++at;
            continue;
        }
        size_t begin = at;
        size_t end = at + found->pattern.size();
        at = end;
        const AddedToken& token = *found->token;
        if (!counts(token, filter)) continue;
        if (token.single_word && (is_word_before(text, begin) || is_word_behind(text, end))) continue;
        // The token before may have taken the white space already.
        if (token.lstrip && begin > done) begin -= trailing_white_space(text.substr(done, begin - done));
        if (token.rstrip) end += leading_white_space(text.substr(end));
        if (done < begin) parts.push_back({text.substr(done, begin - done), -1});
        parts.push_back({text.substr(begin, end - begin), token.id});
        done = end;
    }
    if (done < text.size()) parts.push_back({text.substr(done), -1});
}

}  // namespace nanolith
