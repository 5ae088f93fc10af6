#include "tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <string>
#include <vector>

#include "socket.h"
#include "tls_context.h"

namespace nanolith::redis {
namespace {

constexpr size_t kSentAtOnce = 1 << 18;    // bytes that are encrypted before they are sent
constexpr size_t kReadAtOnce = 1 << 16;    // bytes that are taken from the socket before they are decrypted
constexpr size_t kMostOfServerName = 255;  // a longer name is none, and can't be sent

struct FreeTls {
    void operator()(SSL* tls) const noexcept { SSL_free(tls); }
};

// OpenSSL reads from and writes to memory, and the socket moves those bytes: so each wait for the server ends by the
// deadline, where OpenSSL's own reads of a socket would wait anew for every byte of a record.
class TlsChannel final : public Channel {
  public:
    static Result<std::unique_ptr<TlsChannel>> make(const Address& address, int socket);
    Result<void> greet(const Address& address, Clock::time_point deadline);

    Result<void> send(std::string_view bytes, Clock::time_point deadline) override;
    Result<size_t> receive(std::span<char> into, Clock::time_point deadline) override;

  private:
    explicit TlsChannel(int socket) : socket_(socket), read_(kReadAtOnce) {}
    // Runs one of OpenSSL's operations until it is done, and gives it the server's bytes as it asks for them; what it
    // returned. Where OpenSSL fails, why(what it says) is the error.
    template <typename Step, typename Why>
    Result<int> run(const Step& step, const Why& why, Clock::time_point deadline);
    Result<void> send_encrypted(Clock::time_point deadline);
    Result<void> receive_encrypted(Clock::time_point deadline);
    [[nodiscard]] Error refused_greeting(const Address& address, const OpensslError& error) const;

