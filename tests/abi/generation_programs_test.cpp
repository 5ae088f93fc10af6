// Random programs of generations through the public header, on a real model's arithmetic: with
// NL_OPTION_BATCH_INVARIANT each gives the tokens that it gives alone, whatever starts, is cancelled, read slowly,
// forked, truncated, constrained, changed by a callback or over its deadline beside it.
#include <cstdlib>
#include <limits>
#include <random>
#include <string_view>

#include "abi/abi_fixtures.h"

namespace nanolith::test {
namespace {

// How one engine of a pair is made: both compute the same numbers.
struct Arithmetic {
    int32_t dtype = NL_DTYPE_F32;
    int32_t threads = 1;
};

EngineHandle make_invariant_engine(const TinyModel& model, const Arithmetic& arithmetic) {
    const OptionsHandle options = make_options(NL_OPTIONS_ENGINE);
    EXPECT_EQ(set_device(options.get(), test_device()), NL_OK);
    const std::pair<int32_t, int64_t> values[] = {
        {NL_OPTION_BATCH_INVARIANT, 1}, {NL_OPTION_DTYPE, arithmetic.dtype}, {NL_OPTION_THREADS, arithmetic.threads},
        {NL_OPTION_NUM_PAGES, 300},     {NL_OPTION_PAGE_SIZE, 16},           {NL_OPTION_MAX_BATCH_TOKENS, 48},
    };
    for (const auto& [option, value] : values)
        EXPECT_EQ(nl_options_set_int(options.get(), option, value), NL_OK) << nl_last_error();
    nl_engine* engine = nullptr;
    EXPECT_EQ(nl_engine_create(model.path().data(), model.path().size(), options.get(), &engine), NL_OK)
        << nl_last_error();
    return EngineHandle(engine);
}

struct Sampling {
    double temperature = 0;  // greedy
    int64_t seed = 0;
};

void set_sampling(nl_cache* cache, const Sampling& sampling) {
    const OptionsHandle options = make_options(NL_OPTIONS_SAMPLING);
    EXPECT_EQ(nl_options_set_float(options.get(), NL_OPTION_TEMPERATURE, sampling.temperature), NL_OK);
    EXPECT_EQ(nl_options_set_int(options.get(), NL_OPTION_SEED, sampling.seed), NL_OK);
    EXPECT_EQ(nl_cache_set_sampling(cache, options.get()), NL_OK) << nl_last_error();
}

struct Limits {
    int64_t max_tokens = 1;
    int64_t priority = 0;
    int64_t buffer_tokens = 1024;
    int64_t deadline_ms = 0;  // none
    bool constrained = false;
    bool jumps_ahead = false;
    bool changes_logits = false;
};

// Most of its text is forced.
constexpr std::string_view kConstraint = "([a-z]{1,4} is what the programmer wrote, [0-9]{2} times[;.] ){1,5}";

// Bans a third of the tokens, another one after each token.
int32_t ban_a_third(void*, const int32_t*, size_t num_tokens, float* logits, size_t num_logits) {
    for (size_t token = num_tokens % 3; token < num_logits; token += 3)
        logits[token] = -std::numeric_limits<float>::infinity();
    return 0;
}

GenerationHandle start(nl_cache* cache, const Tokens& prompt, const Limits& limits) {
    const OptionsHandle options = make_options(NL_OPTIONS_GENERATION);
    const std::pair<int32_t, int64_t> values[] = {
        {NL_OPTION_MAX_TOKENS, limits.max_tokens},
        {NL_OPTION_PRIORITY, limits.priority},
        {NL_OPTION_BUFFER_TOKENS, limits.buffer_tokens},
        {NL_OPTION_DEADLINE_MS, limits.deadline_ms},
        {NL_OPTION_END_TOKENS, 0},
        {NL_OPTION_TEXT, 0},
        {NL_OPTION_JUMP_AHEAD, limits.jumps_ahead ? 1 : 0},
    };
    for (const auto& [option, value] : values)
        EXPECT_EQ(nl_options_set_int(options.get(), option, value), NL_OK) << nl_last_error();
    const std::string_view constraint = limits.constrained ? kConstraint : std::string_view();
    EXPECT_EQ(nl_options_set_text(options.get(), NL_OPTION_REGEX, constraint.data(), constraint.size()), NL_OK);
    EXPECT_EQ(nl_options_set_logits(options.get(), limits.changes_logits ? ban_a_third : nullptr, nullptr), NL_OK);
    nl_generation* made = nullptr;
    EXPECT_EQ(nl_generation_start(cache, prompt.data(), prompt.size(), options.get(), &made), NL_OK) << nl_last_error();
    return GenerationHandle(made);
}

// Appends what comes within `timeout_ms`, at most `room` tokens. Gives NL_END_NONE while more may come.
int32_t read(nl_generation* generation, int64_t timeout_ms, size_t room, Tokens& read) {
    Tokens tokens(room);
    size_t count = 0;
    int32_t end = NL_END_NONE;
    const nl_status status =
        nl_generation_next(generation, timeout_ms, tokens.data(), room, &count, nullptr, 0, nullptr, &end);
    if (status != NL_ERROR_TIMEOUT) {
        EXPECT_EQ(status, NL_OK) << nl_last_error();
        read.insert(read.end(), tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count));
    }
    return status == NL_OK || status == NL_ERROR_TIMEOUT ? end : NL_END_ERROR;
}

struct Conversation {
    CacheHandle cache;
    bool behind_chunk = false;  // whether the context begins with the program's chunk
    Tokens context;             // all tokens of it
    Sampling sampling;
    GenerationHandle generation;
    Limits limits;
    Tokens drawn;  // of the generation, as far as it was read
};

// One seed's conversations, on an engine that all of them share; a second engine has one at a time.
class Program {
  public:
    Program(const TinyModel& model, uint32_t seed, int32_t dtype) : random_(seed) {
        Arithmetic arithmetic{dtype, 1 + below(2)};
        shared_engine_ = make_invariant_engine(model, arithmetic);
        quiet_engine_ = make_invariant_engine(model, arithmetic);
        chunk_tokens_ = some(1 + below(70));
        chunk_ = make_chunk(shared_engine_.get(), chunk_tokens_);
        quiet_chunk_ = make_chunk(quiet_engine_.get(), chunk_tokens_);
    }

