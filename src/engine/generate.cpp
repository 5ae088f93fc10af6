// Drawing tokens: nl_decode_step, one token for each of several caches, and nl_generation_start.
#include <algorithm>

#include "engine/engine.h"
#include "grammar/constraint.h"
#include "grammar/matcher.h"
#include "grammar/token_trie.h"

namespace nanolith {
namespace {

// Takes the mutex, spinning for a while. Threads that step their caches arrive all at once, and each holds the mutex
// for a few microseconds: going to sleep for so short a time would cost a thread, and all that wait after it, far more.
void lock_soon(std::unique_lock<std::mutex>& lock) {
    constexpr auto kLongest = std::chrono::microseconds(30);
    const auto begin = Clock::now();
    while (!lock.try_lock()) {
        if (Clock::now() - begin > kLongest) return lock.lock();
    }
}

// The latest `count` tokens of the sequence with `tokens` behind it.
Result<std::vector<int32_t>> latest_tokens(const ResidentSequence& sequence, std::span<const int32_t> tokens,
                                           int32_t count) {
    const auto wanted = static_cast<size_t>(count);
    std::vector<int32_t> all = sequence.tokens();
    all.insert(all.end(), tokens.begin(), tokens.end());
    if (wanted > all.size())
        return fail(NL_ERROR_INVALID_ARGUMENT, "NL_OPTION_CONSTRAINED_TOKENS is ", count,
                    ": expected no more than the tokens of the cache and of this call, ", all.size());
    return std::vector<int32_t>(all.end() - count, all.end());
}

}  // namespace

Result<void> Engine::decode_step(std::span<Cache* const> caches, std::span<int32_t> tokens) {
    Lock lock(mutex_, std::defer_lock);  // held when requests are destroyed that were never queued: they own sequences
    std::vector<ResidentSequence*> sequences;
    for (const Cache* cache : caches) sequences.push_back(cache->sequence.get());
    auto call = std::make_shared<Call>();
    for (const Cache* cache : caches) {
        auto request = std::make_shared<Request>();
        request->sequence = cache->sequence;
        request->draw = Draw::append;
        request->call = call.get();
        call->requests.push_back(std::move(request));
    }

    lock_soon(lock);
    NL_TRY(scheduler_->wait_for_calls(lock, sequences));
    for (size_t i = 0; i < sequences.size(); ++i) {
        if (sequences[i]->num_tokens() == 0)
            return fail(NL_ERROR_INVALID_ARGUMENT, "caches[", i, "] is empty: a token follows a token, extend it first")
                .with(NL_DETAIL_INDEX, static_cast<int64_t>(i));
        if (sequences[i]->num_tokens() >= spec().max_context)
            return fail(NL_ERROR_CONTEXT_FULL, "caches[", i, "] holds ", sequences[i]->num_tokens(),
                        " tokens: the context holds no more")
                .with(NL_DETAIL_INDEX, static_cast<int64_t>(i))
                .with(NL_DETAIL_NEEDED, 1)
                .with(NL_DETAIL_AVAILABLE, 0);
        sequences[i]->context.reserve(1);
    }
    NL_TRY(scheduler_->run(lock, call));
    for (size_t i = 0; i < call->requests.size(); ++i) tokens[i] = call->requests[i]->drawn.token;
    return {};
}

// The grammar of a constraint. The first call makes the table of the vocabulary's bytes, which takes some milliseconds.
Result<std::shared_ptr<const grammar::Grammar>> Engine::compile(const grammar::Constraint& constraint) {
    if (!tokenizer_.ok())
        return fail(NL_ERROR_UNSUPPORTED, "constraints are about text: expected a model with a tokenizer");
    {
        const std::lock_guard lock(compiler_mutex_);
        if (compiler_ == nullptr) {
            NL_ASSIGN(auto tokens, grammar::TokenTable::of(**tokenizer_, spec().vocab_size));
            compiler_ = std::make_unique<grammar::Compiler>(std::move(tokens));
        }
    }
    return compiler_->compile(constraint);
}

Result<std::shared_ptr<Generation>> Engine::generate(Cache& cache, std::span<const int32_t> tokens,
                                                     const GenerationOptions& options) {
    NL_TRY(check_tokens(tokens));
    const bool has_text = options.text && tokenizer_.ok();
    if (!options.stop_texts.empty() && !has_text)
        return fail(NL_ERROR_UNSUPPORTED, "stop texts need text: expected a model with a tokenizer, and TEXT to be 1");
    if (options.top_logprobs > spec().vocab_size)
        return fail(NL_ERROR_INVALID_ARGUMENT, "NL_OPTION_TOP_LOGPROBS is ", options.top_logprobs,
                    ": the model has only ", spec().vocab_size, " tokens");
    std::vector<int32_t> ends = options.stop_tokens;
    if (options.end_tokens) ends.insert(ends.end(), model_->end_tokens.begin(), model_->end_tokens.end());
    std::erase_if(ends, [&](int32_t token) { return token >= spec().vocab_size; });
    std::unique_ptr<grammar::Matcher> matcher;
    if (options.constraint.kind != grammar::ConstraintKind::none) {
        NL_ASSIGN(auto compiled, compile(options.constraint));
        matcher = std::make_unique<grammar::Matcher>(std::move(compiled), ends);
    }
    const bool draws_anew = matcher != nullptr || options.logprobs || options.change_logits != nullptr;
    auto generation = std::make_shared<Generation>(options, std::move(ends), tokenizer_.ok() ? *tokenizer_ : nullptr,
                                                   std::move(matcher), *scheduler_, mutex_);
    Lock lock(mutex_, std::defer_lock);  // held when the request is destroyed, as above
    auto request = std::make_shared<Request>();
    request->sequence = cache.sequence;
    request->draw = Draw::generate;
    request->generation = generation;
    request->priority = options.priority;
    if (options.deadline_ms > 0) request->deadline = Clock::now() + std::chrono::milliseconds(options.deadline_ms);

    lock.lock();
    NL_TRY(wait_idle(lock, cache));
    ResidentSequence& sequence = *cache.sequence;
    if (options.constrained_tokens > 0) {
        // Following many tokens takes a while: without the mutex, so that other conversations go on.
        NL_ASSIGN(const auto begun, latest_tokens(sequence, tokens, options.constrained_tokens));
        lock.unlock();
        NL_TRY(generation->begin_with(begun));
        lock.lock();
        NL_TRY(wait_idle(lock, cache));
        const auto now = latest_tokens(sequence, tokens, options.constrained_tokens);
        if (!now.ok() || *now != begun)
            return fail(NL_ERROR_BUSY,
                        "the cache's tokens changed while the generation began: expected one call on it");
    }
    const auto total = static_cast<size_t>(sequence.num_tokens()) + tokens.size();
    if (total == 0)
        return fail(NL_ERROR_INVALID_ARGUMENT, "num_tokens is 0, and the cache is empty: a token follows a token");
    if (total >= static_cast<size_t>(spec().max_context))
        return fail(NL_ERROR_CONTEXT_FULL, "num_tokens is ", tokens.size(), ", and the cache holds ",
                    sequence.num_tokens(), " tokens already: the context holds ", spec().max_context,
                    ", one that is drawn included")
            .with(NL_DETAIL_NEEDED, static_cast<int64_t>(tokens.size()) + 1)
            .with(NL_DETAIL_AVAILABLE, spec().max_context - sequence.num_tokens());
    const auto banned = generation->banned(0);
    if (!sequence.sampling->leaves_something(banned, spec().vocab_size))
        return fail(NL_ERROR_INVALID_ARGUMENT, "NL_OPTION_MIN_TOKENS is ", options.min_tokens,
                    ": expected 0, since the cache's options allow no token but those that end it");
    generation->attach(request, sequence.context.tail_base() + sequence.context.tail_computed());
    sequence.context.append(tokens);
    // The next token may be drawn already, by an earlier call that knew nothing of this generation's options. It is
    // drawn again where these ban it, want its log-probability, change its logits or constrain the text.
    const bool bans_next = sequence.next && std::ranges::find(banned, sequence.next->token) != banned.end();
    if (!tokens.empty() || bans_next || draws_anew) sequence.next.reset();
    NL_TRY(scheduler_->start(request));
    return generation;
}

}  // namespace nanolith
