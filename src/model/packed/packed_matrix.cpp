#include "model/packed/packed_matrix.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

#include "backend/read_weight.h"
#include "model/scale_split.h"

namespace nanolith {
namespace {

constexpr int64_t kWideBytes = 2;  // of a weight that is read wide
// The groups that backends have kernels for are of this many columns, or a multiple.
constexpr int64_t kLeastGroup = 32;

// A tensor whose bytes are in memory or, where there was no memory for them, are read a few at a time.
struct Bytes {
    PassingBytes::Copy copy;
    const PassingBytes* source = nullptr;

    // Calls use(load), where load(first, size, to) reads bytes.
    template <typename Use>
    void with_load(const Use& use) const {
        if (copy == nullptr)
            return use([this](int64_t first, size_t size, void* to) { source->read(first, size, to); });
        use([from = copy.get()](int64_t first, size_t size, void* to) { std::memcpy(to, from + first, size); });
    }
    [[nodiscard]] float number(DType dtype, int64_t i) const {
        if (copy != nullptr) return number_at(dtype, copy.get(), i);
        const size_t size = dtype_bytes(dtype);
        std::array<std::byte, sizeof(float)> number;
        source->read(i * static_cast<int64_t>(size), size, number.data());
        return number_at(dtype, number.data(), 0);
    }
    [[nodiscard]] int32_t integer(const PackedIntegers& packed, int64_t row, int64_t col, int32_t shift) const {
        int8_t integer = 0;
        unpack(packed, row, col, 1, shift, &integer);
        return integer;
    }
    void unpack(const PackedIntegers& packed, int64_t row, int64_t first, int64_t count, int32_t shift,
                int8_t* to) const {
        with_load([&](const auto& load) { unpack_integers(packed, row, first, count, shift, load, to); });
    }
};

// Whether all words are the same and made of one integer, which is quick to see: symmetric GPTQ stores such zero
// points.
bool have_equal_words(const std::byte* words, size_t size, const PackedIntegers& packed) {
    uint32_t first = 0;
    if (packed.shared_by == SharedBy::none || size < sizeof first) return false;
    std::memcpy(&first, words, sizeof first);
    const uint32_t integers = first + packed.added;
    return integers == std::rotl(integers, packed.bits) &&
           std::memcmp(words, words + sizeof first, size - sizeof first) == 0;
}

Error no_memory(const char* what) {
    return fail(NL_ERROR_OUT_OF_MEMORY, "there is no memory for the ", what, " of a packed weight");
}

}  // namespace

struct PackedMatrix::InMemory {
    Bytes codes;
    Bytes scales;
    Bytes zeros;
};

PackedMatrix::PackedMatrix(PackedParts parts)
    : parts_(std::move(parts)),
      codes_(*parts_.code_tensor, parts_.rows * parts_.cols),
      scales_(*parts_.scale_tensor, parts_.rows * parts_.cols) {
    if (parts_.zero_tensor != nullptr) zeros_.emplace(*parts_.zero_tensor, parts_.rows * parts_.cols);
}

Result<std::unique_ptr<PackedMatrix>> PackedMatrix::create(PackedParts parts) {
    std::unique_ptr<PackedMatrix> matrix(new PackedMatrix(std::move(parts)));
    NL_TRY(matrix->look_at_zeros());
    NL_TRY(matrix->look_at_scales());
    matrix->put_columns_in_order();
    matrix->choose_form();
    if (!matrix->exact_) {
        const auto weights = static_cast<size_t>(matrix->parts_.rows * matrix->parts_.cols);
        NL_ASSIGN(matrix->addresses_, AddressRange::reserve(weights * kWideBytes));
    }
    return matrix;
}

// Zero points that are all the same need not be stored with each group.
Result<void> PackedMatrix::look_at_zeros() {
    if (!zeros_) return {};
    const Bytes bytes{zeros_->take(0), &*zeros_};
    if (bytes.copy == nullptr) return no_memory("zero points");
    parts_.zero = bytes.integer(parts_.zeros, 0, 0, parts_.zero_shift);
    if (have_equal_words(bytes.copy.get(), parts_.zero_tensor->bytes.size(), parts_.zeros)) {
        zeros_.reset();
        return {};
    }
    std::vector<int8_t> of_row(static_cast<size_t>(parts_.groups));
    for (int64_t row = 0; row < parts_.rows; ++row) {
        bytes.unpack(parts_.zeros, row, 0, parts_.groups, parts_.zero_shift, of_row.data());
        if (!std::ranges::all_of(of_row, [&](int8_t zero) { return zero == parts_.zero; })) return {};
    }
    zeros_.reset();
    return {};
}

// One scale of a row is the row's. Several are float16 times a power of two where they can be, which those that are
// float16 in the file always are.
Result<void> PackedMatrix::look_at_scales() {
    if (parts_.groups > 1 && parts_.scale_dtype == DType::f16) return {};
    const Bytes bytes{scales_.take(0), &scales_};
    if (bytes.copy == nullptr) return no_memory("scales");
    const InMemory memory{.codes = {}, .scales = bytes, .zeros = {}};
    std::vector<float> of_row(static_cast<size_t>(parts_.groups));
    row_scales_.resize(static_cast<size_t>(parts_.rows));
    for (int64_t row = 0; row < parts_.rows; ++row) {
        float& row_scale = row_scales_[static_cast<size_t>(row)];
        if (parts_.groups == 1) {
            row_scale = scale(memory, row, 0);
            continue;
        }
        for (int64_t group = 0; group < parts_.groups; ++group)
            of_row[static_cast<size_t>(group)] = scale(memory, row, group);
        float most = 0;
        for (const float scale : of_row) most = std::max(most, std::fabs(scale));
        row_scale = row_power(most);
        exact_ = exact_ && std::ranges::all_of(of_row, [&](float scale) { return splits_exactly(scale, row_scale); });
    }
    return {};
}

// Sorts the columns by their groups, if each group but the last one has as many as it should have.
void PackedMatrix::put_columns_in_order() {
    if (parts_.group_of.empty()) return;
    columns_.resize(static_cast<size_t>(parts_.cols));
    std::iota(columns_.begin(), columns_.end(), 0);
    const auto group_of = [&](int32_t col) { return parts_.group_of[static_cast<size_t>(col)]; };
    std::ranges::stable_sort(columns_, {}, group_of);
    for (int64_t i = 0; i < parts_.cols; ++i)
        exact_ = exact_ && group_of(columns_[static_cast<size_t>(i)]) == i / parts_.group;
}

void PackedMatrix::choose_form() {
    const bool whole_row = parts_.groups == 1;
    exact_ = exact_ && (whole_row || parts_.group % kLeastGroup == 0);
    if (!exact_) return;
    form_.codes = parts_.codes.bits == 4 ? CodeKind::bits4 : CodeKind::int8;
    form_.group = kCompactBlock;
    while (!whole_row && parts_.group % form_.group != 0) form_.group /= 2;
    // An 8-bit code that is stored without its zero point might need nine bits.
    const bool has_zeros = zeros_.has_value() || (form_.codes == CodeKind::int8 && parts_.zero != 0);
    form_.scales = has_zeros ? ScaleKind::zeros : ScaleKind::half;
    form_.mins = has_zeros;
    form_.zero = has_zeros ? 0 : parts_.zero;
}

WeightView PackedMatrix::view() {
    // float32 scales come from checkpoints that are computed with in bfloat16.
    const DType dtype = parts_.scale_dtype == DType::f32 ? DType::bf16 : parts_.scale_dtype;
    WeightView view{dtype, parts_.rows, parts_.cols, parts_.code_tensor->bytes.data()};
    if (exact_) {
        view.compact = this;
        view.columns = columns_;
    } else {
        view.data = addresses_.data();
        view.source = this;
    }
    return view;
}

PackedMatrix::InMemory PackedMatrix::take(int64_t weights) const noexcept {
    InMemory memory{{codes_.take(weights), &codes_}, {scales_.take(weights), &scales_}, {}};
    if (zeros_) memory.zeros = {zeros_->take(weights), &*zeros_};
    return memory;
}

float PackedMatrix::scale(const InMemory& memory, int64_t row, int64_t group) const noexcept {
    return memory.scales.number(parts_.scale_dtype, row * parts_.scale_row_stride + group * parts_.scale_group_stride);
}

int32_t PackedMatrix::zero(const InMemory& memory, int64_t row, int64_t group) const noexcept {
    if (!zeros_) return parts_.zero;
    return memory.zeros.integer(parts_.zeros, row, group, parts_.zero_shift);
}

float PackedMatrix::row_scale(const WeightView& view, int64_t row) const noexcept {
    return scale_of_row(view.scales.first_row + row);
}

void PackedMatrix::read_blocks(const WeightView& view, int64_t row, int64_t first, int64_t count,
                               CompactBlock* to) const noexcept {
    const int64_t weights = std::min((first + count) * kCompactBlock, parts_.cols) - first * kCompactBlock;
    const InMemory memory = take(weights);
    const int64_t stored = view.scales.first_row + row;
    // Columns in another order are taken apart one by one, unless there is memory for a row.
    std::unique_ptr<int8_t[]> whole_row;
    if (!columns_.empty()) whole_row.reset(new (std::nothrow) int8_t[static_cast<size_t>(parts_.cols)]);
    if (whole_row != nullptr)
        memory.codes.unpack(parts_.codes, stored, 0, parts_.cols, parts_.code_shift, whole_row.get());
    for (int64_t i = 0; i < count; ++i) read_block(memory, stored, first + i, whole_row.get(), to[i]);
}

void PackedMatrix::read_block(const InMemory& memory, int64_t row, int64_t block, const int8_t* whole_row,
                              CompactBlock& to) const noexcept {
    const int64_t first = block * kCompactBlock;
    const int64_t count = std::min(kCompactBlock, parts_.cols - first);
    to = {};
    std::ranges::fill(to.codes, static_cast<int8_t>(form_.zero));
    if (columns_.empty()) {
        memory.codes.unpack(parts_.codes, row, first, count, parts_.code_shift, to.codes);
    } else {
        for (int64_t i = 0; i < count; ++i) {
            const int64_t col = columns_[static_cast<size_t>(first + i)];
            if (whole_row != nullptr) {
                to.codes[i] = whole_row[col];
            } else {
                memory.codes.unpack(parts_.codes, row, col, 1, parts_.code_shift, to.codes + i);
            }
        }
    }
    const float row_scale = scale_of_row(row);
    for (int64_t i = 0; i * form_.group < count; ++i) {
        const int64_t group = (first + i * form_.group) / parts_.group;
        to.scales[i] = parts_.groups == 1 ? to_half(1) : divided_scale(scale(memory, row, group), row_scale);
        if (form_.mins) to.min_factors[i] = static_cast<int8_t>(zero(memory, row, group));
    }
}

void PackedMatrix::read(const std::byte* from, size_t size, void* to) noexcept {
    int64_t first = (from - addresses_.data()) / kWideBytes;
    auto left = static_cast<int64_t>(size) / kWideBytes;
    const InMemory memory = take(left);
    for (auto* out = static_cast<std::byte*>(to); left > 0;) {
        const int64_t count = std::min(left, parts_.cols - first % parts_.cols);
        read_row(memory, first / parts_.cols, first % parts_.cols, count, out);
        out += count * kWideBytes;
        first += count;
        left -= count;
    }
}

// Writes columns [first, first + count) of a row, rounded to 16 bits.
void PackedMatrix::read_row(const InMemory& memory, int64_t row, int64_t first, int64_t count,
                            std::byte* to) const noexcept {
    for (int64_t col = first; col < first + count; ++col, to += kWideBytes) {
        const int32_t code = memory.codes.integer(parts_.codes, row, col, parts_.code_shift);
        const int64_t group = parts_.group_of.empty() ? col / parts_.group : parts_.group_of[static_cast<size_t>(col)];
        const int32_t steps = code - zero(memory, row, group);
        const float weight = scale(memory, row, group) * static_cast<float>(steps);
        const uint16_t bits = parts_.scale_dtype == DType::f16 ? to_half(weight).bits : to_bfloat16(weight).bits;
        std::memcpy(to, &bits, sizeof bits);
    }
}

}  // namespace nanolith
