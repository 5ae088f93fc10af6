// How long an engine takes to be made from a model's folder, through the public header.
//
//   bench_loading --folder FOLDER [--model NAME] [--device cpu|cuda|cuda:N] [--times N]
//
// It makes an engine of the model in FOLDER N times (3). With --model it first writes FOLDER: random weights in the
// shape of a known model.
//
// `weights` is the time until the progress callback tells that the weights are on the device (0.8 of the whole there),
// `engine` that of the whole call. The first engine of a process on a GPU also makes CUDA's context and loads kernels.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "bench/model_folder.h"
#include "nanolith/nanolith.h"

namespace {

using namespace nanolith::bench;
using Clock = std::chrono::steady_clock;

struct Arguments {
    std::string folder;
    std::string model;  // empty: the folder is there
    std::string device = "cuda";
    int times = 3;
};

struct Times {
    Clock::time_point begin = Clock::now();
    double weights = 0;
    [[nodiscard]] double now() const { return std::chrono::duration<double>(Clock::now() - begin).count(); }
};

int32_t on_progress(void* user_data, double done) {
    constexpr double kLoaded = 0.8;
    auto& times = *static_cast<Times*>(user_data);
    if (times.weights == 0 && done >= kLoaded) times.weights = times.now();
    return 0;
}

bool check(nl_status status, const char* doing) {
    if (status == NL_OK) return true;
    std::fprintf(stderr, "bench_loading: %s: %s: %s\n", doing, nl_status_name(status), nl_last_error());
    return false;
}

bool load_once(const Arguments& arguments) {
    nl_options* options = nullptr;
    if (!check(nl_options_create(NL_OPTIONS_ENGINE, &options), "options")) return false;
    Times times;
    nl_engine* engine = nullptr;
    const bool made =
        check(nl_options_set_text(options, NL_OPTION_DEVICE, arguments.device.data(), arguments.device.size()),
              "device") &&
        check(nl_options_set_progress(options, on_progress, &times), "progress") &&
        check(nl_engine_create(arguments.folder.data(), arguments.folder.size(), options, &engine), "engine");
    if (made) std::printf("%10.3f %10.3f\n", times.weights, times.now());
    nl_engine_free(engine);
    nl_options_free(options);
    return made;
}

bool parse(int argc, char** argv, Arguments& arguments) {
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string name = argv[i];
        if (name == "--folder") {
            arguments.folder = argv[i + 1];
        } else if (name == "--model") {
            arguments.model = argv[i + 1];
        } else if (name == "--device") {
            arguments.device = argv[i + 1];
        } else if (name == "--times") {
            arguments.times = std::atoi(argv[i + 1]);
        } else {
            return false;
        }
    }
    return argc % 2 == 1 && !arguments.folder.empty() && arguments.times >= 1 &&
           (arguments.model.empty() || find_shape(arguments.model) != nullptr);
}

}  // namespace

int main(int argc, char** argv) {
    Arguments arguments;
    if (!parse(argc, argv, arguments)) {
        std::fprintf(stderr,
                     "usage: bench_loading --folder FOLDER [--model NAME] [--device cpu|cuda|cuda:N] [--times N]\n"
                     "       NAME is qwen3-0.6b, llama-3.2-1b, llama-3.1-8b or qwen3-30b-a3b\n");
        return 2;
    }
    if (!arguments.model.empty() && !write_model_folder(*find_shape(arguments.model), arguments.folder)) {
        std::fprintf(stderr, "bench_loading: cannot write the model to %s\n", arguments.folder.c_str());
        return 1;
    }
    std::printf("seconds from the call on\n%10s %10s\n", "weights", "engine");
    for (int i = 0; i < arguments.times; ++i) {
        if (!load_once(arguments)) return 1;
    }
    return 0;
}
