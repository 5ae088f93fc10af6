// Conversations: made of chunks, extended, forked, truncated and measured.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/engine.h"
#include "engine/state_pool.h"

namespace nanolith {
namespace {

std::vector<ChunkUse> compose_independent(std::span<const std::shared_ptr<Chunk>> chunks) {
    std::vector<ChunkUse> uses;
    int32_t base = 0;
    for (const auto& chunk : chunks) {
        uses.push_back({chunk, chunk->num_tokens(), base});
        base += chunk->num_tokens();
    }
    return uses;
}

}  // namespace

Result<std::unique_ptr<Cache>> Engine::create_cache(const TenantPtr& tenant, const CacheOptions& options,
                                                    std::span<const std::shared_ptr<Chunk>> chunks) {
    int64_t total = 0;
    for (const auto& chunk : chunks) total += chunk->num_tokens();
    if (total > spec().max_context)
        return fail(NL_ERROR_CONTEXT_FULL, "the ", chunks.size(), " chunks hold ", total, " tokens: the context holds ",
                    spec().max_context)
            .with(NL_DETAIL_NEEDED, total)
            .with(NL_DETAIL_AVAILABLE, spec().max_context);

    Lock lock(mutex_);
    std::vector<ChunkUse> uses;
    Spent spent;
    int32_t composition = options.composition;
    if (composition == NL_COMPOSE_BLENDED) {
        NL_ASSIGN(uses, compose_blended(lock, tenant, chunks, spent));
        if (options.blend_falls_back && is_better_exact(uses, options.blend_share)) composition = NL_COMPOSE_EXACT;
    }
    if (composition == NL_COMPOSE_EXACT) {
        NL_ASSIGN(uses, compose_exact(lock, tenant, chunks, spent));
    } else if (composition == NL_COMPOSE_INDEPENDENT) {
        uses = compose_independent(chunks);
    }
    auto cache = std::make_unique<Cache>();
    cache->composition = composition;
    cache->sequence = std::make_shared<ResidentSequence>(Context(*pool_, std::move(uses)), page_size_);
    cache->sequence->context.tenant = tenant;
    cache->sequence->shares_prefixes = share_prefixes_ && composition != NL_COMPOSE_BLENDED;
    if (composition == NL_COMPOSE_BLENDED)
        cache->sequence->blend.emplace(options.blend_share, page_size_, largest_window(spec()));
    Context& context = cache->sequence->context;
    context.tokens_computed = spent.computed;
    context.tokens_reused = total - spent.computed;
    context.chunk_tokens_reused = context.tokens_reused;
    context.seconds_bringing = spent.seconds_bringing;
    return cache;
}

void Engine::release(std::unique_ptr<Cache> cache) {
    Lock lock(mutex_);
    const auto request = cache->sequence->request;
    if (request && request->is_ahead()) static_cast<void>(wait_idle(lock, *cache));  // its pages are free afterwards
    cache.reset();
}

Result<void> Engine::wait_idle(Lock& lock, const Cache& cache) {
    ResidentSequence* const sequences[] = {cache.sequence.get()};
    return scheduler_->wait_idle(lock, sequences);
}

Result<void> Engine::check_tokens(std::span<const int32_t> tokens, const char* name) const {
    const auto bad =
        std::ranges::find_if(tokens, [&](int32_t token) { return token < 0 || token >= spec().vocab_size; });
    if (bad == tokens.end()) return {};
    return fail(NL_ERROR_INVALID_ARGUMENT, name, "[", bad - tokens.begin(), "] is ", *bad,
                ": expected an id from 0 to ", spec().vocab_size - 1);
}

Result<void> Engine::compute(Lock& lock, const std::shared_ptr<ResidentSequence>& sequence,
                             std::span<const int32_t> tokens, Draw draw, const Wanted& wanted) {
    auto request = std::make_shared<Request>();
    auto call = std::make_shared<Call>();
    request->sequence = sequence;
    request->draw = draw;
    request->logits = wanted.logits;
    request->scores = wanted.scores;
    request->states = wanted.states;
    request->scored_from = sequence->context.tail_size();
    request->call = call.get();
    call->requests.push_back(std::move(request));
    sequence->context.append(tokens);
    Result<void> outcome = scheduler_->run(lock, call);
    lock.lock();
    return outcome;
}

Result<void> Engine::extend(Cache& cache, std::span<const int32_t> tokens) {
    if (tokens.empty()) return {};
    Lock lock(mutex_);
    NL_TRY(wait_idle(lock, cache));
    NL_TRY(check_room_for(cache, tokens.size()));
    NL_TRY(check_tokens(tokens));
    return compute(lock, cache.sequence, tokens, Draw::remember, {});
}

Result<void> Engine::check_room_for(const Cache& cache, size_t num_tokens) const {
    const int32_t have = cache.sequence->num_tokens();
    const int32_t room = spec().max_context - have;
    if (num_tokens <= static_cast<size_t>(room)) return {};
    return fail(NL_ERROR_CONTEXT_FULL, "num_tokens is ", num_tokens, ", and the cache holds ", have,
                " tokens already: the context holds ", spec().max_context)
        .with(NL_DETAIL_NEEDED, static_cast<int64_t>(num_tokens))
        .with(NL_DETAIL_AVAILABLE, room);
}

Result<void> Engine::score(Cache& cache, std::span<const int32_t> tokens, std::span<float> logprobs) {
    if (tokens.empty()) return {};
    NL_TRY(check_tokens(tokens));
    // Not into `logprobs`: a call that fails must leave it unchanged.
    std::vector<float> found(tokens.size(), std::numeric_limits<float>::quiet_NaN());
    Lock lock(mutex_);
    NL_TRY(wait_idle(lock, cache));
    NL_TRY(check_room_for(cache, tokens.size()));
    NL_TRY(compute(lock, cache.sequence, tokens, Draw::remember, {.scores = found}));
    std::ranges::copy(found, logprobs.begin());
    return {};
}

Result<void> Engine::score_next(Cache& cache, std::span<const int32_t> tokens, std::span<const int32_t> candidates,
                                std::span<float> logprobs) {
    NL_TRY(check_tokens(tokens));
    NL_TRY(check_tokens(candidates, "candidates"));
    std::vector<float> logits(static_cast<size_t>(spec().vocab_size));
    {
        Lock lock(mutex_);
        NL_TRY(wait_idle(lock, cache));
        NL_TRY(check_room_for(cache, tokens.size()));
        if (tokens.empty() && cache.sequence->num_tokens() == 0)
            return fail(NL_ERROR_INVALID_ARGUMENT,
                        "num_tokens is 0, and the cache is empty: candidates follow a token");
        NL_TRY(compute(lock, cache.sequence, tokens, Draw::remember, {.logits = logits}));
    }
    const auto highest = static_cast<double>(*std::ranges::max_element(logits));
    double total = 0;
    for (const float logit : logits) total += std::exp(static_cast<double>(logit) - highest);
    const double all = highest + std::log(total);
    const auto logprob = [&](int32_t token) {
        return static_cast<float>(static_cast<double>(logits[static_cast<size_t>(token)]) - all);
    };
    std::ranges::transform(candidates, logprobs.begin(), logprob);
    return {};
}

Result<void> Engine::embed(Cache& cache, std::span<const int32_t> tokens, int32_t pooling, bool normalized,
                           std::span<float> vectors) {
    NL_TRY(check_tokens(tokens));
    if (tokens.empty() && pooling == NL_POOLING_NONE) return {};
    if (tokens.empty() && pooling == NL_POOLING_MEAN)
        return fail(NL_ERROR_INVALID_ARGUMENT, "num_tokens is 0: expected at least 1 for a mean");
    Lock lock(mutex_);
    NL_TRY(wait_idle(lock, cache));
    NL_TRY(check_room_for(cache, tokens.size()));
    if (tokens.empty() && cache.sequence->num_tokens() == 0)
        return fail(NL_ERROR_INVALID_ARGUMENT, "num_tokens is 0, and the cache is empty: there is no token to embed");
    StatePool states(pooling, cache.sequence->context.tail_size(), static_cast<int32_t>(tokens.size()),
                     spec().hidden_size);
    NL_TRY(compute(lock, cache.sequence, tokens, Draw::none, {.states = &states}));
    lock.unlock();
    std::ranges::copy(std::move(states).finish(normalized), vectors.begin());
    return {};
}

Result<void> Engine::logits(Cache& cache, std::span<float> logits) {
    Lock lock(mutex_);
    NL_TRY(wait_idle(lock, cache));
    if (cache.sequence->num_tokens() == 0)
        return fail(NL_ERROR_INVALID_ARGUMENT, "cache is empty: logits follow a token, extend it first");
    return compute(lock, cache.sequence, {}, Draw::remember, {.logits = logits});
}

Result<std::unique_ptr<Cache>> Engine::fork(Cache& cache) {
    Lock lock(mutex_);
    NL_TRY(wait_idle(lock, cache));
    auto fork = std::make_unique<Cache>();
    fork->composition = cache.composition;
    fork->sequence = std::make_shared<ResidentSequence>(cache.sequence->context.fork(), page_size_);
    fork->sequence->shares_prefixes = cache.sequence->shares_prefixes;
    if (cache.sequence->blend) fork->sequence->blend.emplace(*cache.sequence->blend);
    fork->sequence->shares_blend = cache.sequence->shares_blend;
    fork->sequence->kept = cache.sequence->kept;
    fork->sequence->sampling = cache.sequence->sampling;
    fork->sequence->surprise_bound = cache.sequence->surprise_bound;
    fork->sequence->next = cache.sequence->next;
    return fork;
}

Result<void> Engine::truncate(Cache& cache, size_t num_tokens) {
    Lock lock(mutex_);
    NL_TRY(wait_idle(lock, cache));
    const auto have = static_cast<size_t>(cache.sequence->num_tokens());
    if (num_tokens > have)
        return fail(NL_ERROR_INVALID_ARGUMENT, "num_tokens is ", num_tokens, ": the cache holds ", have, " tokens");
    cache.sequence->truncate(static_cast<int32_t>(num_tokens));
    return {};
}

Result<void> Engine::set_sampling(Cache& cache, const SamplingOptions& options) {
    NL_ASSIGN(auto sampling, make_sampling(options));
    Lock lock(mutex_);
    NL_TRY(wait_idle(lock, cache));
    cache.sequence->set_sampling(std::move(sampling));
    return {};
}

Result<std::shared_ptr<const Sampling>> Engine::make_sampling(const SamplingOptions& options) const {
    return Sampling::make(options, spec().vocab_size, tokenizer_.ok() ? tokenizer_->get() : nullptr);
}

std::vector<int32_t> Engine::tokens(const Cache& cache) {
    const Lock lock(mutex_);
    return cache.sequence->tokens();
}

Engine::CacheFacts Engine::facts(const Cache& cache) {
    const Lock lock(mutex_);
    const Context& context = cache.sequence->context;
    return {cache.sequence->num_tokens(),
            context.num_pages(),
            context.num_private_pages(),
            context.tokens_reused,
            context.tokens_computed,
            context.tokens_blended,
            cache.composition,
            context.chunk_tokens_reused,
            saved_ms(context.tokens_reused, context.seconds_bringing)};
}

void Engine::cancel(Cache& cache) {
    const Lock lock(mutex_);
    if (cache.sequence->request) scheduler_->cancel(*cache.sequence->request);
}

void Engine::cancel_all(const TenantPtr& tenant) {
    const Lock lock(mutex_);
    scheduler_->cancel_all(tenant.get());
}

}  // namespace nanolith
