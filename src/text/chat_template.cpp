#include "text/chat_template.h"

#include <algorithm>
#include <utility>

#include "files/json.h"
#include "text/chat_request.h"
#include "text/chat_writer.h"
#include "text/utf8.h"

namespace nanolith {
namespace {

constexpr const char* kName = "template";

// A rendering's limits grow with what it is asked to render.
jinja::Limits limits_for(size_t bytes) {
    jinja::Limits limits;
    limits.steps += 4 * bytes;
    limits.memory += 24 * bytes;
    limits.output += bytes;
    return limits;
}

bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || static_cast<unsigned char>(c) >= 0x80;
}

// Whether text of the form "<name>" or "[NAME]" may begin or end a message, rather than stand inside of one.
bool is_mark(std::string_view spelling) {
    return spelling.size() >= 3 && (spelling.front() == '<' || spelling.front() == '[') &&
           (spelling.back() == '>' || spelling.back() == ']') &&
           std::any_of(spelling.begin(), spelling.end(), is_letter);
}

// "<think>" where the tokenizer has "</think>" too, and the other way round: what stands in brackets inside a message,
// mostly in the model's own.
bool has_partner(const Tokenizer& tokenizer, const std::string& spelling) {
    if (spelling.front() != '<') return false;
    const bool closes = spelling[1] == '/';
    return tokenizer.find(closes ? "<" + spelling.substr(2) : "</" + spelling.substr(1)).ok();
}

// What looks like marks in a template's source: "<|im_start|>", "[INST]", "<<SYS>>".
std::vector<std::string> marks_in(std::string_view source) {
    std::vector<std::string> marks;
    for (size_t at = 0; at < source.size(); ++at) {
        if (source[at] != '<' && source[at] != '[') continue;
        const char closing = source[at] == '<' ? '>' : ']';
        size_t end = source.find_first_of(std::string(1, closing) + " \t\n'\"{}", at);
        if (end == std::string_view::npos || source[end] != closing) continue;
        while (end + 1 < source.size() && source[end + 1] == closing && source.substr(at).starts_with("<<")) ++end;
        std::string mark(source.substr(at, end + 1 - at));
        if (mark.size() <= 64 && is_mark(mark)) marks.push_back(std::move(mark));
    }
    std::sort(marks.begin(), marks.end());
    marks.erase(std::unique(marks.begin(), marks.end()), marks.end());
    return marks;
}

// Whether a mark that is no token must not stand in a message: it has a form that no text has by chance.
bool is_guarded(std::string_view mark) {
    if (mark.starts_with("<|") || mark.starts_with("<<")) return true;
    const std::string_view name = mark.substr(mark.starts_with("[/") ? 2 : 1);
    return mark.front() == '[' &&
           std::all_of(name.begin(), name.end() - 1, [](char c) { return (c >= 'A' && c <= 'Z') || c == '_'; });
}

}  // namespace

Result<ChatTemplate> ChatTemplate::create(std::shared_ptr<const Tokenizer> tokenizer) {
    NL_ASSIGN(jinja::Template parsed, jinja::Template::parse(tokenizer->chat_template()));
    return ChatTemplate(std::move(parsed), std::move(tokenizer));
}

ChatTemplate::ChatTemplate(jinja::Template parsed, std::shared_ptr<const Tokenizer> tokenizer)
    : template_(std::move(parsed)),
      tokenizer_(std::move(tokenizer)),
      tokens_(std::make_shared<MarkTokens>(tokenizer_, kName)) {
    for (const auto& [name, token] : {std::pair("bos_token", tokenizer_->bos()),
                                      {"eos_token", tokenizer_->eos()},
                                      {"unk_token", tokenizer_->unk()},
                                      {"pad_token", tokenizer_->pad()}}) {
        if (token < 0) continue;
        auto spelling = tokenizer_->piece(token);
        if (spelling.ok()) special_tokens_.emplace_back(name, std::move(*spelling));
    }
    find_marks(tokenizer_->chat_template());
    for (const auto& [name, spelling] : special_tokens_) {
        const auto token = tokenizer_->find(spelling);
        if (token.ok() && tokenizer_->added_token(*token) == nullptr && !spelling.empty())
            tokens_->add(spelling, *token);
    }
    tokens_->finish();
}

// What is read in the template's own text: special tokens, and others that it writes as marks.
void ChatTemplate::find_marks(const std::string& source) {
    const bool has_added = !tokenizer_->added_tokens().empty();
    for (const AddedToken& token : tokenizer_->added_tokens()) {
        const bool mark = !token.special && is_mark(token.content) && !has_partner(*tokenizer_, token.content) &&
                          source.find(token.content) != std::string::npos;
        if ((token.special || mark) && !token.content.empty()) tokens_->add(token.content, token.id);
    }
    for (const std::string& mark : marks_in(source)) {
        const auto token = tokenizer_->find(mark);
        if (!token.ok()) {
            if (is_guarded(mark)) tokens_->add_text(mark);
        } else if (!has_added) {  // a tokenizer.model that has its marks itself
            tokens_->add(mark, *token);
        }
    }
}

