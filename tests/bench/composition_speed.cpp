// What each composition of chunks costs in time: to the first token after a question, and in tokens a second of many
// conversations over the same chunks. Through the public C interface alone.
//
//   bench_composition (--folder FOLDER | --model NAME [--into FOLDER]) [--device cpu|cuda|cuda:N] [--chunks N]
//                     [--tokens N] [--question N] [--conversations N]
//
// --model          random weights of a known model's shape, as bench_whole_model has them.
// --chunks         chunks (8) of --tokens tokens each (4,096); --question tokens of each question (64).
// --conversations  that decode at the same time (64).
//
// "blended N %, first" is of chunks in an order that no conversation had before, "later" of another question to the
// same ones. Medians.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "bench/whole_model/model_folder.h"
#include "bench/whole_model/session.h"

namespace {

using namespace nanolith::bench;
using Clock = std::chrono::steady_clock;

constexpr int kTurns = 5;
constexpr int kDecodeSteps = 64;

double ms_since(Clock::time_point begin) {
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
}

class Bench {
  public:
    Bench(const Setup& setup, std::map<std::string, int64_t> sizes) : session_(setup), sizes_(std::move(sizes)) {
        for (int64_t i = 0; i < sizes_["--chunks"]; ++i) {
            texts_.push_back(random_tokens(sizes_["--tokens"]));
            chunks_.push_back(session_.prefill(texts_.back()));
        }
    }

    void run() {
        std::printf("%s: %lld chunks of %lld tokens, questions of %lld\n", session_.device().c_str(),
                    static_cast<long long>(sizes_["--chunks"]), static_cast<long long>(sizes_["--tokens"]),
                    static_cast<long long>(sizes_["--question"]));
        static_cast<void>(first_token_of_full());  // what is allocated at the first long prefill
        const double full = first_token_of_full();
        print("full prefill", full, full, 0);
        first_tokens("independent", NL_COMPOSE_INDEPENDENT, 0, full);
        for (const double share : {0.02, 0.05, 0.1}) {
            char name[40];
            std::snprintf(name, sizeof name, "blended %.0f %%", 100 * share);
            first_tokens(name, NL_COMPOSE_BLENDED, share, full);
        }
        const double independent = decode("independent", NL_COMPOSE_INDEPENDENT, 0, 0);
        for (const double share : {0.02, 0.1}) decode("blended", NL_COMPOSE_BLENDED, share, independent);
    }

  private:
    Tokens random_tokens(int64_t count) {
        const auto vocab = static_cast<int32_t>(session_.fact(NL_ENGINE_VOCAB_SIZE));
        std::uniform_int_distribution<int32_t> token(0, vocab - 1);
        Tokens tokens(static_cast<size_t>(count));
        for (int32_t& each : tokens) each = token(random_);
        return tokens;
    }

    Cache ask(const std::vector<const nl_chunk*>& chunks, int32_t composition, double share, const Tokens& question) {
        Cache cache = session_.composed(chunks, composition, share);
        must(nl_cache_extend(cache.get(), question.data(), question.size()), "extend");
        return cache;
    }

    double first_token_of_full() {
        Tokens all;
        for (const Tokens& text : texts_) all.insert(all.end(), text.begin(), text.end());
        const Tokens question = random_tokens(sizes_["--question"]);
        all.insert(all.end(), question.begin(), question.end());
        const auto begin = Clock::now();
        const Cache cache = session_.conversation();
        must(nl_cache_extend(cache.get(), all.data(), all.size()), "extend");
        return ms_since(begin);
    }

    // The chunks in an order that no call gave before.
    std::vector<const nl_chunk*> another_order() {
        std::vector<const nl_chunk*> order;
        for (const Chunk& chunk : chunks_) order.push_back(chunk.get());
        std::ranges::shuffle(order, random_);
        return order;
    }

    void first_tokens(const std::string& name, int32_t composition, double share, double full) {
        std::vector<double> first;
        std::vector<double> later;
        double recomputed[2] = {};
        for (int turn = 0; turn <= kTurns; ++turn) {
            const auto order = another_order();
            for (int which = 0; which < 2; ++which) {
                const Tokens question = random_tokens(sizes_["--question"]);
                const auto begin = Clock::now();
                const Cache cache = ask(order, composition, share, question);
                const double ms = ms_since(begin);
                if (turn == 0) continue;  // what shapes of steps cost when they are new
                (which == 0 ? first : later).push_back(ms);
                recomputed[which] += static_cast<double>(query(cache, NL_CACHE_TOKENS_BLENDED)) / kTurns;
            }
        }
        if (composition != NL_COMPOSE_BLENDED) return print(name, median(first), full, 0);
        print(name + ", first", median(first), full, recomputed[0]);
        print(name + ", later", median(later), full, recomputed[1]);
    }

