// What all encrypted connections to an address have in common: whom to trust, and the client's own certificate.
#pragma once

#include <openssl/ssl.h>

#include <memory>

#include "address.h"
#include "base/result.h"

namespace nanolith::redis {

struct FreeTlsContext {
    void operator()(SSL_CTX* context) const noexcept { SSL_CTX_free(context); }
};
using TlsContext = std::unique_ptr<SSL_CTX, FreeTlsContext>;

// What OpenSSL says of the call that has just failed on this thread, whose queue of errors was empty before it.
struct OpensslError {
    std::string text;
    int system = 0;  // errno, where it was the system that refused
    int reason = 0;  // otherwise OpenSSL's number of it
    bool is_memory = false;
};
OpensslError take_openssl_error();

// TLS 1.2 or newer, and a certificate is asked for and verified. Errors are those of check_tls().
Result<TlsContext> make_tls_context(const Address& address);

}  // namespace nanolith::redis
