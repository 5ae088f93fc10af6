#include "executor/uploader.h"

#include <algorithm>
#include <cstring>

#include "executor/convert.h"
#include "runtime/check.h"

namespace nanolith::cuda {

namespace {

constexpr size_t kStageBytes = size_t{16} << 20;

}  // namespace

Result<Uploader> Uploader::create(cudaStream_t stream) {
    Uploader uploader;
    uploader.stream_ = stream;
    for (Stage& stage : uploader.stages_) {
        NL_ASSIGN(stage.host, allocate_pinned(kStageBytes, "the upload of weights"));
        NL_ASSIGN(stage.device, allocate_device(kStageBytes, "the upload of weights"));
        NL_ASSIGN(stage.free, create_event());
    }
    return uploader;
}

Result<void> Uploader::upload(const WeightView& weight, void* to, DType to_type) {
    const int64_t count = weight.rows * weight.cols;
    const auto piece = static_cast<int64_t>(kStageBytes / dtype_bytes(weight.dtype));
    for (int64_t done = 0; done < count; done += piece) {
        NL_TRY(upload_piece(weight.data + static_cast<size_t>(done) * dtype_bytes(weight.dtype), weight.dtype,
                            static_cast<std::byte*>(to) + static_cast<size_t>(done) * dtype_bytes(to_type), to_type,
                            std::min(piece, count - done)));
    }
    return {};
}

Result<void> Uploader::upload_piece(const std::byte* from, DType from_type, std::byte* to, DType to_type,
                                    int64_t count) {
    Stage& stage = stages_[next_];
    next_ = (next_ + 1) % stages_.size();
    const size_t bytes = static_cast<size_t>(count) * dtype_bytes(from_type);
    NL_CUDA_TRY(cudaEventSynchronize(stage.free.get()));
    std::memcpy(stage.host.data(), from, bytes);
    if (from_type == to_type) {
        NL_CUDA_TRY(cudaMemcpyAsync(to, stage.host.data(), bytes, cudaMemcpyHostToDevice, stream_));
    } else {
        NL_CUDA_TRY(cudaMemcpyAsync(stage.device.data(), stage.host.data(), bytes, cudaMemcpyHostToDevice, stream_));
        NL_TRY(convert(stage.device.data(), from_type, to, to_type, count, stream_));
    }
    NL_CUDA_TRY(cudaEventRecord(stage.free.get(), stream_));
    return {};
}

}  // namespace nanolith::cuda
