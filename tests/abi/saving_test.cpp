// Chunks and conversations in files of the caller's: saved, loaded by another process, refused where they are damaged.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "abi/abi_fixtures.h"
#include "support/killed_child.h"

namespace nanolith::test {
namespace {

nl_status save(const nl_chunk* chunk, const std::string& path) {
    return nl_chunk_save(chunk, path.data(), path.size());
}
nl_status save(nl_cache* cache, const std::string& path) {
    return nl_cache_save(cache, path.data(), path.size());
}

ChunkHandle load_chunk(nl_engine* engine, const std::string& path) {
    nl_chunk* chunk = nullptr;
    EXPECT_EQ(nl_chunk_load(engine, path.data(), path.size(), &chunk), NL_OK) << nl_last_error();
    return ChunkHandle(chunk);
}
CacheHandle load_cache(nl_engine* engine, const std::string& path) {
    nl_cache* cache = nullptr;
    EXPECT_EQ(nl_cache_load(engine, path.data(), path.size(), &cache), NL_OK) << nl_last_error();
    return CacheHandle(cache);
}

std::string read_bytes(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream bytes;
    bytes << file.rdbuf();
    return bytes.str();
}

size_t num_files(const std::string& folder) {
    const std::filesystem::directory_iterator entries(folder);
    return static_cast<size_t>(std::distance(begin(entries), end(entries)));
}

// An engine of a copy of the test's model in a process of its own, which loads `file` as `what` says, extends it, and
// writes what it saw to a file: a child of this program, see SavingChild.
std::vector<int64_t> in_another_process(const TinyModel& model, const char* what, const std::string& file) {
    const TempFolder folder;
    // The other process runs its one case whatever share of the cases this one was given.
    ::unsetenv("GTEST_TOTAL_SHARDS");
    ::unsetenv("GTEST_SHARD_INDEX");
    ::setenv("NL_TEST_CHILD", what, 1);
    ::setenv("NL_TEST_MODEL", model.path().c_str(), 1);
    ::setenv("NL_TEST_FILE", file.c_str(), 1);
    ::setenv("NL_TEST_RESULT", folder.file("result").c_str(), 1);
    const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
    const std::string command =
        "'" + self + "' --gtest_filter=SavingChild.* --gtest_also_run_disabled_tests >" + folder.file("log") + " 2>&1";
    EXPECT_EQ(std::system(command.c_str()), 0) << read_bytes(folder.file("log"));
    ::unsetenv("NL_TEST_CHILD");
    std::vector<int64_t> numbers;
    std::ifstream result(folder.file("result"));
    for (int64_t number = 0; result >> number;) numbers.push_back(number);
    return numbers;
}

constexpr int kNewTokens = 7;
constexpr int kDrawn = 12;

EngineHandle make_engine_at(const std::string& path) {
    const OptionsHandle options = make_options(NL_OPTIONS_ENGINE);
    EXPECT_EQ(set_device(options.get(), test_device()), NL_OK);
    EXPECT_EQ(nl_options_set_int(options.get(), NL_OPTION_THREADS, 1), NL_OK);
    EXPECT_EQ(nl_options_set_int(options.get(), NL_OPTION_NUM_PAGES, 64), NL_OK);
    EXPECT_EQ(nl_options_set_int(options.get(), NL_OPTION_PAGE_SIZE, 16), NL_OK);
    nl_engine* engine = nullptr;
    EXPECT_EQ(nl_engine_create(path.data(), path.size(), options.get(), &engine), NL_OK) << nl_last_error();
    return EngineHandle(engine);
}

// The other process of in_another_process: the tokens computed before and after extending, then those drawn.
TEST(SavingChild, DISABLED_Loads) {
    const char* const what = std::getenv("NL_TEST_CHILD");
    if (what == nullptr) GTEST_SKIP() << "another test starts it";
    const EngineHandle engine = make_engine_at(std::getenv("NL_TEST_MODEL"));
    const std::string file = std::getenv("NL_TEST_FILE");
    ChunkHandle chunk;
    CacheHandle cache;
    if (std::string(what) == "chunk") {
        chunk = load_chunk(engine.get(), file);
        EXPECT_EQ(fact(chunk.get(), NL_CHUNK_TOKENS_COMPUTED), 0);
        EXPECT_EQ(fact(chunk.get(), NL_CHUNK_ORIGIN), NL_ORIGIN_FILE);
        cache = make_cache(engine.get(), {chunk.get()});
    } else {
        cache = load_cache(engine.get(), file);
    }
    std::ofstream result(std::getenv("NL_TEST_RESULT"));
    result << fact(cache.get(), NL_CACHE_TOKENS_COMPUTED) << ' ';
    extend(cache.get(), some_tokens(kNewTokens, 9));
    result << fact(cache.get(), NL_CACHE_TOKENS_COMPUTED) << ' ';
    for (const int32_t token : decode(cache.get(), kDrawn)) result << token << ' ';
}

TEST(Saving, AChunkComesBackInAnotherProcess) {
    const TinyModel model;
    const TempFolder folder;
    const EngineHandle engine = make_engine(model);
    const ChunkHandle before = make_chunk(engine.get(), some_tokens(40, 1), 0);
    const ChunkHandle chunk = make_chunk(engine.get(), some_tokens(53, 2), 1, {before.get()});
    NL_CHECK(save(chunk.get(), folder.file("chunk")));
    EXPECT_EQ(num_files(folder.path()), 1U);
    const CacheHandle cache = make_cache(engine.get(), {chunk.get()});
    extend(cache.get(), some_tokens(kNewTokens, 9));
    std::vector<int64_t> expected = {0, kNewTokens};
    for (const int32_t token : decode(cache.get(), kDrawn)) expected.push_back(token);
    EXPECT_EQ(in_another_process(model, "chunk", folder.file("chunk")), expected);
}

// The recomputed pages come along, and what the blend may still recompute.
TEST(Saving, ABlendGoesOnInAnotherEngine) {
    for (const double share : {0.001, 0.02, 0.2, 0.45}) {
        SCOPED_TRACE(share);
        const TinyModel model;
        const TempFolder folder;
        const EngineHandle engine = make_engine(model);
        std::vector<ChunkHandle> chunks;
        std::vector<const nl_chunk*> all;
        for (const auto& [length, level] : {std::pair{20, 0}, {150, 1}, {137, 1}, {90, 1}}) {
            chunks.push_back(make_chunk(engine.get(), some_tokens(length, length), level));
            all.push_back(chunks.back().get());
        }
        const CacheHandle cache = make_blend(engine.get(), all, share);
        extend(cache.get(), some_tokens(11, 3));
        decode(cache.get(), 5);
        EXPECT_EQ(fact(cache.get(), NL_CACHE_TOKENS_BLENDED) > 0, share > 0.01);  // of 377 tokens four, at least
        NL_CHECK(save(cache.get(), folder.file("blend")));
        const EngineHandle other = make_engine(model);
        const CacheHandle loaded = load_cache(other.get(), folder.file("blend"));
        EXPECT_EQ(fact(loaded.get(), NL_CACHE_COMPOSITION), NL_COMPOSE_BLENDED);
        EXPECT_EQ(fact(loaded.get(), NL_CACHE_PRIVATE_PAGES), fact(cache.get(), NL_CACHE_PRIVATE_PAGES));
        EXPECT_EQ(fact(loaded.get(), NL_CACHE_TOKENS_COMPUTED), 0);
        const int64_t before = fact(cache.get(), NL_CACHE_TOKENS_COMPUTED);
        for (nl_cache* each : {cache.get(), loaded.get()}) extend(each, some_tokens(kNewTokens, 9));
        EXPECT_EQ(fact(loaded.get(), NL_CACHE_TOKENS_COMPUTED), fact(cache.get(), NL_CACHE_TOKENS_COMPUTED) - before);
        EXPECT_EQ(decode(loaded.get(), kDrawn), decode(cache.get(), kDrawn));
        EXPECT_EQ(fact(loaded.get(), NL_CACHE_PRIVATE_PAGES), fact(cache.get(), NL_CACHE_PRIVATE_PAGES));
    }
}

// Another conversation with the same chunks, in the engine that loaded a blend, finds what was recomputed of them.
TEST(Saving, ALoadedBlendIsThereForOthers) {
    const TinyModel model;
    const TempFolder folder;
    const Tokens first = some_tokens(150, 1);
    const Tokens second = some_tokens(137, 2);
    const auto ask = [&](nl_engine* engine) {
        const ChunkHandle a = make_chunk(engine, first);
        const ChunkHandle b = make_chunk(engine, second);
        CacheHandle cache = make_blend(engine, {a.get(), b.get()}, 0.3);
        extend(cache.get(), some_tokens(11, 3));
        return cache;
    };
    const EngineHandle engine = make_engine(model);
    const CacheHandle cache = ask(engine.get());
    EXPECT_GT(fact(cache.get(), NL_CACHE_TOKENS_BLENDED), 0);
    NL_CHECK(save(cache.get(), folder.file("blend")));
    const EngineHandle other = make_engine(model);
    const CacheHandle loaded = load_cache(other.get(), folder.file("blend"));
    const CacheHandle stranger = ask(other.get());
    EXPECT_EQ(fact(stranger.get(), NL_CACHE_TOKENS_BLENDED), 0) << "all that it chooses is recomputed already";
    EXPECT_EQ(decode(stranger.get(), kDrawn), decode(cache.get(), kDrawn));
}

TEST(Saving, AConversationGoesOnInAnotherProcess) {
    const TinyModel model;
    const TempFolder folder;
    const EngineHandle engine = make_engine(model);
    const ChunkHandle system = make_chunk(engine.get(), some_tokens(20, 1), 0);
    const ChunkHandle document = make_chunk(engine.get(), some_tokens(33, 2), 1);
    const CacheHandle cache = make_cache(engine.get(), {system.get(), document.get()}, NL_COMPOSE_EXACT);
    extend(cache.get(), some_tokens(11, 3));
    decode(cache.get(), 9);
    NL_CHECK(save(cache.get(), folder.file("conversation")));
    // The token drawn last is in the context and its row is not computed yet, here as there.
    const int64_t computed = fact(cache.get(), NL_CACHE_TOKENS_COMPUTED);
    extend(cache.get(), some_tokens(kNewTokens, 9));
    std::vector<int64_t> expected = {0, fact(cache.get(), NL_CACHE_TOKENS_COMPUTED) - computed};
    EXPECT_LE(expected[1], kNewTokens + 1);
    for (const int32_t token : decode(cache.get(), kDrawn)) expected.push_back(token);
    EXPECT_EQ(in_another_process(model, "cache", folder.file("conversation")), expected);
}

// Drawing, the known next token, a truncated chunk and logits are as they were.
TEST(Saving, AConversationIsWhatItWas) {
    const TinyModel model;
    const TempFolder folder;
    const EngineHandle engine = make_engine(model);
    const OptionsHandle sampling = make_options(NL_OPTIONS_SAMPLING);
    NL_CHECK(nl_options_set_float(sampling.get(), NL_OPTION_TEMPERATURE, 0.9));
    NL_CHECK(nl_options_set_int(sampling.get(), NL_OPTION_SEED, -5));
    const ChunkHandle chunk = make_chunk(engine.get(), some_tokens(40, 1));
    CacheHandle truncated = make_cache(engine.get(), {chunk.get()});
    NL_CHECK(nl_cache_truncate(truncated.get(), 21));
    const CacheHandle empty = make_cache(engine.get());
    CacheHandle drawing = make_cache(engine.get(), {chunk.get(), chunk.get()});
    NL_CHECK(nl_cache_set_sampling(drawing.get(), sampling.get()));
    extend(drawing.get(), some_tokens(16, 4));
    for (nl_cache* const cache : {truncated.get(), drawing.get(), empty.get()}) {
        SCOPED_TRACE(cache == truncated.get() ? "truncated" : cache == empty.get() ? "empty" : "drawing");
        NL_CHECK(save(cache, folder.file("file")));
        const EngineHandle other = make_engine(model);
        const CacheHandle loaded = load_cache(other.get(), folder.file("file"));
        EXPECT_EQ(tokens_of(loaded.get()), tokens_of(cache));
        EXPECT_EQ(fact(loaded.get(), NL_CACHE_TOKENS_REUSED), fact(cache, NL_CACHE_TOKENS));
        EXPECT_EQ(fact(loaded.get(), NL_CACHE_PAGES), fact(cache, NL_CACHE_PAGES));
        if (fact(cache, NL_CACHE_TOKENS) == 0) continue;
        EXPECT_EQ(logits_of(loaded.get()), logits_of(cache));
        EXPECT_EQ(decode(loaded.get(), 8), decode(cache, 8));
    }
}

// A conversation may go on, and be freed, as soon as the call returns; what was saved is what it was then. Its chunks
// are shared with the store of the engine that loads it.
TEST(Saving, LoadedChunksAreShared) {
    const TinyModel model;
    const TempFolder folder;
    EngineHandle engine = make_engine(model);
    const ChunkHandle chunk = make_chunk(engine.get(), some_tokens(40, 1));
    CacheHandle cache = make_cache(engine.get(), {chunk.get()}, NL_COMPOSE_EXACT);
    extend(cache.get(), some_tokens(5, 2));
    NL_CHECK(save(cache.get(), folder.file("a")));
    const int64_t free = fact(engine.get(), NL_ENGINE_PAGES_FREE);
    const CacheHandle same = load_cache(engine.get(), folder.file("a"));
    EXPECT_EQ(free - fact(engine.get(), NL_ENGINE_PAGES_FREE), 1) << "only the tail has a page of its own";
    const EngineHandle other = make_engine(model);
    const CacheHandle loaded = load_cache(other.get(), folder.file("a"));
    const ChunkHandle found = make_chunk(other.get(), some_tokens(40, 1));
    EXPECT_EQ(fact(found.get(), NL_CHUNK_TOKENS_COMPUTED), 0);
    EXPECT_EQ(fact(found.get(), NL_CHUNK_ORIGIN), NL_ORIGIN_DEVICE);
}

TEST(Saving, FilesOfOthersAreRefused) {
    const TinyModel model;
    const TempFolder folder;
    const EngineHandle engine = make_engine(model);
    const ChunkHandle chunk = make_chunk(engine.get(), some_tokens(40, 1));
    const CacheHandle cache = make_cache(engine.get(), {chunk.get()});
    NL_CHECK(save(chunk.get(), folder.file("chunk")));
    NL_CHECK(save(cache.get(), folder.file("cache")));
    nl_chunk* no_chunk = nullptr;
    nl_cache* no_cache = nullptr;
    const auto chunk_from = [&](nl_engine* from, const std::string& name) {
        const std::string path = folder.file(name);
        return nl_chunk_load(from, path.data(), path.size(), &no_chunk);
    };
    const auto cache_from = [&](nl_engine* from, const std::string& name) {
        const std::string path = folder.file(name);
        return nl_cache_load(from, path.data(), path.size(), &no_cache);
    };
    EXPECT_FAILS(NL_ERROR_BAD_FILE, "holds a conversation", chunk_from(engine.get(), "cache"));
    EXPECT_FAILS(NL_ERROR_BAD_FILE, "holds one chunk", cache_from(engine.get(), "chunk"));
    EXPECT_FAILS(NL_ERROR_NOT_FOUND, "nothing", chunk_from(engine.get(), "nothing"));
    EXPECT_FAILS(NL_ERROR_BAD_FILE, "not a regular file",
                 (std::filesystem::create_directory(folder.file("folder")), chunk_from(engine.get(), "folder")));
    folder.write("empty", "");
    EXPECT_FAILS(NL_ERROR_BAD_FILE, "no chunks of this library", chunk_from(engine.get(), "empty"));
    folder.write("foreign", std::string(5000, 'x'));
    EXPECT_FAILS(NL_ERROR_BAD_FILE, "no chunks of this library", chunk_from(engine.get(), "foreign"));
    std::string newer = read_bytes(folder.file("chunk"));
    newer[8] = 4;
    folder.write("newer", newer);
    EXPECT_FAILS(NL_ERROR_UNSUPPORTED, "format 4: expected 3", chunk_from(engine.get(), "newer"));

    const EngineHandle larger_pages = make_engine(model, {.num_pages = 16, .page_size = 32});
    EXPECT_FAILS(NL_ERROR_BAD_FILE, "pages have 16 tokens: expected 32", chunk_from(larger_pages.get(), "chunk"));
    TinyModelShape shape;
    shape.seed = 2;
    const TinyModel other_model(shape);
    const EngineHandle other_weights = make_engine(other_model);
    EXPECT_FAILS(NL_ERROR_BAD_FILE, "other weights", chunk_from(other_weights.get(), "chunk"));
    const EngineHandle short_context = make_engine(model, {.num_pages = 16, .max_context = 30});
    EXPECT_FAILS(NL_ERROR_CONTEXT_FULL, "holds 40 tokens: the context holds 30",
                 chunk_from(short_context.get(), "chunk"));
    const EngineHandle few_pages = make_engine(model, {.num_pages = 2});
    EXPECT_FAILS(NL_ERROR_OUT_OF_PAGES, "3 pages are needed", chunk_from(few_pages.get(), "chunk"));
    EXPECT_EQ(spare_pages(few_pages.get()), 2);
    EXPECT_EQ(no_chunk, nullptr);
    EXPECT_EQ(no_cache, nullptr);
}

// Wherever a byte is changed, or the file cut, it is refused, and nothing of it stays in the engine.
TEST(Saving, DamagedFilesAreRefused) {
    const TinyModel model;
    const TempFolder folder;
    const EngineHandle engine = make_engine(model);
    const ChunkHandle chunk = make_chunk(engine.get(), some_tokens(40, 1));
    const CacheHandle cache = make_cache(engine.get(), {chunk.get()});
    extend(cache.get(), some_tokens(20, 2));
    NL_CHECK(save(cache.get(), folder.file("whole")));
    const std::string whole = read_bytes(folder.file("whole"));
    const std::string path = folder.file("damaged");
    const auto refused = [&](const std::string& bytes) {
        folder.write("damaged", bytes);
        const EngineHandle other = make_engine(model);  // another one would have the chunk, and not read it again
        nl_cache* none = nullptr;
        const nl_status status = nl_cache_load(other.get(), path.data(), path.size(), &none);
        EXPECT_TRUE(status == NL_ERROR_BAD_FILE || status == NL_ERROR_UNSUPPORTED) << nl_status_name(status);
        EXPECT_NE(std::string(nl_last_error()).find(path), std::string::npos) << nl_last_error();
        nl_cache_free(none);
        EXPECT_EQ(spare_pages(other.get()), fact(other.get(), NL_ENGINE_PAGES_TOTAL));
    };
    const unsigned seed = std::random_device{}();
    std::printf("seed %u\n", seed);
    std::mt19937 random(seed);
    std::vector<size_t> places;
    for (size_t at = 0; at < 192; at += 8) places.push_back(at);                           // the header
    for (size_t at = whole.size() - 64; at < whole.size(); at += 8) places.push_back(at);  // checksums
    for (int i = 0; i < 100; ++i) places.push_back(random() % whole.size());
    for (const size_t at : places) {
        SCOPED_TRACE(at);
        std::string bytes = whole;
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << (random() % 8)));
        refused(bytes);
    }
    for (const size_t size :
         {whole.size() - 1, whole.size() - 4096, size_t{193}, size_t{192}, size_t{100}, size_t{1}}) {
        SCOPED_TRACE(size);
        refused(whole.substr(0, size));
    }
    refused(whole + "x");
    folder.write("damaged", whole);
    load_cache(make_engine(model).get(), path);
}

