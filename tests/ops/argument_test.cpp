// The other functions of nanolith_ops.h with NULL, zero and huge arguments: an error that names the argument, and
// nothing changed.
#include <cmath>
#include <limits>
#include <thread>

#include "ops/device.h"

namespace nanolith::test {
namespace {

constexpr size_t kHuge = std::numeric_limits<size_t>::max();

TEST(OpsArguments, FreeingNullDoesNothing) {
    nl_ops_free(nullptr);
    nl_attention_options_free(nullptr);
    nl_attention_plan_free(nullptr);
    nl_kv_cache_free(nullptr);
}

TEST(OpsArguments, Create) {
    nl_ops* ops = nullptr;
    EXPECT_INVALID("ops", nl_ops_create("cpu", 3, nullptr));
    EXPECT_INVALID("device", nl_ops_create(nullptr, 3, &ops));
    EXPECT_INVALID("length is 0", nl_ops_create("cpu", 0, &ops));
    EXPECT_INVALID("length is", nl_ops_create("cpu", kHuge, &ops));
    for (const std::string name : {"cp", "CPU", "gpu", "auto", "cuda:", "cuda:-1", "cuda:1x", "cuda:99999999999"})
        EXPECT_INVALID(name, nl_ops_create(name.data(), name.size(), &ops));
    const nl_status far = nl_ops_create("cuda:4096", 9, &ops);
    EXPECT_TRUE(far == NL_ERROR_NOT_FOUND || far == NL_ERROR_UNSUPPORTED) << nl_last_error();
    EXPECT_EQ(ops, nullptr);
}

TEST(OpsArguments, AttentionOptions) {
    EXPECT_INVALID("options", nl_attention_options_create(nullptr));
    EXPECT_INVALID("options", nl_attention_options_set_heads(nullptr, 1, 1));
    EXPECT_INVALID("options", nl_attention_options_set_head_dim(nullptr, 64));
    EXPECT_INVALID("options", nl_attention_options_set_page_size(nullptr, 16));
    EXPECT_INVALID("options", nl_attention_options_set_dtype(nullptr, NL_DTYPE_F32));
    EXPECT_INVALID("options", nl_attention_options_set_kv_dtype(nullptr, NL_DTYPE_F32));
    EXPECT_INVALID("options", nl_attention_options_set_kv_scales(nullptr, 1, 1));
    EXPECT_INVALID("options", nl_attention_options_set_scale(nullptr, 1));
    EXPECT_INVALID("options", nl_attention_options_set_causal(nullptr, 1));
    EXPECT_INVALID("options", nl_attention_options_set_window(nullptr, 1));
    EXPECT_INVALID("options", nl_attention_options_set_softcap(nullptr, 1));
    EXPECT_INVALID("options", nl_attention_options_set_rope(nullptr, nullptr, 0, 0));

    const AttentionOptions owned = make_options(4, 2, 64, 16, NL_DTYPE_F32);
    nl_attention_options* const options = owned.get();
    const float nan = std::nanf("");
    EXPECT_INVALID("num_heads is 7: expected a multiple of num_kv_heads = 2",
                   nl_attention_options_set_heads(options, 7, 2));
    for (const int32_t heads : {INT32_MIN, -1, 0, 65537, INT32_MAX}) {
        EXPECT_INVALID("num_heads is " + std::to_string(heads), nl_attention_options_set_heads(options, heads, 1));
        EXPECT_INVALID("num_kv_heads is " + std::to_string(heads), nl_attention_options_set_heads(options, 4, heads));
    }
    for (const int32_t dim : {INT32_MIN, -2, 0, 1, 63, 258, INT32_MAX})
        EXPECT_INVALID("head_dim is " + std::to_string(dim), nl_attention_options_set_head_dim(options, dim));
    for (const int32_t size : {INT32_MIN, -16, 0, 1, 8, 24, 512, INT32_MAX})
        EXPECT_INVALID("page_size is " + std::to_string(size), nl_attention_options_set_page_size(options, size));
    for (const int32_t dtype : {-1, 0, 4, INT32_MAX})
        EXPECT_INVALID("dtype is " + std::to_string(dtype), nl_attention_options_set_dtype(options, dtype));
    for (const int32_t dtype : {-1, 5, INT32_MAX})
        EXPECT_INVALID("kv_dtype is " + std::to_string(dtype), nl_attention_options_set_kv_dtype(options, dtype));
    for (const float scale : {nan, INFINITY, 0.0F, -1.0F}) {
        EXPECT_INVALID("k_scale is", nl_attention_options_set_kv_scales(options, scale, 1));
        EXPECT_INVALID("v_scale is", nl_attention_options_set_kv_scales(options, 1, scale));
    }
    for (const float scale : {nan, INFINITY, -INFINITY})
        EXPECT_INVALID("scale is", nl_attention_options_set_scale(options, scale));
    for (const int32_t causal : {-1, 2, INT32_MAX})
        EXPECT_INVALID("causal is", nl_attention_options_set_causal(options, causal));
    for (const int32_t window : {-1, INT32_MIN})
        EXPECT_INVALID("window is", nl_attention_options_set_window(options, window));
    for (const float cap : {nan, INFINITY, -1.0F})
        EXPECT_INVALID("softcap is", nl_attention_options_set_softcap(options, cap));

    std::vector<float> frequencies(32, 1);
    EXPECT_INVALID("frequencies is NULL", nl_attention_options_set_rope(options, nullptr, 32, 10));
    EXPECT_INVALID("count is 129", nl_attention_options_set_rope(options, frequencies.data(), 129, 10));
    EXPECT_INVALID("count is", nl_attention_options_set_rope(options, frequencies.data(), kHuge, 10));
    for (const int32_t most : {INT32_MIN, -1, 0, (1 << 24) + 1, INT32_MAX})
        EXPECT_INVALID("max_position is", nl_attention_options_set_rope(options, frequencies.data(), 32, most));
    EXPECT_INVALID("max_position is 5", nl_attention_options_set_rope(options, nullptr, 0, 5));
    frequencies[7] = nan;
    EXPECT_INVALID("frequencies[7] is", nl_attention_options_set_rope(options, frequencies.data(), 32, 10));
}

class PlanArguments : public OnDevice {
  protected:
    void SetUp() override {
        OnDevice::SetUp();
        if (IsSkipped()) return;
        options_ = make_options(4, 2, 64, 16, NL_DTYPE_F32);
        const std::vector<float> frequencies(32, 1);
        NL_CHECK(nl_attention_options_set_rope(options_.get(), frequencies.data(), frequencies.size(), 100));
        plan_ = make_plan(ops(), options_.get(), 4, 2, 3, 6);
    }

