// Generates texts under constraints, for schemas.py to judge: reads lines of JSON {"option": "JSON_SCHEMA", "text": ..,
// "seed": .., "max_tokens": .., "jump_ahead": 0 or 1} and writes for each {"text": .., "end": ..} or {"error": ..,
// "status": ..}. Up to 64 generations run at once. Through the public header alone.
#include <cstdio>
#include <cstring>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "nanolith/nanolith.h"

namespace {

using Json = nlohmann::ordered_json;

void must(nl_status status) {
    if (status == NL_OK) return;
    std::fprintf(stderr, "%s\n", nl_last_error());
    std::exit(1);
}

struct Run {
    nl_cache* cache = nullptr;
    nl_generation* generation = nullptr;
    Json answer;
};

void set_text(nl_options* options, int32_t key, const std::string& value) {
    must(nl_options_set_text(options, key, value.data(), value.size()));
}

Run start(nl_engine* engine, const Json& asked) {
    Run run;
    nl_options* sampling = nullptr;
    must(nl_options_create(NL_OPTIONS_SAMPLING, &sampling));
    must(nl_options_set_float(sampling, NL_OPTION_TEMPERATURE, 1.0));
    must(nl_options_set_int(sampling, NL_OPTION_SEED, asked.at("seed").get<int64_t>()));
    must(nl_cache_create(engine, nullptr, nullptr, 0, &run.cache));
    must(nl_cache_set_sampling(run.cache, sampling));
    nl_options_free(sampling);
    nl_options* options = nullptr;
    must(nl_options_create(NL_OPTIONS_GENERATION, &options));
    must(nl_options_set_int(options, NL_OPTION_MAX_TOKENS, asked.at("max_tokens").get<int64_t>()));
    must(nl_options_set_int(options, NL_OPTION_JUMP_AHEAD, asked.at("jump_ahead").get<int64_t>()));
    const auto option = asked.at("option").get<std::string>();
    if (option == "JSON_OBJECT") must(nl_options_set_int(options, NL_OPTION_JSON_OBJECT, 1));
    if (option == "JSON_SCHEMA") set_text(options, NL_OPTION_JSON_SCHEMA, asked.at("text").get<std::string>());
    if (option == "REGEX") set_text(options, NL_OPTION_REGEX, asked.at("text").get<std::string>());
    if (option == "GRAMMAR") set_text(options, NL_OPTION_GRAMMAR, asked.at("text").get<std::string>());
    if (option == "CHOICE")
        for (const auto& choice : asked.at("text")) set_text(options, NL_OPTION_CHOICE, choice.get<std::string>());
    const int32_t prompt[] = {1, 3, 7};
    const nl_status status = nl_generation_start(run.cache, prompt, 3, options, &run.generation);
    nl_options_free(options);
    if (status != NL_OK) run.answer = {{"error", nl_last_error()}, {"status", status}};
    return run;
}

void finish(Run& run) {
    std::string text;
    int32_t end = NL_END_NONE;
    while (run.generation != nullptr && end == NL_END_NONE) {
        char piece[4096];
        size_t length = 0;
        const nl_status status =
            nl_generation_next(run.generation, -1, nullptr, 0, nullptr, piece, sizeof piece, &length, &end);
        if (status != NL_OK) {
            run.answer = {{"error", nl_last_error()}, {"status", status}};
            break;
        }
        text.append(piece, length);
    }
    if (run.answer.empty()) run.answer = {{"text", text}, {"end", end}};
    nl_generation_free(run.generation);
    nl_cache_free(run.cache);
    std::cout << run.answer.dump() << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) return std::fprintf(stderr, "usage: constrained MODEL < requests\n"), 2;
    nl_options* options = nullptr;
    must(nl_options_create(NL_OPTIONS_ENGINE, &options));
    set_text(options, NL_OPTION_DEVICE, "cpu");
    nl_engine* engine = nullptr;
    must(nl_engine_create(argv[1], std::strlen(argv[1]), options, &engine));
    nl_options_free(options);
    std::vector<Run> runs;
    const auto finish_all = [&runs] {
        for (Run& run : runs) finish(run);
        runs.clear();
    };
    for (std::string line; std::getline(std::cin, line);) {
        runs.push_back(start(engine, Json::parse(line)));
        constexpr size_t kAtOnce = 64;
        if (runs.size() == kAtOnce) finish_all();
    }
    finish_all();
    nl_engine_free(engine);
    return 0;
}
