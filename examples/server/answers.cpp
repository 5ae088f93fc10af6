#include "answers.h"

#include <algorithm>
#include <array>
#include <thread>

#include "api_error.h"

namespace server {
namespace {

constexpr size_t kTokensAtATime = 256;
constexpr size_t kBytesAtATime = 8192;
constexpr int64_t kWaitMs = 100;         // before looking whether the client is there
constexpr int64_t kWaitOneOfManyMs = 5;  // for one answer while others may have something
constexpr std::chrono::milliseconds kLookEvery{200};
// Few answers are sent token by token. With many, each waits so long between two reads that all of them together make
// at most some 20,000 a second: tokens are sent several at a time then, which takes less of the processor.
constexpr int64_t kUnpacedAnswers = 16;
constexpr std::chrono::microseconds kPaceForEach{50};
constexpr std::chrono::milliseconds kMostPace{50};

double seconds_between(Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
}

}  // namespace

Answers::Answers(Job& job, const Model& model, Tenant& tenant, Metrics& metrics, Clock::time_point arrival)
    : metrics_(&metrics),
      model_(&model),
      logprobs_(job.settings.logprobs),
      top_logprobs_(static_cast<size_t>(job.settings.top_logprobs)),
      arrival_(arrival) {
    if (logprobs_) {
        must(nl_options_set_int(job.settings.generation.get(), NL_OPTION_LOGPROBS, 1), "logprobs");
        must(nl_options_set_int(job.settings.generation.get(), NL_OPTION_TOP_LOGPROBS, job.settings.top_logprobs));
    }
    if (!job.tool_names.empty()) mark_token_ = model.find("[TOOL_CALLS]");
    for (Prompt& prompt : job.prompts) start(prompt, job, tenant);
    metrics_->waiting.fetch_add(1);
    metrics_->prompt_tokens.fetch_add(static_cast<uint64_t>(prompt_tokens_));
}

Answers::~Answers() {
    (has_first_ ? metrics_->running : metrics_->waiting).fetch_sub(1);
}

void Answers::start(Prompt& prompt, Job& job, Tenant& tenant) {
    prompt_tokens_ += static_cast<int64_t>(prompt.num_tokens());
    Settings& settings = job.settings;
    const std::vector<Chunk> chunks = prefill(prompt, settings, tenant);
    std::vector<const nl_chunk*> plain;
    plain.reserve(chunks.size());
    for (const Chunk& chunk : chunks) plain.push_back(chunk.get());
    const Options options = made<Options>([](nl_options** out) { return nl_options_create(NL_OPTIONS_CACHE, out); });
    must(nl_options_set_int(options.get(), NL_OPTION_COMPOSITION, settings.composition));
    Cache cache = made<Cache>(
        [&](nl_cache** out) { return nl_cache_create(tenant.engine, options.get(), plain.data(), plain.size(), out); });
    first_of_prompt_.push_back(answers_.size());
    // Several answers are forks of one cache that has all of the prompt but its last token.
    const size_t before = settings.n > 1 ? prompt.tail.size() - 1 : 0;
    if (before > 0) must(nl_cache_extend(cache.get(), prompt.tail.data(), before));
    std::vector<Cache> forks;
    for (int64_t i = 1; i < settings.n; ++i)
        forks.push_back(made<Cache>([&](nl_cache** out) { return nl_cache_fork(cache.get(), out); }));
    start_one(std::move(cache), prompt.tail, before, settings);
    for (Cache& fork : forks) start_one(std::move(fork), prompt.tail, before, settings);
}

std::vector<Chunk> Answers::prefill(const Prompt& prompt, const Settings& settings, Tenant& tenant) {
    std::vector<Chunk> chunks;
    std::vector<const nl_chunk*> before;  // exact composition wants each as computed behind those in front of it
    for (const Part& part : prompt.parts) {
        Chunk chunk = made<Chunk>([&](nl_chunk** out) {
            return nl_chunk_prefill(tenant.engine, part.tokens.data(), part.tokens.size(), part.level, before.data(),
                                    before.size(), out);
        });
        const int64_t computed = fact(chunk.get(), NL_CHUNK_TOKENS_COMPUTED);
        chunk_tokens_computed_ += computed;
        if (part.document != nullptr) {
            tenant.documents.pin_if_wanted(part.document, chunk.get());
            if (first_of_prompt_.empty())
                documents_.push_back({part.document->id, static_cast<int64_t>(part.tokens.size()), computed,
                                      fact(chunk.get(), NL_CHUNK_ORIGIN)});
        }
        if (settings.composition == NL_COMPOSE_EXACT) before.push_back(chunk.get());
        chunks.push_back(std::move(chunk));
    }
    return chunks;
}

void Answers::start_one(Cache cache, const std::vector<int32_t>& tail, size_t from, Settings& settings) {
    must(nl_options_set_int(settings.sampling.get(), NL_OPTION_SEED, settings.seed));
    settings.seed = static_cast<int64_t>(static_cast<uint64_t>(settings.seed) + 1);
    must(nl_cache_set_sampling(cache.get(), settings.sampling.get()), settings.biased ? "logit_bias" : "");
    Answer answer;
    answer.generation = made<Generation>(
        [&](nl_generation** out) {
            return nl_generation_start(cache.get(), tail.data() + from, tail.size() - from, settings.generation.get(),
                                       out);
        },
        settings.constrained_by);
    answer.cache = std::move(cache);
    answers_.push_back(std::move(answer));
}

bool Answers::read(const std::function<void(const Piece&)>& take, const std::function<bool()>& flush,
                   const std::function<bool()>& is_there) {
    size_t open = answers_.size();
    Clock::time_point looked = Clock::now();
    while (open > 0) {
        bool any = false;
        int64_t wait = open > 1 ? kWaitOneOfManyMs : kWaitMs;
        for (size_t i = 0; i < answers_.size(); ++i) {
            if (answers_[i].ended) continue;
            const bool got = poll(i, any ? 0 : wait, take) == Got::something;
            any = any || got;
            wait = 0;  // of those that have nothing, the first one waits for all
            if (answers_[i].ended) --open;
        }
        if (any && !flush()) return false;
        if (const auto now = Clock::now(); now - looked >= kLookEvery) {
            looked = now;
            if (!is_there()) return false;
        }
        if (any && open > 0) pace();
    }
    return true;
}

void Answers::pace() const {
    const int64_t running = metrics_->running.load(std::memory_order_relaxed);
    if (running <= kUnpacedAnswers) return;
    std::this_thread::sleep_for(std::min<Clock::duration>(running * kPaceForEach, kMostPace));
}

Answers::Got Answers::poll(size_t index, int64_t timeout_ms, const std::function<void(const Piece&)>& take) {
    Answer& answer = answers_[index];
    std::array<int32_t, kTokensAtATime> tokens;  // NOLINT(cppcoreguidelines-pro-type-member-init): written by the call
    std::array<char, kBytesAtATime> text;        // NOLINT(cppcoreguidelines-pro-type-member-init): likewise
    size_t num_tokens = 0;
    size_t length = 0;
    Piece piece;
    const nl_status status = nl_generation_next(answer.generation.get(), timeout_ms, tokens.data(), tokens.size(),
                                                &num_tokens, text.data(), text.size(), &length, &piece.end);
    if (status == NL_ERROR_TIMEOUT) return Got::nothing;
    must(status);
    if (num_tokens > 0) count_tokens(answer, num_tokens);
    if (piece.end == NL_END_CANCELLED) throw stopping();
    piece.index = index;
    if (logprobs_ && num_tokens > 0)
        piece.logprobs = read_logprobs(answer.generation.get(), tokens.data(), num_tokens, top_logprobs_, *model_);
    piece.text = {text.data(), length};
    piece.marked = mark_token_ >= 0 && std::count(tokens.begin(), tokens.begin() + num_tokens, mark_token_) > 0;
    answer.ended = piece.end != NL_END_NONE;
    if (answer.ended) metrics_->total.add(seconds_between(arrival_, Clock::now()));
    take(piece);
    return Got::something;
}

void Answers::count_tokens(Answer& answer, size_t count) {
    const Clock::time_point now = Clock::now();
    metrics_->answer_tokens.fetch_add(count, std::memory_order_relaxed);
    if (answer.started) {
        metrics_->token_gap.add(seconds_between(answer.last, now) / static_cast<double>(count), count);
    } else {
        answer.started = true;
        metrics_->first_token.add(seconds_between(arrival_, now));
    }
    answer.last = now;
    if (has_first_) return;
    has_first_ = true;
    first_token_seconds_ = seconds_between(arrival_, now);
    metrics_->waiting.fetch_sub(1);
    metrics_->running.fetch_add(1);
    metrics_->cached_tokens.fetch_add(static_cast<uint64_t>(usage().cached_tokens), std::memory_order_relaxed);
}

Usage Answers::usage() const {
    Usage usage;
    usage.prompt_tokens = prompt_tokens_;
    int64_t reused = 0;
    for (const size_t index : first_of_prompt_) reused += fact(answers_[index].cache.get(), NL_CACHE_TOKENS_REUSED);
    usage.cached_tokens = std::clamp<int64_t>(reused - chunk_tokens_computed_, 0, prompt_tokens_);
    for (const Answer& answer : answers_) usage.answer_tokens += fact(answer.generation.get(), NL_GENERATION_TOKENS);
    return usage;
}

Json Answers::report() const {
    constexpr std::array kOrigins = {"computed", "device", "host", "file", "server"};
    const nl_cache* const cache = answers_.front().cache.get();
    const Usage used = usage();
    Json documents = Json::array();
    for (const DocumentUse& use : documents_)
        documents.push_back({{"id", use.id.empty() ? Json(nullptr) : Json(use.id)},
                             {"tokens", use.tokens},
                             {"computed", use.computed},
                             {"origin", kOrigins.at(static_cast<size_t>(use.origin))}});
    const auto millis = [](double seconds) { return static_cast<double>(static_cast<int64_t>(seconds * 1e5)) / 100; };
    return {{"first_token_ms", millis(first_token_seconds_)},
            {"total_ms", millis(seconds_between(arrival_, Clock::now()))},
            {"tokens_reused", used.cached_tokens},
            {"tokens_computed", used.prompt_tokens - used.cached_tokens},
            {"tokens_blended", fact(cache, NL_CACHE_TOKENS_BLENDED)},
            {"composition", composition_name(fact(cache, NL_CACHE_COMPOSITION))},
            {"documents", documents}};
}

}  // namespace server
