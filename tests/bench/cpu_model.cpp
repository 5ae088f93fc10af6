// Prefill and decode of one sequence on the CPU, with random weights of a known model's shape, and where their time
// goes.
//
//   bench_cpu_model [MODEL] [float32|bfloat16|int8|int4|fp8|wide] [threads] [prefill] [decode tokens] [conversations]
//
// int8, int4 and fp8 are of the weights, beside activations of bfloat16; so is wide: a file's blocks become bfloat16.
//
// With conversations, so many decode steps of that many sequences follow, each of which has the prefilled tokens as its
// first segment and a page of its own.
//
// MODEL is a name of bench/known_models.h, qwen3-0.6b say. qwen3-30b-a3b/24 has 2 of that model's 48 layers and a small
// vocabulary. Or it is the path of a model: a GGUF file (random_gguf.py makes some), or a folder.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/profile.h"
#include "bench/known_models.h"
#include "model/model.h"
#include "support/random_model.h"
#include "support/steps.h"

namespace {

using namespace nanolith;
using namespace nanolith::bench;
using testing::RandomShape;
using Clock = std::chrono::steady_clock;

constexpr int32_t kPageSize = 64;

// NAME of bench/known_models.h, or NAME/N: an N-th of its layers and a small vocabulary. Heads are tied. False where
// there is no such model.
bool shape_by_name(const std::string& name, RandomShape& shape) {
    const size_t slash = name.find('/');
    const Shape* const known = find_shape(name.substr(0, slash));
    const int part = slash == std::string::npos ? 1 : std::atoi(name.c_str() + slash + 1);
    if (known == nullptr || part < 1 || known->layers % part != 0) return false;
    shape = random_shape(*known, 40960);
    shape.num_layers /= part;
    if (part > 1) shape.vocab_size = 1024;
    shape.tied = true;
    return true;
}

// Rows [first, first + count) of a sequence with this page table; a draw after the last.
Batch batch_of(std::span<const int32_t> table, int32_t first, int32_t count, int32_t vocab_size) {
    std::vector<int32_t> tokens;
    for (int64_t position = first; position < first + count; ++position)
        tokens.push_back(static_cast<int32_t>(position * 7919 % vocab_size));
    return testing::sequence_step(table, first, std::move(tokens));
}

// Row `step` of each conversation behind a chunk of so many tokens, which is in the table's first pages; the others are
// the conversations'.
Batch conversations_step(std::span<const int32_t> table, int32_t chunk, int32_t count, int32_t step,
                         int32_t vocab_size) {
    Batch batch;
    batch.page_table = table;
    const auto first_page = static_cast<int32_t>(table.size()) - count;
    for (int32_t i = 0; i < count; ++i) {
        batch.tokens.push_back((step * 7919 + i) % vocab_size);
        batch.positions.push_back(chunk + step);
        batch.key_positions.push_back(step);
        batch.slots.push_back(table[first_page + i] * kPageSize + step);
        batch.segments.push_back({0, chunk, 0});
        batch.segments.push_back({first_page + i, step + 1, chunk});
        batch.sequences.push_back({i, 1, 2 * i, 2});
        batch.output_rows.push_back(i);
    }
    batch.sampling.resize(count);
    return batch;
}

// Random weights of a known shape, or a model's own.
struct Weights {
    std::unique_ptr<testing::RandomModel> random;
    std::unique_ptr<Model> loaded;

