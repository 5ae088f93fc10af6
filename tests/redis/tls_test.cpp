// Encrypted connections of the shared store: to real redis-servers with certificates that are right and wrong, and to
// servers that speak no TLS, say nothing, are killed or are changed on the way.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include "certificates.h"
#include "redis_server.h"
#include "relay.h"
#include "shared_stores.h"

namespace nanolith::testing {
namespace {

constexpr milliseconds kSoon{300};

std::string with_ca(const std::string& host, int port, const std::string& ca) {
    return "rediss://" + host + ":" + std::to_string(port) + "?ca=" + ca;
}

// The error of the first call upon a store.
Error first_error(const std::string& address, milliseconds within = kHangs) {
    const auto store = open(address);
    if (store == nullptr) return {NL_OK, ""};
    Bytes into(3);
    const auto read = get(*store, "k", into, within);
    EXPECT_FALSE(read.ok()) << address;
    return read.ok() ? Error{NL_OK, ""} : read.error();
}

class TlsStore : public ::testing::Test {
  protected:
    TlsStore() { certificates.issue("server", "DNS:localhost,IP:127.0.0.1"); }

    [[nodiscard]] std::string ca() const { return certificates.file("ca.pem"); }
    [[nodiscard]] std::string address() const { return with_ca("localhost", port, ca()); }
    [[nodiscard]] std::string with_client(const std::string& name) const {
        return address() + "&cert=" + certificates.file(name + ".pem") + "&key=" + certificates.file(name + ".key");
    }
    [[nodiscard]] std::vector<std::string> options(const std::vector<std::string>& more = {}) const {
        auto all = certificates.server_options("server", port);
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }

