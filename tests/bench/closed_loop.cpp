// What the library draws for clients that each ask again when they have their answer: the same work as that of
// tests/server/load.py, without a server, so that the difference is what the server costs.
//
//     bench_closed_loop MODEL_FOLDER [--device cuda] [--clients 256] [--seconds 8] [--warm 4] [--prompt 64]
//                       [--tokens 256] [--document 0]
//
// A client is a thread that waits in nl_generation_next for tokens and their text. Prompts are random tokens, behind
// one chunk of so many tokens where --document says so; answers have exactly so many tokens, greedy. Through the public
// header alone.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "nanolith/nanolith.h"

namespace {

void must(nl_status status) {
    if (status == NL_OK) return;
    std::fprintf(stderr, "%s\n", nl_last_error());
    std::exit(1);
}

struct Settings {
    int prompt = 64;
    int tokens = 256;
    int document = 0;
};

std::vector<int32_t> random_tokens(std::mt19937& random, int count) {
    std::vector<int32_t> tokens(static_cast<size_t>(count));
    for (int32_t& token : tokens) token = static_cast<int32_t>(100 + random() % 1900);
    return tokens;
}

// One answer after the other, until `stops`. `drawn` counts the tokens of all clients as they come.
void ask(nl_engine* engine, const nl_chunk* document, const Settings& settings, unsigned seed,
         std::atomic<int64_t>& drawn, const std::atomic<bool>& stops) {
    std::mt19937 random(seed);
    nl_options* options = nullptr;
    must(nl_options_create(NL_OPTIONS_GENERATION, &options));
    must(nl_options_set_int(options, NL_OPTION_MAX_TOKENS, settings.tokens));
    must(nl_options_set_int(options, NL_OPTION_END_TOKENS, 0));
    while (!stops) {
        nl_cache* cache = nullptr;
        nl_generation* generation = nullptr;
        must(nl_cache_create(engine, nullptr, &document, document != nullptr ? 1 : 0, &cache));
        const auto prompt = random_tokens(random, settings.prompt);
        must(nl_generation_start(cache, prompt.data(), prompt.size(), options, &generation));
        for (int32_t end = NL_END_NONE; end == NL_END_NONE && !stops;) {
            int32_t tokens[64];
            char text[1024];
            size_t count = 0;
            size_t length = 0;
            must(nl_generation_next(generation, -1, tokens, 64, &count, text, sizeof text, &length, &end));
            drawn += static_cast<int64_t>(count);
        }
        nl_generation_free(generation);
        nl_cache_free(cache);
    }
    nl_options_free(options);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) return std::fprintf(stderr, "usage: bench_closed_loop MODEL_FOLDER [--clients N] ...\n"), 2;
    std::map<std::string, std::string> given = {{"--device", "auto"}, {"--clients", "256"}, {"--seconds", "8"},
                                                {"--warm", "4"},      {"--prompt", "64"},   {"--tokens", "256"},
                                                {"--document", "0"}};
    for (int i = 2; i + 1 < argc; i += 2) given[argv[i]] = argv[i + 1];
    const auto number = [&](const char* name) { return std::atoi(given[name].c_str()); };
    const Settings settings = {number("--prompt"), number("--tokens"), number("--document")};
    nl_options* options = nullptr;
    must(nl_options_create(NL_OPTIONS_ENGINE, &options));
    must(nl_options_set_text(options, NL_OPTION_DEVICE, given["--device"].data(), given["--device"].size()));
    nl_engine* engine = nullptr;
    must(nl_engine_create(argv[1], std::strlen(argv[1]), options, &engine));
    nl_options_free(options);
    nl_chunk* document = nullptr;
    if (settings.document > 0) {
        std::mt19937 random(0);
        const auto tokens = random_tokens(random, settings.document);
        must(nl_chunk_prefill(engine, tokens.data(), tokens.size(), NL_LEVEL_CONTEXT, nullptr, 0, &document));
    }

    std::atomic<int64_t> drawn = 0;
    std::atomic<bool> stops = false;
    std::vector<std::thread> clients;
    for (int client = 0; client < number("--clients"); ++client)
        clients.emplace_back([&, client] { ask(engine, document, settings, client + 1U, drawn, stops); });
    std::this_thread::sleep_for(std::chrono::seconds(number("--warm")));
    const int64_t before = drawn;
    const auto begin = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(std::chrono::seconds(number("--seconds")));
    const int64_t after = drawn;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    stops = true;
    for (std::thread& client : clients) client.join();
    std::printf("%d clients: %.0f tokens/s\n", number("--clients"), static_cast<double>(after - before) / took.count());
    nl_chunk_free(document);
    nl_engine_free(engine);
    return 0;
}
