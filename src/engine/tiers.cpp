// Where a chunk is looked for before it is computed: in the host's memory, then in the store's folder, then on the
// store's server. All are an engine's options. What goes wrong there costs a computation, never an answer.
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "backend/page_size.h"
#include "base/without_exceptions.h"
#include "engine/engine.h"

namespace nanolith {
namespace {

constexpr size_t kMostBlockBytes = size_t{256} << 20;  // of the host tier's memory
// A chunk is computed rather than read where that is faster by so much, and one in so many is read all the same, so
// that the rate of reading stays known.
constexpr double kClearlySlower = 0.005;  // seconds
constexpr int64_t kTryAgain = 16;

}  // namespace

Result<void> Engine::open_tiers(const EngineOptions& options) {
    if (options.host_bytes > 0) {
        const int64_t memory = int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
        if (options.host_bytes > memory)
            return fail(NL_ERROR_OUT_OF_MEMORY, "host_bytes is ", options.host_bytes, ": the host has ", memory)
                .with(NL_DETAIL_NEEDED, options.host_bytes)
                .with(NL_DETAIL_AVAILABLE, memory);
        const auto page_bytes = static_cast<size_t>(page_bytes_);
        size_t pages = static_cast<size_t>(options.host_bytes) / page_bytes;
        const size_t most = std::max<size_t>(1, kMostBlockBytes / page_bytes);
        std::vector<HostMemory> blocks;
        while (pages > 0) {
            const size_t count = std::min(pages, most);
            NL_ASSIGN(auto block, scheduler_->allocate_host(count * page_bytes));
            blocks.push_back(std::move(block));
            pages -= count;
        }
        host_tier_ = std::make_unique<HostTier>(std::move(blocks), page_bytes);
        const Lock lock(mutex_);
        scheduler_->set_host_tier(host_tier_.get());
    }
    if (!options.store_server.empty()) NL_TRY(open_server(options));
    if (!options.store_folder.empty()) NL_TRY(open_folder(options));
    if (server_ != nullptr || folder_ != nullptr) start_saver();
    return {};
}

Result<void> Engine::open_server(const EngineOptions& options) {
    NL_ASSIGN(server_, SharedTier::open(options.store_server, static_cast<size_t>(page_bytes_)));
    server_deadline_ = std::chrono::milliseconds(options.store_deadline_ms);
    return {};
}

Result<void> Engine::open_folder(const EngineOptions& options) {
    auto folder = ChunkFolder::open(options.store_folder, static_cast<uint64_t>(options.store_bytes),
                                    [this](const std::string& what) { log_.write(NL_LOG_WARNING, what); });
    if (!folder.ok()) {
        log_.write(NL_LOG_WARNING, "no chunks are kept in files: ", folder.error().message);
        return {};
    }
    folder_ = std::move(*folder);
    return {};
}

void Engine::start_saver() {
    try {
        saver_ = std::make_unique<Saver>(mutex_, [this](const std::weak_ptr<Chunk>& chunk) {
            const Result<void> saved = without_exceptions([&] { return save_to_folder(chunk); });
            if (!saved.ok()) warn_about_folder(saved.error());
            const Result<void> sent = without_exceptions([&] { return save_to_server(chunk); });
            if (!sent.ok()) warn_about_server(sent.error());
        });
    } catch (const std::system_error& error) {
        log_.write(NL_LOG_WARNING,
                   "no chunks are written to lower tiers: the thread could not be started: ", error.what());
    }
}

// The same trouble again and again, as with a full disk, is one line of the log.
void Engine::warn_about_folder(const Error& error) noexcept {
    if (error.status == NL_ERROR_CANCELLED) return;  // the chunk was evicted before
    static_cast<void>(without_exceptions([&]() -> Result<void> {
        const std::lock_guard lock(warned_mutex_);
        if (warned_ == error.status) return {};
        warned_ = error.status;
        log_.write(NL_LOG_WARNING, "a chunk was not kept in a file: ", error.message);
        return {};
    }));
}

// While a server fails, that is one line of the log.
void Engine::warn_about_server(const Error& error) noexcept {
    if (error.status == NL_ERROR_CANCELLED) return;  // the chunk was evicted before
    static_cast<void>(without_exceptions([&]() -> Result<void> {
        const std::lock_guard lock(warned_mutex_);
        if (server_failed_) return {};
        server_failed_ = true;
        log_.write(NL_LOG_WARNING, error.message);
        return {};
    }));
}

void Engine::server_answered() noexcept {
    const std::lock_guard lock(warned_mutex_);
    server_failed_ = false;
}

Result<void> Engine::save_to_server(const std::weak_ptr<Chunk>& weak) {
    if (server_ == nullptr) return {};
    NL_ASSIGN(const EngineMark mark, this->mark());
    std::shared_ptr<const ChunkIdentity> identity;
    PageRun run;
    ChunkName name;
    {
        const Lock lock(mutex_);
        const auto chunk = weak.lock();
        if (chunk == nullptr) return {};
        identity = chunk->identity;
        run = {{chunk->pages.pages().begin(), chunk->pages.pages().end()}, chunk->num_tokens(), weak};
        name = name_of(*chunk->identity, mark);
    }
    const auto deadline = Clock::now() + server_deadline_;
    int64_t page = 0;
    const auto send = [&](std::span<const std::byte> pages) -> Result<void> {
        NL_TRY(server_->write(name, page, pages, deadline));
        page += static_cast<int64_t>(pages.size()) / page_bytes_;
        return {};
    };
    NL_TRY(take_from_device({&run, 1}, send));
    server_answered();
    const Lock lock(mutex_);
    store_.count(*identity, &StoreNumbers::server_moves);
    return {};
}

Result<void> Engine::save_to_folder(const std::weak_ptr<Chunk>& weak) {
    if (folder_ == nullptr) return {};
    NL_ASSIGN(const EngineMark mark, this->mark());
    Saved saved;
    PageRun run;
    ChunkName name;
    {
        Lock lock(mutex_);
        auto chunk = weak.lock();
        if (chunk == nullptr) return {};
        saved.tenant = chunk->identity->tenant;
        saved.chunks = {{.identity = chunk->identity, .level = chunk->retention.level, .length = chunk->num_tokens()}};
        run = {{chunk->pages.pages().begin(), chunk->pages.pages().end()}, chunk->num_tokens(), weak};
        name = name_of(*chunk->identity, mark);
    }
    if (folder_->find(name)) return {};  // another process wrote it
    const auto bytes = static_cast<uint64_t>(run.pages.size()) * static_cast<uint64_t>(page_bytes_);
    if (!folder_->fits(bytes)) return {};
    NL_TRY(write_saved(saved, name.digest, {&run, 1}, folder_->path_of(name)));
    folder_->added(name);
    {
        const std::lock_guard lock(warned_mutex_);
        warned_ = NL_OK;
    }
    const Lock lock(mutex_);
    store_.count(*saved.chunks[0].identity, &StoreNumbers::file_moves);
    return {};
}

// Whether a chunk of so many tokens is computed rather than read.
bool Engine::computing_is_faster(Tier& tier, int64_t tokens) const {
    const auto reading = tier.rate.seconds(tokens);
    const auto computing = computing_.seconds(tokens);
    return reading && computing && *reading > *computing + kClearlySlower && ++tier.asked % kTryAgain != 0;
}

// Gives the chunk its pages from a lower tier, if one has it. After a failure it has none.
bool Engine::fetch(Lock& lock, Chunk& chunk) {
    const auto fetched = [&](Tier& tier, const auto& from) {
        if (computing_is_faster(tier, chunk.num_tokens())) return false;
        const auto begin = Clock::now();
        const Result<bool> outcome = from();
        if (!outcome.ok() && outcome.error().status != NL_ERROR_OUT_OF_PAGES)  // which computing it will say too
            log_.write(NL_LOG_WARNING, outcome.error().message);
        const bool found = outcome.ok() && *outcome;
        if (found) tier.rate.add(chunk.num_tokens(), seconds_since(begin));
        if (found) store_.count(*chunk.identity, &StoreNumbers::device_moves);
        if (!found) chunk.pages.truncate(0);
        return found;
    };
    // The chunk keeps the priority of its copy in the host's memory, also where computing it is faster than copying.
    if (const auto entry = host_tier_ != nullptr ? host_tier_->find(*chunk.identity) : nullptr)
        chunk.retention.priority = entry->retention.priority;
    if (host_tier_ != nullptr && fetched(from_host_, [&] { return fetch_from_host(lock, chunk); })) {
        store_.count(*chunk.identity, &StoreNumbers::host_hits);
        chunk.origin = Chunk::Origin::host;
        return true;
    }
    if (folder_ != nullptr && fetched(from_files_, [&] { return fetch_from_folder(lock, chunk); })) {
        store_.count(*chunk.identity, &StoreNumbers::file_hits);
        chunk.origin = Chunk::Origin::file;
        return true;
    }
    if (server_ != nullptr && fetched(from_server_, [&] { return fetch_from_server(lock, chunk); })) {
        store_.count(*chunk.identity, &StoreNumbers::server_hits);
        chunk.origin = Chunk::Origin::server;
        return true;
    }
    return false;
}

Result<bool> Engine::fetch_from_host(Lock& lock, Chunk& chunk) {
    const auto entry = host_tier_->find(*chunk.identity);
    if (entry == nullptr) return false;
    NL_TRY(scheduler_->take_pages(chunk.pages, pages_for(chunk.num_tokens(), page_size_)));
    auto move = std::make_shared<PageMove>();
    move->pages.assign(chunk.pages.pages().begin(), chunk.pages.pages().end());
    host_tier_->find_memory(*entry, move->host);
    scheduler_->start(move);
    lock.unlock();
    move->done.acquire();
    lock.lock();
    NL_TRY(std::move(move->outcome));
    return !entry->failed;
}

Result<bool> Engine::fetch_from_folder(Lock& lock, Chunk& chunk) {
    lock.unlock();
    std::optional<ChunkFileReader> file;
    ChunkName name;
    Result<void> opened = without_exceptions([&]() -> Result<void> {
        NL_ASSIGN(const EngineMark mark, this->mark());
        {
            const Lock again(mutex_);
            name = name_of(*chunk.identity, mark);
        }
        if (!folder_->find(name)) return {};
        auto found = open_saved(folder_->path_of(name));
        if (found.ok()) file = std::move(*found);
        if (found.ok() || found.error().status == NL_ERROR_NOT_FOUND) return {};
        return std::move(found.error());
    });
    lock.lock();
    Result<void> outcome = std::move(opened);
    if (outcome.ok() && !file) return false;
    if (outcome.ok()) outcome = read_chunk(lock, chunk, *file);
    if (outcome.ok()) return true;
    // What is there is not what its name says, and would be read again and again.
    if (outcome.error().status == NL_ERROR_BAD_FILE || outcome.error().status == NL_ERROR_UNSUPPORTED) {
        folder_->remove(name, outcome.error().message);
        return false;
    }
    return std::move(outcome.error());
}

// A server that fails is asked again with a later chunk.
Result<bool> Engine::fetch_from_server(Lock& lock, Chunk& chunk) {
    lock.unlock();
    std::optional<EngineMark> mark;
    Result<void> marked = without_exceptions([&]() -> Result<void> {
        NL_ASSIGN(mark, this->mark());
        return {};
    });
    lock.lock();
    NL_TRY(std::move(marked));
    const ChunkName name = name_of(*chunk.identity, *mark);
    NL_TRY(scheduler_->take_pages(chunk.pages, pages_for(chunk.num_tokens(), page_size_)));
    bool has_all = true;
    const auto deadline = Clock::now() + server_deadline_;
    lock.unlock();
    const Result<void> brought = without_exceptions([&]() -> Result<void> {
        NL_ASSIGN(ThreadPool* const threads, file_threads());
        return bring_to_device(chunk.pages.pages(), [&](int64_t at, std::span<std::byte> bytes) -> Result<void> {
            NL_ASSIGN(has_all, server_->read(name, at, bytes, deadline, *threads));
            if (has_all) return {};
            return nanolith::fail(NL_ERROR_NOT_FOUND, "the store's server lacks a page");
        });
    });
    if (brought.ok() || !has_all)
        server_answered();
    else
        warn_about_server(brought.error());
    lock.lock();
    return brought.ok();
}

// The chunk's pages from a file of one chunk, which must be this one.
Result<void> Engine::read_chunk(Lock& lock, Chunk& chunk, const ChunkFileReader& file) {
    NL_ASSIGN(const Saved saved,
              decode_description(file.description(), file.header(), spec().vocab_size, store_, file.path()));
    if (saved.tail || saved.chunks.size() != 1 || saved.chunks[0].identity != chunk.identity)
        return fail(NL_ERROR_BAD_FILE, file.path(), ": it holds another chunk than its name says");
    NL_TRY(scheduler_->take_pages(chunk.pages, pages_for(chunk.num_tokens(), page_size_)));
    return read_pages(lock, file, 0, chunk.pages.pages());
}

}  // namespace nanolith
