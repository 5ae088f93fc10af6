// The step loop above the kernels, with random weights of known models' shapes: what callers see of it.
//
//   bench_step_loop [--device cpu|cuda|cuda:N] [--model NAME | --folder MODEL_FOLDER] [--case NAME]...
//
//   threads   as many threads that each step one cache, beside one thread that steps all of them in one call
//   fair      gaps between a running conversation's tokens while 32,768 tokens are prefilled, and the prefill's speed
//   first     the first token after an engine is made, beside the second's
//   host      the step loop's own cost of a token at 128 and 100,000 tokens of context, on a device that does nothing
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "bench/known_models.h"
#include "engine/engine.h"

namespace {

using namespace nanolith;
using namespace nanolith::bench;
using Tokens = std::vector<int32_t>;

struct Arguments {
    std::string device = "cuda";
    std::string model = "qwen3-0.6b";
    std::string folder;  // in place of random weights
    std::vector<std::string> cases;
    int32_t threads = 32;
    int32_t prompt = 32768;
};

double milliseconds_since(Clock::time_point begin) {
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

double percentile(std::vector<double> values, double share) {
    std::sort(values.begin(), values.end());
    return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

[[noreturn]] void stop(const Error& error) {
    std::fprintf(stderr, "%s\n", error.message.c_str());
    std::exit(1);
}

template <typename T>
T must(Result<T> result) {
    if (!result.ok()) stop(result.error());
    return std::move(*result);
}
void must(const Result<void>& result) {
    if (!result.ok()) stop(result.error());
}

Tokens random_tokens(std::mt19937& random, int32_t count, int32_t vocab_size = 100'000) {
    Tokens tokens;
    for (int32_t i = 0; i < count; ++i)
        tokens.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(vocab_size)));
    return tokens;
}

class Bench {
  public:
    explicit Bench(const Arguments& arguments)
        : arguments_(arguments), shape_(*find_shape(arguments.model)), weights_(shape_) {
        make_engine();
    }

    void make_engine() {
        engine_.reset();
        const auto begin = Clock::now();
        EngineOptions options;
        options.device = arguments_.device;
        options.num_pages = arguments_.device == "cpu" ? 1024 : 6144;
        if (!arguments_.folder.empty()) {
            engine_ = must(Engine::create(arguments_.folder, options));
        } else {
            engine_ = make_random(options);
        }
        std::printf("%s on %s: engine made in %.0f ms\n", engine_->model().architecture.c_str(),
                    engine_->device_name().c_str(), milliseconds_since(begin));
    }

    std::shared_ptr<Engine> make_random(EngineOptions& options) {
        auto model = std::make_unique<Model>();
        model->spec = testing::spec_of(random_shape(shape_, 40960));
        model->weights = weights_.weights;
        model->architecture = shape_.name;
        model->file_dtype = DType::bf16;
        if (arguments_.device == "cpu") options.dtype = NL_DTYPE_BF16;
        return must(Engine::create(std::move(model), Error{NL_ERROR_NOT_FOUND, "none"},
                                   must(open_device(arguments_.device)), options));
    }

    std::unique_ptr<Cache> cache() {
        return must(engine_->create_cache({}, {.composition = NL_COMPOSE_INDEPENDENT}, {}));
    }

    Tokens tokens(int32_t count) { return random_tokens(random_, count, engine_->spec().vocab_size); }

    static void read_all(Generation& generation) {
        int32_t buffer[256];
        while (must(generation.next(-1, buffer, {})).end == NL_END_NONE) {
        }
    }

    double step_together(std::vector<std::unique_ptr<Cache>>& caches, int32_t steps) {
        std::vector<Cache*> list;
        for (auto& each : caches) list.push_back(each.get());
        Tokens drawn(list.size());
        const auto begin = Clock::now();
        for (int32_t step = 0; step < steps; ++step) must(engine_->decode_step(list, drawn));
        return static_cast<double>(list.size()) * steps / milliseconds_since(begin) * 1000;
    }

    double step_in_threads(std::vector<std::unique_ptr<Cache>>& caches, int32_t steps) {
        const auto begin = Clock::now();
        std::vector<std::thread> threads;
        for (auto& each : caches) {
            threads.emplace_back([&, this] {
                for (int32_t step = 0; step < steps; ++step) {
                    Cache* const mine[] = {each.get()};
                    int32_t token = 0;
                    must(engine_->decode_step(mine, {&token, 1}));
                }
            });
        }
        for (auto& thread : threads) thread.join();
        return static_cast<double>(caches.size()) * steps / milliseconds_since(begin) * 1000;
    }

