// The engine's logits and greedy tokens against Transformers'.
//
// float32: every logit within 1e-4 of the logits' spread, and the same greedy tokens, however the prompt comes in.
// bfloat16 and float16: an error of at most 1.5 times the one that Transformers makes in the same dtype.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <random>
#include <regex>
#include <set>
#include <sstream>

#include "parity/engine.h"
#include "parity/fixture.h"
#include "support/temp_folder.h"

namespace nanolith::parity {
namespace {

constexpr double kFloat32Tolerance = 1e-4;
constexpr double kErrorRatio = 1.5;

using Case = std::tuple<std::string, std::string>;  // fixture, device

std::string case_name(const ::testing::TestParamInfo<Case>& info) {
    return std::get<0>(info.param) + "_" + std::get<1>(info.param);
}

std::string read_text(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

class Parity : public ::testing::TestWithParam<Case> {
  protected:
    void SetUp() override { fixture_ = load_fixture(std::get<0>(GetParam())); }

    // Opens the model; the test skips where there is no GPU for it.
    void open(int32_t dtype) {
        const std::string& device = std::get<1>(GetParam());
        engine_ = open_engine(fixture_.model_folder, device, dtype, fixture_.longest_context());
        if (engine_ == nullptr) GTEST_SKIP() << "no GPU: " << nl_last_error();
    }

    // The cache's logits against the reference for the prompt's prefix `index`.
    void expect_logits(const Cache& cache, const Prompt& prompt, size_t index) const {
        const std::vector<float> logits = logits_of(cache, fixture_.vocab_size);
        const std::span<const float> expected = fixture_.logits_after(prompt, index);
        const double tolerance = kFloat32Tolerance * fixture_.spread();
        for (size_t i = 0; i < logits.size(); ++i) {
            ASSERT_NEAR(logits[i], expected[i], tolerance)
                << "logit " << i << " after " << prompt.prefix_lengths[index] << " tokens";
        }
    }

    // Decodes caches as one batch, as far as all are told; cache i holds prompts[i].
    static void expect_greedy(const std::vector<Cache>& caches, const std::vector<const Prompt*>& prompts) {
        std::vector<nl_cache*> raw;
        size_t steps = SIZE_MAX;
        for (size_t i = 0; i < caches.size(); ++i) {
            raw.push_back(caches[i].get());
            steps = std::min(steps, prompts[i]->greedy.size());
        }
        std::vector<int32_t> tokens(raw.size());
        for (size_t step = 0; step < steps; ++step) {
            check(nl_decode_step(raw.data(), raw.size(), tokens.data()));
            for (size_t i = 0; i < raw.size(); ++i) {
                ASSERT_EQ(tokens[i], prompts[i]->greedy[step]) << "cache " << i << ", step " << step;
            }
        }
    }

    // One cache for each prompt that grows from prefix to prefix, and what is drawn after it.
    void expect_logits_and_greedy() const {
        for (const Prompt& prompt : fixture_.prompts) {
            const Cache cache = make_cache(engine_);
            size_t length = 0;
            for (size_t i = 0; i < prompt.prefix_lengths.size(); ++i) {
                const size_t more = prompt.prefix_lengths[i] - length;
                extend(cache, std::span(prompt.tokens).subspan(length, more));
                length += more;
                ASSERT_NO_FATAL_FAILURE(expect_logits(cache, prompt, i));
            }
            EXPECT_EQ(decode(cache, prompt.greedy.size()), prompt.greedy);
        }
    }

    // rms error of all the fixture's rows over the logits' spread.
    double relative_error() const {
        std::vector<float> all;
        for (const Prompt& prompt : fixture_.prompts) {
            for (const size_t length : prompt.prefix_lengths) {
                const Cache cache = make_cache(engine_);
                extend(cache, std::span(prompt.tokens).first(length));
                const std::vector<float> logits = logits_of(cache, fixture_.vocab_size);
                all.insert(all.end(), logits.begin(), logits.end());
            }
        }
        return rms_difference(all, fixture_.logits) / fixture_.spread();
    }

    Fixture fixture_;
    Engine engine_;
};

#define NL_OPEN(dtype) \
    open(dtype);       \
    if (IsSkipped()) return

// A prefill of its own for every prefix.
TEST_P(Parity, LogitsAfterEveryPrefix) {
    NL_OPEN(NL_DTYPE_F32);
    for (const Prompt& prompt : fixture_.prompts) {
        for (size_t i = 0; i < prompt.prefix_lengths.size(); ++i) {
            const Cache cache = make_cache(engine_);
            extend(cache, std::span(prompt.tokens).first(prompt.prefix_lengths[i]));
            ASSERT_NO_FATAL_FAILURE(expect_logits(cache, prompt, i));
        }
    }
}

// One cache that grows from prefix to prefix; where the fixture has all of them, token by token.
TEST_P(Parity, LogitsOfAGrowingCache) {
    NL_OPEN(NL_DTYPE_F32);
    expect_logits_and_greedy();
}

TEST_P(Parity, TokenByToken) {
    NL_OPEN(NL_DTYPE_F32);
    for (const Prompt& prompt : fixture_.prompts) {
        const Cache cache = make_cache(engine_);
        for (const int32_t& token : prompt.tokens) extend(cache, std::span(&token, 1));
        ASSERT_NO_FATAL_FAILURE(expect_logits(cache, prompt, prompt.prefix_lengths.size() - 1));
        EXPECT_EQ(decode(cache, prompt.greedy.size()), prompt.greedy);
    }
}

TEST_P(Parity, GreedyTokens) {
    NL_OPEN(NL_DTYPE_F32);
    for (const Prompt& prompt : fixture_.prompts) {
        const Cache cache = make_cache(engine_);
        extend(cache, prompt.tokens);
        EXPECT_EQ(decode(cache, prompt.greedy.size()), prompt.greedy);
    }
}

// Transformers' last_hidden_state: of the last token, and the mean over all.
TEST_P(Parity, HiddenStates) {
    NL_OPEN(NL_DTYPE_F32);
    const double tolerance =
        kFloat32Tolerance * rms_difference(fixture_.states, std::vector<float>(fixture_.states.size()));
    double worst = 0;
    for (size_t i = 0; i < fixture_.prompts.size(); ++i) {
        for (const int32_t pooling : {NL_POOLING_LAST, NL_POOLING_MEAN}) {
            const std::span<const float> expected = fixture_.state(i, pooling == NL_POOLING_MEAN);
            const auto found = embed(make_cache(engine_), fixture_.prompts[i].tokens, pooling, expected.size());
            for (size_t j = 0; j < expected.size(); ++j) {
                const double off = std::abs(static_cast<double>(found[j]) - static_cast<double>(expected[j]));
                ASSERT_LT(off, tolerance) << "number " << j << " of prompt " << i << ", pooling " << pooling;
                worst = std::max(worst, off / tolerance * kFloat32Tolerance);
            }
        }
    }
    std::printf("hidden states off by %.2g of their spread at most\n", worst);
}

// All of a fixture's prompts in one batch.
TEST_P(Parity, GreedyTokensOfABatch) {
    NL_OPEN(NL_DTYPE_F32);
    std::vector<Cache> caches;
    std::vector<const Prompt*> prompts;
    for (const Prompt& prompt : fixture_.prompts) {
        caches.push_back(make_cache(engine_));
        extend(caches.back(), prompt.tokens);
        prompts.push_back(&prompt);
    }
    expect_greedy(caches, prompts);
}

// The points at which a prompt is cut in two: all, or a few fresh ones of a long prompt.
std::vector<size_t> split_points(size_t length) {
    constexpr size_t kAllUpTo = 96;
    std::vector<size_t> points;
    if (length <= kAllUpTo) {
        for (size_t point = 1; point < length; ++point) points.push_back(point);
        return points;
    }
    const uint32_t seed = std::random_device()();
    std::printf("split points of %zu tokens from seed %u\n", length, seed);
    std::mt19937 random(seed);
    for (int i = 0; i < 8; ++i) points.push_back(1 + random() % (length - 1));
    return points;
}

TEST_P(Parity, ExactChunksAtEverySplit) {
    NL_OPEN(NL_DTYPE_F32);
    constexpr size_t kTogether = 8;  // are decoded as one batch
    for (const Prompt& prompt : fixture_.prompts) {
        const std::span<const int32_t> tokens = prompt.tokens;
        const std::vector<size_t> points = split_points(tokens.size());
        std::vector<Cache> caches;
        for (size_t i = 0; i < points.size(); ++i) {
            SCOPED_TRACE("split after " + std::to_string(points[i]) + " of " + std::to_string(tokens.size()));
            const Chunk first = prefill(engine_, tokens.first(points[i]), 0);
            const Chunk second = prefill(engine_, tokens.subspan(points[i]), 1);
            caches.push_back(make_cache(engine_, {first.get(), second.get()}));
            ASSERT_NO_FATAL_FAILURE(expect_logits(caches.back(), prompt, prompt.prefix_lengths.size() - 1));
            if (caches.size() < kTogether && i + 1 < points.size()) continue;
            const std::vector<const Prompt*> same(caches.size(), &prompt);
            ASSERT_NO_FATAL_FAILURE(expect_greedy(caches, same)) << "the last of " << caches.size() << " splits";
            caches.clear();
        }
    }
}

// A chunk, and the rest as the cache's own tokens.
TEST_P(Parity, AChunkAndATailAtEverySplit) {
    NL_OPEN(NL_DTYPE_F32);
    for (const Prompt& prompt : fixture_.prompts) {
        const std::span<const int32_t> tokens = prompt.tokens;
        for (const size_t point : split_points(tokens.size())) {
            SCOPED_TRACE("split after " + std::to_string(point) + " of " + std::to_string(tokens.size()));
            const Chunk chunk = prefill(engine_, tokens.first(point), 0);
            const Cache cache = make_cache(engine_, {chunk.get()});
            extend(cache, tokens.subspan(point));
            ASSERT_NO_FATAL_FAILURE(expect_logits(cache, prompt, prompt.prefix_lengths.size() - 1));
        }
    }
}

TEST_P(Parity, BFloat16IsAsGoodAsTheReferences) {
    NL_OPEN(NL_DTYPE_BF16);
    const double error = relative_error();
    std::printf("bfloat16 error %.5f, of Transformers %.5f\n", error, fixture_.bfloat16_error);
    EXPECT_LE(error, kErrorRatio * fixture_.bfloat16_error);
    EXPECT_GT(error, fixture_.bfloat16_error / 100) << "computed in float32?";
}

// The same weights and configuration out of a GGUF file that gguf_files.py made of the fixture's folder.
class ParityGguf : public Parity {
  protected:
    void SetUp() override {
        Parity::SetUp();
        fixture_.model_folder = gguf_file(fixture_.name);
    }
};

TEST_P(ParityGguf, LogitsAndGreedyTokens) {
    NL_OPEN(NL_DTYPE_F32);
    expect_logits_and_greedy();
}

TEST_P(ParityGguf, BFloat16IsAsGoodAsTheReferences) {
    NL_OPEN(NL_DTYPE_BF16);
    EXPECT_LE(relative_error(), kErrorRatio * fixture_.bfloat16_error);
}

// What NL_DTYPE_AUTO takes: the files' format, whatever instructions the processor has; bfloat16 where the CPU is to
// compute with float16 files.
TEST(ParityAuto, KeepsTheFilesFormat) {
    for (const auto& [name, expected] : {std::pair("llama_gqa", NL_DTYPE_F32), std::pair("qwen2_bias", NL_DTYPE_BF16),
                                         std::pair("llama_dim80", NL_DTYPE_BF16)}) {
        const Engine engine = open_engine(load_fixture(name).model_folder, "cpu", NL_DTYPE_AUTO, 64);
        int64_t dtype = -1;
        check(nl_engine_query(engine.get(), NL_ENGINE_DTYPE, &dtype));
        EXPECT_EQ(dtype, expected) << name;
    }
}

// float16 is for CUDA alone.
class ParityFloat16 : public Parity {};

TEST_P(ParityFloat16, Float16IsAsGoodAsTheReferences) {
    NL_OPEN(NL_DTYPE_F16);
    const double error = relative_error();
    std::printf("float16 error %.6f, of Transformers %.6f\n", error, fixture_.float16_error);
    EXPECT_LE(error, kErrorRatio * fixture_.float16_error);
    EXPECT_GT(error, fixture_.float16_error / 100) << "computed in float32?";
}

// The families that an unknown one is told of are those that the fixtures cover and the README names.
TEST(Families, AreThoseOfTheFixturesAndTheReadme) {
    std::string text(4096, '\0');
    const test::TempFolder folder;
    folder.write("config.json", R"({"architectures":["UnknownForCausalLM"]})");
    size_t length = 0;
    check(nl_model_describe(folder.path().data(), folder.path().size(), NL_DESCRIBE_TEXT, text.data(), text.size(),
                            &length));
    const std::regex name("[A-Z][A-Za-z0-9_]*ForCausalLM");
    const auto names = [&name](const std::string& in) {
        std::set<std::string> found(std::sregex_token_iterator(in.begin(), in.end(), name), {});
        found.erase("UnknownForCausalLM");
        return found;
    };
    const std::set<std::string> supported = names(text.substr(0, length));
    ASSERT_GT(supported.size(), 5U) << text;
    std::set<std::string> covered;
    for (const std::string& fixture : fixture_names())
        covered.merge(names(read_text(load_fixture(fixture).model_folder + "/config.json")));
    EXPECT_EQ(covered, supported);
    EXPECT_EQ(names(read_text(NL_README)), supported);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Parity,
                         ::testing::Combine(::testing::ValuesIn(fixture_names()), ::testing::Values("cpu", "cuda")),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Files, ParityGguf,
                         ::testing::Combine(::testing::ValuesIn(gguf_names()), ::testing::Values("cpu", "cuda")),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Fixtures, ParityFloat16,
                         ::testing::Combine(::testing::ValuesIn(fixture_names()), ::testing::Values("cuda")),
                         case_name);

}  // namespace
}  // namespace nanolith::parity
