// Chunks that outlive their pages: in the host's memory, and in a folder that engines and processes share.
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "abi/store_fixtures.h"
#include "support/killed_child.h"

namespace nanolith::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

Json tiers_of(const nl_engine* engine) {
    char text[8192];
    size_t length = 0;
    EXPECT_EQ(nl_engine_describe(engine, text, sizeof text, &length), NL_OK) << nl_last_error();
    return Json::parse(std::string(text, length)).at("tiers");
}

std::vector<fs::path> files_of(const std::string& folder, const std::string& ending) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder))
        if (entry.path().extension() == ending) files.push_back(entry.path());
    return files;
}
size_t num_chunk_files(const std::string& folder) {
    return files_of(folder, ".chunk").size();
}

void flip_a_byte(const fs::path& path, uintmax_t at) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(static_cast<std::streamoff>(at));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(byte ^ 1));
    ASSERT_TRUE(file.flush());
}

TEST(StoreFolder, ALaterEngineComputesNothing) {
    const TinyModel model;
    const TempFolder folder;
    const std::string inside = folder.file("made/../store");  // made where there is none, also under another name
    fs::create_directory(folder.file("made"));
    Tokens alone;
    Tokens behind;
    {
        const EngineHandle engine = make_store_engine(model.path(), {.folder = inside});
        const ChunkHandle first = make_chunk(engine.get(), some_tokens(40, 1), 0);
        const ChunkHandle second = make_chunk(engine.get(), some_tokens(33, 2), 1, {first.get()});
        alone = answer(engine.get(), first.get());
        behind = answer(engine.get(), second.get());
        EXPECT_EQ(fact(first.get(), NL_CHUNK_ORIGIN), NL_ORIGIN_COMPUTED);
        EXPECT_EQ(fact(engine.get(), NL_ENGINE_MISSES), 2);
        EXPECT_EQ(fact(engine.get(), NL_ENGINE_TOKENS_COMPUTED), 73);
    }
    EXPECT_EQ(num_chunk_files(folder.file("store")), 2U);
    const EngineHandle engine = make_store_engine(model.path(), {.folder = folder.file("store") + "//"});
    EXPECT_EQ(fact(engine.get(), NL_ENGINE_FILE_CHUNKS), 2);
    const ChunkHandle first = make_chunk(engine.get(), some_tokens(40, 1), 0);
    const ChunkHandle second = make_chunk(engine.get(), some_tokens(33, 2), 1, {first.get()});
    EXPECT_EQ(fact(first.get(), NL_CHUNK_TOKENS_COMPUTED), 0);
    EXPECT_EQ(fact(second.get(), NL_CHUNK_TOKENS_COMPUTED), 0);
    EXPECT_EQ(fact(second.get(), NL_CHUNK_ORIGIN), NL_ORIGIN_FILE);
    EXPECT_EQ(answer(engine.get(), first.get()), alone);
    EXPECT_EQ(answer(engine.get(), second.get()), behind);
    const ChunkHandle again = make_chunk(engine.get(), some_tokens(40, 1), 0);
    EXPECT_EQ(fact(again.get(), NL_CHUNK_ORIGIN), NL_ORIGIN_DEVICE);
    EXPECT_EQ(fact(engine.get(), NL_ENGINE_FILE_HITS), 2);
    EXPECT_EQ(fact(engine.get(), NL_ENGINE_HITS), 1);
    EXPECT_EQ(fact(engine.get(), NL_ENGINE_MISSES), 0);
    EXPECT_EQ(fact(engine.get(), NL_ENGINE_TOKENS_REUSED), 113);
    // The same tokens after others are another chunk.
    const ChunkHandle other = make_chunk(engine.get(), some_tokens(33, 2), 1);
    EXPECT_EQ(fact(other.get(), NL_CHUNK_TOKENS_COMPUTED), 33);
}

