#include "backend/block_type.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/convert.h"

// Compiled with -ffp-contract=off: a fused multiply and add would round once where the reference rounds twice.
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

float half_at(const std::byte* from) {
    return half_to_float(u16_at(from));
}

// Calls decode(block, to) for one block after the other.
template <int32_t Elements, int32_t Bytes, typename Decode>
void each_block(const std::byte* blocks, int64_t count, float* to, const Decode& decode) {
    for (int64_t i = 0; i < count; ++i, blocks += Bytes, to += Elements) decode(blocks, to);
}

void decode_f32(const std::byte* from, int64_t count, float* to) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
}

void decode_f16(const std::byte* from, int64_t count, float* to) {
    for (int64_t i = 0; i < count; ++i) to[i] = half_at(from + 2 * i);
}

void decode_bf16(const std::byte* from, int64_t count, float* to) {
    for (int64_t i = 0; i < count; ++i) to[i] = to_float(BFloat16{u16_at(from + 2 * i)});
}

// f16 scale, 16 bytes of codes: the low halves are the first 16 elements.
void decode_q4_0(const std::byte* blocks, int64_t count, float* to) {
    each_block<kSmall, 18>(blocks, count, to, [](const std::byte* block, float* out) {
        const float scale = half_at(block);
        for (int32_t i = 0; i < 16; ++i) {
            const uint8_t codes = byte_at(block + 2, i);
            out[i] = scale * static_cast<float>(static_cast<int32_t>(low(codes)) - 8);
            out[16 + i] = scale * static_cast<float>(static_cast<int32_t>(high(codes)) - 8);
        }
    });
}

// f16 scale, f16 minimum, 16 bytes of codes.
void decode_q4_1(const std::byte* blocks, int64_t count, float* to) {
    each_block<kSmall, 20>(blocks, count, to, [](const std::byte* block, float* out) {
        const float scale = half_at(block);
        const float minimum = half_at(block + 2);
        for (int32_t i = 0; i < 16; ++i) {
            const uint8_t codes = byte_at(block + 4, i);
            out[i] = scale * static_cast<float>(low(codes)) + minimum;
            out[16 + i] = scale * static_cast<float>(high(codes)) + minimum;
        }
    });
}

// The fifth bits of 32 codes, bit i of element i.
uint32_t fifth_bits(const std::byte* from) {
    uint32_t bits = 0;
    for (int32_t i = 0; i < 4; ++i) bits |= static_cast<uint32_t>(byte_at(from, i)) << static_cast<uint32_t>(8 * i);
    return bits;
}
uint32_t fifth(uint32_t bits, int32_t i) {
    return ((bits >> static_cast<uint32_t>(i)) & 1U) << 4U;
}

// f16 scale, 32 fifth bits, 16 bytes of codes.
void decode_q5_0(const std::byte* blocks, int64_t count, float* to) {
    each_block<kSmall, 22>(blocks, count, to, [](const std::byte* block, float* out) {
        const float scale = half_at(block);
        const uint32_t bits = fifth_bits(block + 2);
        for (int32_t i = 0; i < 16; ++i) {
            const uint8_t codes = byte_at(block + 6, i);
            out[i] = scale * static_cast<float>(static_cast<int32_t>(low(codes) | fifth(bits, i)) - 16);
            out[16 + i] = scale * static_cast<float>(static_cast<int32_t>(high(codes) | fifth(bits, 16 + i)) - 16);
        }
    });
}

// f16 scale, f16 minimum, 32 fifth bits, 16 bytes of codes.
void decode_q5_1(const std::byte* blocks, int64_t count, float* to) {
    each_block<kSmall, 24>(blocks, count, to, [](const std::byte* block, float* out) {
        const float scale = half_at(block);
        const float minimum = half_at(block + 2);
        const uint32_t bits = fifth_bits(block + 4);
        for (int32_t i = 0; i < 16; ++i) {
            const uint8_t codes = byte_at(block + 8, i);
            out[i] = scale * static_cast<float>(low(codes) | fifth(bits, i)) + minimum;
            out[16 + i] = scale * static_cast<float>(high(codes) | fifth(bits, 16 + i)) + minimum;
        }
    });
}

// f16 scale, 32 signed bytes.
void decode_q8_0(const std::byte* blocks, int64_t count, float* to) {
    each_block<kSmall, 34>(blocks, count, to, [](const std::byte* block, float* out) {
        const float scale = half_at(block);
        for (int32_t i = 0; i < kSmall; ++i)
            out[i] = scale * static_cast<float>(static_cast<int8_t>(byte_at(block + 2, i)));
    });
}

