// One conversation's context: chunks in order and a private tail that grows. Not thread-safe: the engine's
// mutex guards it, and `busy` marks a context whose rows are being computed outside that mutex.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cache/chunk_store.h"
#include "cache/page_pool.h"

namespace nanolith {

// A chunk as a context uses it: its first `length` tokens (all, unless the context was truncated into it)
// at positions from `base`.
struct ChunkUse {
    std::shared_ptr<Chunk> chunk;
    int32_t length = 0;
    int32_t base = 0;
};

class Context {
  public:
    Context(PagePool& pool, std::vector<ChunkUse> chunks);

    [[nodiscard]] const std::vector<ChunkUse>& chunks() const { return chunks_; }
    [[nodiscard]] int32_t num_tokens() const { return tail_base_ + static_cast<int32_t>(tail_.size()); }
    [[nodiscard]] int32_t tail_base() const { return tail_base_; }
    [[nodiscard]] const PageList& tail_pages() const { return tail_pages_; }
    [[nodiscard]] int32_t tail_computed() const { return tail_computed_; }
    // Tokens that belong to the context but are not in the KV cache yet (a drawn token waits for the next step).
    [[nodiscard]] std::span<const int32_t> pending() const {
        return std::span(tail_).subspan(static_cast<size_t>(tail_computed_));
    }
    [[nodiscard]] std::vector<int32_t> tokens() const;
    [[nodiscard]] int32_t token_at(int32_t position) const;
    [[nodiscard]] int32_t num_pages() const;

    // A context with the same tokens that shares the tail's pages.
    [[nodiscard]] std::unique_ptr<Context> fork() const;
    void truncate(int32_t num_tokens, int32_t page_size);

    // Room for `more` tokens and `pages` pages, so that the commits below cannot fail.
    void reserve(int32_t more, int32_t pages);
    void commit_pages(PageList&& added) { tail_pages_.append(std::move(added)); }
    // Puts a private copy in the place of the last tail page, which was shared.
    void commit_copy(int32_t index, PageList&& copy) { tail_pages_.replace(index, std::move(copy)); }
    void commit_tokens(std::span<const int32_t> tokens);
    void commit_computed() { tail_computed_ = static_cast<int32_t>(tail_.size()); }

    bool busy = false;
    // The token drawn after the last one, where it is known: a function of the tokens and the sampling
    // options, forgotten when either changes.
    std::optional<int32_t> ahead;
    int64_t tokens_reused = 0;
    int64_t tokens_computed = 0;

  private:
    PagePool* pool_;
    std::vector<ChunkUse> chunks_;
    int32_t tail_base_ = 0;
    std::vector<int32_t> tail_;
    int32_t tail_computed_ = 0;
    PageList tail_pages_;
};

}  // namespace nanolith