    // A good step of two sequences over three segments, save what a test changes.
    struct Step {
        int64_t num_pages = 10;
        std::vector<int32_t> page_table{9, 0, 3, 4};
        std::vector<int32_t> first_entries{0, 2, 0};
        std::vector<int32_t> lengths{20, 30, 32};
        std::vector<int32_t> bases{0, 20, 5};
        std::vector<int32_t> sequence_rows{3, 1};
        std::vector<int32_t> sequence_segments{2, 1};
        std::vector<int32_t> positions{47, 48, 49, 36};
    };
    static nl_attention_step view(const Step& s) {
        return {.struct_size = sizeof(nl_attention_step),
                .num_pages = s.num_pages,
                .page_table = s.page_table.data(),
                .num_entries = s.page_table.size(),
                .segment_first_entries = s.first_entries.data(),
                .segment_lengths = s.lengths.data(),
                .segment_bases = s.bases.data(),
                .num_segments = s.lengths.size(),
                .sequence_rows = s.sequence_rows.data(),
                .sequence_segments = s.sequence_segments.data(),
                .num_sequences = s.sequence_rows.size(),
                .positions = s.positions.data(),
                .num_rows = s.positions.size()};
    }
    nl_status set(const Step& s) {
        const nl_attention_step step = view(s);
        return nl_attention_plan_set(plan_.get(), &step);
    }

