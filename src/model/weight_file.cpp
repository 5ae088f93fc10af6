#include "model/weight_file.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

namespace nanolith {
namespace {

template <typename Bits>
Bits all_set(const std::byte* number, Bits exponent) {
    Bits bits;
    std::memcpy(&bits, number, sizeof bits);
    return static_cast<Bits>((bits & exponent) == exponent);
}

// Numbers whose exponent bits are all set are infinite or NaN. Blocks have a fixed size, which compilers make vector
// instructions of, and fit the counter.
template <typename Bits>
int64_t count_all_set(std::span<const std::byte> bytes, Bits exponent) {
    constexpr size_t kBlock = 128;
    const size_t numbers = bytes.size() / sizeof(Bits);
    const std::byte* at = bytes.data();
    int64_t count = 0;
    size_t done = 0;
    for (; done + kBlock <= numbers; done += kBlock, at += kBlock * sizeof(Bits)) {
        Bits hits = 0;
        for (size_t i = 0; i < kBlock; ++i) hits = static_cast<Bits>(hits + all_set(at + i * sizeof(Bits), exponent));
        count += hits;
    }
    for (; done < numbers; ++done, at += sizeof(Bits)) count += all_set(at, exponent);
    return count;
}

}  // namespace

int64_t count_not_finite(DType dtype, std::span<const std::byte> bytes) {
    switch (dtype) {
        case DType::f32:
            return count_all_set<uint32_t>(bytes, 0x7F800000U);
        case DType::f16:
            return count_all_set<uint16_t>(bytes, 0x7C00U);
        case DType::bf16:
            return count_all_set<uint16_t>(bytes, 0x7F80U);
        case DType::f8_e4m3:
            break;
    }
    return count_all_set<uint8_t>(bytes, 0x7FU);  // NaN alone: the format has no infinities
}

Result<std::unique_ptr<WeightFile>> WeightFile::open(const std::string& path, WeightPlace place) {
    NL_ASSIGN(OpenFile opened, OpenFile::open(path));
    NL_ASSIGN(auto file, of(std::move(opened), place));
    NL_TRY(file->read_header());
    return file;
}

Result<std::unique_ptr<WeightFile>> WeightFile::of(OpenFile file, WeightPlace place) {
    std::unique_ptr<WeightFile> made(new WeightFile(std::move(file), place));
    NL_TRY(made->map());
    return made;
}

WeightFile::~WeightFile() {
    if (!mapping_.empty()) ::munmap(const_cast<std::byte*>(mapping_.data()), mapping_.size());
}

// Weights that will be copied need addresses and no memory behind them.
Result<void> WeightFile::map() {
    const size_t size = file_.size();
    if (size == 0) return {};
    void* const data = place_ == WeightPlace::mapped
                           ? ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file_.descriptor(), 0)
                           : ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) {
        return fail(NL_ERROR_OUT_OF_MEMORY, "cannot map the ", size, " bytes of ", file_.path(), ": ",
                    std::generic_category().message(errno));
    }
    mapping_ = {static_cast<const std::byte*>(data), size};
    return {};
}

Result<void> WeightFile::read_header() {
    std::string head(std::min(file_.size(), kSafetensorsLengthBytes), '\0');
    NL_ASSIGN(size_t count, file_.read_at(0, head.size(), head.data()));
    NL_ASSIGN(const uint64_t length,
              safetensors_header_length(std::as_bytes(std::span(head.data(), count)), file_.size(), file_.path()));
    std::string header(length, '\0');
    NL_ASSIGN(count, file_.read_at(kSafetensorsLengthBytes, header.size(), header.data()));
    header.resize(count);
    NL_ASSIGN(TensorMap tensors,
              parse_safetensors_header(header, mapping_.subspan(kSafetensorsLengthBytes + length), file_.path()));
    set_tensors(std::move(tensors));
    return {};
}

void WeightFile::set_tensors(TensorMap tensors) {
    tensors_ = std::move(tensors);
    std::vector<TensorMap::value_type*> order;
    for (auto& tensor : tensors_) order.push_back(&tensor);
    std::ranges::sort(order, {}, [](const auto* tensor) { return tensor->second.bytes.data(); });
    for (auto* tensor : order) {
        tensor->second.source = this;
        const std::optional<DType> dtype = weight_dtype(tensor->second.dtype);
        if (!dtype || tensor->second.bytes.empty()) continue;
        Numbers& numbers = numbers_.emplace_back();
        numbers.name = tensor->first;
        numbers.bytes = tensor->second.bytes;
        numbers.dtype = *dtype;
    }
}

void WeightFile::read(const std::byte* from, size_t size, void* to) noexcept {
    const auto offset = static_cast<size_t>(from - mapping_.data());
    const size_t there = file_.read_some(offset, size, to);
    if (there < size) {
        std::memset(static_cast<std::byte*>(to) + there, 0, size - there);
        size_t none = kNothingMissing;
        missing_at_.compare_exchange_strong(none, offset + there);
    }
    look_at(from, {static_cast<const std::byte*>(to), there});
}

void WeightFile::look_at(const std::byte* from, std::span<const std::byte> copy) {
    const auto next = std::ranges::upper_bound(numbers_, from, {}, [](const Numbers& n) { return n.bytes.data(); });
    if (next == numbers_.begin()) return;
    Numbers& numbers = *std::prev(next);
    if (from >= numbers.bytes.data() + numbers.bytes.size()) return;  // of another tensor
    const int64_t count = count_not_finite(numbers.dtype, copy);
    if (count > 0) numbers.not_finite.fetch_add(count, std::memory_order_relaxed);
}

Result<void> WeightFile::finish() {
    NL_TRY(file_.check_unchanged());
    if (const size_t at = missing_at_; at != kNothingMissing) {
        std::byte byte{};
        NL_ASSIGN(const size_t count, file_.read_at(at, 1, &byte));
        return fail(NL_ERROR_IO, file_.path(), " could not be read at byte ", at, count == 0 ? "" : " at first",
                    ": expected ", file_.size(), " bytes");
    }
    file_.close();
    return {};
}

std::vector<NotFinite> WeightFile::not_finite() const {
    std::vector<NotFinite> found;
    for (const Numbers& numbers : numbers_) {
        const int64_t count = numbers.not_finite.load(std::memory_order_relaxed);
        const auto size = static_cast<int64_t>(numbers.bytes.size() / dtype_bytes(numbers.dtype));
        if (count > 0) found.push_back({numbers.name, count, size});
    }
    return found;
}

}  // namespace nanolith
