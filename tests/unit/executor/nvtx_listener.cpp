// A library that takes a profiler's place: NVTX loads it where NVTX_INJECTION64_PATH names it, and calls its function
// InitializeInjectionNvtx2, which puts functions of its own in the place of those that do nothing.
#include "unit/executor/nvtx_listener.h"

#include <nvtx3/nvToolsExt.h>

#include <mutex>

namespace {

using nanolith::testing::ListenedRange;

struct Domain {
    std::string name;
};

std::mutex mutex;
std::vector<ListenedRange> ranges;
thread_local int32_t depth = 0;

nvtxDomainHandle_t create(const char* name) {
    return reinterpret_cast<nvtxDomainHandle_t>(new Domain{name});
}

void destroy(nvtxDomainHandle_t domain) {
    delete reinterpret_cast<Domain*>(domain);
}

int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* range) {
    const std::lock_guard lock(mutex);
    ranges.push_back({reinterpret_cast<Domain*>(domain)->name, range->message.ascii, range->payload.llValue, depth});
    return depth++;
}

int pop(nvtxDomainHandle_t) {
    return --depth;
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): NVTX looks for this name
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t export_table) {
    const auto* const callbacks = static_cast<const NvtxExportTableCallbacks*>(export_table(NVTX_ETID_CALLBACKS));
    NvtxFunctionTable functions = nullptr;
    unsigned int size = 0;
    if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &functions, &size) == 0)
        return 0;
    if (size <= NVTX_CBID_CORE2_DomainDestroy) return 0;
    *functions[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(create);
    *functions[NVTX_CBID_CORE2_DomainDestroy] = reinterpret_cast<NvtxFunctionPointer>(destroy);
    *functions[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(push);
    *functions[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(pop);
    return 1;
}

// The type is C++'s: only the test that is built with it calls it.
extern "C" __attribute__((visibility("default"))) void nvtx_listener_take(std::vector<ListenedRange>& taken) {
    const std::lock_guard lock(mutex);
    taken = std::move(ranges);
    ranges.clear();
}
