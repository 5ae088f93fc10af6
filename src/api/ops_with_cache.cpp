#include <algorithm>

#include "api/ops_check.h"

using namespace nanolith;
using namespace nanolith::api;

namespace {

constexpr int64_t kMaxLength = int64_t{1} << 30;

// A tensor [batch, heads, tokens, head_dim] as rows: row b * num_tokens + i is token i of sequence b. Tensor is
// nl_tensor or nl_const_tensor; the shape's rows don't matter.
template <typename View, typename Tensor>
Result<View> check_tensor(const char* name, const nl_with_cache_arguments& of, const TensorShape& shape,
                          const Tensor& tensor, int64_t least) {
    NL_TRY(check_data(name, shape, tensor.data));
    const int64_t num_tokens = of.num_tokens;
    const int64_t contiguous[3] = {shape.num_heads * num_tokens * shape.size, num_tokens * shape.size, shape.size};
    const int64_t* const strides = tensor.strides != nullptr ? tensor.strides : contiguous;
    NL_TRY(check_stride(name, ".strides[0]", strides[0], of.batch, least, shape));
    NL_TRY(check_stride(name, ".strides[1]", strides[1], shape.num_heads, least, shape));
    NL_TRY(check_stride(name, ".strides[2]", strides[2], num_tokens, least, shape));
    View view{tensor.data, num_tokens > 1 ? strides[2] : strides[0], strides[1]};
    if (of.batch > 1 && num_tokens > 1 && strides[0] != num_tokens * strides[2]) {
        view.block_stride = strides[0];
        view.rows_per_block = static_cast<int32_t>(num_tokens);
    }
    return view;
}

Result<void> check_same(const char* name, int64_t value, int64_t expected) {
    if (value == expected) return {};
    return fail(NL_ERROR_INVALID_ARGUMENT, name, " is ", value, ": expected ", expected,
                ", as the cache was made with");
}

Result<void> check_same_storage(const KvCacheShape& wanted, const KvCacheShape& made) {
    const AttentionSpec& a = wanted.spec;
    const AttentionSpec& b = made.spec;
    NL_TRY(check_same("call.batch", wanted.batch, made.batch));
    NL_TRY(check_same("call.max_length", wanted.max_length, made.max_length));
    NL_TRY(check_same("num_heads", a.num_heads, b.num_heads));
    NL_TRY(check_same("num_kv_heads", a.num_kv_heads, b.num_kv_heads));
    NL_TRY(check_same("head_dim", a.head_dim, b.head_dim));
    NL_TRY(check_same("page_size", a.page_size, b.page_size));
    const bool same = a.dtype == b.dtype && a.kv_dtype == b.kv_dtype && a.rope_frequencies == b.rope_frequencies &&
                      a.max_position == b.max_position && wanted.k_scale == made.k_scale &&
                      wanted.v_scale == made.v_scale;
    if (same) return {};
    return fail(NL_ERROR_INVALID_ARGUMENT,
                "options differ in dtype, kv_dtype, kv_scales or rope: expected those that the cache was made with");
}

Result<void> check_rotation(const KvCacheShape& shape) {
    if (shape.spec.rope_frequencies.empty() || shape.max_length <= shape.spec.max_position) return {};
    return fail(NL_ERROR_INVALID_ARGUMENT, "call.max_length is ", shape.max_length,
                ": expected at most the rotation's max_position = ", shape.spec.max_position);
}

Result<void> check_counts(const CachedAttention& call) {
    for (size_t i = 0; i < call.counts.size(); ++i) {
        if (call.counts[i] < 0 || call.counts[i] > call.num_tokens)
            return fail(NL_ERROR_INVALID_ARGUMENT, "call.counts[", i, "] is ", call.counts[i],
                        ": expected 0 to call.num_tokens = ", call.num_tokens);
    }
    return {};
}

// Attends with the caller's cache, with a new one that is kept on success, or with one for this call alone.
Result<void> attend(const std::shared_ptr<OpsDevice>& device, KvCacheShape shape, const CachedAttention& call,
                    nl_kv_cache** cache) {
    if (cache != nullptr && *cache != nullptr) {
        if ((*cache)->device != device)
            return fail(NL_ERROR_INVALID_ARGUMENT, "cache is of another nl_ops: expected one that this one made");
        const std::lock_guard lock(device->mutex);
        NL_TRY(check_same_storage(shape, (*cache)->cache->shape()));
        return (*cache)->cache->attend(*device->kernels, call);
    }
    const bool keep = cache != nullptr && call.update;
    if (cache == nullptr) shape.max_length = call.num_tokens;
    NL_TRY(check_rotation(shape));
    auto made = std::make_unique<nl_kv_cache>(device);
    {
        const std::lock_guard lock(device->mutex);
        KvCacheShape room = shape;
        if (!keep) room.max_length = std::min(shape.max_length, call.num_tokens);
        NL_ASSIGN(made->cache, KvCache::create(*device->kernels, room));
        NL_TRY(made->cache->attend(*device->kernels, call));
    }
    if (keep) *cache = made.release();
    return {};
}

// Checks everything of the call but its tensors. The batch size is checked before `counts` is read, which has as many
// elements.
Result<CachedAttention> check_numbers(const nl_with_cache_arguments& of, const AttentionSpec& spec) {
    NL_TRY(check_range("call.batch", of.batch, 1, KvCache::kMaxRows));
    NL_TRY(check_range("call.num_tokens", of.num_tokens, 1, KvCache::kMaxRows / of.batch));
    NL_TRY(check_range("call.update", of.update, 0, 1));
    CachedAttention call;
    call.spec = spec;
    call.num_tokens = of.num_tokens;
    if (of.counts != nullptr) call.counts = {of.counts, static_cast<size_t>(of.batch)};
    call.update = of.update == 1;
    NL_TRY(check_counts(call));
    return call;
}

Result<void> check_tensors(const nl_with_cache_arguments& of, size_t alignment, CachedAttention& call) {
    const AttentionSpec& spec = call.spec;
    const TensorShape heads{spec.dtype, 0, spec.num_heads, spec.head_dim, alignment};
    const TensorShape kv_heads{spec.dtype, 0, spec.num_kv_heads, spec.head_dim, alignment};
    if ((of.k.data == nullptr) != (of.v.data == nullptr))
        return fail(NL_ERROR_INVALID_ARGUMENT, of.k.data == nullptr ? "call.k" : "call.v",
                    ".data is NULL and the other is not: expected both call.k.data and call.v.data, or neither");
    NL_ASSIGN(call.q, check_tensor<ConstHeadRows>("call.q", of, heads, of.q, 0));
    if (of.k.data != nullptr) {
        NL_ASSIGN(call.k, check_tensor<ConstHeadRows>("call.k", of, kv_heads, of.k, 0));
        NL_ASSIGN(call.v, check_tensor<ConstHeadRows>("call.v", of, kv_heads, of.v, 0));
    }
    NL_ASSIGN(call.out, check_tensor<MutableHeadRows>("call.out", of, heads, of.out, spec.head_dim));
    return {};
}

}  // namespace

