// The layout of rows of heads that kernels read and write, against the formula that it stands for.
#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <random>

#include "runtime/row_layout.h"

namespace nanolith::cuda {
namespace {

TEST(RowLayout, IsTheFormula) {
    const auto seed = std::random_device()();
    SCOPED_TRACE(seed);
    std::mt19937 engine(seed);
    const auto up_to = [&](int bits) {
        return std::uniform_int_distribution<int32_t>(0, bits == 31 ? INT_MAX : (1 << bits) - 1)(engine);
    };
    for (int turn = 0; turn < 200000; ++turn) {
        const int64_t row_stride = up_to(20);
        const int64_t head_stride = up_to(20);
        const int64_t block_stride = up_to(31);
        int32_t rows = std::max(1, up_to(1 + turn % 31));
        if (turn % 3 == 0) rows = std::min(INT_MAX - 1, 1 << turn % 31) + turn % 2;  // powers of two and the next
        const int32_t head = up_to(7);
        const RowLayout layout(row_stride, head_stride, block_stride, rows);
        for (const int64_t near :
             {int64_t{up_to(31)}, int64_t{up_to(31)} / rows * rows, int64_t{INT_MAX}, int64_t{0}}) {
            for (const int64_t row : {near - 1, near}) {
                if (row < 0) continue;
                ASSERT_EQ(layout.offset(static_cast<int>(row), head),
                          row / rows * block_stride + row % rows * row_stride + head * head_stride)
                    << "row " << row << " of blocks of " << rows;
            }
        }
        ASSERT_EQ(RowLayout(row_stride, head_stride).offset(INT_MAX, head), INT_MAX * row_stride + head * head_stride);
    }
}

}  // namespace
}  // namespace nanolith::cuda
