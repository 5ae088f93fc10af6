// The engine: a model on a device, its page pool, its chunks, and the operations on caches. All of it is thread-safe.
// One mutex guards the books (pages, chunks, sequences); it is never held while rows are being computed: operations
// that compute are requests upon sequences, which the step loop (scheduler.h) works off, and other calls on these
// sequences wait.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "backend/profile.h"
#include "engine/blend.h"
#include "engine/generation.h"
#include "engine/host_buffers.h"
#include "engine/log.h"
#include "engine/options.h"
#include "engine/rate.h"
#include "engine/saver.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "kv/blend_store.h"
#include "kv/chunk_store.h"
#include "kv/context.h"
#include "kv/page_pool.h"
#include "model/model.h"
#include "store/folder.h"
#include "store/host_tier.h"
#include "store/identity.h"
#include "store/reader.h"
#include "store/shared_tier.h"
#include "text/tokenizer.h"

namespace nanolith {

namespace grammar {
class Compiler;
class Grammar;
}  // namespace grammar
class StatePool;

class Engine {
  public:
    // Loads the model of a folder or a GGUF file, and opens the device that the options name.
    static Result<std::shared_ptr<Engine>> create(const std::string& path, const EngineOptions& options);
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
    struct StoreReport {
        StoreNumbers counted;
        int64_t saved_ms = 0;
        int64_t chunks = 0;                       // on the device
        int64_t host_chunks = 0, host_bytes = 0;  // in the host's memory
        int64_t file_chunks = 0, file_bytes = 0;  // in the store's folder
        bool has_host = false, has_files = false, has_server = false;
        LevelCounts device_levels, host_levels;
    };
    Scheduler::Report loop_report();
    // Of all chunks, or of those of one tenant. With levels, which takes a look at every chunk, or without.
    StoreReport store_report(const Tenant* tenant, bool with_levels);

    // ---- tenants (tenants.cpp): null is the engine itself
    using TenantPtr = std::shared_ptr<Tenant>;
    Result<TenantPtr> tenant(std::string_view salt);
    // Whether those of `user` may use the chunk: it is their own, or the engine's.
    static bool may_use(const TenantPtr& user, const Chunk& chunk) {
        return chunk.identity->tenant == nullptr || chunk.identity->tenant == user;
    }

    // ---- chunks (chunks.cpp): every chunk that is given is one that the tenant may use
    struct Prefilled {
        std::shared_ptr<Chunk> chunk;
        int64_t computed = 0;  // tokens; 0: it was in the store
        int32_t origin = NL_ORIGIN_DEVICE;
        double seconds_bringing = 0;  // to the device from a lower tier
    };
    Result<Prefilled> prefill(const TenantPtr& tenant, std::span<const int32_t> tokens, int32_t level,
                              std::span<const std::shared_ptr<Chunk>> before);
    // Chunk handles are copied and dropped under the engine's mutex, since eviction counts them.
    std::shared_ptr<Chunk> retain(const std::shared_ptr<Chunk>& chunk);
    void release(std::shared_ptr<Chunk> chunk);
    struct ChunkFacts {
        int64_t level, pages, users, priority;
    };
    ChunkFacts facts(const std::shared_ptr<Chunk>& chunk);
    void set_priority(const std::shared_ptr<Chunk>& chunk, int32_t priority);

    // ---- files (saving.cpp)
    Result<void> save(const std::shared_ptr<Chunk>& chunk, const std::string& path);
    Result<void> save(Cache& cache, const std::string& path);
    Result<Prefilled> load_chunk(const TenantPtr& tenant, const std::string& path);
    Result<std::unique_ptr<Cache>> load_cache(const TenantPtr& tenant, const std::string& path);