// 16 bytes of 4-bit scales and minimums, 64 bytes of 2-bit codes, f16 scale of scales, f16 scale of minimums. A half of
// the codes' bytes has four groups of 32 elements, one for each pair of bits.
void decode_q2_k(const std::byte* blocks, int64_t count, float* to) {
    each_block<kLarge, 84>(blocks, count, to, [](const std::byte* block, float* out) {
        const std::byte* const codes = block + 16;
        const float scale = half_at(block + 80);
        const float minimum = half_at(block + 82);
        for (int32_t i = 0; i < kLarge; ++i) {
            const int32_t part = i / 128;
            const auto shift = static_cast<uint32_t>(i % 128 / 32 * 2);
            const uint8_t both = byte_at(block, i / 16);
            const auto code = static_cast<float>((byte_at(codes, part * 32 + i % 32) >> shift) & 3U);
            out[i] = (scale * static_cast<float>(low(both))) * code - minimum * static_cast<float>(high(both));
        }
    });
}

// 32 bytes of third bits, 64 bytes of 2-bit codes, 16 scales of 6 bits in 12 bytes, f16 scale of scales.
void decode_q3_k(const std::byte* blocks, int64_t count, float* to) {
    each_block<kLarge, 110>(blocks, count, to, [](const std::byte* block, float* out) {
        const std::byte* const codes = block + 32;
        const std::byte* const packed = block + 96;
        const float scale = half_at(block + 108);
        std::array<float, 16> scales{};
        for (int32_t i = 0; i < 16; ++i) {
            const uint32_t four = i < 8 ? low(byte_at(packed, i)) : high(byte_at(packed, i - 8));
            const uint32_t two = (byte_at(packed + 8, i % 4) >> static_cast<uint32_t>(i / 4 * 2)) & 3U;
            scales[i] = scale * static_cast<float>(static_cast<int32_t>(four | two << 4U) - 32);
        }
        for (int32_t i = 0; i < kLarge; ++i) {
            const auto shift = static_cast<uint32_t>(i % 128 / 32 * 2);
            const auto two = static_cast<int32_t>((byte_at(codes, i / 128 * 32 + i % 32) >> shift) & 3U);
            const bool is_low = ((byte_at(block, i % 32) >> static_cast<uint32_t>(i / 32)) & 1U) == 0;
            out[i] = scales[i / 16] * static_cast<float>(two - (is_low ? 4 : 0));
        }
    });
}

// The 8 scales and 8 minimums of 6 bits that Q4_K and Q5_K keep in 12 bytes.
struct ScalesAndMinimums {
    std::array<float, 8> scales;
    std::array<float, 8> minimums;
};

// `block` begins with the f16 scales of both.
ScalesAndMinimums read_scales(const std::byte* block) {
    const float scale = half_at(block);
    const float minimum = half_at(block + 2);
    const std::byte* const packed = block + 4;
    ScalesAndMinimums read{};
    for (int32_t i = 0; i < 4; ++i) {
        const uint8_t first = byte_at(packed, i);
        const uint8_t second = byte_at(packed, 4 + i);
        const uint8_t third = byte_at(packed, 8 + i);
        read.scales[i] = scale * static_cast<float>(first & 0x3FU);
        read.scales[4 + i] = scale * static_cast<float>(low(third) | ((first >> 2U) & 0x30U));
        read.minimums[i] = minimum * static_cast<float>(second & 0x3FU);
        read.minimums[4 + i] = minimum * static_cast<float>(high(third) | ((second >> 2U) & 0x30U));
    }
    return read;
}

// 16 bytes of scales and minimums, in Q5_K 32 bytes of fifth bits (bit `group` of byte i), then 128 bytes of codes: 32
// bytes have the elements of two groups of 32.
template <bool HasFifth>
void decode_q4_or_q5_k(const std::byte* blocks, int64_t count, float* to) {
    constexpr int32_t kCodesAt = HasFifth ? 48 : 16;
    each_block<kLarge, kCodesAt + 128>(blocks, count, to, [](const std::byte* block, float* out) {
        const ScalesAndMinimums read = read_scales(block);
        for (int32_t group = 0; group < 8; ++group) {
            const std::byte* const codes = block + kCodesAt + group / 2 * 32;
            const uint32_t shift = group % 2 == 0 ? 0 : 4;
            for (int32_t i = 0; i < 32; ++i) {
                uint32_t code = (byte_at(codes, i) >> shift) & 0xFU;
                if constexpr (HasFifth) code |= ((byte_at(block + 16, i) >> static_cast<uint32_t>(group)) & 1U) << 4U;
                out[group * 32 + i] = read.scales[group] * static_cast<float>(code) - read.minimums[group];
            }
        }
    });
}

