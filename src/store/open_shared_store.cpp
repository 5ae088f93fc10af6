// Finds libnanolith_redis.so and asks it for a shared store. Nothing else of the library knows of Redis.
#include "base/plugin.h"
#include "store/shared_store.h"

namespace nanolith {

Result<std::unique_ptr<SharedStore>> open_shared_store(const SharedStoreOptions& options) {
    const Error missing{NL_ERROR_NOT_FOUND, " is no shared store of this library: it does not export "};
    NL_ASSIGN(const PluginFunction open,
              find_in_plugin("libnanolith_redis.so", "the shared store", kSharedStoreOpenName, missing));
    return make_with<SharedStore, SharedStoreOpen>(open, own_version(), options);
}

}  // namespace nanolith
