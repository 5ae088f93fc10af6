// nl_attention_with_cache: conversations on plain tensors, against float64 over everything that was ever given.
#include <cmath>

#include "ops/paged_case.h"

namespace nanolith::test {
namespace {

// Sequences that grow call by call, and what they should attend to.
class Conversation {
  public:
    Conversation(const AttentionKind& kind, int64_t batch, int64_t max_length, Random& random)
        : kind_(kind), batch_(batch), max_length_(max_length), random_(random), spans_(static_cast<size_t>(batch)) {}

    // Tokens transposed in memory ([batch, tokens, heads, head_dim], as models make them) or not.
    void set_transposed(bool transposed) { transposed_ = transposed; }

    // One call with random tensors, and the comparison. counts may be empty; `cache` as the function takes it.
    void step(nl_ops* ops, const std::string& device, int64_t num_tokens, std::vector<int64_t> counts,
              nl_kv_cache** cache, bool update = true, bool with_keys = true);

    [[nodiscard]] std::vector<int64_t> lengths() const {
        std::vector<int64_t> lengths;
        for (const TokenSpan& span : spans_) lengths.push_back(span.length);
        return lengths;
    }
    void truncate(size_t sequence, int32_t length) {
        TokenSpan& span = spans_[sequence];
        span.length = length;
        span.keys.resize(static_cast<size_t>(length) * kv_elements());
        span.values.resize(span.keys.size());
    }

  private:
    struct Layout {
        int64_t strides[3];
        size_t elements;
        [[nodiscard]] size_t at(int64_t b, int64_t head, int64_t token) const {
            return static_cast<size_t>(b * strides[0] + head * strides[1] + token * strides[2]);
        }
    };
    [[nodiscard]] size_t kv_elements() const {
        return static_cast<size_t>(kind_.num_kv_heads) * static_cast<size_t>(kind_.head_dim);
    }
    [[nodiscard]] Layout layout(int64_t heads, int64_t tokens) const {
        const int64_t dim = kind_.head_dim;
        if (transposed_)
            return {{tokens * heads * dim, dim, heads * dim}, static_cast<size_t>(batch_ * tokens * heads * dim)};
        // Some room between sequences.
        return {{heads * tokens * dim + 64, tokens * dim, dim},
                static_cast<size_t>(batch_ * (heads * tokens * dim + 64))};
    }
    // Real tokens get random numbers, padding stays NaN.
    std::vector<std::byte> tensor(const Layout& to, int64_t heads, const std::vector<int64_t>& counts, double bound);
    void remember(const Layout& from, const std::vector<std::byte>& k, const std::vector<std::byte>& v,
                  const std::vector<int64_t>& counts);
    void compare(const Layout& at, const std::vector<std::byte>& q, const std::vector<std::byte>& out,
                 int64_t num_tokens, const std::vector<int64_t>& counts) const;

