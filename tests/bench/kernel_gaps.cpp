// How long a GPU has nothing to do between two decode steps, seen in a trace of its kernels.
//
//   CUDA_INJECTION64_PATH=libkernel_gaps.so PROGRAM
//
// A step's first kernel is begin_step's and its last one sample's. For each pair of steps the gap is the time from the
// end of the one's last kernel to the start of the other's second kernel in which no kernel ran: before and after the
// first. At exit the distribution of all gaps below 10 ms is printed (what is longer is a program that does something
// else).
#include <cupti.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

namespace {

struct Span {
    uint64_t start, end;  // nanoseconds
    bool first, last;     // of a step
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
                                 std::strstr(name, "sample") != nullptr});
    }
    std::free(buffer);
}

void print_gaps() {
    cuptiActivityFlushAll(1);
    const std::lock_guard lock(trace().mutex);
    auto& spans = trace().spans;
    std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.start < b.start; });
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
