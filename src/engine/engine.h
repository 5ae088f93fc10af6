// The engine: a model on a device, its page pool, its chunks, and the operations on caches. All of it is
// thread-safe. One mutex guards the books (pages, chunks, contexts); it is never held while rows are being
// computed: the contexts concerned are marked busy instead, and other calls on them wait.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "cache/chunk_store.h"
#include "cache/context.h"
#include "cache/page_pool.h"
#include "engine/log.h"
#include "engine/options.h"
#include "engine/scheduler.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace nanolith {

// One conversation: its context and how it draws.
struct Cache {
    explicit Cache(std::unique_ptr<Context> with_context) : context(std::move(with_context)) {}
    std::unique_ptr<Context> context;
    SamplingOptions sampling;
};

class Engine {
  public:
    static Result<std::shared_ptr<Engine>> create(const std::string& folder, const EngineOptions& options);
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;
    ~Engine();

    // ---- facts, constant
    [[nodiscard]] const ModelSpec& spec() const { return model_->spec; }
    [[nodiscard]] const Model& model() const { return *model_; }
    [[nodiscard]] const std::string& device_name() const { return device_name_; }
    [[nodiscard]] DType dtype() const { return dtype_; }
    [[nodiscard]] int32_t page_size() const { return page_size_; }
    [[nodiscard]] int64_t page_bytes() const { return page_bytes_; }
    // NOT_FOUND where the folder has none, UNSUPPORTED where it is of a kind that is not known.
    [[nodiscard]] const Result<std::shared_ptr<const Tokenizer>>& tokenizer() const { return tokenizer_; }
    [[nodiscard]] bool is_end_token(int32_t token) const;

    // ---- facts of the moment
    struct PageCounts {
        int64_t total, free, evictable;
    };
    PageCounts page_counts();

    // ---- chunks (chunks.cpp)
    struct Prefilled {
        std::shared_ptr<Chunk> chunk;
        int64_t computed = 0;  // tokens; 0: it was in the store
    };
    Result<Prefilled> prefill(std::span<const int32_t> tokens, int32_t level,
                              std::span<const std::shared_ptr<Chunk>> before);
    // Chunk handles are copied and dropped under the engine's mutex, since eviction counts them.
    std::shared_ptr<Chunk> retain(const std::shared_ptr<Chunk>& chunk);
    void release(std::shared_ptr<Chunk> chunk);
    struct ChunkFacts {
        int64_t level, pages, users;
    };
    ChunkFacts facts(const std::shared_ptr<Chunk>& chunk);

    // ---- caches (caches.cpp)
    Result<std::unique_ptr<Cache>> create_cache(int32_t composition, std::span<const std::shared_ptr<Chunk>> chunks);
    void release(std::unique_ptr<Cache> cache);
    Result<void> extend(Cache& cache, std::span<const int32_t> tokens);
    Result<std::unique_ptr<Cache>> fork(Cache& cache);
    Result<void> truncate(Cache& cache, size_t num_tokens);
    Result<void> logits(Cache& cache, std::span<float> logits);
    void set_sampling(Cache& cache, const SamplingOptions& sampling);
    std::vector<int32_t> tokens(const Cache& cache);
    struct CacheFacts {
        int64_t tokens, pages, private_pages, reused, computed;
    };
    CacheFacts facts(const Cache& cache);

    // ---- decoding (decode.cpp)
    Result<void> decode_step(std::span<Cache* const> caches, std::span<int32_t> tokens);

  private:
    Engine(std::unique_ptr<Model> model, Result<std::shared_ptr<const Tokenizer>> tokenizer,
           const EngineOptions& options);
    Result<void> start(const EngineOptions& options);

    using Lock = std::unique_lock<std::mutex>;
    // Marks contexts as busy while it lives, and waits until they are free first. Made and destroyed under the mutex.
    class BusyGuard;

    // What an operation is about to add to a context. Dropping it gives the pages back.
    struct Growth {
        explicit Growth(PagePool& pool) : added(pool), copy(pool) {}
        PageList added;  // pages after the tail's
        PageList copy;   // at most one: a private copy of a shared page that will be written
        int32_t copy_index = 0;
    };
    Result<Growth> plan_growth(const Context& context, int32_t rows);
    void commit_growth(Context& context, Growth&& growth);
    Result<void> make_room(int32_t pages);
    Result<void> check_tokens(std::span<const int32_t> tokens) const;
    // Rows are the pending tokens and then `more`; with neither, the last row is computed again.
    Job make_job(const Cache& cache, std::span<const int32_t> more, const Growth& growth) const;
    Result<Prefilled> prefill_locked(Lock& lock, std::shared_ptr<const ChunkIdentity> identity, int32_t level,
                                     std::span<const std::shared_ptr<Chunk>> before);
    Result<std::vector<ChunkUse>> compose_exact(Lock& lock, std::span<const std::shared_ptr<Chunk>> chunks,
                                                int64_t& computed);

    std::unique_ptr<Model> model_;
    Result<std::shared_ptr<const Tokenizer>> tokenizer_;
    Log log_;
    int32_t page_size_;
    int64_t page_bytes_ = 0;
    DType dtype_ = DType::f32;
    std::string device_name_;
    std::unique_ptr<Backend> backend_;  // outlives the executor

    std::mutex mutex_;
    std::condition_variable changed_;  // a context is no longer busy, or a chunk no longer being computed
    std::unique_ptr<PagePool> pool_;   // outlives chunks and contexts
    ChunkStore store_;
    std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace nanolith
