// Blocks of GGUF files against what the `gguf` package makes of them: tests/unit/data/make_gguf_blocks.py.
#include "backend/block_type.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

namespace nanolith::testing {
namespace {

// NANOLITH_GGUF_BLOCKS names another file of the same script.
std::string read_blocks() {
    const char* const other = std::getenv("NANOLITH_GGUF_BLOCKS");
    std::ifstream file(other != nullptr ? other : std::string(NL_UNIT_DATA) + "/gguf_blocks.bin", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

TEST(BlockType, DecodesToTheReferencesBits) {
    const std::string bytes = read_blocks();
    std::set<uint32_t> seen;
    for (size_t at = 0; at < bytes.size();) {
        uint32_t head[2];
        std::memcpy(head, bytes.data() + at, sizeof head);
        at += sizeof head;
        const BlockType* const type = find_block_type(head[0]);
        ASSERT_NE(type, nullptr) << head[0];
        SCOPED_TRACE(type->name);
        seen.insert(head[0]);
        const size_t count = head[1];
        const size_t elements = count * static_cast<size_t>(type->elements);
        ASSERT_LE(at + count * static_cast<size_t>(type->bytes) + elements * sizeof(uint32_t), bytes.size());
        std::vector<float> values(elements);
        type->decode(reinterpret_cast<const std::byte*>(bytes.data() + at), static_cast<int64_t>(count), values.data());
        at += count * static_cast<size_t>(type->bytes);
        for (size_t i = 0; i < elements; ++i) {
            uint32_t expected = 0;
            uint32_t found = 0;
            std::memcpy(&expected, bytes.data() + at + i * sizeof expected, sizeof expected);
            std::memcpy(&found, &values[i], sizeof found);
            ASSERT_EQ(found, expected) << "element " << i << " is " << values[i];
        }
        at += elements * sizeof(uint32_t);
    }
    EXPECT_EQ(seen.size(), block_types().size());
}

TEST(BlockType, NamesThoseThatItDoesNotDecode) {
    EXPECT_EQ(find_block_type(16), nullptr);
    EXPECT_STREQ(other_block_type_name(16), "IQ2_XXS");
    EXPECT_EQ(other_block_type_name(12), nullptr);
    EXPECT_EQ(other_block_type_name(4711), nullptr);
}

}  // namespace
}  // namespace nanolith::testing
