// Decode, prefill with history and mixes of them over the grid of shapes and formats, against float64.
#include <cmath>
#include <utility>

#include "ops/paged_case.h"

namespace nanolith::test {
namespace {

class Attention : public OnDevice {
  protected:
    void expect_right(PagedCase& batch) {
        batch.finish();
        batch.expect_right(ops(), device());
    }
};
NL_ON_EVERY_DEVICE(Attention);

AttentionKind kind_of(int32_t ratio, int32_t head_dim, int32_t page_size, Format dtype, Format kv_dtype) {
    AttentionKind kind;
    kind.num_kv_heads = ratio >= 7 ? 1 : 2;
    kind.num_heads = ratio * kind.num_kv_heads;
    kind.head_dim = head_dim;
    kind.page_size = page_size;
    kind.dtype = dtype;
    kind.kv_dtype = kv_dtype;
    return kind;
}

// Sequences of every critical length: rows that decode, a short prefill after a history, one without.
void add_ragged_lengths(PagedCase& batch, int32_t page_size) {
    for (const int32_t length : {0, 1, page_size - 1, page_size, page_size + 1}) batch.add_simple_sequence(1, length);
    batch.add_simple_sequence(3, page_size + 2);
    batch.add_simple_sequence(5, 5);
}

TEST_P(Attention, EveryRatioAndHeadDim) {
    Random random;
    constexpr int32_t kPageSizes[] = {16, 32, 64, 128, 256};
    constexpr Format kFormats[] = {Format::f16, Format::bf16, Format::f32};
    int turn = random.integer(0, 1000);  // which page size and format meet which shape differs from run to run
    for (const int32_t ratio : {1, 2, 4, 7, 8, 32}) {
        for (const int32_t head_dim : {64, 80, 96, 128, 256}) {
            const Format format = kFormats[turn % 3];
            const int32_t page_size = kPageSizes[turn % 5];
            ++turn;
            PagedCase batch(kind_of(ratio, head_dim, page_size, format, format), random);
            add_ragged_lengths(batch, page_size);
            expect_right(batch);
            if (HasFatalFailure()) return;
        }
    }
}

TEST_P(Attention, EveryPageSizeAndFormat) {
    Random random;
    struct Formats {
        Format dtype;
        Format kv_dtype;
        bool on_gpu;
    };
    constexpr Formats kFormats[] = {
        {Format::f32, Format::f32, true},   {Format::f16, Format::f16, true},  {Format::bf16, Format::bf16, true},
        {Format::f16, Format::f8, true},    {Format::bf16, Format::f8, true},  {Format::f32, Format::f8, false},
        {Format::f32, Format::bf16, false}, {Format::f16, Format::f32, false}, {Format::bf16, Format::f16, false},
    };
    for (const int32_t page_size : {16, 32, 64, 128, 256}) {
        for (const Formats& formats : kFormats) {
            if (on_gpu() && !formats.on_gpu) continue;
            AttentionKind kind = kind_of(4, 64, page_size, formats.dtype, formats.kv_dtype);
            if (formats.kv_dtype == Format::f8) {
                kind.k_scale = 1.0F / 256;
                kind.v_scale = 1.0F / 128;
            }
            PagedCase batch(kind, random);
            add_ragged_lengths(batch, page_size);
            expect_right(batch);
            if (HasFatalFailure()) return;
        }
    }
}

// The CPU takes shapes that the GPU has no kernels for.
TEST_P(Attention, OddShapesOnTheCpu) {
    if (on_gpu()) GTEST_SKIP() << "of the CPU alone";
    Random random;
    for (const int32_t head_dim : {2, 6, 22, 72, 250}) {
        for (const int32_t ratio : {3, 5, 100}) {
            PagedCase batch(kind_of(ratio, head_dim, 16, Format::f32, Format::f16), random);
            add_ragged_lengths(batch, 16);
            expect_right(batch);
            if (HasFatalFailure()) return;
        }
    }
}

TEST_P(Attention, LongContextsBesideShortOnes) {
    Random random;
    for (const Format format : {Format::f16, Format::bf16}) {
        PagedCase batch(kind_of(4, 128, 64, format, format), random);
        batch.add_simple_sequence(1, 3001);
        batch.add_simple_sequence(1, 1);
        batch.add_simple_sequence(8, 700);
        batch.add_simple_sequence(1, 0);
        batch.add_simple_sequence(1, 129);
        expect_right(batch);
    }
}

TEST_P(Attention, PrefillWithHistory) {
    Random random;
    for (const int32_t rows : {2, 16, 33, 65, 130}) {
        PagedCase batch(kind_of(rows % 2 == 0 ? 4 : 7, 64, 32, Format::f16, Format::f16), random);
        batch.add_simple_sequence(rows, rows);
        batch.add_simple_sequence(rows, rows + random.integer(1, 100));
        expect_right(batch);
        if (HasFatalFailure()) return;
    }
}

// Plans for prompts of thousands of rows may be done by other kernels, whatever they are set to.
TEST_P(Attention, PlansForLongPrompts) {
    Random random;
    for (const int32_t rows : {1, 40, 130, 300}) {
        AttentionKind kind = kind_of(4, 128, 64, rows % 4 == 0 ? Format::bf16 : Format::f16, Format::f16);
        kind.kv_dtype = kind.dtype;
        kind.rotated = rows == 130;
        kind.causal = rows != 40;
        PagedCase batch(kind, random);
        batch.set_max_rows(8192);
        if (kind.rotated) batch.set_query_bound(1);
        const int32_t history = random.integer(1, 700);
        const size_t chunk = batch.add_chunk(history);
        const size_t own = batch.add_chunk(rows);
        batch.add_sequence(rows, history, {{chunk, history, 0}, {own, rows, history}});
        expect_right(batch);
        if (HasFatalFailure()) return;
    }
}

TEST_P(Attention, NotCausal) {
    Random random;
    for (const Format format : {Format::f32, Format::f16}) {
        AttentionKind kind = kind_of(2, 64, 16, format, format);
        kind.causal = false;
        PagedCase batch(kind, random);
        add_ragged_lengths(batch, 16);
        batch.add_sequence(20, 0, {{batch.add_chunk(50), 50, 0}});
        expect_right(batch);
    }
}

TEST_P(Attention, SlidingWindow) {
    Random random;
    for (const int32_t window : {1, 7, 16, 63, 64, 65, 1000}) {
        AttentionKind kind = kind_of(4, 64, 16, Format::f16, Format::f16);
        kind.window = window;
        PagedCase batch(kind, random);
        add_ragged_lengths(batch, 16);
        batch.add_simple_sequence(1, 300);
        batch.add_simple_sequence(70, 200);
        expect_right(batch);
        if (HasFatalFailure()) return;
    }
}

TEST_P(Attention, SoftCap) {
    Random random;
    for (const Format format : {Format::f32, Format::bf16}) {
        AttentionKind kind = kind_of(2, 128, 64, format, format);
        kind.softcap = 5;
        PagedCase batch(kind, random);
        batch.set_query_bound(30);  // scores well beyond the cap
        add_ragged_lengths(batch, 64);
        batch.add_simple_sequence(20, 90);
        expect_right(batch);
    }
}

TEST_P(Attention, Rotated) {
    Random random;
    for (const Format format : {Format::f32, Format::f16, Format::bf16}) {
        AttentionKind kind = kind_of(4, 64, 16, format, format);
        kind.rotated = true;
        PagedCase batch(kind, random);
        add_ragged_lengths(batch, 16);
        batch.add_simple_sequence(40, 90);
        // Far from its keys, as a conversation at the end of a long context.
        batch.add_sequence(1, 131071, {{batch.add_chunk(20), 20, 131000 - 40}});
        expect_right(batch);
        if (HasFatalFailure()) return;
    }
}

TEST_P(Attention, OtherScales) {
    Random random;
    for (const double scale : {1.0, 0.03, -0.125}) {
        AttentionKind kind = kind_of(2, 64, 16, Format::f32, Format::f32);
        kind.scale = scale;
        PagedCase batch(kind, random);
        batch.set_query_bound(1);
        add_ragged_lengths(batch, 16);
        expect_right(batch);
        if (HasFatalFailure()) return;
    }
}

// Scores of +80, -80 and 0, and of any mix: exp(80) is 5e34, and its square is beyond float32.
TEST_P(Attention, LargeScoresStayFinite) {
    Random random;
    for (const Format format : {Format::f32, Format::f16, Format::bf16}) {
        AttentionKind kind = kind_of(4, 64, 16, format, format);
        kind.scale = 1;
        PagedCase batch(kind, random);
        const double size = round_to(format, std::sqrt(80.0 / 64));
        batch.set_query(std::vector<double>(64, size));
        const auto keys = [&](std::vector<int> signs) {
            std::vector<std::vector<double>> made;
            for (const int sign : signs) made.emplace_back(64, sign * size);
            return made;
        };
        std::vector<int> mixed;
        for (int i = 0; i < 100; ++i) mixed.push_back(random.integer(-1, 1));
        for (const std::vector<int>& signs :
             {std::vector<int>{1}, std::vector<int>{-1}, std::vector<int>(70, 1), std::vector<int>(70, -1), mixed}) {
            const size_t chunk = batch.add_chunk_with_keys(keys(signs));
            const auto length = static_cast<int32_t>(signs.size());
            batch.add_sequence(1, length - 1, {{chunk, length, 0}});
        }
        expect_right(batch);
        if (HasFatalFailure()) return;
    }
}

// NaN among keys or values reaches the rows that see it, through contexts that many blocks share too, and no others.
TEST_P(Attention, NotANumber) {
    Random random;
    for (const auto& [format, kv_format] :
         {std::pair{Format::f32, Format::f32}, std::pair{Format::f16, Format::f16},
          std::pair{Format::bf16, Format::bf16}, std::pair{Format::f16, Format::f8}}) {
        for (const bool key : {false, true}) {
            PagedCase batch(kind_of(4, 128, 64, format, kv_format), random);
            for (const int32_t rows : {1, 40}) {
                const size_t chunk = batch.add_chunk(3000);
                const int32_t token = random.integer(0, 3000 - rows);
                key ? batch.spoil_key(chunk, token) : batch.spoil_value(chunk, token);
                batch.add_sequence(rows, 3000 - rows, {{chunk, 3000, 0}});
            }
            batch.add_simple_sequence(1, 700);
            expect_right(batch);
            if (HasFatalFailure()) return;
        }
    }
}

// Equal scores: the mean of the values.
TEST_P(Attention, EqualScores) {
    Random random;
    for (const Format format : {Format::f32, Format::f16, Format::bf16}) {
        PagedCase batch(kind_of(2, 128, 64, format, format), random);
        batch.set_query(std::vector<double>(128, 0));
        batch.add_simple_sequence(1, 1000);
        batch.add_simple_sequence(9, 100);
        expect_right(batch);
        if (HasFatalFailure()) return;
    }
}

// The same plan for other contents, as an engine uses it from step to step; on a GPU through a recorded graph.
TEST_P(Attention, PlanIsSetAgain) {
    Random random;
    const AttentionKind kind = kind_of(4, 64, 16, Format::f16, Format::f16);
    const AttentionOptions options = kind.options();
    const AttentionPlan plan = make_plan(ops(), options.get(), 16, 16, 16, 64);
    const size_t elements = size_t{16} * (8 * 64 + 16);
    const Buffer q(device(), poison(kind.dtype, elements));
    const Buffer out(device(), poison(kind.dtype, elements));
    const Buffer pages(device(), poison(kind.kv_dtype, size_t{131} * 2 * 2 * 16 * 64));
    const auto run = [&] {
        NL_EXPECT(attention_run(plan.get(), {q.data(), 8 * 64 + 16, 64}, pages.data(), {out.data(), 8 * 64 + 16, 64}));
    };
    std::unique_ptr<RecordedGraph> graph;
    for (int step = 0; step < 5; ++step) {
        PagedCase batch(kind, random);
        for (int i = 0; i < 8; ++i) batch.add_simple_sequence(random.integer(1, 2), random.integer(2, 100));
        batch.finish();
        ASSERT_LE(batch.pool().size(), pages.download().size());
        const auto fitted = [](std::vector<std::byte> bytes, size_t size) {
            bytes.resize(size, std::byte{0xFF});
            return bytes;
        };
        auto mutable_upload = [&](const Buffer& to, const std::vector<std::byte>& bytes) {
            Buffer(to).upload(fitted(bytes, to.download().size()));
        };
        mutable_upload(q, batch.queries());
        mutable_upload(pages, batch.pool());
        mutable_upload(out, {});
        NL_CHECK(batch.set(plan.get()));
        if (on_gpu() && has_cuda_runtime() && graph == nullptr) {
            graph = std::make_unique<RecordedGraph>();
            NL_CHECK(nl_ops_synchronize(ops()));
            NL_CHECK(nl_ops_set_stream(ops(), graph->stream()));
            graph->record(run);
        }
        if (graph != nullptr) {
            NL_CHECK(nl_ops_synchronize(ops()));
            graph->replay();
        } else {
            run();
        }
        std::vector<std::byte> found = out.download();
        batch.compare(found, {});
        for (size_t i = batch.tensor_elements(); i < elements; ++i)
            ASSERT_TRUE(std::isnan(get(kind.dtype, found, i))) << "written after the last row";
        if (HasFatalFailure()) return;
    }
    NL_CHECK(nl_ops_set_stream(ops(), nullptr));
}

// Results don't depend on the number of threads, nor on what else is in the batch, beyond rounding.
TEST_P(Attention, ThreadsDontMatter) {
    Random random;
    for (const int32_t threads : {1, 2, 7}) {
        NL_CHECK(nl_ops_set_threads(ops(), threads));
        PagedCase batch(kind_of(4, 64, 16, Format::f32, Format::f32), random);
        add_ragged_lengths(batch, 16);
        expect_right(batch);
    }
}

// Scales given to the plan, as for one layer of many, stand in for those of its options.
TEST_P(Attention, ScalesOfThePlan) {
    Random random;
    SCOPED_TRACE(random.seed());
    AttentionKind kind = kind_of(4, 64, 16, Format::f16, Format::f8);
    kind.k_scale = 1.0F / 200;
    kind.v_scale = 1.0F / 300;
    PagedCase batch(kind, random);
    add_ragged_lengths(batch, 16);
    batch.finish();
    AttentionKind other = kind;
    other.k_scale = 7;
    other.v_scale = 9;
    const AttentionOptions options = other.options();
    const AttentionPlan plan = make_plan(ops(), options.get(), batch.num_rows(), batch.num_sequences(),
                                         batch.num_segments(), batch.num_entries());
    NL_CHECK(batch.set(plan.get()));
    NL_CHECK(nl_attention_plan_set_kv_scales(plan.get(), kind.k_scale, kind.v_scale));
    const Buffer q(device(), batch.queries());
    const Buffer pages(device(), batch.pool());
    const Buffer out(device(), poison(kind.dtype, batch.tensor_elements()));
    NL_CHECK(attention_run(plan.get(), {q.data(), batch.row_stride(), batch.head_stride()}, pages.data(),
                           {out.data(), batch.row_stride(), batch.head_stride()}));
    batch.compare(out.download(), {});

    // What nl_kv_append writes is divided by them.
    const int32_t slot = 0;
    auto append = sized<nl_append_step>();
    append.num_pages = 1;
    append.slots = &slot;
    append.num_rows = 1;
    NL_CHECK(nl_attention_plan_set_slots(plan.get(), &append));
    NL_CHECK(nl_attention_plan_set_kv_scales(plan.get(), 0.5F, 0.25F));
    std::vector<std::byte> ones(size_t{2} * 64 * 2);
    for (size_t i = 0; i < 128; ++i) put(Format::f16, 1, ones, i);
    const Buffer row(device(), ones);
    NL_CHECK(kv_append(plan.get(), {row.data(), 128, 64}, {row.data(), 128, 64}, pages.data()));
    const std::vector<std::byte> written = pages.download();
    EXPECT_EQ(get(Format::f8, written, 0), 2);
    EXPECT_EQ(get(Format::f8, written, size_t{2} * 16 * 64), 4);
}

// A new plan has no rows, and a plan without rows runs.
TEST_P(Attention, EmptyPlan) {
    const AttentionKind kind;
    const AttentionOptions options = kind.options();
    const AttentionPlan plan = make_plan(ops(), options.get(), 1, 1, 1, 1);
    NL_CHECK(attention_run(plan.get(), {}, nullptr, {}));
    const auto nothing = sized<nl_attention_step>();
    NL_CHECK(nl_attention_plan_set(plan.get(), &nothing));
    NL_CHECK(attention_run(plan.get(), {}, nullptr, {}));
    const auto no_slots = sized<nl_append_step>();
    NL_CHECK(nl_attention_plan_set_slots(plan.get(), &no_slots));
    NL_CHECK(kv_append(plan.get(), {}, {}, nullptr));
    NL_CHECK(nl_ops_synchronize(ops()));
}

}  // namespace
}  // namespace nanolith::test
