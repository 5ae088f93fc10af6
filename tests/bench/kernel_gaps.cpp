// Where a GPU's time goes in steps of an engine, seen in a trace of its kernels.
//
//   CUDA_INJECTION64_PATH=libkernel_gaps.so PROGRAM
//
// A step's first kernel is begin_step's and its last one sample's, where it draws. At exit two things are printed.
// Gaps between steps that draw: for each pair the time from the end of the one's last kernel to the start of the
// other's second kernel in which no kernel ran, before and after the first (gaps below 10 ms: what is longer is a
// program that does something else). And for each number of blocks that begin_step had, which is the number of the
// step's rows where they are many, the mean of its steps: time to the next step's first kernel, time in which no kernel
// ran, and the time and number of each kernel; then the sums over all steps.
#include <cupti.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace {

struct Span {
    uint64_t start, end;  // nanoseconds
    bool first, last;     // of a step
    int blocks;
    std::string name;
};

struct Trace {
    std::mutex mutex;
    std::vector<Span> spans;
};

Trace& trace() {
    static auto* const the_trace = new Trace;  // there when print_gaps() runs, after static objects have gone
    return *the_trace;
}

void CUPTIAPI give_buffer(uint8_t** buffer, size_t* size, size_t* max_records) {
    *size = size_t{8} << 20;
    *buffer = static_cast<uint8_t*>(std::aligned_alloc(64, *size));
    *max_records = 0;
}

void CUPTIAPI take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
    const std::lock_guard lock(trace().mutex);
    CUpti_Activity* record = nullptr;
    while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
        if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
        const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel9*>(record);
        const char* const name = kernel->name == nullptr ? "" : kernel->name;
        trace().spans.push_back({kernel->start, kernel->end, std::strstr(name, "begin_step") != nullptr,
                                 std::strstr(name, "sample") != nullptr, kernel->gridX, name});
    }
    std::free(buffer);
}

struct KernelTime {
    double microseconds = 0;
    int launches = 0;
};

// Steps with the same number of blocks in begin_step.
struct Steps {
    int count = 0;
    double time = 0;  // microseconds
    double idle = 0;
    std::map<std::string, KernelTime> kernels;
};

// A mangled name's parts that tell a kernel from others, in at most 70 characters.
std::string short_name(std::string name) {
    for (const char* const prefix : {"_ZN8nanolith4cuda", "_ZN72_GLOBAL", "12_GLOBAL__N__"}) {
        const size_t at = name.find(prefix);
        if (at != std::string::npos) name.erase(at, std::strlen(prefix));
    }
    return name.size() <= 70 ? name : name.substr(0, 70);
}

// Adds the step whose kernels are spans [first, end) to all[key]; the next step begins with spans[end].
void add_step(const std::vector<Span>& spans, size_t first, size_t end, int key, std::map<int, Steps>& all) {
    const auto microseconds = [](uint64_t from, uint64_t to) {
        return to > from ? static_cast<double>(to - from) / 1000 : 0;
    };
    const double time = microseconds(spans[first].start, spans[end].start);
    if (time > 1e6) return;  // the program did something else
    Steps& steps = all[key];
    ++steps.count;
    steps.time += time;
    uint64_t busy_until = spans[first].start;
    for (size_t i = first; i < end; ++i) {
        steps.idle += microseconds(busy_until, spans[i].start);
        busy_until = std::max(busy_until, spans[i].end);
        KernelTime& kernel = steps.kernels[short_name(spans[i].name)];
        kernel.microseconds += microseconds(spans[i].start, spans[i].end);
        ++kernel.launches;
    }
    steps.idle += microseconds(busy_until, spans[end].start);
}

void print(const char* what, int blocks, const Steps& steps, double divisor) {
    std::printf("%s, %d steps of %d blocks: %.1f us, no kernel %.1f us\n", what, steps.count, blocks,
                steps.time / divisor, steps.idle / divisor);
    std::vector<std::pair<std::string, KernelTime>> sorted(steps.kernels.begin(), steps.kernels.end());
    std::sort(sorted.begin(), sorted.end(),
              [](const auto& a, const auto& b) { return a.second.microseconds > b.second.microseconds; });
    for (const auto& [name, kernel] : sorted)
        std::printf("  %11.1f us %8.1f launches  %s\n", kernel.microseconds / divisor, kernel.launches / divisor,
                    name.c_str());
}

void print_steps(const std::vector<Span>& spans) {
    std::map<int, Steps> all;
    std::map<int, Steps> sum;
    size_t first = spans.size();
    for (size_t i = 0; i < spans.size(); ++i) {
        if (!spans[i].first) continue;
        if (first < i) {
            add_step(spans, first, i, spans[first].blocks, all);
            add_step(spans, first, i, 0, sum);
        }
        first = i;
    }
    for (const auto& [blocks, steps] : all) print("mean", blocks, steps, steps.count);
    for (const auto& [blocks, steps] : sum) print("sum", blocks, steps, 1);
}

void print_gaps() {
    cuptiActivityFlushAll(1);
    const std::lock_guard lock(trace().mutex);
    auto& spans = trace().spans;
    std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.start < b.start; });
    print_steps(spans);
    std::vector<double> gaps;
    const auto between = [](uint64_t end, uint64_t start) {
        return start > end ? static_cast<double>(start - end) / 1000 : 0;
    };
    for (size_t i = 0; i + 2 < spans.size(); ++i) {
        if (!spans[i].last || !spans[i + 1].first) continue;
        const double gap = between(spans[i].end, spans[i + 1].start) + between(spans[i + 1].end, spans[i + 2].start);
        if (gap < 10'000) gaps.push_back(gap);
    }
    if (gaps.empty()) {
        std::printf("kernel gaps: no two steps among %zu kernels\n", spans.size());
        return;
    }
    std::sort(gaps.begin(), gaps.end());
    const auto at = [&](double share) {
        return gaps[static_cast<size_t>(share * static_cast<double>(gaps.size() - 1))];
    };
    std::printf("kernel gaps between steps, us: median %.2f, 90%% %.2f, 99%% %.2f, of %zu\n", at(0.5), at(0.9),
                at(0.99), gaps.size());
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
    cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    std::atexit(print_gaps);
    return 1;
}
