// Weights that a file stores in blocks (block_type.h): decoded to float32 when they are read so, or read as compact
// weights.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/block_type.h"
#include "backend/compact_weight.h"
#include "backend/weight_view.h"
#include "base/result.h"
#include "model/address_range.h"
#include "model/weight_file.h"

namespace nanolith {

// Reserves an address for each float32, without memory behind it: an address only tells read() which element is meant.
// Thread-safe but for add(), map() and keep().
class DecodedWeights final : public WeightSource {
  public:
    DecodedWeights() = default;
    DecodedWeights(const DecodedWeights&) = delete;
    DecodedWeights& operator=(const DecodedWeights&) = delete;

    // A tensor of whole blocks at addresses of `file`, which must outlive this; `added` is added to each element.
    void add(std::string name, const BlockType& type, std::span<const std::byte> blocks, WeightFile& file,
             float added = 0.0F);
    // Gives all tensors their addresses. OUT_OF_MEMORY. Once, after the last add().
    Result<void> map();
    // The addresses of tensor i, which count in the order of add(). Not to be read from.
    [[nodiscard]] std::span<const std::byte> bytes(size_t i) const;
    // Reads the matrices in tensor i, views of those bytes, as compact weights; null where it has no form of these.
    [[nodiscard]] const CompactSource* compact(size_t i) const;

    void read(const std::byte* from, size_t size, void* to) noexcept override;
    [[nodiscard]] bool stays() const override { return false; }

    // The tensors of which NaNs or infinities have been read, in the order of add().
    [[nodiscard]] std::vector<NotFinite> not_finite() const;

  private:
    struct Tensor final : CompactSource {
        [[nodiscard]] CompactForm form() const override { return type->form; }
        void read_blocks(const WeightView& view, int64_t row, int64_t first, int64_t count,
                         CompactBlock* to) const noexcept override;
        void read_rows(const WeightView& view, int64_t row, int64_t count, CompactBlock* to) const noexcept override;
        void read_raw(int64_t first_block, int64_t count, std::byte* to) const noexcept;
        void unpack_row(const std::byte* from, int64_t weights, CompactBlock* to) const noexcept;
        void unpack_block(const std::byte* from, int64_t weights, CompactBlock& to) const noexcept;
        void look_at(std::span<const float> values) const noexcept;

        std::string name;
        const BlockType* type = nullptr;
        std::span<const std::byte> blocks;
        WeightFile* file = nullptr;
        float added = 0.0F;
        int64_t begin = 0;                // place of its first element among those of all tensors
        const std::byte* data = nullptr;  // address of that
        int64_t size = 0;
        mutable std::atomic<int64_t> not_finite = 0;
    };

    static void read_part(const Tensor& tensor, int64_t first, int64_t count, std::byte* to) noexcept;

    std::deque<Tensor> tensors_;
    int64_t size_ = 0;        // of all tensors, in elements
    AddressRange addresses_;  // of all of them
};

}  // namespace nanolith
