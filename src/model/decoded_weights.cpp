#include "model/decoded_weights.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace nanolith {
namespace {

constexpr int64_t kElementBytes = sizeof(float);
// Elements that are decoded at a time, on the stack: whole blocks of any type.
constexpr int64_t kPiece = 2048;
static_assert(kPiece % kMaxBlockElements == 0);

}  // namespace

DecodedWeights::~DecodedWeights() {
    if (!mapping_.empty()) ::munmap(const_cast<std::byte*>(mapping_.data()), mapping_.size());
}

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
    if (size_ == 0) return {};
    const auto size = static_cast<size_t>(size_ * kElementBytes);
    void* const data = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED)
        return fail(NL_ERROR_OUT_OF_MEMORY, "cannot map addresses for ", size,
                    " bytes of decoded weights: ", std::generic_category().message(errno));
    mapping_ = {static_cast<const std::byte*>(data), size};
    return {};
}

std::span<const std::byte> DecodedWeights::bytes(size_t i) const {
    const Tensor& tensor = tensors_[i];
    return mapping_.subspan(static_cast<size_t>(tensor.begin * kElementBytes),
                            static_cast<size_t>(tensor.size * kElementBytes));
}

void DecodedWeights::read(const std::byte* from, size_t size, void* to) noexcept {
    const int64_t first = (from - mapping_.data()) / kElementBytes;
    const auto next = std::ranges::upper_bound(tensors_, first, {}, &Tensor::begin);
    Tensor& tensor = *std::prev(next);
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

// Decodes elements of one piece, from `first` of the tensor on.
void DecodedWeights::read_part(Tensor& tensor, int64_t first, int64_t count, std::byte* to) noexcept {
    const BlockType& type = *tensor.type;
    const int64_t first_block = first / type.elements;
    const int64_t blocks = (first + count + type.elements - 1) / type.elements - first_block;
    std::array<std::byte, kPiece * kMaxElementBytes> raw;
    std::array<float, kPiece> values;
    const auto bytes = static_cast<size_t>(blocks * type.bytes);
    tensor.file->read(tensor.blocks.data() + first_block * type.bytes, bytes, raw.data());
    type.decode(raw.data(), blocks, values.data());
    const auto part =
        std::span(values).subspan(static_cast<size_t>(first - first_block * type.elements), static_cast<size_t>(count));
    if (tensor.added != 0.0F) {
        for (float& value : part) value += tensor.added;
    }
    const int64_t bad = count_not_finite(DType::f32, std::as_bytes(part));
    if (bad > 0) tensor.not_finite.fetch_add(bad, std::memory_order_relaxed);
    std::memcpy(to, part.data(), part.size_bytes());
}

const std::byte* DecodedWeights::keep(std::span<const std::byte> bytes) {
    const auto [place, is_new] = kept_.try_emplace(bytes.data());
    if (is_new) {
        place->second.resize(bytes.size());
        read(bytes.data(), bytes.size(), place->second.data());
    }
    return place->second.data();
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
