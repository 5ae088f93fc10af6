#include "model/decoded_weights.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace nanolith {
namespace {

constexpr int64_t kElementBytes = sizeof(float);
// Elements that are decoded at a time, on the stack: whole blocks of any type.
constexpr int64_t kPiece = 2048;
static_assert(kPiece % kMaxBlockElements == 0 && kPiece % kCompactBlock == 0);
constexpr int64_t kPieceBytes = kPiece * kMaxElementBytes;  // that these are at most, in blocks
constexpr int64_t kRowsBytes = 16 << 10;                    // of rows that are read at once, on the stack too

}  // namespace

void DecodedWeights::add(std::string name, const BlockType& type, std::span<const std::byte> blocks, WeightFile& file,
                         float added) {
    Tensor& tensor = tensors_.emplace_back();
    tensor.name = std::move(name);
    tensor.type = &type;
    tensor.blocks = blocks;
    tensor.file = &file;
    tensor.added = added;
    tensor.begin = size_;
    tensor.size = static_cast<int64_t>(blocks.size()) / type.bytes * type.elements;
    size_ += tensor.size;
}

Result<void> DecodedWeights::map() {
    NL_ASSIGN(addresses_, AddressRange::reserve(static_cast<size_t>(size_ * kElementBytes)));
    for (Tensor& tensor : tensors_) tensor.data = addresses_.data() + tensor.begin * kElementBytes;
    return {};
}

std::span<const std::byte> DecodedWeights::bytes(size_t i) const {
    const Tensor& tensor = tensors_[i];
    return {tensor.data, static_cast<size_t>(tensor.size * kElementBytes)};
}

const CompactSource* DecodedWeights::compact(size_t i) const {
    const Tensor& tensor = tensors_[i];
    return tensor.type->quantised() && tensor.added == 0.0F ? &tensor : nullptr;
}

void DecodedWeights::read(const std::byte* from, size_t size, void* to) noexcept {
    const int64_t first = (from - addresses_.data()) / kElementBytes;
    const auto next = std::ranges::upper_bound(tensors_, first, {}, &Tensor::begin);
    const Tensor& tensor = *std::prev(next);
    const int64_t count = static_cast<int64_t>(size) / kElementBytes;
    auto* out = static_cast<std::byte*>(to);
    for (int64_t done = 0; done < count;) {
        const int64_t at = first - tensor.begin + done;
        // Up to where a piece ends, so that all but the first begin with a block.
        const int64_t part = std::min(kPiece - at % kPiece, count - done);
        read_part(tensor, at, part, out + done * kElementBytes);
        done += part;
    }
}

// Reads blocks as they are in the file.
void DecodedWeights::Tensor::read_raw(int64_t first_block, int64_t count, std::byte* to) const noexcept {
    file->read(blocks.data() + first_block * type->bytes, static_cast<size_t>(count * type->bytes), to);
}

void DecodedWeights::Tensor::look_at(std::span<const float> values) const noexcept {
    const int64_t bad = count_not_finite(DType::f32, std::as_bytes(values));
    if (bad > 0) not_finite.fetch_add(bad, std::memory_order_relaxed);
}

// Decodes elements of one piece, from `first` of the tensor on.
void DecodedWeights::read_part(const Tensor& tensor, int64_t first, int64_t count, std::byte* to) noexcept {
    const BlockType& type = *tensor.type;
    const int64_t first_block = first / type.elements;
    const int64_t blocks = (first + count + type.elements - 1) / type.elements - first_block;
    std::array<std::byte, kPieceBytes> raw;
    std::array<float, kPiece> values;
    tensor.read_raw(first_block, blocks, raw.data());
    type.decode(raw.data(), blocks, values.data());
    const auto part =
        std::span(values).subspan(static_cast<size_t>(first - first_block * type.elements), static_cast<size_t>(count));
    if (tensor.added != 0.0F) {
        for (float& value : part) value += tensor.added;
    }
    tensor.look_at(part);
    std::memcpy(to, part.data(), part.size_bytes());
}

// Rows are whole blocks of the file, and a compact block is whole ones of them too.
void DecodedWeights::Tensor::read_blocks(const WeightView& view, int64_t row, int64_t first, int64_t count,
                                         CompactBlock* to) const noexcept {
    const int64_t row_at = (view.data - data) / kElementBytes + row * view.cols;
    std::array<std::byte, kPieceBytes> raw;
    for (int64_t done = 0; done < count; done += kPiece / kCompactBlock) {
        const int64_t from = (first + done) * kCompactBlock;  // columns
        const int64_t end = std::min({(first + count) * kCompactBlock, view.cols, from + kPiece});
        read_raw((row_at + from) / type->elements, (end - from) / type->elements, raw.data());
        unpack_row(raw.data(), end - from, to + done);
    }
}

// Unpacks `weights` weights of a row, stored one after the other at `from`. The first one is the first of compact block
// to[0].
void DecodedWeights::Tensor::unpack_row(const std::byte* from, int64_t weights, CompactBlock* to) const noexcept {
    for (int64_t first = 0; first < weights; first += kCompactBlock) {
        unpack_block(from + first / type->elements * type->bytes, std::min(kCompactBlock, weights - first),
                     to[first / kCompactBlock]);
    }
}

// Rows of up to half of kRowsBytes are read several with one call of the system, longer ones by read_blocks().
void DecodedWeights::Tensor::read_rows(const WeightView& view, int64_t row, int64_t count,
                                       CompactBlock* to) const noexcept {
    const int64_t row_bytes = view.cols / type->elements * type->bytes;
    const int64_t at_once = kRowsBytes / std::max<int64_t>(row_bytes, 1);
    if (at_once < 2) return CompactSource::read_rows(view, row, count, to);
    const int64_t per_row = compact_blocks(view.cols);
    std::array<std::byte, kRowsBytes> raw;
    for (int64_t done = 0; done < count; done += at_once) {
        const int64_t rows = std::min(at_once, count - done);
        const int64_t first = (view.data - data) / kElementBytes + (row + done) * view.cols;
        read_raw(first / type->elements, rows * view.cols / type->elements, raw.data());
        for (int64_t i = 0; i < rows; ++i, to += per_row) unpack_row(raw.data() + i * row_bytes, view.cols, to);
    }
}

// A compact block, or the `weights` that are left of a row.
void DecodedWeights::Tensor::unpack_block(const std::byte* from, int64_t weights, CompactBlock& to) const noexcept {
    to = {};
    std::ranges::fill(to.codes, static_cast<int8_t>(type->form.zero));
    for (int64_t i = 0; i < weights; i += type->elements, from += type->bytes) type->unpack(from, i, to);
    if (is_finite(type->form, to)) return;
    std::array<float, kCompactBlock> values;
    expand_block(type->form, to, 1, 0, weights, values.data());
    look_at(std::span(values).first(static_cast<size_t>(weights)));
}

std::vector<NotFinite> DecodedWeights::not_finite() const {
    std::vector<NotFinite> found;
    for (const Tensor& tensor : tensors_) {
        const int64_t count = tensor.not_finite.load(std::memory_order_relaxed);
        if (count > 0) found.push_back({tensor.name, count, tensor.size});
    }
    return found;
}

}  // namespace nanolith
