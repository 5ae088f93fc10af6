// A server that accepts one connection after another and answers each in a way that no Redis server would.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
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

    // Where it listens: at a socket in a temporary folder, or a port of its own.
    enum class At { kSocket, kPort };

    explicit LyingServer(Answer answer, At at = At::kSocket) : answer_(std::move(answer)) {
        const bool listens = at == At::kSocket ? listen_at_socket() : listen_at_port();
        if (!listens) throw std::runtime_error("cannot listen");
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
    [[nodiscard]] int port() const { return port_; }

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
    bool listen_at_socket() {
        listener_ = ::socket(AF_UNIX, SOCK_STREAM, 0);
        sockaddr_un name{};
        name.sun_family = AF_UNIX;
        const std::string path = folder_.file("liar.sock");
        std::strncpy(name.sun_path, path.c_str(), sizeof name.sun_path - 1);
        return ::bind(listener_, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0 &&
               ::listen(listener_, 4) == 0;
    }
    bool listen_at_port() {
        listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in name{};
        name.sin_family = AF_INET;
        name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof name;
        const bool listens = ::bind(listener_, reinterpret_cast<const sockaddr*>(&name), size) == 0 &&
                             ::listen(listener_, 4) == 0 &&
                             ::getsockname(listener_, reinterpret_cast<sockaddr*>(&name), &size) == 0;
        port_ = ntohs(name.sin_port);
        return listens;
    }
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
    int port_ = 0;
    std::atomic<bool> runs_ = true;
    std::thread thread_;
};

}  // namespace nanolith::testing
