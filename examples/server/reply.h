// What clients get for answers: OpenAI's JSON, whole or as a stream of events.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "answers.h"
#include "tool_calls.h"

namespace server {

// Collects the answers' pieces and writes them. Of a stream, what `take` adds to is sent after each flush; of a whole
// reply, it is kept until the end.
class Reply {
  public:
    Reply(const Job& job, const Model& model, size_t num_answers);

    void take(const Piece& piece);
    // Events since the last call; empties them.
    std::string& events() { return events_; }
    // Of a stream: the last events.
    void close(const Usage& usage, const Json& report);
    // The event that tells an error behind what was sent already.
    void fail(const Json& error);
    // Of a whole reply.
    [[nodiscard]] Json whole(const Usage& usage, const Json& report) const;
    [[nodiscard]] const std::string& id() const { return id_; }

  private:
    struct Answer {
        std::string text;  // of a whole reply
        std::vector<ToolCall> calls;
        std::optional<ToolCallParser> parser;
        std::string finish;
        std::vector<TokenLogprob> logprobs;  // of a whole reply
        size_t offset = 0;                   // of a stream: bytes of the tokens whose log-probabilities were sent
    };

    [[nodiscard]] Json head(bool event) const;
    void begin_events(size_t index);
    void add_text(size_t index, std::string_view text);
    void add_with_logprobs(size_t index, std::string_view text, const std::vector<TokenLogprob>& logprobs);
    void add_calls(size_t index, std::vector<ToolCall>& calls);
    void add_finish(size_t index);
    void add_event(const Json& event);

    bool chat_;
    bool stream_;
    bool include_usage_;
    std::string id_;
    const Model* model_;
    bool logprobs_;
    int64_t created_;
    std::string event_begin_;  // of an event with text, up to the answer's index
    std::string event_end_;    // behind its text
    std::vector<Answer> answers_;
    std::string events_;
};

}  // namespace server
