#include <cmath>

#include "api/ops_check.h"
#include "backend/page_size.h"

using namespace nanolith;
using namespace nanolith::api;

namespace {

constexpr int32_t kMaxHeads = 65536;
constexpr int32_t kMaxHeadDim = 256;
constexpr int32_t kMaxPosition = 1 << 24;

// The body of every setter: set(), which checks its values before it changes anything, after a check of the handle.
template <typename Set>
nl_status with_options(nl_attention_options* options, const Set& set) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(options, "options"));
        return set();
    });
}

}  // namespace

extern "C" {

nl_status nl_attention_options_create(nl_attention_options** options) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(options, "options"));
        *options = new nl_attention_options;
        return {};
    });
}

void nl_attention_options_free(nl_attention_options* options) {
    drop(options);
}

nl_status nl_attention_options_set_heads(nl_attention_options* options, int32_t num_heads, int32_t num_kv_heads) {
    return with_options(options, [&]() -> Result<void> {
        NL_TRY(check_range("num_heads", num_heads, 1, kMaxHeads));
        NL_TRY(check_range("num_kv_heads", num_kv_heads, 1, kMaxHeads));
        if (num_heads % num_kv_heads != 0)
            return fail(NL_ERROR_INVALID_ARGUMENT, "num_heads is ", num_heads,
                        ": expected a multiple of num_kv_heads = ", num_kv_heads);
        options->spec.num_heads = num_heads;
        options->spec.num_kv_heads = num_kv_heads;
        return {};
    });
}

nl_status nl_attention_options_set_head_dim(nl_attention_options* options, int32_t head_dim) {
    return with_options(options, [&]() -> Result<void> {
        if (head_dim < 2 || head_dim > kMaxHeadDim || head_dim % 2 != 0)
            return fail(NL_ERROR_INVALID_ARGUMENT, "head_dim is ", head_dim, ": expected an even number from 2 to ",
                        kMaxHeadDim);
        options->spec.head_dim = head_dim;
        return {};
    });
}

nl_status nl_attention_options_set_page_size(nl_attention_options* options, int32_t page_size) {
    return with_options(options, [&]() -> Result<void> {
        NL_TRY(check_page_size(page_size));
        options->spec.page_size = page_size;
        return {};
    });
}

nl_status nl_attention_options_set_dtype(nl_attention_options* options, int32_t dtype) {
    return with_options(options, [&]() -> Result<void> {
        NL_ASSIGN(options->spec.dtype, check_dtype("dtype", dtype));
        return {};
    });
}

nl_status nl_attention_options_set_kv_dtype(nl_attention_options* options, int32_t kv_dtype) {
    return with_options(options, [&]() -> Result<void> {
        const auto known = dtype_of(kv_dtype);
        if (!known && kv_dtype != NL_DTYPE_AUTO)
            return fail(NL_ERROR_INVALID_ARGUMENT, "kv_dtype is ", kv_dtype,
                        ": expected NL_DTYPE_AUTO, F32, F16, BF16 or F8_E4M3");
        options->kv_dtype = known;
        return {};
    });
}

nl_status nl_attention_options_set_kv_scales(nl_attention_options* options, float k_scale, float v_scale) {
    return with_options(options, [&]() -> Result<void> {
        NL_TRY(check_kv_scales(k_scale, v_scale));
        options->k_scale = k_scale;
        options->v_scale = v_scale;
        return {};
    });
}

nl_status nl_attention_options_set_scale(nl_attention_options* options, float scale) {
    return with_options(options, [&]() -> Result<void> {
        if (!std::isfinite(scale))
            return fail(NL_ERROR_INVALID_ARGUMENT, "scale is ", scale, ": expected a finite number");
        options->spec.scale = scale;
        return {};
    });
}

nl_status nl_attention_options_set_causal(nl_attention_options* options, int32_t causal) {
    return with_options(options, [&]() -> Result<void> {
        NL_TRY(check_range("causal", causal, 0, 1));
        options->spec.causal = causal == 1;
        return {};
    });
}

nl_status nl_attention_options_set_window(nl_attention_options* options, int32_t window) {
    return with_options(options, [&]() -> Result<void> {
        NL_TRY(check_range("window", window, 0, INT32_MAX));
        options->spec.window = window;
        return {};
    });
}

nl_status nl_attention_options_set_softcap(nl_attention_options* options, float softcap) {
    return with_options(options, [&]() -> Result<void> {
        if (!std::isfinite(softcap) || softcap < 0)
            return fail(NL_ERROR_INVALID_ARGUMENT, "softcap is ", softcap, ": expected a finite number of at least 0");
        options->spec.softcap = softcap;
        return {};
    });
}

nl_status nl_attention_options_set_rope(nl_attention_options* options, const float* frequencies, size_t count,
                                        int32_t max_position) {
    return with_options(options, [&]() -> Result<void> {
        NL_ASSIGN(const auto values, check_array(frequencies, count, "frequencies", "count"));
        if (count > kMaxHeadDim / 2)
            return fail(NL_ERROR_INVALID_ARGUMENT, "count is ", count, ": expected at most ", kMaxHeadDim / 2);
        NL_TRY(check_range("max_position", max_position, count == 0 ? 0 : 1, count == 0 ? 0 : kMaxPosition));
        for (size_t i = 0; i < count; ++i) {
            if (!std::isfinite(values[i]))
                return fail(NL_ERROR_INVALID_ARGUMENT, "frequencies[", i, "] is ", values[i],
                            ": expected a finite number");
        }
        options->spec.rope_frequencies.assign(values.begin(), values.end());
        options->spec.max_position = max_position;
        return {};
    });
}

}  // extern "C"