    void run(int operations) {
        for (int i = 0; i < operations && !testing::Test::HasFailure(); ++i) step();
        for (auto& conversation : conversations_) finish(conversation);
    }
    [[nodiscard]] int compared() const { return compared_; }

  private:
    int32_t below(int32_t limit) { return static_cast<int32_t>(random_() % static_cast<uint32_t>(limit)); }
    Tokens some(int32_t count) {
        Tokens tokens(static_cast<size_t>(count));
        for (int32_t& token : tokens) token = 3 + below(390);
        return tokens;
    }

    void step() {
        if (conversations_.empty() || (conversations_.size() < 12 && below(4) == 0)) return begin();
        Conversation& conversation =
            conversations_[static_cast<size_t>(below(static_cast<int32_t>(conversations_.size())))];
        switch (below(5)) {
            case 0:
                return read_some(conversation);
            case 1:
                return finish(conversation);
            case 2:
                return fork(conversation);
            case 3:
                return truncate(conversation);
            default:
                return generate(conversation);
        }
    }

    void begin() {
        Conversation conversation;
        conversation.behind_chunk = below(2) == 0;
        if (conversation.behind_chunk) conversation.context = chunk_tokens_;
        if (below(2) == 0) conversation.sampling = {1.0, below(1000)};
        conversation.cache = cache(conversation, shared_engine_.get(), chunk_.get());
        conversations_.push_back(std::move(conversation));
    }

    static CacheHandle cache(const Conversation& conversation, nl_engine* engine, const nl_chunk* chunk) {
        const std::vector<const nl_chunk*> chunks(conversation.behind_chunk ? 1 : 0, chunk);
        CacheHandle made = make_cache(engine, chunks);
        set_sampling(made.get(), conversation.sampling);
        return made;
    }

    void generate(Conversation& conversation) {
        if (conversation.generation || conversation.context.size() > 200) return finish(conversation);
        const Tokens prompt = some(1 + below(90));
        conversation.limits = {1 + below(40), below(3), below(3) == 0 ? 1 + below(6) : 1024,
                               below(6) == 0 ? 1 + below(20) : 0};
        conversation.limits.constrained = below(3) == 0;
        conversation.limits.jumps_ahead = below(2) == 0;
        conversation.limits.changes_logits = !conversation.limits.constrained && below(4) == 0;
        conversation.generation = start(conversation.cache.get(), prompt, conversation.limits);
        conversation.context.insert(conversation.context.end(), prompt.begin(), prompt.end());
        conversation.drawn.clear();
    }

