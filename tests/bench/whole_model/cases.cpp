#include "bench/whole_model/cases.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <utility>

namespace nanolith::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTurns = 3;        // of which the median counts
constexpr int32_t kPrompt = 32;  // a conversation's own tokens before what it draws
constexpr int32_t kWindow = 32;  // batch1: tokens whose mean time is one sample
constexpr int32_t kWarmUp = 16;  // batch1: tokens that do not count

double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const size_t half = values.size() / 2;
    return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

template <typename Once>
double median_of_turns(const Once& once) {
    std::vector<double> seconds;
    for (int turn = 0; turn < kTurns; ++turn) seconds.push_back(once());
    return median(std::move(seconds));
}

// With commas between thousands.
std::string count_text(int64_t count) {
    const std::string digits = std::to_string(count);
    std::string text;
    for (size_t i = 0; i < digits.size(); ++i) {
        if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
        text += digits[i];
    }
    return text;
}

// Lengths of requests, from a generator so plain that peers' scripts draw the same ones: Knuth's MMIX (The Art of
// Computer Programming 2, 3.3.4), of whose 64 bits the upper 31 count.
class Lengths {
  public:
    explicit Lengths(uint64_t seed) : state_(seed) {}
    int32_t draw(int32_t least, int32_t most) {
        state_ = state_ * 6364136223846793005U + 1442695040888963407U;
        return least + static_cast<int32_t>((state_ >> 33U) % static_cast<uint64_t>(most - least + 1));
    }

  private:
    uint64_t state_;
};

bool is_gpu(const std::string& device) {
    return device.rfind("cuda", 0) == 0;
}

}  // namespace

const Workload kGpuWorkload = {
    .contexts = {128, 4096, 32768},
    .tokens = 256,
    .chunk = 8192,
    .conversations = {8, 32, 64, 128, 256},
    .shared_tokens = 128,
    .prefill = 8192,
    .requests = 256,
    .least = 100,
    .most = 1024,
    .rows = 256,
};
const Workload kCpuWorkload = {
    .contexts = {512},
    .tokens = 32,
    .chunk = 2048,
    .conversations = {8},
    .shared_tokens = 32,
    .prefill = 512,
    .requests = 8,
    .least = 32,
    .most = 128,
    .rows = 8,
};

Cases::Cases(Setup setup, const Ceilings& ceilings, uint32_t seed)
    : setup_(std::move(setup)),
      ceilings_(ceilings),
      sizes_(read_sizes(setup_.folder)),
      work_(is_gpu(setup_.device) ? kGpuWorkload : kCpuWorkload),
      seed_(seed),
      random_(seed) {}

void Cases::run(const std::string& name) {
    if (name == "load") load();
    if (name == "batch1") batch1();
    if (name == "shared") shared();
    if (name == "random") random();
    if (name == "prefill") prefill();
    if (name == "sampling") sampling();
}

void Cases::add(Row row) {
    std::fprintf(stderr, "%s: %.4g %s\n", row.key.c_str(), row.value, row.unit.c_str());
    rows_.push_back(std::move(row));
}

Session& Cases::session() {
    if (!session_) session_ = std::make_unique<Session>(setup_);
    return *session_;
}

Tokens Cases::random_tokens(int32_t count) {
    std::uniform_int_distribution<int32_t> token(0, static_cast<int32_t>(sizes_.vocab) - 1);
    Tokens tokens(static_cast<size_t>(count));
    for (int32_t& each : tokens) each = token(random_);
    return tokens;
}

// ---- Seconds of nl_engine_create ------------------------------------------------------------------------

double Cases::seconds_to_create() {
    session_.reset();
    const auto begin = Clock::now();
    session();
    return seconds_since(begin);
}

// The first engine of a process on a GPU also makes CUDA's context and loads kernels.
void Cases::load() {
    double floor = 0;
    if (ceilings_.load_bytes_per_second > 0) floor = sizes_.file_bytes / ceilings_.load_bytes_per_second;
    if (!session_) add({"load/first", "loading, a process' first engine", "s", seconds_to_create(), floor});
    add({"load/later", "loading, later engines", "s", median_of_turns([&] { return seconds_to_create(); }), floor});
}

// ---- One conversation -----------------------------------------------------------------------------------

