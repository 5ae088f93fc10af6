// Random programs upon the step loop: whatever starts, is cancelled, read slowly, forked, truncated and freed around
// it, every conversation gets the tokens that it gets alone, and all pages come back.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include "unit/engine/fake_engine.h"

namespace nanolith::testing {
namespace {

// One conversation, and what it must be.
struct Conversation {
    std::unique_ptr<Cache> cache;
    Tokens tokens;
    SamplingOptions sampling;
    std::shared_ptr<Generation> generation;
    Tokens prompt;                // the context that the generation goes on from
    FakeEngine::Answer expected;  // of the generation
    Tokens read;                  // of it so far
};

class Program {
  public:
    Program(uint32_t seed, int32_t depth) : random_(seed) {
        FakeSettings settings;
        settings.depth = depth;
        settings.vocab_size = 60;
        settings.max_context = 30 + below(300);
        settings.end_tokens = {7};
        settings.options.page_size = 16;
        settings.options.num_pages = 40 + below(200);
        settings.options.max_batch_tokens = 1 + below(80);
        settings.options.max_output_rows = 1 + below(8);
        settings.options.step_ms = below(2) == 0 ? 0 : 0.05;
        engine_ = std::make_unique<FakeEngine>(std::move(settings));
        engine_->record->step_microseconds = below(3) == 0 ? below(100) : 0;
    }

    void run(int operations) {
        for (int i = 0; i < operations && !::testing::Test::HasFailure(); ++i) step();
        for (auto& conversation : conversations_) end_generation(conversation);
        for (auto& conversation : conversations_) check_tokens(conversation);
        // Rows may still be computed ahead for them: they go as the handles of the C ABI do, under the engine's mutex.
        for (auto& conversation : conversations_) (*engine_)->release(std::move(conversation.cache));
        for (auto& chunk : chunks_) (*engine_)->release(std::move(chunk));
        conversations_.clear();
        chunks_.clear();
        // A step in flight keeps what it reads until it is collected.
        for (int i = 0; i < 5000 && engine_->spare_pages() != engine_->total_pages(); ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        EXPECT_EQ(engine_->spare_pages(), engine_->total_pages());
    }

  private:
    int32_t below(int32_t limit) { return static_cast<int32_t>(random_() % static_cast<uint32_t>(limit)); }
    Tokens some(int32_t count) {
        Tokens tokens(static_cast<size_t>(count));
        for (int32_t& token : tokens) token = below(60);
        return tokens;
    }
    // The beginning of one of two texts with which many conversations begin.
    Tokens common() {
        Tokens tokens(static_cast<size_t>(1 + below(100)));
        for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * (i < 20 ? 3 : 3 + text_) % 60);
        text_ = below(2);
        return tokens;
    }
    Conversation* any() {
        return conversations_.empty() ? nullptr : &conversations_[below(static_cast<int32_t>(conversations_.size()))];
    }
    static bool ran_short(const Error& error) {
        return error.status == NL_ERROR_OUT_OF_PAGES || error.status == NL_ERROR_CONTEXT_FULL;
    }

    void step() {
        Conversation* const conversation = any();
        switch (below(12)) {
            case 0:
            case 1:
                return begin();
            case 2:
                return prefill();
            case 3:
            case 4:
                if (conversation != nullptr) generate(*conversation);
                return;
            case 5:
            case 6:
                if (conversation != nullptr) read(*conversation);
                return;
            case 7:
                if (conversation != nullptr && below(2) == 0) end_generation(*conversation);
                return;
            case 8:
                if (conversation != nullptr) extend(*conversation);
                return;
            case 9:
                return decode();
            case 10:
                if (conversation != nullptr) fork_or_truncate(*conversation);
                return;
            default:
                if (conversation != nullptr && below(4) == 0) {
                    // A generation whose handle goes is cancelled.
                    if (conversation->generation) conversation->generation->cancel();
                    (*engine_)->release(std::move(conversation->cache));
                    std::swap(*conversation, conversations_.back());
                    conversations_.pop_back();
                }
        }
    }

    void prefill() {
        const auto made = (*engine_)->prefill({}, some(1 + below(60)), below(3), {});
        if (made.ok()) chunks_.push_back(made->chunk);
        if (!made.ok()) {
            EXPECT_TRUE(ran_short(made.error())) << made.error().message;
        }
        if (chunks_.size() > 4) {
            (*engine_)->release(std::move(chunks_.front()));
            chunks_.erase(chunks_.begin());
        }
    }

