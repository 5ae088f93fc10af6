#include "reply.h"

#include <array>
#include <chrono>

#include "random.h"

namespace server {
namespace {

// OpenAI's word for why an answer ended.
const char* finish_reason(int32_t end) {
    return end == NL_END_LENGTH || end == NL_END_CONTEXT_FULL || end == NL_END_DEADLINE ? "length" : "stop";
}

Json call_json(const ToolCall& call) {
    return {{"id", call.id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
}

Json usage_json(const Usage& usage) {
    return {{"prompt_tokens", usage.prompt_tokens},
            {"completion_tokens", usage.answer_tokens},
            {"total_tokens", usage.prompt_tokens + usage.answer_tokens},
            {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

}  // namespace

Reply::Reply(const Job& job, const Model& model, size_t num_answers)
    : chat_(job.chat),
      stream_(job.settings.stream),
      include_usage_(job.settings.include_usage),
      id_(random_id(job.chat ? "chatcmpl-" : "cmpl-", kHexDigits, 24)),
      model_(&model),
      logprobs_(job.settings.logprobs),
      created_(std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
                   .count()),
      answers_(num_answers) {
    for (Answer& answer : answers_) {
        if (!job.tool_names.empty()) answer.parser.emplace(job.tool_names);
    }
    if (!stream_) return;
    // Events with text are put together from these, without making JSON of each token.
    const std::string start = to_text(head(true));
    event_begin_ = "data: " + start.substr(0, start.size() - 1) + R"(,"choices":[{"index":)";
    const std::string usage = include_usage_ ? R"(,"usage":null)" : "";
    event_end_ = std::string(chat_ ? "}" : "") + R"(,"logprobs":null,"finish_reason":null}])" + usage + "}\n\n";
    for (size_t i = 0; chat_ && i < num_answers; ++i) begin_events(i);
}

Json Reply::head(bool event) const {
    const char* const object = !chat_ ? "text_completion" : event ? "chat.completion.chunk" : "chat.completion";
    return {{"id", id_}, {"object", object}, {"created", created_}, {"model", model_->name()}};
}

void Reply::begin_events(size_t index) {
    events_ += event_begin_ + std::to_string(index) + R"(,"delta":{"role":"assistant","content":"")" + event_end_;
}

void Reply::take(const Piece& piece) {
    Answer& answer = answers_[piece.index];
    std::string_view plain = piece.text;
    std::string text;
    std::vector<ToolCall> calls;
    if (answer.parser) {
        if (piece.marked) answer.parser->mark();
        answer.parser->push(piece.text, text, calls);
        if (piece.end != NL_END_NONE) answer.parser->finish(text, calls);
        plain = text;
    }
    if (stream_ && !piece.logprobs.empty()) {
        add_with_logprobs(piece.index, plain, piece.logprobs);
    } else {
        add_text(piece.index, plain);
        answer.logprobs.insert(answer.logprobs.end(), piece.logprobs.begin(), piece.logprobs.end());
    }
    add_calls(piece.index, calls);
    if (piece.end == NL_END_NONE) return;
    answer.finish = answer.calls.empty() ? finish_reason(piece.end) : "tool_calls";
    if (stream_) add_finish(piece.index);
}

void Reply::add_text(size_t index, std::string_view text) {
    if (text.empty()) return;
    if (!stream_) {
        answers_[index].text += text;
        return;
    }
    events_ += event_begin_;
    events_ += std::to_string(index);
    events_ += chat_ ? R"(,"delta":{"content":)" : R"(,"text":)";
    append_quoted(events_, text);
    events_ += event_end_;
}

void Reply::add_with_logprobs(size_t index, std::string_view text, const std::vector<TokenLogprob>& logprobs) {
    Json choice = {{"index", index}};
    if (chat_) {
        choice["delta"]["content"] = text;
        choice["logprobs"] = chat_logprobs(logprobs, *model_);
    } else {
        choice["text"] = text;
        choice["logprobs"] = completion_logprobs(logprobs, *model_, answers_[index].offset);
    }
    choice["finish_reason"] = nullptr;
    Json event = head(true);
    event["choices"] = Json::array({choice});
    add_event(event);
}

void Reply::add_calls(size_t index, std::vector<ToolCall>& calls) {
    for (ToolCall& call : calls) {
        std::vector<ToolCall>& all = answers_[index].calls;
        if (stream_) {
            Json delta = call_json(call);
            delta["index"] = all.size();
            Json event = head(true);
            event["choices"] = Json::array({{{"index", index},
                                             {"delta", {{"tool_calls", Json::array({delta})}}},
                                             {"logprobs", nullptr},
                                             {"finish_reason", nullptr}}});
            add_event(event);
        }
        all.push_back(std::move(call));
    }
}

void Reply::add_finish(size_t index) {
    Json choice = {{"index", index}};
    if (chat_) {
        choice["delta"] = Json::object();
    } else {
        choice["text"] = "";
    }
    choice["logprobs"] = nullptr;
    choice["finish_reason"] = answers_[index].finish;
    Json event = head(true);
    event["choices"] = Json::array({choice});
    add_event(event);
}

void Reply::add_event(const Json& event) {
    if (!include_usage_ || event.contains("usage")) {
        events_ += "data: " + to_text(event) + "\n\n";
        return;
    }
    Json with_usage = event;
    with_usage["usage"] = nullptr;
    events_ += "data: " + to_text(with_usage) + "\n\n";
}

void Reply::close(const Usage& usage, const Json& report) {
    if (include_usage_) {
        Json event = head(true);
        event["choices"] = Json::array();
        event["usage"] = usage_json(usage);
        event["nanolith"] = report;
        add_event(event);
    }
    events_ += "data: [DONE]\n\n";
}

void Reply::fail(const Json& error) {
    events_ += "data: " + to_text(error) + "\n\n";
}

Json Reply::whole(const Usage& usage, const Json& report) const {
    Json reply = head(false);
    reply["choices"] = Json::array();
    for (size_t i = 0; i < answers_.size(); ++i) {
        const Answer& answer = answers_[i];
        Json choice = {{"index", i}};
        if (chat_) {
            Json& message = choice["message"];
            message["role"] = "assistant";
            message["content"] = answer.text.empty() && !answer.calls.empty() ? Json(nullptr) : Json(answer.text);
            for (const ToolCall& call : answer.calls) message["tool_calls"].push_back(call_json(call));
        } else {
            choice["text"] = answer.text;
        }
        size_t offset = 0;
        choice["logprobs"] = !logprobs_ ? Json(nullptr)
                             : chat_    ? chat_logprobs(answer.logprobs, *model_)
                                        : completion_logprobs(answer.logprobs, *model_, offset);
        choice["finish_reason"] = answer.finish;
        reply["choices"].push_back(std::move(choice));
    }
    reply["usage"] = usage_json(usage);
    reply["nanolith"] = report;
    return reply;
}

}  // namespace server
