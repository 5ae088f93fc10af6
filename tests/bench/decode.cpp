// Decode with random weights of known models' shapes, after a prefill of its history: of one sequence, or of several
// that share it.
//
//   bench_decode [--device cpu|cuda|cuda:N] [--model NAME] [--weights FORM] [--rows N] [--history TOKENS] [--steps N]
//                [--slice TOKENS] [--profile yes]
//
// FORM is bf16 (default), fp8, int8 or int4: what matrices are quantised to when they are loaded.
//
// Each step is timed on the host from the call to the drawn token; the median is reported, with the bytes of weights
// and KV cache that a step must read and what share of a read ceiling that makes (4.5 TB/s, a plain read's on an H200).
// The prefill, in slices of 512 tokens or as many as --slice says, is timed when it is done a second time. With
// --profile a table of each model's phases follows its line; the steps are slower then.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/profile.h"
#include "backend/step_traffic.h"
#include "backend/weight_form.h"
#include "bench/known_models.h"
#include "support/steps.h"

namespace {

using namespace nanolith;
using namespace nanolith::bench;
using testing::run_step;
using testing::sequence_step;
using testing::table_of;
using Clock = std::chrono::steady_clock;

constexpr double kReadCeiling = 4.5e12;  // bytes a second
constexpr int32_t kPageSize = 64;
constexpr int32_t kTokens = 100000;  // every shape's vocabulary has more
constexpr int32_t kWarmUpSteps = 16;

struct Arguments {
    std::string device = "cuda";
    std::string model;  // empty: all
    WeightForm weights = WeightForm::wide;
    int32_t rows = 1;
    int32_t history = 256;
    int32_t steps = 256;
    int32_t slice = 512;
    bool profile = false;
};

// Rows [first, first + count) of a sequence with this page table, `token` and others after it.
Batch batch_of(std::span<const int32_t> table, int32_t first, int32_t count, int32_t token) {
    std::vector<int32_t> tokens;
    for (int32_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>((token + i * 7919LL) % kTokens));
    return sequence_step(table, first, std::move(tokens));
}

// Pages that each of several sequences has of its own, behind those that they share.
int32_t own_pages(const Arguments& arguments) {
    return (kWarmUpSteps + arguments.steps) / kPageSize + 1;
}

// The next row of each sequence, `step` steps after the pages that they share.
Batch decode_batch(std::span<const int32_t> table, int32_t step, std::span<const int32_t> tokens,
                   const Arguments& arguments) {
    Batch batch;
    const int32_t shared = arguments.history / kPageSize;
    batch.page_table = table;
    for (int32_t i = 0; i < arguments.rows; ++i) {
        const int32_t own = shared + i * own_pages(arguments);
        batch.tokens.push_back(tokens[static_cast<size_t>(i)]);
        batch.positions.push_back(shared * kPageSize + step);
        batch.key_positions.push_back(step);
        batch.slots.push_back(table[static_cast<size_t>(own)] * kPageSize + step);
        batch.sequences.push_back({i, 1, static_cast<int32_t>(batch.segments.size()), 2});
        batch.segments.push_back({0, shared * kPageSize, 0});
        batch.segments.push_back({own, step + 1, shared * kPageSize});
        batch.output_rows.push_back(i);
    }
    batch.sampling.resize(static_cast<size_t>(arguments.rows));
    return batch;
}

double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

Result<double> prefill(Executor& executor, std::span<const int32_t> table, const Arguments& arguments) {
    const int32_t tokens = arguments.history;
    const int32_t slice = arguments.slice;
    int32_t token[1];
    const auto begin = Clock::now();
    for (int32_t first = 0; first < tokens; first += slice) {
        NL_TRY(run_step(executor, batch_of(table, first, std::min(slice, tokens - first), 1), token));
    }
    return seconds_since(begin);
}

Result<double> median_step(Executor& executor, std::span<const int32_t> table, const Arguments& arguments) {
    std::vector<int32_t> tokens(static_cast<size_t>(arguments.rows));
    for (size_t i = 0; i < tokens.size(); ++i)
        tokens[i] = static_cast<int32_t>((1 + 977 * i) % kTokens);  // no two rows alike
    std::vector<double> seconds;
    for (int32_t step = -kWarmUpSteps; step < arguments.steps; ++step) {
        const int32_t position = arguments.history + kWarmUpSteps + step;
        const Batch batch = arguments.rows == 1 ? batch_of(table, position, 1, tokens[0])
                                                : decode_batch(table, kWarmUpSteps + step, tokens, arguments);
        const auto begin = Clock::now();
        NL_TRY(run_step(executor, batch, tokens));
        if (step >= 0) seconds.push_back(seconds_since(begin));
    }
    std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
    return seconds[seconds.size() / 2];
}

Result<void> measure(Backend& backend, const Shape& shape, const Arguments& arguments) {
    const int32_t context = arguments.history + kWarmUpSteps + arguments.steps;
    ExecutorOptions options;
    options.dtype = DType::bf16;
    options.weights = arguments.weights;
    options.page_size = kPageSize;
    options.num_pages = context / kPageSize + 1 + arguments.rows * own_pages(arguments);
    options.max_rows = std::max({options.max_rows, arguments.rows, arguments.slice});
    options.max_output_rows = arguments.rows;
    options.max_kept_logits = 0;
    const std::vector<int32_t> table = table_of(options.num_pages);
    Profile profile;
    if (arguments.profile) options.profile = &profile;
    const RandomWeights random(shape);
    const ModelSpec spec = testing::spec_of(random_shape(shape, context));
    NL_ASSIGN(auto executor, backend.create_executor(spec, random.weights, options, Progress()));
    NL_TRY(prefill(*executor, table, arguments));  // warms up
    NL_ASSIGN(const double prefill_seconds, prefill(*executor, table, arguments));
    NL_ASSIGN(const double seconds, median_step(*executor, table, arguments));
    const int32_t middle = kWarmUpSteps + arguments.steps / 2;
    const std::vector<int32_t> tokens(static_cast<size_t>(arguments.rows), 1);
    const Batch batch = arguments.rows == 1 ? batch_of(table, arguments.history + middle, 1, 1)
                                            : decode_batch(table, middle, tokens, arguments);
    const MatrixBytes matrices = matrix_bytes(random.weights, arguments.weights, options.dtype);
    const double bytes = total(step_traffic(spec, matrices, options, batch)).read;
    std::printf("%-14s %10.3f %10.1f %10.3f %10.2f %9.1f%% %16.0f\n", shape.name, seconds * 1e3,
                arguments.rows / seconds, bytes / 1e9, bytes / seconds / 1e12, 100 * bytes / seconds / kReadCeiling,
                arguments.history / prefill_seconds);
    for (const std::string& line : profile.lines()) std::printf("%s\n", line.c_str());
    return {};
}

bool parse_form(const std::string& name, WeightForm& form) {
    form = name == "fp8" ? WeightForm::fp8 : name == "int8" ? WeightForm::int8 : WeightForm::int4;
    if (name == "bf16") form = WeightForm::wide;
    return name == "bf16" || name == form_name(form);
}

bool parse(int argc, char** argv, Arguments& arguments) {
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string name = argv[i];
        if (name == "--device") {
            arguments.device = argv[i + 1];
        } else if (name == "--model") {
            arguments.model = argv[i + 1];
        } else if (name == "--weights") {
            if (!parse_form(argv[i + 1], arguments.weights)) return false;
        } else if (name == "--rows") {
            arguments.rows = std::atoi(argv[i + 1]);
        } else if (name == "--history") {
            arguments.history = std::atoi(argv[i + 1]);
        } else if (name == "--steps") {
            arguments.steps = std::atoi(argv[i + 1]);
        } else if (name == "--slice") {
            arguments.slice = std::atoi(argv[i + 1]);
        } else if (name == "--profile") {
            arguments.profile = std::string(argv[i + 1]) == "yes";
        } else {
            return false;
        }
    }
    const bool known = arguments.model.empty() || find_shape(arguments.model) != nullptr;
    return argc % 2 == 1 && known && arguments.history >= 0 && arguments.steps >= 1 && arguments.rows >= 1 &&
           arguments.slice >= 1 && (arguments.rows == 1 || arguments.history >= kPageSize);
}

