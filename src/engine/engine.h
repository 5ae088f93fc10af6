// The engine: a model on a device, its page pool, its chunks, and the operations on caches. All of it is thread-safe.
// One mutex guards the books (pages, chunks, sequences); it is never held while rows are being computed: operations
// that compute are requests upon sequences, which the step loop (scheduler.h) works off, and other calls on these
// sequences wait.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/profile.h"
#include "engine/blend.h"
#include "engine/generation.h"
#include "engine/log.h"
#include "engine/options.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "kv/blend_store.h"
#include "kv/chunk_store.h"
#include "kv/context.h"
#include "kv/page_pool.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace nanolith {

class Engine {
  public:
    // Loads a model folder, and opens the device that the options name.
    static Result<std::shared_ptr<Engine>> create(const std::string& folder, const EngineOptions& options);
    // The same of a model that is loaded and a device that is open; options.device is not read.
    static Result<std::shared_ptr<Engine>> create(std::unique_ptr<Model> model,
                                                  Result<std::shared_ptr<const Tokenizer>> tokenizer,
                                                  std::unique_ptr<Backend> backend, const EngineOptions& options);
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
    Result<std::unique_ptr<Cache>> create_cache(const CacheOptions& options,
                                                std::span<const std::shared_ptr<Chunk>> chunks);
    void release(std::unique_ptr<Cache> cache);
    Result<void> extend(Cache& cache, std::span<const int32_t> tokens);
    Result<std::unique_ptr<Cache>> fork(Cache& cache);
    Result<void> truncate(Cache& cache, size_t num_tokens);
    Result<void> logits(Cache& cache, std::span<float> logits);
    Result<void> set_sampling(Cache& cache, const SamplingOptions& sampling);
    std::vector<int32_t> tokens(const Cache& cache);
    struct CacheFacts {
        int64_t tokens, pages, private_pages, reused, computed, blended, composition;
    };
    CacheFacts facts(const Cache& cache);
    // Ends what is under way on the cache, or on all of them, chunk prefills included, with CANCELLED.
    void cancel(Cache& cache);
    void cancel_all();

    // ---- drawing tokens (generate.cpp)
    Result<void> decode_step(std::span<Cache* const> caches, std::span<int32_t> tokens);
    Result<std::shared_ptr<Generation>> generate(Cache& cache, std::span<const int32_t> tokens,
                                                 const GenerationOptions& options);

  private:
    Engine(std::unique_ptr<Model> model, Result<std::shared_ptr<const Tokenizer>> tokenizer,
           const EngineOptions& options);
    Result<void> start(std::unique_ptr<Backend> backend, const EngineOptions& options);
    // Of tensors with elements that are NaN or infinite: they are logged, and refused where they are not allowed.
    Result<void> judge_weights(std::span<const NotFinite> tensors, bool allowed);

    using Lock = std::unique_lock<std::mutex>;
    Result<void> wait_idle(Lock& lock, const Cache& cache);
    Result<void> check_tokens(std::span<const int32_t> tokens) const;
    // Appends tokens to an idle sequence and computes all that are not yet, as a call of one request.
    Result<void> compute(Lock& lock, const std::shared_ptr<ResidentSequence>& sequence, std::span<const int32_t> tokens,
                         Draw draw, std::span<float> logits);
    Result<Prefilled> prefill_locked(Lock& lock, std::shared_ptr<const ChunkIdentity> identity, int32_t level,
                                     std::span<const std::shared_ptr<Chunk>> before);
    Result<void> compute_chunk(Lock& lock, Chunk& chunk, std::span<const std::shared_ptr<Chunk>> before);
    Result<std::vector<ChunkUse>> compose_blended(Lock& lock, std::span<const std::shared_ptr<Chunk>> chunks,
                                                  int64_t& computed);
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
    std::unique_ptr<Profile> profile_;  // where it is asked for; outlives the executor

    std::condition_variable chunk_ended_;  // a chunk is no longer being computed
    std::unique_ptr<PagePool> pool_;       // outlives chunks and sequences
    ChunkStore store_;
    BlendStore blends_;
    std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace nanolith
