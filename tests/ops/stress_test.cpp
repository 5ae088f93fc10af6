// Many steps: nothing drifts and nothing grows.
#include <cmath>
#include <fstream>
#include <sstream>

#include "ops/paged_case.h"

namespace nanolith::test {
namespace {

class Stress : public OnDevice {};
NL_ON_EVERY_DEVICE(Stress);

// Under AddressSanitizer what is freed stays a while with each thread, and leaks are found at the end.
#ifdef __SANITIZE_ADDRESS__
constexpr bool kResidentTells = false;
#else
constexpr bool kResidentTells = true;
#endif

// Resident memory of this process in KiB.
int64_t resident_kib() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.rfind("VmRSS:", 0) == 0) return std::stoll(line.substr(6));
    }
    return 0;
}

// 10,000 decode steps into one cache, and at the end one query over all of it against float64.
TEST_P(Stress, TenThousandAppends) {
    Random random;
    SCOPED_TRACE(random.seed());
    constexpr int32_t kSteps = 10000;
    constexpr size_t kDim = 64;
    AttentionKind kind;
    kind.num_heads = 2;
    kind.num_kv_heads = 1;
    kind.page_size = 64;
    kind.rotated = true;
    kind.window = 64;  // keeps a step's cost the same from the first to the last
    const AttentionOptions options = kind.options();
    AttentionKind whole = kind;
    whole.window = 0;
    const AttentionOptions whole_options = whole.options();

    TokenSpan span;
    span.length = kSteps;
    std::vector<float> k(kDim);
    std::vector<float> v(kDim);
    std::vector<float> q(2 * kDim);
    const auto fill = [&](std::vector<float>& tensor, double bound) {
        for (float& element : tensor) element = static_cast<float>(random.uniform(-bound, bound));
    };
    nl_kv_cache* made = nullptr;
    int64_t bytes = 0;
    int64_t resident = 0;
    const std::vector<float> frequencies = rope_frequencies(kDim);
    const Buffer out(device(), poison(Format::f32, 2 * kDim));
    Buffer queries = Buffer::of(device(), q);
    Buffer keys = Buffer::of(device(), k);
    Buffer values = Buffer::of(device(), v);
    const auto upload = [](Buffer& to, const std::vector<float>& from) {
        const auto* const data = reinterpret_cast<const std::byte*>(from.data());
        to.upload(std::vector<std::byte>(data, data + from.size() * sizeof(float)));
    };
    auto call = sized<nl_with_cache_arguments>();
    call.batch = call.num_tokens = 1;
    call.q.data = queries.data();
    call.k.data = keys.data();
    call.v.data = values.data();
    call.out.data = out.data();
    call.update = 1;
    call.max_length = kSteps;
    for (int32_t step = 0; step < kSteps; ++step) {
        fill(k, 1);
        fill(v, 1);
        fill(q, 4);
        for (size_t i = 0; i < kDim; ++i) {
            span.keys.push_back(static_cast<double>(k[i]));
            span.values.push_back(static_cast<double>(v[i]));
        }
        rotate_head(span.keys.data() + span.keys.size() - kDim, frequencies, step);
        upload(queries, q);
        upload(keys, k);
        upload(values, v);
        NL_CHECK(
            nl_attention_with_cache(ops(), step == kSteps - 1 ? whole_options.get() : options.get(), &call, &made));
        if (step == 100) {
            NL_CHECK(nl_kv_cache_query(made, NL_KV_CACHE_BYTES, &bytes));
            resident = resident_kib();
        }
    }
    const KvCache cache(made);
    int64_t bytes_now = 0;
    NL_CHECK(nl_kv_cache_query(made, NL_KV_CACHE_BYTES, &bytes_now));
    EXPECT_EQ(bytes_now, bytes);
    // The cache's own 5 MiB become resident as they are written, the reference's copy takes up to 16 MiB.
    if (!on_gpu() && kResidentTells) {
        EXPECT_LT(resident_kib() - resident, 32 * 1024);
    }

    const std::vector<float> found = out.values<float>();
    for (size_t head = 0; head < 2; ++head) {
        const std::vector<double> query(q.begin() + static_cast<ptrdiff_t>(head * kDim),
                                        q.begin() + static_cast<ptrdiff_t>((head + 1) * kDim));
        std::vector<double> expected(kDim);
        reference_attention(whole, query, 0, kSteps - 1, {{0, kSteps, 0}}, {span}, expected.data());
        for (size_t i = 0; i < kDim; ++i)
            ASSERT_NEAR(static_cast<double>(found[head * kDim + i]), expected[i], tolerance(Format::f32));
    }
}

// Making and freeing everything again and again, and a plan that is set again and again, takes no memory.
TEST_P(Stress, NothingLeaks) {
    const AttentionKind kind;
    const Buffer pages(device(), std::vector<std::byte>(size_t{4} * 2 * 2 * 16 * 64 * 4));
    const Buffer tensor(device(), std::vector<std::byte>(size_t{4} * 64 * 4));
    const auto round = [&] {
        const AttentionOptions options = kind.options();
        const AttentionPlan plan = make_plan(ops(), options.get(), 8, 8, 8, 8);
        const std::vector<int32_t> numbers{0, 1, 2, 3};
        const int32_t length = 64;
        const int32_t one = 1;
        for (int i = 0; i < 3; ++i) {
            const int32_t position = 63 - i;
            const int32_t zero = 0;
            const nl_attention_step step{.struct_size = sizeof(step),
                                         .num_pages = 4,
                                         .page_table = numbers.data(),
                                         .num_entries = numbers.size(),
                                         .segment_first_entries = &zero,
                                         .segment_lengths = &length,
                                         .segment_bases = &zero,
                                         .num_segments = 1,
                                         .sequence_rows = &one,
                                         .sequence_segments = &one,
                                         .num_sequences = 1,
                                         .positions = &position,
                                         .num_rows = 1};
            NL_EXPECT(nl_attention_plan_set(plan.get(), &step));
            NL_EXPECT(attention_run(plan.get(), {tensor.data(), 256, 64}, pages.data(), {tensor.data(), 256, 64}));
        }
        nl_kv_cache* cache = nullptr;
        auto call = sized<nl_with_cache_arguments>();
        call.batch = call.num_tokens = 1;
        call.q.data = call.k.data = call.v.data = tensor.data();
        call.out.data = tensor.data();
        call.update = 1;
        call.max_length = 1000;
        NL_EXPECT(nl_attention_with_cache(ops(), options.get(), &call, &cache));
        call.max_length = 0;
        NL_EXPECT(nl_attention_with_cache(ops(), options.get(), &call, nullptr));
        nl_kv_cache_free(cache);
    };
    for (int i = 0; i < 50; ++i) round();
    const int64_t before = resident_kib();
    for (int i = 0; i < 500; ++i) round();
    if (kResidentTells) {
        EXPECT_LT(resident_kib() - before, 4 * 1024);
    }
}

}  // namespace
}  // namespace nanolith::test
