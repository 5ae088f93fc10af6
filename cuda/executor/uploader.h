// Copies weights from pageable, perhaps unaligned host memory to the device.
#pragma once

#include <array>

#include "backend/dtype.h"
#include "backend/progress.h"
#include "backend/weight_view.h"
#include "runtime/memory.h"
#include "runtime/stream.h"

namespace nanolith::cuda {

// Two page-locked buffers take turns: while one is copied to the device, the next piece is read into the other.
// Weights of another type than the wanted one pass through a device buffer and are converted there.
class Uploader {
  public:
    // `progress` counts the bytes on the device; it outlives the uploader.
    static Result<Uploader> create(cudaStream_t stream, PartProgress& progress);

    // Copies `weight` to `to` on the device as elements of `to_type`. `weight` may be gone after the call; `to` is
    // filled once `stream` gets there. CANCELLED where the progress asked for it.
    Result<void> upload(const WeightView& weight, void* to, DType to_type);

  private:
    struct Stage {
        PinnedBuffer host;
        DeviceBuffer device;
        Event free;  // passed when the piece before has left
    };

    Uploader() = default;
    Result<void> upload_piece(const WeightView& weight, int64_t first, int64_t count, std::byte* to, DType to_type);

    cudaStream_t stream_ = nullptr;
    PartProgress* progress_ = nullptr;
    std::array<Stage, 2> stages_;
    size_t next_ = 0;
};

}  // namespace nanolith::cuda
