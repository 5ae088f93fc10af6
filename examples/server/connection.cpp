#include "connection.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <string>

namespace server {
namespace {

constexpr int kMostDescriptors = 1024;  // those that cpp-httplib can select

int port_of(const sockaddr_storage& address) {
    if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
    if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
    return -1;
}

bool is_socket_of(int descriptor, const httplib::Request& request) {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    auto* const plain = reinterpret_cast<sockaddr*>(&address);
    if (getpeername(descriptor, plain, &length) != 0 || port_of(address) != request.remote_port) return false;
    std::array<char, NI_MAXHOST> host{};
    if (getnameinfo(plain, length, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0) return false;
    if (request.remote_addr != host.data()) return false;
    length = sizeof address;
    return getsockname(descriptor, plain, &length) == 0 && port_of(address) == request.local_port;
}

bool is_connection_at(int descriptor, int port) {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    auto* const plain = reinterpret_cast<sockaddr*>(&address);
    if (getsockname(descriptor, plain, &length) != 0 || port_of(address) != port) return false;
    length = sizeof address;
    return getpeername(descriptor, plain, &length) == 0;
}

}  // namespace

Connection::Connection(const httplib::Request& request) {
    for (int descriptor = 3; descriptor < kMostDescriptors && socket_ < 0; ++descriptor) {
        if (is_socket_of(descriptor, request)) socket_ = descriptor;
    }
}

bool Connection::is_open() const {
    if (socket_ < 0) return true;
    char byte = 0;
    const ssize_t got = recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
}

void end_idle_connections(int port) {
    for (int descriptor = 3; descriptor < kMostDescriptors; ++descriptor) {
        if (is_connection_at(descriptor, port)) shutdown(descriptor, SHUT_RD);
    }
}

}  // namespace server