    void print(const std::string& name, double ms, double full, double recomputed) {
        const auto tokens = static_cast<double>(sizes_["--chunks"] * sizes_["--tokens"]);
        std::printf("%-24s %10.2f ms to the first token %8.1f x %8.2f %% recomputed\n", name.c_str(), ms, full / ms,
                    100 * recomputed / tokens);
        std::fflush(stdout);
    }

    static int64_t query(const Cache& cache, int32_t fact) {
        int64_t value = 0;
        must(nl_cache_query(cache.get(), fact, &value), "query");
        return value;
    }

    // Tokens a second of conversations with questions of their own over the same chunks.
    double decode(const std::string& name, int32_t composition, double share, double independent) {
        const auto order = another_order();
        const int64_t free_before = session_.fact(NL_ENGINE_PAGES_FREE);
        std::vector<Cache> caches;
        std::vector<nl_cache*> handles;
        for (int64_t i = 0; i < sizes_["--conversations"]; ++i) {
            caches.push_back(ask(order, composition, share, random_tokens(sizes_["--question"])));
            handles.push_back(caches.back().get());
        }
        std::vector<int32_t> tokens(handles.size());
        const auto step = [&] { must(nl_decode_step(handles.data(), handles.size(), tokens.data()), "decode"); };
        for (int i = 0; i < 8; ++i) step();
        const auto begin = Clock::now();
        for (int i = 0; i < kDecodeSteps; ++i) step();
        const double rate = 1e3 * kDecodeSteps * static_cast<double>(handles.size()) / ms_since(begin);
        const int64_t taken = free_before - session_.fact(NL_ENGINE_PAGES_FREE);
        const auto chunk_pages = static_cast<double>(sizes_["--chunks"] * sizes_["--tokens"]) /
                                 static_cast<double>(session_.fact(NL_ENGINE_PAGE_SIZE));
        std::printf(
            "%-12s %4.0f %% %4zu conversations %10.0f tokens/s %7.1f %% of independent's, each %6.2f %% of the "
            "chunks' pages of its own\n",
            name.c_str(), 100 * share, handles.size(), rate, independent > 0 ? 100 * rate / independent : 100.0,
            100 * static_cast<double>(taken) / static_cast<double>(handles.size()) / chunk_pages);
        std::fflush(stdout);
        return rate;
    }

    Session session_;
    std::map<std::string, int64_t> sizes_;
    std::mt19937 random_{1};
    std::vector<Tokens> texts_;
    std::vector<Chunk> chunks_;
};

}  // namespace

int main(int argc, char** argv) {
    Setup setup{"", "cuda", 0};
    std::string model;
    std::string into;
    std::map<std::string, int64_t> sizes = {
        {"--chunks", 8}, {"--tokens", 4096}, {"--question", 64}, {"--conversations", 64}};
    bool good = argc % 2 == 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string name = argv[i];
        std::map<std::string, std::string*> texts = {
            {"--folder", &setup.folder}, {"--model", &model}, {"--into", &into}, {"--device", &setup.device}};
        if (texts.contains(name)) {
            *texts[name] = argv[i + 1];
        } else if (sizes.contains(name)) {
            sizes[name] = std::atoll(argv[i + 1]);
        } else {
            good = false;
        }
    }
    if (!good || setup.folder.empty() == model.empty() || (!model.empty() && find_shape(model) == nullptr)) {
        std::fprintf(stderr,
                     "usage: bench_composition (--folder FOLDER | --model NAME [--into FOLDER]) [--device NAME]\n"
                     "                         [--chunks N] [--tokens N] [--question N] [--conversations N]\n");
        return EXIT_FAILURE;
    }
    if (!model.empty()) {
        const auto folder = into.empty() ? std::filesystem::temp_directory_path() / model : std::filesystem::path(into);
        const std::string failure = write_model_folder(*find_shape(model), folder);
        if (!failure.empty()) {
            std::fprintf(stderr, "bench_composition: %s\n", failure.c_str());
            return EXIT_FAILURE;
        }
        setup.folder = folder.string();
    }
    Bench(setup, std::move(sizes)).run();
    return EXIT_SUCCESS;
}