Result<void> run(const Arguments& arguments) {
    NL_ASSIGN(const auto backend, open_device(arguments.device));
    std::printf("Decode, batch size %d, weights %s, %d tokens of history, median of %d steps, %s\n", arguments.rows,
                form_name(arguments.weights), arguments.history, arguments.steps, backend->device_name().c_str());
    std::printf("%-14s %10s %10s %10s %10s %10s %16s\n", "model", "ms/step", "tokens/s", "GB/step", "TB/s", "ceiling",
                "prefill tokens/s");
    for (const Shape& shape : kShapes) {
        if (arguments.model.empty() || arguments.model == shape.name) NL_TRY(measure(*backend, shape, arguments));
    }
    return {};
}

}  // namespace

int main(int argc, char** argv) {
    Arguments arguments;
    if (!parse(argc, argv, arguments)) {
        std::fprintf(stderr,
                     "usage: bench_decode [--device cpu|cuda|cuda:N] [--model NAME] [--weights FORM] [--rows N]\n"
                     "                    [--history TOKENS] [--steps N] [--slice TOKENS] [--profile yes]\n"
                     "       NAME is qwen3-0.6b, llama-3.2-1b, llama-3.1-8b or qwen3-30b-a3b\n"
                     "       FORM is bf16, fp8, int8 or int4\n");
        return 2;
    }
    const Result<void> result = run(arguments);
    if (!result.ok()) {
        std::fprintf(stderr, "bench_decode: %s\n", result.error().message.c_str());
        return 1;
    }
    return 0;
}
