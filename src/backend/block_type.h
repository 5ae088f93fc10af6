// The block formats of GGUF files: 32 or 256 weights of a row share scales and are stored together. Each is one of the
// forms of compact weights (compact_weight.h), packed in its own way; a form's values follow the float32 arithmetic of
// the `gguf` Python package step by step, so that each is its value to the bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/compact_weight.h"

namespace nanolith {

struct BlockType {
    uint32_t number;   // of the type in GGUF files
    const char* name;  // "Q4_K"
    int32_t elements;  // of a block, consecutive in a row; 1 for plain numbers
    int32_t bytes;     // of a block
    // Where numbers stand alone: to[i] = number i.
    void (*convert)(const std::byte* numbers, int64_t count, float* to) = nullptr;
    // Where they are in blocks: what they are, and how one block becomes the weights from `first` on of a compact
    // block, with what the form has of their groups' scales. `first` is a multiple of `elements`.
    CompactForm form = {};
    void (*unpack)(const std::byte* block, int64_t first, CompactBlock& to) = nullptr;

    [[nodiscard]] bool quantised() const { return elements > 1; }
    // to[i] = element i of the `count` blocks, which need no alignment.
    void decode(const std::byte* blocks, int64_t count, float* to) const;
};

// Most elements of a block.
constexpr int32_t kMaxBlockElements = 256;
// Most bytes of an element, in any block type.
constexpr int32_t kMaxElementBytes = 4;

// All that are decoded here, in the order in which messages name them.
std::span<const BlockType> block_types();
// The type of that number; null where it is not decoded here.
const BlockType* find_block_type(uint32_t number);
// What the format calls a type that is not decoded here ("IQ2_XXS"); null where it is not known.
const char* other_block_type_name(uint32_t number);

}  // namespace nanolith
