// nl_attention_with_cache refuses what does not fit, names it, and leaves the cache as it was.
#include <cmath>

#include "ops/device.h"

namespace nanolith::test {
namespace {

constexpr int32_t kHeads = 4;
constexpr int32_t kKvHeads = 2;
constexpr int32_t kDim = 64;
constexpr int64_t kMaxLength = 20;

class WithCacheArguments : public OnDevice {
  protected:
    void SetUp() override {
        OnDevice::SetUp();
        if (IsSkipped()) return;
        options_ = make_options(kHeads, kKvHeads, kDim, 16, NL_DTYPE_F16);
        std::vector<uint16_t> values(size_t{2} * kHeads * 32 * kDim);
        for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint16_t>(0x3000 + i * 37 % 0x800);
        tensor_ = Buffer::of(device(), values);
        out_ = Buffer::of(device(), values);
    }
    void TearDown() override { nl_kv_cache_free(cache_); }

    // A good call of `batch` sequences and `num_tokens` tokens unless the members say otherwise.
    nl_status call(int64_t batch, int64_t num_tokens, const int64_t* counts = nullptr) {
        const nl_with_cache_arguments arguments = view(batch, num_tokens, counts);
        return nl_attention_with_cache(ops(), options_.get(), &arguments, &cache_);
    }
    nl_with_cache_arguments view(int64_t batch, int64_t num_tokens, const int64_t* counts = nullptr) const {
        return {.struct_size = sizeof(nl_with_cache_arguments),
                .batch = batch,
                .num_tokens = num_tokens,
                .counts = counts,
                .q = {q_, q_strides_},
                .k = {k_, nullptr},
                .v = {v_, nullptr},
                .out = {out_pointer_, out_strides_},
                .update = update_,
                .max_length = max_length_};
    }
    void use_tensors() {
        q_ = k_ = v_ = tensor_.data();
        out_pointer_ = out_.data();
    }
    void make_cache(int64_t batch, int64_t length) {
        use_tensors();
        NL_CHECK(call(batch, length));
    }
    std::vector<int64_t> lengths() const {
        std::vector<int64_t> held(8);
        size_t count = 0;
        NL_EXPECT(nl_kv_cache_lengths(cache_, held.data(), held.size(), &count));
        held.resize(count);
        return held;
    }

