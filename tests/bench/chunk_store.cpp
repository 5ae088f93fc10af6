// The chunk store through the public C interface: what its operations cost, and how much sooner the first token comes
// where chunks are found in one of its tiers than where they are computed.
//
//   bench_chunk_store --case operations|listing|tiers [--model NAME [--into FOLDER]] [--device cpu|cuda|cuda:N]
//                     [--chunks N] [--tokens N] [--store FOLDER] [--server ADDRESS]
//
// operations  microseconds of a hit of a chunk of 4,096 tokens among 100,000 chunks, of a cache from 8 chunks, of a
// fork, and of freeing each; a small model, since nothing is computed in them. Medians of 1,000.
// listing     seconds that an engine takes longer to create with a folder of 10,000 chunk files.
// tiers       milliseconds from prefilling --chunks chunks (8) of --tokens tokens (4,096) each to the first token of a
//             conversation behind all of them and a query of 64 tokens, where the chunks are computed one by one, in
//             the device's pages, in the host's memory, in files of the page cache, and on the store's server where
//             --server names one (redis:// or unix:); and where the whole context is computed as one. The engine is
//             made with pages for one set of the chunks, so that another set pushes it down.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <thread>

#include "bench/whole_model/model_folder.h"
#include "bench/whole_model/session.h"