// 128 bytes of low halves, 64 bytes of pairs of high bits, 16 signed scales, f16 scale of scales.
void decode_q6_k(const std::byte* blocks, int64_t count, float* to) {
    each_block<kLarge, 210>(blocks, count, to, [](const std::byte* block, float* out) {
        const float scale = half_at(block + 208);
        std::array<float, 16> scales{};
        for (int32_t i = 0; i < 16; ++i)
            scales[i] = scale * static_cast<float>(static_cast<int8_t>(byte_at(block + 192, i)));
        for (int32_t group = 0; group < 8; ++group) {  // of 32 elements
            const int32_t half = group / 4;
            const std::byte* const four = block + half * 64 + group % 2 * 32;
            const std::byte* const two = block + 128 + half * 32;
            const uint32_t four_shift = group % 4 < 2 ? 0 : 4;
            const auto two_shift = static_cast<uint32_t>(group % 4 * 2);
            for (int32_t i = 0; i < 32; ++i) {
                const uint32_t code = ((byte_at(four, i) >> four_shift) & 0xFU) | ((byte_at(two, i) >> two_shift) & 3U)
                                                                                      << 4U;
                out[group * 32 + i] = scales[group * 2 + i / 16] * static_cast<float>(static_cast<int32_t>(code) - 32);
            }
        }
    });
}

// As Q4_0, with values out of a table.
void decode_iq4_nl(const std::byte* blocks, int64_t count, float* to) {
    each_block<kSmall, 18>(blocks, count, to, [](const std::byte* block, float* out) {
        const float scale = half_at(block);
        for (int32_t i = 0; i < 16; ++i) {
            const uint8_t codes = byte_at(block + 2, i);
            out[i] = scale * static_cast<float>(kNonLinear[low(codes)]);
            out[16 + i] = scale * static_cast<float>(kNonLinear[high(codes)]);
        }
    });
}

// f16 scale of scales, high and low bits of 8 scales of 6 bits, 8 groups of 16 bytes of codes.
void decode_iq4_xs(const std::byte* blocks, int64_t count, float* to) {
    each_block<kLarge, 136>(blocks, count, to, [](const std::byte* block, float* out) {
        const float scale = half_at(block);
        const uint32_t high_bits = u16_at(block + 2);
        for (int32_t group = 0; group < 8; ++group) {
            const uint8_t both = byte_at(block + 4, group / 2);
            const uint32_t bits = (group % 2 == 0 ? low(both) : high(both)) |
                                  ((high_bits >> static_cast<uint32_t>(group * 2)) & 3U) << 4U;
            const float of_group = scale * static_cast<float>(static_cast<int32_t>(bits) - 32);
            for (int32_t i = 0; i < 16; ++i) {
                const uint8_t codes = byte_at(block + 8 + group * 16, i);
                out[group * 32 + i] = of_group * static_cast<float>(kNonLinear[low(codes)]);
                out[group * 32 + 16 + i] = of_group * static_cast<float>(kNonLinear[high(codes)]);
            }
        }
    });
}

constexpr std::array kBlockTypes = {
    BlockType{0, "F32", 1, 4, decode_f32},
    BlockType{1, "F16", 1, 2, decode_f16},
    BlockType{30, "BF16", 1, 2, decode_bf16},
    BlockType{8, "Q8_0", kSmall, 34, decode_q8_0},
    BlockType{2, "Q4_0", kSmall, 18, decode_q4_0},
    BlockType{3, "Q4_1", kSmall, 20, decode_q4_1},
    BlockType{6, "Q5_0", kSmall, 22, decode_q5_0},
    BlockType{7, "Q5_1", kSmall, 24, decode_q5_1},
    BlockType{10, "Q2_K", kLarge, 84, decode_q2_k},
    BlockType{11, "Q3_K", kLarge, 110, decode_q3_k},
    BlockType{12, "Q4_K", kLarge, 144, decode_q4_or_q5_k<false>},
    BlockType{13, "Q5_K", kLarge, 176, decode_q4_or_q5_k<true>},
    BlockType{14, "Q6_K", kLarge, 210, decode_q6_k},
    BlockType{20, "IQ4_NL", kSmall, 18, decode_iq4_nl},
    BlockType{23, "IQ4_XS", kLarge, 136, decode_iq4_xs},
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