    AttentionKind kind_;
    int64_t batch_;
    int64_t max_length_;
    Random& random_;
    bool transposed_ = true;
    std::vector<TokenSpan> spans_;
};

std::vector<std::byte> Conversation::tensor(const Layout& to, int64_t heads, const std::vector<int64_t>& counts,
                                            double bound) {
    std::vector<std::byte> made = poison(kind_.dtype, to.elements);
    for (int64_t b = 0; b < batch_; ++b) {
        for (int64_t head = 0; head < heads; ++head) {
            for (int64_t token = 0; token < counts[b]; ++token) {
                for (int32_t i = 0; i < kind_.head_dim; ++i)
                    put(kind_.dtype, round_to(kind_.dtype, random_.uniform(-bound, bound)), made,
                        to.at(b, head, token) + static_cast<size_t>(i));
            }
        }
    }
    return made;
}

// Adds the new tokens, keys rotated for their positions, to what the reference sees.
void Conversation::remember(const Layout& from, const std::vector<std::byte>& k, const std::vector<std::byte>& v,
                            const std::vector<int64_t>& counts) {
    const std::vector<float> frequencies = rope_frequencies(kind_.head_dim);
    for (int64_t b = 0; b < batch_; ++b) {
        TokenSpan& span = spans_[b];
        for (int64_t token = 0; token < counts[b]; ++token, ++span.length) {
            for (int64_t head = 0; head < kind_.num_kv_heads; ++head) {
                for (int32_t i = 0; i < kind_.head_dim; ++i) {
                    const size_t at = from.at(b, head, token) + static_cast<size_t>(i);
                    span.keys.push_back(get(kind_.dtype, k, at));
                    span.values.push_back(round_to(kind_.kv_dtype, get(kind_.dtype, v, at)));
                }
                double* const key = span.keys.data() + span.keys.size() - static_cast<size_t>(kind_.head_dim);
                if (kind_.rotated) rotate_head(key, frequencies, span.length);
                for (int32_t i = 0; i < kind_.head_dim; ++i) key[i] = round_to(kind_.kv_dtype, key[i]);
            }
        }
    }
}

void Conversation::compare(const Layout& at, const std::vector<std::byte>& q, const std::vector<std::byte>& out,
                           int64_t num_tokens, const std::vector<int64_t>& counts) const {
    const auto dim = static_cast<size_t>(kind_.head_dim);
    for (int64_t b = 0; b < batch_; ++b) {
        const TokenSpan& span = spans_[b];
        const int64_t count = counts[b];
        for (int64_t head = 0; head < kind_.num_heads; ++head) {
            for (int64_t token = 0; token < num_tokens; ++token) {
                const size_t first = at.at(b, head, token);
                std::vector<double> query(dim);
                std::vector<double> expected(dim, 0);
                for (size_t i = 0; i < dim; ++i) query[i] = get(kind_.dtype, q, first + i);
                if (token < count)
                    reference_attention(kind_, query,
                                        static_cast<int32_t>(head / (kind_.num_heads / kind_.num_kv_heads)),
                                        span.length - count + token, {{0, span.length, 0}}, {span}, expected.data());
                for (size_t i = 0; i < dim; ++i)
                    ASSERT_NEAR(get(kind_.dtype, out, first + i), expected[i], tolerance(kind_.dtype))
                        << "sequence " << b << " head " << head << " token " << token << " of " << num_tokens;
            }
        }
    }
}

void Conversation::step(nl_ops* ops, const std::string& device, int64_t num_tokens, std::vector<int64_t> counts,
                        nl_kv_cache** cache, bool update, bool with_keys) {
    SCOPED_TRACE(kind_.name() + ", seed " + std::to_string(random_.seed()));
    const std::vector<int64_t> given = counts;
    if (counts.empty()) counts.assign(batch_, num_tokens);
    const Layout heads = layout(kind_.num_heads, num_tokens);
    const Layout kv_heads = layout(kind_.num_kv_heads, num_tokens);
    // With queries up to 4, their rounding to bfloat16 once they are turned takes one run in a hundred beyond what the
    // tolerance allows for.
    const std::vector<std::byte> q = tensor(heads, kind_.num_heads, counts, 2);
    const std::vector<std::byte> k = tensor(kv_heads, kind_.num_kv_heads, counts, 1);
    const std::vector<std::byte> v = tensor(kv_heads, kind_.num_kv_heads, counts, 1);
    const Buffer queries(device, q);
    const Buffer keys(device, k);
    const Buffer values(device, v);
    const Buffer out(device, poison(kind_.dtype, heads.elements));
    const AttentionOptions options = kind_.options();
    const nl_with_cache_arguments call{.struct_size = sizeof(call),
                                       .batch = batch_,
                                       .num_tokens = num_tokens,
                                       .counts = given.empty() ? nullptr : given.data(),
                                       .q = {queries.data(), heads.strides},
                                       .k = {with_keys ? keys.data() : nullptr, kv_heads.strides},
                                       .v = {with_keys ? values.data() : nullptr, kv_heads.strides},
                                       .out = {out.data(), heads.strides},
                                       .update = update ? 1 : 0,
                                       .max_length = max_length_};
    NL_CHECK(nl_attention_with_cache(ops, options.get(), &call, cache));
    const std::vector<TokenSpan> before = spans_;
    if (with_keys) remember(kv_heads, k, v, counts);
    compare(heads, q, out.download(), num_tokens, counts);
    if (cache == nullptr || !update) spans_ = before;
    if (cache == nullptr || *cache == nullptr) return;
    std::vector<int64_t> held(batch_);
    size_t count = 0;
    NL_CHECK(nl_kv_cache_lengths(*cache, held.data(), held.size(), &count));
    EXPECT_EQ(held, lengths());
}

class WithCache : public OnDevice {};
NL_ON_EVERY_DEVICE(WithCache);

AttentionKind kind_of(Format dtype, Format kv_dtype, bool rotated) {
    AttentionKind kind;
    kind.num_heads = 8;
    kind.dtype = dtype;
    kind.kv_dtype = kv_dtype;
    kind.rotated = rotated;
    return kind;
}

// A cache that frees itself, however often it is asked for.
struct OwnedCache {
    nl_kv_cache* cache = nullptr;
    OwnedCache() = default;
    OwnedCache(const OwnedCache&) = delete;
    OwnedCache& operator=(const OwnedCache&) = delete;
    ~OwnedCache() { nl_kv_cache_free(cache); }
};

TEST_P(WithCache, PrefillThenDecode) {
    Random random;
    for (const Format format : {Format::f32, Format::f16, Format::bf16}) {
        for (const bool rotated : {false, true}) {
            for (const bool transposed : {false, true}) {
                Conversation talk(kind_of(format, format, rotated), 3, 100, random);
                talk.set_transposed(transposed);
                OwnedCache owned;
                talk.step(ops(), device(), 30, {}, &owned.cache);
                ASSERT_NE(owned.cache, nullptr);
                for (int i = 0; i < 5; ++i) talk.step(ops(), device(), 1, {}, &owned.cache);
                talk.step(ops(), device(), 7, {}, &owned.cache);
                if (HasFatalFailure()) return;
            }
        }
    }
}

TEST_P(WithCache, RaggedCounts) {
    Random random;
    for (const bool transposed : {false, true}) {
        Conversation talk(kind_of(Format::f16, Format::f16, true), 4, 64, random);
        talk.set_transposed(transposed);
        OwnedCache owned;
        talk.step(ops(), device(), 33, {33, 0, 1, 16}, &owned.cache);
        talk.step(ops(), device(), 1, {1, 1, 0, 1}, &owned.cache);
        talk.step(ops(), device(), 5, {5, 5, 5, 5}, &owned.cache);
        talk.step(ops(), device(), 2, {0, 0, 0, 0}, &owned.cache);
        if (HasFatalFailure()) return;
    }
}

TEST_P(WithCache, Float8Cache) {
    Random random;
    AttentionKind kind = kind_of(Format::f16, Format::f8, false);
    Conversation talk(kind, 2, 50, random);
    OwnedCache owned;
    talk.step(ops(), device(), 20, {}, &owned.cache);
    for (int i = 0; i < 3; ++i) talk.step(ops(), device(), 1, {}, &owned.cache);
    int64_t bytes = 0;
    NL_CHECK(nl_kv_cache_query(owned.cache, NL_KV_CACHE_BYTES, &bytes));
    EXPECT_EQ(bytes, int64_t{2} * 4 * (2 * 2 * 16 * 64));  // 2 sequences of 4 pages, a byte an element
}

// Without update the new tokens are seen by this call alone.
TEST_P(WithCache, WithoutUpdate) {
    Random random;
    Conversation talk(kind_of(Format::f32, Format::f32, true), 2, 40, random);
    OwnedCache owned;
    talk.step(ops(), device(), 3, {}, &owned.cache, false);
    EXPECT_EQ(owned.cache, nullptr);
    talk.step(ops(), device(), 3, {}, nullptr);
    talk.step(ops(), device(), 10, {}, &owned.cache);
    talk.step(ops(), device(), 4, {}, &owned.cache, false);
    talk.step(ops(), device(), 1, {}, &owned.cache);
    talk.step(ops(), device(), 29, {}, &owned.cache, false);
    talk.step(ops(), device(), 1, {1, 0}, &owned.cache);
}

// Queries alone: cross attention over a cache that was filled before, causal or not.
TEST_P(WithCache, QueriesWithoutKeys) {
    Random random;
    for (const bool causal : {true, false}) {
        AttentionKind kind = kind_of(Format::f16, Format::f16, causal);
        kind.causal = causal;
        Conversation talk(kind, 2, 40, random);
        OwnedCache owned;
        talk.step(ops(), device(), 30, {30, 21}, &owned.cache);
        talk.step(ops(), device(), 4, {}, &owned.cache, true, false);
        talk.step(ops(), device(), 21, {}, &owned.cache, true, false);
    }
}

TEST_P(WithCache, WindowCapAndScaleOfACall) {
    Random random;
    AttentionKind kind = kind_of(Format::f32, Format::f32, true);
    kind.window = 9;
    kind.softcap = 3;
    kind.scale = 0.5;
    Conversation talk(kind, 2, 60, random);
    OwnedCache owned;
    talk.step(ops(), device(), 30, {}, &owned.cache);
    talk.step(ops(), device(), 1, {}, &owned.cache);
}

TEST_P(WithCache, TruncateAndGoOn) {
    Random random;
    Conversation talk(kind_of(Format::f32, Format::f32, true), 2, 40, random);
    OwnedCache owned;
    talk.step(ops(), device(), 40, {40, 33}, &owned.cache);
    NL_CHECK(nl_kv_cache_truncate(owned.cache, 0, 17));
    talk.truncate(0, 17);
    talk.step(ops(), device(), 7, {}, &owned.cache);
    NL_CHECK(nl_kv_cache_truncate(owned.cache, 1, 0));
    talk.truncate(1, 0);
    talk.step(ops(), device(), 16, {}, &owned.cache);
}

// 32 query heads over 8 KV heads: a quarter of what a cache of every query head takes.
TEST_P(WithCache, HoldsKvHeadsOnly) {
    Random random;
    AttentionKind kind = kind_of(Format::bf16, Format::bf16, false);
    kind.num_heads = 32;
    kind.num_kv_heads = 8;
    kind.head_dim = 128;
    kind.page_size = 64;
    Conversation talk(kind, 2, 256, random);
    OwnedCache owned;
    talk.step(ops(), device(), 3, {}, &owned.cache);
    const auto fact = [&](int32_t which) {
        int64_t value = -1;
        NL_EXPECT(nl_kv_cache_query(owned.cache, which, &value));
        return value;
    };
    EXPECT_EQ(fact(NL_KV_CACHE_BATCH), 2);
    EXPECT_EQ(fact(NL_KV_CACHE_MAX_LENGTH), 256);
    EXPECT_EQ(fact(NL_KV_CACHE_PAGE_SIZE), 64);
    EXPECT_EQ(fact(NL_KV_CACHE_PAGES), 8);
    EXPECT_EQ(fact(NL_KV_CACHE_BYTES), int64_t{2} * 256 * 8 * 128 * 2 * 2);
}

// The cache outlives the handle that made it; it can only be used with that device.
TEST_P(WithCache, OutlivesItsOps) {
    Random random;
    nl_ops* first = nullptr;
    NL_CHECK(nl_ops_create(device().data(), device().size(), &first));
    Conversation talk(kind_of(Format::f32, Format::f32, false), 1, 20, random);
    OwnedCache owned;
    talk.step(first, device(), 3, {}, &owned.cache);
    nl_ops_free(first);
    size_t count = 0;
    int64_t length = 0;
    NL_CHECK(nl_kv_cache_lengths(owned.cache, &length, 1, &count));
    EXPECT_EQ(length, 3);
    const AttentionOptions options = kind_of(Format::f32, Format::f32, false).options();
    const Buffer tensor(device(), std::vector<std::byte>(8 * 64 * 4));
    auto call = sized<nl_with_cache_arguments>();
    call.batch = call.num_tokens = 1;
    call.q.data = call.k.data = call.v.data = tensor.data();
    call.out.data = tensor.data();
    call.update = 1;
    call.max_length = 20;
    EXPECT_INVALID("another nl_ops", nl_attention_with_cache(ops(), options.get(), &call, &owned.cache));
}

}  // namespace
}  // namespace nanolith::test
