// Ranges of NVTX, which NVIDIA's profilers show on the host's timeline and project onto the GPU's: what of a step was
// put on the stream when. Where no profiler listens a range costs a few nanoseconds. NVTX has no errors.
#pragma once

#include <nvtx3/nvToolsExt.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "backend/phase.h"

namespace nanolith::cuda {

// The domain "nanolith", by which a profiler can show these ranges alone.
class NvtxDomain {
  public:
    NvtxDomain() : handle_(nvtxDomainCreateA("nanolith")) {}
    ~NvtxDomain() { nvtxDomainDestroy(handle_); }
    NvtxDomain(const NvtxDomain&) = delete;
    NvtxDomain& operator=(const NvtxDomain&) = delete;

    [[nodiscard]] nvtxDomainHandle_t get() const { return handle_; }

  private:
    nvtxDomainHandle_t handle_;
};

// A range of the thread that makes it, while it lives. Ranges of a thread are nested.
class NvtxRange {
  public:
    // `name` is read at once. `rows` is shown with it.
    NvtxRange(const NvtxDomain& domain, const char* name, int64_t rows) : domain_(domain) {
        nvtxEventAttributes_t range = {};
        range.version = NVTX_VERSION;
        range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
        range.messageType = NVTX_MESSAGE_TYPE_ASCII;
        range.message.ascii = name;
        range.payloadType = NVTX_PAYLOAD_TYPE_INT64;
        range.payload.llValue = rows;
        nvtxDomainRangePushEx(domain_.get(), &range);
    }
    ~NvtxRange() { nvtxDomainRangePop(domain_.get()); }
    NvtxRange(const NvtxRange&) = delete;
    NvtxRange& operator=(const NvtxRange&) = delete;

  private:
    const NvtxDomain& domain_;
};

// A range for each operation of a forward pass through `num_layers` layers, one after the other (forward.h). The first
// begins with the object.
class PhaseRanges {
  public:
    PhaseRanges(const NvtxDomain& domain, int32_t num_layers, int64_t rows)
        : domain_(domain), layers_left_(num_layers), rows_(rows) {
        range_.emplace(domain_, kPhaseNames[0], rows_);
    }
    // Begins the range of the operation after `phase`; head is the last one.
    void ended(Phase phase) {
        range_.reset();
        if (phase == Phase::head) return;
        size_t next = index_of(phase) + 1;
        if (phase == Phase::mlp_output && --layers_left_ > 0) next = 0;
        range_.emplace(domain_, kPhaseNames[next], rows_);
    }

  private:
    const NvtxDomain& domain_;
    int32_t layers_left_;
    int64_t rows_;
    std::optional<NvtxRange> range_;
};

}  // namespace nanolith::cuda
