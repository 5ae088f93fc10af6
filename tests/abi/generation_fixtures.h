// What tests of generations share: options, starting one, and reading it to its end.
#pragma once

#include <string>
#include <vector>

#include "abi/abi_fixtures.h"

namespace nanolith::test {

class GenerationFixture : public testing::Test {
  protected:
    static void set_text(nl_options* options, int32_t key, const std::string& text) {
        EXPECT_EQ(nl_options_set_text(options, key, text.data(), text.size()), NL_OK) << nl_last_error();
    }
    static void set_int(nl_options* options, int32_t key, int64_t value) {
        EXPECT_EQ(nl_options_set_int(options, key, value), NL_OK) << nl_last_error();
    }
    static void set_float(nl_options* options, int32_t key, double value) {
        EXPECT_EQ(nl_options_set_float(options, key, value), NL_OK) << nl_last_error();
    }
    static void use(nl_cache* cache, const OptionsHandle& options) {
        EXPECT_EQ(nl_cache_set_sampling(cache, options.get()), NL_OK) << nl_last_error();
    }
    // With every end token counted, unless said otherwise.
    static GenerationHandle start(nl_cache* cache, const Tokens& prompt, const OptionsHandle& options) {
        nl_generation* made = nullptr;
        EXPECT_EQ(nl_generation_start(cache, prompt.data(), prompt.size(), options.get(), &made), NL_OK)
            << nl_last_error();
        return GenerationHandle(made);
    }
    static OptionsHandle tokens_only(int64_t count) {
        OptionsHandle options = make_options(NL_OPTIONS_GENERATION);
        set_int(options.get(), NL_OPTION_MAX_TOKENS, count);
        set_int(options.get(), NL_OPTION_END_TOKENS, 0);
        set_int(options.get(), NL_OPTION_TEXT, 0);
        return options;
    }
    static Tokens read(nl_generation* generation) {
        Tokens all;
        int32_t end = NL_END_NONE;
        while (end == NL_END_NONE) {
            int32_t tokens[5];
            size_t count = 0;
            const nl_status status = nl_generation_next(generation, -1, tokens, 5, &count, nullptr, 0, nullptr, &end);
            EXPECT_EQ(status, NL_OK) << nl_last_error();
            if (status != NL_OK) break;
            all.insert(all.end(), tokens, tokens + count);
        }
        return all;
    }

    TinyModel model_;
    EngineHandle engine_ = make_engine(model_);
    Tokens prompt_ = some_tokens(20);
};

}  // namespace nanolith::test
