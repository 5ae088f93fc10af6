// In the place of tls.cpp where the build has found no OpenSSL.
#include "tls.h"

namespace nanolith::redis {

Result<void> check_tls(const Address& /*address*/) {
    return fail(NL_ERROR_UNSUPPORTED,
                "the address of the shared store begins with rediss://, and this library was built without OpenSSL");
}

Result<std::unique_ptr<Channel>> open_tls(const Address& address, int /*socket*/, Clock::time_point /*deadline*/) {
    return check_tls(address).error();
}

}  // namespace nanolith::redis
