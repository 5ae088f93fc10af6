// One conversation's context: chunks in order and a private tail that grows. Not thread-safe: the engine's mutex
// guards it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/batch.h"
#include "kv/blended_pages.h"
#include "kv/chunk_store.h"
#include "kv/page_pool.h"

namespace nanolith {

// A chunk as a context uses it: its first `length` tokens (all, unless the context was truncated inside it), at the
// positions from `base`.
struct ChunkUse {
    std::shared_ptr<Chunk> chunk;
    int32_t length = 0;
    int32_t base = 0;
    // Whether its keys and values are those of this very context, to rounding: nothing of it is worth recomputing.
    bool exact = false;
    // For blended composition: the chunk's pages, with the conversation's own in place of those that have recomputed
    // tokens. Null if no token is recomputed. Not changed after it is set, because forks share it.
    std::shared_ptr<BlendedPages> blended = nullptr;

    [[nodiscard]] PageList& pages() const { return blended ? blended->pages : chunk->pages; }
};

// Tokens [begin, end) of a chunk of a context, an index in Context::chunks(). They are whole units of kBlendUnit
// tokens, up to the chunk's end.
struct ChunkRun {
    size_t chunk = 0;
    int32_t begin = 0;
    int32_t end = 0;
};

class Context {
  public:
    Context(PagePool& pool, std::vector<ChunkUse> chunks);

    [[nodiscard]] const std::vector<ChunkUse>& chunks() const { return chunks_; }
    [[nodiscard]] int32_t num_tokens() const { return tail_base_ + tail_size(); }
    [[nodiscard]] int32_t tail_base() const { return tail_base_; }
    [[nodiscard]] int32_t tail_size() const { return static_cast<int32_t>(tail_.size()); }
    // How many tokens of the tail have their keys and values in its pages. The others are not computed yet.
    [[nodiscard]] int32_t tail_computed() const { return tail_computed_; }
    [[nodiscard]] PageList& tail_pages() { return tail_pages_; }
    [[nodiscard]] const PageList& tail_pages() const { return tail_pages_; }
    // The first `count` tokens.
    [[nodiscard]] std::vector<int32_t> tokens(int32_t count) const;
    [[nodiscard]] int32_t token_at(int32_t position) const;
    [[nodiscard]] int32_t num_pages() const;
    // How many of these are not its chunks': the tail's, and those that were exchanged.
    [[nodiscard]] int32_t num_private_pages() const;

    // A context with the same tokens that shares the tail's pages.
    [[nodiscard]] Context fork() const;
    // Keeps the first `num_tokens` tokens, and the pages of those that are computed.
    void truncate(int32_t num_tokens, int32_t page_size);

    // Marks the tokens of the runs as recomputed, and takes a free page in place of each page that has such tokens. The
    // caller has checked that there are enough free pages. Returns the copies to make before rows are computed: of each
    // exchanged page that also has tokens outside the runs.
    std::vector<PageCopy> exchange_pages(std::span<const ChunkRun> runs, int32_t page_size);
    void set_chunks(std::vector<ChunkUse> chunks) { chunks_ = std::move(chunks); }

    // Reserves memory for `more` tokens, so that appending them cannot fail.
    void reserve(int32_t more);
    void append(std::span<const int32_t> tokens);
    void set_computed(int32_t tail_computed) { tail_computed_ = tail_computed; }
    // ---- Reuse of pages that other tails have filled (PrefixIndex)
    // Takes remembered pages instead of computing them: as many as follow what is computed, as long as the tail has a
    // token after them. Only where all pages of the tail are full and computed.
    void take_prefix(int32_t page_size);
    // Remembers the pages that are full and computed, of which `page_size` tokens each.
    void remember_prefix(int32_t page_size);
    // To be called before a row of the tail's page `index`, which no other list holds, is written again.
    void forget_page(int32_t index);

    // Shortens the tail to `tail_size` tokens, of which the first `tail_computed` count as computed.
    void restore(int32_t tail_size, int32_t tail_computed, int32_t page_size);

    std::shared_ptr<Tenant> tenant;  // whose conversation it is
    int64_t tokens_reused = 0;
    int64_t tokens_computed = 0;
    int64_t tokens_blended = 0;       // of these, those of chunks
    int64_t chunk_tokens_reused = 0;  // of those reused
    double seconds_bringing = 0;      // of chunks to the device, when the context was made

  private:
    PagePool* pool_;
    std::vector<ChunkUse> chunks_;
    int32_t tail_base_ = 0;
    std::vector<int32_t> tail_;
    int32_t tail_computed_ = 0;
    PageList tail_pages_;
    std::vector<PrefixIndex::Node> nodes_;  // the root, then those of the tail's first pages; empty: not asked for yet
    PrefixIndex::Node node_above(int32_t page);
};

}  // namespace nanolith