    [[nodiscard]] const ModelSpec& spec() const { return loaded != nullptr ? loaded->spec : random->spec; }
    [[nodiscard]] const ModelWeights& all() const { return loaded != nullptr ? loaded->weights : random->weights; }
};

Result<Weights> weights_by_name(const std::string& name, DType dtype) {
    Weights weights;
    RandomShape shape;
    if (shape_by_name(name, shape)) {
        weights.random = std::make_unique<testing::RandomModel>(shape, dtype, 1);
    } else {
        NL_ASSIGN(weights.loaded, load_model(name));
    }
    return weights;
}

// Of the processor, all threads together.
double processor_seconds() {
    return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

double seconds_of(Executor& executor, const Batch& batch) {
    std::vector<int32_t> sampled(batch.output_rows.size());
    const auto begin = Clock::now();
    const auto ran = testing::run_step(executor, batch, sampled);
    if (!ran.ok()) {
        std::fprintf(stderr, "%s\n", ran.error().message.c_str());
        std::exit(1);
    }
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

void report(const char* what, int32_t tokens, double best, double mean) {
    std::printf("%-26s %8d %12.1f %12.1f\n", what, tokens, tokens / best, tokens / mean);
}

}  // namespace

int main(int argc, char** argv) {
    const std::string name = argc > 1 ? argv[1] : "qwen3-0.6b";
    const DType dtype = argc > 2 && std::strcmp(argv[2], "float32") == 0 ? DType::f32 : DType::bf16;
    ExecutorOptions options;
    options.dtype = dtype;
    for (const WeightForm form : {WeightForm::int8, WeightForm::int4, WeightForm::fp8})
        if (argc > 2 && std::strcmp(argv[2], form_name(form)) == 0) options.weights = form;
    if (argc > 2 && std::strcmp(argv[2], "wide") == 0) options.weights = WeightForm::wide;
    options.page_size = kPageSize;
    Profile profile;
    options.profile = &profile;
    const int32_t num_threads = argc > 3 ? std::atoi(argv[3]) : 0;
    const int32_t prefill = argc > 4 ? std::atoi(argv[4]) : 512;
    const int32_t decode = argc > 5 ? std::atoi(argv[5]) : 32;
    const int32_t conversations = argc > 6 ? std::atoi(argv[6]) : 0;
    options.num_pages = (prefill + decode) / kPageSize + 1 + conversations;

    const auto weights = weights_by_name(name, dtype);
    if (!weights.ok()) return std::fprintf(stderr, "%s\n", weights.error().message.c_str()), 2;
    const int32_t vocab_size = weights->spec().vocab_size;
    auto backend = open_cpu_backend(num_threads);
    if (!backend.ok()) return std::fprintf(stderr, "%s\n", backend.error().message.c_str()), 1;
    const auto begin = Clock::now();
    const double processor_begin = processor_seconds();
    auto executor = (*backend)->create_executor(weights->spec(), weights->all(), options, Progress());
    if (!executor.ok()) return std::fprintf(stderr, "%s\n", executor.error().message.c_str()), 1;
    std::printf("made ready in %.2f s, %.2f s of the processor\n",
                std::chrono::duration<double>(Clock::now() - begin).count(), processor_seconds() - processor_begin);

    const std::vector<int32_t> table = testing::table_of(options.num_pages);
    constexpr int kRepeats = 3;
    double best = 1e9;
    double total = 0;
    for (int repeat = -1; repeat < kRepeats; ++repeat) {  // the first one warms up
        double seconds = 0;
        for (int32_t first = 0; first < prefill; first += options.max_rows)
            seconds +=
                seconds_of(**executor, batch_of(table, first, std::min(options.max_rows, prefill - first), vocab_size));
        if (repeat < 0) continue;
        best = std::min(best, seconds);
        total += seconds;
    }
    for (const std::string& line : profile.lines()) std::printf("%s\n", line.c_str());
    profile.clear();
    double best_step = 1e9;
    double all_steps = 0;
    const double decode_begin = processor_seconds();
    for (int32_t step = 0; step < decode; ++step) {
        const double seconds = seconds_of(**executor, batch_of(table, prefill + step, 1, vocab_size));
        best_step = std::min(best_step, seconds);
        all_steps += seconds;
    }
    const double decode_processor = processor_seconds() - decode_begin;
    std::printf("%s, %s, %s\n", name.c_str(), dtype_name(dtype), (*backend)->device_name().c_str());
    std::printf("%-26s %8s %12s %12s\n", "", "tokens", "best tok/s", "mean tok/s");
    report("prefill", prefill, best, total / kRepeats);
    report("decode, one by one", 1, best_step, all_steps / decode);
    std::printf("%-26s %8d %12.2f ms of the processor a token\n", "", 1, 1e3 * decode_processor / decode);
    for (const std::string& line : profile.lines()) std::printf("%s\n", line.c_str());
    if (conversations == 0) return 0;
    profile.clear();
    best_step = 1e9;
    all_steps = 0;
    for (int32_t step = 0; step < std::min(decode, kPageSize); ++step) {
        const double seconds =
            seconds_of(**executor, conversations_step(table, prefill, conversations, step, vocab_size));
        best_step = std::min(best_step, seconds);
        all_steps += seconds;
    }
    report("conversations", conversations, best_step, all_steps / std::min(decode, kPageSize));
    for (const std::string& line : profile.lines()) std::printf("%s\n", line.c_str());
    return 0;
}
