// Copies weights from host memory that is neither page-locked nor necessarily aligned to the device.
#pragma once

#include <array>
#include <memory>
#include <span>

#include "backend/compact_weight.h"
#include "backend/dtype.h"
#include "backend/progress.h"
#include "backend/weight_view.h"
#include "base/thread_pool.h"
#include "compact/layout.h"
#include "runtime/memory.h"
#include "runtime/stream.h"

namespace nanolith::cuda {

// Weights are copied in parts of one stage, through two stages that alternate: while the copy of one to the device is
// under way, several threads read the next part into the other. A weight that is not of the wanted type is first copied
// to a buffer on the device and converted there.
class Uploader {
  public:
    // `progress` counts the bytes as they are on the device. It and `stream` outlive the uploader.
    static Result<Uploader> create(cudaStream_t stream, PartProgress& progress);

    // Copies `weight` to `to` on the device as elements of `to_type`. `weight` need not outlive the call; `to` is for
    // what is put on the stream later. NL_ERROR_CANCELLED where the progress function asked for it.
    Result<void> upload(const WeightView& weight, void* to, DType to_type);

    // Packs a weight (of a gated matrix gate and up) as compact weights of `form` to where `to` has its tiles.
    // Lifetimes and errors as above.
    Result<void> upload_compact(std::span<const WeightView* const> weights, const CompactForm& form,
                                const CompactMatrix& to);

    // Copies integers to `to` on the device. Lifetimes as above.
    Result<void> upload_integers(std::span<const int32_t> integers, int32_t* to);

  private:
    struct Stage {
        PinnedBuffer host;
        DeviceBuffer device;
        Event free;  // recorded after the copy, and the conversion, of what the stage had
    };

    Uploader() = default;
    Result<void> upload_part(const WeightView& weight, int64_t first, int64_t count, std::byte* to, DType to_type);

    cudaStream_t stream_ = nullptr;
    PartProgress* progress_ = nullptr;
    std::unique_ptr<ThreadPool> readers_;
    std::array<Stage, 2> stages_;
    size_t next_ = 0;
};

}  // namespace nanolith::cuda
