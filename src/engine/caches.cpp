// Conversations: made of chunks, extended, forked, truncated and measured.
#include <algorithm>

#include "engine/busy_guard.h"
#include "engine/engine.h"

namespace nanolith {

Result<std::unique_ptr<Cache>> Engine::create_cache(int32_t composition,
                                                    std::span<const std::shared_ptr<Chunk>> chunks) {
    int64_t total = 0;
    for (const auto& chunk : chunks) total += chunk->num_tokens();
    if (total > spec().max_context)
        return fail(NL_ERROR_CONTEXT_FULL, "the ", chunks.size(), " chunks hold ", total, " tokens: the context holds ",
                    spec().max_context);

    Lock lock(mutex_);
    std::vector<ChunkUse> uses;
    int64_t computed = 0;
    if (composition == NL_COMPOSE_EXACT) {
        NL_ASSIGN(uses, compose_exact(lock, chunks, computed));
    } else {
        int32_t base = 0;
        for (const auto& chunk : chunks) {
            uses.push_back({chunk, chunk->num_tokens(), base});
            base += chunk->num_tokens();
        }
    }
    auto cache = std::make_unique<Cache>(std::make_unique<Context>(*pool_, std::move(uses)));
    cache->context->tokens_computed = computed;
    cache->context->tokens_reused = total - computed;
    return cache;
}

void Engine::release(std::unique_ptr<Cache> cache) {
    const Lock lock(mutex_);
    cache.reset();
}

Result<void> Engine::extend(Cache& cache, std::span<const int32_t> tokens) {
    if (tokens.empty()) return {};
    Lock lock(mutex_);
    Cache* const caches[] = {&cache};
    BusyGuard busy(*this, lock, caches);
    Context& context = *cache.context;
    if (tokens.size() > static_cast<size_t>(spec().max_context - context.num_tokens()))
        return fail(NL_ERROR_CONTEXT_FULL, "num_tokens is ", tokens.size(), ", and the cache holds ",
                    context.num_tokens(), " tokens already: the context holds ", spec().max_context);
    NL_TRY(check_tokens(tokens));

    const auto rows = static_cast<int32_t>(context.pending().size() + tokens.size());
    NL_ASSIGN(auto growth, plan_growth(context, rows));
    context.reserve(static_cast<int32_t>(tokens.size()), growth.added.size());
    Job job = make_job(cache, tokens, growth);
    NL_TRY(busy.run({&job, 1}));
    commit_growth(context, std::move(growth));
    context.commit_tokens(tokens);
    context.commit_computed();
    context.tokens_computed += rows;
    context.ahead = job.token;
    return {};
}

Result<std::unique_ptr<Cache>> Engine::fork(Cache& cache) {
    Lock lock(mutex_);
    Cache* const caches[] = {&cache};
    const BusyGuard busy(*this, lock, caches);
    auto fork = std::make_unique<Cache>(cache.context->fork());
    fork->sampling = cache.sampling;
    return fork;
}

Result<void> Engine::truncate(Cache& cache, size_t num_tokens) {
    Lock lock(mutex_);
    Cache* const caches[] = {&cache};
    const BusyGuard busy(*this, lock, caches);
    const auto have = static_cast<size_t>(cache.context->num_tokens());
    if (num_tokens > have)
        return fail(NL_ERROR_INVALID_ARGUMENT, "num_tokens is ", num_tokens, ": the cache holds ", have, " tokens");
    cache.context->truncate(static_cast<int32_t>(num_tokens), page_size_);
    return {};
}

Result<void> Engine::logits(Cache& cache, std::span<float> logits) {
    Lock lock(mutex_);
    Cache* const caches[] = {&cache};
    BusyGuard busy(*this, lock, caches);
    Context& context = *cache.context;
    if (context.num_tokens() == 0)
        return fail(NL_ERROR_INVALID_ARGUMENT, "cache is empty: logits follow a token, extend it first");
    const auto rows = static_cast<int32_t>(context.pending().size());
    NL_ASSIGN(auto growth, plan_growth(context, rows));
    context.reserve(0, growth.added.size());
    Job job = make_job(cache, {}, growth);
    job.logits = logits;
    NL_TRY(busy.run({&job, 1}));
    commit_growth(context, std::move(growth));
    context.commit_computed();
    context.tokens_computed += rows;
    context.ahead = job.token;
    return {};
}

void Engine::set_sampling(Cache& cache, const SamplingOptions& sampling) {
    Lock lock(mutex_);
    Cache* const caches[] = {&cache};
    const BusyGuard busy(*this, lock, caches);
    cache.sampling = sampling;
    cache.context->ahead.reset();
}

std::vector<int32_t> Engine::tokens(const Cache& cache) {
    const Lock lock(mutex_);
    return cache.context->tokens();
}

Engine::CacheFacts Engine::facts(const Cache& cache) {
    const Lock lock(mutex_);
    const Context& context = *cache.context;
    return {context.num_tokens(), context.num_pages(), context.tail_pages().size(), context.tokens_reused,
            context.tokens_computed};
}

}  // namespace nanolith
