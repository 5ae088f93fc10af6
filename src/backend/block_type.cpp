#include "backend/block_type.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/convert.h"

namespace nanolith {
namespace {

constexpr int32_t kSmall = 32;   // elements of a block of Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 and IQ4_NL
constexpr int32_t kLarge = 256;  // elements of a block of the K types and IQ4_XS

// The values of a 4-bit code in the non-linear types.
constexpr std::array<int8_t, 16> kNonLinear = {-127, -104, -83, -65, -49, -35, -22, -10,
                                               1,    13,   25,  38,  53,  69,  89,  113};

uint8_t byte_at(const std::byte* from, int32_t i) {
    return std::to_integer<uint8_t>(from[i]);
}

uint32_t low(uint8_t byte) {
    return byte & 0xFU;
}
uint32_t high(uint8_t byte) {
    return static_cast<uint32_t>(byte) >> 4U;
}

uint16_t u16_at(const std::byte* from) {
    return static_cast<uint16_t>(byte_at(from, 0) | static_cast<uint32_t>(byte_at(from, 1)) << 8U);
}

Half half_at(const std::byte* from) {
    return {u16_at(from)};
}

void convert_f32(const std::byte* from, int64_t count, float* to) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
}

void convert_f16(const std::byte* from, int64_t count, float* to) {
    for (int64_t i = 0; i < count; ++i) to[i] = to_float(half_at(from + 2 * i));
}

void convert_bf16(const std::byte* from, int64_t count, float* to) {
    for (int64_t i = 0; i < count; ++i) to[i] = to_float(BFloat16{u16_at(from + 2 * i)});
}

// Eight bytes as one number, of which bitwise operations change all at once.
template <typename Byte>
uint64_t eight_at(const Byte* from) {
    uint64_t eight = 0;
    std::memcpy(&eight, from, sizeof(eight));
    return eight;
}
void put_eight(uint64_t eight, int8_t* to) {
    std::memcpy(to, &eight, sizeof(eight));
}
// The byte in each of the eight places.
constexpr uint64_t eight_of(uint8_t byte) {
    return byte * 0x0101010101010101U;
}

// Unpacks `count` bytes, a multiple of eight, that hold two codes of 4 bits each: the low four bits of byte i are code
// i, the high four bits code count + i.
void unpack_halves(const std::byte* from, int32_t count, int8_t* codes) {
    for (int32_t i = 0; i < count; i += 8) {
        const uint64_t eight = eight_at(from + i);
        put_eight(eight & eight_of(0xF), codes + i);
        put_eight(eight >> 4U & eight_of(0xF), codes + count + i);
    }
}

// Codes of 4 bits become values out of the table.
void look_up(int8_t* codes) {
    for (int32_t i = 0; i < kSmall; ++i) codes[i] = kNonLinear[codes[i]];
}

// f16 scale, 16 bytes of codes.
void unpack_q4_0(const std::byte* block, int64_t first, CompactBlock& to) {
    to.scales[first / kSmall] = half_at(block);
    unpack_halves(block + 2, kSmall / 2, to.codes + first);
}

// f16 scale, f16 minimum, which is added.
void unpack_scale_and_minimum(const std::byte* block, int64_t first, CompactBlock& to) {
    to.scales[first / kSmall] = half_at(block);
    to.mins[first / kSmall] = Half{static_cast<uint16_t>(u16_at(block + 2) ^ 0x8000U)};
}

// Scale, minimum, 16 bytes of codes.
void unpack_q4_1(const std::byte* block, int64_t first, CompactBlock& to) {
    unpack_scale_and_minimum(block, first, to);
    unpack_halves(block + 4, kSmall / 2, to.codes + first);
}

// 32 fifth bits, bit i of element i, then 16 bytes of codes.
void unpack_5_bits(const std::byte* from, int32_t zero, int8_t* codes) {
    unpack_halves(from + 4, kSmall / 2, codes);
    for (int32_t i = 0; i < kSmall; i += 8) {
        // Byte j of eight gets bit j of this one alone, which then carries into its highest bit; that becomes the
        // fifth.
        const uint64_t alone = (byte_at(from, i / 8) * 0x0101010101010101U) & 0x8040201008040201U;
        const uint64_t fifths = ((alone + 0x7F7F7F7F7F7F7F7FU) >> 3U) & 0x1010101010101010U;
        put_eight(eight_at(codes + i) | fifths, codes + i);
    }
    for (int32_t i = 0; i < kSmall; ++i) codes[i] = static_cast<int8_t>(codes[i] - zero);
}

// f16 scale, codes of 5 bits.
void unpack_q5_0(const std::byte* block, int64_t first, CompactBlock& to) {
    to.scales[first / kSmall] = half_at(block);
    unpack_5_bits(block + 2, 16, to.codes + first);
}

// Scale, minimum, codes of 5 bits.
void unpack_q5_1(const std::byte* block, int64_t first, CompactBlock& to) {
    unpack_scale_and_minimum(block, first, to);
    unpack_5_bits(block + 4, 0, to.codes + first);
}

// f16 scale, 32 signed bytes.
void unpack_q8_0(const std::byte* block, int64_t first, CompactBlock& to) {
    to.scales[first / kSmall] = half_at(block);
    std::memcpy(to.codes + first, block + 2, kSmall);
}

// 64 bytes of 2-bit codes: a half of them has four groups of 32 elements, one for each pair of bits.
void unpack_2_bits(const std::byte* from, int8_t* codes) {
    for (uint32_t group = 0; group < 8; ++group) {
        for (uint32_t i = 0; i < 32; i += 8)
            put_eight(eight_at(from + group / 4 * 32 + i) >> (group % 4 * 2) & eight_of(3), codes + group * 32 + i);
    }
}

// Sets bit `place` of each code, which has none there, whose bit is set: bit `group` of byte i of 32.
void add_bits(const std::byte* from, uint32_t place, int8_t* codes) {
    for (uint32_t group = 0; group < 8; ++group) {
        for (uint32_t i = 0; i < 32; i += 8) {
            int8_t* const eight = codes + group * 32 + i;
            const uint64_t bits = eight_at(from + i) >> group & eight_of(1);
            put_eight(eight_at(eight) | bits << place, eight);
        }
    }
}

// 16 bytes of 4-bit scales and minimums, 64 bytes of 2-bit codes, f16 scale of scales, f16 scale of minimums.
void unpack_q2_k(const std::byte* block, int64_t /*first*/, CompactBlock& to) {
    to.scale = half_at(block + 80);
    to.min = half_at(block + 82);
    for (int32_t group = 0; group < 16; ++group) {
        to.factors[group] = static_cast<int8_t>(low(byte_at(block, group)));
        to.min_factors[group] = static_cast<int8_t>(high(byte_at(block, group)));
    }
    unpack_2_bits(block + 16, to.codes);
}

// 32 bytes of third bits, 64 bytes of 2-bit codes, 16 scales of 6 bits in 12 bytes, f16 scale of scales.
void unpack_q3_k(const std::byte* block, int64_t /*first*/, CompactBlock& to) {
    const std::byte* const packed = block + 96;
    to.scale = half_at(block + 108);
    for (int32_t group = 0; group < 16; ++group) {
        const uint32_t four = group < 8 ? low(byte_at(packed, group)) : high(byte_at(packed, group - 8));
        const uint32_t two = (byte_at(packed + 8, group % 4) >> static_cast<uint32_t>(group / 4 * 2)) & 3U;
        to.factors[group] = static_cast<int8_t>(static_cast<int32_t>(four | two << 4U) - 32);
    }
    unpack_2_bits(block + 32, to.codes);
    add_bits(block, 2, to.codes);
}

// f16 scales of scales and of minimums, then 8 scales and 8 minimums of 6 bits in 12 bytes.
void unpack_6_bit_scales(const std::byte* block, CompactBlock& to) {
    to.scale = half_at(block);
    to.min = half_at(block + 2);
    for (int32_t i = 0; i < 4; ++i) {
        const uint8_t scale = byte_at(block + 4, i);
        const uint8_t minimum = byte_at(block + 8, i);
        const uint8_t both = byte_at(block + 12, i);
        to.factors[i] = static_cast<int8_t>(scale & 0x3FU);
        to.factors[4 + i] = static_cast<int8_t>(low(both) | ((scale >> 2U) & 0x30U));
        to.min_factors[i] = static_cast<int8_t>(minimum & 0x3FU);
        to.min_factors[4 + i] = static_cast<int8_t>(high(both) | ((minimum >> 2U) & 0x30U));
    }
}

// 128 bytes of codes: 32 bytes have the elements of two groups of 32.
void unpack_4_bits(const std::byte* from, int8_t* codes) {
    for (int32_t pair = 0; pair < 4; ++pair) unpack_halves(from + pair * 32, 32, codes + pair * 64);
}

// Scales, then codes.
void unpack_q4_k(const std::byte* block, int64_t /*first*/, CompactBlock& to) {
    unpack_6_bit_scales(block, to);
    unpack_4_bits(block + 16, to.codes);
}

// As Q4_K, with 32 bytes of fifth bits before the codes.
void unpack_q5_k(const std::byte* block, int64_t /*first*/, CompactBlock& to) {
    unpack_6_bit_scales(block, to);
    unpack_4_bits(block + 48, to.codes);
    add_bits(block + 16, 4, to.codes);
}

// 128 bytes of low halves, 64 bytes of pairs of high bits, 16 signed scales, f16 scale of scales.
void unpack_q6_k(const std::byte* block, int64_t /*first*/, CompactBlock& to) {
    to.scale = half_at(block + 208);
    std::memcpy(to.factors, block + 192, sizeof(to.factors));
    unpack_2_bits(block + 128, to.codes);
    for (uint32_t group = 0; group < 8; ++group) {  // of 32 elements
        const std::byte* const four = block + group / 4 * 64 + group % 2 * 32;
        const uint32_t shift = group % 4 < 2 ? 0 : 4;
        for (uint32_t i = 0; i < 32; i += 8) {
            int8_t* const eight = to.codes + group * 32 + i;
            const uint64_t code = eight_at(eight) << 4U | (eight_at(four + i) >> shift & eight_of(0xF));
            // Subtracts 32 from each of the eight bytes, which are below 64. A subtraction would borrow from the next
            // byte. Adding 0x60 (256 - 32 - 128) carries nothing, and flipping the highest bit adds the missing 128.
            put_eight((code + eight_of(0x60)) ^ eight_of(0x80), eight);
        }
    }
}

// As Q4_0, with values out of a table.
void unpack_iq4_nl(const std::byte* block, int64_t first, CompactBlock& to) {
    unpack_q4_0(block, first, to);
    look_up(to.codes + first);
}

// f16 scale of scales, high and low bits of 8 scales of 6 bits, 8 groups of 16 bytes of codes.
void unpack_iq4_xs(const std::byte* block, int64_t /*first*/, CompactBlock& to) {
    to.scale = half_at(block);
    const uint32_t high_bits = u16_at(block + 2);
    for (int32_t group = 0; group < 8; ++group) {
        const uint8_t both = byte_at(block + 4, group / 2);
        const uint32_t bits =
            (group % 2 == 0 ? low(both) : high(both)) | ((high_bits >> static_cast<uint32_t>(group * 2)) & 3U) << 4U;
        to.factors[group] = static_cast<int8_t>(static_cast<int32_t>(bits) - 32);
        unpack_halves(block + 8 + group * 16, 16, to.codes + group * 32);
        look_up(to.codes + group * 32);
    }
}

constexpr CodeKind kInt8 = CodeKind::int8;
constexpr CodeKind kBits4 = CodeKind::bits4;
constexpr ScaleKind kOfGroup = ScaleKind::half;
constexpr ScaleKind kOfBlock = ScaleKind::two;

constexpr BlockType alone(uint32_t number, const char* name, int32_t bytes,
                          void (*convert)(const std::byte*, int64_t, float*)) {
    return {.number = number, .name = name, .elements = 1, .bytes = bytes, .convert = convert};
}
constexpr BlockType small(uint32_t number, const char* name, int32_t bytes, const CompactForm& form,
                          void (*unpack)(const std::byte*, int64_t, CompactBlock&)) {
    return {.number = number, .name = name, .elements = kSmall, .bytes = bytes, .form = form, .unpack = unpack};
}
constexpr BlockType large(uint32_t number, const char* name, int32_t bytes, const CompactForm& form,
                          void (*unpack)(const std::byte*, int64_t, CompactBlock&)) {
    return {.number = number, .name = name, .elements = kLarge, .bytes = bytes, .form = form, .unpack = unpack};
}

// A form: codes, scales, their group, what is subtracted from a code, whether there are minimums.
constexpr std::array kBlockTypes = {
    alone(0, "F32", 4, convert_f32),
    alone(1, "F16", 2, convert_f16),
    alone(30, "BF16", 2, convert_bf16),
    small(8, "Q8_0", 34, {kInt8, kOfGroup, 32, 0, false}, unpack_q8_0),
    small(2, "Q4_0", 18, {kBits4, kOfGroup, 32, 8, false}, unpack_q4_0),
    small(3, "Q4_1", 20, {kBits4, kOfGroup, 32, 0, true}, unpack_q4_1),
    small(6, "Q5_0", 22, {kInt8, kOfGroup, 32, 0, false}, unpack_q5_0),
    small(7, "Q5_1", 24, {kInt8, kOfGroup, 32, 0, true}, unpack_q5_1),
    large(10, "Q2_K", 84, {kBits4, kOfBlock, 16, 0, true}, unpack_q2_k),
    large(11, "Q3_K", 110, {kBits4, kOfBlock, 16, 4, false}, unpack_q3_k),
    large(12, "Q4_K", 144, {kBits4, kOfBlock, 32, 0, true}, unpack_q4_k),
    large(13, "Q5_K", 176, {kInt8, kOfBlock, 32, 0, true}, unpack_q5_k),
    large(14, "Q6_K", 210, {kInt8, kOfBlock, 16, 0, false}, unpack_q6_k),
    small(20, "IQ4_NL", 18, {kInt8, kOfGroup, 32, 0, false}, unpack_iq4_nl),
    large(23, "IQ4_XS", 136, {kInt8, kOfBlock, 32, 0, false}, unpack_iq4_xs),
};

// Types of the format that are not decoded here.
struct Other {
    uint32_t number;
    const char* name;
};
constexpr std::array kOthers = {
    Other{9, "Q8_1"},   Other{15, "Q8_K"},  Other{16, "IQ2_XXS"}, Other{17, "IQ2_XS"}, Other{18, "IQ3_XXS"},
    Other{19, "IQ1_S"}, Other{21, "IQ3_S"}, Other{22, "IQ2_S"},   Other{24, "I8"},     Other{25, "I16"},
    Other{26, "I32"},   Other{27, "I64"},   Other{28, "F64"},     Other{29, "IQ1_M"},  Other{34, "TQ1_0"},
    Other{35, "TQ2_0"}, Other{39, "MXFP4"}, Other{40, "NVFP4"},
};

}  // namespace

void BlockType::decode(const std::byte* blocks, int64_t count, float* to) const {
    if (!quantised()) return convert(blocks, count, to);
    CompactBlock block{};
    for (int64_t i = 0; i < count; ++i) {
        unpack(blocks + i * bytes, 0, block);
        expand_block(form, block, 1, 0, elements, to + i * elements);
    }
}

std::span<const BlockType> block_types() {
    return kBlockTypes;
}

const BlockType* find_block_type(uint32_t number) {
    const auto* const found = std::ranges::find(kBlockTypes, number, &BlockType::number);
    return found != kBlockTypes.end() ? found : nullptr;
}

const char* other_block_type_name(uint32_t number) {
    const auto* const found = std::ranges::find(kOthers, number, &Other::number);
    return found != kOthers.end() ? found->name : nullptr;
}

}  // namespace nanolith