    static constexpr int32_t kPrompt = 64;
    void shorten(std::vector<std::unique_ptr<Cache>>& caches) {
        for (auto& each : caches) must(engine_->truncate(*each, kPrompt));
    }

    void threads() {
        std::vector<std::unique_ptr<Cache>> caches;
        for (int32_t i = 0; i < arguments_.threads; ++i) {
            caches.push_back(cache());
            must(engine_->extend(*caches.back(), tokens(kPrompt)));
        }
        const int32_t steps = arguments_.device == "cpu" && arguments_.folder.empty() ? 20 : 200;
        step_together(caches, 3);
        for (int turn = 0; turn < 3; ++turn) {
            // Both after contexts of the same length, on which a step's time depends.
            shorten(caches);
            const double together = step_together(caches, steps);
            shorten(caches);
            const double apart = step_in_threads(caches, steps);
            std::printf("threads  %d caches: %.0f tokens/s in one call, %.0f by a thread each: %.2fx\n",
                        arguments_.threads, together, apart, apart / together);
        }
    }

    void fair() {
        const int32_t length = arguments_.prompt;
        double alone = 0;
        for (int turn = 0; turn < 2; ++turn) {  // the first one also warms up
            const auto begin = Clock::now();
            must(engine_->prefill({}, tokens(length), 1, {}));
            alone = milliseconds_since(begin);
        }
        const auto conversation = cache();
        const auto generation = must(engine_->generate(*conversation, tokens(100),
                                                       {.end_tokens = false, .buffer_tokens = 1 << 20, .text = false}));
        int32_t token = 0;
        for (int i = 0; i < 50; ++i) must(generation->next(-1, {&token, 1}, {}));
        std::atomic<bool> prefilling = true;
        double beside = 0;
        std::thread prefill([&] {
            const auto begin = Clock::now();
            must(engine_->prefill({}, tokens(length), 1, {}));
            beside = milliseconds_since(begin);
            prefilling = false;
        });
        std::vector<double> gaps;
        auto last = Clock::now();
        while (prefilling) {
            must(generation->next(-1, {&token, 1}, {}));
            gaps.push_back(milliseconds_since(last));
            last = Clock::now();
        }
        prefill.join();
        generation->cancel();
        std::printf(
            "fair     %d tokens prefilled: alone %.0f ms (%.0f tokens/s), beside a conversation %.0f ms "
            "(%.0f%% of its speed); gaps of the conversation: median %.1f, 99%% %.1f, worst %.1f ms\n",
            length, alone, length / alone * 1000, beside, 100 * alone / beside, percentile(gaps, 0.5),
            percentile(gaps, 0.99), percentile(gaps, 1));
        std::printf("        ");
        for (const double gap : gaps) std::printf(" %.1f", gap);
        std::printf("\n");
    }

    void first() {
        make_engine();
        double took[3];
        for (double& ms : took) {
            const auto conversation = cache();
            const Tokens prompt = tokens(128);
            const auto begin = Clock::now();
            const auto generation = must(engine_->generate(*conversation, prompt, {.max_tokens = 1}));
            read_all(*generation);
            ms = milliseconds_since(begin);
        }
        std::printf("first    token after 128: %.2f ms, then %.2f and %.2f: %.2fx\n", took[0], took[1], took[2],
                    took[0] / took[1]);
    }

    void run(const std::string& name) {
        if (name == "threads") threads();
        if (name == "fair") fair();
        if (name == "first") first();
    }

