// The draws of a step whose logits are being computed already (BatchShape::draws_late): their parameters, edits and
// masks, in one block of device memory that is sent with one copy.
//
// The copy has a stream of its own, so that the device makes it while it computes the logits: 20 KB for the mask of a
// row of 152,000 tokens, at some 50 GB/s.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/batch.h"
#include "runtime/memory.h"
#include "runtime/stream.h"
#include "sample/draw_tables.h"

namespace nanolith::cuda {

class LateDraws {
  public:
    static Result<LateDraws> create();

    // Writes the batch's draws to `host`, which is allocated anew where it is too small, and has work that is put on
    // `stream` from now on find them on the device. `tables`: as DeviceBatch::draw_tables(), but for edits and masks.
    // `host` must stay as it is until that work has ended.
    Result<void> send(const Batch& batch, DrawTables tables, PinnedBuffer& host, cudaStream_t stream);
    // To be called when the draws are on the stream: the next send() overwrites the block only after them.
    Result<void> drawn(cudaStream_t stream);

    // Device addresses, as the latest send() left them.
    [[nodiscard]] const DrawTables* tables() const { return tables_; }
    [[nodiscard]] const SampleParams* sampling() const { return sampling_; }

  private:
    Result<void> reserve(size_t bytes, PinnedBuffer& host, cudaStream_t stream);

    Stream copies_;
    Event sent_;
    Event drawn_;
    DeviceBuffer device_;
    const DrawTables* tables_ = nullptr;
    const SampleParams* sampling_ = nullptr;
};

}  // namespace nanolith::cuda
