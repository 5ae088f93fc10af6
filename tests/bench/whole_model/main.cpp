// A whole model's speed through the public C interface alone, beside the least time that the device could need.
//
//   bench_whole_model (--folder FOLDER | --model NAME [--into FOLDER]) [--case NAME]... [--device cpu|cuda|cuda:N]
//                     [--json FILE] [--seed N] [--batch-tokens N] [--ceiling TB/s] [--tflops N] [--link GB/s]
//
// --folder   a Hugging Face model folder, or a GGUF file (without floors).
// --model    random weights of a known model's shape (bench/shapes.h), written once to the folder of --into, NAME in
//            the system's folder for temporary files where that is not given. Peers run on the same folder: see
//            tests/bench/peers.
// --case     load      seconds of nl_engine_create: the first one in the process, and later ones
//            batch1    ms a token of one conversation after 128, 4,096 and 32,768 tokens of context
//            shared    tokens a second of 8, 32, 64, 128 and 256 conversations behind one chunk of 8,192 tokens
//            random    tokens a second of 256 requests, each of 100 to 1,024 random tokens in and out
//            prefill   tokens a second of a chunk of 8,192
//            sampling  ms a step of 256 conversations, greedy, with top-k and top-p, and with all filters and penalties
//            All of them where none is given. On a CPU they are smaller: see kCpuWorkload.
// --batch-tokens  most tokens that a step computes (NL_OPTION_MAX_BATCH_TOKENS).
// --ceiling  what memory reads at most, --tflops what products reach at most, --link what goes to the device at most:
//            the floors are made of these. On a GPU an H200's 4.5 TB/s, 792 TFLOP/s and 55 GB/s (PCIe 5.0); on a CPU
//            there are floors only for what is given.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/whole_model/cases.h"
#include "bench/whole_model/model_folder.h"

namespace {

using namespace nanolith::bench;

struct Arguments {
    Setup setup = {"", "cuda", 0};
    std::string model;
    std::string into;
    std::string json;
    std::vector<std::string> cases;
    uint32_t seed = 1;
    double ceiling = -1;  // TB/s; below 0: not given
    double tflops = -1;
    double link = -1;  // GB/s
};

bool is_case(const std::string& name) {
    return std::find(std::begin(kCases), std::end(kCases), name) != std::end(kCases);
}

bool set_argument(const std::string& name, const std::string& value, Arguments& arguments) {
    const struct {
        const char* name;
        std::string* text;
    } texts[] = {{"--folder", &arguments.setup.folder},
                 {"--model", &arguments.model},
                 {"--into", &arguments.into},
                 {"--device", &arguments.setup.device},
                 {"--json", &arguments.json}};
    for (const auto& each : texts) {
        if (name != each.name) continue;
        *each.text = value;
        return true;
    }
    const struct {
        const char* name;
        double* number;
    } numbers[] = {{"--ceiling", &arguments.ceiling}, {"--tflops", &arguments.tflops}, {"--link", &arguments.link}};
    for (const auto& each : numbers) {
        if (name != each.name) continue;
        *each.number = std::atof(value.c_str());
        return true;
    }
    if (name == "--seed") arguments.seed = static_cast<uint32_t>(std::atoll(value.c_str()));
    if (name == "--batch-tokens") arguments.setup.batch_tokens = std::atoi(value.c_str());
    if (name == "--case") arguments.cases.push_back(value);
    return name == "--seed" || name == "--batch-tokens" || (name == "--case" && is_case(value));
}

bool parse(int argc, char** argv, Arguments& arguments) {
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!set_argument(argv[i], argv[i + 1], arguments)) return false;
    }
    if (arguments.cases.empty()) arguments.cases.assign(std::begin(kCases), std::end(kCases));
    const bool known = arguments.model.empty() || find_shape(arguments.model) != nullptr;
    return argc % 2 == 1 && known && arguments.setup.folder.empty() != arguments.model.empty();
}

// False, with a message, where the folder could not be written.
bool make_folder(Arguments& arguments) {
    if (arguments.model.empty()) return true;
    const auto folder = arguments.into.empty() ? std::filesystem::temp_directory_path() / arguments.model
                                               : std::filesystem::path(arguments.into);
    arguments.setup.folder = folder.string();
    const std::string failure = write_model_folder(*find_shape(arguments.model), folder);
    if (!failure.empty()) std::fprintf(stderr, "bench_whole_model: %s\n", failure.c_str());
    return failure.empty();
}

Ceilings ceilings_of(const Arguments& arguments) {
    const bool gpu = arguments.setup.device.rfind("cuda", 0) == 0;
    const auto given = [&](double value, double of_gpu) { return value >= 0 ? value : gpu ? of_gpu : 0; };
    return {1e12 * given(arguments.ceiling, 4.5), 1e12 * given(arguments.tflops, 792), 1e9 * given(arguments.link, 55)};
}

std::string words_of(const Ceilings& ceilings) {
    char text[128] = "";
    if (ceilings.bytes_per_second > 0 || ceilings.flops_per_second > 0 || ceilings.load_bytes_per_second > 0) {
        std::snprintf(text, sizeof text, "memory %.3f TB/s, products %.1f TFLOP/s, to the device %.1f GB/s",
                      ceilings.bytes_per_second / 1e12, ceilings.flops_per_second / 1e12,
                      ceilings.load_bytes_per_second / 1e9);
    }
    return text;
}

std::string name_of(const Arguments& arguments) {
    if (!arguments.model.empty()) return arguments.model;
    const auto folder = std::filesystem::path(arguments.setup.folder).lexically_normal();
    return (folder.has_filename() ? folder : folder.parent_path()).filename().string();
}

}  // namespace

int main(int argc, char** argv) {
    Arguments arguments;
    if (!parse(argc, argv, arguments)) {
        std::fprintf(stderr,
                     "usage: bench_whole_model (--folder FOLDER | --model NAME [--into FOLDER]) [--case NAME]...\n"
                     "                         [--device cpu|cuda|cuda:N] [--json FILE] [--seed N]\n"
                     "                         [--batch-tokens N] [--ceiling TB/s] [--tflops N] [--link GB/s]\n"
                     "       NAME of a model: qwen3-0.6b, llama-3.2-1b, llama-3.1-8b or qwen3-30b-a3b\n"
                     "       NAME of a case: load, batch1, shared, random, prefill or sampling\n");
        return 2;
    }
    if (!make_folder(arguments)) return 1;
    const Ceilings ceilings = ceilings_of(arguments);
    Cases cases(arguments.setup, ceilings, arguments.seed);
    std::fprintf(stderr, "%s, seed %u\n", arguments.setup.folder.c_str(), arguments.seed);
    for (const std::string& name : arguments.cases) cases.run(name);
    const Report report = {name_of(arguments), cases.device_name(), words_of(ceilings), cases.rows()};
    print(report);
    if (!arguments.json.empty() && !write_json(report, arguments.json)) {
        std::fprintf(stderr, "bench_whole_model: cannot write %s\n", arguments.json.c_str());
        return 1;
    }
    return 0;
}
