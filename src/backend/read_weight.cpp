#include "backend/read_weight.h"

#include <algorithm>
#include <cstring>

#include "backend/compact_weight.h"
#include "base/convert.h"

namespace nanolith {
namespace {

template <typename T>
T unaligned(const std::byte* from) {
    T value{};
    std::memcpy(&value, from, sizeof(value));
    return value;
}

// Consecutive elements. Those that must be converted go through a buffer on the stack, a part at a time.
void read_run(const WeightView& weight, int64_t first, int64_t count, float* to) {
    if (weight.dtype == DType::f32) return read_elements(weight, first, count, to);
    constexpr int64_t kPiece = 2048;
    std::byte piece[kPiece * 2];
    for (int64_t done = 0; done < count; done += kPiece) {
        const int64_t part = std::min(kPiece, count - done);
        read_elements(weight, first + done, part, piece);
        for (int64_t i = 0; i < part; ++i) to[done + i] = number_at(weight.dtype, piece, i);
    }
}

// Columns [first, first + count) of a row, `row` being the one in the data.
void scale_run(const WeightScales& scales, int64_t row, int64_t first, int64_t count, float* values) {
    const int64_t factors = (scales.first_row + row) / scales.block_rows * scales.row_stride;
    for (int64_t done = 0; done < count;) {
        const int64_t col = first + done;
        const int64_t part = std::min(scales.block_cols - col % scales.block_cols, count - done);
        const float factor = number_at(scales.dtype, scales.data, factors + col / scales.block_cols);
        for (int64_t i = 0; i < part; ++i) values[done + i] *= factor;
        done += part;
    }
}

// Columns [first, first + count) of a row of a compact weight.
void expand_run(const WeightView& weight, int64_t row, int64_t first, int64_t count, float* to) {
    const CompactForm form = weight.compact->form();
    const float row_scale = weight.compact->row_scale(weight, row);
    for (int64_t done = 0; done < count;) {
        const int64_t offset = (first + done) % kCompactBlock;
        const int64_t part = std::min(kCompactBlock - offset, count - done);
        CompactBlock block;
        weight.compact->read_blocks(weight, row, (first + done) / kCompactBlock, 1, &block);
        expand_block(form, block, row_scale, offset, part, to + done);
        done += part;
    }
}

// The same of a row whose elements are not in the order of their columns: a look at all of them finds those that are
// wanted.
void expand_ordered(const WeightView& weight, int64_t row, int64_t first, int64_t count, float* to) {
    const CompactForm form = weight.compact->form();
    const float row_scale = weight.compact->row_scale(weight, row);
    for (int64_t done = 0; done < weight.cols; done += kCompactBlock) {
        const int64_t part = std::min(kCompactBlock, weight.cols - done);
        CompactBlock block;
        weight.compact->read_blocks(weight, row, done / kCompactBlock, 1, &block);
        float values[kCompactBlock];
        expand_block(form, block, row_scale, 0, part, values);
        for (int64_t i = 0; i < part; ++i) {
            const int64_t col = weight.columns[static_cast<size_t>(done + i)];
            if (col >= first && col < first + count) to[col - first] = values[i];
        }
    }
}

}  // namespace

float number_at(DType dtype, const std::byte* data, int64_t i) {
    const std::byte* const at = data + static_cast<size_t>(i) * dtype_bytes(dtype);
    switch (dtype) {
        case DType::f32:
            return unaligned<float>(at);
        case DType::f16:
            return to_float(Half{unaligned<uint16_t>(at)});
        case DType::bf16:
            return to_float(BFloat16{unaligned<uint16_t>(at)});
        case DType::f8_e4m3:
            break;
    }
    return to_float(Float8E4M3{unaligned<uint8_t>(at)});
}

int64_t stored_row(const WeightView& weight, int64_t output) {
    if (weight.order.empty()) return output;
    const auto group = static_cast<int64_t>(weight.order.size());
    return output / group * group + weight.order[output % group];
}

void read_elements(const WeightView& weight, int64_t first, int64_t count, void* to) {
    const std::byte* const from = weight.data + static_cast<size_t>(first) * dtype_bytes(weight.dtype);
    const size_t bytes = static_cast<size_t>(count) * dtype_bytes(weight.dtype);
    if (weight.source != nullptr) {
        weight.source->read(from, bytes, to);
    } else {
        std::memcpy(to, from, bytes);
    }
}

void read_weight(const WeightView& weight, int64_t first, int64_t count, float* to) {
    if (weight.plain()) return read_run(weight, first, count, to);
    // A vector is a matrix with an output in each row.
    const int64_t cols = weight.rows == 1 && !weight.order.empty() ? 1 : weight.cols;
    for (int64_t done = 0; done < count;) {
        const int64_t output = (first + done) / cols;
        const int64_t col = (first + done) % cols;
        const int64_t part = std::min(cols - col, count - done);
        const int64_t row = stored_row(weight, output);
        if (!weight.columns.empty()) {
            expand_ordered(weight, row, col, part, to + done);
        } else if (!weight.wide()) {
            expand_run(weight, row, col, part, to + done);
        } else {
            read_run(weight, row * cols + col, part, to + done);
            if (weight.scales.data != nullptr) scale_run(weight.scales, row, col, part, to + done);
        }
        done += part;
    }
}

}  // namespace nanolith
