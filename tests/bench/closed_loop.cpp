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
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "bench/whole_model/session.h"

namespace nanolith::bench {
namespace {

struct Settings {
    int prompt = 64;
    int tokens = 256;
    int document = 0;
};

Tokens random_tokens(std::mt19937& random, int count) {
    Tokens tokens(static_cast<size_t>(count));
    for (int32_t& token : tokens) token = static_cast<int32_t>(100 + random() % 1900);
    return tokens;
}

// One answer after the other, until `stops`. `drawn` counts the tokens of all clients as they come.
void ask(const Session& session, const nl_chunk* document, const Settings& settings, unsigned seed,
         std::atomic<int64_t>& drawn, const std::atomic<bool>& stops) {
    std::mt19937 random(seed);
    const Options options = make_options(NL_OPTIONS_GENERATION);
    must(nl_options_set_int(options.get(), NL_OPTION_MAX_TOKENS, settings.tokens), "max tokens");
    must(nl_options_set_int(options.get(), NL_OPTION_END_TOKENS, 0), "end tokens");
    while (!stops) {
        const Cache cache = session.conversation(document);
        const Tokens prompt = random_tokens(random, settings.prompt);
        nl_generation* started = nullptr;
        must(nl_generation_start(cache.get(), prompt.data(), prompt.size(), options.get(), &started), "generation");
        const Generation generation(started);
        for (int32_t end = NL_END_NONE; end == NL_END_NONE && !stops;) {
            int32_t tokens[64];
            char text[1024];
            size_t count = 0;
            size_t length = 0;
            must(nl_generation_next(generation.get(), -1, tokens, 64, &count, text, sizeof text, &length, &end),
                 "next");
            drawn += static_cast<int64_t>(count);
        }
    }
}

// Tokens a second of `clients` clients together, between the end of the warm-up and the end.
double rate(const Session& session, const Settings& settings, int clients, int warm, int seconds) {
    Chunk document;
    if (settings.document > 0) {
        std::mt19937 random(0);
        document = session.prefill(random_tokens(random, settings.document));
    }
    std::atomic<int64_t> drawn = 0;
    std::atomic<bool> stops = false;
    std::vector<std::thread> threads;
    for (int client = 0; client < clients; ++client)
        threads.emplace_back([&, client] { ask(session, document.get(), settings, client + 1U, drawn, stops); });
    std::this_thread::sleep_for(std::chrono::seconds(warm));
    const int64_t before = drawn;
    const auto begin = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(std::chrono::seconds(seconds));
    const int64_t after = drawn;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    stops = true;
    for (std::thread& thread : threads) thread.join();
    return static_cast<double>(after - before) / took.count();
}

}  // namespace
}  // namespace nanolith::bench

int main(int argc, char** argv) {
    using namespace nanolith::bench;
    if (argc < 2) return std::fprintf(stderr, "usage: bench_closed_loop MODEL_FOLDER [--clients N] ...\n"), 2;
    std::map<std::string, std::string> given = {{"--device", "auto"}, {"--clients", "256"}, {"--seconds", "8"},
                                                {"--warm", "4"},      {"--prompt", "64"},   {"--tokens", "256"},
                                                {"--document", "0"}};
    for (int i = 2; i + 1 < argc; i += 2) given[argv[i]] = argv[i + 1];
    const auto number = [&](const char* name) { return std::atoi(given[name].c_str()); };
    const Settings settings = {number("--prompt"), number("--tokens"), number("--document")};
    const Session session({.folder = argv[1], .device = given["--device"]});
    const int clients = number("--clients");
    std::printf("%d clients: %.0f tokens/s\n", clients,
                rate(session, settings, clients, number("--warm"), number("--seconds")));
    return 0;
}