namespace {

using namespace nanolith::bench;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Engine = std::unique_ptr<nl_engine, Free<nl_engine, nl_engine_free>>;

constexpr int kQuery = 64;
constexpr int64_t kPageSize = 64;
const Shape kSmall{"small", 1, 64, 1, 1, 64, 64, 1024, false, false};

struct Arguments {
    std::string which, model = "llama-3.1-8b", into, device = "cuda", store, server;
    int chunks = 8;
    int tokens = 4096;
};

double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

Tokens random_tokens(int count, uint32_t seed, int32_t vocab) {
    std::mt19937 random(seed);
    Tokens tokens(static_cast<size_t>(count));
    for (int32_t& token : tokens) token = static_cast<int32_t>(random() % static_cast<uint32_t>(vocab));
    return tokens;
}

struct EngineSettings {
    int64_t pages = 0;
    int64_t page_size = kPageSize;
    int64_t host_bytes = 0;
    int64_t max_context = 0;
    std::string store = {};
    std::string server = {};
};

Engine make_engine(const std::string& folder, const std::string& device, const EngineSettings& settings) {
    const Options options = make_options(NL_OPTIONS_ENGINE);
    must(nl_options_set_text(options.get(), NL_OPTION_DEVICE, device.data(), device.size()), "device");
    must(nl_options_set_int(options.get(), NL_OPTION_NUM_PAGES, settings.pages), "num_pages");
    must(nl_options_set_int(options.get(), NL_OPTION_PAGE_SIZE, settings.page_size), "page_size");
    must(nl_options_set_int(options.get(), NL_OPTION_HOST_BYTES, settings.host_bytes), "host_bytes");
    must(nl_options_set_int(options.get(), NL_OPTION_MAX_CONTEXT, settings.max_context), "max_context");
    must(nl_options_set_text(options.get(), NL_OPTION_STORE_FOLDER, settings.store.data(), settings.store.size()),
         "store_folder");
    must(nl_options_set_text(options.get(), NL_OPTION_STORE_SERVER, settings.server.data(), settings.server.size()),
         "store_server");
    must(nl_options_set_int(options.get(), NL_OPTION_STORE_DEADLINE_MS, 60000), "store_deadline_ms");
    nl_engine* engine = nullptr;
    must(nl_engine_create(folder.data(), folder.size(), options.get(), &engine), "nl_engine_create");
    return Engine(engine);
}

int64_t fact(const nl_engine* engine, int32_t which) {
    int64_t value = 0;
    must(nl_engine_query(engine, which, &value), "nl_engine_query");
    return value;
}

Chunk prefill(nl_engine* engine, const Tokens& tokens) {
    nl_chunk* chunk = nullptr;
    must(nl_chunk_prefill(engine, tokens.data(), tokens.size(), NL_LEVEL_CONTEXT, nullptr, 0, &chunk),
         "nl_chunk_prefill");
    return Chunk(chunk);
}

Cache compose(nl_engine* engine, const std::vector<Chunk>& chunks) {
    const Options options = make_options(NL_OPTIONS_CACHE);
    must(nl_options_set_int(options.get(), NL_OPTION_COMPOSITION, NL_COMPOSE_INDEPENDENT), "composition");
    std::vector<const nl_chunk*> list;
    for (const Chunk& chunk : chunks) list.push_back(chunk.get());
    nl_cache* cache = nullptr;
    must(nl_cache_create(engine, options.get(), list.data(), list.size(), &cache), "nl_cache_create");
    return Cache(cache);
}

std::string write_folder(const Shape& shape, const std::string& into) {
    const std::string folder = into.empty() ? (fs::temp_directory_path() / shape.name).string() : into;
    if (const std::string wrong = write_model_folder(shape, folder); !wrong.empty()) {
        std::fprintf(stderr, "%s\n", wrong.c_str());
        std::exit(1);
    }
    return folder;
}

// ---- What operations cost

double median_us(int count, const std::function<void()>& work) {
    std::vector<double> times;
    for (int i = 0; i < count; ++i) {
        const auto begin = Clock::now();
        work();
        times.push_back(seconds_since(begin) * 1e6);
    }
    std::nth_element(times.begin(), times.begin() + count / 2, times.end());
    return times[static_cast<size_t>(count / 2)];
}

void operations(const Arguments& arguments) {
    constexpr int kMany = 100000;
    constexpr int kTimes = 1000;
    const std::string folder = write_folder(kSmall, arguments.into);
    const Engine engine =
        make_engine(folder, arguments.device, {.pages = kMany + 4096, .page_size = 16, .max_context = 65536});
    for (int i = 0; i < kMany; ++i) prefill(engine.get(), {1 + i / 1000, 1 + i % 1000});
    const Tokens tokens = random_tokens(4096, 1, kSmall.vocab);
    std::vector<Chunk> chunks;
    for (uint32_t i = 0; i < 8; ++i) chunks.push_back(prefill(engine.get(), random_tokens(4096, i + 1, kSmall.vocab)));
    std::printf("chunks in the store: %lld\n", static_cast<long long>(fact(engine.get(), NL_ENGINE_CHUNKS)));
    nl_chunk* chunk = nullptr;
    const auto hit = median_us(kTimes, [&] {
        nl_chunk_prefill(engine.get(), tokens.data(), tokens.size(), NL_LEVEL_CONTEXT, nullptr, 0, &chunk);
        nl_chunk_free(chunk);
    });
    std::printf("hit of a chunk of 4,096 tokens, and free   %7.2f us\n", hit);
    std::printf("cache from 8 chunks, and free              %7.2f us\n",
                median_us(kTimes, [&] { compose(engine.get(), chunks); }));
    const Cache cache = compose(engine.get(), chunks);
    must(nl_cache_extend(cache.get(), tokens.data(), 64), "nl_cache_extend");
    nl_cache* fork = nullptr;
    std::printf("fork, and free                             %7.2f us\n", median_us(kTimes, [&] {
                    nl_cache_fork(cache.get(), &fork);
                    nl_cache_free(fork);
                }));
}

// ---- Listing a folder

void listing(const Arguments& arguments) {
    constexpr int kFiles = 10000;
    const std::string folder = write_folder(kSmall, arguments.into);
    const std::string store = arguments.store.empty() ? folder + "-store" : arguments.store;
    fs::remove_all(store);
    const EngineSettings plain{.pages = 512, .page_size = 16};
    EngineSettings kept = plain;
    kept.store = store;
    // One file that the library wrote, under ten thousand names: opening reads none of them.
    {
        const Engine engine = make_engine(folder, arguments.device, kept);
        prefill(engine.get(), {1, 2, 3});
    }
    fs::path first;
    for (const auto& entry : fs::directory_iterator(store))
        if (entry.path().extension() == ".chunk") first = entry.path();
    for (int i = 1; i < kFiles; ++i) {
        char name[80];
        std::snprintf(name, sizeof name, "%064x.chunk", i);
        fs::copy_file(first, fs::path(store) / name);
    }
    const auto seconds = [&](const EngineSettings& settings) {
        std::vector<double> times;
        for (int i = 0; i < 9; ++i) {
            const auto begin = Clock::now();
            const Engine engine = make_engine(folder, arguments.device, settings);
            times.push_back(seconds_since(begin));
            if (!settings.store.empty() && fact(engine.get(), NL_ENGINE_FILE_CHUNKS) != kFiles) std::abort();
        }
        std::sort(times.begin(), times.end());
        return times[4];
    };
    const double without = seconds(plain);
    const double with = seconds(kept);
    std::printf("engine without a folder %.4f s, with one of %d files %.4f s: %.4f s more\n", without, kFiles, with,
                with - without);
    fs::remove_all(store);
}

// ---- Tiers

void tiers(const Arguments& arguments) {
    const Shape* const found = find_shape(arguments.model);
    if (found == nullptr) {
        std::fprintf(stderr, "--model %s is not known\n", arguments.model.c_str());
        std::exit(1);
    }
    const Shape& shape = *found;
    const std::string folder = write_folder(shape, arguments.into);
    const std::string store = arguments.store.empty() ? folder + "-store" : arguments.store;
    fs::remove_all(store);
    const int64_t context = int64_t{arguments.chunks} * arguments.tokens + kQuery + 64;
    const int64_t pages = context / kPageSize + 8;
    int64_t page_bytes = 0;
    {
        const Engine engine = make_engine(folder, arguments.device, {.pages = 16});
        page_bytes = fact(engine.get(), NL_ENGINE_PAGE_BYTES);
    }
    const auto chunk_tokens = [&](int set, int i) {
        return random_tokens(arguments.tokens, static_cast<uint32_t>(1000 * set + i), shape.vocab);
    };
    const Tokens query = random_tokens(kQuery, 7, shape.vocab);
    int32_t answer = -1;  // the first token behind the first set of chunks: the same however these come
    const auto first_token = [&](nl_engine* engine, int set) {
        std::vector<Tokens> wanted;
        for (int i = 0; i < arguments.chunks; ++i) wanted.push_back(chunk_tokens(set, i));
        const auto begin = Clock::now();
        std::vector<Chunk> chunks;
        for (const Tokens& tokens : wanted) chunks.push_back(prefill(engine, tokens));
        const Cache cache = compose(engine, chunks);
        must(nl_cache_extend(cache.get(), query.data(), query.size()), "nl_cache_extend");
        nl_cache* const one = cache.get();
        int32_t token = -1;
        must(nl_decode_step(&one, 1, &token), "nl_decode_step");
        const double seconds = seconds_since(begin);
        if (set == 0 && answer < 0) answer = token;
        if (set == 0 && token != answer) std::printf("ANOTHER TOKEN: %d for %d\n", token, answer);
        return seconds;
    };
    const auto full = [&](nl_engine* engine) {
        Tokens all;
        for (int i = 0; i < arguments.chunks; ++i)
            for (const int32_t token : chunk_tokens(2, i)) all.push_back(token);
        all.insert(all.end(), query.begin(), query.end());
        const auto begin = Clock::now();
        const Cache cache = compose(engine, {});
        must(nl_cache_extend(cache.get(), all.data(), all.size()), "nl_cache_extend");
        nl_cache* const one = cache.get();
        int32_t token = -1;
        must(nl_decode_step(&one, 1, &token), "nl_decode_step");
        return seconds_since(begin);
    };
    const auto row = [](const char* name, double seconds, const std::string& origin) {
        std::printf("%-44s %9.2f ms   %s\n", name, seconds * 1e3, origin.c_str());
        std::fflush(stdout);
    };
    const auto origins = [](const nl_engine* engine) {
        return "computed " + std::to_string(fact(engine, NL_ENGINE_MISSES)) + ", device " +
               std::to_string(fact(engine, NL_ENGINE_HITS)) + ", host " +
               std::to_string(fact(engine, NL_ENGINE_HOST_HITS)) + ", files " +
               std::to_string(fact(engine, NL_ENGINE_FILE_HITS)) + ", server " +
               std::to_string(fact(engine, NL_ENGINE_SERVER_HITS));
    };
    {
        const auto begin = Clock::now();
        const Engine engine = make_engine(
            folder, arguments.device, {.pages = pages, .host_bytes = 2 * pages * page_bytes, .max_context = context});
        row("an engine with host memory for two sets", seconds_since(begin), "");
        row("the context computed as one", full(engine.get()), "");
        row("the context computed as one, again", full(engine.get()), "");
        row("chunks computed one by one", first_token(engine.get(), 0), origins(engine.get()));
        row("chunks in the device's pages", first_token(engine.get(), 0), origins(engine.get()));
        row("other chunks, which push the first down", first_token(engine.get(), 1), origins(engine.get()));
        row("chunks in the host's memory", first_token(engine.get(), 0), origins(engine.get()));
        row("the others in the host's memory", first_token(engine.get(), 1), origins(engine.get()));
        row("chunks in the host's memory, again", first_token(engine.get(), 0), origins(engine.get()));
    }
    {
        Engine engine = make_engine(folder, arguments.device, {.pages = pages, .max_context = context, .store = store});
        row("chunks computed, the weights' digest with them", first_token(engine.get(), 0), origins(engine.get()));
        const auto begin = Clock::now();
        engine.reset();
        row("writing what is not written yet", seconds_since(begin), "");
    }
    for (int i = 0; i < 2; ++i) {
        const Engine engine =
            make_engine(folder, arguments.device, {.pages = pages, .max_context = context, .store = store});
        row("chunks in files, by a new engine", first_token(engine.get(), 0), origins(engine.get()));
        row("chunks in the device's pages", first_token(engine.get(), 0), origins(engine.get()));
        row("other chunks, computed and written", first_token(engine.get(), 1), origins(engine.get()));
        row("chunks in files, by the same engine", first_token(engine.get(), 0), origins(engine.get()));
    }
    fs::remove_all(store);
    if (arguments.server.empty()) return;
    const EngineSettings from_server{.pages = pages, .max_context = context, .server = arguments.server};
    {
        Engine engine = make_engine(folder, arguments.device, from_server);
        row("chunks computed, the weights' digest with them", first_token(engine.get(), 0), origins(engine.get()));
        const auto begin = Clock::now();
        engine.reset();
        row("sending what is not sent yet", seconds_since(begin), "");
    }
    for (int i = 0; i < 2; ++i) {
        const Engine engine = make_engine(folder, arguments.device, from_server);
        prefill(engine.get(), random_tokens(16, 5, shape.vocab));  // which takes the weights' digest
        row("chunks on the store's server", first_token(engine.get(), 0), origins(engine.get()));
    }
}

}  // namespace

int main(int argc, char** argv) {
    Arguments arguments;
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string name = argv[i];
        const std::string value = argv[i + 1];
        if (name == "--case")
            arguments.which = value;
        else if (name == "--model")
            arguments.model = value;
        else if (name == "--into")
            arguments.into = value;
        else if (name == "--device")
            arguments.device = value;
        else if (name == "--store")
            arguments.store = value;
        else if (name == "--server")
            arguments.server = value;
        else if (name == "--chunks")
            arguments.chunks = std::atoi(value.c_str());
        else if (name == "--tokens")
            arguments.tokens = std::atoi(value.c_str());
    }
    if (arguments.which == "operations")
        operations(arguments);
    else if (arguments.which == "listing")
        listing(arguments);
    else if (arguments.which == "tiers")
        tiers(arguments);
    else
        std::fprintf(stderr, "--case operations, listing or tiers\n");
    return 0;
}
