// Where a step's keys and values are written. All other pages can be read before the launch that writes has ended.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace nanolith::cuda {

// Where the keys and values of a step's rows are written: as Batch has them. Empty: before, by another launch.
struct WrittenRows {
    std::span<const int32_t> slots;          // [rows]
    std::span<const int32_t> key_positions;  // [rows]
};

// The pages that the rows of a step write to.
class WrittenPages {
  public:
    // Takes the place of what was found before. Cost: n log n in the number of pages.
    void find(const WrittenRows& written, int32_t page_size);

    // True for every page where it is not known which ones are written.
    [[nodiscard]] bool contains(int32_t page) const;

  private:
    bool known_ = false;
    std::vector<int32_t> pages_;  // ascending
};

}  // namespace nanolith::cuda
