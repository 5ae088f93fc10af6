#include "text/mark_tokens.h"

#include <algorithm>

#include "files/json.h"

namespace nanolith {

void MarkTokens::add(std::string spelling, int32_t token) {
    tokens_.push_back(std::make_unique<AddedToken>());
    tokens_.back()->content = std::move(spelling);
    tokens_.back()->id = token;
    matcher_.add(tokens_.back()->content, tokens_.back().get());
    unread_.push_back(token);
}

void MarkTokens::finish() {
    matcher_.finish();
    std::sort(unread_.begin(), unread_.end());
    unread_.erase(std::unique(unread_.begin(), unread_.end()), unread_.end());
}

void MarkTokens::split(std::string_view mark, std::vector<TextPart>& parts) const {
    const TokenFilter all;
    TokenMatcher::Parts found(matcher_, mark, all);
    parts.clear();
    for (TextPart part; found.next(part);) parts.push_back(part);
}

Result<void> MarkTokens::check_content(std::string_view content, const std::string& what) const {
    for (const std::string& mark : texts_) {
        if (content.find(mark) != std::string_view::npos)
            return fail(NL_ERROR_INVALID_ARGUMENT, what, " has ", show_json(mark),
                        ", which begins or ends a message in the format ", name_, ": expected a text without it");
    }
    return {};
}

bool MarkTokens::has_mark(const std::vector<int32_t>& tokens, size_t from) const {
    return std::any_of(tokens.begin() + static_cast<ptrdiff_t>(from), tokens.end(),
                       [this](int32_t token) { return std::binary_search(unread_.begin(), unread_.end(), token); });
}

Result<void> MarkTokens::encode(std::string_view text, bool at_start, std::vector<int32_t>& tokens) const {
    const EncodeRules rules{{false, unread_}};
    const size_t before = tokens.size();
    NL_TRY(tokenizer_->encode_part(text, rules, at_start, tokens));
    if (!has_mark(tokens, before)) return {};
    // Some vocabularies have the marks as ordinary pieces. Cut in two, such a piece is text.
    tokens.resize(before);
    const TokenFilter all;
    TokenMatcher::Parts parts(matcher_, text, all);
    size_t done = 0;
    for (TextPart part; parts.next(part);) {
        const auto begin = static_cast<size_t>(part.text.data() - text.data());
        const size_t cut = part.token >= 0 ? begin + 1 : begin + part.text.size();
        NL_TRY(tokenizer_->encode_part(text.substr(done, cut - done), rules, at_start && done == 0, tokens));
        done = cut;
    }
    if (done < text.size()) NL_TRY(tokenizer_->encode_part(text.substr(done), rules, false, tokens));
    if (has_mark(tokens, before))
        return fail(NL_ERROR_INVALID_ARGUMENT, "contents has text that the tokenizer makes a mark of the format ",
                    name_, " of: expected none");
    return {};
}

}  // namespace nanolith
