// A generation: tokens that the engine draws for a sequence until something ends it, and what readers have yet to
// fetch. The step loop delivers, with the engine's mutex held; readers take, with this object's mutex alone. Whoever
// holds a Generation keeps its engine alive.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/options.h"
#include "engine/request.h"
#include "text/stop_texts.h"
#include "text/text_stream.h"

namespace nanolith {

class Scheduler;

class Generation {
  public:
    // `end_tokens` end it. Without a tokenizer it gives no text. `mutex` is the engine's.
    Generation(const GenerationOptions& options, std::vector<int32_t> end_tokens,
               std::shared_ptr<const Tokenizer> tokenizer, Scheduler& scheduler, std::mutex& mutex);
    ~Generation();
    Generation(const Generation&) = delete;
    Generation& operator=(const Generation&) = delete;

    // ---- Readers, any thread
    struct Piece {
        size_t num_tokens = 0;
        size_t text_length = 0;
        int32_t end = NL_END_NONE;
        std::optional<Error> error;  // with NL_END_ERROR: what ended the generation
    };
    // Waits up to `timeout_ms` (negative: for ever) for a token, some text or the end, and gives as much as fits. A
    // span without an address is not wanted: what would go there is dropped. TIMEOUT.
    Result<Piece> next(int64_t timeout_ms, std::span<int32_t> tokens, std::span<char> text);
    // Ends it at the next step's boundary.
    void cancel();
    // One of NL_GENERATION_*.
    [[nodiscard]] int64_t fact(int32_t fact) const;
    // Readable while next() would not wait. The generation's own.
    Result<int32_t> descriptor();

    // ---- The step loop
    // The request that it is, and what of its context was computed before.
    void attach(const std::shared_ptr<Request>& request, int32_t tokens_reused);
    // Its first step is planned.
    void begin();
    // Whether one more token may be drawn beside those that are being drawn.
    [[nodiscard]] bool has_room(int32_t draws_in_flight) const;
    // Takes a drawn token: the reason why it is the last one, or NL_END_NONE. After an exception it can only be ended.
    int32_t deliver(int32_t token);
    // Rows were computed for it.
    void computed(int32_t rows);
    // Nothing more comes. `error` with NL_END_ERROR.
    void end(int32_t reason, const Error* error) noexcept;

  private:
    [[nodiscard]] int32_t end_after(int32_t token) const;
    [[nodiscard]] bool is_full() const;
    Piece take(std::span<int32_t> tokens, std::span<char> text);
    void resume(std::unique_lock<std::mutex>& lock);
    void signal() noexcept;
    void unsignal_where_empty() noexcept;

    const GenerationOptions options_;
    const std::vector<int32_t> end_tokens_;
    const std::shared_ptr<const Tokenizer> tokenizer_;
    Scheduler& scheduler_;
    std::mutex& engine_mutex_;
    std::weak_ptr<Request> request_;

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    TextDecoder decoder_;
    StopTexts stop_texts_;
    std::vector<int32_t> tokens_;  // not taken yet
    std::string text_;             // not taken yet
    int32_t end_ = NL_END_NONE;
    std::optional<Error> error_;
    int32_t descriptor_ = -1;
    bool signalled_ = false;

    int64_t num_drawn_ = 0;
    int64_t tokens_reused_ = 0;
    int64_t tokens_computed_ = 0;
    const Clock::time_point started_;
    std::optional<Clock::time_point> began_;
    std::optional<Clock::time_point> first_token_;
    std::optional<Clock::time_point> latest_token_;
    std::optional<Clock::time_point> ended_;
};

}  // namespace nanolith