    // ---- caches (caches.cpp)
    Result<std::unique_ptr<Cache>> create_cache(const TenantPtr& tenant, const CacheOptions& options,
                                                std::span<const std::shared_ptr<Chunk>> chunks);
    void release(std::unique_ptr<Cache> cache);
    Result<void> extend(Cache& cache, std::span<const int32_t> tokens);
    Result<std::unique_ptr<Cache>> fork(Cache& cache);
    Result<void> truncate(Cache& cache, size_t num_tokens);
    // Extends the cache as extend() does. logprobs[i] becomes the log-probability of tokens[i] after all tokens before
    // it, or NaN where there are none.
    Result<void> score(Cache& cache, std::span<const int32_t> tokens, std::span<float> logprobs);
    // Extends as above; logprobs[i] becomes that of candidates[i] as the next token.
    Result<void> score_next(Cache& cache, std::span<const int32_t> tokens, std::span<const int32_t> candidates,
                            std::span<float> logprobs);
    // Extends as above, but draws nothing; `pooling` is one of NL_POOLING_*, and `vectors` has room for a vector, or
    // for one of each token with NL_POOLING_NONE.
    Result<void> embed(Cache& cache, std::span<const int32_t> tokens, int32_t pooling, bool normalized,
                       std::span<float> vectors);
    Result<void> logits(Cache& cache, std::span<float> logits);
    Result<void> set_sampling(Cache& cache, const SamplingOptions& sampling);
    std::vector<int32_t> tokens(const Cache& cache);
    struct CacheFacts {
        int64_t tokens, pages, private_pages, reused, computed, blended, composition, chunk_reused, saved_ms;
    };
    CacheFacts facts(const Cache& cache);
    // Ends what is under way on the cache, or on all of them, chunk prefills included, with CANCELLED. With a tenant:
    // on all of that tenant's.
    void cancel(Cache& cache);
    void cancel_all(const TenantPtr& tenant = nullptr);

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
    Result<void> check_tokens(std::span<const int32_t> tokens, const char* name = "tokens") const;
    Result<void> check_room_for(const Cache& cache, size_t num_tokens) const;
    Result<std::shared_ptr<const grammar::Grammar>> compile(const grammar::Constraint& constraint);
    [[nodiscard]] Result<std::shared_ptr<const Sampling>> make_sampling(const SamplingOptions& options) const;
    // What a call wants of the rows that it computes; see Request.
    struct Wanted {
        std::span<float> logits = {};
        std::span<float> scores = {};
        StatePool* states = nullptr;
    };
    // Appends tokens to an idle sequence and computes all that are not yet, as a call of one request.
    Result<void> compute(Lock& lock, const std::shared_ptr<ResidentSequence>& sequence, std::span<const int32_t> tokens,
                         Draw draw, const Wanted& wanted);
    Result<Prefilled> prefill_locked(Lock& lock, std::shared_ptr<const ChunkIdentity> identity, int32_t level,
                                     std::span<const std::shared_ptr<Chunk>> before);
    // The chunk of this identity, which `make` gives its pages where the store has it not: a function of the lock and
    // the chunk that returns how many tokens were computed. One thread makes it, others that want it wait.
    template <typename Make>
    Result<Prefilled> find_or_make(Lock& lock, std::shared_ptr<const ChunkIdentity> identity, int32_t level,
                                   const Make& make);
    Result<int64_t> compute_chunk(Lock& lock, Chunk& chunk, std::span<const std::shared_ptr<Chunk>> before);
    // Both add up in `spent` what computing and bringing chunks took, counted in tokens computed and seconds.
    struct Spent {
        int64_t computed = 0;
        double seconds_bringing = 0;
    };
    Result<std::vector<ChunkUse>> compose_blended(Lock& lock, const TenantPtr& tenant,
                                                  std::span<const std::shared_ptr<Chunk>> chunks, Spent& spent);
    Result<std::vector<ChunkUse>> compose_exact(Lock& lock, const TenantPtr& tenant,
                                                std::span<const std::shared_ptr<Chunk>> chunks, Spent& spent);

