// A server that accepts one connection after another and answers each in a way that no Redis server would.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

#include "support/temp_folder.h"

namespace nanolith::testing {

class LyingServer {
  public:
    // `answer` gets the connection, and whether the server still runs; the connection is closed after it.
    using Answer = std::function<void(int connection, const std::atomic<bool>& runs)>;

    explicit LyingServer(Answer answer) : answer_(std::move(answer)) {
        listener_ = ::socket(AF_UNIX, SOCK_STREAM, 0);
        sockaddr_un name{};
        name.sun_family = AF_UNIX;
        const std::string path = folder_.file("liar.sock");
        std::strncpy(name.sun_path, path.c_str(), sizeof name.sun_path - 1);
        if (::bind(listener_, reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0 ||
            ::listen(listener_, 4) != 0)
            throw std::runtime_error("cannot listen");
        thread_ = std::thread([this] { serve(); });
    }
    LyingServer(const LyingServer&) = delete;
    LyingServer& operator=(const LyingServer&) = delete;
    ~LyingServer() {
        runs_ = false;
        ::shutdown(listener_, SHUT_RDWR);
        thread_.join();
        ::close(listener_);
    }

    [[nodiscard]] std::string address() const { return "unix:" + folder_.file("liar.sock"); }

    // Reads what came of the command.
    static void hear(int connection) {
        char bytes[4096];
        if (::read(connection, bytes, sizeof bytes) < 0) return;
    }
    // False where the other side is gone.
    static bool say(int connection, const std::string& text) {
        return ::send(connection, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
    }

  private:
    void serve() {
        while (runs_) {
            const int connection = ::accept(listener_, nullptr, nullptr);
            if (connection < 0) return;
            answer_(connection, runs_);
            ::close(connection);
        }
    }

    Answer answer_;
    test::TempFolder folder_;
    int listener_ = -1;
    std::atomic<bool> runs_ = true;
    std::thread thread_;
};

}  // namespace nanolith::testing
