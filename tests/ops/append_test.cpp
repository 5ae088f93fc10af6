// nl_kv_append: rows reach their slots, rotated and in the pages' format, and nothing else is touched.
#include <cmath>
#include <cstring>

#include "ops/paged_case.h"

namespace nanolith::test {
namespace {

class Append : public OnDevice {};
NL_ON_EVERY_DEVICE(Append);

constexpr int32_t kPages = 5;
constexpr size_t kRows = 9;

// What a stored element may differ from the rounded exact value by: float32 before it is off by a few of its roundings
// of `reach`, the size of what was added up (which can be far more than the sum), and so the result may round
// otherwise.
double allowed(Format format, double exact, double reach) {
    const double off = std::ldexp(reach + std::fabs(exact), -21);
    return std::fabs(round_to(format, exact + off) - round_to(format, exact - off)) + off;
}

void expect_appended(nl_ops* ops, const std::string& device, const AttentionKind& kind, Random& random) {
    SCOPED_TRACE(kind.name() + ", seed " + std::to_string(random.seed()));
    const auto dim = static_cast<size_t>(kind.head_dim);
    const auto kv_heads = static_cast<size_t>(kind.num_kv_heads);
    const auto page_size = static_cast<size_t>(kind.page_size);
    const size_t row_stride = kv_heads * dim + 32;

    std::vector<int32_t> slots(kPages * page_size);
    for (size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<int32_t>(i);
    std::shuffle(slots.begin(), slots.end(), random.engine());
    slots.resize(kRows);
    slots[3] = -1;
    std::vector<int32_t> positions;
    for (size_t i = 0; i < kRows; ++i) positions.push_back(random.integer(0, 5000));

    std::vector<std::byte> k = poison(kind.dtype, kRows * row_stride);
    std::vector<std::byte> v = k;
    for (size_t row = 0; row < kRows; ++row) {
        for (size_t i = 0; i < kv_heads * dim && slots[row] >= 0; ++i) {
            put(kind.dtype, round_to(kind.dtype, random.uniform(-3, 3)), k, row * row_stride + i);
            put(kind.dtype, round_to(kind.dtype, random.uniform(-3, 3)), v, row * row_stride + i);
        }
    }
    const std::vector<std::byte> before = poison(kind.kv_dtype, kPages * 2 * kv_heads * page_size * dim);
    const Buffer pages(device, before);
    const Buffer keys(device, k);
    const Buffer values(device, v);
    const AttentionOptions options = kind.options();
    const AttentionPlan plan = make_plan(ops, options.get(), kRows, 1, 1, 1);
    const nl_append_step step{.struct_size = sizeof(step),
                              .num_pages = kPages,
                              .slots = slots.data(),
                              .key_positions = kind.rotated ? positions.data() : nullptr,
                              .num_rows = kRows};
    NL_CHECK(nl_attention_plan_set_slots(plan.get(), &step));
    const auto stride = static_cast<int64_t>(row_stride);
    NL_CHECK(kv_append(plan.get(), {keys.data(), stride, kind.head_dim}, {values.data(), stride, kind.head_dim},
                       pages.data()));
    std::vector<std::byte> found = pages.download();

    const size_t bytes = format_bytes(kind.kv_dtype);
    for (size_t row = 0; row < kRows; ++row) {
        if (slots[row] < 0) continue;
        const size_t page = static_cast<size_t>(slots[row]) / page_size;
        const size_t offset = static_cast<size_t>(slots[row]) % page_size;
        for (size_t head = 0; head < kv_heads; ++head) {
            std::vector<double> key(dim);
            for (size_t i = 0; i < dim; ++i) key[i] = get(kind.dtype, k, row * row_stride + head * dim + i);
            const std::vector<double> given = key;
            if (kind.rotated) rotate_head(key.data(), rope_frequencies(kind.head_dim), positions[row]);
            const size_t k_at = ((page * 2 * kv_heads + head) * page_size + offset) * dim;
            const size_t v_at = k_at + kv_heads * page_size * dim;
            for (size_t i = 0; i < dim; ++i) {
                const double exact_key = key[i] / static_cast<double>(kind.k_scale);
                const double reach =
                    (std::fabs(given[i]) + std::fabs(given[(i + dim / 2) % dim])) / static_cast<double>(kind.k_scale);
                ASSERT_NEAR(get(kind.kv_dtype, found, k_at + i), round_to(kind.kv_dtype, exact_key),
                            allowed(kind.kv_dtype, exact_key, reach))
                    << "key of row " << row << " head " << head << " element " << i;
                const double exact_value =
                    get(kind.dtype, v, row * row_stride + head * dim + i) / static_cast<double>(kind.v_scale);
                ASSERT_NEAR(get(kind.kv_dtype, found, v_at + i), round_to(kind.kv_dtype, exact_value),
                            kind.v_scale == 1 ? 0 : allowed(kind.kv_dtype, exact_value, 0))
                    << "value of row " << row << " head " << head << " element " << i;
            }
            std::memset(found.data() + k_at * bytes, 0xFF, dim * bytes);
            std::memset(found.data() + v_at * bytes, 0xFF, dim * bytes);
        }
    }
    EXPECT_EQ(found, before) << "something beside the slots was written";
}

TEST_P(Append, EveryFormat) {
    Random random;
    for (const bool rotated : {false, true}) {
        for (const Format format : {Format::f32, Format::f16, Format::bf16}) {
            AttentionKind kind;
            kind.dtype = kind.kv_dtype = format;
            kind.rotated = rotated;
            expect_appended(ops(), device(), kind, random);
        }
        for (const Format format : {Format::f16, Format::bf16}) {
            AttentionKind kind;
            kind.dtype = format;
            kind.kv_dtype = Format::f8;
            kind.rotated = rotated;
            expect_appended(ops(), device(), kind, random);
            kind.k_scale = 0.03F;
            kind.v_scale = 0.25F;
            expect_appended(ops(), device(), kind, random);
            kind.v_scale = 0.001F;  // values up to 3000: beyond 448 the largest number is stored
            expect_appended(ops(), device(), kind, random);
        }
    }
}

TEST_P(Append, EveryShape) {
    Random random;
    for (const int32_t head_dim : {64, 80, 96, 128, 256}) {
        for (const int32_t page_size : {16, 256}) {
            AttentionKind kind;
            kind.head_dim = head_dim;
            kind.page_size = page_size;
            kind.num_kv_heads = page_size == 16 ? 8 : 1;
            kind.num_heads = 8;
            kind.dtype = kind.kv_dtype = Format::bf16;
            kind.rotated = true;
            expect_appended(ops(), device(), kind, random);
        }
    }
}

// What is appended is what attention sees: a key rotated for its position meets a query rotated for its own.
TEST_P(Append, AttentionSeesIt) {
    Random random;
    AttentionKind kind;
    kind.dtype = kind.kv_dtype = Format::f32;
    kind.rotated = true;
    const size_t dim = 64;
    constexpr int32_t kTokens = 20;
    const size_t kv_row = 2 * dim;
    const size_t q_row = 4 * dim;
    std::vector<float> k(kTokens * kv_row);
    std::vector<float> v(k.size());
    std::vector<float> q(kTokens * q_row);
    for (auto* tensor : {&k, &v, &q}) {
        for (float& element : *tensor) element = static_cast<float>(random.uniform(-2, 2));
    }
    std::vector<int32_t> slots;
    std::vector<int32_t> positions;
    for (int32_t i = 0; i < kTokens; ++i) {
        slots.push_back((i < 16 ? 48 : 0) + i % 16);  // pages 3 and 0
        positions.push_back(i);
    }
    const std::vector<int32_t> table{3, 0};
    const AttentionOptions options = kind.options();
    const AttentionPlan plan = make_plan(ops(), options.get(), kTokens, 1, 1, 2);
    const int32_t zero = 0;
    const int32_t one = 1;
    const int32_t tokens = kTokens;
    const nl_append_step append{.struct_size = sizeof(append),
                                .num_pages = 4,
                                .slots = slots.data(),
                                .key_positions = positions.data(),
                                .num_rows = kTokens};
    NL_CHECK(nl_attention_plan_set_slots(plan.get(), &append));
    const nl_attention_step step{.struct_size = sizeof(step),
                                 .num_pages = 4,
                                 .page_table = table.data(),
                                 .num_entries = table.size(),
                                 .segment_first_entries = &zero,
                                 .segment_lengths = &tokens,
                                 .segment_bases = &zero,
                                 .num_segments = 1,
                                 .sequence_rows = &tokens,
                                 .sequence_segments = &one,
                                 .num_sequences = 1,
                                 .positions = positions.data(),
                                 .num_rows = kTokens};
    NL_CHECK(nl_attention_plan_set(plan.get(), &step));
    const Buffer pages(device(), poison(Format::f32, 4 * 2 * 2 * 16 * dim));
    const Buffer out(device(), poison(Format::f32, q.size()));
    const Buffer queries = Buffer::of(device(), q);
    const Buffer keys = Buffer::of(device(), k);
    const Buffer values = Buffer::of(device(), v);
    NL_CHECK(kv_append(plan.get(), {keys.data(), 2 * 64, 64}, {values.data(), 2 * 64, 64}, pages.data()));
    NL_CHECK(attention_run(plan.get(), {queries.data(), 4 * 64, 64}, pages.data(), {out.data(), 4 * 64, 64}));

    TokenSpan span;
    span.length = kTokens;
    for (size_t i = 0; i < k.size(); ++i) {
        span.keys.push_back(static_cast<double>(k[i]));
        span.values.push_back(static_cast<double>(v[i]));
    }
    for (size_t t = 0; t < kTokens; ++t) {
        for (size_t head = 0; head < 2; ++head)
            rotate_head(span.keys.data() + (t * 2 + head) * dim, rope_frequencies(64), static_cast<int64_t>(t));
    }
    const std::vector<float> found = out.values<float>();
    for (size_t row = 0; row < kTokens; ++row) {
        for (size_t head = 0; head < 4; ++head) {
            const size_t at = row * q_row + head * dim;
            const std::vector<double> query(q.begin() + at, q.begin() + static_cast<ptrdiff_t>(at + dim));
            std::vector<double> expected(dim);
            reference_attention(kind, query, static_cast<int32_t>(head / 2), static_cast<int64_t>(row),
                                {{0, kTokens, 0}}, {span}, expected.data());
            for (size_t i = 0; i < dim; ++i)
                ASSERT_NEAR(static_cast<double>(found[at + i]), expected[i], 4e-5) << "seed " << random.seed();
        }
    }
}

}  // namespace
}  // namespace nanolith::test
