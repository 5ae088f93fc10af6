// How a step's wide and narrow items share the multiprocessors. Decode rows behind a prefix that they share have both:
// the prefix is a wide item, bound by products, and what each row has of its own a narrow one, bound by memory. Side by
// side they take less time than one after the other.
#pragma once

#include <cstdint>
#include <span>

namespace nanolith::cuda {

struct PlanShape;

// Multiprocessors and blocks are counted for each KV head, tiles are of 64 tokens.
struct Overlap {
    int places = 1;         // multiprocessors that wide items are cut for
    int early = 0;          // narrow blocks that run beside them; the others begin when they have ended
    double ahead = 0;       // tiles that an early block does before the wide items end
    double share = 0;       // tiles of an early block
    double late_share = 0;  // tiles of each other block
};

// Tiles of each piece of a wide line, where `all_tiles` of all wide lines go to so many places.
int32_t wide_step(int32_t tiles, int64_t all_tiles, int places);

// What is to be divided.
struct OverlapWork {
    std::span<const int32_t> wide_tiles;  // of each wide line
    int64_t read_tiles = 0;               // of these, those that come from memory: lines of the same tokens share them
    int64_t narrow_lines = 0;
    int64_t narrow_tiles = 0;
};

// The division that is predicted to end first.
Overlap choose_overlap(const PlanShape& shape, const OverlapWork& work);

}  // namespace nanolith::cuda
