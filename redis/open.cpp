// The function that libnanolith_redis.so exports.
#include <exception>
#include <memory>
#include <new>
#include <string>

#include "redis_store.h"
#include "store/shared_store.h"
#include "tls.h"

namespace nanolith::redis {
namespace {

Result<std::unique_ptr<SharedStore>> open_store(const char* version, const std::string& text) {
    const std::string own = std::to_string(NL_VERSION_MAJOR) + "." + std::to_string(NL_VERSION_MINOR) + "." +
                            std::to_string(NL_VERSION_PATCH);
    if (version == nullptr || own != version) {
        return fail(NL_ERROR_NOT_FOUND, "libnanolith_redis.so has version ", own, ": expected ",
                    version == nullptr ? "none" : version, ", the version of libnanolith.so");
    }
    NL_ASSIGN(Address address, parse_address(text));
    if (address.encrypted) NL_TRY(check_tls(address));
    return std::unique_ptr<SharedStore>(std::make_unique<RedisStore>(std::move(address)));
}

}  // namespace
}  // namespace nanolith::redis

// Catches what open_store() throws: no exception may cross into the library that loaded this one.
extern "C" __attribute__((visibility("default"))) void nl_shared_store_open(
    const char* version, const std::string& address, nanolith::Result<std::unique_ptr<nanolith::SharedStore>>& result) {
    try {
        result = nanolith::redis::open_store(version, address);
    } catch (const std::bad_alloc&) {
        result = nanolith::fail(NL_ERROR_OUT_OF_MEMORY, "host memory is exhausted");
    } catch (const std::exception& error) {
        result = nanolith::fail(NL_ERROR_INTERNAL, error.what());
    }
}
