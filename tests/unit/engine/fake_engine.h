// An engine on the fake device, and what its conversations must draw.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "engine/engine.h"
#include "engine/sampling.h"
#include "unit/engine/fake_device.h"

namespace nanolith::testing {

using Tokens = std::vector<int32_t>;

struct FakeSettings {
    int32_t depth = 2;
    int32_t vocab_size = 1000;
    int32_t max_context = 4096;
    std::vector<int32_t> end_tokens = {};
    EngineOptions options = {};
    std::shared_ptr<const Tokenizer> tokenizer = nullptr;
};

class FakeEngine {
  public:
    explicit FakeEngine(FakeSettings settings = {}) : settings_(std::move(settings)) {
        auto model = std::make_unique<Model>();
        model->spec = fake_spec(settings_.vocab_size, settings_.max_context);
        model->end_tokens = settings_.end_tokens;
        if (settings_.options.num_pages == 0) settings_.options.num_pages = 256;
        Result<std::shared_ptr<const Tokenizer>> tokenizer = Error{NL_ERROR_NOT_FOUND, "no tokenizer"};
        if (settings_.tokenizer) tokenizer = settings_.tokenizer;
        auto engine = Engine::create(std::move(model), std::move(tokenizer), make_fake_backend(record, settings_.depth),
                                     settings_.options);
        EXPECT_TRUE(engine.ok()) << engine.error().message;
        engine_ = std::move(*engine);
    }
    ~FakeEngine() {
        engine_.reset();
        const std::lock_guard lock(record->mutex);
        for (const std::string& fault : record->faults) ADD_FAILURE() << fault;
    }

    Engine* operator->() { return engine_.get(); }
    Engine& operator*() { return *engine_; }
    [[nodiscard]] std::shared_ptr<Engine> shared() const { return engine_; }

    // What follows `tokens`.
    [[nodiscard]] int32_t next(const Tokens& tokens, const SamplingOptions& sampling = {},
                               const Tokens& banned = {}) const {
        const double uniform = sample_params(sampling, static_cast<int32_t>(tokens.size())).uniform;
        int32_t token = fake_draw(tokens, uniform, settings_.vocab_size);
        while (std::ranges::find(banned, token) != banned.end()) token = (token + 1) % settings_.vocab_size;
        return token;
    }

    // What a generation alone draws after `tokens`, and why it ends. `most`: tokens, if nothing ends it before.
    struct Answer {
        Tokens tokens;
        int32_t end = NL_END_NONE;
    };
    [[nodiscard]] Answer answer(Tokens tokens, const SamplingOptions& sampling,
                                const GenerationOptions& options) const {
        Answer answer;
        Tokens ends = options.stop_tokens;
        if (options.end_tokens) ends.insert(ends.end(), settings_.end_tokens.begin(), settings_.end_tokens.end());
        while (answer.end == NL_END_NONE) {
            const bool too_soon = static_cast<int64_t>(answer.tokens.size()) < options.min_tokens;
            const int32_t token = next(tokens, sampling, too_soon ? ends : Tokens());
            tokens.push_back(token);
            answer.tokens.push_back(token);
            const auto count = static_cast<int64_t>(answer.tokens.size());
            if (count > options.min_tokens && std::ranges::find(ends, token) != ends.end()) {
                answer.end = NL_END_TOKEN;
            } else if (options.max_tokens > 0 && count >= options.max_tokens) {
                answer.end = NL_END_LENGTH;
            } else if (static_cast<int32_t>(tokens.size()) >= settings_.max_context) {
                answer.end = NL_END_CONTEXT_FULL;
            }
        }
        return answer;
    }

    std::unique_ptr<Cache> cache(const std::vector<std::shared_ptr<Chunk>>& chunks = {}) {
        auto made = engine_->create_cache({}, {.composition = NL_COMPOSE_INDEPENDENT}, chunks);
        EXPECT_TRUE(made.ok()) << made.error().message;
        return std::move(*made);
    }
    std::shared_ptr<Generation> generate(Cache& cache, const Tokens& tokens, const GenerationOptions& options = {}) {
        auto started = engine_->generate(cache, tokens, options);
        EXPECT_TRUE(started.ok()) << started.error().message;
        return started.ok() ? std::move(*started) : nullptr;
    }
    // Everything that is still to come of a generation.
    static Answer read_all(Generation& generation) {
        Answer answer;
        while (answer.end == NL_END_NONE) {
            int32_t buffer[7];
            const auto piece = generation.next(20'000, buffer, {});
            if (!piece.ok()) {
                ADD_FAILURE() << piece.error().message;
                break;
            }
            answer.tokens.insert(answer.tokens.end(), buffer, buffer + piece->num_tokens);
            answer.end = piece->end;
        }
        return answer;
    }
    [[nodiscard]] int64_t spare_pages() {
        const auto counts = engine_->page_counts();
        return counts.free + counts.evictable;
    }
    [[nodiscard]] int64_t total_pages() { return engine_->page_counts().total; }
    [[nodiscard]] const FakeSettings& settings() const { return settings_; }

    const std::shared_ptr<FakeRecord> record = std::make_shared<FakeRecord>();

  private:
    FakeSettings settings_;
    std::shared_ptr<Engine> engine_;
};

inline Tokens tokens_from(int32_t first, int32_t count, int32_t vocab_size = 1000) {
    Tokens tokens;
    for (int32_t i = 0; i < count; ++i) tokens.push_back((first + 7 * i) % vocab_size);
    return tokens;
}

}  // namespace nanolith::testing
