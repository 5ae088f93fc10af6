#include "model/forward.h"

namespace nanolith {

Forward make_forward(int32_t num_layers) {
    return [num_layers](Executor& executor) -> Result<void> {
        NL_TRY(executor.embed());
        for (int32_t layer = 0; layer < num_layers; ++layer) {
            NL_TRY(executor.attention_input(layer));
            NL_TRY(executor.attention(layer));
            NL_TRY(executor.attention_output(layer));
            NL_TRY(executor.mlp_input(layer));
            NL_TRY(executor.mlp_output(layer));
        }
        return executor.head();
    };
}

}  // namespace nanolith
