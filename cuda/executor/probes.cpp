#include "executor/probes.h"

#include <algorithm>

#include "backend/page_size.h"
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

// The weight of the segment's first token is number `first_weight`.
ProbePage* write_pages(const Batch& batch, const Segment& segment, int32_t page_size, int32_t first_weight,
                       ProbePage* to) {
    for (int32_t first = 0; first < segment.length; first += page_size) {
        const int32_t page = batch.page_table[segment.first_page + first / page_size];
        *to++ = {page, first, std::min(first + page_size, segment.length), segment.base, first_weight + first};
    }
    return to;
}

size_t probed_pages(const Batch& batch, int32_t page_size) {
    size_t pages = 0;
    for (const Probe& probe : batch.probes) {
        const Sequence& sequence = batch.sequences[probe.sequence];
        for (int32_t i = 0; i < sequence.num_segments; ++i)
            pages += static_cast<size_t>(pages_for(batch.segments[sequence.first_segment + i].length, page_size));
    }
    return pages;
}

}  // namespace

Result<void> Probes::set(const Batch& batch, int32_t page_size, const ModelSpec& spec, PinnedBuffer& pages,
                         cudaStream_t stream) {
    shapes_.clear();
    num_tokens_ = probed_tokens(batch);
    if (batch.probes.empty()) return {};
    const size_t bytes = probed_pages(batch, page_size) * sizeof(ProbePage);
    if (pages.bytes() < bytes) {
        NL_ASSIGN(pages, allocate_pinned(2 * bytes, "the pages of probes"));
    }
    pages_ = pages.as<ProbePage>();
    ProbePage* next = pages.as<ProbePage>();
    size_t vectors = 0;
    size_t numbers = 0;
    size_t shares = 0;
    int32_t tokens = 0;
    for (const Probe& probe : batch.probes) {
        const Sequence& sequence = batch.sequences[probe.sequence];
        ProbeShape shape{sequence.first_row,
                         sequence.num_rows,
                         batch.positions[sequence.first_row],
                         static_cast<int32_t>(next - pages_),
                         0,
                         tokens};
        for (int32_t i = 0; i < sequence.num_segments; ++i) {
            const Segment& segment = batch.segments[sequence.first_segment + i];
            next = write_pages(batch, segment, page_size, tokens - shape.first_token, next);
            tokens += segment.length;
        }
        shape.num_pages = static_cast<int32_t>(next - pages_) - shape.first_page;
        shape.num_tokens = tokens - shape.first_token;
        shapes_.push_back(shape);
        const size_t of_probe = static_cast<size_t>(shape.num_rows) * static_cast<size_t>(spec.num_heads);
        vectors = std::max(vectors, of_probe);
        numbers = std::max(numbers, of_probe * static_cast<size_t>(shape.num_pages));
        shares = std::max(shares, static_cast<size_t>(spec.num_kv_heads) * static_cast<size_t>(shape.num_tokens));
    }
    NL_TRY(grow(lse_, numbers * sizeof(float), "log-sum-exps of a probe"));
    NL_TRY(grow(totals_, vectors * sizeof(float), "log-sum-exps of a probe's queries"));
    NL_TRY(grow(shares_, shares * sizeof(float), "shares of a probe's tokens"));
    NL_TRY(grow(weights_, num_tokens_ * sizeof(float), "token weights"));
    NL_CUDA_TRY(cudaMemsetAsync(weights(), 0, num_tokens_ * sizeof(float), stream));
    return {};
}

}  // namespace nanolith::cuda