// Also versions that exact composition makes, which nobody asked for by a prefill of their own.
TEST(StoreFolder, CompositionsAreKept) {
    const TinyModel model;
    const TempFolder folder;
    Tokens drawn;
    {
        const EngineHandle engine = make_store_engine(model.path(), {.folder = folder.path()});
        const ChunkHandle a = make_chunk(engine.get(), some_tokens(20, 1));
        const ChunkHandle b = make_chunk(engine.get(), some_tokens(20, 2));
        const CacheHandle cache = make_cache(engine.get(), {a.get(), b.get()}, NL_COMPOSE_EXACT);
        EXPECT_EQ(fact(cache.get(), NL_CACHE_TOKENS_COMPUTED), 20);
        extend(cache.get(), some_tokens(3));
        drawn = decode(cache.get(), 8);
    }
    const EngineHandle engine = make_store_engine(model.path(), {.folder = folder.path()});
    const ChunkHandle a = make_chunk(engine.get(), some_tokens(20, 1));
    const ChunkHandle b = make_chunk(engine.get(), some_tokens(20, 2));
    const CacheHandle cache = make_cache(engine.get(), {a.get(), b.get()}, NL_COMPOSE_EXACT);
    EXPECT_EQ(fact(cache.get(), NL_CACHE_TOKENS_COMPUTED), 0);
    extend(cache.get(), some_tokens(3));
    EXPECT_EQ(decode(cache.get(), 8), drawn);
}

// A chunk that was evicted is read again, by the same engine, and by another one that was there before it was written.
TEST(StoreFolder, EvictedChunksComeBack) {
    const TinyModel model;
    const TempFolder folder;
    const EngineHandle early = make_store_engine(model.path(), {.folder = folder.path()});
    const EngineHandle engine = make_store_engine(model.path(), {.folder = folder.path(), .num_pages = 8});
    const Tokens expected = answer(engine.get(), make_chunk(engine.get(), some_tokens(60, 1)).get());
    for (int tries = 0; num_chunk_files(folder.path()) < 1 && tries < 500; ++tries)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    for (int i = 2; i < 5; ++i) make_chunk(engine.get(), some_tokens(60, i));
    EXPECT_GT(fact(engine.get(), NL_ENGINE_EVICTIONS), 0);
    for (nl_engine* const reader : {engine.get(), early.get()}) {
        const ChunkHandle back = make_chunk(reader, some_tokens(60, 1));
        EXPECT_EQ(fact(back.get(), NL_CHUNK_ORIGIN), NL_ORIGIN_FILE);
        EXPECT_EQ(answer(reader, back.get()), expected);
    }
}