    void begin() {
        if (conversations_.size() > 10) return;
        std::vector<std::shared_ptr<Chunk>> chunks;
        Conversation conversation;
        for (const auto& chunk : chunks_)
            if (below(3) == 0) chunks.push_back(chunk);
        for (const auto& chunk : chunks)
            conversation.tokens.insert(conversation.tokens.end(), chunk->identity->tokens.begin(),
                                       chunk->identity->tokens.end());
        auto made = (*engine_)->create_cache(
            {}, {.composition = below(3), .blend_share = 0.1 * below(11), .blend_falls_back = below(2) == 0}, chunks);
        if (!made.ok()) {
            EXPECT_TRUE(ran_short(made.error())) << made.error().message;
            return;
        }
        conversation.cache = std::move(*made);
        conversation.sampling.temperature = 1;
        conversation.sampling.seed = random_();
        EXPECT_TRUE((*engine_)->set_sampling(*conversation.cache, conversation.sampling).ok());
        conversations_.push_back(std::move(conversation));
    }

    void generate(Conversation& conversation) {
        if (conversation.generation) return end_generation(conversation);
        const Tokens prompt = conversation.tokens.empty() && below(2) == 0 ? common() : some(below(40));
        GenerationOptions options;
        options.max_tokens = below(3) == 0 ? 0 : 1 + below(50);
        options.min_tokens = below(4) == 0 ? below(30) : 0;
        options.buffer_tokens = 1 + below(20);
        options.priority = below(3);
        if (below(4) == 0) options.stop_tokens = {below(60)};
        if (below(5) == 0) options.deadline_ms = 1 + below(5);
        Tokens context = conversation.tokens;
        context.insert(context.end(), prompt.begin(), prompt.end());
        auto started = (*engine_)->generate(*conversation.cache, prompt, options);
        if (!started.ok()) {
            EXPECT_TRUE(ran_short(started.error()) || context.empty()) << started.error().message;
            return;
        }
        conversation.generation = std::move(*started);
        conversation.expected = engine_->answer(context, conversation.sampling, options);
        conversation.prompt = std::move(context);
        conversation.read.clear();
    }

    // Reads a little, without waiting long.
    void read(Conversation& conversation) {
        if (!conversation.generation) return;
        int32_t buffer[5];
        const auto piece = conversation.generation->next(below(2), buffer, {});
        if (!piece.ok()) {
            EXPECT_EQ(piece.error().status, NL_ERROR_TIMEOUT);
            return;
        }
        conversation.read.insert(conversation.read.end(), buffer, buffer + piece->num_tokens);
        if (piece->end != NL_END_NONE) ended(conversation, piece->end, piece->error);
    }

