// Tenants: the same tokens are computed and kept for each of them, and nothing tells one what another has.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "abi/store_fixtures.h"

namespace nanolith::test {
namespace {

EngineHandle tenant_of(const nl_engine* engine, const std::string& salt) {
    nl_engine* tenant = nullptr;
    EXPECT_EQ(nl_engine_tenant(engine, salt.data(), salt.size(), &tenant), NL_OK) << nl_last_error();
    return EngineHandle(tenant);
}

class TenantTest : public ::testing::Test {
  protected:
    const TinyModel model;
    const TempFolder folder;
    const EngineHandle engine = make_store_engine(model.path(), {.folder = {}, .num_pages = 128});
    const EngineHandle a = tenant_of(engine.get(), "a");
    const EngineHandle b = tenant_of(engine.get(), "b");
};

TEST_F(TenantTest, ChunksAreTheirOwn) {
    const ChunkHandle of_a = make_chunk(a.get(), some_tokens(40, 1));
    const ChunkHandle of_b = make_chunk(b.get(), some_tokens(40, 1));
    const ChunkHandle of_none = make_chunk(engine.get(), some_tokens(40, 1));
    for (const auto* chunk : {&of_a, &of_b, &of_none}) {
        EXPECT_EQ(fact(chunk->get(), NL_CHUNK_TOKENS_COMPUTED), 40);
        EXPECT_EQ(fact(chunk->get(), NL_CHUNK_USERS), 1);
    }
    // Another handle with the same salt is the same tenant.
    const EngineHandle again = tenant_of(b.get(), "a");
    const ChunkHandle found = make_chunk(again.get(), some_tokens(40, 1));
    EXPECT_EQ(fact(found.get(), NL_CHUNK_TOKENS_COMPUTED), 0);
    EXPECT_EQ(fact(again.get(), NL_ENGINE_CHUNKS), 1);
    EXPECT_EQ(fact(again.get(), NL_ENGINE_HITS), 1);
    EXPECT_EQ(fact(again.get(), NL_ENGINE_MISSES), 1);
    EXPECT_EQ(fact(again.get(), NL_ENGINE_TOKENS_REUSED), 40);
    EXPECT_EQ(fact(b.get(), NL_ENGINE_HITS), 0);
    EXPECT_EQ(fact(b.get(), NL_ENGINE_TOKENS_COMPUTED), 40);
    EXPECT_EQ(fact(engine.get(), NL_ENGINE_CHUNKS), 3);
    EXPECT_EQ(fact(engine.get(), NL_ENGINE_HITS), 1);
    EXPECT_EQ(fact(engine.get(), NL_ENGINE_MISSES), 3);
}

TEST_F(TenantTest, OthersChunksAreRefused) {
    const ChunkHandle of_a = make_chunk(a.get(), some_tokens(20, 1));
    const ChunkHandle shared = make_chunk(engine.get(), some_tokens(20, 2), 0);
    const nl_chunk* const both[] = {shared.get(), of_a.get()};
    const Tokens tokens = some_tokens(5);
    nl_cache* cache = nullptr;
    nl_chunk* chunk = nullptr;
    for (nl_engine* other : {b.get(), engine.get()}) {
        EXPECT_INVALID("chunks[1] is of another tenant", nl_cache_create(other, nullptr, both, 2, &cache));
        EXPECT_INVALID("before[1] is of another tenant", nl_chunk_prefill(other, tokens.data(), 5, 1, both, 2, &chunk));
    }
    EXPECT_EQ(cache, nullptr);
    EXPECT_EQ(chunk, nullptr);
    const CacheHandle own = make_cache(a.get(), {shared.get(), of_a.get()});
    EXPECT_EQ(fact(own.get(), NL_CACHE_TOKENS_REUSED), 40);
}

TEST_F(TenantTest, ArgumentsAreChecked) {
    nl_engine* out = nullptr;
    const std::string long_salt(4097, 'x');
    EXPECT_INVALID("engine", nl_engine_tenant(nullptr, "a", 1, &out));
    EXPECT_INVALID("salt", nl_engine_tenant(engine.get(), nullptr, 1, &out));
    EXPECT_INVALID("salt_length is 0", nl_engine_tenant(engine.get(), "", 0, &out));
    EXPECT_INVALID("salt_length is 4097", nl_engine_tenant(engine.get(), long_salt.data(), long_salt.size(), &out));
    EXPECT_INVALID("tenant", nl_engine_tenant(engine.get(), "a", 1, nullptr));
    EXPECT_EQ(out, nullptr);
    const EngineHandle longest = tenant_of(engine.get(), long_salt.substr(1));
    const EngineHandle zero = tenant_of(engine.get(), std::string("\0", 1));
    make_chunk(longest.get(), some_tokens(5));
    EXPECT_EQ(fact(make_chunk(zero.get(), some_tokens(5)).get(), NL_CHUNK_TOKENS_COMPUTED), 5);
}

TEST_F(TenantTest, BeginningsAreTheirOwn) {
    std::vector<CacheHandle> living;  // so that their pages are remembered
    const auto reused = [&](nl_engine* of) {
        living.push_back(make_cache(of));
        extend(living.back().get(), some_tokens(40, 1));
        return fact(living.back().get(), NL_CACHE_TOKENS_REUSED);
    };
    EXPECT_EQ(reused(a.get()), 0);
    EXPECT_EQ(reused(b.get()), 0);
    EXPECT_EQ(reused(engine.get()), 0);
    EXPECT_EQ(reused(b.get()), 32);
    const ChunkHandle shared = make_chunk(engine.get(), some_tokens(20, 2), 0);
    const auto behind = [&](nl_engine* of) {
        living.push_back(make_cache(of, {shared.get()}));
        extend(living.back().get(), some_tokens(40, 1));
        return fact(living.back().get(), NL_CACHE_TOKENS_REUSED) - 20;
    };
    EXPECT_EQ(behind(a.get()), 0);
    EXPECT_EQ(behind(b.get()), 0);
    EXPECT_EQ(behind(a.get()), 32);
}

// What composing the engine's own chunks computes would tell how another tenant combined them.
TEST_F(TenantTest, CompositionsAreTheirOwn) {
    const ChunkHandle first = make_chunk(engine.get(), some_tokens(90, 1));
    const ChunkHandle second = make_chunk(engine.get(), some_tokens(90, 2));
    const ChunkHandle behind = make_chunk(engine.get(), some_tokens(30, 3), 1, {first.get()});
    const auto computed = [&](nl_engine* of) {
        const CacheHandle cache = make_cache(of, {first.get(), second.get()}, NL_COMPOSE_EXACT);
        return fact(cache.get(), NL_CACHE_TOKENS_COMPUTED);
    };
    EXPECT_EQ(computed(a.get()), 90);
    EXPECT_EQ(computed(b.get()), 90);
    EXPECT_EQ(computed(b.get()), 0);
    EXPECT_EQ(computed(engine.get()), 90);
    // A chunk that fits as it is needs no version of the tenant's.
    const CacheHandle fits = make_cache(b.get(), {first.get(), behind.get()}, NL_COMPOSE_EXACT);
    EXPECT_EQ(fact(fits.get(), NL_CACHE_TOKENS_COMPUTED), 0);

    const auto blended = [&](nl_engine* of) {
        const CacheHandle cache = make_blend(of, {first.get(), second.get()}, 0.5);
        extend(cache.get(), some_tokens(8, 4));
        return fact(cache.get(), NL_CACHE_TOKENS_BLENDED);
    };
    const int64_t recomputed = blended(a.get());
    EXPECT_GT(recomputed, 0);
    EXPECT_EQ(blended(b.get()), recomputed);
    EXPECT_EQ(blended(b.get()), 0);
}

TEST_F(TenantTest, DescribesWhatIsTheirOwn) {
    const ChunkHandle of_a = make_chunk(a.get(), some_tokens(40, 1));
    const ChunkHandle more = make_chunk(a.get(), some_tokens(20, 2), 2);
    const ChunkHandle of_b = make_chunk(b.get(), some_tokens(40, 1));
    const auto chunks = [](const nl_engine* of) {
        char text[8192];
        size_t length = 0;
        EXPECT_EQ(nl_engine_describe(of, text, sizeof text, &length), NL_OK) << nl_last_error();
        const auto facts = nlohmann::json::parse(std::string(text, length));
        const auto& device = facts.at("tiers").at(0);
        EXPECT_EQ(device.at("bytes"), facts.at("chunk_bytes"));
        EXPECT_EQ(device.at("chunks"), facts.at("chunks"));
        return std::vector<int64_t>{facts.at("chunks"), device.at("levels").at(1).at("chunks"),
                                    device.at("levels").at(2).at("chunks")};
    };
    EXPECT_EQ(chunks(a.get()), (std::vector<int64_t>{2, 1, 1}));
    EXPECT_EQ(chunks(b.get()), (std::vector<int64_t>{1, 1, 0}));
    EXPECT_EQ(chunks(engine.get()), (std::vector<int64_t>{3, 2, 1}));
    size_t length = 0;
    EXPECT_EQ(nl_engine_metrics(a.get(), nullptr, 0, &length), NL_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(nl_last_error()).find("tenant"), std::string::npos) << nl_last_error();
    EXPECT_EQ(fact(b.get(), NL_ENGINE_CHUNK_BYTES), fact(of_b.get(), NL_CHUNK_BYTES));
}

// "a" has the SHA-256 ca978112ca1bbdca..., "b" 3e23e8160039594a...
TEST_F(TenantTest, FilesAreTheirOwn) {
    const auto files_of = [&](const std::string& begin) {
        return std::ranges::count_if(std::filesystem::directory_iterator(folder.path()), [&](const auto& entry) {
            const std::string name = entry.path().filename().string();
            return name.starts_with(begin) && name.ends_with(".chunk");
        });
    };
    {
        const EngineHandle writer = make_store_engine(model.path(), {.folder = folder.path()});
        const EngineHandle tenant = tenant_of(writer.get(), "a");
        const ChunkHandle shared = make_chunk(writer.get(), some_tokens(20, 1), 0);
        make_chunk(tenant.get(), some_tokens(40, 2), 1, {shared.get()});
        make_chunk(tenant.get(), some_tokens(20, 1));
    }
    EXPECT_EQ(files_of("ca978112ca1bbdca-"), 2);
    EXPECT_EQ(files_of(""), 3);
    const EngineHandle reader = make_store_engine(model.path(), {.folder = folder.path()});
    const EngineHandle same = tenant_of(reader.get(), "a");
    const EngineHandle other = tenant_of(reader.get(), "b");
    EXPECT_EQ(fact(reader.get(), NL_ENGINE_FILE_CHUNKS), 3);
    EXPECT_EQ(fact(same.get(), NL_ENGINE_FILE_CHUNKS), 2);
    EXPECT_EQ(fact(other.get(), NL_ENGINE_FILE_CHUNKS), 0);
    EXPECT_EQ(fact(other.get(), NL_ENGINE_FILE_BYTES), 0);
    const auto origin = [](nl_engine* of, const Tokens& tokens, const std::vector<const nl_chunk*>& before) {
        return fact(make_chunk(of, tokens, 1, before).get(), NL_CHUNK_ORIGIN);
    };
    const ChunkHandle shared = make_chunk(reader.get(), some_tokens(20, 1), 0);
    EXPECT_EQ(fact(shared.get(), NL_CHUNK_ORIGIN), NL_ORIGIN_FILE);
    EXPECT_EQ(origin(other.get(), some_tokens(40, 2), {shared.get()}), NL_ORIGIN_COMPUTED);
    EXPECT_EQ(origin(other.get(), some_tokens(20, 1), {}), NL_ORIGIN_COMPUTED);
    EXPECT_EQ(origin(reader.get(), some_tokens(40, 2), {shared.get()}), NL_ORIGIN_COMPUTED);
    EXPECT_EQ(origin(same.get(), some_tokens(40, 2), {shared.get()}), NL_ORIGIN_FILE);
    EXPECT_EQ(origin(same.get(), some_tokens(20, 1), {}), NL_ORIGIN_FILE);
}

TEST_F(TenantTest, SavedFilesNeedTheSameSalt) {
    const std::string chunk_path = folder.file("chunk");
    const std::string cache_path = folder.file("cache");
    const ChunkHandle shared = make_chunk(engine.get(), some_tokens(20, 1), 0);
    const ChunkHandle own = make_chunk(a.get(), some_tokens(20, 2), 1, {shared.get()});
    const CacheHandle cache = make_cache(a.get(), {shared.get(), own.get()});
    extend(cache.get(), some_tokens(5, 3));
    NL_CHECK(nl_chunk_save(own.get(), chunk_path.data(), chunk_path.size()));
    NL_CHECK(nl_cache_save(cache.get(), cache_path.data(), cache_path.size()));
    const Tokens drawn = decode(cache.get(), 8);

    const EngineHandle later = make_store_engine(model.path(), {});
    const EngineHandle later_a = tenant_of(later.get(), "a");
    const EngineHandle later_b = tenant_of(later.get(), "b");
    nl_chunk* chunk = nullptr;
    nl_cache* conversation = nullptr;
    for (nl_engine* of : {later.get(), later_b.get()}) {
        EXPECT_FAILS(NL_ERROR_BAD_FILE, "another tenant",
                     nl_chunk_load(of, chunk_path.data(), chunk_path.size(), &chunk));
        EXPECT_FAILS(NL_ERROR_BAD_FILE, "another tenant",
                     nl_cache_load(of, cache_path.data(), cache_path.size(), &conversation));
    }
    EXPECT_EQ(chunk, nullptr);
    EXPECT_EQ(conversation, nullptr);
    NL_CHECK(nl_cache_load(later_a.get(), cache_path.data(), cache_path.size(), &conversation));
    const CacheHandle loaded(conversation);
    EXPECT_EQ(decode(loaded.get(), 8), drawn);
    NL_CHECK(nl_chunk_load(later_a.get(), chunk_path.data(), chunk_path.size(), &chunk));
    const ChunkHandle loaded_chunk(chunk);
    EXPECT_EQ(fact(loaded_chunk.get(), NL_CHUNK_ORIGIN), NL_ORIGIN_DEVICE);  // it came with the conversation
    // The chunk that belongs to nobody came too, and is there for all.
    EXPECT_EQ(fact(make_chunk(later.get(), some_tokens(20, 1), 0).get(), NL_CHUNK_TOKENS_COMPUTED), 0);
}

TEST_F(TenantTest, CancelEndsTheirOwnWork) {
    const auto begin = [&](nl_engine* of, CacheHandle& cache) {
        cache = make_cache(of);
        const Tokens prompt = some_tokens(8, 1);
        nl_generation* made = nullptr;
        EXPECT_EQ(nl_generation_start(cache.get(), prompt.data(), prompt.size(), nullptr, &made), NL_OK);
        return Handle<nl_generation, nl_generation_free>(made);
    };
    const auto end_of = [](nl_generation* generation) {
        int32_t end = NL_END_NONE;
        while (end == NL_END_NONE)
            EXPECT_EQ(nl_generation_next(generation, -1, nullptr, 0, nullptr, nullptr, 0, nullptr, &end), NL_OK);
        return end;
    };
    CacheHandle cache_a;
    CacheHandle cache_b;
    const auto of_a = begin(a.get(), cache_a);
    const auto of_b = begin(b.get(), cache_b);
    NL_CHECK(nl_engine_cancel(a.get()));
    const int32_t end_of_b = end_of(of_b.get());
    EXPECT_NE(end_of_b, NL_END_CANCELLED);
    EXPECT_EQ(end_of(of_a.get()), NL_END_CANCELLED);
}

// Nor do handles need each other.
TEST_F(TenantTest, HandlesOutliveEachOther) {
    EngineHandle first = make_store_engine(model.path(), {});
    EngineHandle tenant = tenant_of(first.get(), "tenant");
    first.reset();
    const ChunkHandle chunk = make_chunk(tenant.get(), some_tokens(20));
    const CacheHandle cache = make_cache(tenant.get(), {chunk.get()});
    tenant.reset();
    extend(cache.get(), some_tokens(3));
    EXPECT_EQ(decode(cache.get(), 3).size(), 3U);
}

// In which order a tenant's chunks go is its own business: another one that uses the same tokens changes nothing.
TEST_F(TenantTest, TheOrderOfEvictionIsTheirOwn) {
    const EngineHandle small = make_store_engine(model.path(), {.folder = {}, .num_pages = 24});
    const EngineHandle first = tenant_of(small.get(), "a");
    const EngineHandle second = tenant_of(small.get(), "b");
    for (const int32_t text : {1, 2, 3}) make_chunk(first.get(), some_tokens(32, text));
    make_chunk(second.get(), some_tokens(32, 1));
    make_chunk(second.get(), some_tokens(32, 1));
    make_chunk(small.get(), some_tokens(20 * 16, 9), 2);  // 16 pages are free: two chunks have to go
    EXPECT_EQ(fact(first.get(), NL_ENGINE_EVICTIONS), 2);
    EXPECT_EQ(fact(second.get(), NL_ENGINE_EVICTIONS), 0);
    EXPECT_EQ(fact(make_chunk(first.get(), some_tokens(32, 3)).get(), NL_CHUNK_TOKENS_COMPUTED), 0);
}

// Times of the same call for texts that another tenant has and for texts that nobody has, in turns: if the first were
// hits, they would be many times shorter.
TEST_F(TenantTest, TimesTellNothingOfOthers) {
    using Clock = std::chrono::steady_clock;
    constexpr int kNumTexts = 40;
    constexpr int kTokens = 96;
    const auto seconds = [](nl_engine* of, int text) {
        const auto begin = Clock::now();
        make_chunk(of, some_tokens(kTokens, text), 2);
        return std::chrono::duration<double>(Clock::now() - begin).count();
    };
    const auto median = [](std::vector<double> times) {
        std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
        return times[times.size() / 2];
    };
    std::vector<double> others;
    std::vector<double> nobodys;
    std::vector<double> hits;
    for (int text = 100; text < 100 + kNumTexts; ++text) {
        const bool other_has_it = text % 2 == 0;
        if (other_has_it) seconds(a.get(), text);
        (other_has_it ? others : nobodys).push_back(seconds(b.get(), text));
        hits.push_back(seconds(b.get(), text));
    }
    EXPECT_LT(median(hits), median(nobodys) / 4);
    EXPECT_GT(median(others), median(nobodys) / 2);
}

}  // namespace
}  // namespace nanolith::test