// Seconds a token: the median over windows of tokens, since several may come at once.
double Cases::batch1_at(int32_t context) {
    const Cache cache = session().conversation();
    const Generation generation = session().start(cache.get(), random_tokens(context), 1 + kWarmUp + work_.tokens);
    for (int32_t i = 0; i < 1 + kWarmUp; ++i) next_token(generation.get());
    std::vector<double> seconds;
    for (int32_t drawn = 0; drawn < work_.tokens; drawn += kWindow) {
        const auto begin = Clock::now();
        for (int32_t i = 0; i < kWindow; ++i) next_token(generation.get());
        seconds.push_back(seconds_since(begin) / kWindow);
    }
    return median(std::move(seconds));
}

void Cases::batch1() {
    const int64_t most = session().fact(NL_ENGINE_MAX_CONTEXT) - kWarmUp - work_.tokens - 1;
    for (const int32_t context : work_.contexts) {
        if (context > most) continue;
        const double middle = context + kWarmUp + work_.tokens / 2.0;
        add({"batch1/" + std::to_string(context), "one conversation, context " + count_text(context), "ms a token",
             1e3 * batch1_at(context), 1e3 * floor_of(sizes_, ceilings_, decode_rows(1, 0, middle))});
    }
}

// ---- Conversations behind one chunk ---------------------------------------------------------------------

Cases::Caches Cases::conversations(int32_t count, const nl_chunk* chunk) {
    Caches caches;
    std::vector<Generation> generations;
    for (int32_t i = 0; i < count; ++i) {
        caches.push_back(session().conversation(chunk));
        generations.push_back(session().start(caches.back().get(), random_tokens(kPrompt), 1));
    }
    for (const Generation& generation : generations) finish(generation.get());
    return caches;
}

double Cases::seconds_to_draw(const Caches& caches, int32_t count) {
    int64_t tokens = 0;
    must(nl_cache_query(caches.front().get(), NL_CACHE_TOKENS, &tokens), "query");
    const auto begin = Clock::now();
    std::vector<Generation> generations;
    for (const Cache& cache : caches) generations.push_back(session().start(cache.get(), {}, count));
    for (const Generation& generation : generations) finish(generation.get());
    const double seconds = seconds_since(begin);
    for (const Cache& cache : caches) must(nl_cache_truncate(cache.get(), static_cast<size_t>(tokens)), "truncate");
    return seconds;
}

void Cases::shared_by(const nl_chunk* chunk, int32_t count) {
    const Caches caches = conversations(count, chunk);
    const int32_t tokens = work_.shared_tokens;
    const double seconds = median_of_turns([&] { return seconds_to_draw(caches, tokens); });
    const double floor = floor_of(sizes_, ceilings_, decode_rows(count, work_.chunk, kPrompt + tokens / 2.0));
    add({"shared/" + std::to_string(count),
         count_text(count) + " conversations behind a chunk of " + count_text(work_.chunk), "tokens/s",
         count * tokens / seconds, floor > 0 ? count / floor : 0});
}

void Cases::shared() {
    const Chunk chunk = session().prefill(random_tokens(work_.chunk));
    for (const int32_t count : work_.conversations) shared_by(chunk.get(), count);
}

// ---- Many unlike requests -------------------------------------------------------------------------------

// All prompts as one prefill, then steps of those that still draw.
double Cases::random_floor(const std::vector<int32_t>& in, const std::vector<int32_t>& out) const {
    const double prompts = std::accumulate(in.begin(), in.end(), 0.0);
    StepRows prefill = prefill_rows(prompts);
    prefill.own = prompts / static_cast<double>(in.size()) / 2;
    double seconds = floor_of(sizes_, ceilings_, prefill);
    for (int32_t step = 0; step < work_.most; ++step) {
        double rows = 0;
        double context = 0;
        for (size_t i = 0; i < in.size(); ++i) {
            if (out[i] <= step) continue;
            rows += 1;
            context += in[i] + step;
        }
        if (rows > 0) seconds += floor_of(sizes_, ceilings_, decode_rows(rows, 0, context / rows));
    }
    return seconds;
}

