#include "engine/generation.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/without_exceptions.h"
#include "engine/scheduler.h"
#include "text/utf8.h"

namespace nanolith {
namespace {

// Bytes of text that may wait for the reader, for each token that may wait (buffer_tokens).
constexpr size_t kTextBytesPerToken = 32;

int64_t microseconds(Clock::duration duration) {
    return std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
}

// The length of the longest prefix of `text` that has at most `capacity` bytes and ends with a whole UTF-8 character.
size_t whole_characters(const std::string& text, size_t capacity) {
    if (text.size() <= capacity) return text.size();
    const auto continues = [&](size_t at) { return (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U; };
    size_t length = capacity;
    while (length > 0 && continues(length)) --length;
    return length;
}

}  // namespace

Generation::Generation(const GenerationOptions& options, std::vector<int32_t> end_tokens,
                       std::shared_ptr<const Tokenizer> tokenizer, std::unique_ptr<grammar::Matcher> matcher,
                       Scheduler& scheduler, std::mutex& mutex)
    : options_(options),
      end_tokens_(std::move(end_tokens)),
      tokenizer_(std::move(tokenizer)),
      matcher_(std::move(matcher)),
      scheduler_(scheduler),
      engine_mutex_(mutex),
      stop_texts_(options.stop_texts),
      started_(Clock::now()) {}

Generation::~Generation() {
    if (descriptor_ >= 0) close(descriptor_);
}

// ---- The step loop --------------------------------------------------------------------------------------

void Generation::attach(const std::shared_ptr<Request>& request, int32_t tokens_reused) {
    request_ = request;
    tokens_reused_ = tokens_reused;
}

void Generation::begin() {
    const std::lock_guard lock(mutex_);
    began_ = Clock::now();
}

bool Generation::is_full() const {
    const auto most = static_cast<size_t>(options_.buffer_tokens);
    return tokens_.size() >= most || text_.size() >= most * kTextBytesPerToken;
}

bool Generation::has_room(int32_t draws_in_flight) const {
    if (options_.max_tokens > 0 && num_drawn_ + draws_in_flight >= options_.max_tokens) return false;
    const std::lock_guard lock(mutex_);
    return !is_full();
}

int32_t Generation::end_after(int32_t token) const {
    if (num_drawn_ + 1 > options_.min_tokens && std::ranges::find(end_tokens_, token) != end_tokens_.end())
        return NL_END_TOKEN;
    return options_.max_tokens > 0 && num_drawn_ + 1 >= options_.max_tokens ? NL_END_LENGTH : NL_END_NONE;
}

void Generation::narrow_mask(std::span<uint32_t> mask, int64_t room) noexcept {
    if (options_.max_tokens > 0) room = std::min(room, options_.max_tokens - num_drawn_);
    Result<void> narrowed = without_exceptions([&]() -> Result<void> {
        own_mask_.resize(mask.size());
        matcher_->fill_mask(own_mask_, room);
        bool any = false;
        for (size_t i = 0; i < mask.size(); ++i) any = (mask[i] &= own_mask_[i]) != 0 || any;
        if (any) return {};
        return fail(
            NL_ERROR_UNSUPPORTED,
            "no token that may be drawn goes on with the text as the constraint asks: expected a vocabulary that "
            "can spell every byte, and options that allow its tokens");
    });
    if (narrowed.ok()) return;
    std::ranges::fill(mask, 0U);
    no_token_ = std::move(narrowed.error());
}

Result<void> Generation::begin_with(std::span<const int32_t> tokens) {
    std::string unused;
    for (size_t i = 0; i < tokens.size(); ++i) {
        if (!matcher_->accept(tokens[i]))
            return fail(NL_ERROR_INVALID_ARGUMENT, "NL_OPTION_CONSTRAINED_TOKENS is ", tokens.size(),
                        ": the constraint does not allow token ", tokens[i], ", number ", i, " of these")
                .with(NL_DETAIL_INDEX, static_cast<int64_t>(i));
        // What follows is decoded as the continuation of their text.
        if (gives_text() && tokens[i] < tokenizer_->vocab_size()) NL_TRY(decoder_.push(*tokenizer_, tokens[i], unused));
    }
    if (matcher_->complete())
        return fail(NL_ERROR_INVALID_ARGUMENT, "NL_OPTION_CONSTRAINED_TOKENS is ", tokens.size(),
                    ": the text of these tokens is complete already: expected one that can go on");
    return {};
}

Result<bool> Generation::change_logits(std::span<const int32_t> tokens, std::span<float> logits) {
    const std::lock_guard lock(callback_mutex_);
    if (callback_gone_) return true;
    const int32_t ends = options_.change_logits(options_.change_logits_user_data, tokens.data(), tokens.size(),
                                                logits.data(), logits.size());
    if (ends != 0) return false;
    bool any = false;
    for (size_t token = 0; token < logits.size(); ++token) {
        if (std::isnan(logits[token]) || logits[token] == std::numeric_limits<float>::infinity())
            return fail(NL_ERROR_INVALID_ARGUMENT, "the logits callback made the logit of token ", token, " ",
                        logits[token], ", for the draw at position ", tokens.size(),
                        ": expected numbers or minus infinity")
                .with(NL_DETAIL_INDEX, static_cast<int64_t>(token));
        any = any || logits[token] > -std::numeric_limits<float>::infinity();
    }
    if (!any)
        return fail(NL_ERROR_INVALID_ARGUMENT, "the logits callback made all logits minus infinity, for the draw at ",
                    "position ", tokens.size(), ": expected a token that may be drawn");
    return true;
}

void Generation::forget_callback() {
    const std::lock_guard lock(callback_mutex_);
    callback_gone_ = true;
}

// The tokens of `text` where it stands in the middle of a longer text. A tokenizer may put a space before whatever it
// encodes, so a newline is encoded in front of the text, and the tokens of what is in front are dropped. Empty where
// the tokens don't spell the text exactly, or where one of them spells the end of the newline and the text's beginning.
std::vector<int32_t> Generation::tokens_within(std::string_view text) const {
    const std::string line = "\n" + std::string(text);
    std::vector<int32_t> tokens;
    if (!tokenizer_->encode_part(line, {.filter = {.special = false, .unread = {}}}, false, tokens).ok()) return {};
    size_t left = text.size();
    size_t first = tokens.size();
    for (; first > 0 && left > 0; --first) {
        const std::string_view bytes = matcher_->bytes_of(tokens[first - 1]);
        if (bytes.empty() || bytes.size() > left || text.substr(left - bytes.size(), bytes.size()) != bytes) return {};
        left -= bytes.size();
    }
    return {tokens.begin() + static_cast<std::ptrdiff_t>(first), tokens.end()};
}

// The result depends on the text alone, and not on how many tokens a reader has left in the buffer, so that the same
// request always gives the same tokens. The last token of the forced text is left out and drawn instead, unless the
// text ends with it: with the characters that follow it could be one longer token.
std::vector<int32_t> Generation::forced_tokens(size_t most, const Sampling& sampling) {
    constexpr size_t kMostBytes = 256;
    std::string bytes = matcher_->forced_bytes(kMostBytes);
    std::string text;
    take_finished_utf8(bytes, text);
    if (text.empty()) return {};
    std::vector<int32_t> tokens = tokens_within(text);
    size_t followed = 0;
    while (followed < std::min(tokens.size(), most) && sampling.may_draw(tokens[followed]) &&
           matcher_->accept(tokens[followed]))
        ++followed;
    const bool leaves_last = followed > 0 && followed == tokens.size() && !matcher_->only_ends();
    matcher_->roll_back(static_cast<int32_t>(followed));
    tokens.resize(leaves_last ? followed - 1 : followed);
    return tokens;
}

bool Generation::follow(int32_t token) {
    return matcher_ == nullptr || matcher_->accept(token);
}

int32_t Generation::deliver(int32_t token, std::span<const TokenLogprob> logprobs, LoopMetrics& metrics) {
    const std::lock_guard lock(mutex_);
    int32_t reason = end_after(token);
    if (matcher_ != nullptr && reason != NL_END_TOKEN && matcher_->complete()) reason = NL_END_COMPLETE;
    tokens_.reserve(tokens_.size() + 1);
    logprobs_.reserve(logprobs_.size() + logprobs.size());
    if (gives_text()) {
        std::string piece;
        // A model may have more logits than its tokenizer has tokens: those have no text.
        if (token < tokenizer_->vocab_size()) {
            const Result<void> pushed = decoder_.push(*tokenizer_, token, piece);
            if (!pushed.ok()) piece.clear();
        }
        if (num_drawn_ < options_.min_tokens) {
            text_ += piece;
        } else if (stop_texts_.push(piece, text_)) {
            reason = NL_END_TEXT;
        }
    }
    tokens_.push_back(token);
    logprobs_.insert(logprobs_.end(), logprobs.begin(), logprobs.end());
    ++num_drawn_;
    const auto now = Clock::now();
    const auto seconds = [](auto duration) { return std::chrono::duration<double>(duration).count(); };
    if (latest_token_) {
        metrics.token_gap_seconds.add(seconds(now - *latest_token_));
    } else {
        first_token_ = now;
        metrics.first_token_seconds.add(seconds(now - started_));
    }
    latest_token_ = now;
    signal();
    return reason;
}

void Generation::reused(int32_t tokens) {
    const std::lock_guard lock(mutex_);
    tokens_reused_ += tokens;
}

void Generation::computed(int32_t rows) {
    const std::lock_guard lock(mutex_);
    tokens_computed_ += rows;
}

void Generation::end(int32_t reason, const Error* error) noexcept {
    const std::lock_guard lock(mutex_);
    ended_ = Clock::now();
    end_ = reason;
    try {
        if (error != nullptr) error_ = *error;
        if (gives_text() && reason != NL_END_TEXT) {
            std::string rest;
            decoder_.finish(rest);
            stop_texts_.push(rest, text_);
            stop_texts_.finish(text_);
        }
    } catch (...) {
        end_ = NL_END_ERROR;
        error_.emplace(Error{NL_ERROR_OUT_OF_MEMORY, "out of memory"});
    }
    signal();
}

void Generation::signal() noexcept {
    changed_.notify_all();
    if (descriptor_ < 0 || signalled_) return;
    const uint64_t one = 1;
    signalled_ = write(descriptor_, &one, sizeof one) == sizeof one;
}

// ---- Readers --------------------------------------------------------------------------------------------

// Whatever there may be no memory for comes first: where it throws, nothing was taken.
Generation::Piece Generation::take(std::span<int32_t> tokens, std::span<char> text) {
    Piece piece;
    piece.error = error_;
    if (tokens.data() != nullptr) {
        piece.num_tokens = std::min(tokens.size(), tokens_.size());
        const size_t count = options_.logprobs ? piece.num_tokens * (1 + options_.top_logprobs) : 0;
        const auto logprobs_end = logprobs_.begin() + static_cast<std::ptrdiff_t>(count);
        given_logprobs_.assign(logprobs_.begin(), logprobs_end);
        logprobs_.erase(logprobs_.begin(), logprobs_end);
        const auto end = tokens_.begin() + static_cast<std::ptrdiff_t>(piece.num_tokens);
        std::copy(tokens_.begin(), end, tokens.begin());
        tokens_.erase(tokens_.begin(), end);
    }
    if (text.data() == nullptr) {
        text_.clear();
    } else {
        piece.text_length = whole_characters(text_, text.size());
        std::copy_n(text_.begin(), piece.text_length, text.begin());
        text_.erase(0, piece.text_length);
    }
    if (tokens_.empty() && text_.empty()) {
        piece.end = end_;
    } else {
        piece.error.reset();
    }
    return piece;
}

// The end can be read again and again: from then on the descriptor stays readable.
void Generation::unsignal_where_empty() noexcept {
    if (!signalled_ || end_ != NL_END_NONE || !tokens_.empty() || !text_.empty()) return;
    uint64_t count = 0;
    signalled_ = read(descriptor_, &count, sizeof count) != sizeof count;
}

Result<Generation::Piece> Generation::next(int64_t timeout_ms, std::span<int32_t> tokens, std::span<char> text) {
    // Longer than anybody waits, and short enough that adding it to the current time does not overflow.
    constexpr int64_t kLongest = int64_t{1000} * 60 * 60 * 24 * 365;
    const auto until = Clock::now() + std::chrono::milliseconds(std::clamp<int64_t>(timeout_ms, 0, kLongest));
    std::unique_lock lock(mutex_);
    bool in_time = true;
    while (true) {
        const bool was_full = is_full();
        given_logprobs_.clear();
        if (tokens.data() == nullptr) {
            tokens_.clear();
            logprobs_.clear();
        }
        if (text.data() == nullptr) text_.clear();
        const bool ready = end_ != NL_END_NONE || !tokens_.empty() || !text_.empty();
        Piece piece = ready ? take(tokens, text) : Piece();
        unsignal_where_empty();
        const bool freed = was_full && !is_full();
        if (freed) resume(lock);
        if (ready) return piece;
        if (freed) continue;  // a token may have been delivered meanwhile
        if (!in_time) return fail(NL_ERROR_TIMEOUT, "nothing came within timeout_ms, ", timeout_ms, " milliseconds");
        // It looks again after a while, for the reason given at Scheduler::sleep().
        auto look_again = Clock::now() + std::chrono::milliseconds(100);
        if (timeout_ms >= 0) look_again = std::min(look_again, until);
        changed_.wait_until(lock, look_again);
        in_time = timeout_ms < 0 || Clock::now() < until;
    }
}

// Tells the step loop that the generation, which had paused since its reader did not read, may continue.
void Generation::resume(std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    {
        const std::lock_guard engine_lock(engine_mutex_);
        scheduler_.wake();
    }
    lock.lock();
}

Result<Generation::GivenLogprobs> Generation::given_logprobs() const {
    if (!options_.logprobs)
        return fail(NL_ERROR_INVALID_ARGUMENT,
                    "the generation keeps no log-probabilities: expected one with NL_OPTION_LOGPROBS at its start");
    const std::lock_guard lock(mutex_);
    return GivenLogprobs{given_logprobs_.size() / (1 + static_cast<size_t>(options_.top_logprobs)), given_logprobs_};
}

void Generation::cancel() {
    const std::lock_guard engine_lock(engine_mutex_);
    const auto request = request_.lock();
    if (request && !request->finished) scheduler_.cancel(*request);
}

int64_t Generation::fact(int32_t fact) const {
    const std::lock_guard lock(mutex_);
    const auto now = ended_.value_or(Clock::now());
    switch (fact) {
        case NL_GENERATION_TOKENS:
            return num_drawn_;
        case NL_GENERATION_TOKENS_REUSED:
            return tokens_reused_;
        case NL_GENERATION_TOKENS_COMPUTED:
            return tokens_computed_;
        case NL_GENERATION_QUEUED_US:
            return microseconds(began_.value_or(now) - started_);
        case NL_GENERATION_FIRST_TOKEN_US:
            return first_token_ ? microseconds(*first_token_ - started_) : -1;
        case NL_GENERATION_TOTAL_US:
            return microseconds(now - started_);
        case NL_GENERATION_TOKENS_PER_SECOND: {
            if (num_drawn_ < 2) return 0;
            const int64_t took = std::max<int64_t>(1, microseconds(*latest_token_ - *first_token_));
            return (num_drawn_ - 1) * 1'000'000 / took;
        }
        case NL_GENERATION_END:
            return end_;
        default:
            return 0;
    }
}

Result<int32_t> Generation::descriptor() {
    const std::lock_guard lock(mutex_);
    if (descriptor_ >= 0) return descriptor_;
    descriptor_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (descriptor_ < 0)
        return fail(NL_ERROR_IO, "the generation's descriptor could not be made: ", std::strerror(errno));
    if (end_ != NL_END_NONE || !tokens_.empty() || !text_.empty()) signal();
    return descriptor_;
}

}  // namespace nanolith
