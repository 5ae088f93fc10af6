#include "executor/uploader.h"

#include <algorithm>
#include <vector>

#include "backend/compact_reader.h"
#include "backend/read_weight.h"
#include "base/cores.h"
#include "compact/pack.h"
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

// Packs the rows of one tile: of one weight, or of gate and of up half of it each.
void pack_tile(std::span<CompactReader> readers, const CompactForm& form, const CompactMatrix& matrix, int tile,
               std::byte* to) {
    std::fill_n(to, matrix.layout.tile_bytes(matrix.size), std::byte{});
    const int rows = matrix.rows_of_tile();
    const int first = tile * rows;
    int row = 0;  // of the tile
    for (CompactReader& reader : readers) {
        for (int i = 0; i < std::min(rows, matrix.outputs - first); ++i) {
            const float scale = reader.read(first + i);
            pack_row(form, reader.blocks(), scale, matrix.size, row + i, to);
        }
        row += rows;
    }
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

Result<void> Uploader::upload_compact(std::span<const WeightView* const> weights, const CompactForm& form,
                                      const CompactMatrix& to) {
    const auto tile_bytes = static_cast<size_t>(to.layout.tile_bytes(to.size));
    const auto most = static_cast<int>(std::max<size_t>(1, kStageBytes / tile_bytes));
    std::vector<CompactReader> readers;  // those of one thread after the other
    for (int32_t thread = 0; thread < readers_->num_threads(); ++thread) {
        for (const WeightView* weight : weights) readers.emplace_back(*weight, form, to.rows_of_tile());
    }
    for (int first = 0; first < to.num_tiles(); first += most) {
        const int count = std::min(most, to.num_tiles() - first);
        Stage& stage = stages_[next_];
        next_ = (next_ + 1) % stages_.size();
        NL_CUDA_TRY(cudaEventSynchronize(stage.free.get()));
        const size_t bytes = static_cast<size_t>(count) * tile_bytes;
        if (stage.host.bytes() < bytes) {
            NL_ASSIGN(stage.host, allocate_pinned(bytes, "the upload of weights"));
        }
        readers_->run(count, cost_of_bytes(8 * static_cast<int64_t>(bytes)), [&](int64_t tile, int32_t thread) {
            const auto mine = std::span(readers).subspan(static_cast<size_t>(thread) * weights.size(), weights.size());
            pack_tile(mine, form, to, first + static_cast<int>(tile),
                      stage.host.data() + static_cast<size_t>(tile) * tile_bytes);
        });
        auto* const device = const_cast<std::byte*>(to.tiles) + static_cast<size_t>(first) * tile_bytes;
        NL_CUDA_TRY(cudaMemcpyAsync(device, stage.host.data(), bytes, cudaMemcpyHostToDevice, stream_));
        NL_CUDA_TRY(cudaEventRecord(stage.free.get(), stream_));
        NL_TRY(progress_->add(bytes));
    }
    return {};
}

// They are few, and CUDA copies memory that is not page-locked before the call returns.
Result<void> Uploader::upload_integers(std::span<const int32_t> integers, int32_t* to) {
    NL_CUDA_TRY(cudaMemcpyAsync(to, integers.data(), integers.size_bytes(), cudaMemcpyHostToDevice, stream_));
    return progress_->add(integers.size_bytes());
}

}  // namespace nanolith::cuda
