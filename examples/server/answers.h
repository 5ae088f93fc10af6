// The engine's work on one request: chunks, caches and generations, and reading what they draw.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "handles.h"
#include "logprobs.h"
#include "metrics.h"
#include "prompt.h"

namespace server {

using Clock = std::chrono::steady_clock;

struct Usage {
    int64_t prompt_tokens = 0;
    int64_t cached_tokens = 0;  // of these, those that were computed before
    int64_t answer_tokens = 0;
};

// What became of a document of the first prompt.
struct DocumentUse {
    std::string id;  // empty: it came with the request
    int64_t tokens = 0;
    int64_t computed = 0;  // of these, now
    int64_t origin = NL_ORIGIN_COMPUTED;
};

// What an answer has given at a time.
struct Piece {
    size_t index = 0;  // which answer
    std::string_view text;
    bool marked = false;  // the token [TOOL_CALLS] came with it
    int32_t end = NL_END_NONE;
    std::vector<TokenLogprob> logprobs;  // of the tokens that came with it, where the request wants them
};

// All answers to one request. Not for several threads. Destroying it cancels what still runs.
class Answers {
  public:
    // Prefills documents that are not in the store, waits for that, and starts to generate. `arrival` is when the
    // request came.
    Answers(Job& job, const Model& model, Tenant& tenant, Metrics& metrics, Clock::time_point arrival);
    ~Answers();
    Answers(const Answers&) = delete;
    Answers& operator=(const Answers&) = delete;

    // Gives pieces to `take` until all answers have ended, and calls `flush` after each round of them. Asks `is_there`
    // a few times a second whether the client is; returns false where it is not, or where `flush` says so.
    bool read(const std::function<void(const Piece&)>& take, const std::function<bool()>& flush,
              const std::function<bool()>& is_there);

    [[nodiscard]] size_t size() const { return answers_.size(); }
    [[nodiscard]] Usage usage() const;
    // The member "nanolith" of replies: times, and what was reused.
    [[nodiscard]] Json report() const;

  private:
    struct Answer {
        Cache cache;
        Generation generation;
        Clock::time_point last{};  // when its last tokens came
        bool started = false;      // it has its first token
        bool ended = false;
    };
    enum class Got { nothing, something };

    void start(Prompt& prompt, Job& job, Tenant& tenant);
    std::vector<Chunk> prefill(const Prompt& prompt, const Settings& settings, Tenant& tenant);
    void start_one(Cache cache, const std::vector<int32_t>& tail, size_t from, Settings& settings);
    Got poll(size_t index, int64_t timeout_ms, const std::function<void(const Piece&)>& take);
    void count_tokens(Answer& answer, size_t count);
    void pace() const;

    Metrics* metrics_;
    const Model* model_;
    bool logprobs_;
    size_t top_logprobs_;
    Clock::time_point arrival_;
    std::vector<Answer> answers_;
    std::vector<size_t> first_of_prompt_;  // the answer whose cache has computed a prompt
    std::vector<DocumentUse> documents_;
    int64_t prompt_tokens_ = 0;
    int64_t chunk_tokens_computed_ = 0;  // by this request
    int32_t mark_token_ = -1;            // [TOOL_CALLS], where a request has tools
    bool has_first_ = false;             // some answer has its first token
    double first_token_seconds_ = 0;
};

}  // namespace server