extern "C" {

nl_status nl_attention_with_cache(nl_ops* ops, const nl_attention_options* options, const nl_with_cache_arguments* call,
                                  nl_kv_cache** cache) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(ops, "ops"));
        if (cache != nullptr && *cache != nullptr) NL_TRY(check_handle(*cache, "*cache"));
        NL_ASSIGN(const AttentionSpec spec, check_options(options));
        NL_TRY(check_struct("call", call));
        NL_ASSIGN(auto checked, check_numbers(*call, spec));
        if (cache != nullptr) NL_TRY(check_range("call.max_length", call->max_length, 1, kMaxLength));
        NL_TRY(check_tensors(*call, ops->device->kernels->alignment(), checked));
        const KvCacheShape shape{spec, options->k_scale, options->v_scale, call->batch, call->max_length};
        return attend(ops->device, shape, checked, cache);
    });
}

void nl_kv_cache_free(nl_kv_cache* cache) {
    free_handle(cache);
}

nl_status nl_kv_cache_query(const nl_kv_cache* cache, int32_t fact, int64_t* value) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(cache, "cache"));
        NL_TRY(check_pointer(value, "value"));
        const KvCacheShape& shape = cache->cache->shape();
        switch (fact) {
            case NL_KV_CACHE_BATCH:
                *value = shape.batch;
                return {};
            case NL_KV_CACHE_MAX_LENGTH:
                *value = shape.max_length;
                return {};
            case NL_KV_CACHE_PAGE_SIZE:
                *value = shape.spec.page_size;
                return {};
            case NL_KV_CACHE_PAGES:
                *value = shape.num_pages();
                return {};
            case NL_KV_CACHE_BYTES:
                *value = cache->cache->bytes();
                return {};
            default:
                return fail(NL_ERROR_INVALID_ARGUMENT, "fact is ", fact, ": expected one of NL_KV_CACHE_*");
        }
    });
}

nl_status nl_kv_cache_lengths(const nl_kv_cache* cache, int64_t* lengths, size_t capacity, size_t* count) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(cache, "cache"));
        NL_TRY(check_pointer(count, "count"));
        const std::lock_guard lock(cache->device->mutex);
        return give(cache->cache->lengths(), lengths, capacity, count);
    });
}

nl_status nl_kv_cache_truncate(nl_kv_cache* cache, int64_t sequence, int64_t length) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(cache, "cache"));
        const std::lock_guard lock(cache->device->mutex);
        const auto lengths = cache->cache->lengths();
        NL_TRY(check_range("sequence", sequence, 0, static_cast<int64_t>(lengths.size()) - 1));
        NL_TRY(check_range("length", length, 0, lengths[sequence]));
        cache->cache->truncate(sequence, length);
        return {};
    });
}

}  // extern "C"
