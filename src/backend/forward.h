// The order of a decoder's operations: the one forward pass, which serves every architecture and every device.
#pragma once

#include <cstdint>

#include "backend/phase.h"
#include "base/result.h"

namespace nanolith {

// `Device` has the operations, each over all rows of its current step. The residual stream x is [rows, hidden] float32;
// norms of what is added stand where the layer has such weights; with experts, mlp_input() chooses them. It begins
// with the tokens' embeddings, which the device has made ready.
//
//   attention_input(layer)    RMSNorm, QKV, bias, QK-norm, RoPE on keys, write to pages
//   attention(layer)          over segments, queries rotated for each
//   attention_output(layer)   x += norm(W_o a)
//   mlp_input(layer)          RMSNorm, h = activation(W_gate x) * (W_up x)
//   mlp_output(layer)         x += norm(W_down h)
//   head()                    final norm; of output rows logits and draw
//
// has_results() tells whether the step has output rows or state rows. Where it has none, as the slices of a chunk's
// prefill, only the keys and values of the last layer are read by anybody, so that attention_input() is the last
// operation.
//
// `ended(phase)` is called after each of them, done or left out, and may fail too.
template <typename Device, typename Ended>
Result<void> forward(Device& device, int32_t num_layers, const Ended& ended) {
    for (int32_t layer = 0; layer < num_layers; ++layer) {
        const bool is_read = layer + 1 < num_layers || device.has_results();
        NL_TRY(device.attention_input(layer));
        NL_TRY(ended(Phase::attention_input));
        if (is_read) NL_TRY(device.attention(layer));
        NL_TRY(ended(Phase::attention));
        if (is_read) NL_TRY(device.attention_output(layer));
        NL_TRY(ended(Phase::attention_output));
        if (is_read) NL_TRY(device.mlp_input(layer));
        NL_TRY(ended(Phase::mlp_input));
        if (is_read) NL_TRY(device.mlp_output(layer));
        NL_TRY(ended(Phase::mlp_output));
    }
    if (device.has_results()) NL_TRY(device.head());
    return ended(Phase::head);
}

template <typename Device>
Result<void> forward(Device& device, int32_t num_layers) {
    return forward(device, num_layers, [](Phase) -> Result<void> { return {}; });
}

}  // namespace nanolith
