// Chunks and conversations in files: saved to a path and loaded from there, by another engine, process or machine.
#include <algorithm>
#include <cstring>

#include "backend/page_size.h"
#include "base/cores.h"
#include "engine/find_or_make.h"
#include "store/fingerprint.h"
#include "store/writer.h"

namespace nanolith {
namespace {

constexpr int32_t kMostFileThreads = 16;

std::vector<int32_t> list(std::span<const int32_t> pages) {
    return {pages.begin(), pages.end()};
}

// Pages of one run that a buffer takes, and how many tokens the last of them holds.
struct Part {
    const PageRun* run = nullptr;
    std::span<const int32_t> pages = {};
    int32_t tokens_of_last = 0;
};

// `most`: pages of a buffer.
std::vector<Part> divide(std::span<const PageRun> runs, size_t most, int32_t page_size) {
    std::vector<Part> parts;
    for (const PageRun& run : runs) {
        for (size_t at = 0; at < run.pages.size(); at += most) {
            const size_t count = std::min(most, run.pages.size() - at);
            const auto end = static_cast<int32_t>(at + count) * page_size;
            parts.push_back({&run, std::span(run.pages).subspan(at, count), page_size - std::max(0, end - run.tokens)});
        }
    }
    return parts;
}

// The units of the chunk, by their index in it, whose tokens the conversation has recomputed.
std::vector<int32_t> recomputed_units(const ChunkUse& use) {
    std::vector<int32_t> units;
    for (int32_t unit = 0; unit < units_for(use.length); ++unit)
        if (is_recomputed(use, unit)) units.push_back(unit);
    return units;
}

// The pages that the conversation has in place of pages `pages` of the chunk (indices in the chunk, at least one,
// ascending). Only the chunk's last page may be partly filled.
PageRun run_of(const ChunkUse& use, std::span<const int32_t> pages, int32_t page_size) {
    PageRun run;
    for (const int32_t page : pages) run.pages.push_back(use.blended->pages[page]);
    const int32_t of_last = std::min(page_size, use.length - pages.back() * page_size);
    run.tokens = (static_cast<int32_t>(pages.size()) - 1) * page_size + of_last;
    return run;
}

}  // namespace

Result<EngineMark> Engine::mark() {
    const std::lock_guard lock(files_mutex_);
    if (!mark_) {
        EngineMark mark;
        NL_ASSIGN(mark.weights, digest_of_weights(*model_, folder_ != nullptr ? folder_->digests_path() : ""));
        NL_ASSIGN(mark.tokenizer, digest_of_tokenizer(model_->folder));
        mark.numbers = numbers_;
        mark_ = mark;
    }
    return *mark_;
}

Result<ThreadPool*> Engine::file_threads() {
    const std::lock_guard lock(files_mutex_);
    if (!file_threads_) file_threads_ = ThreadPool::create(std::min(kMostFileThreads, available_cores()));
    return file_threads_.get();
}

// A page that is not full would carry what another chunk left there.
void Engine::clear_unused(std::span<std::byte> page, int32_t tokens) const {
    const size_t tile = row_bytes_ * static_cast<size_t>(page_size_);  // of one layer, KV head, and keys or values
    const size_t used = row_bytes_ * static_cast<size_t>(tokens);
    for (size_t begin = 0; begin < page.size(); begin += tile) std::memset(page.data() + begin + used, 0, tile - used);
}

void Engine::start_move(StartedMoves& moves, std::span<const int32_t> pages, std::span<std::byte> bytes, bool to_host,
                        const std::optional<std::weak_ptr<const Chunk>>& of) {
    auto move = std::make_shared<PageMove>();
    move->pages.assign(pages.begin(), pages.end());
    move->host = {bytes};
    move->to_host = to_host;
    move->of = of;
    moves.reserve();
    {
        const Lock lock(mutex_);
        scheduler_->start(move);
    }
    moves.add(std::move(move));
}

// ---- Saving

Result<void> Engine::write_saved(const Saved& saved, const Digest& chunk_digest, std::span<const PageRun> runs,
                                 const std::string& path) {
    NL_ASSIGN(const EngineMark mark, this->mark());
    NL_ASSIGN(const std::vector<std::byte> description, encode_description(saved));
    const Header header{.mark = mark,
                        .page_size = page_size_,
                        .page_bytes = page_bytes_,
                        .chunk_digest = chunk_digest,
                        .num_pages = pages_of(saved, page_size_)};
    NL_ASSIGN(ChunkFileWriter file, ChunkFileWriter::create(path, header, description));
    NL_TRY(take_from_device(runs, [&](std::span<const std::byte> pages) { return file.add_pages(pages); }));
    return file.finish();
}

// While one buffer is given away, the next pages come into the other.
Result<void> Engine::take_from_device(std::span<const PageRun> runs, const GivePages& give) {
    NL_ASSIGN(const HostBuffers::Lease first, buffers_->take());
    NL_ASSIGN(const HostBuffers::Lease second, buffers_->take());
    const auto page_bytes = static_cast<size_t>(page_bytes_);
    const std::vector<Part> parts = divide(runs, buffers_->buffer_bytes() / page_bytes, page_size_);
    const auto bytes_of = [&](size_t i) {
        return (i % 2 == 0 ? first : second).bytes().first(parts[i].pages.size() * page_bytes);
    };
    StartedMoves moves;
    const auto start = [&](size_t i) {
        if (i < parts.size()) start_move(moves, parts[i].pages, bytes_of(i), true, parts[i].run->of);
    };
    start(0);
    for (size_t i = 0; i < parts.size(); ++i) {
        NL_TRY(moves.finish_oldest());
        start(i + 1);
        clear_unused(bytes_of(i).last(page_bytes), parts[i].tokens_of_last);
        NL_TRY(give(bytes_of(i)));
    }
    return {};
}

Result<void> Engine::save(const std::shared_ptr<Chunk>& chunk, const std::string& path) {
    NL_ASSIGN(const EngineMark mark, this->mark());
    Saved saved;
    PageRun run;
    Digest digest{};
    {
        const Lock lock(mutex_);
        saved.tenant = chunk->identity->tenant;
        saved.chunks = {{.identity = chunk->identity, .level = chunk->retention.level, .length = chunk->num_tokens()}};
        run = {list(chunk->pages.pages()), chunk->num_tokens()};
        digest = digest_of(*chunk->identity, mark);
    }
    return write_saved(saved, digest, {&run, 1}, path);
}

Result<void> Engine::save(Cache& cache, const std::string& path) {
    Lock lock(mutex_);
    NL_TRY(wait_idle(lock, cache));
    // A fork has the same pages, which stay as they are while the cache goes on.
    const ResidentSequence& sequence = *cache.sequence;
    const Context context = sequence.context.fork();
    Saved saved;
    saved.tenant = context.tenant;
    std::vector<PageRun> runs;
    for (const ChunkUse& use : context.chunks()) {
        saved.chunks.push_back(
            {use.chunk->identity, use.chunk->retention.level, use.length, use.base, use.exact, recomputed_units(use)});
        runs.push_back({list(use.chunk->pages.pages()), use.chunk->num_tokens()});
        const std::vector<int32_t> recomputed = pages_of_units(saved.chunks.back().recomputed, page_size_);
        if (!recomputed.empty()) runs.push_back(run_of(use, recomputed, page_size_));
    }
    std::vector<int32_t> tokens = context.tokens(context.num_tokens());
    tokens.erase(tokens.begin(), tokens.begin() + context.tail_base());
    saved.tail = SavedTail{.tokens = std::move(tokens),
                           .computed = context.tail_computed(),
                           .sampling = sequence.sampling->options(),
                           .next = {}};
    if (sequence.next) saved.tail->next = sequence.next->token;
    saved.tail->composition = cache.composition;
    if (sequence.blend) {
        const BlendProgress& progress = sequence.blend->progress();
        saved.tail->blend = {sequence.blend->share(), progress.begun, progress.chosen_tokens, sequence.shares_blend};
    }
    const auto tail_pages = pages_for(context.tail_computed(), page_size_);
    runs.push_back(
        {list(context.tail_pages().pages().first(static_cast<size_t>(tail_pages))), context.tail_computed()});
    lock.unlock();
    Result<void> outcome = without_exceptions([&] { return write_saved(saved, Digest{}, runs, path); });
    lock.lock();
    return outcome;
}

// ---- Loading

Result<ChunkFileReader> Engine::open_saved(const std::string& path) {
    NL_ASSIGN(ChunkFileReader file, ChunkFileReader::open(path));
    NL_ASSIGN(const EngineMark mark, this->mark());
    NL_TRY(check_mark(file.header(), mark, page_size_, page_bytes_, path));
    return file;
}

Result<void> Engine::check_room(const Saved& saved) const {
    int64_t total = saved.tail ? static_cast<int64_t>(saved.tail->tokens.size()) : 0;
    for (const SavedChunk& chunk : saved.chunks) {
        int64_t end = static_cast<int64_t>(chunk.identity->tokens.size());
        for (const auto& before : chunk.identity->before) end += static_cast<int64_t>(before->tokens.size());
        total = std::max(total + chunk.length, end);
    }
    if (total <= spec().max_context) return {};
    return fail(NL_ERROR_CONTEXT_FULL, "what was saved holds ", total, " tokens: the context holds ",
                spec().max_context)
        .with(NL_DETAIL_NEEDED, total)
        .with(NL_DETAIL_AVAILABLE, spec().max_context);
}

Result<void> Engine::read_pages(Lock& lock, const ChunkFileReader& file, int64_t first,
                                std::span<const int32_t> pages) {
    lock.unlock();
    Result<void> outcome = without_exceptions([&] { return read_pages(file, first, pages); });
    lock.lock();
    return outcome;
}

Result<void> Engine::read_pages(const ChunkFileReader& file, int64_t first, std::span<const int32_t> pages) {
    NL_ASSIGN(ThreadPool* const threads, file_threads());
    return bring_to_device(
        pages, [&](int64_t at, std::span<std::byte> bytes) { return file.read_pages(first + at, bytes, *threads); });
}

// While the device copies from one buffer, the next pages are read into the other.
Result<void> Engine::bring_to_device(std::span<const int32_t> pages, const ReadPages& read) {
    NL_ASSIGN(const HostBuffers::Lease even, buffers_->take());
    NL_ASSIGN(const HostBuffers::Lease odd, buffers_->take());
    const auto page_bytes = static_cast<size_t>(page_bytes_);
    const size_t most = buffers_->buffer_bytes() / page_bytes;
    StartedMoves moves;
    for (size_t at = 0; at < pages.size(); at += most) {
        const auto some = pages.subspan(at, std::min(most, pages.size() - at));
        if (moves.size() == 2) NL_TRY(moves.finish_oldest());  // which read the buffer that is filled now
        const auto bytes = (at / most % 2 == 0 ? even : odd).bytes().first(some.size() * page_bytes);
        NL_TRY(read(static_cast<int64_t>(at), bytes));
        start_move(moves, some, bytes, false, {});
    }
    while (moves.size() > 0) NL_TRY(moves.finish_oldest());
    return {};
}

Result<std::shared_ptr<BlendedPages>> Engine::load_recomputed(Lock& lock, const Chunk& chunk,
                                                              std::span<const int32_t> units,
                                                              const ChunkFileReader& file, int64_t first_page) {
    if (units.empty()) return std::shared_ptr<BlendedPages>();
    const std::vector<int32_t> pages = pages_of_units(units, page_size_);
    PageList own(*pool_);
    NL_TRY(scheduler_->take_pages(own, static_cast<int32_t>(pages.size())));
    NL_TRY(read_pages(lock, file, first_page, own.pages()));
    const auto num_units = static_cast<size_t>(units_for(chunk.num_tokens()));
    auto blended = std::make_shared<BlendedPages>(BlendedPages{chunk.pages.share(), std::vector<bool>(num_units)});
    for (size_t i = 0; i < pages.size(); ++i) {
        PageList single = own.share_page(static_cast<int32_t>(i));
        blended->pages.swap_page(pages[i], single);
    }
    for (const int32_t unit : units) blended->recomputed[static_cast<size_t>(unit)] = true;
    return blended;
}

Result<Engine::Prefilled> Engine::load_saved(Lock& lock, const SavedChunk& chunk, const ChunkFileReader& file,
                                             int64_t first_page) {
    return find_or_make(lock, chunk.identity, chunk.level, [&](Chunk& made) -> Result<int64_t> {
        NL_TRY(scheduler_->take_pages(made.pages, pages_for(made.num_tokens(), page_size_)));
        NL_TRY(read_pages(lock, file, first_page, made.pages.pages()));
        made.origin = Chunk::Origin::file;
        return 0;
    });
}

Result<Engine::Prefilled> Engine::load_chunk(const TenantPtr& tenant, const std::string& path) {
    NL_ASSIGN(const ChunkFileReader file, open_saved(path));
    Lock lock(mutex_);
    NL_ASSIGN(const Saved saved,
              decode_description(file.description(), file.header(), spec().vocab_size, store_, path));
    if (saved.tail)
        return fail(NL_ERROR_BAD_FILE, path, ": it holds a conversation: expected one chunk (nl_chunk_save)");
    if (digest_of(*saved.chunks[0].identity, file.header().mark) != file.header().chunk_digest)
        return fail(NL_ERROR_BAD_FILE, path, ": the chunk's digest is not that of its tokens");
    if (saved.tenant && saved.tenant != tenant)
        return fail(NL_ERROR_BAD_FILE, path, ": its chunk is another tenant's: expected one with the salt of engine");
    NL_TRY(check_room(saved));
    return load_saved(lock, saved.chunks[0], file, 0);
}

Result<std::unique_ptr<Cache>> Engine::load_cache(const TenantPtr& tenant, const std::string& path) {
    NL_ASSIGN(const ChunkFileReader file, open_saved(path));
    const auto begin = Clock::now();
    Lock lock(mutex_);
    NL_ASSIGN(const Saved saved,
              decode_description(file.description(), file.header(), spec().vocab_size, store_, path));
    if (!saved.tail)
        return fail(NL_ERROR_BAD_FILE, path, ": it holds one chunk: expected a conversation (nl_cache_save)");
    if (saved.tenant != tenant)
        return fail(NL_ERROR_BAD_FILE, path, ": its conversation is another tenant's: expected the salt of engine");
    NL_TRY(check_room(saved));
    // Without the mutex, since every token of the vocabulary may be searched for texts that break repetitions.
    std::shared_ptr<const Sampling> sampling;
    lock.unlock();
    const Result<void> made = without_exceptions([&]() -> Result<void> {
        NL_ASSIGN(sampling, make_sampling(saved.tail->sampling));
        return {};
    });
    lock.lock();
    if (!made.ok() && made.error().status == NL_ERROR_OUT_OF_MEMORY) return made.error();
    if (!made.ok()) return fail(NL_ERROR_BAD_FILE, path, ": ", made.error().message);
    std::vector<ChunkUse> uses;
    int64_t page = 0;
    for (const SavedChunk& chunk : saved.chunks) {
        NL_ASSIGN(auto loaded, load_saved(lock, chunk, file, page));
        page += loaded.chunk->pages.size();
        uses.push_back({std::move(loaded.chunk), chunk.length, chunk.base, chunk.exact});
        NL_ASSIGN(uses.back().blended, load_recomputed(lock, *uses.back().chunk, chunk.recomputed, file, page));
        page += std::ssize(pages_of_units(chunk.recomputed, page_size_));
    }
    Context context(*pool_, std::move(uses));
    context.tenant = tenant;
    const SavedTail& tail = *saved.tail;
    context.append(tail.tokens);
    NL_TRY(scheduler_->take_pages(context.tail_pages(), pages_for(tail.computed, page_size_)));
    NL_TRY(read_pages(lock, file, page, context.tail_pages().pages()));
    context.set_computed(tail.computed);
    context.tokens_reused = context.tail_base() + tail.computed;
    context.chunk_tokens_reused = context.tail_base();
    context.seconds_bringing = seconds_since(begin);
    auto cache = std::make_unique<Cache>();
    cache->composition = tail.composition;
    cache->sequence = std::make_shared<ResidentSequence>(std::move(context), page_size_);
    cache->sequence->shares_prefixes = share_prefixes_ && !tail.blend;
    if (tail.blend) {
        const BlendProgress progress{tail.blend->begun, tail.blend->chosen_tokens};
        cache->sequence->blend.emplace(tail.blend->share, page_size_, largest_window(spec()), progress);
        cache->sequence->shares_blend = tail.blend->is_shared;
        scheduler_->keep_blend(*cache->sequence);
    }
    cache->sequence->set_sampling(std::move(sampling));
    // Not with Mirostat: its bound begins anew, and the surprise of this token is not in the file.
    if (tail.next && !cache->sequence->sampling->surprise_counts()) cache->sequence->next = DrawnToken{*tail.next, 0};
    return cache;
}

}  // namespace nanolith