  private:
    const Arguments arguments_;
    const Shape& shape_;
    const RandomWeights weights_;
    std::shared_ptr<Engine> engine_;
    std::mt19937 random_{7};
};

// ---- A device that does nothing -------------------------------------------------------------------------

class NoExecutor final : public Executor {
  public:
    [[nodiscard]] int32_t max_in_flight() const override { return 2; }
    Result<void> submit(const Batch& batch) override {
        outputs_.push_back(batch.output_rows.size());
        return {};
    }
    Result<void> submit_draws(const Batch&) override { return {}; }
    Result<void> read_undrawn(int32_t, std::span<float>) override { return {}; }
    Result<void> write_undrawn(int32_t, std::span<const float>) override { return {}; }
    Result<void> collect(std::span<int32_t> sampled) override {
        std::fill(sampled.begin(), sampled.end(), 5);
        return {};
    }
    Result<void> read_logits(int32_t, std::span<float>) override { return {}; }
    Result<void> read_state(int32_t, std::span<float>) override { return {}; }
    Result<void> read_logprobs(std::span<TokenLogprob>) override { return {}; }
    Result<void> read_surprises(std::span<float>) override { return {}; }
    Result<void> read_token_weights(std::span<float>) override { return {}; }
    Result<void> copy_pages(std::span<const PageCopy>) override { return {}; }
    Result<HostMemory> allocate_host(size_t) override { return HostMemory(); }
    Result<void> read_pages(std::span<const int32_t>, std::span<std::byte>) override { return {}; }
    Result<void> write_pages(std::span<const int32_t>, std::span<const std::byte>) override { return {}; }

  private:
    std::vector<size_t> outputs_;
};

class NoDevice final : public Backend {
  public:
    [[nodiscard]] std::string device_name() const override { return "none"; }
    [[nodiscard]] bool supports(DType) const override { return true; }
    [[nodiscard]] bool keeps_compact() const override { return false; }
    [[nodiscard]] Result<uint64_t> available_memory() const override { return uint64_t{1} << 45; }
    Result<std::unique_ptr<Executor>> create_executor(const ModelSpec&, const ModelWeights&, const ExecutorOptions&,
                                                      const Progress&) override {
        return std::unique_ptr<Executor>(std::make_unique<NoExecutor>());
    }
};

void host() {
    for (const int32_t context : {128, 100'000}) {
        auto model = std::make_unique<Model>();
        model->spec = testing::spec_of(random_shape(kShapes[0], 131'072));
        EngineOptions options;
        options.num_pages = 20'000;
        const auto engine = must(
            Engine::create(std::move(model), Error{NL_ERROR_NOT_FOUND, "none"}, std::make_unique<NoDevice>(), options));
        std::mt19937 random(3);
        std::vector<std::unique_ptr<Cache>> caches;
        std::vector<std::shared_ptr<Generation>> generations;
        for (int i = 0; i < 8; ++i) {
            caches.push_back(must(engine->create_cache({}, {.composition = NL_COMPOSE_INDEPENDENT}, {})));
            must(engine->extend(*caches.back(), random_tokens(random, context)));
        }
        constexpr int32_t kTokens = 10'000;
        const auto begin = Clock::now();
        for (auto& cache : caches)
            generations.push_back(must(
                engine->generate(*cache, {}, {.max_tokens = kTokens, .end_tokens = false, .buffer_tokens = 1 << 20})));
        for (auto& generation : generations) Bench::read_all(*generation);
        std::printf("host     %6d tokens of context: %.2f us a token\n", context,
                    milliseconds_since(begin) * 1000 / (8.0 * kTokens));
    }
}

bool parse(int argc, char** argv, Arguments& arguments) {
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string name = argv[i];
        const std::string value = argv[i + 1];
        if (name == "--device") {
            arguments.device = value;
        } else if (name == "--model") {
            arguments.model = value;
        } else if (name == "--folder") {
            arguments.folder = value;
        } else if (name == "--case") {
            arguments.cases.push_back(value);
        } else if (name == "--threads") {
            arguments.threads = std::atoi(value.c_str());
        } else if (name == "--prompt") {
            arguments.prompt = std::atoi(value.c_str());
        } else {
            return false;
        }
    }
    if (arguments.cases.empty()) arguments.cases = {"threads", "fair", "first"};
    return argc % 2 == 1 && find_shape(arguments.model) != nullptr;
}

}  // namespace

int main(int argc, char** argv) {
    Arguments arguments;
    if (!parse(argc, argv, arguments)) {
        std::fprintf(stderr,
                     "usage: %s [--device cpu|cuda|cuda:N] [--model NAME | --folder MODEL_FOLDER] [--case NAME]... "
                     "[--threads N] [--prompt N]\n",
                     argv[0]);
        return 2;
    }
    std::optional<Bench> bench;  // made for the first case that needs a device
    for (const std::string& name : arguments.cases) {
        if (name == "host") {
            host();
            continue;
        }
        if (!bench) bench.emplace(arguments);
        bench->run(name);
    }
    return 0;
}
