#include "engine/host_buffers.h"

#include "engine/scheduler.h"

namespace nanolith {

Result<HostBuffers::Lease> HostBuffers::take() {
    {
        const std::lock_guard lock(mutex_);
        free_.reserve(kMostKept);  // so that giving back needs no memory
        if (!free_.empty()) {
            HostMemory memory = std::move(free_.back());
            free_.pop_back();
            return Lease(*this, std::move(memory));
        }
    }
    NL_ASSIGN(HostMemory memory, scheduler_.allocate_host(bytes_));
    return Lease(*this, std::move(memory));
}

void HostBuffers::give_back(HostMemory memory) noexcept {
    const std::lock_guard lock(mutex_);
    if (free_.size() < kMostKept) free_.push_back(std::move(memory));
}

}  // namespace nanolith
