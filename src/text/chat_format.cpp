#include "text/chat_format.h"

#include <algorithm>
#include <utility>

#include "base/hex.h"
#include "files/json.h"
#include "text/chat_writer.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace nanolith {
namespace {

using System = ChatMarks::System;

// What stands between messages that a format takes for one.
constexpr std::string_view kJoint = "\n\n";

// Python's str.strip, which templates use, also takes four control characters for white space.
bool is_separator(char c) {
    return c >= 0x1C && c <= 0x1F;
}

std::string_view trim_front(std::string_view text) {
    for (size_t space = 1; space > 0;) {
        space = leading_white_space(text);
        if (space == 0 && !text.empty() && is_separator(text.front())) space = 1;
        text.remove_prefix(space);
    }
    return text;
}

std::string_view trim_back(std::string_view text) {
    for (size_t space = 1; space > 0;) {
        space = trailing_white_space(text);
        if (space == 0 && !text.empty() && is_separator(text.back())) space = 1;
        text.remove_suffix(space);
    }
    return text;
}

// A message on its way into tokens.
struct Entry {
    int32_t role;
    std::string text;
};

// Walks over a chat's messages and writes them and their marks.
class Renderer {
  public:
    Renderer(const ChatMarks& marks, std::vector<Entry> entries, ChatWriter& writer)
        : marks_(&marks), entries_(std::move(entries)), writer_(&writer) {}

    Result<void> render(bool generation) {
        while (num_system_ < entries_.size() && entries_[num_system_].role == NL_ROLE_SYSTEM) ++num_system_;
        NL_TRY(check_roles(generation));
        NL_TRY(writer_->begin());
        if (marks_->system == System::own_message) {
            NL_TRY(write_default_system());
        } else if (num_system_ > 0 && (num_system_ == entries_.size() || marks_->system == System::last_user)) {
            NL_TRY(write_early_system());
        }
        size_t first = marks_->system == System::own_message ? 0 : num_system_;
        while (first < entries_.size()) {
            const size_t end = group_end(first);
            NL_TRY(write_group(first, end));
            first = end;
        }
        return generation ? writer_->mark(marks_->generation) : Result<void>();
    }

  private:
    [[nodiscard]] Result<void> check_roles(bool generation) const {
        const bool folds = marks_->system != System::own_message;
        if (folds && num_system_ == entries_.size() && (generation || marks_->system == System::last_user))
            return fail(NL_ERROR_INVALID_ARGUMENT, "roles has system messages only: in the format ", marks_->name,
                        " they stand inside a user's message: expected one behind them");
        if (!marks_->alternates) return {};
        for (size_t i = num_system_; i < entries_.size(); ++i) {
            if (entries_[i].role == NL_ROLE_SYSTEM)
                return fail(NL_ERROR_INVALID_ARGUMENT, "roles[", i, "] is NL_ROLE_SYSTEM: in the format ", marks_->name,
                            " system messages stand in front of all others");
        }
        if (num_system_ < entries_.size() && entries_[num_system_].role != NL_ROLE_USER)
            return fail(NL_ERROR_INVALID_ARGUMENT, "roles[", num_system_, "] is NL_ROLE_ASSISTANT: in the format ",
                        marks_->name, " the user speaks first");
        return {};
    }

    // The messages from `first` to before the result are one to the model.
    [[nodiscard]] size_t group_end(size_t first) const {
        size_t end = first + 1;
        while (marks_->alternates && end < entries_.size() && entries_[end].role == entries_[first].role) ++end;
        return end;
    }

    Result<void> write_default_system() {
        if (num_system_ > 0 || (!marks_->always_system && marks_->default_system.empty())) return {};
        NL_TRY(writer_->mark(marks_->system_before));
        NL_TRY(writer_->text(marks_->default_system));
        return writer_->mark(marks_->system_after);
    }

    // System messages whose user's message is not there yet, or is the last: here they stand alone, or are nothing.
    Result<void> write_early_system() {
        if (marks_->system == System::last_user) {
            for (size_t i = 0; i < num_system_; ++i) writer_->end_message();
            return {};
        }
        NL_TRY(writer_->mark(marks_->user_before));
        return write_folded_system(true);
    }

    Result<void> write_folded_system(bool ends_messages) {
        NL_TRY(writer_->mark(marks_->system_before));
        for (size_t i = 0; i < num_system_; ++i) {
            NL_TRY(writer_->text(entries_[i].text));
            if (i + 1 < num_system_) {
                NL_TRY(writer_->text(kJoint));
                if (ends_messages) writer_->end_message();
            }
        }
        NL_TRY(writer_->mark(marks_->system_after));
        if (ends_messages) writer_->end_message();
        return {};
    }

