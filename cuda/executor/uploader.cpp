#include "executor/uploader.h"

#include <algorithm>

#include "backend/read_weight.h"
#include "base/cores.h"
#include "executor/convert.h"
#include "runtime/check.h"

namespace nanolith::cuda {

namespace {

constexpr size_t kStageBytes = size_t{16} << 20;
// The most threads that read a part, and how many elements one takes at a time. Reading also looks for numbers that are
// not finite. Beside an H200, from the page cache, 8 threads read 20 GB/s and 16 read 25 GB/s.
constexpr int32_t kMostReaders = 16;
constexpr int64_t kPieceElements = 64 << 10;

// Whether the device gets the elements as they are in the file. Otherwise the host makes float32 of them first.
bool goes_as_it_is(const WeightView& weight) {
    return weight.plain() && weight.dtype != DType::f8_e4m3;
}

DType staged_type(const WeightView& weight) {
    return goes_as_it_is(weight) ? weight.dtype : DType::f32;
}

}  // namespace

Result<Uploader> Uploader::create(cudaStream_t stream, PartProgress& progress) {
    Uploader uploader;
    uploader.stream_ = stream;
    uploader.progress_ = &progress;
    uploader.readers_ = ThreadPool::create(std::min(available_cores(), kMostReaders));
    for (Stage& stage : uploader.stages_) {
        NL_ASSIGN(stage.host, allocate_pinned(kStageBytes, "the upload of weights"));
        NL_ASSIGN(stage.device, allocate_device(kStageBytes, "the upload of weights"));
        NL_ASSIGN(stage.free, create_event());
    }
    return uploader;
}

Result<void> Uploader::upload(const WeightView& weight, void* to, DType to_type) {
    const int64_t count = weight.rows * weight.cols;
    const auto part = static_cast<int64_t>(kStageBytes / dtype_bytes(staged_type(weight)));
    for (int64_t done = 0; done < count; done += part) {
        const int64_t now = std::min(part, count - done);
        NL_TRY(upload_part(weight, done, now,
                           static_cast<std::byte*>(to) + static_cast<size_t>(done) * dtype_bytes(to_type), to_type));
        NL_TRY(progress_->add(static_cast<uint64_t>(now) * dtype_bytes(to_type)));
    }
    return {};
}

Result<void> Uploader::upload_part(const WeightView& weight, int64_t first, int64_t count, std::byte* to,
                                   DType to_type) {
    Stage& stage = stages_[next_];
    next_ = (next_ + 1) % stages_.size();
    const DType from_type = staged_type(weight);
    const size_t bytes = static_cast<size_t>(count) * dtype_bytes(from_type);
    NL_CUDA_TRY(cudaEventSynchronize(stage.free.get()));
    const int64_t pieces = (count + kPieceElements - 1) / kPieceElements;
    readers_->run(pieces, cost_of_bytes(2 * static_cast<int64_t>(bytes)), [&](int64_t piece, int32_t) {
        const int64_t done = piece * kPieceElements;
        const int64_t now = std::min(kPieceElements, count - done);
        std::byte* const at = stage.host.data() + static_cast<size_t>(done) * dtype_bytes(from_type);
        if (goes_as_it_is(weight)) {
            read_elements(weight, first + done, now, at);
        } else {
            read_weight(weight, first + done, now, reinterpret_cast<float*>(at));
        }
    });
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
