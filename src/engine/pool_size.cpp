#include "engine/pool_size.h"

#include <algorithm>
#include <limits>

#include "base/result.h"

namespace nanolith {
namespace {

constexpr int64_t kContextsByDefault = 16;  // by default a pool has room for this many contexts of full length
constexpr double kShareByDefault = 0.5;     // but takes no more than this share of the memory that the weights leave

}  // namespace

int64_t page_bytes(const ModelSpec& spec, int32_t page_size, DType kv_dtype) {
    return int64_t{2} * spec.num_layers * spec.num_kv_heads * page_size * spec.head_dim *
           static_cast<int64_t>(dtype_bytes(kv_dtype));
}

Result<int32_t> choose_num_pages(const PoolRequest& request) {
    // Slots (page * page_size + offset) are int32_t.
    const int64_t most = std::numeric_limits<int32_t>::max() / request.page_size;
    const int64_t left = std::max<int64_t>(0, static_cast<int64_t>(request.memory) - request.weight_bytes);
    if (request.wanted > most)
        return fail(NL_ERROR_INVALID_ARGUMENT, "num_pages is ", request.wanted, ": expected at most ", most,
                    " for pages of ", request.page_size, " tokens");
    if (request.wanted == 0) {
        const auto affordable = static_cast<int64_t>(kShareByDefault * static_cast<double>(left)) / request.page_bytes;
        const int64_t useful = std::min(most, kContextsByDefault * request.pages_per_context);
        return static_cast<int32_t>(std::clamp<int64_t>(affordable, 1, useful));
    }
    if (request.wanted > left / request.page_bytes)
        return fail(NL_ERROR_OUT_OF_MEMORY, "num_pages is ", request.wanted, " of ", request.page_bytes,
                    " bytes each: the device has ", left, " bytes left beside the weights");
    return static_cast<int32_t>(request.wanted);
}

}  // namespace nanolith
