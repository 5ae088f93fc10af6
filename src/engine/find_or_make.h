// Chunks that are found in the store or made once, however many threads want them.
#pragma once

#include "base/without_exceptions.h"
#include "engine/engine.h"
#include "engine/recompute_cost.h"

namespace nanolith {

template <typename Make>
Result<Engine::Prefilled> Engine::find_or_make(Lock& lock, std::shared_ptr<const ChunkIdentity> identity, int32_t level,
                                               const Make& make) {
    while (auto chunk = store_.find(*identity, level)) {
        chunk_ended_.wait(lock, [&] { return chunk->state != Chunk::State::computing; });
        if (chunk->state == Chunk::State::ready) return Prefilled{std::move(chunk), 0};
        // Another thread tried, failed and removed the chunk from the store: this one tries itself.
    }
    auto chunk = std::make_shared<Chunk>(std::move(identity), level, PageList(*pool_));
    chunk->retention.cost = recompute_cost(spec(), *chunk->identity, page_size_);
    store_.insert(chunk);
    int64_t computed = 0;
    const Result<void> outcome = without_exceptions([&]() -> Result<void> {
        NL_ASSIGN(computed, make(*chunk));
        return {};
    });
    chunk->state = outcome.ok() ? Chunk::State::ready : Chunk::State::failed;
    if (!outcome.ok()) store_.remove(*chunk);
    chunk_ended_.notify_all();
    if (!outcome.ok()) return outcome.error();
    const auto origin = static_cast<int32_t>(chunk->origin);
    return Prefilled{std::move(chunk), computed, origin};
}

}  // namespace nanolith