Result<RenderedChat> ChatTemplate::render(std::span<const ChatMessage> messages, bool generation) const {
    size_t bytes = 0;
    for (const ChatMessage& message : messages) bytes += message.content.size();
    jinja::Run run(limits_for(bytes));
    NL_ASSIGN(const jinja::Value role_key, run.text("role"));
    NL_ASSIGN(const jinja::Value content_key, run.text("content"));
    std::vector<jinja::Value> list;
    for (size_t i = 0; i < messages.size(); ++i) {
        NL_TRY(tokens_->check_content(messages[i].content, "contents[" + std::to_string(i) + "]"));
        NL_ASSIGN(jinja::Value role, run.text(role_name(messages[i].role)));
        NL_ASSIGN(jinja::Value content, run.text(jinja::Text::foreign(replace_invalid_utf8(messages[i].content))));
        NL_ASSIGN(jinja::Value message,
                  run.dict({{role_key, std::move(role)}, {content_key, std::move(content)}}, static_cast<int32_t>(i)));
        list.push_back(std::move(message));
    }
    ChatRequest request;
    NL_ASSIGN(request.messages, run.list(std::move(list)));
    request.date = today();
    NL_ASSIGN(auto variables, template_variables(run, std::move(request), generation, special_tokens_));
    NL_ASSIGN(const jinja::Rendered rendered, template_.render(run, std::move(variables), today()));
    return encode(rendered, messages.size());
}

Result<RenderedChat> ChatTemplate::render_json(std::string_view json, bool generation) const {
    NL_TRY(check_request_size(json));
    jinja::Run run(limits_for(json.size()));
    NL_ASSIGN(ChatRequest request, read_chat_request(run, json));
    for (const std::string_view text : request.texts) NL_TRY(tokens_->check_content(text, "request"));
    const size_t num_messages = request.messages.list()->items.size();
    const std::tm date = request.date;
    NL_ASSIGN(auto variables, template_variables(run, std::move(request), generation, special_tokens_));
    NL_ASSIGN(const jinja::Rendered rendered, template_.render(run, std::move(variables), date));
    return encode(rendered, num_messages);
}

namespace {

// Where each message's part of the text ends. One that had no turn in a loop ends where the next one's begins.
std::vector<size_t> message_ends(const jinja::Rendered& rendered, size_t num_messages) {
    constexpr size_t kNone = SIZE_MAX;
    std::vector<std::pair<size_t, size_t>> places(num_messages, {kNone, kNone});
    for (const jinja::MessagePlace& place : rendered.places) {
        if (place.message < num_messages) places[place.message] = {place.begin, place.end};
    }
    std::vector<size_t> ends(num_messages);
    size_t next_begin = rendered.text.size();
    for (size_t i = num_messages; i-- > 0;) {
        ends[i] = std::min(places[i].first != kNone ? places[i].second : next_begin, next_begin);
        next_begin = std::min(places[i].first != kNone ? places[i].first : next_begin, next_begin);
    }
    for (size_t i = 1; i < num_messages; ++i) ends[i] = std::max(ends[i], ends[i - 1]);
    return ends;
}

// Hands a rendered text to a writer, from front to back.
class TextFeeder {
  public:
    TextFeeder(ChatWriter& writer, const jinja::Text& text, std::vector<size_t> ends)
        : writer_(&writer), text_(&text), ends_(std::move(ends)) {}

    Result<void> feed(const MarkTokens& tokens) {
        size_t done = 0;
        for (const jinja::Range& range : text_->foreign()) {
            NL_TRY(feed_own(tokens, done, range.begin));
            NL_TRY(feed_text(range.begin, range.end));
            done = range.end;
        }
        NL_TRY(feed_own(tokens, done, text_->size()));
        for (; next_end_ < ends_.size(); ++next_end_) writer_->end_message();
        return {};
    }

  private:
    // The template's own text: it alone has tokens.
    Result<void> feed_own(const MarkTokens& tokens, size_t begin, size_t end) {
        std::vector<TextPart> parts;
        tokens.split(text_->view().substr(begin, end - begin), parts);
        for (const TextPart& part : parts) {
            const auto at = static_cast<size_t>(part.text.data() - text_->view().data());
            if (part.token < 0) {
                NL_TRY(feed_text(at, at + part.text.size()));
                continue;
            }
            for (; next_end_ < ends_.size() && ends_[next_end_] <= at; ++next_end_) writer_->end_message();
            NL_TRY(writer_->token(part.token));
        }
        return {};
    }

    Result<void> feed_text(size_t begin, size_t end) {
        for (; next_end_ < ends_.size() && ends_[next_end_] <= end; ++next_end_) {
            const size_t cut = std::max(ends_[next_end_], begin);
            NL_TRY(writer_->text(text_->view().substr(begin, cut - begin)));
            writer_->end_message();
            begin = cut;
        }
        return writer_->text(text_->view().substr(begin, end - begin));
    }

    ChatWriter* writer_;
    const jinja::Text* text_;
    std::vector<size_t> ends_;
    size_t next_end_ = 0;
};

}  // namespace

Result<RenderedChat> ChatTemplate::encode(const jinja::Rendered& rendered, size_t num_messages) const {
    ChatWriter writer(*tokens_);
    NL_TRY(TextFeeder(writer, rendered.text, message_ends(rendered, num_messages)).feed(*tokens_));
    return writer.finish();
}

}  // namespace nanolith