    AttentionOptions options_;
    AttentionPlan plan_;
};
NL_ON_EVERY_DEVICE(PlanArguments);

TEST_P(PlanArguments, Create) {
    nl_attention_plan* plan = nullptr;
    nl_attention_options* const options = options_.get();
    auto ones = sized<nl_attention_capacity>();
    ones.max_rows = ones.max_sequences = ones.max_segments = ones.max_page_table = 1;
    expect_struct_checked("capacity", ones, [&](const nl_attention_capacity* capacity) {
        const nl_status status = nl_attention_plan_create(ops(), options, capacity, &plan);
        EXPECT_EQ(plan != nullptr, status == NL_OK);
        nl_attention_plan_free(plan);
        plan = nullptr;
        return status;
    });
    EXPECT_INVALID("ops", nl_attention_plan_create(nullptr, options, &ones, &plan));
    EXPECT_INVALID("options", nl_attention_plan_create(ops(), nullptr, &ones, &plan));
    EXPECT_INVALID("plan", nl_attention_plan_create(ops(), options, &ones, nullptr));
    const auto create = [&](auto change) {
        nl_attention_capacity capacity = ones;
        change(capacity);
        return nl_attention_plan_create(ops(), options, &capacity, &plan);
    };
    for (const int64_t bad : {INT64_MIN, int64_t{-1}, int64_t{0}, (int64_t{1} << 24) + 1, INT64_MAX}) {
        const std::string is = " is " + std::to_string(bad);
        EXPECT_INVALID("capacity.max_rows" + is, create([&](auto& c) { c.max_rows = bad; }));
        EXPECT_INVALID("capacity.max_sequences" + is, create([&](auto& c) { c.max_sequences = bad; }));
        EXPECT_INVALID("capacity.max_segments" + is, create([&](auto& c) { c.max_segments = bad; }));
        EXPECT_INVALID("capacity.max_page_table" + is, create([&](auto& c) { c.max_page_table = bad; }));
    }
    nl_attention_options* made = nullptr;
    NL_CHECK(nl_attention_options_create(&made));
    const AttentionOptions bare(made);
    EXPECT_INVALID("no heads", nl_attention_plan_create(ops(), made, &ones, &plan));
    NL_CHECK(nl_attention_options_set_heads(made, 4, 2));
    EXPECT_INVALID("no head_dim", nl_attention_plan_create(ops(), made, &ones, &plan));
    NL_CHECK(nl_attention_options_set_head_dim(options, 128));
    EXPECT_INVALID("32 rotary frequencies: expected head_dim / 2 = 64",
                   nl_attention_plan_create(ops(), options, &ones, &plan));
    NL_CHECK(nl_attention_options_set_head_dim(options, 64));
    NL_CHECK(nl_attention_options_set_causal(options, 0));
    NL_CHECK(nl_attention_options_set_window(options, 5));
    EXPECT_INVALID("window 5", nl_attention_plan_create(ops(), options, &ones, &plan));
    EXPECT_EQ(plan, nullptr);
}

TEST_P(PlanArguments, Set) {
    NL_CHECK(set({}));
    const Step good;
    expect_struct_checked("step", view(good),
                          [&](const nl_attention_step* step) { return nl_attention_plan_set(plan_.get(), step); });
    const auto nothing = sized<nl_attention_step>();
    EXPECT_INVALID("plan", nl_attention_plan_set(nullptr, &nothing));
    const auto refuses = [&](const std::string& text, auto change) {
        Step step;
        change(step);
        EXPECT_INVALID("step." + text, set(step));
    };
    refuses("num_pages is -1", [](Step& s) { s.num_pages = -1; });
    refuses("num_pages is", [](Step& s) { s.num_pages = INT64_MAX; });
    refuses("page_table[0] is 9: expected 0 to 8", [](Step& s) { s.num_pages = 9; });
    refuses("page_table[1] is -1", [](Step& s) { s.page_table[1] = -1; });
    refuses("num_entries is 7: expected at most the plan's max_page_table = 6",
            [](Step& s) { s.page_table.resize(7); });
    refuses("segment_first_entries[1] is -1", [](Step& s) { s.first_entries[1] = -1; });
    refuses("segment_first_entries[1] is 5", [](Step& s) { s.first_entries[1] = 5; });
    refuses("segment_lengths[0] is -1", [](Step& s) { s.lengths[0] = -1; });
    refuses("segment_lengths[1] is 33: expected 0 to 32", [](Step& s) { s.lengths[1] = 33; });
    refuses("segment_lengths[2] is 2147483647", [](Step& s) { s.lengths[2] = INT32_MAX; });
    refuses("segment_bases[2] is -1", [](Step& s) { s.bases[2] = -1; });
    refuses("segment_bases[2] is 2147483647", [](Step& s) { s.bases[2] = INT32_MAX; });
    refuses("num_segments is 4", [](Step& s) {
        s.first_entries.push_back(0);
        s.lengths.push_back(0);
        s.bases.push_back(0);
    });
    refuses("sequence_rows[1] is 0", [](Step& s) { s.sequence_rows[1] = 0; });
    refuses("sequence_rows[0] is 5", [](Step& s) { s.sequence_rows[0] = 5; });
    refuses("sequence_rows[0] is -3", [](Step& s) { s.sequence_rows[0] = -3; });
    refuses("sequence_rows sums to 3: expected step.num_rows = 4", [](Step& s) {
        s.sequence_rows[0] = 2;
        s.positions[2] = 36;
    });
    refuses("sequence_segments[0] is 4", [](Step& s) { s.sequence_segments[0] = 4; });
    refuses("sequence_segments[1] is -1", [](Step& s) { s.sequence_segments[1] = -1; });
    refuses("sequence_segments sums to 2", [](Step& s) { s.sequence_segments[1] = 0; });
    refuses("num_sequences is 3", [](Step& s) {
        s.sequence_rows.push_back(1);
        s.sequence_segments.push_back(0);
    });
    refuses("positions[3] is -1", [](Step& s) { s.positions[3] = -1; });
    refuses("positions[3] is 2147483647", [](Step& s) { s.positions[3] = INT32_MAX; });
    refuses("positions[1] is 47: expected 48", [](Step& s) { s.positions[1] = 47; });
    refuses("num_rows is 5", [](Step& s) { s.positions.push_back(1); });

    Step far;
    far.positions[3] = 105;
    EXPECT_INVALID("sequence 1 has a query 100 positions from the base 5", set(far));

    const auto refuses_view = [&](const std::string& text, auto change) {
        nl_attention_step step = view(good);
        change(step);
        EXPECT_INVALID("step." + text, nl_attention_plan_set(plan_.get(), &step));
    };
    refuses_view("page_table is NULL: expected step.num_entries = 4", [](auto& s) { s.page_table = nullptr; });
    refuses_view("segment_first_entries is NULL", [](auto& s) { s.segment_first_entries = nullptr; });
    refuses_view("segment_lengths is NULL", [](auto& s) { s.segment_lengths = nullptr; });
    refuses_view("segment_bases is NULL", [](auto& s) { s.segment_bases = nullptr; });
    refuses_view("sequence_rows is NULL", [](auto& s) { s.sequence_rows = nullptr; });
    refuses_view("sequence_segments is NULL", [](auto& s) { s.sequence_segments = nullptr; });
    refuses_view("positions is NULL", [](auto& s) { s.positions = nullptr; });
    refuses_view("num_entries is", [](auto& s) { s.num_entries = kHuge; });
    refuses_view("num_segments is", [](auto& s) { s.num_segments = kHuge; });
    refuses_view("num_sequences is", [](auto& s) { s.num_sequences = kHuge; });
    refuses_view("num_rows is", [](auto& s) { s.num_rows = kHuge / 4; });
}

// A refused step leaves the one before in place.
TEST_P(PlanArguments, RefusedStepChangesNothing) {
    std::vector<float> pool(size_t{10} * 2 * 2 * 16 * 64);
    for (size_t i = 0; i < pool.size(); ++i) pool[i] = std::sin(static_cast<float>(i));
    std::vector<float> queries(size_t{4} * 4 * 64);
    for (size_t i = 0; i < queries.size(); ++i) queries[i] = std::cos(static_cast<float>(i));
    const Buffer pages = Buffer::of(device(), pool);
    const Buffer q = Buffer::of(device(), queries);
    const auto run = [&] {
        const Buffer out = Buffer::of(device(), std::vector<float>(queries.size(), 7));
        NL_EXPECT(attention_run(plan_.get(), {q.data(), 256, 64}, pages.data(), {out.data(), 256, 64}));
        return out.values<float>();
    };
    NL_CHECK(set({}));
    const std::vector<float> before = run();
    Step bad;
    bad.lengths = {1, 1, 1};
    bad.positions[3] = -1;
    EXPECT_INVALID("positions[3]", set(bad));
    EXPECT_EQ(run(), before);
}

TEST_P(PlanArguments, Slots) {
    nl_attention_plan* const plan = plan_.get();
    const std::vector<int32_t> positions{0, 1, 2, 99};
    const auto slots = [&](std::vector<int32_t> values, int64_t num_pages = 2) {
        const nl_append_step step{.struct_size = sizeof(step),
                                  .num_pages = num_pages,
                                  .slots = values.data(),
                                  .key_positions = positions.data(),
                                  .num_rows = values.size()};
        return nl_attention_plan_set_slots(plan, &step);
    };
    EXPECT_EQ(slots({0, 31, -1, -1}), NL_OK);
    EXPECT_EQ(slots({}), NL_OK);
    EXPECT_INVALID("step.slots[1] is 32: expected -1 to 31", slots({0, 32}));
    EXPECT_INVALID("step.slots[0] is -2", slots({-2}));
    EXPECT_INVALID("step.slots has 5 twice", slots({5, 3, 5}));
    EXPECT_INVALID("step.num_rows is 5", slots({0, 1, 2, 3, 4}));
    for (const int64_t pages : {INT64_MIN, int64_t{-1}, INT64_MAX})
        EXPECT_INVALID("step.num_pages is", slots({0}, pages));

    const int32_t one = 1;
    const nl_append_step good{
        .struct_size = sizeof(good), .num_pages = 2, .slots = &one, .key_positions = &one, .num_rows = 1};
    expect_struct_checked("step", good,
                          [&](const nl_append_step* step) { return nl_attention_plan_set_slots(plan, step); });
    EXPECT_INVALID("plan", nl_attention_plan_set_slots(nullptr, &good));
    const auto set_changed = [&](auto change) {
        nl_append_step step = good;
        change(step);
        return nl_attention_plan_set_slots(plan, &step);
    };
    EXPECT_INVALID("step.slots is NULL", set_changed([](auto& s) { s.slots = nullptr; }));
    EXPECT_INVALID("step.key_positions is NULL", set_changed([](auto& s) { s.key_positions = nullptr; }));
    EXPECT_INVALID("step.num_rows is", set_changed([](auto& s) { s.num_rows = kHuge; }));
    for (const int32_t bad : {-1, 100, INT32_MAX})
        EXPECT_INVALID("step.key_positions[0] is " + std::to_string(bad),
                       set_changed([&](auto& s) { s.key_positions = &bad; }));
    const AttentionOptions plain = make_options(4, 2, 64, 16, NL_DTYPE_F32);
    const AttentionPlan unturned = make_plan(ops(), plain.get(), 1, 1, 1, 1);
    EXPECT_INVALID("step.key_positions is 0x", nl_attention_plan_set_slots(unturned.get(), &good));
    nl_append_step without = good;
    without.key_positions = nullptr;
    EXPECT_EQ(nl_attention_plan_set_slots(unturned.get(), &without), NL_OK);
}

TEST_P(PlanArguments, RunAndAppend) {
    NL_CHECK(set({}));
    const std::vector<int32_t> slots{0, 1, 2};
    const nl_append_step append{.struct_size = sizeof(append),
                                .num_pages = 10,
                                .slots = slots.data(),
                                .key_positions = slots.data(),
                                .num_rows = 3};
    NL_CHECK(nl_attention_plan_set_slots(plan_.get(), &append));
    const Buffer tensor(device(), std::vector<std::byte>(size_t{10} * 2 * 2 * 16 * 64 * 4));
    const Buffer other(device(), std::vector<std::byte>(size_t{4} * 4 * 64 * 4));
    nl_attention_plan* const plan = plan_.get();
    void* const p = tensor.data();
    void* const o = other.data();
    const nl_const_rows q{o, 256, 64};
    const nl_rows out{o, 256, 64};
    const nl_const_rows kv{o, 128, 64};
    EXPECT_INVALID("plan", attention_run(nullptr, q, p, out));
    EXPECT_INVALID("q is NULL: expected a pointer", nl_attention_run(plan, nullptr, p, &out, nullptr));
    EXPECT_INVALID("out is NULL: expected a pointer", nl_attention_run(plan, &q, p, nullptr, nullptr));
    EXPECT_INVALID("q.data is NULL", attention_run(plan, {nullptr, 256, 64}, p, out));
    EXPECT_INVALID("pages is NULL", attention_run(plan, q, nullptr, out));
    EXPECT_INVALID("out.data is NULL", attention_run(plan, q, p, {nullptr, 256, 64}));
    for (const int64_t bad : {INT64_MIN, int64_t{-64}, INT64_MAX}) {
        const std::string is = " is " + std::to_string(bad);
        EXPECT_INVALID("q.row_stride" + is, attention_run(plan, {o, bad, 64}, p, out));
        EXPECT_INVALID("q.head_stride" + is, attention_run(plan, {o, 256, bad}, p, out));
        EXPECT_INVALID("out.row_stride" + is, attention_run(plan, q, p, {o, bad, 64}));
        EXPECT_INVALID("out.head_stride" + is, attention_run(plan, q, p, {o, 256, bad}));
        EXPECT_INVALID("k.row_stride" + is, kv_append(plan, {o, bad, 64}, kv, p));
        EXPECT_INVALID("v.head_stride" + is, kv_append(plan, kv, {o, 128, bad}, p));
    }
    EXPECT_INVALID("out.row_stride is 0", attention_run(plan, q, p, {o, 0, 64}));
    char* const odd = static_cast<char*>(o) + 2;
    EXPECT_INVALID("q.data is 0x", attention_run(plan, {odd, 256, 64}, p, out));
    EXPECT_INVALID("lse is 0x", attention_run(plan, q, p, out, static_cast<float*>(static_cast<void*>(odd))));
    EXPECT_INVALID("plan", kv_append(nullptr, kv, kv, p));
    EXPECT_INVALID("k is NULL: expected a pointer", nl_kv_append(plan, nullptr, &kv, p));
    EXPECT_INVALID("v is NULL: expected a pointer", nl_kv_append(plan, &kv, nullptr, p));
    EXPECT_INVALID("k.data is NULL", kv_append(plan, {nullptr, 128, 64}, kv, p));
    EXPECT_INVALID("v.data is NULL", kv_append(plan, kv, {nullptr, 128, 64}, p));
    EXPECT_INVALID("pages is NULL", kv_append(plan, kv, kv, nullptr));
    EXPECT_INVALID("plan", nl_attention_plan_set_kv_scales(nullptr, 1, 1));
    EXPECT_INVALID("k_scale", nl_attention_plan_set_kv_scales(plan, 0, 1));
    EXPECT_INVALID("v_scale", nl_attention_plan_set_kv_scales(plan, 1, std::nanf("")));
    if (on_gpu()) {
        EXPECT_INVALID("multiple of 16 bytes", attention_run(plan, {static_cast<char*>(o) + 4, 256, 64}, p, out));
        EXPECT_INVALID("q.head_stride is 66", attention_run(plan, {o, 256, 66}, p, out));
    }
}

TEST_P(PlanArguments, Ops) {
    EXPECT_INVALID("ops", nl_ops_set_stream(nullptr, nullptr));
    EXPECT_INVALID("ops", nl_ops_synchronize(nullptr));
    EXPECT_INVALID("ops", nl_ops_set_threads(nullptr, 1));
    for (const int32_t threads : {INT32_MIN, -1, 1025, INT32_MAX})
        EXPECT_INVALID("num_threads is " + std::to_string(threads), nl_ops_set_threads(ops(), threads));
    size_t length = 0;
    char name[64];
    EXPECT_INVALID("ops", nl_ops_device(nullptr, name, sizeof(name), &length));
    EXPECT_INVALID("length", nl_ops_device(ops(), name, sizeof(name), nullptr));
    EXPECT_FAILS(NL_ERROR_BUFFER_TOO_SMALL, "capacity is 0", nl_ops_device(ops(), nullptr, 0, &length));
    ASSERT_LE(length, sizeof(name));
    NL_CHECK(nl_ops_device(ops(), name, sizeof(name), &length));
    EXPECT_EQ(std::string(name, 3), device().substr(0, 3).replace(0, 3, on_gpu() ? "cud" : "cpu"));
}

// Several threads on one handle: calls take turns, and each gets its own right result.
TEST_P(PlanArguments, ThreadsTakeTurns) {
    NL_CHECK(set({}));
    const Buffer pages = Buffer::of(device(), std::vector<float>(size_t{10} * 2 * 2 * 16 * 64, 0.5F));
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            const Buffer q = Buffer::of(device(), std::vector<float>(size_t{4} * 4 * 64, 0.25F));
            const Buffer out = Buffer::of(device(), std::vector<float>(size_t{4} * 4 * 64, 0.0F));
            for (int round = 0; round < 20; ++round) {
                NL_EXPECT(set({}));
                NL_EXPECT(attention_run(plan_.get(), {q.data(), 256, 64}, pages.data(), {out.data(), 256, 64}));
            }
            for (const float element : out.values<float>()) ASSERT_NEAR(element, 0.5F, 1e-6F);
        });
    }
    for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace nanolith::test