    void read_some(Conversation& conversation) {
        if (!conversation.generation) return;
        const auto room = static_cast<size_t>(1 + below(4));
        const int32_t end = read(conversation.generation.get(), below(2), room, conversation.drawn);
        if (end != NL_END_NONE) compare(conversation, end);
    }

    void finish(Conversation& conversation) {
        if (!conversation.generation) return;
        if (below(3) == 0) {
            NL_CHECK(nl_generation_cancel(conversation.generation.get()));
        }
        int32_t end = NL_END_NONE;
        while (end == NL_END_NONE) end = read(conversation.generation.get(), -1, 7, conversation.drawn);
        compare(conversation, end);
    }

    // What was read are the tokens that the same request draws alone, or their beginning where something ended it.
    void compare(Conversation& conversation, int32_t end) {
        conversation.generation.reset();
        const bool whole = end == NL_END_LENGTH || end == NL_END_COMPLETE;
        ASSERT_TRUE(whole || end == NL_END_CANCELLED || end == NL_END_DEADLINE) << end;
        const CacheHandle quiet = cache(conversation, quiet_engine_.get(), quiet_chunk_.get());
        const Tokens prompt(conversation.context.begin() +
                                static_cast<std::ptrdiff_t>(conversation.behind_chunk ? chunk_tokens_.size() : 0),
                            conversation.context.end());
        Limits limits = conversation.limits;
        limits.deadline_ms = 0;
        limits.buffer_tokens = 1024;
        const GenerationHandle generation = start(quiet.get(), prompt, limits);
        Tokens expected;
        while (read(generation.get(), -1, 64, expected) == NL_END_NONE) {
        }
        if (!whole) {
            ASSERT_LE(conversation.drawn.size(), expected.size());
            expected.resize(conversation.drawn.size());
        }
        ASSERT_EQ(conversation.drawn, expected);
        compared_ += static_cast<int>(expected.size());
        conversation.context = tokens_of(conversation.cache.get());
    }

    void fork(Conversation& conversation) {
        if (conversation.generation || conversations_.size() > 12) return finish(conversation);
        nl_cache* made = nullptr;
        NL_CHECK(nl_cache_fork(conversation.cache.get(), &made));
        Conversation fork;
        fork.cache = CacheHandle(made);
        fork.behind_chunk = conversation.behind_chunk;
        fork.context = conversation.context;
        fork.sampling = conversation.sampling;
        conversations_.push_back(std::move(fork));
    }

    // The chunk stays whole, so that the same request alone can begin with it.
    void truncate(Conversation& conversation) {
        if (conversation.generation) return finish(conversation);
        const size_t least = conversation.behind_chunk ? chunk_tokens_.size() : 0;
        const size_t most = conversation.context.size();
        conversation.context.resize(least + static_cast<size_t>(below(static_cast<int32_t>(most - least) + 1)));
        NL_CHECK(nl_cache_truncate(conversation.cache.get(), conversation.context.size()));
    }

    std::mt19937 random_;
    EngineHandle shared_engine_;
    EngineHandle quiet_engine_;
    Tokens chunk_tokens_;
    ChunkHandle chunk_;
    ChunkHandle quiet_chunk_;
    std::vector<Conversation> conversations_;
    int compared_ = 0;
};

// Each program has a model of its own, with weights that make a token's successor depend on its context.
void run_programs(int32_t dtype, int32_t head_dim) {
    const char* const told = std::getenv("NANOLITH_TEST_SEED");
    const uint32_t first =
        told != nullptr ? static_cast<uint32_t>(std::strtoul(told, nullptr, 10)) : std::random_device{}();
    int compared = 0;
    for (uint32_t seed = first; seed < first + 4 && !testing::Test::HasFailure(); ++seed) {
        SCOPED_TRACE("NANOLITH_TEST_SEED=" + std::to_string(seed));
        TinyModelShape shape;
        shape.head_dim = head_dim;
        shape.seed = seed;
        const TinyModel model(shape);
        Program program(model, seed, dtype);
        program.run(150);
        compared += program.compared();
    }
    EXPECT_GT(compared, 500);
}

TEST(GenerationPrograms, Float32) {
    run_programs(NL_DTYPE_F32, 8);
}

TEST(GenerationPrograms, BFloat16HeadDim64) {
    run_programs(NL_DTYPE_BF16, 64);
}

TEST(GenerationPrograms, BFloat16HeadDim128) {
    run_programs(NL_DTYPE_BF16, 128);
}

}  // namespace
}  // namespace nanolith::test