    const Certificates certificates;
    const int port = free_port();
};

TEST_F(TlsStore, GivesBackWhatWasStored) {
    const RedisServer server(options());
    const unsigned seed = std::random_device()();
    RecordProperty("seed", std::to_string(seed));
    std::mt19937 random(seed);
    for (const std::string host : {"localhost", "127.0.0.1"}) {
        const auto store = open(with_ca(host, port, ca()));
        const auto other = open(with_ca(host, port, ca()));
        for (const size_t size : {0, 1, 16384, 1 << 20, (16 << 20) + 7}) {
            const Bytes value = random_bytes(random, size);
            const auto written = put(*store, host, value);
            ASSERT_TRUE(written.ok()) << written.error().message;
            Bytes into(size);
            EXPECT_EQ(*get(*other, host, into), 1U);
            EXPECT_EQ(into, value) << size << " bytes, seed " << seed;
        }
    }
}

TEST_F(TlsStore, LogsInAndSelectsTheDatabaseAndSendsNothingInTheClear) {
    const RedisServer server(options({"--requirepass", "open sesame"}));
    Relay relay(port);
    const std::string text = "a value that nobody else may read";
    const std::string address = "rediss://:open%20sesame@localhost:" + std::to_string(relay.port()) + "/3?ca=" + ca();
    const auto bytes = std::as_bytes(std::span(text));
    const auto written = put(*open(address), "its key", Bytes(bytes.begin(), bytes.end()));
    ASSERT_TRUE(written.ok()) << written.error().message;
    Bytes into(text.size());
    EXPECT_EQ(*get(*open(address), "its key", into), 1U);
    EXPECT_TRUE(std::ranges::equal(into, bytes));
    EXPECT_TRUE(relay.saw("localhost"));  // the name that the server is asked to be
    for (const char* secret : {"open sesame", "a value", "its key", "SELECT"})
        EXPECT_FALSE(relay.saw(secret)) << secret;
}

TEST_F(TlsStore, SpeaksTls12AndNothingOlder) {
    {
        const RedisServer server(options({"--tls-protocols", "TLSv1.2"}));
        EXPECT_TRUE(put(*open(address()), "k", Bytes(1 << 20)).ok());
    }
    const RedisServer server(options({"--tls-protocols", "TLSv1.1", "--tls-ciphers", "DEFAULT:@SECLEVEL=0"}));
    const Error error = first_error(address());
    EXPECT_EQ(error.status, NL_ERROR_IO);
    EXPECT_TRUE(has(error, "TLS 1.2 or newer")) << error.message;
}

TEST_F(TlsStore, TrustsTheSystemsCertificatesWhereNoneAreNamed) {
    const RedisServer server(options());
    const std::string address = "rediss://localhost:" + std::to_string(port);
    const Error error = first_error(address);
    EXPECT_EQ(error.status, NL_ERROR_IO);
    EXPECT_TRUE(has(error, "not trusted") && has(error, "the system's")) << error.message;
    setenv("SSL_CERT_FILE", ca().c_str(), 1);  // where OpenSSL looks for the system's
    const auto written = put(*open(address), "k", Bytes(3));
    unsetenv("SSL_CERT_FILE");
    EXPECT_TRUE(written.ok()) << written.error().message;
}

TEST_F(TlsStore, ShowsAClientsCertificate) {
    const RedisServer server(certificates.server_options("server", port, "yes"));
    certificates.issue("client", "DNS:client");
    const auto written = put(*open(with_client("client")), "k", Bytes(3));
    EXPECT_TRUE(written.ok()) << written.error().message;

    const Error without = first_error(address());
    EXPECT_EQ(without.status, NL_ERROR_IO);
    EXPECT_TRUE(has(without, "certificate required")) << without.message;
    const Certificates others;
    others.issue("client", "DNS:client");
    const Error of_others =
        first_error(address() + "&cert=" + others.file("client.pem") + "&key=" + others.file("client.key"));
    EXPECT_EQ(of_others.status, NL_ERROR_IO);
    EXPECT_TRUE(has(of_others, "unknown ca")) << of_others.message;
}

TEST_F(TlsStore, ACertificateOfAnotherAuthorityIsRefused) {
    const RedisServer server(options());
    const Certificates others;
    const Error error = first_error(with_ca("localhost", port, others.file("ca.pem")));
    EXPECT_EQ(error.status, NL_ERROR_IO);
    EXPECT_TRUE(has(error, "not trusted") && has(error, others.file("ca.pem"))) << error.message;
}

TEST_F(TlsStore, ACertificateForAnotherHostIsRefused) {
    certificates.issue("other", "DNS:elsewhere,IP:127.0.0.2");
    const RedisServer server(certificates.server_options("other", port));
    for (const std::string host : {"localhost", "127.0.0.1"}) {
        const Error error = first_error(with_ca(host, port, ca()));
        EXPECT_EQ(error.status, NL_ERROR_IO) << host;
        EXPECT_TRUE(has(error, "for another host: expected one for " + host)) << error.message;
    }
}

TEST_F(TlsStore, AnExpiredCertificateIsRefused) {
    certificates.issue("old", "DNS:localhost", -1);
    const RedisServer server(certificates.server_options("old", port));
    const Error error = first_error(address());
    EXPECT_EQ(error.status, NL_ERROR_IO);
    EXPECT_TRUE(has(error, "not trusted (certificate has expired)")) << error.message;
}

// It waits for the end of what is no command, or refuses a command that it takes the greeting for.
TEST_F(TlsStore, AServerWithoutTlsIsAnErrorInTime) {
    const RedisServer server({"--port", std::to_string(port), "--bind", "127.0.0.1"});
    const Error error = first_error(address(), kSoon);
    EXPECT_TRUE(error.status == NL_ERROR_TIMEOUT || error.status == NL_ERROR_IO);
    EXPECT_TRUE(has(error, "expected a server that speaks TLS")) << error.message;
}

TEST_F(TlsStore, AClientWithoutTlsIsToldNothing) {
    const RedisServer server(options());
    EXPECT_EQ(first_error("redis://localhost:" + std::to_string(port), kSoon).status, NL_ERROR_IO);
}

// The error of the first call upon a server that answers so, and how long that took.
struct Answered {
    Error error;
    std::chrono::steady_clock::duration took;
};
Answered answered(const std::string& ca, const LyingServer::Answer& answer) {
    const LyingServer server(answer, LyingServer::At::kPort);
    const auto begin = std::chrono::steady_clock::now();
    Error error = first_error(with_ca("127.0.0.1", server.port(), ca), kSoon);
    EXPECT_TRUE(has(error, "expected a server that speaks TLS")) << error.message;
    return {std::move(error), std::chrono::steady_clock::now() - begin};
}

TEST_F(TlsStore, WhatIsNoGreetingIsAnError) {
    for (const char* text : {"-ERR unknown command\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n", ""}) {
        const auto [error, took] = answered(ca(), [&](int connection, const auto&) {
            LyingServer::hear(connection);
            LyingServer::say(connection, text);
        });
        EXPECT_EQ(error.status, NL_ERROR_IO) << text << ": " << error.message;
    }
}

// The second begins a record of 16384 bytes, and sends these one by one.
TEST_F(TlsStore, AServerThatSaysNothingOrAByteNowAndThenCostsADeadline) {
    const std::string beginnings[] = {"", std::string("\x16\x03\x03\x40\x00", 5)};
    for (const std::string& beginning : beginnings) {
        const auto [error, took] = answered(ca(), [&](int connection, const std::atomic<bool>& runs) {
            LyingServer::hear(connection);
            bool listens = LyingServer::say(connection, beginning);
            while (runs && listens) {
                std::this_thread::sleep_for(milliseconds(20));
                if (!beginning.empty()) listens = LyingServer::say(connection, std::string("\x02\x00", 1));
            }
        });
        EXPECT_EQ(error.status, NL_ERROR_TIMEOUT) << error.message;
        EXPECT_GE(took, kSoon - milliseconds(50));
        EXPECT_LT(took, kSoon + milliseconds(2000));
    }
}

TEST_F(TlsStore, AKilledServerIsAnErrorAndARestartedOneIsUsedAgain) {
    RedisServer server(options());
    const auto store = open(address());
    Bytes value(1000, std::byte{1});
    ASSERT_TRUE(put(*store, "k", value).ok());
    server.kill_it();
    const auto lost = put(*store, "k", value);
    ASSERT_FALSE(lost.ok());
    EXPECT_EQ(lost.error().status, NL_ERROR_IO) << lost.error().message;
    server.start();
    for (int tries = 0; tries < 100 && !put(*store, "k", value).ok(); ++tries)
        std::this_thread::sleep_for(milliseconds(100));
    EXPECT_EQ(*get(*store, "k", value), 1U);
}

// Killed while it takes a value of 64 MB: its socket's buffers hold far less.
TEST_F(TlsStore, AServerThatIsKilledWhileItIsWrittenToIsAnError) {
    RedisServer server(options());
    const auto store = open(address());
    ASSERT_TRUE(put(*store, "k", Bytes(10)).ok());
    server.pause();
    std::thread killer([&] {
        std::this_thread::sleep_for(milliseconds(100));
        server.kill_it();
    });
    const auto written = put(*store, "k", Bytes(64 << 20));
    killer.join();
    ASSERT_FALSE(written.ok());
    EXPECT_EQ(written.error().status, NL_ERROR_IO) << written.error().message;
    sigset_t pending{};
    sigpending(&pending);
    EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
}

TEST_F(TlsStore, APausedServerCostsADeadline) {
    const RedisServer server(options());
    Bytes value(64 << 20);
    for (const bool writes : {false, true}) {
        const auto store = open(address());
        ASSERT_TRUE(put(*store, "k", Bytes(10)).ok());
        server.pause();
        const auto begin = std::chrono::steady_clock::now();
        const auto written = writes ? put(*store, "k", value, kSoon) : Result<void>();
        const auto read = writes ? Result<size_t>(0) : get(*store, "k", value, kSoon);
        const auto took = std::chrono::steady_clock::now() - begin;
        server.go_on();
        EXPECT_FALSE(written.ok() && read.ok());
        EXPECT_EQ((writes ? written.error() : read.error()).status, NL_ERROR_TIMEOUT);
        EXPECT_LT(took, kHangs);
    }
}

// Behind the greeting, which takes less than 8000 bytes, a bit of the value is another, or the connection ends.
TEST_F(TlsStore, AValueThatIsChangedOrCutOnTheWayIsAnError) {
    const RedisServer server(options());
    Bytes value(1 << 20, std::byte{5});
    ASSERT_TRUE(put(*open(address()), "k", value).ok());
    for (const bool cuts : {false, true}) {
        size_t passed = 0;
        const Relay relay(port, [&](std::string& bytes) {
            passed += bytes.size();
            if (passed < 100000) return true;
            bytes[bytes.size() / 2] ^= 1;
            return !cuts;
        });
        const auto store = open(with_ca("localhost", relay.port(), ca()));
        const auto read = get(*store, "k", value);
        ASSERT_FALSE(read.ok()) << cuts;
        EXPECT_EQ(read.error().status, NL_ERROR_IO);
        EXPECT_TRUE(has(read.error(), cuts ? "closed the connection" : "bad record mac")) << read.error().message;
    }
}

// The end of a program that `ends_slowly` takes a while after all that was registered for it later, as by OpenSSL.
bool ends_slowly = false;
const int kRegistered = std::atexit([] {
    if (ends_slowly) std::this_thread::sleep_for(milliseconds(300));
});

// OpenSSL's own cleaning up would free what these threads use.
TEST_F(TlsStore, AProgramMayEndWhileItsThreadsConnect) {
    const RedisServer server(options());
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
        ends_slowly = true;
        const auto connect_again_and_again = [where = address()] {
            const Bytes value(1 << 20);
            while (true) {
                const auto store = open_shared_store(where);
                if (store.ok()) static_cast<void>(put(**store, "k", value));
            }
        };
        for (int i = 0; i < 4; ++i) std::thread(connect_again_and_again).detach();
        std::this_thread::sleep_for(milliseconds(200));
        std::exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "signal " << WTERMSIG(status);
}

// ---- Files that addresses name ---------------------------------------------------------------------------

TEST_F(TlsStore, EachFileIsReadWhenTheStoreIsOpened) {
    certificates.issue("client", "DNS:client");
    certificates.run("ec -in client.key -aes128 -passout pass:secret -out locked.key");
    certificates.run("rand -out noise.pem 1000");
    const auto file = [&](const char* name) { return certificates.file(name); };
    const auto pair = [&](const char* certificate, const char* key) {
        return "cert=" + file(certificate) + "&key=" + file(key);
    };
    const struct {
        std::string query;
        nl_status status;
        std::string part;
    } cases[] = {
        {"ca=" + file("none.pem"), NL_ERROR_NOT_FOUND, "ca=" + file("none.pem") + " (No such file or directory)"},
        {"ca=" + file("noise.pem"), NL_ERROR_INVALID_ARGUMENT, "ca=" + file("noise.pem")},
        {"ca=" + file("client.key"), NL_ERROR_INVALID_ARGUMENT, "a file of certificates in PEM"},
        {pair("none.pem", "client.key"), NL_ERROR_NOT_FOUND, "cert=" + file("none.pem")},
        {pair("noise.pem", "client.key"), NL_ERROR_INVALID_ARGUMENT, "cert=" + file("noise.pem")},
        {pair("client.pem", "none.key"), NL_ERROR_NOT_FOUND, "key=" + file("none.key")},
        {pair("client.pem", "noise.pem"), NL_ERROR_INVALID_ARGUMENT, "key=" + file("noise.pem")},
        {pair("client.pem", "server.key"), NL_ERROR_INVALID_ARGUMENT, "(key values mismatch)"},
        {pair("client.pem", "locked.key"), NL_ERROR_INVALID_ARGUMENT, "without a password"},
    };
    for (const auto& each : cases) {
        const Error error = error_of("rediss://host?" + each.query);
        EXPECT_EQ(error.status, each.status) << each.query << ": " << error.message;
        EXPECT_TRUE(has(error, each.part)) << each.query << ": " << error.message;
    }
    EXPECT_TRUE(has(error_of("rediss://host?ca=/"), "ca=/ (")) << "a folder";
    // Names with characters that have a meaning of their own.
    certificates.run("x509 -in ca.pem -out 'a&b?c@d e%.pem'");
    for (const std::string& good : {std::string("rediss://host"), "rediss://[::1]:1/2?ca=" + file("ca.pem"),
                                    "rediss://u:p@host?" + pair("client.pem", "client.key") + "&ca=" + file("ca.pem"),
                                    "rediss://host/?ca=" + file("a%26b%3Fc%40d%20e%25.pem")})
        EXPECT_NE(open(good), nullptr) << good;
}

// Certificates are renewed while engines run.
TEST_F(TlsStore, FilesAreReadAgainForEachConnection) {
    const RedisServer server(options());
    const Certificates others;
    const std::string trusted = certificates.file("trusted.pem");
    std::filesystem::copy_file(others.file("ca.pem"), trusted);
    const auto store = open(with_ca("localhost", port, trusted));
    ASSERT_FALSE(put(*store, "k", Bytes(3)).ok());
    std::filesystem::copy_file(ca(), trusted, std::filesystem::copy_options::overwrite_existing);
    Result<void> written = fail(NL_ERROR_IO, "not tried");
    for (int tries = 0; tries < 100 && !written.ok(); ++tries) {
        std::this_thread::sleep_for(milliseconds(100));
        written = put(*store, "k", Bytes(3));
    }
    EXPECT_TRUE(written.ok()) << written.error().message;
}

}  // namespace
}  // namespace nanolith::testing