// What another chunk left in a page that is not full does not get into a file.
TEST(Saving, FilesHoldNothingOfOthers) {
    const TinyModel model;
    const TempFolder folder;
    const EngineHandle engine = make_engine(model, {.num_pages = 3});
    make_chunk(engine.get(), some_tokens(48, 1));  // all pages, then evicted
    const ChunkHandle chunk = make_chunk(engine.get(), some_tokens(35, 2));
    NL_CHECK(save(chunk.get(), folder.file("a")));
    const EngineHandle fresh = make_engine(model, {.num_pages = 3});
    const ChunkHandle same = make_chunk(fresh.get(), some_tokens(35, 2));
    NL_CHECK(save(same.get(), folder.file("b")));
    EXPECT_EQ(read_bytes(folder.file("a")), read_bytes(folder.file("b")));
}

// The old file stays whole until the new one is there, and nothing is left of one that could not be written.
TEST(Saving, WhatCannotBeWrittenLeavesNothing) {
    const TinyModel model;
    const TempFolder folder;
    const EngineHandle engine = make_engine(model);
    const ChunkHandle chunk = make_chunk(engine.get(), some_tokens(40, 1));
    EXPECT_FAILS(NL_ERROR_IO, "cannot make a file in", save(chunk.get(), folder.file("no/such/folder")));
    NL_CHECK(save(chunk.get(), folder.file("chunk")));
    const std::string before = read_bytes(folder.file("chunk"));
    const ChunkHandle other = make_chunk(engine.get(), some_tokens(40, 2));
    rlimit old{};
    ::getrlimit(RLIMIT_FSIZE, &old);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    for (const rlim_t most : {rlim_t{0}, rlim_t{100}, rlim_t{6000}, rlim_t{before.size() - 1}}) {
        const rlimit few{most, old.rlim_max};
        ::setrlimit(RLIMIT_FSIZE, &few);
        const nl_status status = save(other.get(), folder.file("chunk"));
        ::setrlimit(RLIMIT_FSIZE, &old);
        EXPECT_EQ(status, NL_ERROR_IO) << most;
        EXPECT_EQ(num_files(folder.path()), 1U) << most;
        EXPECT_EQ(read_bytes(folder.file("chunk")), before) << most;
    }
    std::signal(SIGXFSZ, handler);
    NL_CHECK(save(other.get(), folder.file("chunk")));
    EXPECT_NE(read_bytes(folder.file("chunk")), before);
}