    Result<void> write_group(size_t first, size_t end) {
        const int32_t role = entries_[first].role;
        const bool later_system = role == NL_ROLE_SYSTEM && first > 0 && !marks_->later_system_before.empty();
        NL_TRY(writer_->mark(role == NL_ROLE_SYSTEM
                                 ? (later_system ? marks_->later_system_before : marks_->system_before)
                             : role == NL_ROLE_USER ? marks_->user_before
                                                    : marks_->assistant_before));
        const bool folds = num_system_ > 0 && role == NL_ROLE_USER && holds_system(first, end);
        if (folds) NL_TRY(write_folded_system(marks_->system == System::first_user));
        for (size_t i = first; i < end; ++i) {
            std::string_view text = entries_[i].text;
            const bool trims = role == NL_ROLE_SYSTEM
                                   ? marks_->trims_system
                                   : marks_->trims || (role == NL_ROLE_ASSISTANT && marks_->trims_assistant);
            if (trims && i == first && !(folds && marks_->keeps_space_behind_system)) text = trim_front(text);
            if (trims && i + 1 == end) text = trim_back(text);
            NL_TRY(writer_->text(text));
            if (trims && folds && marks_->keeps_space_behind_system && i + 1 == end) writer_->strip_back();
            if (i + 1 == end) break;
            NL_TRY(writer_->text(kJoint));
            writer_->end_message();
        }
        NL_TRY(writer_->mark(role == NL_ROLE_SYSTEM ? marks_->system_after
                             : role == NL_ROLE_USER ? marks_->user_after
                                                    : marks_->assistant_after));
        writer_->end_message();
        return {};
    }

    // Whether this group of the user's messages has the system text in it.
    [[nodiscard]] bool holds_system(size_t first, size_t end) const {
        if (marks_->system == System::first_user) return first == num_system_;
        return marks_->system == System::last_user && end == entries_.size();
    }

    const ChatMarks* marks_;
    std::vector<Entry> entries_;
    ChatWriter* writer_;
    size_t num_system_ = 0;  // system messages in front
};

// What a model thought before an answer is not shown to it again once the user has spoken.
void drop_thoughts(std::vector<Entry>& entries) {
    constexpr std::string_view kEnd = "</think>";
    const auto last_user =
        std::find_if(entries.rbegin(), entries.rend(), [](const Entry& e) { return e.role == NL_ROLE_USER; });
    for (auto entry = last_user; entry != entries.rend(); ++entry) {
        const size_t end = entry->text.rfind(kEnd);
        if (entry->role != NL_ROLE_ASSISTANT || end == std::string::npos) continue;
        entry->text.erase(0, std::min(entry->text.find_first_not_of('\n', end + kEnd.size()), entry->text.size()));
    }
}

}  // namespace

Result<ChatFormat> ChatFormat::create(std::shared_ptr<const Tokenizer> tokenizer, std::string_view name) {
    if (name.empty() && tokenizer->chat_template().empty())
        return fail(NL_ERROR_NOT_FOUND, "the model folder has no chat template: name one of ", chat_format_names());
    NL_ASSIGN(ChatMarks marks,
              name.empty() ? recognise_chat_template(tokenizer->chat_template()) : find_chat_marks(name));
    ChatFormat format(std::move(tokenizer), std::move(marks));
    NL_TRY(format.find_tokens());
    return format;
}

ChatFormat::ChatFormat(std::shared_ptr<const Tokenizer> tokenizer, ChatMarks marks)
    : tokenizer_(std::move(tokenizer)), marks_(std::move(marks)) {}

