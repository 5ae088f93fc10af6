#include "text/chat_format.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "base/hex.h"
#include "files/json.h"
#include "text/chat_probe.h"
#include "text/chat_request.h"
#include "text/chat_writer.h"
#include "text/jinja/text.h"
#include "text/utf8.h"

namespace nanolith {
namespace {

using System = ChatMarks::System;

// What stands between messages that a format takes for one.
constexpr std::string_view kJoint = "\n\n";

std::string_view trim_front(std::string_view text) {
    return text.substr(jinja::strip_range(text, nullptr, true, false).begin);
}

std::string_view trim_back(std::string_view text) {
    return text.substr(0, jinja::strip_range(text, nullptr, false, true).end);
}

// A message on its way into tokens.
struct Entry {
    int32_t role;
    std::string text;
};

// Walks over a chat's messages and writes them and their marks.
class Renderer {
  public:
    Renderer(const ChatMarks& marks, const Tokenizer& tokenizer, std::vector<Entry> entries, ChatWriter& writer)
        : marks_(&marks), tokenizer_(&tokenizer), entries_(std::move(entries)), writer_(&writer) {}

    Result<void> render(bool generation) {
        while (num_system_ < entries_.size() && entries_[num_system_].role == NL_ROLE_SYSTEM) ++num_system_;
        NL_TRY(check_roles(generation));
        NL_TRY(begin());
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
        return writer_->mark(generation ? marks_->generation : marks_->no_generation);
    }

  private:
    // What stands in front of all messages.
    Result<void> begin() {
        if (!marks_->begins_as_text) return writer_->mark(marks_->begin);
        for (const int32_t before : tokenizer_->tokens_before()) NL_TRY(writer_->token(before));
        return {};
    }