TEST(StoreFolder, DamagedFilesAreRemovedAndComputedAgain) {
    const TinyModel model;
    TinyModelShape shape;
    shape.seed = 2;
    const TinyModel other_model(shape);
    const TempFolder folder;
    constexpr int kChunks = 6;
    std::vector<Tokens> expected;
    {
        const EngineHandle engine = make_store_engine(model.path(), {.folder = folder.path()});
        for (int i = 0; i < kChunks; ++i)
            expected.push_back(answer(engine.get(), make_chunk(engine.get(), some_tokens(40, i)).get()));
    }
    auto files = files_of(folder.path(), ".chunk");
    ASSERT_EQ(files.size(), static_cast<size_t>(kChunks));
    flip_a_byte(files[0], fs::file_size(files[0]) / 2);  // a page
    flip_a_byte(files[1], 60);                           // the header
    fs::resize_file(files[2], fs::file_size(files[2]) - 1);
    fs::resize_file(files[3], 100);
    fs::remove(files[4]);
    fs::create_directory(files[4]);
    fs::copy_file(files[5], folder.file(std::string(64, 'a') + ".chunk"));
    folder.write("a file of somebody", "x");
    folder.write(".nanolith-1-2-3-0", "a writer that has died");
    Warnings warnings;
    {
        const EngineHandle engine = make_store_engine(model.path(), {.folder = folder.path(), .warnings = &warnings});
        int64_t read = 0;
        for (int i = 0; i < kChunks; ++i) {
            const ChunkHandle chunk = make_chunk(engine.get(), some_tokens(40, i));
            if (fact(chunk.get(), NL_CHUNK_ORIGIN) == NL_ORIGIN_FILE) ++read;
            EXPECT_EQ(answer(engine.get(), chunk.get()), expected[static_cast<size_t>(i)]);
        }
        EXPECT_EQ(read, 1);
    }
    EXPECT_TRUE(warnings.has("is damaged or could not be read")) << warnings.text;
    EXPECT_TRUE(warnings.has("its header is damaged")) << warnings.text;
    EXPECT_TRUE(warnings.has("its end is missing")) << warnings.text;
    EXPECT_TRUE(warnings.has("it has only 100 bytes")) << warnings.text;
    EXPECT_TRUE(warnings.has("is not a regular file")) << warnings.text;
    EXPECT_TRUE(warnings.has("its writer has died")) << warnings.text;
    EXPECT_TRUE(fs::exists(folder.file("a file of somebody")));
    EXPECT_FALSE(fs::exists(folder.file(".nanolith-1-2-3-0")));
    // All but the one whose place a folder has are whole again; another model finds none of them.
    warnings.text.clear();
    const EngineHandle engine = make_store_engine(model.path(), {.folder = folder.path(), .warnings = &warnings});
    for (int i = 0; i < kChunks; ++i) make_chunk(engine.get(), some_tokens(40, i));
    EXPECT_EQ(fact(engine.get(), NL_ENGINE_FILE_HITS), kChunks - 1);
    const EngineHandle other = make_store_engine(other_model.path(), {.folder = folder.path()});
    EXPECT_EQ(fact(make_chunk(other.get(), some_tokens(40, 1)).get(), NL_CHUNK_TOKENS_COMPUTED), 40);
}

// A folder that can't be made, and a disk that is full, cost what would have been kept, and no answer.
TEST(StoreFolder, TroubleWithTheDiskCostsNoAnswer) {
    const TinyModel model;
    const TempFolder folder;
    folder.write("file", "x");
    const EngineHandle plain = make_engine(model);
    const Tokens expected = answer(plain.get(), make_chunk(plain.get(), some_tokens(40, 1)).get());
    Warnings warnings;
    {
        const EngineHandle engine =
            make_store_engine(model.path(), {.folder = folder.file("file"), .warnings = &warnings});
        EXPECT_EQ(answer(engine.get(), make_chunk(engine.get(), some_tokens(40, 1)).get()), expected);
    }
    EXPECT_TRUE(warnings.has("no chunks are kept in files")) << warnings.text;
    rlimit old{};
    ::getrlimit(RLIMIT_FSIZE, &old);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit few{5000, old.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &few);
    {
        const EngineHandle engine =
            make_store_engine(model.path(), {.folder = folder.file("store"), .warnings = &warnings});
        EXPECT_EQ(answer(engine.get(), make_chunk(engine.get(), some_tokens(40, 1)).get()), expected);
        make_chunk(engine.get(), some_tokens(40, 2));
    }
    ::setrlimit(RLIMIT_FSIZE, &old);
    std::signal(SIGXFSZ, handler);
    EXPECT_TRUE(warnings.has("a chunk was not kept in a file")) << warnings.text;
    EXPECT_EQ(num_chunk_files(folder.file("store")), 0U);
    for (const auto& entry : fs::directory_iterator(folder.file("store")))
        EXPECT_EQ(entry.path().filename(), "weights.digests");
}

