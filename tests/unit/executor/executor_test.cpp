// The operator tests of every backend: random small models against the float64 reference, through the paged cache.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "unit/executor/executor_fixture.h"

namespace nanolith::testing {
namespace {

// Query heads a KV head: 1, 2, 4, 7, 8; all head dims; sizes that no vector length divides.
const RandomShape kShapes[] = {
    {.hidden_size = 52, .intermediate_size = 77, .num_heads = 3, .num_kv_heads = 3, .head_dim = 32, .vocab_size = 101},
    {.hidden_size = 96,
     .intermediate_size = 130,
     .num_heads = 4,
     .num_kv_heads = 2,
     .head_dim = 64,
     .vocab_size = 257,
     .qkv_bias = true},
    {.hidden_size = 100,
     .intermediate_size = 64,
     .num_heads = 8,
     .num_kv_heads = 2,
     .head_dim = 80,
     .vocab_size = 99,
     .qk_norm = true},
    {.hidden_size = 70,
     .intermediate_size = 51,
     .num_heads = 7,
     .num_kv_heads = 1,
     .head_dim = 96,
     .vocab_size = 130,
     .qkv_bias = true,
     .qk_norm = true},
    {.hidden_size = 64,
     .intermediate_size = 96,
     .num_heads = 16,
     .num_kv_heads = 2,
     .head_dim = 128,
     .vocab_size = 128,
     .qk_norm = true},
};

std::string describe(const RandomShape& shape, int32_t page_size) {
    return std::to_string(shape.num_heads) + "/" + std::to_string(shape.num_kv_heads) + " heads of " +
           std::to_string(shape.head_dim) + ", pages of " + std::to_string(page_size);
}

TEST_P(ExecutorTest, PrefillsAndSlices) {
    const int32_t page_sizes[] = {16, 32, 64, 128, 256};
    for (size_t i = 0; i < std::size(kShapes); ++i) {
        RandomModel model(kShapes[i], GetParam().dtype, seed_ + i);
        PagedHarness harness(*backend_, model, options(page_sizes[i], 12 * 256 / page_sizes[i], 256), seed_);
        ASSERT_TRUE(harness.ready());
        const std::string what = describe(kShapes[i], page_sizes[i]);
        for (const int32_t length : {1, 2, 9, page_sizes[i]}) {
            Store tail;
            expect_close(harness.run({{&tail, 0, {}, harness.tokens(length)}}),
                         what + ", prefill of " + std::to_string(length));
        }
        Store tail;
        for (const int32_t slice : {5, 70, 1, 33})
            expect_close(harness.run({{&tail, 0, {}, harness.tokens(slice)}}),
                         what + ", slice of " + std::to_string(slice));
    }
}

TEST_P(ExecutorTest, DecodesRaggedSequencesBesidePrefill) {
    for (const int32_t page_size : {16, 64}) {
        for (size_t i = 0; i < std::size(kShapes); ++i) {
            RandomModel model(kShapes[i], GetParam().dtype, seed_ + 10 + i);
            PagedHarness harness(*backend_, model, options(page_size, 40, 330), seed_);
            ASSERT_TRUE(harness.ready());
            const std::string what = describe(kShapes[i], page_size);
            std::vector<Store> tails(6);
            const int32_t lengths[] = {1, page_size - 1, page_size, page_size + 1, 2 * page_size + 3};
            std::vector<Job> prefill;
            for (size_t s = 0; s < 5; ++s) prefill.push_back({&tails[s], 0, {}, harness.tokens(lengths[s])});
            expect_close(harness.run(prefill), what + ", prefill of several");
            for (int step = 0; step < 3; ++step) {
                std::vector<Job> decode;
                for (size_t s = 0; s < 5; ++s) decode.push_back({&tails[s], 0, {}, harness.tokens(1)});
                if (step == 1) decode.insert(decode.begin() + 2, Job{&tails[5], 0, {}, harness.tokens(29)});
                expect_close(harness.run(decode), what + ", decode step " + std::to_string(step));
            }
        }
    }
}

// One to eight rows of models whose rows are whole lines of 128 bytes, which products of few rows are made for on some
// devices: sizes with and without a rest after their largest blocks, fewer and more tiles than multiprocessors.
TEST_P(ExecutorTest, DecodesOneToEightRowsOfRandomShapes) {
    Random random(seed_ + 30);
    for (uint64_t i = 0; i < 3; ++i) {
        RandomShape shape;
        shape.num_layers = 2;
        shape.hidden_size = 64 * static_cast<int32_t>(1 + random.below(9));
        shape.intermediate_size = 64 * static_cast<int32_t>(1 + random.below(12));
        shape.num_kv_heads = static_cast<int32_t>(1 + random.below(3));
        shape.num_heads = shape.num_kv_heads * static_cast<int32_t>(1 + random.below(3));
        shape.head_dim = 64;
        shape.vocab_size = static_cast<int32_t>(30 + random.below(500));
        shape.qkv_bias = random.below(2) == 0;
        shape.output_bias = random.below(4) == 0;
        RandomModel model(shape, GetParam().dtype, seed_ + 31 + i);
        PagedHarness harness(*backend_, model, options(16, 40, 64), seed_);
        ASSERT_TRUE(harness.ready());
        std::vector<Store> tails(8);
        for (const size_t rows : {size_t{1}, size_t{2}, size_t{3}, size_t{5}, size_t{8}}) {
            std::vector<Job> decode;
            for (size_t s = 0; s < rows; ++s) decode.push_back({&tails[s], 0, {}, harness.tokens(1)});
            expect_close(harness.run(decode), "hidden " + std::to_string(shape.hidden_size) + ", inner " +
                                                  std::to_string(shape.intermediate_size) + ", " +
                                                  std::to_string(rows) + " rows");
        }
    }
}

// Contexts of a few hundred tokens, which some devices read with several multiprocessors for each head: some of their
// shares have tokens of two segments, others none; with new tokens at a page's beginning and end.
TEST_P(ExecutorTest, DecodesFewRowsAfterSeveralSegments) {
    Random random(seed_ + 40);
    for (const RandomShape& shape : {kShapes[1], kShapes[4]}) {
        RandomModel model(shape, GetParam().dtype, seed_ + 41);
        PagedHarness harness(*backend_, model, options(32, 60, 330), seed_);
        ASSERT_TRUE(harness.ready());
        Store chunk, first, second;
        const int32_t length = 150 + random.below(80);
        const int32_t tail = 60 + random.below(40);
        expect_close(harness.run({{&chunk, 0, {}, harness.tokens(length)}}), "a chunk");
        expect_close(harness.run({{&first, length, {{&chunk, 0}}, harness.tokens(tail)},
                                  {&second, 1000 + length, {{&chunk, 1000}}, harness.tokens(3)}}),
                     "tails after it");
        for (const int32_t rows : {1, 2, 7}) {
            std::vector<Job> jobs = {{&first, length, {{&chunk, 0}}, harness.tokens(rows)}};
            if (rows == 2) jobs.push_back({&second, 1000 + length, {{&chunk, 1000}}, harness.tokens(4)});
            expect_close(harness.run(jobs), describe(shape, 32) + ", " + std::to_string(rows) + " rows after " +
                                                std::to_string(length) + " and " + std::to_string(tail) + " tokens");
        }
    }
}

// Contexts of a few thousand tokens, by one chunk that is used again and again: where several multiprocessors read them
// for each head, some values find room only when keys have gone.
TEST_P(ExecutorTest, DecodesOneRowAfterManySegments) {
    Random random(seed_ + 50);
    RandomShape shape = kShapes[4];
    shape.max_context = 8192;
    RandomModel model(shape, GetParam().dtype, seed_ + 51);
    PagedHarness harness(*backend_, model, options(32, 40, 200), seed_);
    ASSERT_TRUE(harness.ready());
    const int32_t length = 180 + random.below(20);
    Store chunk;
    expect_close(harness.run({{&chunk, 0, {}, harness.tokens(length)}}), "a chunk");
    for (const int32_t uses : {2, 3, 8, 14, 20, 26}) {
        Store tail;
        Job job{&tail, uses * length, {}, {}};
        for (int32_t i = 0; i < uses; ++i) job.before.push_back({&chunk, i * length});
        for (const int32_t rows : {3, 1}) {
            job.tokens = harness.tokens(rows);
            expect_close(harness.run({job}),
                         std::to_string(rows) + " rows after " + std::to_string(uses * length) + " tokens");
        }
    }
}

// One to eight sequences with a row each, after a few thousand tokens that they share and some of their own: some
// devices write such rows' keys and values where they attend to them.
TEST_P(ExecutorTest, DecodesFewSequencesAfterLongContexts) {
    Random random(seed_ + 60);
    constexpr int32_t kDims[] = {24, 48, 64, 128, 128};
    constexpr int32_t kUses = 18;  // of one chunk, one after the other
    for (const int32_t dim : kDims) {
        RandomShape shape;
        shape.num_layers = 2;
        shape.hidden_size = 64;
        shape.intermediate_size = 64;
        shape.num_kv_heads = 1 + random.below(3);
        shape.num_heads = shape.num_kv_heads * (1 + random.below(4));
        shape.head_dim = dim;
        shape.vocab_size = 100;
        shape.max_context = 8192;
        shape.qkv_bias = random.below(2) == 0;
        shape.qk_norm = random.below(2) == 0;
        const int32_t page_size = 16 << random.below(4);
        const std::string what = describe(shape, page_size) + (shape.qkv_bias ? ", bias" : "") +
                                 (shape.qk_norm ? ", norms of queries and keys" : "");
        RandomModel model(shape, GetParam().dtype, seed_ + 61);
        PagedHarness harness(*backend_, model, options(page_size, 200 / page_size + 40, 200), seed_);
        ASSERT_TRUE(harness.ready());
        Store chunk;
        const int32_t length = 170 + random.below(20);
        expect_close(harness.run({{&chunk, 0, {}, harness.tokens(length)}}), what + ", a chunk");
        std::vector<Store> tails(static_cast<size_t>(1 + random.below(8)));
        std::vector<Job> jobs;
        for (Store& tail : tails) {
            jobs.push_back({&tail, kUses * length, {}, harness.tokens(1 + random.below(10))});
            for (int32_t i = 0; i < kUses; ++i) jobs.back().before.push_back({&chunk, i * length});
        }
        for (int step = 0; step < 4; ++step) {
            expect_close(harness.run(jobs),
                         what + ", " + std::to_string(jobs.size()) + " sequences, step " + std::to_string(step));
            for (Job& job : jobs) job.tokens = harness.tokens(1);
        }
    }
}

// Sequences with a row each, which have a few tokens of their own behind tokens that all of them share: five sequences,
// and more than 65, whose query vectors are too many for one query tile of any kernel. Some devices then attend to the
// shared tokens and to the others by two kernels side by side, and record the fourth step, so that the fifth is a
// replay.
TEST_P(ExecutorTest, DecodesManySequencesBehindSharedTokens) {
    Random random(seed_ + 70);
    constexpr int32_t kUses = 6;  // of one chunk, one after the other
    for (const size_t sequences : {size_t{5}, size_t{66} + random.below(10)}) {
        RandomShape shape;
        shape.num_layers = 2;
        shape.hidden_size = 64;
        shape.intermediate_size = 64;
        shape.num_kv_heads = 1 + random.below(2);
        shape.num_heads = shape.num_kv_heads * (2 + random.below(3));
        shape.head_dim = random.below(2) == 0 ? 64 : 128;
        shape.vocab_size = 100;
        shape.qk_norm = random.below(2) == 0;
        RandomModel model(shape, GetParam().dtype, seed_ + 71 + sequences);
        const int32_t page_size = 16 << random.below(2);
        const auto pages = static_cast<int32_t>(sequences) + 200 / page_size;
        PagedHarness harness(*backend_, model, options(page_size, pages, 200), seed_);
        ASSERT_TRUE(harness.ready());
        Store chunk;
        const int32_t length = 100 + random.below(90);
        const std::string what = describe(shape, page_size) + ", " + std::to_string(sequences) + " sequences behind " +
                                 std::to_string(kUses * length) + " tokens";
        expect_close(harness.run({{&chunk, 0, {}, harness.tokens(length)}}), what + ", a chunk");
        std::vector<Store> tails(sequences);
        std::vector<Job> jobs;
        for (Store& tail : tails) {
            jobs.push_back({&tail, kUses * length, {}, {}});
            for (int32_t i = 0; i < kUses; ++i) jobs.back().before.push_back({&chunk, i * length});
        }
        for (int step = 0; step < 5; ++step) {
            for (Job& job : jobs) job.tokens = harness.tokens(1);
            expect_close(harness.run(jobs), what + ", step " + std::to_string(step));
        }
    }
}

// Greedy decoding can be repeated: a second executor that runs the same steps reports logits with the same bits,
// because no sum is added up in an order that depends on which thread is faster. A GPU has different kernels for steps
// of one row, of a few and of many after shared tokens, so all three are tried; it records the fourth step and replays
// it as the fifth.
TEST_P(ExecutorTest, TheSameStepsGiveTheSameBits) {
    Random random(seed_ + 80);
    RandomShape shape;
    shape.num_layers = 2;
    shape.hidden_size = 128;
    shape.intermediate_size = 192;
    shape.num_heads = 4;
    shape.num_kv_heads = 2;
    shape.head_dim = 64;
    shape.vocab_size = 200;
    for (const size_t sequences : {size_t{1}, size_t{2} + random.below(7), size_t{40} + random.below(40)}) {
        const int32_t length = 130 + random.below(100);
        std::vector<std::vector<std::vector<float>>> logits[2];  // of each executor's steps
        for (auto& of_steps : logits) {
            RandomModel model(shape, GetParam().dtype, seed_ + 81);
            const auto pages = static_cast<int32_t>(sequences) + 15;
            PagedHarness harness(*backend_, model, options(16, pages, 230), seed_);
            ASSERT_TRUE(harness.ready());
            const auto run = [&](const std::vector<Job>& jobs) {
                of_steps.push_back(harness.run_batch(harness.make_batch(jobs)));
                harness.run_reference(jobs);  // the stores keep count of their tokens in it
            };
            Store chunk;
            run({{&chunk, 0, {}, harness.tokens(length)}});
            std::vector<Store> tails(sequences);
            std::vector<Job> jobs;
            for (Store& tail : tails) jobs.push_back({&tail, length, {{&chunk, 0}}, {}});
            for (int step = 0; step < 5; ++step) {
                for (Job& job : jobs) job.tokens = harness.tokens(1);
                run(jobs);
            }
        }
        for (size_t step = 0; step < logits[0].size(); ++step) {
            EXPECT_EQ(logits[0][step], logits[1][step])
                << "step " << step << " of " << sequences << " sequences behind " << length << " tokens";
        }
    }
}

TEST_P(ExecutorTest, ReusesChunksAtAnyBaseInAnyOrder) {
    for (size_t i = 0; i < std::size(kShapes); ++i) {
        RandomModel model(kShapes[i], GetParam().dtype, seed_ + 20 + i);
        PagedHarness harness(*backend_, model, options(32, 60), seed_);
        ASSERT_TRUE(harness.ready());
        const std::string what = describe(kShapes[i], 32);
        Store a, b, c;
        expect_close(harness.run({{&a, 0, {}, harness.tokens(33)}, {&b, 0, {}, harness.tokens(32)}}),
                     what + ", chunks a and b");
        // Computed with another chunk in view: its own keys still count from its own beginning.
        expect_close(harness.run({{&c, 33, {{&a, 0}}, harness.tokens(47)}}), what + ", chunk c after a");
        Store ab, ba, cab, far;
        const std::vector<Job> jobs = {{&ab, 65, {{&a, 0}, {&b, 33}}, harness.tokens(5)},
                                       {&ba, 65, {{&b, 0}, {&a, 32}}, harness.tokens(1)},
                                       {&cab, 112, {{&c, 0}, {&a, 47}, {&b, 80}}, harness.tokens(40)},
                                       {&far, 3033, {{&a, 0}, {&b, 3000}}, harness.tokens(2)}};
        expect_close(harness.run(jobs), what + ", chunks in four compositions");
        std::vector<Job> decode = jobs;
        for (Job& job : decode) job.tokens = harness.tokens(1);
        expect_close(harness.run(decode), what + ", decode after chunks");
    }
}

// Two and three threads (more than some machines have) give the reference's numbers, in a model large enough to be
// shared among them.
TEST_P(ExecutorTest, ThreadsAgree) {
    const RandomShape shape = {.hidden_size = 512,
                               .intermediate_size = 768,
                               .num_heads = 8,
                               .num_kv_heads = 2,
                               .head_dim = 64,
                               .vocab_size = 1031,
                               .qkv_bias = true};
    RandomModel model(shape, GetParam().dtype, seed_ + 25);
    for (const int32_t num_threads : {2, 3}) {
        auto backend = open_backend(num_threads);
        ASSERT_TRUE(backend.ok()) << backend.error().message;
        PagedHarness harness(**backend, model, options(16, 20), seed_);
        ASSERT_TRUE(harness.ready());
        Store a, b;
        const std::string what = std::to_string(num_threads) + " threads";
        expect_close(harness.run({{&a, 0, {}, harness.tokens(40)}, {&b, 0, {}, harness.tokens(7)}}),
                     what + ", prefill");
        expect_close(harness.run({{&a, 0, {}, harness.tokens(1)}, {&b, 0, {}, harness.tokens(1)}}), what + ", decode");
    }
}

// The bound of every other test tells a base that is off by one position from a right one, with room on both sides.
TEST_P(ExecutorTest, WrongBaseIsFarOutsideTheBound) {
    for (const RandomShape& shape : kShapes) {
        RandomModel model(shape, GetParam().dtype, seed_ + 30);
        PagedHarness harness(*backend_, model, options(64, 20), seed_);
        ASSERT_TRUE(harness.ready());
        Store chunk, tail;
        expect_close(harness.run({{&chunk, 0, {}, harness.tokens(40)}}), "chunk");
        const Deviation deviation = harness.run({{&tail, 41, {{&chunk, 1}}, harness.tokens(4)}}, -1);
        EXPECT_GT(measure(GetParam().dtype, deviation), 3 * bound(GetParam().dtype).limit) << describe(shape, 64);
    }
}

// Fills of NaN do reach the logits when they are read, so the tests above would see any read outside of the segments.
TEST_P(ExecutorTest, PoisonedPagesShow) {
    RandomModel model(kShapes[0], GetParam().dtype, seed_ + 40);
    PagedHarness harness(*backend_, model, options(16, 8), seed_);
    ASSERT_TRUE(harness.ready());
    Store tail;
    OwnedBatch batch = harness.make_batch({{&tail, 0, {}, harness.tokens(3)}});
    batch.segments[0].base = 0;
    batch.segments.insert(batch.segments.begin(), Segment{0, 1, 0});  // the table's unused first entry
    batch.sequences[0].num_segments = 2;
    std::vector<int32_t> sampled(3);
    ASSERT_TRUE(run_step(harness.executor(), batch, sampled).ok());
    std::vector<float> logits(model.spec.vocab_size);
    ASSERT_TRUE(harness.executor().read_logits(2, logits).ok());
    EXPECT_TRUE(std::isnan(logits[0]));
    EXPECT_EQ(sampled, std::vector<int32_t>(3, kNoToken));
    // What a step takes from such a draw is a token nevertheless.
    batch.tokens.back() = drawn_by(2);
    ASSERT_TRUE(run_step(harness.executor(), batch, sampled).ok());
    EXPECT_EQ(sampled, std::vector<int32_t>(3, kNoToken));
}

// A step without output rows writes its tokens' keys and values of all layers, so that later steps can attend to them.
TEST_P(ExecutorTest, StepsWithoutDrawsFillTheCache) {
    for (const RandomShape& shape : kShapes) {
        RandomModel model(shape, GetParam().dtype, seed_ + 60);
        PagedHarness harness(*backend_, model, options(16, 12), seed_);
        ASSERT_TRUE(harness.ready());
        Store tail;
        const Job job{&tail, 0, {}, harness.tokens(37)};
        OwnedBatch batch = harness.make_batch({job});
        batch.output_rows.clear();
        batch.sampling.clear();
        batch.kept_logits.clear();
        ASSERT_TRUE(run_step(harness.executor(), batch, {}).ok());
        harness.run_reference({job});
        expect_close(harness.run({{&tail, 0, {}, harness.tokens(3)}}), describe(shape, 16));
    }
}

// The logits of the last token computed again, its key being in the cache already.
TEST_P(ExecutorTest, RowWithoutSlotWritesNothing) {
    RandomModel model(kShapes[2], GetParam().dtype, seed_ + 50);
    PagedHarness harness(*backend_, model, options(16, 12), seed_);
    ASSERT_TRUE(harness.ready());
    Store tail;
    const std::vector<int32_t> tokens = harness.tokens(20);
    OwnedBatch batch = harness.make_batch({{&tail, 0, {}, tokens}});
    const auto first = harness.run_batch(batch);
    batch.slots.assign(batch.slots.size(), kNoSlot);
    EXPECT_EQ(harness.run_batch(batch), first);
    batch.tokens[3] =
        (batch.tokens[3] + 1) % (model.spec.vocab_size - 1);  // not written, so rows after see the old key
    const auto changed = harness.run_batch(batch);
    EXPECT_NE(changed[3], first[3]);
    EXPECT_EQ(changed[2], first[2]);
    EXPECT_EQ(changed[19], first[19]);
}

Result<void> copy(PagedHarness& harness, int32_t from, int32_t to) {
    const PageCopy one{from, to};
    return harness.executor().copy_pages({&one, 1});
}

TEST_P(ExecutorTest, CopiesPages) {
    RandomModel model(kShapes[1], GetParam().dtype, seed_ + 60);
    PagedHarness harness(*backend_, model, options(16, 12), seed_);
    ASSERT_TRUE(harness.ready());
    Store original;
    expect_close(harness.run({{&original, 0, {}, harness.tokens(21)}}), "original");
    Store fork = original;
    fork.pages[1] = harness.take_page();
    ASSERT_TRUE(copy(harness, original.pages[1], fork.pages[1]).ok());
    expect_close(harness.run({{&fork, 0, {}, harness.tokens(1)}, {&original, 0, {}, harness.tokens(2)}}),
                 "fork and original");
    expect_close(harness.run({{&fork, 0, {}, harness.tokens(1)}}), "fork again");
    EXPECT_EQ(copy(harness, -1, 0).error().status, NL_ERROR_INTERNAL);
    EXPECT_EQ(copy(harness, 0, 12).error().status, NL_ERROR_INTERNAL);
}

// Scores of +-80 and beyond: softmax becomes a choice, and nothing overflows.
TEST_P(ExecutorTest, LargeScoresStayFinite) {
    RandomModel model(kShapes[1], GetParam().dtype, seed_ + 70);
    model.spec.attention_scale *= 30;
    PagedHarness harness(*backend_, model, options(16, 12), seed_);
    ASSERT_TRUE(harness.ready());
    Store tail;
    const Deviation deviation = harness.run({{&tail, 0, {}, harness.tokens(60)}});
    EXPECT_TRUE(deviation.finite);
    // At 16 bits a key's rounding moves such scores by tenths, and the choice with them: only float32 can be compared.
    if (GetParam().dtype == DType::f32) {
        EXPECT_LT(deviation.highest, 1e-3);
    }
}

TEST_P(ExecutorTest, TiedHeadAndFileDtypes) {
    for (const DType file : {DType::f32, DType::f16, DType::bf16}) {
        RandomShape shape = kShapes[1];
        RandomModel model(shape, file, seed_ + 80);
        // The reference must have what the executor has: weights rounded to its dtype, unless the file's are narrower.
        if (GetParam().dtype != DType::f32 && file != GetParam().dtype) continue;
        model.weights.head = model.weights.embedding;
        PagedHarness harness(*backend_, model, options(16, 12), seed_);
        ASSERT_TRUE(harness.ready());
        Store tail;
        expect_close(harness.run({{&tail, 0, {}, harness.tokens(12)}}), std::string("file of ") + dtype_name(file));
    }
}

TEST_P(ExecutorTest, RefusesBadBatches) {
    RandomModel model(kShapes[0], GetParam().dtype, seed_ + 90);
    PagedHarness harness(*backend_, model, options(16, 8), seed_);
    ASSERT_TRUE(harness.ready());
    Store tail;
    const OwnedBatch good = harness.make_batch({{&tail, 0, {}, harness.tokens(5)}});
    const auto before = harness.run_batch(good);
    const auto refused = [&](const char* what, const std::function<void(OwnedBatch&)>& change) {
        OwnedBatch bad = good;
        change(bad);
        const auto ran = harness.executor().submit(bad);
        ASSERT_FALSE(ran.ok()) << what;
        EXPECT_EQ(ran.error().status, NL_ERROR_INTERNAL) << what;
        EXPECT_FALSE(ran.error().message.empty()) << what;
    };
    refused("no rows", [](Batch& b) { b.tokens.clear(); });
    refused("drawn by a row that the step before did not have", [](Batch& b) { b.tokens[1] = drawn_by(5); });
    refused("the lowest token", [](Batch& b) { b.tokens[1] = std::numeric_limits<int32_t>::min(); });
    refused("token of another vocabulary", [&](Batch& b) { b.tokens[1] = model.spec.vocab_size; });
    refused("position", [&](Batch& b) { b.positions[4] = model.spec.max_context; });
    refused("positions with a gap", [](Batch& b) { b.positions[4] = 9; });
    refused("key position", [](Batch& b) { b.key_positions[0] = -1; });
    refused("slot", [](Batch& b) { b.slots[0] = 8 * 16; });
    refused("slot below none", [](Batch& b) { b.slots[0] = -2; });
    refused("slot twice", [](Batch& b) { b.slots[0] = b.slots[1]; });
    refused("short slots", [](Batch& b) { b.slots.pop_back(); });
    refused("page", [](OwnedBatch& b) { b.table[0] = 8; });
    refused("page below the pool", [](OwnedBatch& b) { b.table[1] = -1; });
    refused("changed entry beyond the table", [](Batch& b) { b.changed_entries = {{1, 2}}; });
    refused("changed entry before the table", [](Batch& b) { b.changed_entries = {{-1, 1}}; });
    refused("huge change", [](Batch& b) { b.changed_entries = {{1, std::numeric_limits<int32_t>::max()}}; });
    refused("negative change", [](Batch& b) { b.changed_entries = {{0, -1}}; });
    refused("kept logits of no output row", [](Batch& b) { b.kept_logits = {5}; });
    refused("kept logits twice", [](Batch& b) { b.kept_logits = {1, 1}; });
    refused("kept logits in descending order", [](Batch& b) { b.kept_logits = {2, 1}; });
    refused("segment beyond the table", [](Batch& b) { b.segments[0].length = 1000; });
    refused("segment before the table", [](Batch& b) { b.segments[0].first_page = -1; });
    refused("huge segment", [](Batch& b) { b.segments[0].first_page = std::numeric_limits<int32_t>::max(); });
    refused("row that sees nothing", [](Batch& b) { b.segments[0].base = 1; });
    refused("sequence that leaves rows out", [](Batch& b) { b.sequences[0].num_rows = 4; });
    refused("sequence beyond the rows", [](Batch& b) { b.sequences[0].num_rows = 6; });
    refused("sequence without its segments", [](Batch& b) { b.sequences[0].num_segments = 3; });
    refused("output row", [](Batch& b) { b.output_rows[0] = 5; });
    refused("missing sampling", [](Batch& b) { b.sampling.pop_back(); });
    refused("temperature", [](Batch& b) { b.sampling[0].temperature = std::nanf(""); });
    refused("uniform", [](Batch& b) { b.sampling[0].uniform = 1; });

    // What the last good run left is still there.
    std::vector<float> logits(model.spec.vocab_size);
    ASSERT_TRUE(harness.executor().read_logits(4, logits).ok());
    EXPECT_EQ(logits, before[4]);
    EXPECT_FALSE(harness.executor().read_logits(5, logits).ok());
    EXPECT_FALSE(harness.executor().read_logits(-1, logits).ok());
    EXPECT_FALSE(harness.executor().read_logits(0, std::span(logits).first(3)).ok());
}

TEST_P(ExecutorTest, RefusesWhatDoesNotFit) {
    RandomModel model(kShapes[0], GetParam().dtype, seed_ + 110);
    const auto status = [&](const ModelSpec& spec, const ModelWeights& weights, const ExecutorOptions& wanted) {
        const auto made = backend_->create_executor(spec, weights, wanted, Progress());
        return made.ok() ? NL_OK : made.error().status;
    };
    ExecutorOptions huge = options(256, 8'000'000);
    EXPECT_EQ(status(model.spec, model.weights, huge), NL_ERROR_OUT_OF_MEMORY);
    huge.max_rows = std::numeric_limits<int32_t>::max();
    EXPECT_EQ(status(model.spec, model.weights, huge), NL_ERROR_OUT_OF_MEMORY);
    ModelWeights short_weights = model.weights;
    short_weights.layers[1].down_proj.cols -= 1;
    EXPECT_NE(status(model.spec, short_weights, options(16, 4)), NL_OK);
    EXPECT_EQ(status(model.spec, model.weights, options(16, 4)), NL_OK);
}

INSTANTIATE_TEST_SUITE_P(Backends, ExecutorTest, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace nanolith::testing
