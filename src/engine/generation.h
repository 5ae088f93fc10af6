// A generation: tokens that the engine draws for a sequence until something ends it, and those that its readers have
// not fetched yet. The step loop delivers, holding the engine's mutex; readers fetch, holding only this object's mutex.
// Whoever owns a Generation must keep its engine alive.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/loop_metrics.h"
#include "engine/options.h"
#include "engine/request.h"
#include "engine/sampling.h"
#include "grammar/matcher.h"
#include "text/stop_texts.h"
#include "text/text_stream.h"

namespace nanolith {

class Scheduler;

class Generation {
  public:
    // Each of `end_tokens` ends it. `tokenizer` may be null where it gives no text and has no constraint. `matcher`
    // says which tokens the constraint allows; null: no constraint. `mutex` is the engine's.
    Generation(const GenerationOptions& options, std::vector<int32_t> end_tokens,
               std::shared_ptr<const Tokenizer> tokenizer, std::unique_ptr<grammar::Matcher> matcher,
               Scheduler& scheduler, std::mutex& mutex);
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
    // Waits up to `timeout_ms` (negative: for ever) for a token, some text or the end, and gives as much as fits. If a
    // span has no address, what it would get is dropped. TIMEOUT if nothing came in time.
    Result<Piece> next(int64_t timeout_ms, std::span<int32_t> tokens, std::span<char> text);
    // Log-probabilities of the tokens that the latest call of next() gave: for each of them in order 1 + top_logprobs()
    // elements, its own first. INVALID_ARGUMENT where the generation was started without log-probabilities.
    struct GivenLogprobs {
        size_t num_tokens = 0;
        std::vector<TokenLogprob> logprobs;
        // Of the i-th of these tokens.
        [[nodiscard]] std::span<const TokenLogprob> of(size_t i) const {
            const size_t each = logprobs.size() / num_tokens;
            return std::span(logprobs).subspan(i * each, each);
        }
    };
    Result<GivenLogprobs> given_logprobs() const;
    // Ends it at the next step's boundary.
    void cancel();
    // One of NL_GENERATION_*.
    [[nodiscard]] int64_t fact(int32_t fact) const;
    // A file descriptor that is readable while next() would not wait. The generation closes it.
    Result<int32_t> descriptor();

    // Its logits callback is not called any more. Waits for a call that is under way.
    void forget_callback();

    // ---- The step loop
    // To be called before its first step: the constrained text begins with these tokens, the latest of the context.
    // INVALID_ARGUMENT if the constraint forbids one of them, or if it allows no token after them.
    Result<void> begin_with(std::span<const int32_t> tokens);
    // Its request, and how many tokens of its context were in the cache before.
    void attach(const std::shared_ptr<Request>& request, int32_t tokens_reused);
    // To be called when its first step is planned.
    void begin();
    // Whether readers leave room for one more token than those that are being drawn.
    [[nodiscard]] bool has_room(int32_t draws_in_flight) const;
    // Whether only some tokens may be drawn, which depend on those drawn before.
    [[nodiscard]] bool constrained() const { return matcher_ != nullptr; }
    // Clears the bits of tokens that the constraint does not allow next. Only where constrained(). `room`: how many
    // more tokens fit in the context.
    void narrow_mask(std::span<uint32_t> mask, int64_t room) noexcept;
    // The error for a draw whose mask allowed no token; none where the mask allowed one.
    [[nodiscard]] const std::optional<Error>& no_token() const { return no_token_; }
    // The tokens that must not be drawn by the draw that comes after `draws_in_flight` others: before min_tokens
    // tokens, those that would end it.
    [[nodiscard]] std::span<const int32_t> banned(int32_t draws_in_flight) const {
        // A constrained text that nothing can follow may end.
        const bool too_soon = num_drawn_ + draws_in_flight < options_.min_tokens;
        return too_soon && !(constrained() && matcher_->only_ends()) ? end_tokens_ : std::span<const int32_t>();
    }
    // Whether draws need the logits on the host first.
    [[nodiscard]] bool changes_logits() const { return options_.change_logits != nullptr; }
    // Has the caller's callback change the logits of the next draw, after the tokens of its context. False where it
    // wants the generation to end. INVALID_ARGUMENT where it leaves nothing that can be drawn from.
    Result<bool> change_logits(std::span<const int32_t> tokens, std::span<float> logits);
    // Whether forced_tokens() may have any.
    [[nodiscard]] bool jumps_ahead() const { return options_.jump_ahead && constrained(); }
    // The tokens of the text that the constraint leaves no choice about, as far as they may be drawn, at most `most`.
    // Each is then to be followed and delivered. Only where jumps_ahead(), and after a token.
    [[nodiscard]] std::vector<int32_t> forced_tokens(size_t most, const Sampling& sampling);
    [[nodiscard]] bool wants_logprobs() const { return options_.logprobs; }
    [[nodiscard]] int32_t top_logprobs() const { return options_.top_logprobs; }
    // Makes a drawn token part of the text that its constraint follows. False where that can be read in too many ways
    // to follow them all (grammar::kMaxConfigs); true where it has no constraint.
    [[nodiscard]] bool follow(int32_t token);
    // Takes a drawn token and, where it wants them, 1 + top_logprobs() log-probabilities: the token's, and those of the
    // most probable ones. Counts how long it took to come. Returns why it is the last one, or NL_END_NONE. After an
    // exception only end() may be called.
    int32_t deliver(int32_t token, std::span<const TokenLogprob> logprobs, LoopMetrics& metrics);
    // To be called when so many of its tokens were found in pages of other conversations.
    void reused(int32_t tokens);
    // To be called when `rows` rows were computed for it.
    void computed(int32_t rows);
    // Ends it. `error` is given with NL_END_ERROR, and only then.
    void end(int32_t reason, const Error* error) noexcept;

  private:
    [[nodiscard]] int32_t end_after(int32_t token) const;
    [[nodiscard]] bool is_full() const;
    [[nodiscard]] bool gives_text() const { return options_.text && tokenizer_ != nullptr; }
    [[nodiscard]] std::vector<int32_t> tokens_within(std::string_view text) const;
    Piece take(std::span<int32_t> tokens, std::span<char> text);
    void resume(std::unique_lock<std::mutex>& lock);
    void signal() noexcept;
    void unsignal_where_empty() noexcept;

    const GenerationOptions options_;
    const std::vector<int32_t> end_tokens_;
    const std::shared_ptr<const Tokenizer> tokenizer_;
    const std::unique_ptr<grammar::Matcher> matcher_;  // used by the step loop's thread alone
    std::vector<uint32_t> own_mask_;                   // scratch of narrow_mask(); the step loop's alone
    std::optional<Error> no_token_;                    // see no_token(); the step loop's alone
    Scheduler& scheduler_;
    std::mutex& engine_mutex_;
    std::weak_ptr<Request> request_;

    std::mutex callback_mutex_;  // held during calls of options_.change_logits
    bool callback_gone_ = false;

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    TextDecoder decoder_;
    StopTexts stop_texts_;
    std::vector<int32_t> tokens_;               // not fetched yet
    std::vector<TokenLogprob> logprobs_;        // of these, 1 + top_logprobs() each
    std::vector<TokenLogprob> given_logprobs_;  // of those that the latest next() gave
    std::string text_;                          // not fetched yet
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
