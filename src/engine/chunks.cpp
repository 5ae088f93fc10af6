// Prefilling chunks and finding them again.
#include "engine/find_or_make.h"

namespace nanolith {

Result<Engine::Prefilled> Engine::prefill(const TenantPtr& tenant, std::span<const int32_t> tokens, int32_t level,
                                          std::span<const std::shared_ptr<Chunk>> before) {
    if (tokens.empty()) return fail(NL_ERROR_INVALID_ARGUMENT, "num_tokens is 0: a chunk has at least one token");
    if (level < 0 || level > 2)
        return fail(NL_ERROR_INVALID_ARGUMENT, "level is ", level, ": expected 0 (system), 1 (context) or 2 (query)");
    uint64_t total = tokens.size();
    for (const auto& chunk : before) total += static_cast<uint64_t>(chunk->num_tokens());
    if (total > static_cast<uint64_t>(spec().max_context))
        return fail(NL_ERROR_CONTEXT_FULL, "the chunk would end at position ", total, ", its ", before.size(),
                    " predecessors included: the context holds ", spec().max_context, " tokens")
            .with(NL_DETAIL_NEEDED, static_cast<int64_t>(total))
            .with(NL_DETAIL_AVAILABLE, spec().max_context);
    NL_TRY(check_tokens(tokens));

    Lock lock(mutex_);
    ChunkStore::Identities identities;
    for (const auto& chunk : before) identities.push_back(chunk->identity);
    return prefill_locked(lock, store_.intern(tokens, std::move(identities), tenant), level, before);
}

Result<Engine::Prefilled> Engine::prefill_locked(Lock& lock, std::shared_ptr<const ChunkIdentity> identity,
                                                 int32_t level, std::span<const std::shared_ptr<Chunk>> before) {
    double seconds_bringing = 0;
    NL_ASSIGN(auto prefilled, find_or_make(lock, std::move(identity), level, [&](Chunk& chunk) -> Result<int64_t> {
                  const auto begin = Clock::now();
                  if (!fetch(lock, chunk)) return compute_chunk(lock, chunk, before);
                  seconds_bringing = seconds_since(begin);
                  return 0;
              }));
    prefilled.seconds_bringing = seconds_bringing;
    const ChunkIdentity& whose = *prefilled.chunk->identity;
    const int64_t tokens = prefilled.chunk->num_tokens();
    if (prefilled.origin == NL_ORIGIN_DEVICE) store_.count(whose, &StoreNumbers::hits);
    store_.count(whose, prefilled.computed > 0 ? &StoreNumbers::tokens_computed : &StoreNumbers::tokens_reused, tokens);
    if (prefilled.computed > 0) store_.count(whose, &StoreNumbers::misses);
    store_.count(whose, &StoreNumbers::seconds_bringing, seconds_bringing);
    if (prefilled.computed > 0 && saver_ != nullptr) saver_->add(prefilled.chunk);
    return prefilled;
}

// The chunk's tokens are the tail of a sequence that begins with `before`; the tail's pages become the chunk's.
Result<int64_t> Engine::compute_chunk(Lock& lock, Chunk& chunk, std::span<const std::shared_ptr<Chunk>> before) {
    std::vector<ChunkUse> uses;
    int32_t base = 0;
    for (const auto& predecessor : before) {
        uses.push_back({predecessor, predecessor->num_tokens(), base});
        base += predecessor->num_tokens();
    }
    const auto sequence = std::make_shared<ResidentSequence>(Context(*pool_, std::move(uses)), page_size_);
    sequence->context.tenant = chunk.identity->tenant;
    const auto begin = Clock::now();
    NL_TRY(compute(lock, sequence, chunk.identity->tokens, Draw::none, {}));
    computing_.add(chunk.num_tokens(), seconds_since(begin));
    chunk.pages = std::move(sequence->context.tail_pages());
    return chunk.num_tokens();
}

// For each chunk i, the one with the same tokens that was computed after exactly the chunks found for 0 .. i-1. Those
// that have to be found or made are the tenant's: which ones exist tells how the engine's own chunks were combined.
Result<std::vector<ChunkUse>> Engine::compose_exact(Lock& lock, const TenantPtr& tenant,
                                                    std::span<const std::shared_ptr<Chunk>> chunks, Spent& spent) {
    std::vector<std::shared_ptr<Chunk>> taken;
    std::vector<ChunkUse> uses;
    ChunkStore::Identities identities;
    int32_t base = 0;
    for (const auto& chunk : chunks) {
        auto identity = chunk->identity->before == identities
                            ? chunk->identity
                            : store_.intern(chunk->identity->tokens, identities, tenant);
        NL_ASSIGN(auto version, prefill_locked(lock, identity, chunk->retention.level, taken));
        spent.computed += version.computed;
        spent.seconds_bringing += version.seconds_bringing;
        identities.push_back(std::move(identity));
        taken.push_back(version.chunk);
        uses.push_back({version.chunk, version.chunk->num_tokens(), base});
        base += version.chunk->num_tokens();
    }
    return uses;
}

// Chunks of level 0 at the beginning are composed exactly, the others are used as they were prefilled.
Result<std::vector<ChunkUse>> Engine::compose_blended(Lock& lock, const TenantPtr& tenant,
                                                      std::span<const std::shared_ptr<Chunk>> chunks, Spent& spent) {
    const auto system = std::ranges::find_if(chunks, [](const auto& chunk) { return chunk->retention.level != 0; });
    const auto num_system = static_cast<size_t>(system - chunks.begin());
    NL_ASSIGN(auto uses, compose_exact(lock, tenant, chunks.first(num_system), spent));
    int32_t base = uses.empty() ? 0 : uses.back().base + uses.back().length;
    for (const auto& chunk : chunks.subspan(num_system)) {
        uses.push_back({chunk, chunk->num_tokens(), base});
        base += chunk->num_tokens();
    }
    ChunkStore::Identities before;
    for (ChunkUse& use : uses) {
        use.exact = use.chunk->identity->before == before;
        if (!use.exact) break;
        before.push_back(use.chunk->identity);
    }
    return uses;
}

std::shared_ptr<Chunk> Engine::retain(const std::shared_ptr<Chunk>& chunk) {
    const Lock lock(mutex_);
    return chunk;
}

void Engine::release(std::shared_ptr<Chunk> chunk) {
    const Lock lock(mutex_);
    chunk.reset();
}

Engine::ChunkFacts Engine::facts(const std::shared_ptr<Chunk>& chunk) {
    const Lock lock(mutex_);
    // The store itself does not count as a user.
    return {chunk->retention.level, chunk->pages.size(), chunk.use_count() - 1, chunk->retention.priority};
}

void Engine::set_priority(const std::shared_ptr<Chunk>& chunk, int32_t priority) {
    const Lock lock(mutex_);
    chunk->retention.priority = priority;
}

}  // namespace nanolith
