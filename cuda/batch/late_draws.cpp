#include "batch/late_draws.h"

#include <bit>
#include <span>

#include "batch/layout.h"
#include "runtime/check.h"

namespace nanolith::cuda {

Result<LateDraws> LateDraws::create() {
    LateDraws draws;
    NL_ASSIGN(draws.copies_, create_stream());
    NL_ASSIGN(draws.sent_, create_event());
    NL_ASSIGN(draws.drawn_, create_event());
    return draws;
}

Result<void> LateDraws::reserve(size_t bytes, PinnedBuffer& host, cudaStream_t stream) {
    if (host.bytes() < bytes) {
        NL_ASSIGN(host, allocate_pinned(std::bit_ceil(bytes), "what tokens are drawn from"));
    }
    if (device_.bytes() >= bytes) return {};
    NL_ASSIGN(DeviceBuffer device, allocate_device(std::bit_ceil(bytes), "what tokens are drawn from"));
    NL_CUDA_TRY(cudaStreamSynchronize(stream));  // draws in flight read the old block
    device_ = std::move(device);
    return {};
}

Result<void> LateDraws::send(const Batch& batch, DrawTables tables, PinnedBuffer& host, cudaStream_t stream) {
    Layout layout;
    const size_t tables_at = layout.reserve<DrawTables>(1);
    const size_t sampling_at = layout.reserve<SampleParams>(batch.sampling.size());
    const size_t edits_at = layout.reserve<LogitEdit>(batch.edits.size());
    const size_t masks_at = layout.reserve<uint32_t>(batch.masks.size());
    NL_TRY(reserve(layout.used(), host, stream));

    std::byte* const base = device_.data();
    tables.edits = reinterpret_cast<LogitEdit*>(base + edits_at);
    tables.masks = reinterpret_cast<const uint32_t*>(base + masks_at);
    tables_ = reinterpret_cast<const DrawTables*>(base + tables_at);
    sampling_ = reinterpret_cast<const SampleParams*>(base + sampling_at);
    std::byte* const to = host.data();
    put(to + tables_at, std::span<const DrawTables>(&tables, 1), 0);
    put(to + sampling_at, std::span(batch.sampling), 0);
    put(to + edits_at, std::span(batch.edits), 0);
    put(to + masks_at, std::span(batch.masks), 0);

    NL_CUDA_TRY(cudaStreamWaitEvent(copies_.get(), drawn_.get(), 0));
    NL_CUDA_TRY(cudaMemcpyAsync(base, to, layout.used(), cudaMemcpyHostToDevice, copies_.get()));
    NL_CUDA_TRY(cudaEventRecord(sent_.get(), copies_.get()));
    NL_CUDA_TRY(cudaStreamWaitEvent(stream, sent_.get(), 0));
    return {};
}

Result<void> LateDraws::drawn(cudaStream_t stream) {
    NL_CUDA_TRY(cudaEventRecord(drawn_.get(), stream));
    return {};
}

}  // namespace nanolith::cuda