    [[nodiscard]] Result<void> check_roles(bool generation) const {
        const bool folds = marks_->system != System::own_message;
        if (folds && num_system_ == entries_.size() && (generation || marks_->system == System::last_user))
            return fail(NL_ERROR_INVALID_ARGUMENT, "roles has system messages only: in the format ", marks_->name,
                        " they stand inside a user's message: expected one after them");
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
    const Tokenizer* tokenizer_;
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

// Whether a token for a text that follows a special token begins with the space that SentencePiece vocabularies write
// as U+2581.
bool begins_with_space(const Tokenizer& tokenizer, std::string_view text) {
    std::vector<int32_t> tokens;
    if (!tokenizer.encode_part(text, {}, false, tokens).ok() || tokens.empty()) return false;
    const auto piece = tokenizer.piece(tokens.front());
    return piece.ok() && piece->starts_with("\xE2\x96\x81");
}

// Writes {space} in the marks as this tokenizer has it.
void resolve_spaces(ChatMarks& marks, const Tokenizer& tokenizer) {
    // Tokenizers that put the space before a text themselves would write it twice, and where no space belongs to a word
    // none was there in training. Where "[INST]" is text, the mark is that text.
    const bool is_text = !tokenizer.find("[INST]").ok();
    const bool is_written = is_text || (begins_with_space(tokenizer, " a") && !begins_with_space(tokenizer, "a"));
    constexpr std::string_view kSpace = "{space}";
    for (std::string* mark : {&marks.system_before, &marks.user_before, &marks.user_after, &marks.assistant_before}) {
        for (size_t at = mark->find(kSpace); at != std::string::npos; at = mark->find(kSpace, at))
            mark->replace(at, kSpace.size(), is_written ? 1 : 0, ' ');
    }
}

}  // namespace

Result<ChatFormat> ChatFormat::create(const std::shared_ptr<const Tokenizer>& tokenizer, std::string_view name) {
    if (!name.empty()) {
        NL_ASSIGN(ChatMarks marks, find_chat_marks(name));
        return with_marks(tokenizer, std::move(marks));
    }
    if (tokenizer->chat_template().empty())
        return fail(NL_ERROR_NOT_FOUND, "the model folder has no chat template: name one of ", chat_format_names());
    NL_ASSIGN(ChatFormat own, with_template(tokenizer));
    auto marks = recognise_chat_template(tokenizer->chat_template());
    if (!marks.has_value()) return own;
    auto known = with_marks(tokenizer, std::move(*marks));
    if (!known.ok()) return own;
    const auto by_marks = [&](std::span<const ChatMessage> messages, bool generation) {
        return known->render_marks(messages, generation);
    };
    const auto by_template = [&](std::span<const ChatMessage> messages, bool generation) {
        return own.template_->render(messages, generation);
    };
    if (!is_same_format(*known->marks_, by_marks, by_template)) return own;
    known->template_ = std::move(own.template_);
    return known;
}

Result<ChatFormat> ChatFormat::with_template(const std::shared_ptr<const Tokenizer>& tokenizer) {
    ChatFormat format;
    format.name_ = "template";
    auto made = ChatTemplate::create(tokenizer);
    if (!made.ok())
        return fail(made.error().status, made.error().message, ": name one of ", chat_format_names(),
                    ", or format the text yourself");
    format.template_ = std::move(*made);
    return format;
}

Result<ChatFormat> ChatFormat::with_marks(const std::shared_ptr<const Tokenizer>& tokenizer, ChatMarks marks) {
    ChatFormat format;
    format.name_ = marks.name;
    resolve_spaces(marks, *tokenizer);
    format.marks_ = std::move(marks);
    NL_TRY(format.find_tokens(tokenizer));
    return format;
}

Result<void> ChatFormat::find_tokens(const std::shared_ptr<const Tokenizer>& tokenizer) {
    auto tokens = std::make_shared<MarkTokens>(tokenizer, name_);
    const auto uses = [this](std::string_view mark) {
        return (marks_->begin + marks_->user_before + marks_->assistant_after + marks_->no_generation).find(mark) !=
               std::string::npos;
    };
    for (const auto& [mark, token, what] :
         {std::tuple("{bos}", tokenizer->bos(), "a beginning"), std::tuple("{eos}", tokenizer->eos(), "an end")}) {
        if (uses(mark) && token < 0)
            return fail(NL_ERROR_UNSUPPORTED, "the chat format ", name_, " needs ", what,
                        "-of-sequence token, and the tokenizer has none");
        if (token >= 0) tokens->add(mark, token);
    }
    for (const std::string& spelling : marks_->required_tokens) {
        const auto token = tokenizer->find(spelling);
        if (!token.ok())
            return fail(NL_ERROR_UNSUPPORTED, "the chat format ", name_, " needs the token ", show_json(spelling),
                        ", and the tokenizer has none");
        tokens->add(spelling, *token);
    }
    for (const std::string& spelling : marks_->optional_tokens) {
        const auto token = tokenizer->find(spelling);
        if (token.ok()) {
            tokens->add(spelling, *token);
        } else {
            tokens->add_text(spelling);
        }
    }
    tokens->finish();
    tokens_ = std::move(tokens);
    return {};
}

namespace {

Result<void> check_flags(uint32_t flags) {
    if ((flags & ~uint32_t{NL_CHAT_ADD_GENERATION_PROMPT}) == 0) return {};
    return fail(NL_ERROR_INVALID_ARGUMENT, "flags is ", hex(flags), ": expected 0 or a sum of NL_CHAT_*, bits of ",
                hex(NL_CHAT_ADD_GENERATION_PROMPT));
}

Result<void> check_messages(std::span<const ChatMessage> messages) {
    if (messages.empty()) return fail(NL_ERROR_INVALID_ARGUMENT, "num_messages is 0: expected at least 1");
    size_t bytes = 0;
    for (size_t i = 0; i < messages.size(); ++i) {
        if (messages[i].role < NL_ROLE_SYSTEM || messages[i].role > NL_ROLE_ASSISTANT)
            return fail(NL_ERROR_INVALID_ARGUMENT, "roles[", i, "] is ", messages[i].role,
                        ": expected one of NL_ROLE_*");
        bytes += std::min(messages[i].content.size(), kMaxTextBytes + 1);
        if (bytes > kMaxTextBytes)
            return fail(NL_ERROR_INVALID_ARGUMENT, "contents has more than ", kMaxTextBytes, " bytes up to contents[",
                        i, "]: expected at most that");
    }
    return {};
}

// The role and the text of a message that a known format has a place for.
Result<ChatMessage> simple_message(const jinja::Value& value, size_t index, const std::string& format) {
    const jinja::Value* const content = value.dict()->find("content");
    const std::string_view role = value.dict()->find("role")->text()->view();
    for (const int32_t known : {NL_ROLE_SYSTEM, NL_ROLE_USER, NL_ROLE_ASSISTANT}) {
        if (role != role_name(known) || content == nullptr || content->text() == nullptr) continue;
        if (value.dict()->members.size() == 2) return ChatMessage{known, content->text()->view()};
    }
    return fail(NL_ERROR_INVALID_ARGUMENT, "request: messages[", index, "] is more than the format ", format,
                " has a place for: expected a role (system, user or assistant) and a content that is a text");
}

}  // namespace

Result<RenderedChat> ChatFormat::render(std::span<const ChatMessage> messages, uint32_t flags) const {
    NL_TRY(check_flags(flags));
    NL_TRY(check_messages(messages));
    const bool generation = (flags & NL_CHAT_ADD_GENERATION_PROMPT) != 0;
    return marks_.has_value() ? render_marks(messages, generation) : template_->render(messages, generation);
}

Result<RenderedChat> ChatFormat::render_json(std::string_view request, uint32_t flags) const {
    NL_TRY(check_flags(flags));
    const bool generation = (flags & NL_CHAT_ADD_GENERATION_PROMPT) != 0;
    if (template_.has_value()) return template_->render_json(request, generation);
    NL_TRY(check_request_size(request));
    jinja::Limits limits;
    limits.memory += 8 * request.size();
    limits.steps += request.size();
    jinja::Run run(limits);
    NL_ASSIGN(const ChatRequest chat, read_chat_request(run, request));
    if (chat.tools.truth() || chat.documents.truth() || !chat.variables.empty())
        return fail(NL_ERROR_INVALID_ARGUMENT, "request has tools, documents or variables: the format ", name_,
                    " has no place for them: expected messages alone");
    std::vector<ChatMessage> messages;
    for (const jinja::Value& message : chat.messages.list()->items) {
        NL_ASSIGN(const ChatMessage simple, simple_message(message, messages.size(), name_));
        messages.push_back(simple);
    }
    return render_marks(messages, generation);
}

Result<RenderedChat> ChatFormat::render_marks(std::span<const ChatMessage> messages, bool generation) const {
    std::vector<Entry> entries;
    for (size_t i = 0; i < messages.size(); ++i) {
        NL_TRY(tokens_->check_content(messages[i].content, "contents[" + std::to_string(i) + "]"));
        entries.push_back({messages[i].role, replace_invalid_utf8(messages[i].content)});
    }
    if (marks_->drops_thoughts) drop_thoughts(entries);
    ChatWriter writer(*tokens_);
    NL_TRY(Renderer(*marks_, tokens_->tokenizer(), std::move(entries), writer).render(generation));
    return writer.finish();
}

}  // namespace nanolith
