// What constraints cost a step: conversations that each draw so many tokens at once, without a constraint and with one,
// in turns: constrained rows' masks are made while a step is computed. And what jumping over forced text gains.
//
//     bench_constrained_rows MODEL_FOLDER [--device cuda] [--rows 64] [--tokens 256] [--rounds 5]
//
// The constraints let every conversation go on: a text of any characters, a JSON array of strings, and records whose
// names of fields are forced. Through the public header alone.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "nanolith/nanolith.h"

namespace {

void must(nl_status status) {
    if (status == NL_OK) return;
    std::fprintf(stderr, "%s\n", nl_last_error());
    std::exit(1);
}

struct Settings {
    int rows = 64;
    int tokens = 256;
};

void set_text(nl_options* options, int32_t key, const std::string& value) {
    must(nl_options_set_text(options, key, value.data(), value.size()));
}

struct Case {
    const char* name;
    int32_t option;  // its constraint's
    std::string constraint;
    bool jumps = false;
    std::vector<double> tokens = {};  // a second, of all conversations together, in each round
    std::vector<double> bytes = {};   // of text a second
};

// How long the text of these tokens is.
size_t text_bytes(nl_engine* engine, const std::vector<int32_t>& tokens) {
    nl_tokenizer* tokenizer = nullptr;
    must(nl_engine_tokenizer(engine, &tokenizer));
    size_t bytes = 0;
    nl_tokenizer_decode(tokenizer, tokens.data(), tokens.size(), nullptr, 0, &bytes);
    nl_tokenizer_free(tokenizer);
    return bytes;
}

void measure(nl_engine* engine, const Settings& settings, Case& one) {
    nl_options* options = nullptr;
    must(nl_options_create(NL_OPTIONS_GENERATION, &options));
    must(nl_options_set_int(options, NL_OPTION_MAX_TOKENS, settings.tokens));
    must(nl_options_set_int(options, NL_OPTION_END_TOKENS, 0));
    if (!one.constraint.empty()) set_text(options, one.option, one.constraint);
    must(nl_options_set_int(options, NL_OPTION_JUMP_AHEAD, one.jumps ? 1 : 0));
    nl_options* sampling = nullptr;
    must(nl_options_create(NL_OPTIONS_SAMPLING, &sampling));
    must(nl_options_set_float(sampling, NL_OPTION_TEMPERATURE, 1));
    std::vector<nl_cache*> caches;
    std::vector<nl_generation*> generations;
    const auto begin = std::chrono::steady_clock::now();
    std::vector<int32_t> tokens;
    for (int row = 0; row < settings.rows; ++row) {
        caches.push_back(nullptr);
        must(nl_cache_create(engine, nullptr, nullptr, 0, &caches.back()));
        must(nl_options_set_int(sampling, NL_OPTION_SEED, row));
        must(nl_cache_set_sampling(caches.back(), sampling));
        const int32_t prompt[] = {1, 2, 3 + row % 16};
        generations.push_back(nullptr);
        must(nl_generation_start(caches.back(), prompt, 3, options, &generations.back()));
    }
    for (nl_generation* generation : generations) {
        for (int32_t end = NL_END_NONE; end == NL_END_NONE;) {
            int32_t some[256];
            size_t count = 0;
            must(nl_generation_next(generation, -1, some, 256, &count, nullptr, 0, nullptr, &end));
            tokens.insert(tokens.end(), some, some + count);
        }
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    for (nl_generation* generation : generations) nl_generation_free(generation);
    for (nl_cache* cache : caches) nl_cache_free(cache);
    nl_options_free(options);
    nl_options_free(sampling);
    one.tokens.push_back(static_cast<double>(tokens.size()) / took.count());
    one.bytes.push_back(static_cast<double>(text_bytes(engine, tokens)) / took.count());
}

double median(std::vector<double> values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) return std::fprintf(stderr, "usage: bench_constrained_rows MODEL_FOLDER [--rows N] ...\n"), 2;
    std::map<std::string, std::string> given = {
        {"--device", "auto"}, {"--rows", "64"}, {"--tokens", "256"}, {"--rounds", "5"}};
    for (int i = 2; i + 1 < argc; i += 2) given[argv[i]] = argv[i + 1];
    const Settings settings = {.rows = std::atoi(given["--rows"].c_str()),
                               .tokens = std::atoi(given["--tokens"].c_str())};
    nl_options* options = nullptr;
    must(nl_options_create(NL_OPTIONS_ENGINE, &options));
    set_text(options, NL_OPTION_DEVICE, given["--device"]);
    nl_engine* engine = nullptr;
    must(nl_engine_create(argv[1], std::strlen(argv[1]), options, &engine));
    nl_options_free(options);
    const char* const records = R"(root ::= record+
record ::= "{\"customer_name\": \"" word "\", \"delivery_address\": \"" word "\", \"total_amount\": " [0-9]{2} "}\n"
word ::= [a-z]{3,6})";
    Case cases[] = {{"free", 0, ""},
                    {"any text", NL_OPTION_REGEX, "(.|\\s)*"},
                    {"JSON strings", NL_OPTION_JSON_SCHEMA,
                     R"({"type":"array","items":{"type":"string"},"minItems":10000,"maxItems":20000})"},
                    {"records", NL_OPTION_GRAMMAR, records},
                    {"records, jumping ahead", NL_OPTION_GRAMMAR, records, true}};
    for (Case& one : cases) measure(engine, settings, one);  // warms up
    for (Case& one : cases) one.tokens.clear(), one.bytes.clear();
    for (int round = 0; round < std::atoi(given["--rounds"].c_str()); ++round)
        for (Case& one : cases) measure(engine, settings, one);
    const double free_rate = median(cases[0].tokens);
    for (const Case& one : cases)
        std::printf("%d rows, %s: %.0f tokens/s, %.1f%% of free; %.0f bytes of text/s\n", settings.rows, one.name,
                    median(one.tokens), 100 * median(one.tokens) / free_rate, median(one.bytes));
    nl_engine_free(engine);
    return 0;
}
