// How long the host takes to plan a step's attention: median of 200 plans with memory that is there already.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "attention/plan/plan.h"
#include "cuda_host/llama_shape.h"

namespace nanolith::cuda {
namespace {

struct Case {
    const char* name;
    int sequences;
    int rows;    // of each
    int shared;  // tokens of a chunk in front of all; 0: none
    int own;     // tokens of each
};

constexpr Case kCases[] = {
    {"decode, 1 sequence of 32768", 1, 1, 0, 32768},
    {"decode, 16 sequences of 4096", 16, 1, 0, 4096},
    {"decode, 256 sequences of 4096", 256, 1, 0, 4096},
    {"decode, 16 after a chunk of 32768", 16, 1, 32768, 256},
    {"decode, 256 after a chunk of 32768", 256, 1, 32768, 256},
    {"prefill of 8192", 1, 8192, 0, 8192},
};

double median_us(const Case& c) {
    const PlanShape shape = llama_shape(128);
    std::vector<int32_t> pages;
    std::vector<Segment> segments;
    std::vector<Sequence> sequences;
    std::vector<int32_t> positions;
    const auto add_pages = [&](int tokens) {
        const auto first = static_cast<int32_t>(pages.size());
        for (int done = 0; done < tokens; done += shape.page_size) pages.push_back(static_cast<int32_t>(pages.size()));
        return first;
    };
    const int32_t chunk = add_pages(c.shared);
    for (int i = 0; i < c.sequences; ++i) {
        const auto first = static_cast<int32_t>(segments.size());
        if (c.shared > 0) segments.push_back({chunk, c.shared, 0});
        segments.push_back({add_pages(c.own), c.own, c.shared});
        sequences.push_back(
            {static_cast<int32_t>(positions.size()), c.rows, first, static_cast<int32_t>(segments.size()) - first});
        for (int row = 0; row < c.rows; ++row) positions.push_back(c.shared + c.own - c.rows + row);
    }
    AttentionPlanner planner(shape, static_cast<int64_t>(positions.size()));
    const AttentionStep input{pages, segments, sequences, positions};
    std::vector<double> times;
    for (int i = 0; i < 220; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        planner.plan(input);
        const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
        if (i >= 20) times.push_back(took.count());
    }
    std::nth_element(times.begin(), times.begin() + 100, times.end());
    return times[100];
}

}  // namespace
}  // namespace nanolith::cuda

int main() {
    for (const auto& c : nanolith::cuda::kCases) std::printf("%-40s %8.1f us\n", c.name, nanolith::cuda::median_us(c));
    return 0;
}