    // ---- files
    // What the engine's chunks are named by. The first call reads the weights' files.
    Result<EngineMark> mark();
    Result<void> write_saved(const Saved& saved, const Digest& chunk_digest, std::span<const PageRun> runs,
                             const std::string& path);
    // Gives away the runs' pages in order, some at a time. Without the mutex.
    using GivePages = std::function<Result<void>(std::span<const std::byte> pages)>;
    Result<void> take_from_device(std::span<const PageRun> runs, const GivePages& give);
    // Fills the pages, which nobody else has, some at a time: `read` gives those from the `at`-th on. Without the
    // mutex.
    using ReadPages = std::function<Result<void>(int64_t at, std::span<std::byte> pages)>;
    Result<void> bring_to_device(std::span<const int32_t> pages, const ReadPages& read);
    Result<ChunkFileReader> open_saved(const std::string& path);
    Result<void> check_room(const Saved& saved) const;
    Result<Prefilled> load_saved(Lock& lock, const SavedChunk& chunk, const ChunkFileReader& file, int64_t first_page);
    // Reads a conversation's own versions of the pages with these units of the chunk, which it has recomputed, from the
    // file's page `first_page` on. Returns the chunk's pages with these in place of its own, or null where there are
    // none.
    Result<std::shared_ptr<BlendedPages>> load_recomputed(Lock& lock, const Chunk& chunk,
                                                          std::span<const int32_t> units, const ChunkFileReader& file,
                                                          int64_t first_page);
    // Reads pages from `first` on into `pages`, which nobody else has. The mutex is not held meanwhile.
    Result<void> read_pages(Lock& lock, const ChunkFileReader& file, int64_t first, std::span<const int32_t> pages);
    Result<void> read_pages(const ChunkFileReader& file, int64_t first, std::span<const int32_t> pages);
    Result<ThreadPool*> file_threads();
    void clear_unused(std::span<std::byte> page, int32_t tokens) const;
    // Starts a copy of these pages and notes it. Without the mutex.
    void start_move(StartedMoves& moves, std::span<const int32_t> pages, std::span<std::byte> bytes, bool to_host,
                    const std::optional<std::weak_ptr<const Chunk>>& of);

    // ---- lower tiers (tiers.cpp)
    struct Tier {
        Rate rate;  // of chunks that it gave
        int64_t asked = 0;
    };
    Result<void> open_tiers(const EngineOptions& options);
    bool fetch(Lock& lock, Chunk& chunk);
    Result<bool> fetch_from_host(Lock& lock, Chunk& chunk);
    Result<bool> fetch_from_folder(Lock& lock, Chunk& chunk);
    Result<bool> fetch_from_server(Lock& lock, Chunk& chunk);
    Result<void> read_chunk(Lock& lock, Chunk& chunk, const ChunkFileReader& file);
    bool computing_is_faster(Tier& tier, int64_t tokens) const;
    [[nodiscard]] int64_t saved_ms(int64_t tokens_reused, double seconds_bringing) const;
    Result<void> open_folder(const EngineOptions& options);
    Result<void> open_server(const EngineOptions& options);
    void start_saver();
    Result<void> save_to_folder(const std::weak_ptr<Chunk>& weak);
    Result<void> save_to_server(const std::weak_ptr<Chunk>& weak);
    void warn_about_server(const Error& error) noexcept;
    void server_answered() noexcept;
    void warn_about_folder(const Error& error) noexcept;

    std::unique_ptr<Model> model_;
    Result<std::shared_ptr<const Tokenizer>> tokenizer_;
    std::mutex compiler_mutex_;                    // guards the making of compiler_
    std::unique_ptr<grammar::Compiler> compiler_;  // of constraints; null until the first constraint
    Log log_;
    int32_t page_size_;
    bool share_prefixes_;
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

    Tier from_host_, from_files_, from_server_;
    Rate computing_;
    std::unique_ptr<HostTier> host_tier_;
    std::unique_ptr<ChunkFolder> folder_;
    std::unique_ptr<SharedTier> server_;
    std::chrono::milliseconds server_deadline_{};  // of one chunk
    std::mutex warned_mutex_;
    bool server_failed_ = false;  // when it was last asked
    nl_status warned_ = NL_OK;    // what went wrong when a chunk was last written to the folder

    Digest numbers_{};        // of the model and the formats, see digest_of_numbers
    size_t row_bytes_ = 0;    // of one token's key or value of one KV head
    std::mutex files_mutex_;  // guards the next two; never taken while mutex_ is held
    std::optional<EngineMark> mark_;
    std::unique_ptr<ThreadPool> file_threads_;
    std::unique_ptr<HostBuffers> buffers_;  // goes before the scheduler, which has the executor
    std::unique_ptr<Saver> saver_;          // goes first, and then has written all chunks
};

}  // namespace nanolith
