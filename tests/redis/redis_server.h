// A real redis-server of the test's own, upon a socket in a temporary folder and, where wanted, a TCP port.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/temp_folder.h"

extern char** environ;

namespace nanolith::testing {

// A TCP port that was free a moment ago.
inline int free_port() {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof name;
    EXPECT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&name), size), 0);
    ::getsockname(listener, reinterpret_cast<sockaddr*>(&name), &size);
    ::close(listener);
    return ntohs(name.sin_port);
}

class RedisServer {
  public:
    explicit RedisServer(std::vector<std::string> options = {}) : options_(std::move(options)) { start(); }
    RedisServer(const RedisServer&) = delete;
    RedisServer& operator=(const RedisServer&) = delete;
    ~RedisServer() { kill_it(); }

    [[nodiscard]] std::string socket() const { return folder_.file("redis.sock"); }
    [[nodiscard]] std::string address() const { return "unix:" + socket(); }

    void start() {
        std::vector<std::string> words{
            "redis-server", "--port", "0",     "--unixsocket", socket(),    "--save",           "",
            "--appendonly", "no",     "--dir", folder_.path(), "--logfile", folder_.file("log")};
        words.insert(words.end(), options_.begin(), options_.end());
        std::vector<char*> arguments;
        for (std::string& word : words) arguments.push_back(word.data());
        arguments.push_back(nullptr);
        if (posix_spawnp(&process_, "redis-server", nullptr, nullptr, arguments.data(), environ) != 0)
            throw std::runtime_error("redis-server does not start");
        for (int tries = 0; tries < 1000; ++tries) {
            redisContext* const context = redisConnectUnix(socket().c_str());
            const bool answers = context != nullptr && context->err == 0;
            if (context != nullptr) redisFree(context);
            if (answers) return;
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        throw std::runtime_error("redis-server does not answer");
    }
    void pause() const { kill(process_, SIGSTOP); }
    void go_on() const { kill(process_, SIGCONT); }
    void kill_it() {
        if (process_ <= 0) return;
        kill(process_, SIGKILL);
        waitpid(process_, nullptr, 0);
        process_ = 0;
    }

  private:
    std::vector<std::string> options_;
    test::TempFolder folder_;
    pid_t process_ = 0;
};

}  // namespace nanolith::testing
