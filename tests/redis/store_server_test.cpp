// Engines that share a server: a chunk that one has computed the others read, and a server that is gone, slow, full or
// that gives other bytes costs a computation, never an answer.
#include <hiredis/hiredis.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "store_engines.h"

namespace nanolith::testing {
namespace {

// A connection of the test's own.
class Client {
  public:
    explicit Client(const RedisServer& server) : context_(redisConnectUnix(server.socket().c_str())) {}
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;
    ~Client() { redisFree(context_); }

    template <typename... Arguments>
    std::string run(const char* format, Arguments... arguments) {
        auto* const reply = static_cast<redisReply*>(redisCommand(context_, format, arguments...));
        std::string text = reply->str != nullptr ? std::string(reply->str, reply->len) : std::to_string(reply->integer);
        freeReplyObject(reply);
        return text;
    }
    std::vector<std::string> keys() {
        auto* const reply = static_cast<redisReply*>(redisCommand(context_, "KEYS *"));
        std::vector<std::string> keys;
        for (size_t i = 0; i < reply->elements; ++i) keys.emplace_back(reply->element[i]->str, reply->element[i]->len);
        freeReplyObject(reply);
        std::ranges::sort(keys);
        return keys;
    }

  private:
    redisContext* context_;
};

TEST_F(StoreServer, AnotherEngineComputesNothing) {
    const Tokens drawn = computed_first();
    EXPECT_EQ(Client(server).keys().size(), 3U);  // pages of 16 tokens
    EXPECT_EQ(later(NL_ORIGIN_SERVER), drawn);
}

TEST_F(StoreServer, IsATierAmongTheNumbers) {
    const EngineHandle engine = make_engine_with(model.path(), server.address());
    const ChunkHandle chunk = make_chunk(engine.get(), some_tokens(40, 1));
    for (int tries = 0; fact(engine.get(), NL_ENGINE_SERVER_MOVES) < 1 && tries < 500; ++tries)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(fact(engine.get(), NL_ENGINE_SERVER_MOVES), 1);
    const EngineHandle later = make_engine_with(model.path(), server.address());
    make_chunk(later.get(), some_tokens(40, 1));
    EXPECT_EQ(fact(later.get(), NL_ENGINE_DEVICE_MOVES), 1);
    std::string text(8192, ' ');
    size_t length = 0;
    NL_CHECK(nl_engine_describe(later.get(), text.data(), text.size(), &length));
    EXPECT_NE(text.find(R"(,{"tier":"server","hits":1,"moves":0}]})"), std::string::npos) << text;
}

TEST_F(StoreServer, OtherTokensAndOtherModelsAreOtherChunks) {
    computed_first();
    const EngineHandle engine = make_engine_with(model.path(), server.address());
    const ChunkHandle chunk = make_chunk(engine.get(), some_tokens(40, 2));
    EXPECT_EQ(fact(chunk.get(), NL_CHUNK_ORIGIN), NL_ORIGIN_COMPUTED);
    const TinyModel other({.seed = 99});
    const EngineHandle other_engine = make_engine_with(other.path(), server.address());
    const ChunkHandle same_tokens = make_chunk(other_engine.get(), some_tokens(40, 1));
    EXPECT_EQ(fact(same_tokens.get(), NL_CHUNK_ORIGIN), NL_ORIGIN_COMPUTED);
}

// Keys of a tenant begin with its salt's SHA-256 ("a": ca978112ca1bbdca...), so that they can be found and removed.
TEST_F(StoreServer, TenantsHaveKeysOfTheirOwn) {
    const auto origin = [&](const std::string& salt) {
        const EngineHandle engine = make_engine_with(model.path(), server.address());
        nl_engine* made = nullptr;
        EXPECT_EQ(nl_engine_tenant(engine.get(), salt.data(), salt.size(), &made), NL_OK) << nl_last_error();
        const EngineHandle tenant(made);
        return fact(make_chunk(tenant.get(), some_tokens(40, 1)).get(), NL_CHUNK_ORIGIN);
    };
    EXPECT_EQ(origin("a"), NL_ORIGIN_COMPUTED);
    Client client(server);
    for (const std::string& key : client.keys()) EXPECT_TRUE(key.starts_with("nanolith:2:ca978112ca1bbdca-")) << key;
    EXPECT_EQ(origin("b"), NL_ORIGIN_COMPUTED);
    computed_first();
    EXPECT_EQ(client.keys().size(), 9U);
    EXPECT_EQ(origin("a"), NL_ORIGIN_SERVER);
}

// A flipped bit of every page in turn, of its keys and values or of the checksum; pages that changed places; one that
// is gone or shorter.
TEST_F(StoreServer, OtherBytesAreComputedInstead) {
    const Tokens drawn = computed_first();
    Client client(server);
    const auto keys = client.keys();
    ASSERT_EQ(keys.size(), 3U);
    for (const std::string& key : keys) {
        const int64_t size = std::stoll(client.run("STRLEN %s", key.c_str()));
        for (const int64_t at : {int64_t{0}, size / 2, size - 1}) {
            const auto old = client.run("GETBIT %s %lld", key.c_str(), static_cast<long long>(8 * at));
            client.run("SETBIT %s %lld %d", key.c_str(), static_cast<long long>(8 * at), old == "0" ? 1 : 0);
            EXPECT_EQ(later(NL_ORIGIN_COMPUTED), drawn);  // and stores it again
            EXPECT_EQ(later(NL_ORIGIN_SERVER), drawn);
        }
    }
    client.run("RENAME %s x", keys[0].c_str());
    client.run("RENAME %s %s", keys[1].c_str(), keys[0].c_str());
    client.run("RENAME x %s", keys[1].c_str());
    EXPECT_EQ(later(NL_ORIGIN_COMPUTED), drawn);
    client.run("DEL %s", keys[2].c_str());
    EXPECT_EQ(later(NL_ORIGIN_COMPUTED), drawn);
    client.run("APPEND %s x", keys[1].c_str());
    EXPECT_EQ(later(NL_ORIGIN_COMPUTED), drawn);
    EXPECT_EQ(later(NL_ORIGIN_SERVER), drawn);
}

// A page of more than 512 KiB is stored as several values, here at least three, the first two of the same size. A chunk
// is computed again where a bit of any value is flipped, where two values of one page, or of two pages, have changed
// places, and where one is gone.
TEST_F(StoreServer, LargePagesAreSeveralValues) {
    const TinyModel large({.num_layers = 40, .num_heads = 8, .num_kv_heads = 8, .head_dim = 64});
    const auto answer = [&](int64_t origin) {
        const EngineHandle engine = make_engine_with(large.path(), server.address());
        const ChunkHandle chunk = make_chunk(engine.get(), some_tokens(40, 1));
        EXPECT_EQ(fact(chunk.get(), NL_CHUNK_ORIGIN), origin);
        return answer_behind(engine.get(), chunk.get());
    };
    const Tokens drawn = answer(NL_ORIGIN_COMPUTED);
    EXPECT_EQ(answer(NL_ORIGIN_SERVER), drawn);
    Client client(server);
    const auto keys = client.keys();
    ASSERT_GT(keys.size(), 3U);  // pages of 16 tokens
    EXPECT_EQ(keys.size() % 3, 0U);
    const auto stored = [&] { return client.keys().size() == keys.size() && answer(NL_ORIGIN_SERVER) == drawn; };
    for (const std::string& key : keys) {
        const int64_t size = std::stoll(client.run("STRLEN %s", key.c_str()));
        EXPECT_LE(size, 512 * 1024 + 8);
        const auto bit = static_cast<long long>(8 * (size / 2));
        const auto old = client.run("GETBIT %s %lld", key.c_str(), bit);
        client.run("SETBIT %s %lld %d", key.c_str(), bit, old == "0" ? 1 : 0);
        EXPECT_EQ(answer(NL_ORIGIN_COMPUTED), drawn);  // and stores it again
        EXPECT_TRUE(stored());
    }
    const auto key = [&](int value) { return keys[0].substr(0, keys[0].rfind(':') + 1) + std::to_string(value); };
    const auto of_page = static_cast<int>(keys.size() / 3);
    ASSERT_GE(of_page, 3);
    for (const int other : {1, of_page}) {
        client.run("RENAME %s x", key(0).c_str());
        client.run("RENAME %s %s", key(other).c_str(), key(0).c_str());
        client.run("RENAME x %s", key(other).c_str());
        EXPECT_EQ(answer(NL_ORIGIN_COMPUTED), drawn);
        EXPECT_TRUE(stored());
    }
    client.run("DEL %s", key(of_page - 1).c_str());
    EXPECT_EQ(answer(NL_ORIGIN_COMPUTED), drawn);
    EXPECT_TRUE(stored());
}

TEST_F(StoreServer, AServerThatIsGoneCostsAComputationAndALineOfTheLog) {
    const Tokens drawn = computed_first();
    server.kill_it();
    ServerLog log;
    EXPECT_EQ(later(NL_ORIGIN_COMPUTED, &log), drawn);
    EXPECT_EQ(log.warnings, 1) << log.text;
    EXPECT_NE(log.text.find(server.socket()), std::string::npos) << log.text;
}

TEST_F(StoreServer, AServerThatDoesNotAnswerCostsADeadline) {
    const Tokens drawn = computed_first();
    server.pause();
    ServerLog log;
    EXPECT_EQ(later(NL_ORIGIN_COMPUTED, &log, 100), drawn);
    server.go_on();
    EXPECT_EQ(log.warnings, 1) << log.text;
    EXPECT_EQ(later(NL_ORIGIN_SERVER), drawn);
}

TEST_F(StoreServer, AFullServerKeepsNothing) {
    Client(server).run("CONFIG SET maxmemory 1");
    ServerLog log;
    const EngineHandle engine = make_engine_with(model.path(), server.address(), &log);
    const ChunkHandle chunk = make_chunk(engine.get(), some_tokens(40, 1));
    const Tokens drawn = answer_behind(engine.get(), chunk.get());
    EXPECT_EQ(later(NL_ORIGIN_COMPUTED), drawn);
    EXPECT_TRUE(Client(server).keys().empty());
}

TEST_F(StoreServer, AWrongAddressIsAnError) {
    EXPECT_EQ(status_of_engine("http://host"), NL_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(nl_last_error()).find("redis://"), std::string::npos) << nl_last_error();
}

}  // namespace
}  // namespace nanolith::testing
