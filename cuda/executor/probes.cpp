#include "executor/probes.h"

#include <algorithm>

#include "backend/probe.h"
#include "runtime/check.h"

namespace nanolith::cuda {
namespace {

// Memory that frees what it was only when the device has done what used it: cudaFree waits.
Result<void> grow(DeviceBuffer& buffer, size_t bytes, const char* what) {
    if (buffer.bytes() >= bytes) return {};
    buffer = DeviceBuffer();
    NL_ASSIGN(buffer, allocate_device(bytes, what));
    return {};
}

ProbePage* write_pages(const Batch& batch, const Segment& segment, int32_t page_size, ProbePage* to) {
    for (int32_t first = 0; first < segment.length; first += page_size) {
        const int32_t page = batch.page_table[segment.first_page + first / page_size];
        *to++ = {page, first, std::min(first + page_size, segment.length), segment.base};
    }
    return to;
}

}  // namespace

Result<void> Probes::set(const Batch& batch, int32_t page_size, int32_t num_heads, PinnedBuffer& pages,
                         cudaStream_t stream) {
    shapes_.clear();
    num_pages_ = probed_pages(batch, page_size);
    if (batch.probes.empty()) return {};
    const size_t bytes = num_pages_ * sizeof(ProbePage);
    if (pages.bytes() < bytes) {
        NL_ASSIGN(pages, allocate_pinned(2 * bytes, "the pages of probes"));
    }
    pages_ = pages.as<ProbePage>();
    ProbePage* next = pages.as<ProbePage>();
    size_t vectors = 0;
    size_t numbers = 0;
    for (const Probe& probe : batch.probes) {
        const Sequence& sequence = batch.sequences[probe.sequence];
        ProbeShape shape{sequence.first_row, sequence.num_rows, batch.positions[sequence.first_row],
                         static_cast<int32_t>(next - pages_), 0};
        for (int32_t i = 0; i < sequence.num_segments; ++i)
            next = write_pages(batch, batch.segments[sequence.first_segment + i], page_size, next);
        shape.num_pages = static_cast<int32_t>(next - pages_) - shape.first_page;
        shapes_.push_back(shape);
        const size_t of_probe = static_cast<size_t>(shape.num_rows) * static_cast<size_t>(num_heads);
        vectors = std::max(vectors, of_probe);
        numbers = std::max(numbers, of_probe * static_cast<size_t>(shape.num_pages));
    }
    NL_TRY(grow(lse_, numbers * sizeof(float), "log-sum-exps of a probe"));
    NL_TRY(grow(totals_, vectors * sizeof(float), "log-sum-exps of a probe's queries"));
    NL_TRY(grow(weights_, num_pages_ * sizeof(float), "page weights"));
    NL_CUDA_TRY(cudaMemsetAsync(weights(), 0, num_pages_ * sizeof(float), stream));
    return {};
}

}  // namespace nanolith::cuda