void Cases::random() {
    Lengths lengths(seed_);
    std::vector<int32_t> in;
    std::vector<int32_t> out;
    std::vector<Tokens> prompts;
    for (int32_t i = 0; i < work_.requests; ++i) {
        in.push_back(lengths.draw(work_.least, work_.most));
        out.push_back(lengths.draw(work_.least, work_.most));
        prompts.push_back(random_tokens(in.back()));
    }
    const double drawn = std::accumulate(out.begin(), out.end(), 0.0);
    Session& engine = session();
    const auto begin = Clock::now();
    Caches caches;
    std::vector<Generation> generations;
    for (size_t i = 0; i < prompts.size(); ++i) {
        caches.push_back(engine.conversation());
        generations.push_back(engine.start(caches.back().get(), prompts[i], out[i]));
    }
    for (const Generation& generation : generations) finish(generation.get());
    const double seconds = seconds_since(begin);
    const double floor = random_floor(in, out);
    add({"random/" + std::to_string(work_.requests),
         count_text(work_.requests) + " requests, " + count_text(work_.least) + " to " + count_text(work_.most) +
             " tokens in and out",
         "tokens/s", drawn / seconds, floor > 0 ? drawn / floor : 0});
}

// ---- Prefill --------------------------------------------------------------------------------------------

void Cases::prefill() {
    const auto once = [&] {
        const Tokens tokens = random_tokens(work_.prefill);
        const auto begin = Clock::now();
        const Chunk chunk = session().prefill(tokens);
        return seconds_since(begin);
    };
    once();  // warms up
    const double seconds = median_of_turns(once);
    const double floor = floor_of(sizes_, ceilings_, prefill_rows(work_.prefill));
    add({"prefill/" + std::to_string(work_.prefill), "prefill of " + count_text(work_.prefill) + " tokens", "tokens/s",
         work_.prefill / seconds, floor > 0 ? work_.prefill / floor : 0});
}

// ---- Drawing --------------------------------------------------------------------------------------------

namespace {

enum class Choice : uint8_t { greedy, filtered, all };

Options sampling_options(Choice choice) {
    Options options = make_options(NL_OPTIONS_SAMPLING);
    const auto set = [&](int32_t key, double value) {
        must(nl_options_set_float(options.get(), key, value), "a sampling option");
    };
    if (choice == Choice::greedy) return options;
    set(NL_OPTION_TEMPERATURE, 0.8);
    must(nl_options_set_int(options.get(), NL_OPTION_TOP_K, 50), "top k");
    set(NL_OPTION_TOP_P, 0.9);
    if (choice == Choice::filtered) return options;
    must(nl_options_reset(options.get(), NL_OPTION_TOP_K), "top k");  // with which the others have little to look at
    set(NL_OPTION_MIN_P, 0.01);
    set(NL_OPTION_TYPICAL_P, 0.95);
    set(NL_OPTION_XTC_PROBABILITY, 0.5);
    set(NL_OPTION_MIROSTAT_TAU, 5);
    set(NL_OPTION_REPETITION_PENALTY, 1.1);
    set(NL_OPTION_FREQUENCY_PENALTY, 0.1);
    set(NL_OPTION_DRY_MULTIPLIER, 0.8);
    return options;
}

}  // namespace

// Steps that draw greedily beside steps that draw with top-k and top-p, and with everything but top-k, in turns over
// the same contexts.
void Cases::sampling() {
    const Caches caches = conversations(work_.rows, nullptr);
    const auto ms_a_step = [&](Choice choice) {
        const Options options = sampling_options(choice);
        for (const Cache& cache : caches) must(nl_cache_set_sampling(cache.get(), options.get()), "sampling");
        return 1e3 * seconds_to_draw(caches, work_.shared_tokens) / work_.shared_tokens;
    };
    std::vector<double> greedy;
    std::vector<double> filtered;
    std::vector<double> all;
    for (int turn = 0; turn < kTurns; ++turn) {
        greedy.push_back(ms_a_step(Choice::greedy));
        filtered.push_back(ms_a_step(Choice::filtered));
        all.push_back(ms_a_step(Choice::all));
    }
    const double middle = kPrompt + work_.shared_tokens / 2.0;
    const double floor = 1e3 * floor_of(sizes_, ceilings_, decode_rows(work_.rows, 0, middle));
    const std::string rows = count_text(work_.rows) + " conversations, ";
    const double least = median(greedy);
    const double some = median(filtered);
    const double most = median(all);
    add({"sampling/greedy", rows + "greedy", "ms a step", least, floor});
    add({"sampling/filtered", rows + "top-k 50 and top-p 0.9", "ms a step", some, floor});
    add({"sampling/share", "what top-k and top-p add to a step", "%", 100 * (some - least) / least, 0});
    add({"sampling/all", rows + "all filters but top-k, and penalties", "ms a step", most, floor});
    add({"sampling/all-share", "what all of these add to a step", "%", 100 * (most - least) / least, 0});
}

}  // namespace nanolith::bench
