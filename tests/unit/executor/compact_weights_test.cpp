// Executors that keep their matrices compact, against the same weights in float32: logits are those of the quantised
// model, but for rounding, whatever the family.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "model/model.h"
#include "support/dequantised.h"
#include "support/model_files.h"
#include "support/random_gguf.h"
#include "support/temp_folder.h"
#include "unit/executor/executor_fixture.h"

namespace nanolith::testing {
namespace {

constexpr WeightForm kForms[] = {WeightForm::int8, WeightForm::int4, WeightForm::fp8};

CodeKind table_codes(WeightForm form) {
    return form == WeightForm::fp8 ? CodeKind::e4m3 : CodeKind::int8;
}

class CompactWeightsTest : public ExecutorTest {
  protected:
    void expect_reference(const RandomShape& shape, WeightForm form, bool from_source, bool batch_invariant = false) {
        const std::string what = std::string(form_name(form)) + (from_source ? " from its source" : "");
        RandomModel model(shape, GetParam().dtype, seed_);
        const Dequantised dequantised(model.weights, codes_of(form), table_codes(form));
        expect_reference(what, model, dequantised, form, from_source, batch_invariant);
    }
    // Of matrices that a source has in this form.
    void expect_reference(const RandomShape& shape, const CompactForm& form, const std::string& what,
                          bool shuffled = false, bool batch_invariant = false) {
        RandomModel model(shape, GetParam().dtype, seed_);
        const auto make_table = [&](const WeightView& weight) { return std::make_unique<GroupedMatrix>(weight, form); };
        const auto make = [&](const WeightView& weight) {
            return std::make_unique<GroupedMatrix>(weight, form, shuffled);
        };
        expect_reference(what, model, {model.weights, make, make_table}, WeightForm::source, true, batch_invariant);
    }
    // Prefill in slices that go through every kind of product, and decode.
    void expect_reference(const std::string& what, RandomModel& model, const Dequantised& dequantised, WeightForm form,
                          bool from_source, bool batch_invariant) {
        ExecutorOptions wanted = options(16, 40);
        wanted.weights = from_source ? WeightForm::source : form;
        wanted.batch_invariant = batch_invariant;
        PagedHarness harness(*backend_, model, from_source ? dequantised.compact : model.weights, wanted, seed_);
        ASSERT_TRUE(harness.ready()) << what;
        harness.pretend(model.spec, dequantised.weights);
        Store a, b;
        Deviation together;
        const auto run = [&](std::vector<Job> jobs, std::initializer_list<int32_t> counts) {
            size_t i = 0;
            for (const int32_t count : counts) {
                jobs[i].tokens =
                    model.spec.experts.count == 0 ? harness.tokens(count) : harness.clear_tokens(jobs[i], count, 0.1);
                ++i;
            }
            together.add(harness.run(jobs));
        };
        run({{&a, 0, {}, {}}}, {50});
        run({{&b, 0, {}, {}}}, {7});
        run({{&a, 0, {}, {}}}, {1});
        run({{&a, 0, {}, {}}, {&b, 0, {}, {}}}, {1, 1});
        run({{&a, 0, {}, {}}}, {4});
        run({{&a, 0, {}, {}}, {&b, 0, {}, {}}}, {5, 3});
        run({{&a, 0, {}, {}}, {&b, 0, {}, {}}}, {3, 20});
        run({{&a, 0, {}, {}}}, {12});
        expect_close(together, what);
        // float32's bound tells these weights from those before they were quantised.
        if (GetParam().dtype != DType::f32) return;
        harness.pretend(model.spec, model.weights);
        Store c;
        Job job{&c, 0, {}, harness.tokens(40)};
        EXPECT_GT(measure(GetParam().dtype, harness.run({job})), bound(GetParam().dtype).limit) << what;
    }
    // Prefills of so many tokens, each in one step, of weights that are quantised to `form`.
    void expect_prefills(const RandomShape& shape, WeightForm form, std::initializer_list<int32_t> counts) {
        RandomModel model(shape, GetParam().dtype, seed_);
        const Dequantised dequantised(model.weights, codes_of(form), table_codes(form));
        expect_prefills(model, model.weights, dequantised, form, counts, form_name(form));
    }
    // The same of matrices that a source has in this form.
    void expect_prefills(const RandomShape& shape, const CompactForm& form, std::initializer_list<int32_t> counts) {
        RandomModel model(shape, GetParam().dtype, seed_);
        const auto make = [&](const WeightView& weight) { return std::make_unique<GroupedMatrix>(weight, form); };
        const Dequantised dequantised(model.weights, make, make);
        const std::string what = "codes of kind " + std::to_string(static_cast<int>(form.codes));
        expect_prefills(model, dequantised.compact, dequantised, WeightForm::source, counts, what);
    }