// A process that is killed while it saves in place of a file leaves the old one or the new one, whole. What it had
// begun stays beside it: the caller's folder is nobody's to clear.
TEST(Saving, KilledWritersLeaveTheOldFileOrTheNewOne) {
    if (test_device() != "cpu") GTEST_SKIP() << "the writers are forked, which CUDA does not outlive";
    const TinyModel model;
    const TempFolder folder;
    const auto chunk_of = [](nl_engine* engine, int which) { return make_chunk(engine, some_tokens(40, which)); };
    const auto cache_of = [&](nl_engine* engine, int which) {
        CacheHandle cache = make_cache(engine, {chunk_of(engine, which).get()});
        extend(cache.get(), some_tokens(25, which));
        return cache;
    };
    const auto save_again_and_again = [&](const std::function<void()>& begin) {
        const EngineHandle engine = make_engine(model);
        const ChunkHandle chunks[] = {chunk_of(engine.get(), 1), chunk_of(engine.get(), 2)};
        const CacheHandle caches[] = {cache_of(engine.get(), 1), cache_of(engine.get(), 2)};
        for (int i = 0;; ++i) {
            EXPECT_EQ(save(chunks[i % 2].get(), folder.file("chunk")), NL_OK) << nl_last_error();
            EXPECT_EQ(save(caches[i % 2].get(), folder.file("cache")), NL_OK) << nl_last_error();
            if (i == 0) begin();
            if (testing::Test::HasFailure()) return;
        }
    };
    const auto draw = [](nl_cache* cache) {
        const CacheHandle fork = [&] {
            nl_cache* made = nullptr;
            EXPECT_EQ(nl_cache_fork(cache, &made), NL_OK) << nl_last_error();
            return CacheHandle(made);
        }();
        extend(fork.get(), {7});
        return decode(fork.get(), 6);
    };
    std::vector<Tokens> of_chunks;
    std::vector<Tokens> of_caches;
    for (const int which : {1, 2}) {
        const EngineHandle engine = make_engine(model);
        of_chunks.push_back(draw(make_cache(engine.get(), {chunk_of(engine.get(), which).get()}).get()));
        of_caches.push_back(draw(cache_of(engine.get(), which).get()));
    }
    const uint32_t seed = std::random_device{}();
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    int begun = 0;
    for (int round = num_kills(25); round > 0 && !HasFailure(); --round) {
        KilledChild(save_again_and_again).kill_within(std::chrono::milliseconds(10), random);
        const EngineHandle engine = make_engine(model);
        const ChunkHandle chunk = load_chunk(engine.get(), folder.file("chunk"));
        const CacheHandle cache = load_cache(engine.get(), folder.file("cache"));
        ASSERT_TRUE(chunk && cache);
        const CacheHandle behind = make_cache(engine.get(), {chunk.get()});
        const int first = tokens_of(behind.get()) == some_tokens(40, 1) ? 0 : 1;
        EXPECT_EQ(tokens_of(behind.get()), some_tokens(40, 1 + first));
        EXPECT_EQ(draw(behind.get()), of_chunks[static_cast<size_t>(first)]);
        const int second = tokens_of(cache.get())[0] == some_tokens(1, 1)[0] ? 0 : 1;
        EXPECT_EQ(draw(cache.get()), of_caches[static_cast<size_t>(second)]);
        for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
            const std::string name = entry.path().filename().string();
            if (name == "chunk" || name == "cache") continue;
            EXPECT_TRUE(name.starts_with(".nanolith-")) << name;
            std::filesystem::remove(entry.path());
            ++begun;
        }
    }
    EXPECT_GT(begun, 0) << "none was killed while it wrote";
}

