// The shared store upon a real redis-server, and upon servers that lie: right answers, or an error in time, and a
// process that lives on.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "lying_server.h"
#include "redis_server.h"
#include "shared_stores.h"

namespace nanolith::testing {
namespace {

TEST(SharedStore, GivesBackWhatWasStored) {
    const RedisServer server;
    const auto store = open(server.address());
    const unsigned seed = std::random_device()();
    RecordProperty("seed", std::to_string(seed));
    std::mt19937 random(seed);
    std::vector<Bytes> values;
    for (const size_t size : {0, 1, 63, 4096, 1 << 20, 16 << 20}) values.push_back(random_bytes(random, size));
    for (int i = 0; i < 20; ++i) values.push_back(random_bytes(random, random() % 5000));
    std::vector<SharedStore::Given> given;
    std::vector<Bytes> read;
    for (size_t i = 0; i < values.size(); ++i) {
        given.push_back({std::string("key \0\r\n$", 8) + std::to_string(i), values[i]});
        read.emplace_back(values[i].size());
    }
    ASSERT_TRUE(store->write(given, kHangs).ok());

    std::vector<SharedStore::Wanted> wanted;
    for (size_t i = 0; i < values.size(); ++i) wanted.push_back({given[i].key, read[i]});
    const auto other = open(server.address());  // of another engine
    const auto filled = other->read(wanted, kHangs);
    ASSERT_TRUE(filled.ok()) << filled.error().message;
    EXPECT_EQ(*filled, values.size());
    EXPECT_EQ(read, values) << "seed " << seed;
}

TEST(SharedStore, StopsAtTheFirstValueThatIsMissingOrOfAnotherLength) {
    const RedisServer server;
    const auto store = open(server.address());
    const Bytes value(10, std::byte{7});
    for (const char* key : {"a", "b", "d", "e"}) ASSERT_TRUE(put(*store, key, value).ok());
    std::vector<Bytes> into(5, Bytes(10));
    const auto read = [&](size_t of_b) {
        into[1].resize(of_b);
        const char* const keys[] = {"a", "b", "c", "d", "e"};
        std::vector<SharedStore::Wanted> wanted;
        for (size_t i = 0; i < 5; ++i) wanted.push_back({keys[i], into[i]});
        return store->read(wanted, kHangs);
    };
    EXPECT_EQ(*read(10), 2U);
    EXPECT_EQ(*read(9), 1U);
    // No reply is left over: the next call gets its own.
    Bytes last(10);
    EXPECT_EQ(*get(*store, "e", last), 1U);
    EXPECT_EQ(last, value);
}

TEST(SharedStore, AValueOfAnotherKindIsRefused) {
    const RedisServer server;
    redisContext* const context = redisConnectUnix(server.socket().c_str());
    freeReplyObject(redisCommand(context, "LPUSH list 1"));
    redisFree(context);
    const auto store = open(server.address());
    Bytes into(1);
    const auto read = get(*store, "list", into);
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(read.error().status, NL_ERROR_IO);
    EXPECT_TRUE(has(read.error(), "WRONGTYPE")) << read.error().message;
    EXPECT_TRUE(put(*store, "other", into).ok());  // the connection is of use still
}

TEST(SharedStore, AKilledServerIsAnErrorAndARestartedOneIsUsedAgain) {
    RedisServer server;
    const auto store = open(server.address());
    Bytes value(1000, std::byte{1});
    ASSERT_TRUE(put(*store, "k", value).ok());
    server.kill_it();
    const auto lost = put(*store, "k", value);
    ASSERT_FALSE(lost.ok());
    EXPECT_EQ(lost.error().status, NL_ERROR_IO);
    EXPECT_TRUE(has(lost.error(), server.socket())) << lost.error().message;
    const auto soon = get(*store, "k", value);
    ASSERT_FALSE(soon.ok());
    EXPECT_TRUE(has(soon.error(), "less than a second ago")) << soon.error().message;

    server.start();
    for (int tries = 0; tries < 100 && !put(*store, "k", value).ok(); ++tries)
        std::this_thread::sleep_for(milliseconds(100));
    EXPECT_EQ(*get(*store, "k", value), 1U);
}

TEST(SharedStore, APausedServerCostsADeadline) {
    const RedisServer server;
    const auto store = open(server.address());
    Bytes value(4 << 20);
    ASSERT_TRUE(put(*store, "k", value).ok());
    server.pause();
    const auto begin = std::chrono::steady_clock::now();
    const auto read = get(*store, "k", value, milliseconds(200));
    const auto lost = std::chrono::steady_clock::now() - begin;
    server.go_on();
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(read.error().status, NL_ERROR_TIMEOUT);
    EXPECT_GE(lost, milliseconds(150));
    EXPECT_LT(lost, kHangs);
}

TEST(SharedStore, APausedServerThatTakesNoMoreCostsADeadlineToo) {
    const RedisServer server;
    const auto store = open(server.address());
    ASSERT_TRUE(put(*store, "k", Bytes(10)).ok());
    server.pause();
    const auto written = put(*store, "k", Bytes(64 << 20), milliseconds(200));
    server.go_on();
    ASSERT_FALSE(written.ok());
    EXPECT_EQ(written.error().status, NL_ERROR_TIMEOUT) << written.error().message;
}

TEST(SharedStore, AFullServerRefusesAndStillAnswers) {
    const RedisServer server({"--maxmemory", "4mb", "--maxmemory-policy", "noeviction"});
    const auto store = open(server.address());
    const Bytes small(1000, std::byte{3});
    ASSERT_TRUE(put(*store, "small", small).ok());
    Result<void> written;
    for (int i = 0; i < 20 && written.ok(); ++i) written = put(*store, "large" + std::to_string(i), Bytes(1 << 20));
    ASSERT_FALSE(written.ok());
    EXPECT_TRUE(has(written.error(), "OOM")) << written.error().message;
    Bytes into(1000);
    EXPECT_EQ(*get(*store, "small", into), 1U);
    EXPECT_EQ(into, small);
}

TEST(SharedStore, LogsIn) {
    const RedisServer server({"--requirepass", "p@ss:word"});
    Bytes value(1);
    // A socket has no place for a password: by TCP it would be redis://:p%40ss%3Aword@HOST.
    const auto read = get(*open(server.address()), "k", value);
    ASSERT_FALSE(read.ok());
    EXPECT_TRUE(has(read.error(), "NOAUTH")) << read.error().message;
}

TEST(SharedStore, LogsInByTcpAndSelectsTheDatabase) {
    const std::string port = std::to_string(free_port());
    const RedisServer server({"--port", port, "--bind", "127.0.0.1", "--requirepass", "p@ss:word"});
    const std::string host = "@127.0.0.1:" + port;
    Bytes value(3, std::byte{9});
    const auto first = open("redis://:p%40ss%3Aword" + host);
    ASSERT_TRUE(put(*first, "k", value).ok());
    EXPECT_EQ(*get(*open("redis://default:p%40ss%3aword" + host + "/0"), "k", value), 1U);
    EXPECT_EQ(*get(*open("redis://:p%40ss%3Aword" + host + "/3"), "k", value), 0U);
    const auto wrong = get(*open("redis://:wrong" + host), "k", value);
    ASSERT_FALSE(wrong.ok());
    EXPECT_TRUE(has(wrong.error(), "WRONGPASS") && has(wrong.error(), "127.0.0.1:" + port)) << wrong.error().message;
    const auto database = get(*open("redis://:p%40ss%3Aword" + host + "/900"), "k", value);
    ASSERT_FALSE(database.ok());
    EXPECT_TRUE(has(database.error(), "SELECT")) << database.error().message;
}

TEST(SharedStore, NothingListens) {
    const auto store = open("redis://127.0.0.1:" + std::to_string(free_port()));
    Bytes value(1);
    const auto read = get(*store, "k", value);
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(read.error().status, NL_ERROR_IO);
}

// ---- Servers that lie -----------------------------------------------------------------------------------

Error read_from(const LyingServer::Answer& answer, size_t size) {
    const LyingServer server(answer);
    const auto store = open(server.address());
    Bytes into(size);
    const auto read = get(*store, "k", into, milliseconds(300));
    EXPECT_FALSE(read.ok());
    return read.ok() ? Error{NL_OK, ""} : read.error();
}

TEST(LyingSharedStore, SaysWhatIsNoReply) {
    const Error error = read_from(
        [](int connection, const auto&) {
            LyingServer::hear(connection);
            LyingServer::say(connection, "HTTP/1.1 400 Bad Request\r\n\r\n");
        },
        10);
    EXPECT_EQ(error.status, NL_ERROR_IO) << error.message;
}

TEST(LyingSharedStore, ClosesBeforeItAnswers) {
    const Error error = read_from([](int, const auto&) {}, 10);
    EXPECT_EQ(error.status, NL_ERROR_IO) << error.message;
}

TEST(LyingSharedStore, ClosesInTheMiddle) {
    const Error error = read_from(
        [](int connection, const auto&) {
            LyingServer::hear(connection);
            LyingServer::say(connection, "$10\r\n12345");
        },
        10);
    EXPECT_EQ(error.status, NL_ERROR_IO) << error.message;
}

// Of a value without an end no more is kept than a little beyond what was asked for.
TEST(LyingSharedStore, SendsWithoutEnd) {
    const Error error = read_from(
        [](int connection, const std::atomic<bool>& runs) {
            LyingServer::hear(connection);
            LyingServer::say(connection, "$400000000\r\n");
            const std::string part(1 << 16, 'x');
            while (runs && LyingServer::say(connection, part)) {
            }
        },
        1000);
    EXPECT_EQ(error.status, NL_ERROR_IO);
    EXPECT_TRUE(has(error, "longer than")) << error.message;
}

TEST(LyingSharedStore, SendsAByteNowAndThen) {
    const Error error = read_from(
        [](int connection, const std::atomic<bool>& runs) {
            LyingServer::hear(connection);
            LyingServer::say(connection, "$1000\r\n");
            while (runs && LyingServer::say(connection, "x")) std::this_thread::sleep_for(milliseconds(20));
        },
        1000);
    EXPECT_EQ(error.status, NL_ERROR_TIMEOUT) << error.message;
}

// Writing to a closed connection raises SIGPIPE, which would end this process.
TEST(LyingSharedStore, ClosesWhileItIsWrittenTo) {
    const LyingServer server([](int connection, const auto&) { LyingServer::hear(connection); });
    const auto store = open(server.address());
    const auto written = put(*store, "k", Bytes(64 << 20));
    ASSERT_FALSE(written.ok());
    EXPECT_EQ(written.error().status, NL_ERROR_IO) << written.error().message;
    sigset_t pending{};
    sigpending(&pending);
    EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
}

// ---- Addresses, and the library --------------------------------------------------------------------------

TEST(SharedStoreAddress, EachWrongPartIsNamed) {
    const struct {
        std::string address, part;
    } cases[] = {
        {"", "begins with neither"},
        {"http://host", "begins with neither"},
        {"redis://", "no host"},
        {"redis://:6379", "no host"},
        {"redis://host:0", "no port"},
        {"redis://host:65536", "no port"},
        {"redis://host:12x", "no port"},
        {"redis://[::1]x", "no port"},
        {"redis://host/x", "no database"},
        {"redis://host/-1", "no database"},
        {"redis://user@host", "user without a password"},
        {"redis://:@host", "empty password"},
        {"redis://:a%4@host", "% without"},
        {"redis://:a%zz@host", "% without"},
        {"unix:", "names no socket"},
        {std::string("unix:/a\0b", 9), "zero byte"},
        {"redis://host?ca=/a", "has a query"},
        {"redis://host/1?", "has a query"},
        {"rediss://", "no host"},
        {"rediss://?ca=/a", "no host"},
        {"rediss://host:0?ca=/a", "no port"},
        {"rediss://host/x?ca=/a", "no database"},
        {"rediss://host?", "\"\" in its query"},
        {"rediss://host?ca=/a&", "\"\" in its query"},
        {"rediss://host?verify=no", "\"verify\" in its query"},
        {"rediss://host?CA=/a", "\"CA\" in its query"},
        {"rediss://host?ca", "no file in its query's ca"},
        {"rediss://host?ca=", "no file in its query's ca"},
        {"rediss://host?ca=&cert=/a&key=/b", "no file in its query's ca"},
        {"rediss://host?ca=/a&ca=/b", "ca twice"},
        {"rediss://host?ca=/a%2", "% without"},
        {"rediss://host?ca=/a%00b", "zero byte in its query's ca"},
        {"rediss://host?cert=/a", "cert without key"},
        {"rediss://host?key=/a", "key without cert"},
        {"rediss://host?ca=/a@b", "%40 for an @ of FILE"},
        {"rediss://:a?b@host", "%3F for a ? of USER or PASSWORD"},
    };
    for (const auto& each : cases) {
        const Error error = error_of(each.address);
        EXPECT_EQ(error.status, NL_ERROR_INVALID_ARGUMENT) << each.address;
        EXPECT_TRUE(has(error, each.part)) << each.address << ": " << error.message;
    }
    for (const char* each : {"redis://:secret%@host", "redis://:?secret@host", "rediss://:a@b?secret=1@host"})
        EXPECT_FALSE(has(error_of(each), "secret")) << each;
    for (const char* good :
         {"redis://host", "redis://host/", "redis://[::1]:1/2", "redis://u:p@host:1", "unix:/a b", "unix:/a?b=c"})
        EXPECT_NE(open(good), nullptr) << good;
}

}  // namespace
}  // namespace nanolith::testing