  private:
    void expect_prefills(RandomModel& model, const ModelWeights& weights, const Dequantised& dequantised,
                         WeightForm form, std::initializer_list<int32_t> counts, const std::string& what) {
        ExecutorOptions wanted = options(16, 60, 420);
        wanted.weights = form;
        PagedHarness harness(*backend_, model, weights, wanted, seed_);
        ASSERT_TRUE(harness.ready()) << what;
        harness.pretend(model.spec, dequantised.weights);
        ExecutorTest::expect_prefills(harness, model.spec.experts.count > 0, counts, what);
    }
};

RandomShape some_shape() {
    return {.num_layers = 2, .hidden_size = 164, .intermediate_size = 300, .vocab_size = 71, .max_context = 512};
}

TEST_P(CompactWeightsTest, AreThoseThatWereQuantised) {
    for (const WeightForm form : kForms) {
        for (const bool from_source : {false, true}) {
            RandomShape shape = some_shape();
            expect_reference(shape, form, from_source);
            shape.tied = shape.qkv_bias = shape.mlp_bias = shape.post_norms = true;
            expect_reference(shape, form, from_source);
        }
    }
}

// Of lengths that kernels for compact weights take on GPUs that have them.
TEST_P(CompactWeightsTest, OfManySizes) {
    Random random(seed_);
    for (const WeightForm form : kForms) {
        const int32_t kind = random.below(3);
        RandomShape shape = some_shape();
        shape.hidden_size = 64 * (1 + random.below(9));
        shape.intermediate_size = 64 * (1 + random.below(13));
        shape.num_heads = shape.num_kv_heads * (1 + random.below(4));
        shape.head_dim = 64;
        shape.vocab_size = 50 + random.below(400);
        shape.post_norms = kind == 1;
        shape.tied = shape.mlp_bias = kind == 2;
        SCOPED_TRACE("hidden " + std::to_string(shape.hidden_size) + ", MLP " +
                     std::to_string(shape.intermediate_size) + ", heads " + std::to_string(shape.num_heads));
        expect_reference(shape, form, random.below(2) == 0);
    }
}

// The forms that quantised checkpoints have and quantised_form() does not give.
TEST_P(CompactWeightsTest, OfCheckpoints) {
    Random random(seed_);
    for (const auto& [form, what] :
         {std::pair(GroupedMatrix::kZeros, "zero points"), std::pair(GroupedMatrix::kZerosOf8, "zero points of 8 bits"),
          std::pair(GroupedMatrix::kE4M3, "e4m3 with scales of blocks")}) {
        RandomShape shape = some_shape();
        expect_reference(shape, form, what);
        shape.hidden_size = 64 * (1 + random.below(9));
        shape.intermediate_size = 64 * (1 + random.below(13));
        shape.head_dim = 64;
        shape.mlp_bias = random.below(2) == 0;
        expect_reference(shape, form, what);
    }
}

// Columns in another order than the inputs ("act-order" of GPTQ).
TEST_P(CompactWeightsTest, WithColumnsInAnotherOrder) {
    Random random(seed_);
    RandomShape shape = some_shape();
    expect_reference(shape, GroupedMatrix::kZeros, "odd sizes", true);
    expect_reference(shape, GroupedMatrix::kZerosOf8, "batch invariant", true, true);
    shape.hidden_size = 64 * (1 + random.below(9));
    shape.intermediate_size = 64 * (1 + random.below(13));
    shape.head_dim = 64;
    shape.post_norms = random.below(2) == 0;
    expect_reference(shape, random.below(2) == 0 ? GroupedMatrix::kZeros : GroupedMatrix::kE4M3, "whole lines", true);
    shape.num_layers = 1;
    shape.post_norms = false;
    shape.numbers.experts = {.count = 4, .top_k = 2, .intermediate_size = 128, .normalized = true};
    expect_reference(shape, GroupedMatrix::kZeros, "experts", true);
}

// Of more rows than 8, from which on GPUs round weights to 16 bits on their way to the tensor cores: by kernels for 16,
// 32, 64 and more rows.
TEST_P(CompactWeightsTest, OfManyRows) {
    Random random(seed_);
    const auto few_rows = [&] { return 9 + random.below(56); };
    const auto some_rows = [&] { return 65 + random.below(350); };
    for (const WeightForm form : kForms) {
        RandomShape shape = some_shape();
        shape.num_layers = 1;
        shape.hidden_size = 64 * (1 + random.below(9));
        // An odd number of gated outputs, which can't be written several at a time, or one that MLP's output takes.
        shape.intermediate_size = random.below(3) == 0 ? 1 + 2 * random.below(400) : 64 * (1 + random.below(13));
        shape.head_dim = 64;
        SCOPED_TRACE("hidden " + std::to_string(shape.hidden_size) + ", MLP " +
                     std::to_string(shape.intermediate_size));
        expect_prefills(shape, form, {few_rows(), some_rows(), few_rows()});
    }
    for (const CompactForm& form : {GroupedMatrix::kZeros, GroupedMatrix::kZerosOf8, GroupedMatrix::kE4M3}) {
        RandomShape shape = some_shape();
        shape.num_layers = 1;
        shape.hidden_size = shape.intermediate_size = 64 * (1 + random.below(9));
        expect_prefills(shape, form, {few_rows(), some_rows()});
    }
}

// Of so many outputs that a thread block of a GPU has 256 rows.
TEST_P(CompactWeightsTest, OfManyRowsAndOutputs) {
    Random random(seed_);
    RandomShape shape = some_shape();
    shape.num_layers = 1;
    shape.hidden_size = 64;
    shape.intermediate_size = 64 * (157 + random.below(3));
    expect_prefills(shape, kForms[random.below(3)], {129 + random.below(128), 400});
}

TEST_P(CompactWeightsTest, InOtherOrdersAndFromEightBits) {
    RandomShape shape = some_shape();
    shape.ordered = true;
    expect_reference(shape, WeightForm::int4, false);
    shape.scaled = true;
    expect_reference(shape, WeightForm::int8, false);
}

// Of sizes that kernels for compact weights take on GPUs that have them, and of others.
TEST_P(CompactWeightsTest, OfExperts) {
    Random random(seed_);
    RandomShape shape = some_shape();
    shape.numbers.experts = {.count = 6, .top_k = 2, .intermediate_size = 70, .normalized = true};
    expect_reference(shape, kForms[random.below(3)], random.below(2) == 0);
    expect_reference(shape, WeightForm::int4, false, true);
    shape.num_layers = 1;
    for (const WeightForm form : kForms) {
        shape.hidden_size = 64 * (1 + random.below(5));
        shape.numbers.experts.count = 1 + random.below(9);
        shape.numbers.experts.top_k = 1 + random.below(std::min(shape.numbers.experts.count, 4));
        shape.numbers.experts.intermediate_size = 64 * (1 + random.below(3));
        SCOPED_TRACE("hidden " + std::to_string(shape.hidden_size) + ", experts " +
                     std::to_string(shape.numbers.experts.top_k) + " of " +
                     std::to_string(shape.numbers.experts.count) + " with " +
                     std::to_string(shape.numbers.experts.intermediate_size));
        expect_reference(shape, form, random.below(2) == 0);
    }
}

// So many rows that an expert is chosen by more of them than its kernel multiplies at a time, which is 16 or 64, and so
// many that its matrix is expanded.
TEST_P(CompactWeightsTest, OfExpertsWithManyRows) {
    Random random(seed_);
    RandomShape shape = some_shape();
    shape.num_layers = 1;
    for (const WeightForm form : kForms) {
        shape.hidden_size = 64 * (4 + random.below(8));
        shape.numbers.experts = {
            .count = 3, .top_k = 2, .intermediate_size = 64 * (2 + random.below(8)), .normalized = true};
        SCOPED_TRACE("hidden " + std::to_string(shape.hidden_size) + ", experts with " +
                     std::to_string(shape.numbers.experts.intermediate_size));
        expect_prefills(shape, form, {20 + random.below(40), 130 + random.below(60), 245 + random.below(15)});
    }
}

TEST_P(CompactWeightsTest, BatchInvariant) {
    expect_reference(some_shape(), WeightForm::int4, false, true);
}

// A source whose executor is to have wide weights.
TEST_P(CompactWeightsTest, AreWidenedWhereAsked) {
    RandomModel model(some_shape(), GetParam().dtype, seed_);
    const Dequantised dequantised(model.weights, CodeKind::int8, CodeKind::int8);
    ExecutorOptions wanted = options(16, 40);
    wanted.weights = WeightForm::wide;
    PagedHarness harness(*backend_, model, dequantised.compact, wanted, seed_);
    ASSERT_TRUE(harness.ready());
    harness.pretend(model.spec, dequantised.weights);
    Store a;
    Job job{&a, 0, {}, harness.tokens(40)};
    expect_close(harness.run({job}), "wide");
}

INSTANTIATE_TEST_SUITE_P(All, CompactWeightsTest, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

// ---- Families --------------------------------------------------------------------------------------------

// Every model of tests/parity: a prompt and 64 greedy tokens of an executor with compact weights, beside one with the
// same weights in float32.
class CompactFamilies : public ::testing::TestWithParam<bool> {
  protected:
    static constexpr int32_t kPageSize = 16;

    static bool on_gpu() { return GetParam(); }

    void SetUp() override {
        auto opened = on_gpu() ? open_cuda_backend(0) : open_cpu_backend(1);
        if (!opened.ok() && on_gpu()) GTEST_SKIP() << "no GPU: " << opened.error().message;
        ASSERT_TRUE(opened.ok()) << opened.error().message;
        backend_ = std::move(*opened);
    }

    // What a model draws and its logits, token by token.
    struct Run {
        std::vector<std::vector<float>> logits;
        std::vector<int32_t> tokens;
    };

    // Continues `prompt` by `count` tokens: those `given` or, where there are none, those that it draws. The prompt's
    // first `apart` tokens have a step of their own.
    Run run(const ModelSpec& spec, const ModelWeights& weights, WeightForm form, const std::vector<int32_t>& prompt,
            const std::vector<int32_t>& given, DType dtype = DType::f32, int32_t apart = 0, size_t count = 64) {
        ExecutorOptions options;
        options.dtype = dtype;
        options.warm_up = false;
        options.page_size = kPageSize;
        options.num_pages = 28;
        options.weights = form;
        auto executor = backend_->create_executor(spec, weights, options, {});
        Run run;
        EXPECT_TRUE(executor.ok()) << executor.error().message;
        if (!executor.ok()) return run;
        const std::vector<int32_t> table = table_of(options.num_pages);
        std::vector<int32_t> next(prompt.begin() + apart, prompt.end());
        const std::vector<int32_t> before(prompt.begin(), prompt.begin() + apart);
        int32_t length = 0;
        if (apart > 0) {
            std::vector<int32_t> sampled(1);
            EXPECT_TRUE(run_step(**executor, sequence_step(table, length, before), sampled).ok());
            length = apart;
        }
        for (size_t i = 0; i < count; ++i) {
            Batch batch = sequence_step(table, length, next);
            batch.kept_logits = {0};
            length += static_cast<int32_t>(next.size());
            std::vector<int32_t> sampled(1);
            EXPECT_TRUE(run_step(**executor, batch, sampled).ok());
            run.logits.emplace_back(spec.vocab_size);
            EXPECT_TRUE((*executor)->read_logits(0, run.logits.back()).ok());
            run.tokens.push_back(sampled.front());
            next = {given.empty() ? sampled.front() : given[i]};
        }
        return run;
    }

    static double root_mean_square(const std::vector<float>& logits) {
        double squares = 0;
        for (const float logit : logits) squares += static_cast<double>(logit) * logit;
        return std::sqrt(squares / static_cast<double>(logits.size()));
    }

    // How far logits are from those of float32, of their root mean square.
    static double error_of(const Run& got, const Run& expected) {
        double squares = 0;
        for (size_t i = 0; i < got.logits.size(); ++i) {
            std::vector<float> difference = got.logits[i];
            for (size_t t = 0; t < difference.size(); ++t) difference[t] -= expected.logits[i][t];
            const double error = root_mean_square(difference) / root_mean_square(expected.logits[i]);
            squares += error * error;
        }
        return std::sqrt(squares / static_cast<double>(got.logits.size()));
    }

    // Expects the logits of two runs to be equal up to float32's rounding. Usually the differences have a root mean
    // square of 2e-6 times that of the logits. About six random tokens in a million amplify rounding so much that one
    // logit differs by 1e-4 of them, so that a single logit gets a wider limit than all of them together.
    static void expect_same(const Run& got, const Run& expected) {
        constexpr double kTogether = 2e-5;  // root mean square of all differences, of that of the logits
        constexpr double kSingle = 1e-3;    // a difference, of the root mean square of its token's logits
        ASSERT_EQ(got.logits.size(), expected.logits.size());
        for (size_t i = 0; i < got.logits.size(); ++i) {
            const std::vector<float>& logits = expected.logits[i];
            const double bound = kSingle * root_mean_square(logits);
            for (size_t t = 0; t < logits.size(); ++t)
                ASSERT_NEAR(got.logits[i][t], logits[t], bound) << "token " << i << ", logit " << t;
            // Another token alone where both are as likely, but for rounding.
            if (got.tokens[i] == expected.tokens[i]) continue;
            ASSERT_NEAR(logits[got.tokens[i]], logits[expected.tokens[i]], 2 * bound) << i;
        }
        ASSERT_LT(error_of(got, expected), kTogether);
    }

    // Expects that a prompt of more than 64 tokens in one step has no worse error in 16 bits than with widened weights,
    // but for chance.
    void expect_many_rows(const ModelSpec& spec, const ModelWeights& weights, double ratio, Random& random) {
        std::vector<int32_t> prompt(65 + random.below(300));
        for (int32_t& token : prompt) token = random.below(spec.vocab_size);
        const DType dtype = on_gpu() && random.below(2) == 0 ? DType::f16 : DType::bf16;  // CPUs have no float16
        constexpr int32_t kTokens = 64;
        const Run expected = run(spec, weights, WeightForm::wide, prompt, {}, DType::f32, 0, kTokens);
        const auto error = [&](WeightForm form) {
            return error_of(run(spec, weights, form, prompt, expected.tokens, dtype, 0, kTokens), expected);
        };
        EXPECT_LT(error(WeightForm::source), ratio * error(WeightForm::wide)) << prompt.size() << " tokens";
    }

    std::unique_ptr<Backend> backend_;
    const uint64_t seed_ = fresh_seed();
    const ::testing::ScopedTrace trace_{__FILE__, __LINE__, "seed " + std::to_string(seed_)};
};

TEST_P(CompactFamilies, LogitsAndGreedyTokensAreTheQuantisedModels) {
    Random random(seed_);
    size_t families = 0;
    for (const auto& fixture : std::filesystem::directory_iterator(NL_PARITY_FIXTURES)) {
        if (!std::filesystem::exists(fixture.path() / "config.json")) continue;  // shares another one's model
        auto model = load_model(fixture.path().string());
        ASSERT_TRUE(model.ok()) << model.error().message;
        const ModelSpec& spec = (*model)->spec;
        if (spec.max_context < 100) continue;
        ++families;
        std::vector<int32_t> prompt(36);
        for (int32_t& token : prompt) token = random.below(spec.vocab_size);
        // Weights that are compact in their files stay as they are.
        if ((*model)->weights.layers.back().down_proj.compact != nullptr) {
            SCOPED_TRACE(fixture.path().filename().string());
            const Run expected = run(spec, (*model)->weights, WeightForm::wide, prompt, {});
            const Run got = run(spec, (*model)->weights, WeightForm::source, prompt, expected.tokens);
            ASSERT_NO_FATAL_FAILURE(expect_same(got, expected));
            continue;
        }
        for (const WeightForm form : kForms) {
            SCOPED_TRACE(fixture.path().filename().string() + ", " + form_name(form));
            const Dequantised dequantised((*model)->weights, codes_of(form), table_codes(form));
            const Run expected = run(spec, dequantised.weights, WeightForm::wide, prompt, {});
            const Run got = run(spec, (*model)->weights, form, prompt, expected.tokens);
            ASSERT_NO_FATAL_FAILURE(expect_same(got, expected));
        }
    }
    EXPECT_GT(families, 10U);
}

// A GGUF file's blocks against the same numbers, widened: of each type, of all of them in one file, with experts. In
// bfloat16, where widened weights are rounded besides, their error is no worse, but for chance.
TEST_P(CompactFamilies, BlocksOfFilesGiveTheLogitsOfTheirNumbers) {
    constexpr double kErrorRatio = 1.5;
    Random random(seed_);
    const test::TempFolder folder;
    const std::vector<const BlockType*> types = quantised_types();
    const auto count = static_cast<int32_t>(types.size());
    for (int32_t turn = 0; turn < count + 4; ++turn) {
        RandomGguf gguf;
        gguf.experts = turn == 0 || turn == count ? 4 : 0;
        gguf.type_of_next = [&]() -> const BlockType& { return *types[turn < count ? turn : random.below(count)]; };
        gguf.blocks = [&](const BlockType& type, int64_t blocks, int64_t cols) {
            return some_blocks(type, blocks, 1 / std::sqrt(static_cast<float>(cols)), random);
        };
        SCOPED_TRACE(turn < count ? types[turn]->name : "mixed");
        folder.write("model.gguf", gguf.file(random));
        auto model = load_model(folder.file("model.gguf"));
        ASSERT_TRUE(model.ok()) << model.error().message;
        const ModelSpec& spec = (*model)->spec;
        const ModelWeights& weights = (*model)->weights;
        std::vector<int32_t> prompt(36);
        for (int32_t& token : prompt) token = random.below(spec.vocab_size);
        const Run expected = run(spec, weights, WeightForm::wide, prompt, {});
        ASSERT_NO_FATAL_FAILURE(expect_same(run(spec, weights, WeightForm::source, prompt, expected.tokens), expected));
        if (gguf.experts > 0) continue;  // rounding may choose others
        const auto error = [&](WeightForm form, int32_t apart) {
            return error_of(run(spec, weights, form, prompt, expected.tokens, DType::bf16, apart), expected);
        };
        // GPUs have kernels for up to 8, 16, 32, 64 and more rows.
        const double allowed = kErrorRatio * error(WeightForm::wide, 0);
        EXPECT_LT(error(WeightForm::source, 0), allowed);
        EXPECT_LT(error(WeightForm::source, 9 + random.below(8)), allowed);
        expect_many_rows(spec, weights, kErrorRatio, random);
    }
}

INSTANTIATE_TEST_SUITE_P(All, CompactFamilies, ::testing::Bool(),
                         [](const auto& test) { return std::string(test.param ? "CUDA" : "CPU"); });

}  // namespace
}  // namespace nanolith::testing