TEST(StoreFolder, KeepsToItsSize) {
    const TinyModel model;
    const TempFolder folder;
    uintmax_t bytes = 0;
    {
        const EngineHandle engine = make_store_engine(model.path(), {.folder = folder.path()});
        for (int i = 0; i < 4; ++i) {
            make_chunk(engine.get(), some_tokens(40, i));
            // Written one after the other, so that their order is known.
            for (int tries = 0; num_chunk_files(folder.path()) < static_cast<size_t>(i + 1) && tries < 500; ++tries)
                std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        bytes = fs::file_size(files_of(folder.path(), ".chunk")[0]);
    }
    {
        const EngineHandle engine = make_store_engine(model.path(), {.folder = folder.path()});
        make_chunk(engine.get(), some_tokens(40, 0));  // used later than the others
    }
    {
        const EngineHandle engine =
            make_store_engine(model.path(), {.folder = folder.path(), .store_bytes = static_cast<int64_t>(3 * bytes)});
        EXPECT_EQ(fact(engine.get(), NL_ENGINE_FILE_CHUNKS), 3);
        make_chunk(engine.get(), some_tokens(40, 9));
    }
    EXPECT_EQ(num_chunk_files(folder.path()), 3U);
    const EngineHandle engine = make_store_engine(model.path(), {.folder = folder.path()});
    for (const int kept : {0, 9, 3})
        EXPECT_EQ(fact(make_chunk(engine.get(), some_tokens(40, kept)).get(), NL_CHUNK_TOKENS_COMPUTED), 0) << kept;
    const EngineHandle small = make_store_engine(
        model.path(), {.folder = folder.file("small"), .store_bytes = static_cast<int64_t>(bytes / 2)});
    make_chunk(small.get(), some_tokens(40, 0));
    EXPECT_EQ(fact(small.get(), NL_ENGINE_FILE_CHUNKS), 0);
}

// A process that is killed while it opens the folder and writes leaves whole chunks alone, and the next engine takes
// away what is not. Rounds begin with the folder as the last one left it, with a part of its files, or with none.
TEST(StoreFolder, KilledWritersLeaveWholeChunks) {
    if (test_device() != "cpu") GTEST_SKIP() << "the writers are forked, which CUDA does not outlive";
    constexpr int kChunks = 12;
    const TinyModel model;
    const TempFolder folder;
    const auto tokens = [](int i) { return some_tokens(10 + 5 * i, i); };
    const auto write_all = [&](const std::function<void()>& begin) {
        begin();
        const EngineHandle engine = make_store_engine(model.path(), {.folder = folder.path()});
        for (int i = 0; i < kChunks; ++i) make_chunk(engine.get(), tokens(i));
    };
    std::vector<Tokens> expected;
    for (int i = 0; i < kChunks; ++i) {
        const EngineHandle plain = make_engine(model);
        expected.push_back(answer(plain.get(), make_chunk(plain.get(), tokens(i)).get()));
    }
    const auto whole_life = KilledChild(write_all).live();
    const uint32_t seed = std::random_device{}();
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    int64_t found = 0;
    int64_t missing = 0;
    for (int round = num_kills(30); round > 0 && !HasFailure(); --round) {
        const uint32_t kept = random() % 3;
        for (const auto& entry : fs::directory_iterator(folder.path()))
            if (kept == 0 || (kept == 1 && random() % 2 == 0)) fs::remove(entry.path());
        KilledChild(write_all).kill_within(whole_life, random);
        Warnings warnings;
        const EngineHandle engine = make_store_engine(model.path(), {.folder = folder.path(), .warnings = &warnings});
        for (const auto& entry : fs::directory_iterator(folder.path())) {
            const std::string name = entry.path().filename().string();
            EXPECT_TRUE(name == "weights.digests" || name.ends_with(".chunk")) << name;
        }
        const std::vector<fs::path> written = files_of(folder.path(), ".chunk");
        const EngineHandle reader = make_engine(model);
        for (const auto& path : written) {
            nl_chunk* chunk = nullptr;
            EXPECT_EQ(nl_chunk_load(reader.get(), path.c_str(), path.native().size(), &chunk), NL_OK)
                << nl_last_error();
            nl_chunk_free(chunk);
        }
        for (int i = 0; i < kChunks; ++i) {
            const ChunkHandle chunk = make_chunk(engine.get(), tokens(i));
            if (fact(chunk.get(), NL_CHUNK_ORIGIN) != NL_ORIGIN_FILE) continue;
            EXPECT_EQ(answer(engine.get(), chunk.get()), expected[static_cast<size_t>(i)]);
        }
        EXPECT_FALSE(warnings.has("damaged")) << warnings.text;
        found += fact(engine.get(), NL_ENGINE_FILE_HITS);
        missing += kChunks - static_cast<int64_t>(written.size());
    }
    EXPECT_GT(found, 0);
    EXPECT_GT(missing, 0);
}

TEST(HostMemory, EvictedChunksComeBack) {
    const TinyModel model;
    const EngineHandle plain = make_engine(model);
    const EngineHandle engine = make_store_engine(model.path(), {.num_pages = 10, .host_bytes = 1 << 20});
    std::vector<Tokens> expected;
    for (int i = 0; i < 5; ++i) {
        expected.push_back(answer(plain.get(), make_chunk(plain.get(), some_tokens(70, i)).get()));
        make_chunk(engine.get(), some_tokens(70, i));
    }
    EXPECT_EQ(fact(engine.get(), NL_ENGINE_EVICTIONS), 3);
    EXPECT_EQ(fact(engine.get(), NL_ENGINE_HOST_CHUNKS), 3);
    EXPECT_EQ(fact(engine.get(), NL_ENGINE_HOST_BYTES), 3 * 5 * fact(engine.get(), NL_ENGINE_PAGE_BYTES));
    // Forwards and back, with pages that always belonged to another one in between.
    for (const int i : {0, 1, 2, 3, 4, 3, 2, 1, 0}) {
        SCOPED_TRACE(i);
        const ChunkHandle chunk = make_chunk(engine.get(), some_tokens(70, i));
        EXPECT_EQ(fact(chunk.get(), NL_CHUNK_TOKENS_COMPUTED), 0);
        const CacheHandle cache = make_cache(engine.get(), {chunk.get()});
        EXPECT_EQ(answer(engine.get(), chunk.get()), expected[static_cast<size_t>(i)]);
    }
    EXPECT_EQ(fact(engine.get(), NL_ENGINE_MISSES), 5);
    EXPECT_GT(fact(engine.get(), NL_ENGINE_HOST_HITS), 4);
}

// Evicted by a conversation that grows, while it decodes.
// What moves between tiers is counted where it arrives, and the tiers' chunks by their levels.
TEST(StoreNumbers, EachTierTellsItsOwn) {
    const TinyModel model;
    const TempFolder folder;
    const EngineHandle engine =
        make_store_engine(model.path(), {.folder = folder.path(), .num_pages = 10, .host_bytes = 1 << 20});
    const int64_t chunk_bytes = 5 * fact(engine.get(), NL_ENGINE_PAGE_BYTES);  // 70 tokens in pages of 16
    EXPECT_EQ(fact(engine.get(), NL_ENGINE_CHUNK_BYTES), 0);
    EXPECT_EQ(fact(engine.get(), NL_ENGINE_SAVED_MS), 0);
    for (int i = 0; i < 5; ++i) {
        make_chunk(engine.get(), some_tokens(70, i), i == 0 ? NL_LEVEL_CONTEXT : NL_LEVEL_QUERY);
        // A chunk that is evicted before it is written would not be.
        for (int tries = 0; fact(engine.get(), NL_ENGINE_FILE_MOVES) <= i && tries < 500; ++tries)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_EQ(fact(engine.get(), NL_ENGINE_FILE_MOVES), 5);
    EXPECT_EQ(fact(engine.get(), NL_ENGINE_HOST_MOVES), 3);  // the device has room for two
    EXPECT_EQ(fact(engine.get(), NL_ENGINE_DEVICE_MOVES), 0);
    EXPECT_EQ(fact(engine.get(), NL_ENGINE_SERVER_MOVES), 0);
    EXPECT_EQ(fact(engine.get(), NL_ENGINE_CHUNK_BYTES), 2 * chunk_bytes);
    const ChunkHandle back = make_chunk(engine.get(), some_tokens(70, 1), NL_LEVEL_QUERY);
    EXPECT_EQ(fact(back.get(), NL_CHUNK_ORIGIN), NL_ORIGIN_HOST);
    EXPECT_EQ(fact(engine.get(), NL_ENGINE_DEVICE_MOVES), 1);
    EXPECT_EQ(fact(engine.get(), NL_ENGINE_HOST_MOVES), 4);  // which had to make room
    const Json tiers = tiers_of(engine.get());
    ASSERT_EQ(tiers.size(), 3U);
    const auto level = [&](int64_t number, int64_t chunks) {
        return Json{{"level", number}, {"chunks", chunks}, {"bytes", chunks * chunk_bytes}};
    };
    const Json device = {
        {"tier", "device"}, {"chunks", 2}, {"bytes", 2 * chunk_bytes},
        {"hits", 0},        {"moves", 1},  {"levels", Json::array({level(0, 0), level(1, 1), level(2, 1)})}};
    EXPECT_EQ(tiers[0], device);
    // The copy of a chunk that came back stays there.
    const Json host = {
        {"tier", "host"}, {"chunks", 4}, {"bytes", 4 * chunk_bytes},
        {"hits", 1},      {"moves", 4},  {"levels", Json::array({level(0, 0), level(1, 0), level(2, 4)})}};
    EXPECT_EQ(tiers[1], host);
    const Json files = {{"tier", "files"},
                        {"chunks", 5},
                        {"bytes", fact(engine.get(), NL_ENGINE_FILE_BYTES)},
                        {"hits", 0},
                        {"moves", 5}};
    EXPECT_EQ(tiers[2], files);
}

// Of an engine that knows how long it computes. What is found on the device comes at no cost.
TEST(StoreNumbers, TimeSaved) {
    const TinyModel model;
    const EngineHandle engine = make_store_engine(model.path(), {});
    const auto begin = std::chrono::steady_clock::now();
    const ChunkHandle chunk = make_chunk(engine.get(), some_tokens(200, 1));
    const auto took = std::chrono::ceil<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin).count();
    EXPECT_EQ(fact(engine.get(), NL_ENGINE_SAVED_MS), 0);
    constexpr int64_t kTimes = 50;
    for (int64_t i = 0; i < kTimes; ++i) make_chunk(engine.get(), some_tokens(200, 1));
    const int64_t saved = fact(engine.get(), NL_ENGINE_SAVED_MS);
    EXPECT_GT(saved, 0);
    EXPECT_LE(saved, kTimes * took);
    const CacheHandle cache = make_cache(engine.get(), {chunk.get(), chunk.get()});
    EXPECT_EQ(fact(cache.get(), NL_CACHE_CHUNK_TOKENS_REUSED), 400);
    EXPECT_NEAR(static_cast<double>(fact(cache.get(), NL_CACHE_SAVED_MS)), 2.0 * static_cast<double>(saved) / kTimes,
                1.0);  // both are rounded
    extend(cache.get(), some_tokens(3, 8));
    nl_cache* forked = nullptr;
    NL_CHECK(nl_cache_fork(cache.get(), &forked));
    const CacheHandle fork(forked);
    EXPECT_EQ(fact(fork.get(), NL_CACHE_TOKENS_REUSED), 403);
    EXPECT_EQ(fact(fork.get(), NL_CACHE_CHUNK_TOKENS_REUSED), 400);
    // With exact composition a version that is computed for the cache is not reused.
    const ChunkHandle other = make_chunk(engine.get(), some_tokens(30, 2));
    const CacheHandle exact = make_cache(engine.get(), {chunk.get(), other.get()}, NL_COMPOSE_EXACT);
    EXPECT_EQ(fact(exact.get(), NL_CACHE_CHUNK_TOKENS_REUSED), 200);
}

TEST(HostMemory, ConversationsPushChunksDown) {
    const TinyModel model;
    const EngineHandle plain = make_engine(model);
    const EngineHandle engine = make_store_engine(model.path(), {.num_pages = 10, .host_bytes = 1 << 20});
    const Tokens expected = answer(plain.get(), make_chunk(plain.get(), some_tokens(70, 1)).get());
    make_chunk(engine.get(), some_tokens(70, 1));
    const CacheHandle others[2] = {make_cache(plain.get()), make_cache(engine.get())};
    for (const auto& cache : others) extend(cache.get(), some_tokens(40, 5));
    EXPECT_EQ(decode(others[1].get(), 60), decode(others[0].get(), 60));
    EXPECT_EQ(fact(engine.get(), NL_ENGINE_EVICTIONS), 1);
    NL_CHECK(nl_cache_truncate(others[1].get(), 10));
    const ChunkHandle back = make_chunk(engine.get(), some_tokens(70, 1));
    EXPECT_EQ(fact(back.get(), NL_CHUNK_ORIGIN), NL_ORIGIN_HOST);
    EXPECT_EQ(answer(engine.get(), back.get()), expected);
}

TEST(HostMemory, KeepsToItsSize) {
    const TinyModel model;
    const int64_t page_bytes = fact(make_engine(model).get(), NL_ENGINE_PAGE_BYTES);
    const EngineHandle engine = make_store_engine(model.path(), {.num_pages = 5, .host_bytes = 10 * page_bytes + 1});
    for (int i = 0; i < 6; ++i) make_chunk(engine.get(), some_tokens(70, i));
    EXPECT_EQ(fact(engine.get(), NL_ENGINE_HOST_CHUNKS), 2);
    EXPECT_EQ(fact(make_chunk(engine.get(), some_tokens(70, 0)).get(), NL_CHUNK_TOKENS_COMPUTED), 70);
    // Of five pages each; the device has the first, memory the two before it.
    EXPECT_EQ(fact(make_chunk(engine.get(), some_tokens(70, 5)).get(), NL_CHUNK_ORIGIN), NL_ORIGIN_HOST);
    const EngineHandle none = make_store_engine(model.path(), {.num_pages = 5, .host_bytes = page_bytes});
    for (int i = 0; i < 3; ++i) make_chunk(none.get(), some_tokens(70, i));
    EXPECT_EQ(fact(none.get(), NL_ENGINE_HOST_CHUNKS), 0);
}

// Threads that want chunks which push each other out, through memory and files.
TEST(HostMemory, ThreadsShareTheTiers) {
    const TinyModel model;
    const TempFolder folder;
    const EngineHandle plain = make_engine(model);
    std::vector<Tokens> expected;
    for (int i = 0; i < 6; ++i)
        expected.push_back(answer(plain.get(), make_chunk(plain.get(), some_tokens(70, i)).get()));
    const int64_t page_bytes = fact(plain.get(), NL_ENGINE_PAGE_BYTES);
    const EngineHandle engine =
        make_store_engine(model.path(), {.folder = folder.path(), .num_pages = 30, .host_bytes = 10 * page_bytes});
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            std::mt19937 random(static_cast<unsigned>(t));
            for (int round = 0; round < 25; ++round) {
                const auto i = static_cast<size_t>(random() % 6);
                const ChunkHandle chunk = make_chunk(engine.get(), some_tokens(70, static_cast<int>(i)));
                EXPECT_EQ(answer(engine.get(), chunk.get()), expected[i]);
            }
        });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(spare_pages(engine.get()), fact(engine.get(), NL_ENGINE_PAGES_TOTAL));
}

}  // namespace
}  // namespace nanolith::test
