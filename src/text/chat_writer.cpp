#include "text/chat_writer.h"

#include <algorithm>

#include "text/unicode.h"

namespace nanolith {

Result<void> ChatWriter::mark(std::string_view mark) {
    std::vector<TextPart> parts;
    tokens_->split(mark, parts);
    for (const TextPart& part : parts) NL_TRY(part.token >= 0 ? token(part.token) : text(part.text));
    return {};
}

void ChatWriter::strip_back() {
    run_.resize(run_.size() - trailing_white_space(run_));
    for (size_t& end : ends_in_run_) end = std::min(end, run_.size());
}

void ChatWriter::end_message() {
    if (run_.empty()) {
        chat_.ends.push_back(chat_.tokens.size());
    } else {
        ends_in_run_.push_back(run_.size());
    }
}

Result<RenderedChat> ChatWriter::finish() {
    NL_TRY(flush(-1));
    return std::move(chat_);
}

Result<void> ChatWriter::token(int32_t token) {
    NL_TRY(flush(token));
    chat_.tokens.push_back(token);
    last_token_ = token;
    return {};
}

// Some tokens take the white space beside them.
void ChatWriter::strip_run(int32_t next) {
    const AddedToken* const left = tokens_->tokenizer().added_token(last_token_);
    const AddedToken* const right = tokens_->tokenizer().added_token(next);
    size_t front = left != nullptr && left->rstrip ? leading_white_space(run_) : 0;
    run_.erase(0, front);
    if (right != nullptr && right->lstrip) run_.resize(run_.size() - trailing_white_space(run_));
    for (size_t& end : ends_in_run_) end = std::min(end - std::min(end, front), run_.size());
}

Result<void> ChatWriter::flush(int32_t next) {
    strip_run(next);
    const bool at_start = chat_.tokens.empty();
    std::vector<int32_t> run;
    if (!run_.empty()) NL_TRY(tokens_->encode(run_, at_start, run));
    for (const size_t end : ends_in_run_) {
        size_t count = run.size();
        if (end < run_.size()) {
            std::vector<int32_t> part;
            if (end > 0) NL_TRY(tokens_->encode(std::string_view(run_).substr(0, end), at_start, part));
            count = static_cast<size_t>(std::mismatch(part.begin(), part.end(), run.begin(), run.end()).first -
                                        part.begin());
        }
        chat_.ends.push_back(chat_.tokens.size() + count);
    }
    chat_.tokens.insert(chat_.tokens.end(), run.begin(), run.end());
    run_.clear();
    ends_in_run_.clear();
    return {};
}

}  // namespace nanolith