    Socket socket_;
    std::vector<char> read_;
    std::unique_ptr<SSL, FreeTls> tls_;
    BIO* incoming_ = nullptr;  // of tls_: what the server sent
    BIO* outgoing_ = nullptr;  // of tls_: what it is to be sent
};

// Tells OpenSSL whose certificate is expected, and the server which one that is.
Result<void> expect_host(SSL* tls, const std::string& host) {
    X509_VERIFY_PARAM* const expected = SSL_get0_param(tls);
    if (X509_VERIFY_PARAM_set1_ip_asc(expected, host.c_str()) == 1) return {};
    ERR_clear_error();
    SSL_set_hostflags(tls, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (SSL_set1_host(tls, host.c_str()) != 1 || SSL_set_tlsext_host_name(tls, host.c_str()) != 1) return no_memory();
    return {};
}

Result<std::unique_ptr<TlsChannel>> TlsChannel::make(const Address& address, int socket) {
    if (address.host.size() > kMostOfServerName)
        return fail(NL_ERROR_INVALID_ARGUMENT, "its host's name has ", address.host.size(), " bytes: expected at most ",
                    kMostOfServerName);
    NL_ASSIGN(const TlsContext context, make_tls_context(address));
    std::unique_ptr<TlsChannel> channel(new TlsChannel(socket));
    ERR_clear_error();
    channel->tls_.reset(SSL_new(context.get()));
    if (channel->tls_ == nullptr) return no_memory();
    channel->incoming_ = BIO_new(BIO_s_mem());
    channel->outgoing_ = BIO_new(BIO_s_mem());
    SSL_set0_rbio(channel->tls_.get(), channel->incoming_);
    SSL_set0_wbio(channel->tls_.get(), channel->outgoing_);
    if (channel->incoming_ == nullptr || channel->outgoing_ == nullptr) return no_memory();
    NL_TRY(expect_host(channel->tls_.get(), address.host));
    SSL_set_connect_state(channel->tls_.get());
    return channel;
}

Result<void> TlsChannel::send_encrypted(Clock::time_point deadline) {
    char* bytes = nullptr;
    const long count = BIO_get_mem_data(outgoing_, &bytes);
    if (count <= 0) return {};
    NL_TRY(socket_.send({bytes, static_cast<size_t>(count)}, deadline));
    BIO_reset(outgoing_);
    return {};
}

Result<void> TlsChannel::receive_encrypted(Clock::time_point deadline) {
    NL_ASSIGN(const size_t count, socket_.receive(read_, deadline));
    const int kept = BIO_write(incoming_, read_.data(), static_cast<int>(count));
    if (kept != static_cast<int>(count)) return no_memory();
    return {};
}

template <typename Step, typename Why>
Result<int> TlsChannel::run(const Step& step, const Why& why, Clock::time_point deadline) {
    while (true) {
        ERR_clear_error();
        const int done = step();
        if (done > 0) return done;
        const int state = SSL_get_error(tls_.get(), done);
        if (state == SSL_ERROR_ZERO_RETURN) return fail(NL_ERROR_IO, "it closed the connection");
        if (state != SSL_ERROR_WANT_READ) {
            const OpensslError error = take_openssl_error();
            // The server is told why, where that can be done: it may log it.
            static_cast<void>(send_encrypted(deadline));
            return error.is_memory ? no_memory() : why(error);
        }
        NL_TRY(send_encrypted(deadline));
        NL_TRY(receive_encrypted(deadline));
    }
}

Error TlsChannel::refused_greeting(const Address& address, const OpensslError& error) const {
    const long verified = SSL_get_verify_result(tls_.get());
    if (verified == X509_V_ERR_HOSTNAME_MISMATCH || verified == X509_V_ERR_IP_ADDRESS_MISMATCH)
        return fail(NL_ERROR_IO, "its certificate is for another host: expected one for ", address.host);
    if (verified != X509_V_OK) {
        return fail(NL_ERROR_IO, "its certificate is not trusted (", X509_verify_cert_error_string(verified),
                    "): expected one that is valid by ",
                    address.ca_file.empty() ? "the system's trusted certificates" : "those of " + address.ca_file);
    }
    return fail(NL_ERROR_IO, "encryption can't begin (", error.text,
                "): expected a server that speaks TLS 1.2 or newer");
}

Result<void> TlsChannel::greet(const Address& address, Clock::time_point deadline) {
    bool explained = false;
    const auto greeted = run([&] { return SSL_do_handshake(tls_.get()); },
                             [&](const OpensslError& error) {
                                 explained = true;
                                 return refused_greeting(address, error);
                             },
                             deadline);
    if (greeted.ok()) return {};
    const Error& error = greeted.error();
    if (explained || error.status == NL_ERROR_OUT_OF_MEMORY) return error;
    // A server that speaks no TLS mostly waits for more, or closes the connection.
    return fail(error.status, error.message, ", or speaks no TLS: expected a server that speaks TLS 1.2 or newer");
}

Result<void> TlsChannel::send(std::string_view bytes, Clock::time_point deadline) {
    while (!bytes.empty()) {
        const auto part = bytes.substr(0, kSentAtOnce);
        NL_TRY(run([&] { return SSL_write(tls_.get(), part.data(), static_cast<int>(part.size())); },
                   [](const OpensslError& error) { return fail(NL_ERROR_IO, "sending failed: ", error.text); },
                   deadline));
        NL_TRY(send_encrypted(deadline));
        bytes.remove_prefix(part.size());
    }
    return {};
}

Result<size_t> TlsChannel::receive(std::span<char> into, Clock::time_point deadline) {
    const auto most = static_cast<int>(std::min(into.size(), kReadAtOnce));
    NL_ASSIGN(const int count, run([&] { return SSL_read(tls_.get(), into.data(), most); },
                                   [](const OpensslError& error) {
                                       return fail(NL_ERROR_IO, "reading its answer failed: ", error.text);
                                   },
                                   deadline));
    return static_cast<size_t>(count);
}

}  // namespace

Result<void> check_tls(const Address& address) {
    NL_TRY(make_tls_context(address));
    return {};
}

Result<std::unique_ptr<Channel>> open_tls(const Address& address, int socket, Clock::time_point deadline) {
    NL_ASSIGN(std::unique_ptr<TlsChannel> channel, TlsChannel::make(address, socket));
    NL_TRY(channel->greet(address, deadline));
    return std::unique_ptr<Channel>(std::move(channel));
}

}  // namespace nanolith::redis
