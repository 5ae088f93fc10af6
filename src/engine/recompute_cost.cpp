#include "engine/recompute_cost.h"

#include <algorithm>

#include "backend/page_size.h"

namespace nanolith {

double recompute_cost(const ModelSpec& spec, const ChunkIdentity& identity, int32_t page_size) {
    const auto tokens = static_cast<double>(identity.tokens.size());
    double seen = (tokens + 1) / 2;  // by a token of the chunk, on average
    for (const auto& before : identity.before) seen += static_cast<double>(before->tokens.size());

    const double q_width = double{1} * spec.num_heads * spec.head_dim;
    const double kv_width = double{1} * spec.num_kv_heads * spec.head_dim;
    const double mlp_width = spec.experts.count > 0 ? double{1} * spec.experts.top_k * spec.experts.intermediate_size
                                                    : spec.intermediate_size;
    const double products = 2 * spec.hidden_size * (2 * q_width + 2 * kv_width + 3 * mlp_width);  // a layer, a token
    double attention = 0;                                                                         // all layers
    for (const LayerSpec& layer : spec.layers) {
        const double window = layer.window == 0 ? seen : std::min(seen, double{1} * layer.window);
        attention += 4 * q_width * window;
    }
    const double all_products = products * static_cast<double>(spec.layers.size());
    const auto pages = pages_for(static_cast<int64_t>(identity.tokens.size()), page_size);
    const double relative = all_products > 0 ? attention / all_products : 0;
    return (1 + relative) * tokens / (static_cast<double>(pages) * page_size);
}

}  // namespace nanolith