    void end_generation(Conversation& conversation) {
        if (!conversation.generation) return;
        if (below(2) == 0) conversation.generation->cancel();
        while (conversation.generation) {
            int32_t buffer[9];
            const auto piece = conversation.generation->next(100'000, buffer, {});
            ASSERT_TRUE(piece.ok()) << piece.error().message;
            conversation.read.insert(conversation.read.end(), buffer, buffer + piece->num_tokens);
            if (piece->end != NL_END_NONE) ended(conversation, piece->end, piece->error);
        }
    }

    // What was read is what the conversation draws alone, or a beginning of it where something cut it off.
    void ended(Conversation& conversation, int32_t end, const std::optional<Error>& error) {
        const Tokens& expected = conversation.expected.tokens;
        ASSERT_LE(conversation.read.size(), expected.size());
        EXPECT_TRUE(std::equal(conversation.read.begin(), conversation.read.end(), expected.begin()));
        if (end == NL_END_ERROR) {
            ASSERT_TRUE(error.has_value());
            EXPECT_EQ(error->status, NL_ERROR_OUT_OF_PAGES) << error->message;
        } else if (end != NL_END_CANCELLED && end != NL_END_DEADLINE) {
            EXPECT_EQ(end, conversation.expected.end);
            EXPECT_EQ(conversation.read.size(), expected.size());
        }
        conversation.generation.reset();
        // Where the prompt was not computed to its end, none of it is there.
        if (!conversation.read.empty()) {
            conversation.tokens = conversation.prompt;
            conversation.tokens.insert(conversation.tokens.end(), conversation.read.begin(), conversation.read.end());
        }
        check_tokens(conversation);
    }

    void check_tokens(const Conversation& conversation) {
        EXPECT_EQ((*engine_)->tokens(*conversation.cache), conversation.tokens);
    }

    void extend(Conversation& conversation) {
        const Tokens more = conversation.tokens.empty() && below(2) == 0 ? common() : some(1 + below(50));
        const auto extended = (*engine_)->extend(*conversation.cache, more);
        if (extended.ok()) conversation.tokens.insert(conversation.tokens.end(), more.begin(), more.end());
        if (!extended.ok() && conversation.generation) {
            EXPECT_TRUE(extended.error().status == NL_ERROR_BUSY || ran_short(extended.error()));
        } else if (!extended.ok()) {
            EXPECT_TRUE(ran_short(extended.error())) << extended.error().message;
        } else if (conversation.generation) {
            // It had ended by itself, and its reader has not heard of it yet.
            conversation.tokens.resize(conversation.tokens.size() - more.size());
            ASSERT_NO_FATAL_FAILURE(truncate_to_end_of_generation(conversation, more.size()));
        }
    }

    void truncate_to_end_of_generation(Conversation& conversation, size_t more) {
        const size_t all = (*engine_)->tokens(*conversation.cache).size();
        ASSERT_TRUE((*engine_)->truncate(*conversation.cache, all - more).ok());
    }

    void decode() {
        std::vector<Conversation*> chosen;
        std::vector<Cache*> caches;
        for (auto& conversation : conversations_) {
            if (conversation.generation || conversation.tokens.empty() || below(2) == 0) continue;
            chosen.push_back(&conversation);
            caches.push_back(conversation.cache.get());
        }
        // Of caches that are stepped again and again, rows are computed ahead.
        for (int steps = below(3) == 0 ? 1 + below(20) : 1; steps > 0; --steps) {
            Tokens drawn(caches.size());
            const auto stepped = (*engine_)->decode_step(caches, drawn);
            if (!stepped.ok()) {
                EXPECT_TRUE(ran_short(stepped.error())) << stepped.error().message;
                steps = 1;
            }
            for (size_t i = 0; i < chosen.size(); ++i) {
                if (stepped.ok()) {
                    EXPECT_EQ(drawn[i], engine_->next(chosen[i]->tokens, chosen[i]->sampling));
                    chosen[i]->tokens.push_back(drawn[i]);
                }
                check_tokens(*chosen[i]);
            }
        }
    }

    void fork_or_truncate(Conversation& conversation) {
        if (conversation.generation) return end_generation(conversation);
        if (below(2) == 0) {
            const int32_t kept = below(static_cast<int32_t>(conversation.tokens.size()) + 1);
            ASSERT_TRUE((*engine_)->truncate(*conversation.cache, static_cast<size_t>(kept)).ok());
            conversation.tokens.resize(kept);
            return;
        }
        if (conversations_.size() > 12) return;
        auto made = (*engine_)->fork(*conversation.cache);
        ASSERT_TRUE(made.ok());
        Conversation fork;
        fork.cache = std::move(*made);
        fork.tokens = conversation.tokens;
        fork.sampling = conversation.sampling;
        conversations_.push_back(std::move(fork));
    }

    std::mt19937 random_;
    int32_t text_ = 0;
    std::unique_ptr<FakeEngine> engine_;
    std::vector<Conversation> conversations_;
    std::vector<std::shared_ptr<Chunk>> chunks_;
};

void run_programs(int32_t depth, int programs) {
    const char* const told = std::getenv("NANOLITH_TEST_SEED");
    const uint32_t seed =
        told != nullptr ? static_cast<uint32_t>(std::strtoul(told, nullptr, 10)) : std::random_device{}();
    for (int i = 0; i < programs && !::testing::Test::HasFailure(); ++i) {
        SCOPED_TRACE("NANOLITH_TEST_SEED=" + std::to_string(seed + static_cast<uint32_t>(i)));
        Program(seed + static_cast<uint32_t>(i), depth).run(120);
    }
}

TEST(StepLoopPrograms, OneStepInFlight) {
    run_programs(1, 250);
}

TEST(StepLoopPrograms, TwoStepsInFlight) {
    run_programs(2, 250);
}

}  // namespace
}  // namespace nanolith::testing