    AttentionOptions options_;
    Buffer tensor_;
    Buffer out_;
    nl_kv_cache* cache_ = nullptr;
    int64_t max_length_ = kMaxLength;
    int32_t update_ = 1;
    const void* q_ = nullptr;
    const void* k_ = nullptr;
    const void* v_ = nullptr;
    void* out_pointer_ = nullptr;
    const int64_t* q_strides_ = nullptr;
    const int64_t* out_strides_ = nullptr;
};
NL_ON_EVERY_DEVICE(WithCacheArguments);

// What a query without keys sees of the cache: changes if any of its tokens does.
TEST_P(WithCacheArguments, WritingPastTheMaximumChangesNothing) {
    make_cache(2, 18);
    const int64_t one_more[] = {0, 1};
    NL_CHECK(call(2, 1, one_more));
    ASSERT_EQ(lengths(), (std::vector<int64_t>{18, 19}));

    const auto seen = [&] {
        const void* const k = k_;
        k_ = v_ = nullptr;
        NL_EXPECT(call(2, 1));
        k_ = v_ = k;
        return out_.download();
    };
    const std::vector<std::byte> before = seen();
    // Other numbers than those that the cache holds.
    const Buffer other = Buffer::of(device(), std::vector<uint16_t>(size_t{2} * kKvHeads * 32 * kDim, 0x3C00));
    k_ = v_ = other.data();
    EXPECT_FAILS(NL_ERROR_CONTEXT_FULL,
                 "sequence 1 holds 19 tokens and would get 2 more: expected at most max_length = 20", call(2, 2));
    EXPECT_FAILS(NL_ERROR_CONTEXT_FULL, "sequence 0 holds 18", call(2, 3));
    update_ = 0;
    EXPECT_FAILS(NL_ERROR_CONTEXT_FULL, "sequence 1", call(2, 2));
    update_ = 1;
    EXPECT_EQ(lengths(), (std::vector<int64_t>{18, 19}));
    EXPECT_EQ(seen(), before);
    const int64_t fits[] = {2, 1};
    NL_CHECK(call(2, 2, fits));
    EXPECT_EQ(lengths(), (std::vector<int64_t>{20, 20}));
    EXPECT_FAILS(NL_ERROR_CONTEXT_FULL, "sequence 0 holds 20", call(2, 1));
}

TEST_P(WithCacheArguments, FirstCallPastTheMaximumMakesNoCache) {
    use_tensors();
    EXPECT_FAILS(NL_ERROR_CONTEXT_FULL, "max_length = 20", call(1, 21));
    EXPECT_EQ(cache_, nullptr);
    update_ = 0;
    EXPECT_FAILS(NL_ERROR_CONTEXT_FULL, "max_length = 20", call(1, 21));
    EXPECT_EQ(cache_, nullptr);
}

TEST_P(WithCacheArguments, NullAndSizes) {
    use_tensors();
    const nl_with_cache_arguments good = view(1, 1);
    EXPECT_INVALID("ops", nl_attention_with_cache(nullptr, options_.get(), &good, &cache_));
    EXPECT_INVALID("options", nl_attention_with_cache(ops(), nullptr, &good, &cache_));
    for (const int64_t batch : {INT64_MIN, int64_t{-1}, int64_t{0}, INT64_MAX})
        EXPECT_INVALID("call.batch is " + std::to_string(batch), call(batch, 1));
    for (const int64_t tokens : {INT64_MIN, int64_t{-1}, int64_t{0}, INT64_MAX})
        EXPECT_INVALID("call.num_tokens is " + std::to_string(tokens), call(1, tokens));
    EXPECT_INVALID("call.num_tokens is 16777216", call(2, 16777216));
    for (const int64_t length : {INT64_MIN, int64_t{0}, INT64_MAX}) {
        max_length_ = length;
        EXPECT_INVALID("call.max_length is " + std::to_string(length), call(1, 1));
    }
    max_length_ = int64_t{1} << 30;
    EXPECT_INVALID("call.max_length is 1073741824 for a batch of 2", call(2, 1));
    max_length_ = kMaxLength;
    for (const int32_t update : {-1, 2, INT32_MAX}) {
        update_ = update;
        EXPECT_INVALID("call.update is", call(1, 1));
    }
    update_ = 1;
    q_ = nullptr;
    EXPECT_INVALID("call.q.data is NULL", call(1, 1));
    use_tensors();
    k_ = nullptr;
    EXPECT_INVALID("call.k.data is NULL", call(1, 1));
    use_tensors();
    v_ = nullptr;
    EXPECT_INVALID("call.v.data is NULL", call(1, 1));
    use_tensors();
    out_pointer_ = nullptr;
    EXPECT_INVALID("call.out.data is NULL", call(1, 1));
    use_tensors();
    q_ = static_cast<const std::byte*>(tensor_.data()) + 1;
    EXPECT_INVALID("call.q.data is 0x", call(1, 1));
    use_tensors();
    k_ = v_ = nullptr;
    EXPECT_INVALID("queries without keys and values", call(1, 1));
    use_tensors();
    for (const int64_t count : {INT64_MIN, int64_t{-1}, int64_t{2}, INT64_MAX}) {
        const int64_t counts[] = {0, count};
        EXPECT_INVALID("call.counts[1] is " + std::to_string(count), call(2, 1, counts));
    }
    EXPECT_EQ(cache_, nullptr);
}

TEST_P(WithCacheArguments, Struct) {
    use_tensors();
    expect_struct_checked("call", view(1, 1), [&](const nl_with_cache_arguments* arguments) {
        const nl_status status = nl_attention_with_cache(ops(), options_.get(), arguments, &cache_);
        EXPECT_EQ(cache_ != nullptr, status == NL_OK);
        return status;
    });
    EXPECT_EQ(lengths(), (std::vector<int64_t>{1}));
}

// A member that is not named is zero: no counts, contiguous tensors, and nothing stays.
TEST_P(WithCacheArguments, ZeroIsTheDefault) {
    make_cache(1, 2);
    const auto attend = [&](const nl_with_cache_arguments& arguments) {
        out_.upload(std::vector<std::byte>(out_.download().size()));
        NL_EXPECT(nl_attention_with_cache(ops(), options_.get(), &arguments, &cache_));
        return out_.download();
    };
    auto least = sized<nl_with_cache_arguments>();
    least.batch = 1;
    least.num_tokens = 3;
    least.q.data = least.k.data = least.v.data = tensor_.data();
    least.out.data = out_.data();
    least.max_length = kMaxLength;
    const std::vector<std::byte> found = attend(least);
    EXPECT_EQ(lengths(), (std::vector<int64_t>{2}));
    const int64_t all[] = {3};
    const int64_t strides[] = {kHeads * 3 * kDim, 3 * kDim, kDim};
    const int64_t kv_strides[] = {kKvHeads * 3 * kDim, 3 * kDim, kDim};
    nl_with_cache_arguments spelled = least;
    spelled.counts = all;
    spelled.q.strides = spelled.out.strides = strides;
    spelled.k.strides = spelled.v.strides = kv_strides;
    spelled.update = 1;
    EXPECT_EQ(attend(spelled), found);
    EXPECT_EQ(lengths(), (std::vector<int64_t>{5}));
}

TEST_P(WithCacheArguments, Strides) {
    use_tensors();
    for (const int64_t bad : {INT64_MIN, int64_t{-64}, INT64_MAX}) {
        for (size_t i = 0; i < 3; ++i) {
            int64_t strides[3] = {kHeads * 4 * kDim, 4 * kDim, kDim};
            strides[i] = bad;
            q_strides_ = strides;
            EXPECT_INVALID("call.q.strides[" + std::to_string(i) + "] is " + std::to_string(bad), call(2, 4));
            q_strides_ = nullptr;
            out_strides_ = strides;
            EXPECT_INVALID("call.out.strides[" + std::to_string(i) + "] is " + std::to_string(bad), call(2, 4));
            out_strides_ = nullptr;
        }
    }
    const int64_t overlapping[3] = {kHeads * 4 * kDim, 4 * kDim, kDim - 8};
    out_strides_ = overlapping;
    EXPECT_INVALID("call.out.strides[2] is 56", call(2, 4));
    EXPECT_EQ(cache_, nullptr);
}

TEST_P(WithCacheArguments, AnotherShapeThanTheCaches) {
    make_cache(2, 3);
    nl_kv_cache* const made = cache_;
    EXPECT_INVALID("call.batch is 1: expected 2", call(1, 1));
    max_length_ = 21;
    EXPECT_INVALID("call.max_length is 21: expected 20", call(2, 1));
    max_length_ = kMaxLength;
    const auto with = [&](AttentionOptions options, const char* text) {
        options_ = std::move(options);
        EXPECT_INVALID(text, call(2, 1));
    };
    with(make_options(8, kKvHeads, kDim, 16, NL_DTYPE_F16), "num_heads is 8: expected 4");
    with(make_options(kHeads, 4, kDim, 16, NL_DTYPE_F16), "num_kv_heads is 4: expected 2");
    with(make_options(kHeads, kKvHeads, 80, 16, NL_DTYPE_F16), "head_dim is 80: expected 64");
    with(make_options(kHeads, kKvHeads, kDim, 32, NL_DTYPE_F16), "page_size is 32: expected 16");
    with(make_options(kHeads, kKvHeads, kDim, 16, NL_DTYPE_BF16), "dtype");
    with(make_options(kHeads, kKvHeads, kDim, 16, NL_DTYPE_F16, NL_DTYPE_F8_E4M3), "kv_dtype");
    AttentionOptions scaled = make_options(kHeads, kKvHeads, kDim, 16, NL_DTYPE_F16);
    NL_CHECK(nl_attention_options_set_kv_scales(scaled.get(), 2, 1));
    with(std::move(scaled), "kv_scales");
    AttentionOptions rotated = make_options(kHeads, kKvHeads, kDim, 16, NL_DTYPE_F16);
    const std::vector<float> frequencies(kDim / 2, 0.5F);
    NL_CHECK(nl_attention_options_set_rope(rotated.get(), frequencies.data(), frequencies.size(), 100));
    with(std::move(rotated), "rope");
    options_ = make_options(kHeads, kKvHeads, kDim, 16, NL_DTYPE_F16);
    EXPECT_EQ(cache_, made);
    EXPECT_EQ(lengths(), (std::vector<int64_t>{3, 3}));
    NL_CHECK(call(2, 1));
}

TEST_P(WithCacheArguments, RotationMustReachTheMaximum) {
    use_tensors();
    const std::vector<float> frequencies(kDim / 2, 0.5F);
    NL_CHECK(nl_attention_options_set_rope(options_.get(), frequencies.data(), frequencies.size(), 19));
    EXPECT_INVALID("call.max_length is 20: expected at most the rotation's max_position = 19", call(1, 1));
}

TEST_P(WithCacheArguments, CacheFunctions) {
    make_cache(2, 3);
    int64_t value = 0;
    size_t count = 0;
    EXPECT_INVALID("cache", nl_kv_cache_query(nullptr, NL_KV_CACHE_BYTES, &value));
    EXPECT_INVALID("value", nl_kv_cache_query(cache_, NL_KV_CACHE_BYTES, nullptr));
    for (const int32_t fact : {INT32_MIN, 0, 6, INT32_MAX})
        EXPECT_INVALID("fact is", nl_kv_cache_query(cache_, fact, &value));
    EXPECT_INVALID("cache", nl_kv_cache_lengths(nullptr, &value, 1, &count));
    EXPECT_INVALID("count", nl_kv_cache_lengths(cache_, &value, 1, nullptr));
    EXPECT_FAILS(NL_ERROR_BUFFER_TOO_SMALL, "capacity is 1", nl_kv_cache_lengths(cache_, &value, 1, &count));
    EXPECT_EQ(count, 2U);
    EXPECT_INVALID("cache", nl_kv_cache_truncate(nullptr, 0, 0));
    for (const int64_t sequence : {INT64_MIN, int64_t{-1}, int64_t{2}, INT64_MAX})
        EXPECT_INVALID("sequence is", nl_kv_cache_truncate(cache_, sequence, 0));
    for (const int64_t length : {INT64_MIN, int64_t{-1}, int64_t{4}, INT64_MAX})
        EXPECT_INVALID("length is", nl_kv_cache_truncate(cache_, 0, length));
    EXPECT_EQ(lengths(), (std::vector<int64_t>{3, 3}));
    nl_kv_cache_free(nullptr);
}

TEST_P(WithCacheArguments, MoreMemoryThanThereIs) {
    use_tensors();
    options_ = make_options(4096, 4096, 256, 256, NL_DTYPE_F32);
    max_length_ = int64_t{1} << 30;
    const Buffer large(device(), std::vector<std::byte>(size_t{4096} * 256 * 4));
    q_ = k_ = v_ = large.data();
    const Buffer result(device(), std::vector<std::byte>(size_t{4096} * 256 * 4));
    out_pointer_ = result.data();
    const nl_status status = call(1, 1);  // 2^30 tokens of 8 MiB
    EXPECT_EQ(status, NL_ERROR_OUT_OF_MEMORY) << nl_last_error();
    EXPECT_EQ(cache_, nullptr);
}

}  // namespace
}  // namespace nanolith::test
