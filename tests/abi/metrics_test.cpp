// nl_engine_metrics beside what a program has done.
#include <cmath>
#include <map>
#include <sstream>

#include "abi/abi_fixtures.h"

namespace nanolith::test {
namespace {

using Metrics = std::map<std::string, double>;  // a metric's name with its labels, and its value

class MetricsTest : public testing::Test {
  protected:
    // Reads the text strictly: every value belongs to the metric that the two lines of comment before it announce.
    Metrics read() {
        std::istringstream lines(metrics_of(engine_.get()));
        Metrics metrics;
        std::string announced;
        for (std::string line; std::getline(lines, line);) {
            if (line.starts_with("# HELP ")) {
                announced = line.substr(7, line.find(' ', 7) - 7);
                EXPECT_TRUE(announced.starts_with("nanolith_")) << line;
                continue;
            }
            if (line.starts_with("# TYPE ")) {
                EXPECT_EQ(line.substr(7, line.find(' ', 7) - 7), announced);
                continue;
            }
            const size_t space = line.rfind(' ');
            const std::string name = line.substr(0, space);
            EXPECT_TRUE(name.starts_with(announced)) << line;
            EXPECT_TRUE(metrics.emplace(name, std::stod(line.substr(space + 1))).second) << line;
        }
        return metrics;
    }
    // Draws until the end, which it returns, or cancels after the first token.
    int32_t generate(int64_t max_tokens, bool cancels = false) {
        const CacheHandle cache = make_cache(engine_.get());
        const OptionsHandle options = make_options(NL_OPTIONS_GENERATION);
        EXPECT_EQ(nl_options_set_int(options.get(), NL_OPTION_MAX_TOKENS, max_tokens), NL_OK);
        EXPECT_EQ(nl_options_set_int(options.get(), NL_OPTION_END_TOKENS, 0), NL_OK);
        EXPECT_EQ(nl_options_set_int(options.get(), NL_OPTION_BUFFER_TOKENS, cancels ? 2 : 1000), NL_OK);
        nl_generation* made = nullptr;
        EXPECT_EQ(nl_generation_start(cache.get(), prompt_.data(), prompt_.size(), options.get(), &made), NL_OK);
        const GenerationHandle generation(made);
        int32_t end = NL_END_NONE;
        while (end == NL_END_NONE) {
            Tokens tokens(16);
            size_t count = 0;
            if (nl_generation_next(made, -1, tokens.data(), tokens.size(), &count, nullptr, 0, nullptr, &end) != NL_OK)
                break;
            if (cancels) nl_generation_cancel(made);
        }
        return end;
    }
    // Whether a histogram's counts ascend to its number of observations, which this returns.
    static double observations(const Metrics& metrics, const std::string& name) {
        std::map<double, double> by_bound;
        const std::string bucket = "nanolith_" + name + "_bucket{le=\"";
        for (const auto& [key, value] : metrics) {
            if (!key.starts_with(bucket)) continue;
            const std::string bound = key.substr(bucket.size(), key.find('"', bucket.size()) - bucket.size());
            by_bound[bound == "+Inf" ? INFINITY : std::stod(bound)] = value;
        }
        EXPECT_GT(by_bound.size(), 10U) << name;
        double before = 0;
        for (const auto& [bound, count] : by_bound) {
            EXPECT_GE(count, before) << name << ", " << bound;
            before = count;
        }
        EXPECT_EQ(before, metrics.at("nanolith_" + name + "_count")) << name;
        return before;
    }

    TinyModel model_;
    EngineHandle engine_ = make_engine(model_);
    Tokens prompt_ = some_tokens(20);
};

TEST_F(MetricsTest, CountWhatWasDone) {
    const Metrics before = read();
    EXPECT_EQ(observations(before, "step_rows"), 0);
    EXPECT_EQ(observations(before, "generation_first_token_seconds"), 0);
    const ChunkHandle chunk = make_chunk(engine_.get(), some_tokens(40, 7));
    EXPECT_EQ(generate(5), NL_END_LENGTH);
    EXPECT_EQ(generate(9), NL_END_LENGTH);
    EXPECT_EQ(generate(100000, true), NL_END_CANCELLED);

    const Metrics metrics = read();
    const auto value = [&](const std::string& name) { return metrics.at("nanolith_" + name); };
    EXPECT_EQ(value("generations_ended_total{reason=\"length\"}"), 2);
    EXPECT_EQ(value("generations_ended_total{reason=\"cancelled\"}"), 1);
    EXPECT_EQ(value("generations_ended_total{reason=\"error\"}"), 0);
    EXPECT_EQ(observations(metrics, "generation_first_token_seconds"), 3);
    const double gaps = observations(metrics, "generation_token_gap_seconds");
    EXPECT_GE(gaps, 4 + 8);
    EXPECT_GT(value("generation_token_gap_seconds_sum"), 0);

    // The chunk's rows and those of the first prompt, whose beginning the other two share, or part of it.
    EXPECT_GE(value("step_rows_by_kind_total{kind=\"prefill\"}"), 40 + 20);
    EXPECT_GE(value("step_rows_by_kind_total{kind=\"decode\"}"), 4 + 8);
    EXPECT_EQ(value("step_rows_sum"),
              value("step_rows_by_kind_total{kind=\"prefill\"}") + value("step_rows_by_kind_total{kind=\"decode\"}"));
    EXPECT_EQ(observations(metrics, "step_rows"), observations(metrics, "step_seconds"));
    EXPECT_GT(value("step_seconds_sum"), 0);
    EXPECT_EQ(value("requests_waiting"), 0);
    EXPECT_EQ(value("requests_running"), 0);

    EXPECT_EQ(value("chunks{tier=\"device\"}"), 1);
    EXPECT_EQ(value("chunk_misses_total"), 1);
    EXPECT_EQ(value("chunk_tokens_computed_total"), 40);
    int64_t pages = 0;
    NL_CHECK(nl_engine_query(engine_.get(), NL_ENGINE_PAGES_TOTAL, &pages));
    EXPECT_EQ(value("pages"), static_cast<double>(pages));
    EXPECT_EQ(metrics.count("nanolith_chunks{tier=\"host\"}"), 0U) << "a tier that the engine does not have";
}

// While nobody fetches its tokens a generation runs, as long as it has room for them.
TEST_F(MetricsTest, TellWhoRuns) {
    const CacheHandle cache = make_cache(engine_.get());
    const OptionsHandle options = make_options(NL_OPTIONS_GENERATION);
    NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_END_TOKENS, 0));
    NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_BUFFER_TOKENS, 2));
    nl_generation* made = nullptr;
    NL_CHECK(nl_generation_start(cache.get(), prompt_.data(), prompt_.size(), options.get(), &made));
    const GenerationHandle generation(made);
    Tokens tokens(1);
    size_t count = 0;
    int32_t end = NL_END_NONE;
    NL_CHECK(nl_generation_next(made, -1, tokens.data(), 1, &count, nullptr, 0, nullptr, &end));
    const Metrics metrics = read();
    EXPECT_EQ(metrics.at("nanolith_requests_running"), 1);
    EXPECT_EQ(metrics.at("nanolith_requests_waiting"), 0);
    EXPECT_EQ(metrics.at("nanolith_generation_first_token_seconds_count"), 1);
}

}  // namespace
}  // namespace nanolith::test
