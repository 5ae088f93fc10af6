// The defaults of the structs that the engine takes are those of the table that callers are told.
#include <gtest/gtest.h>

#include "api/options.h"

namespace nanolith::api {
namespace {

TEST(OptionDefaults, OfAnEngine) {
    const nl_options options(NL_OPTIONS_ENGINE);
    const auto read = engine_options(&options);
    ASSERT_TRUE(read.ok());
    const EngineOptions standard;
    EXPECT_EQ(read->device, standard.device);
    EXPECT_EQ(read->dtype, standard.dtype);
    EXPECT_EQ(read->kv_dtype, standard.kv_dtype);
    EXPECT_EQ(read->weights, standard.weights);
    EXPECT_EQ(read->page_size, standard.page_size);
    EXPECT_EQ(read->num_pages, standard.num_pages);
    EXPECT_EQ(read->max_context, standard.max_context);
    EXPECT_EQ(read->max_batch_tokens, standard.max_batch_tokens);
    EXPECT_EQ(read->max_output_rows, standard.max_output_rows);
    EXPECT_EQ(read->step_ms, standard.step_ms);
    EXPECT_EQ(read->queue_limit, standard.queue_limit);
    EXPECT_EQ(read->num_threads, standard.num_threads);
    EXPECT_EQ(read->warm_up, standard.warm_up);
    EXPECT_EQ(read->batch_invariant, standard.batch_invariant);
    EXPECT_EQ(read->map_weights, standard.map_weights);
    EXPECT_EQ(read->allow_not_finite, standard.allow_not_finite);
    EXPECT_EQ(read->profile, standard.profile);
    EXPECT_EQ(read->share_prefixes, standard.share_prefixes);
    EXPECT_EQ(read->store_folder, standard.store_folder);
    EXPECT_EQ(read->store_bytes, standard.store_bytes);
    EXPECT_EQ(read->store_server, standard.store_server);
    EXPECT_EQ(read->store_deadline_ms, standard.store_deadline_ms);
    EXPECT_EQ(read->host_bytes, standard.host_bytes);
    EXPECT_EQ(read->log, nullptr);
    EXPECT_EQ(read->progress, nullptr);
}

TEST(OptionDefaults, OfCachesAndDrawing) {
    const nl_options cache(NL_OPTIONS_CACHE);
    const CacheOptions standard_cache;
    for (const auto& given : {cache_options(&cache).value(), cache_options(nullptr).value()}) {
        EXPECT_EQ(given.composition, standard_cache.composition);
        EXPECT_EQ(given.blend_share, standard_cache.blend_share);
    }
    const nl_options sampling(NL_OPTIONS_SAMPLING);
    const auto read = sampling_options(sampling);
    ASSERT_TRUE(read.ok());
    EXPECT_TRUE(*read == SamplingOptions());
}

TEST(OptionDefaults, OfAGeneration) {
    const nl_options options(NL_OPTIONS_GENERATION);
    const auto read = generation_options(&options);
    ASSERT_TRUE(read.ok());
    const GenerationOptions standard;
    EXPECT_EQ(read->max_tokens, standard.max_tokens);
    EXPECT_EQ(read->min_tokens, standard.min_tokens);
    EXPECT_EQ(read->stop_tokens, standard.stop_tokens);
    EXPECT_EQ(read->end_tokens, standard.end_tokens);
    EXPECT_EQ(read->stop_texts, standard.stop_texts);
    EXPECT_EQ(read->deadline_ms, standard.deadline_ms);
    EXPECT_EQ(read->priority, standard.priority);
    EXPECT_EQ(read->buffer_tokens, standard.buffer_tokens);
    EXPECT_EQ(read->text, standard.text);
    EXPECT_EQ(read->logprobs, standard.logprobs);
    EXPECT_EQ(read->top_logprobs, standard.top_logprobs);
    EXPECT_EQ(read->constraint.kind, standard.constraint.kind);
    EXPECT_EQ(read->constrained_tokens, standard.constrained_tokens);
    EXPECT_EQ(read->jump_ahead, standard.jump_ahead);
    EXPECT_EQ(read->change_logits, nullptr);
}

TEST(OptionDefaults, StopTextsNeedText) {
    nl_options options(NL_OPTIONS_GENERATION);
    options.at(*find_option(NL_OPTION_TEXT)) = int64_t{0};
    EXPECT_TRUE(generation_options(&options).ok());
    options.at(*find_option(NL_OPTION_STOP_TEXT)) = std::vector<std::string>{"stop"};
    const auto refused = generation_options(&options);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().status, NL_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(refused.error().message.find("NL_OPTION_STOP_TEXT has 1"), std::string::npos);
    options.at(*find_option(NL_OPTION_TEXT)) = int64_t{1};
    EXPECT_TRUE(generation_options(&options).ok());
}

TEST(OptionDefaults, OneConstraintAtMost) {
    using Kind = grammar::ConstraintKind;
    const std::pair<int32_t, Kind> texts[] = {
        {NL_OPTION_REGEX, Kind::regex}, {NL_OPTION_JSON_SCHEMA, Kind::json_schema}, {NL_OPTION_GRAMMAR, Kind::ebnf}};
    for (const auto& [key, kind] : texts) {
        nl_options options(NL_OPTIONS_GENERATION);
        options.at(*find_option(key)) = std::string("text");
        const auto read = generation_options(&options);
        ASSERT_TRUE(read.ok());
        EXPECT_EQ(read->constraint.kind, kind);
        EXPECT_EQ(read->constraint.text, "text");
        options.at(*find_option(NL_OPTION_JSON_OBJECT)) = int64_t{1};
        const auto refused = generation_options(&options);
        ASSERT_FALSE(refused.ok());
        EXPECT_EQ(refused.error().status, NL_ERROR_INVALID_ARGUMENT);
        EXPECT_NE(refused.error().message.find("NL_OPTION_JSON_OBJECT and NL_OPTION_"), std::string::npos);
    }
    nl_options options(NL_OPTIONS_GENERATION);
    options.at(*find_option(NL_OPTION_CHOICE)) = std::vector<std::string>{"yes", "no"};
    const auto read = generation_options(&options);
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(read->constraint.kind, Kind::choices);
    EXPECT_EQ(read->constraint.choices.size(), 2U);
}

}  // namespace
}  // namespace nanolith::api
