// GGUF files of random models whose matrices are in blocks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/block_type.h"
#include "support/gguf_writer.h"
#include "support/random_model.h"

namespace nanolith::testing {

// Where a block has its float16 scale and minimum, and how many scales the minimum is, so that codes stand for numbers
// around 0.
struct ScalesOfBlock {
    const char* type;
    int32_t scale;
    int32_t minimum = -1;  // there is none
    float ratio = 0;
};
inline const ScalesOfBlock kScalesOfBlocks[] = {
    {"Q8_0", 0},
    {"Q4_0", 0},
    {"Q4_1", 0, 2, -7.5F},
    {"Q5_0", 0},
    {"Q5_1", 0, 2, -15.5F},
    {"Q2_K", 80, 82, 1.5F},
    {"Q3_K", 108},
    {"Q6_K", 208},
    {"Q4_K", 0, 2, 7.5F},
    {"Q5_K", 0, 2, 15.5F},
    {"IQ4_NL", 0},
    {"IQ4_XS", 0},
};

inline const ScalesOfBlock& scales_of(const BlockType& type) {
    const ScalesOfBlock* found = kScalesOfBlocks;
    while (found->type != std::string_view(type.name)) ++found;
    return *found;
}

// A block whose bits are random but for its scales.
inline std::string random_block(const BlockType& type, Half scale, Half minimum, Random& random) {
    std::string block(static_cast<size_t>(type.bytes), '\0');
    for (char& byte : block) byte = static_cast<char>(random.below(256));
    const ScalesOfBlock& at = scales_of(type);
    std::memcpy(block.data() + at.scale, &scale.bits, sizeof(scale.bits));
    if (at.minimum >= 0) std::memcpy(block.data() + at.minimum, &minimum.bits, sizeof(minimum.bits));
    return block;
}

// Of numbers of about that root mean square.
inline std::string some_blocks(const BlockType& type, int64_t count, float size, Random& random) {
    const float ratio = scales_of(type).ratio;
    const std::string block = random_block(type, to_half(1), to_half(ratio), random);
    std::vector<float> values(static_cast<size_t>(type.elements));
    type.decode(reinterpret_cast<const std::byte*>(block.data()), 1, values.data());
    float squares = 0;
    for (const float value : values) squares += value * value;
    const float unit = size / std::sqrt(squares / static_cast<float>(type.elements));
    std::string blocks;
    for (int64_t i = 0; i < count; ++i) {
        const float scale = unit * (0.7F + 0.6F * static_cast<float>(random.uniform()));
        blocks += random_block(type, to_half(scale), to_half(scale * ratio), random);
    }
    return blocks;
}

// With scales and minimums of every size that float16 has.
inline std::string extreme_blocks(const BlockType& type, int64_t count, Random& random) {
    const auto scale = [&random] {
        const auto bits = static_cast<uint16_t>(random.below(1 << 16));
        return Half{(bits & 0x7C00U) == 0x7C00U ? static_cast<uint16_t>(bits & 0x83FFU) : bits};
    };
    std::string blocks;
    for (int64_t i = 0; i < count; ++i) {
        const Half of_codes = scale();
        blocks += random_block(type, of_codes, scale(), random);
    }
    return blocks;
}

// A Llama of 2 layers and 4 heads, 2 of them of keys and values.
struct RandomGguf {
    int64_t hidden = 256;
    int64_t intermediate = 512;
    int64_t vocab = 71;
    int32_t experts = 0;  // of each layer, 2 for each token
    std::function<const BlockType&()> type_of_next;
    // The blocks of a matrix with rows of `cols`.
    std::function<std::string(const BlockType&, int64_t count, int64_t cols)> blocks;

    [[nodiscard]] std::string file(Random& random) const {
        test::GgufWriter writer;
        add_keys(writer);
        add_matrix(writer, "token_embd.weight", hidden, vocab);
        add_matrix(writer, "output.weight", hidden, vocab);
        add_norm(writer, "output_norm.weight", random);
        for (const std::string layer : {"blk.0.", "blk.1."}) {
            add_norm(writer, layer + "attn_norm.weight", random);
            add_norm(writer, layer + "ffn_norm.weight", random);
            add_matrix(writer, layer + "attn_q.weight", hidden, hidden);
            add_matrix(writer, layer + "attn_k.weight", hidden, hidden / 2);
            add_matrix(writer, layer + "attn_v.weight", hidden, hidden / 2);
            add_matrix(writer, layer + "attn_output.weight", hidden, hidden);
            const std::string end = experts > 0 ? "_exps.weight" : ".weight";
            if (experts > 0) add_router(writer, layer + "ffn_gate_inp.weight", random);
            add_matrix(writer, layer + "ffn_gate" + end, hidden, intermediate, experts);
            add_matrix(writer, layer + "ffn_up" + end, hidden, intermediate, experts);
            add_matrix(writer, layer + "ffn_down" + end, intermediate, hidden, experts);
        }
        return writer.finish();
    }

  private:
    void add_keys(test::GgufWriter& writer) const {
        writer.add_text("general.architecture", "llama");
        writer.add_u32("llama.context_length", 512);
        writer.add_u32("llama.embedding_length", static_cast<uint32_t>(hidden));
        writer.add_u32("llama.block_count", 2);
        writer.add_u32("llama.feed_forward_length", static_cast<uint32_t>(intermediate));
        writer.add_u32("llama.attention.head_count", 4);
        writer.add_u32("llama.attention.head_count_kv", 2);
        writer.add_f32("llama.attention.layer_norm_rms_epsilon", 1e-5F);
        if (experts == 0) return;
        writer.add_u32("llama.expert_count", static_cast<uint32_t>(experts));
        writer.add_u32("llama.expert_used_count", 2);
    }
    // `count` of them, or 0 for one alone.
    void add_matrix(test::GgufWriter& writer, const std::string& name, int64_t cols, int64_t rows,
                    int32_t count = 0) const {
        const BlockType& type = type_of_next();
        std::vector<uint64_t> shape{static_cast<uint64_t>(cols), static_cast<uint64_t>(rows)};
        if (count > 0) shape.push_back(static_cast<uint64_t>(count));
        const int64_t elements = cols * rows * std::max(count, 1);
        writer.add_tensor(name, shape, type.number, blocks(type, elements / type.elements, cols));
    }
    void add_norm(test::GgufWriter& writer, const std::string& name, Random& random) const {
        std::vector<float> values(static_cast<size_t>(hidden));
        for (float& value : values) value = 1 + 0.1F * random.centered();
        writer.add_floats(name, {static_cast<uint64_t>(hidden)}, values);
    }
    void add_router(test::GgufWriter& writer, const std::string& name, Random& random) const {
        std::vector<float> values(static_cast<size_t>(hidden * experts));
        for (float& value : values) value = random.centered() / std::sqrt(static_cast<float>(hidden));
        writer.add_floats(name, {static_cast<uint64_t>(hidden), static_cast<uint64_t>(experts)}, values);
    }
};

// The types that are in blocks.
inline std::vector<const BlockType*> quantised_types() {
    std::vector<const BlockType*> types;
    for (const BlockType& type : block_types())
        if (type.quantised()) types.push_back(&type);
    return types;
}

}  // namespace nanolith::testing
