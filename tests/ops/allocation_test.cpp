// Host memory may run out at any allocation of any call. This program makes each allocation of the calls of
// nanolith_ops.h fail in turn: every time the call must report it, change nothing, and work when it is made again.
#include "support/failing_allocations.h"
#include "ops/device.h"

namespace nanolith::test {
namespace {

constexpr int32_t kDim = 64;

class OpsAllocation : public testing::Test {
  protected:
    void SetUp() override {
        nl_ops* made = nullptr;
        NL_CHECK(nl_ops_create("cpu", 3, &made));
        ops_.reset(made);
        NL_CHECK(nl_ops_set_threads(made, 1));
        options_ = make_options(2, 1, kDim, 16, NL_DTYPE_F32);
        for (size_t i = 0; i < tensor_.size(); ++i) tensor_[i] = static_cast<float>(i % 17) * 0.1F;
    }

    // A step of `rows` sequences with 20 tokens each in the pages 0 and 1. Its arrays are made before calls fail.
    struct Step {
        explicit Step(size_t rows) : zeros(rows, 0), ones(rows, 1), lengths(rows, 20), positions(rows, 19) {}
        std::vector<int32_t> table{0, 1};
        std::vector<int32_t> zeros, ones, lengths, positions;
    };
    static nl_status set(nl_attention_plan* plan, const Step& s) {
        const size_t n = s.zeros.size();
        return nl_attention_plan_set(plan, 2, s.table.data(), 2, s.zeros.data(), s.lengths.data(), s.zeros.data(), n,
                                     s.ones.data(), s.ones.data(), n, s.positions.data(), n);
    }
    std::vector<float> run(nl_attention_plan* plan) {
        std::vector<float> out(size_t{8} * 2 * kDim, -1);
        NL_EXPECT(nl_attention_run(plan, tensor_.data(), 2 * kDim, kDim, tensor_.data(), out.data(), 2 * kDim, kDim,
                                   nullptr));
        return out;
    }

    Ops ops_;
    AttentionOptions options_;
    std::vector<float> tensor_ = std::vector<float>(size_t{2} * 2 * 16 * kDim);
};

TEST_F(OpsAllocation, CreateIsWholeOrNothing) {
    nl_ops* ops = nullptr;
    fail_each_allocation([&] { return nl_ops_create("cpu", 3, &ops); }, [&] { EXPECT_EQ(ops, nullptr); });
    const Ops owned(ops);
    nl_attention_options* options = nullptr;
    fail_each_allocation([&] { return nl_attention_options_create(&options); }, [&] { EXPECT_EQ(options, nullptr); });
    const AttentionOptions owned_options(options);
    const std::vector<float> frequencies(kDim / 2, 0.1F);
    fail_each_allocation([&] { return nl_attention_options_set_rope(options, frequencies.data(), kDim / 2, 99); },
                         [] {});
    nl_attention_plan* plan = nullptr;
    fail_each_allocation([&] { return nl_attention_plan_create(ops, options_.get(), 8, 8, 8, 8, &plan); },
                         [&] { EXPECT_EQ(plan, nullptr); });
    const AttentionPlan owned_plan(plan);
    NL_CHECK(set(plan, Step(1)));
}

TEST_F(OpsAllocation, RefusedStepLeavesTheOneBefore) {
    const AttentionPlan plan = make_plan(ops_.get(), options_.get(), 8, 8, 8, 8);
    NL_CHECK(set(plan.get(), Step(1)));
    const std::vector<float> before = run(plan.get());
    const Step larger(8);
    fail_each_allocation([&] { return set(plan.get(), larger); }, [&] { EXPECT_EQ(run(plan.get()), before); });
    EXPECT_NE(run(plan.get()), before);
}

TEST_F(OpsAllocation, SlotsAndAppend) {
    const AttentionPlan plan = make_plan(ops_.get(), options_.get(), 8, 8, 8, 8);
    const std::vector<int32_t> slots{0, 1, 2, 3};
    fail_each_allocation([&] { return nl_attention_plan_set_slots(plan.get(), 2, slots.data(), nullptr, 4); }, [] {});
    std::vector<float> pages(tensor_.size(), -1);
    NL_CHECK(nl_kv_append(plan.get(), tensor_.data(), kDim, kDim, tensor_.data(), kDim, kDim, pages.data()));
    EXPECT_EQ(pages[0], tensor_[0]);
    EXPECT_EQ(pages[size_t{4} * kDim], -1.0F);
}

TEST_F(OpsAllocation, CacheKeepsItsTokens) {
    nl_kv_cache* cache = nullptr;
    std::vector<float> out(size_t{2} * 2 * 9 * kDim);
    const auto call = [&](int64_t tokens) {
        return nl_attention_with_cache(ops_.get(), options_.get(), 2, tokens, nullptr, tensor_.data(), nullptr,
                                       tensor_.data(), nullptr, tensor_.data(), nullptr, &cache, 40, 1, out.data(),
                                       nullptr);
    };
    const auto held = [&] {
        std::vector<int64_t> lengths(2);
        size_t count = 0;
        NL_EXPECT(nl_kv_cache_lengths(cache, lengths.data(), 2, &count));
        return lengths;
    };
    fail_each_allocation([&] { return call(1); }, [&] { EXPECT_EQ(cache, nullptr); });
    const KvCache owned(cache);
    EXPECT_EQ(held(), (std::vector<int64_t>{1, 1}));
    fail_each_allocation([&] { return call(8); }, [&] { EXPECT_EQ(held(), (std::vector<int64_t>{1, 1})); });
    EXPECT_EQ(held(), (std::vector<int64_t>{9, 9}));
}

TEST_F(OpsAllocation, MergeNormRope) {
    std::vector<float> y(kDim);
    const std::vector<int32_t> positions{3};
    const float lse = 1;
    fail_each_allocation(
        [&] {
            return nl_attention_merge(ops_.get(), NL_DTYPE_F32, 1, 1, 1, kDim, tensor_.data(), 0, 0, 0, &lse, 0,
                                      y.data(), kDim, kDim, nullptr);
        },
        [] {});
    fail_each_allocation(
        [&] {
            return nl_rms_norm(ops_.get(), NL_DTYPE_F32, 1, 1, kDim, tensor_.data(), kDim, kDim, tensor_.data(), 1e-5F,
                               y.data(), kDim, kDim);
        },
        [] {});
    fail_each_allocation(
        [&] {
            return nl_rope(ops_.get(), NL_DTYPE_F32, 1, 1, kDim, tensor_.data(), kDim, kDim, positions.data(),
                           tensor_.data(), y.data(), kDim, kDim);
        },
        [] {});
}

}  // namespace
}  // namespace nanolith::test