// Weights that were changed since they were loaded would give a file another name than its keys and values have.
TEST(Saving, ChangedWeightsAreAnError) {
    const TinyModel model;
    const TempFolder folder;
    const EngineHandle engine = make_engine(model);
    const ChunkHandle chunk = make_chunk(engine.get(), some_tokens(40, 1));
    const std::string weights = model.path() + "/model.safetensors";
    const std::string bytes = read_bytes(weights);
    std::filesystem::rename(weights, weights + ".old");
    EXPECT_FAILS(NL_ERROR_NOT_FOUND, "model.safetensors", save(chunk.get(), folder.file("chunk")));
    std::ofstream(weights, std::ios::binary) << bytes;
    EXPECT_FAILS(NL_ERROR_IO, "is not the file any more", save(chunk.get(), folder.file("chunk")));
    std::filesystem::rename(weights + ".old", weights);
    NL_CHECK(save(chunk.get(), folder.file("chunk")));
}

TEST(Saving, ArgumentsAreChecked) {
    const TinyModel model;
    const EngineHandle engine = make_engine(model);
    const ChunkHandle chunk = make_chunk(engine.get(), some_tokens(5));
    const CacheHandle cache = make_cache(engine.get());
    nl_chunk* no_chunk = nullptr;
    nl_cache* no_cache = nullptr;
    EXPECT_INVALID("chunk is NULL", nl_chunk_save(nullptr, "x", 1));
    EXPECT_INVALID("path is NULL", nl_chunk_save(chunk.get(), nullptr, 1));
    EXPECT_INVALID("path_length is 0", nl_chunk_save(chunk.get(), "x", 0));
    EXPECT_INVALID("engine is NULL", nl_chunk_load(nullptr, "x", 1, &no_chunk));
    EXPECT_INVALID("chunk is NULL", nl_chunk_load(engine.get(), "x", 1, nullptr));
    EXPECT_INVALID("path is NULL", nl_chunk_load(engine.get(), nullptr, 1, &no_chunk));
    EXPECT_INVALID("cache is NULL", nl_cache_save(nullptr, "x", 1));
    EXPECT_INVALID("path holds a zero byte", nl_cache_save(cache.get(), "x\0y", 3));
    EXPECT_INVALID("engine is NULL", nl_cache_load(nullptr, "x", 1, &no_cache));
    EXPECT_INVALID("cache is NULL", nl_cache_load(engine.get(), "x", 1, nullptr));
}

}  // namespace
}  // namespace nanolith::test
