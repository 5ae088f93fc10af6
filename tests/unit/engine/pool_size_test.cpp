#include "engine/pool_size.h"

#include <gtest/gtest.h>

namespace nanolith {
namespace {

constexpr PoolRequest kRequest{.wanted = 0,
                               .page_bytes = 1000,
                               .pages_per_context = 10,
                               .page_size = 64,
                               .memory = 1'000'000,
                               .weight_bytes = 500'000};

TEST(PoolSize, BytesOfAPageAreKAndVOfEveryLayer) {
    ModelSpec spec;
    spec.num_layers = 3;
    spec.num_kv_heads = 2;
    spec.head_dim = 64;
    EXPECT_EQ(page_bytes(spec, 16, DType::f32), 3 * 2 * 2 * 64 * 16 * 4);
    EXPECT_EQ(page_bytes(spec, 16, DType::bf16), 3 * 2 * 2 * 64 * 16 * 2);
    EXPECT_EQ(page_bytes(spec, 16, DType::f8_e4m3), 3 * 2 * 2 * 64 * 16);
}

TEST(PoolSize, DefaultIsSixteenContextsWhereMemoryAllows) {
    EXPECT_EQ(*choose_num_pages(kRequest), 160);
    PoolRequest tight = kRequest;
    tight.memory = 600'000;  // 100,000 left, half of it for pages
    EXPECT_EQ(*choose_num_pages(tight), 50);
    tight.memory = 0;
    EXPECT_EQ(*choose_num_pages(tight), 1);
}

TEST(PoolSize, AWantedPoolMustFit) {
    PoolRequest request = kRequest;
    request.wanted = 500;
    EXPECT_EQ(*choose_num_pages(request), 500);
    request.wanted = 501;
    ASSERT_FALSE(choose_num_pages(request).ok());
    EXPECT_EQ(choose_num_pages(request).error().status, NL_ERROR_OUT_OF_MEMORY);
    request.wanted = INT64_MAX;
    EXPECT_EQ(choose_num_pages(request).error().status, NL_ERROR_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace nanolith