Result<void> ChatFormat::find_tokens() {
    const auto uses = [this](std::string_view mark) {
        return (marks_.begin + marks_.user_before + marks_.assistant_after).find(mark) != std::string::npos;
    };
    if (uses("{bos}") && tokenizer_->bos() < 0)
        return fail(NL_ERROR_UNSUPPORTED, "the chat format ", marks_.name,
                    " needs a beginning-of-sequence token, and the tokenizer has none");
    if (uses("{eos}") && tokenizer_->eos() < 0)
        return fail(NL_ERROR_UNSUPPORTED, "the chat format ", marks_.name,
                    " needs an end-of-sequence token, and the tokenizer has none");
    for (const std::string& spelling : marks_.required_tokens) {
        const auto token = tokenizer_->find(spelling);
        if (!token.ok())
            return fail(NL_ERROR_UNSUPPORTED, "the chat format ", marks_.name, " needs the token ", show_json(spelling),
                        ", and the tokenizer has none");
        mark_tokens_.emplace_back(spelling, *token);
    }
    for (const std::string& spelling : marks_.optional_tokens) {
        const auto token = tokenizer_->find(spelling);
        if (token.ok()) {
            mark_tokens_.emplace_back(spelling, *token);
        } else {
            text_marks_.push_back(spelling);
        }
    }
    for (const auto& [spelling, token] : mark_tokens_) unread_tokens_.push_back(token);
    for (const auto& [mark, token] : {std::pair("{bos}", tokenizer_->bos()), std::pair("{eos}", tokenizer_->eos())}) {
        if (token < 0) continue;
        unread_tokens_.push_back(token);
        mark_tokens_.emplace_back(mark, token);
    }
    return {};
}

Result<void> ChatFormat::check_content(std::string_view content, size_t index) const {
    for (const std::string& mark : text_marks_) {
        if (content.find(mark) != std::string_view::npos)
            return fail(NL_ERROR_INVALID_ARGUMENT, "contents[", index, "] has ", show_json(mark),
                        ", which begins or ends a message in the format ", marks_.name, ": expected a text without it");
    }
    return {};
}

Result<RenderedChat> ChatFormat::render(std::span<const ChatMessage> messages, uint32_t flags) const {
    if ((flags & ~uint32_t{NL_CHAT_ADD_GENERATION_PROMPT}) != 0)
        return fail(NL_ERROR_INVALID_ARGUMENT, "flags is ", hex(flags), ": expected 0 or a sum of NL_CHAT_*, bits of ",
                    hex(NL_CHAT_ADD_GENERATION_PROMPT));
    if (messages.empty()) return fail(NL_ERROR_INVALID_ARGUMENT, "num_messages is 0: expected at least 1");
    std::vector<Entry> entries;
    size_t bytes = 0;
    for (size_t i = 0; i < messages.size(); ++i) {
        const ChatMessage& message = messages[i];
        if (message.role < NL_ROLE_SYSTEM || message.role > NL_ROLE_ASSISTANT)
            return fail(NL_ERROR_INVALID_ARGUMENT, "roles[", i, "] is ", message.role, ": expected one of NL_ROLE_*");
        bytes += std::min(message.content.size(), kMaxTextBytes + 1);
        if (bytes > kMaxTextBytes)
            return fail(NL_ERROR_INVALID_ARGUMENT, "contents has more than ", kMaxTextBytes, " bytes up to contents[",
                        i, "]: expected at most that");
        NL_TRY(check_content(message.content, i));
        entries.push_back({message.role, replace_invalid_utf8(message.content)});
    }
    if (marks_.drops_thoughts) drop_thoughts(entries);
    ChatWriter writer(*this);
    NL_TRY(Renderer(marks_, std::move(entries), writer).render((flags & NL_CHAT_ADD_GENERATION_PROMPT) != 0));
    return writer.finish();
}

Result<void> ChatFormat::encode_run(std::string_view text, bool at_start, std::vector<int32_t>& tokens) const {
    const TokenFilter filter{false, unread_tokens_};
    const size_t before = tokens.size();
    const auto has_mark = [&] {
        return std::find_first_of(tokens.begin() + static_cast<ptrdiff_t>(before), tokens.end(), unread_tokens_.begin(),
                                  unread_tokens_.end()) != tokens.end();
    };
    NL_TRY(tokenizer_->encode_part(text, filter, at_start, tokens));
    if (!has_mark()) return {};
    // Some vocabularies have the marks as ordinary pieces. Cut in two, such a piece is text.
    tokens.resize(before);
    size_t done = 0;
    for (size_t at = 1; at <= text.size(); ++at) {
        const bool cuts = std::any_of(unread_tokens_.begin(), unread_tokens_.end(), [&](int32_t token) {
            const auto spelling = tokenizer_->piece(token);
            return spelling.ok() && !spelling->empty() && text.substr(at - 1).starts_with(*spelling);
        });
        if (!cuts && at < text.size()) continue;
        NL_TRY(tokenizer_->encode_part(text.substr(done, at - done), filter, at_start && done == 0, tokens));
        done = at;
    }
    if (has_mark())
        return fail(NL_ERROR_INVALID_ARGUMENT, "contents has text that the tokenizer makes a mark of the format ",
                    marks_.name, " of: expected none");
    return {};
}

}  // namespace nanolith
