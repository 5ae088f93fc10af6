#include "tls_context.h"

#include <openssl/crypto.h>
#include <openssl/err.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

namespace nanolith::redis {
namespace {

// Keys that need a password are refused: OpenSSL would ask for it on the terminal.
int no_password(char* /*text*/, int /*size*/, int /*writes*/, void* /*own*/) {
    return -1;
}

// The error of reading `file`, which the address names as `name`.
Error unusable(const char* name, const std::string& file, const char* expected) {
    const OpensslError error = take_openssl_error();
    nl_status status = NL_ERROR_INVALID_ARGUMENT;
    if (error.system != 0) status = error.system == ENOENT ? NL_ERROR_NOT_FOUND : NL_ERROR_IO;
    if (error.is_memory) status = NL_ERROR_OUT_OF_MEMORY;
    return fail(status, "the address of the shared store names ", name, "=", file, " (", error.text, "): expected ",
                expected);
}

Result<void> trust(SSL_CTX* context, const std::string& file) {
    ERR_clear_error();
    if (file.empty()) {
        if (SSL_CTX_set_default_verify_paths(context) == 1) return {};
        return fail(NL_ERROR_IO, "the system's trusted certificates can't be used: ", take_openssl_error().text);
    }
    if (SSL_CTX_load_verify_file(context, file.c_str()) == 1) return {};
    return unusable("ca", file, "a file of certificates in PEM");
}

Result<void> show(SSL_CTX* context, const std::string& certificate, const std::string& key) {
    if (certificate.empty()) return {};
    ERR_clear_error();
    if (SSL_CTX_use_certificate_chain_file(context, certificate.c_str()) != 1)
        return unusable("cert", certificate, "a file with a certificate in PEM, and those above it");
    ERR_clear_error();
    if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) != 1)
        return unusable("key", key, "a file with that certificate's key in PEM, without a password");
    return {};
}

}  // namespace

// The first error of the queue is where it began; those behind it were added on the way up.
OpensslError take_openssl_error() {
    const unsigned long code = ERR_get_error();
    ERR_clear_error();
    OpensslError error;
    if (ERR_SYSTEM_ERROR(code)) {
        error.system = ERR_GET_REASON(code);
        error.text = std::strerror(error.system);
        return error;
    }
    error.reason = ERR_GET_REASON(code);
    error.is_memory = error.reason == ERR_R_MALLOC_FAILURE;
    const char* const text = ERR_reason_error_string(code);
    std::array<char, 256> numbers{};
    ERR_error_string_n(code, numbers.data(), numbers.size());
    error.text = text != nullptr ? text : numbers.data();
    return error;
}

Result<TlsContext> make_tls_context(const Address& address) {
    // A program may end while threads of an engine use OpenSSL, which would otherwise free what it keeps at exit. This
    // has no effect where the program itself has used OpenSSL before.
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
    ERR_clear_error();
    TlsContext context(SSL_CTX_new(TLS_client_method()));
    if (context == nullptr)
        return fail(NL_ERROR_OUT_OF_MEMORY, "OpenSSL gives no context: ", take_openssl_error().text);
    SSL_CTX_set_default_passwd_cb(context.get(), no_password);
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
    SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION);
    if (SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) != 1)
        return fail(NL_ERROR_UNSUPPORTED, "OpenSSL knows no TLS 1.2: ", take_openssl_error().text);
    NL_TRY(trust(context.get(), address.ca_file));
    NL_TRY(show(context.get(), address.certificate_file, address.key_file));
    return context;
}

}  // namespace nanolith::redis
