#include <unordered_set>
#include <vector>

#include "api/guard.h"
#include "api/handles.h"

using namespace nanolith;
using namespace nanolith::api;

namespace {

Result<std::vector<Cache*>> check_caches(std::span<nl_cache* const> handles) {
    std::vector<Cache*> caches;
    std::unordered_set<const nl_cache*> seen;
    for (size_t i = 0; i < handles.size(); ++i) {
        const auto refused = [i](const char* why) {
            return fail(NL_ERROR_INVALID_ARGUMENT, "caches[", i, "] ", why)
                .with(NL_DETAIL_INDEX, static_cast<int64_t>(i));
        };
        if (handles[i] == nullptr) return refused("is NULL: expected a cache");
        if (!handles[i]->home.is_this())
            return refused("was made before this process was forked, by its parent: expected one made in this process");
        if (handles[i]->engine != handles[0]->engine)
            return refused("is of another engine than caches[0]: expected one engine");
        if (!seen.insert(handles[i]).second) return refused("stands in the list twice: expected different caches");
        caches.push_back(handles[i]->cache.get());
    }
    return caches;
}

}  // namespace

extern "C" nl_status nl_decode_step(nl_cache* const* caches, size_t num_caches, int32_t* tokens) {
    return guarded([&]() -> Result<void> {
        NL_ASSIGN(const auto handles, check_array(caches, num_caches, "caches", "num_caches"));
        NL_ASSIGN(const auto out, check_array(tokens, num_caches, "tokens", "num_caches"));
        NL_ASSIGN(const auto list, check_caches(handles));
        if (list.empty()) return {};
        // The engine outlives the call even if another thread frees the last handle of a cache meanwhile.
        const std::shared_ptr<Engine> engine = handles[0]->engine;
        return engine->decode_step(list, out);
    });
}
