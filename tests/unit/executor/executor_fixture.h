// What the operator tests of every backend share: a backend and a dtype to test, and how far its logits may be from the
// float64 reference.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <ostream>
#include <random>
#include <string>

#include "backend/backend.h"
#include "support/random_model.h"
#include "unit/executor/paged_harness.h"

namespace nanolith::testing {

struct Case {
    const char* name;
    bool cuda;
    DType dtype;
};
inline void PrintTo(const Case& c, std::ostream* out) {
    *out << c.name;
}

// How far logits may be from the reference, which has the same weights.
//
// float32: rounding alone, about 1e-6 an operation. The bound is of the largest difference, against the largest logit.
//
// 16 bits: inputs of products, keys, values and attention's output are rounded to the dtype, each a relative error of
// u / sqrt(3) (root mean square) with u = 2^-9 for bfloat16 and 2^-12 for float16. About five of them come one after
// the other in a layer, softmax amplifies those in the scores by their size (here about 2), and two or three layers add
// up: sqrt(3 * 5) * 2 * u / sqrt(3), about 4.5 u. A single logit may be several times that off, so the bound, 10 u, is
// on the relative L2 norm over all logits of the run.
struct Bound {
    bool use_highest;
    double limit;
};
inline Bound bound(DType dtype) {
    if (dtype == DType::f32) return {true, 1e-4};
    return {false, 10 * (dtype == DType::bf16 ? 0x1p-9 : 0x1p-12)};
}

inline double measure(DType dtype, const Deviation& deviation) {
    return bound(dtype).use_highest ? deviation.highest : deviation.relative;
}

class ExecutorTest : public ::testing::TestWithParam<Case> {
  protected:
    void SetUp() override {
        // Small models gain nothing from more threads, and busy machines lose much.
        auto opened = open_backend(1);
        if (!opened.ok() && GetParam().cuda) GTEST_SKIP() << "no GPU: " << opened.error().message;
        ASSERT_TRUE(opened.ok()) << opened.error().message;
        backend_ = std::move(*opened);
        // NANOLITH_TEST_SEED runs a test again.
        const char* const told = std::getenv("NANOLITH_TEST_SEED");
        seed_ = told != nullptr ? std::strtoull(told, nullptr, 10) : std::random_device{}();
        RecordProperty("seed", std::to_string(seed_));
        std::printf("seed %llu\n", static_cast<unsigned long long>(seed_));
    }

    // The device under test; the CPU with so many threads.
    static Result<std::unique_ptr<Backend>> open_backend(int32_t num_threads) {
        return GetParam().cuda ? open_cuda_backend(0) : open_cpu_backend(num_threads);
    }

    // Without warming up, which takes longer than the test itself; steps_in_flight_test.cpp has executors that do.
    ExecutorOptions options(int32_t page_size, int32_t num_pages, int32_t max_rows = 100) const {
        ExecutorOptions options;
        options.warm_up = false;
        options.dtype = GetParam().dtype;
        options.page_size = page_size;
        options.num_pages = num_pages;
        options.max_rows = max_rows;
        options.max_output_rows = max_rows;
        options.max_kept_logits = max_rows;
        return options;
    }

    void expect_close(const Deviation& deviation, const std::string& what) {
        EXPECT_TRUE(deviation.finite) << what;
        EXPECT_LT(measure(GetParam().dtype, deviation), bound(GetParam().dtype).limit) << what;
        worst_ = std::max(worst_, measure(GetParam().dtype, deviation));
    }

    // Prefills of so many tokens, each in one step. Of models with experts the tokens choose them clearly.
    void expect_prefills(PagedHarness& harness, bool has_experts, std::initializer_list<int32_t> counts,
                         const std::string& what) {
        for (const int32_t count : counts) {
            Store cache;
            Job job{&cache, 0, {}, {}};
            job.tokens = has_experts ? harness.clear_tokens(job, count, 0.1) : harness.tokens(count);
            expect_close(harness.run({job}), what + ", rows: " + std::to_string(count));
        }
    }

    void TearDown() override {
        if (worst_ > 0) std::printf("worst deviation %.2g, bound %.2g\n", worst_, bound(GetParam().dtype).limit);
    }

    std::unique_ptr<Backend> backend_;
    uint64_t seed_ = 0;
    double worst_ = 0;
};

inline const Case kCases[] = {{"CPU_float32", false, DType::f32},
                              {"CPU_bfloat16", false, DType::bf16},
                              {"CUDA_float32", true, DType::f32},
                              {"CUDA_float16", true, DType::f16},
                              {"CUDA_bfloat16", true, DType::bf16}};

}  // namespace nanolith::testing
