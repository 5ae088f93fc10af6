// Weights of 4 and 8 bits in the layouts of GPTQ, AWQ and compressed-tensors: read compact and wide, each is its scale
// times its integer less its zero point.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "backend/compact_reader.h"
#include "backend/read_weight.h"
#include "model/model.h"
#include "model/packed/packed_matrix.h"
#include "support/model_files.h"
#include "support/random_model.h"

namespace nanolith::testing {
namespace {

using Tensors = std::vector<FileTensor>;

const std::string kPackedUp = "model.layers.1.mlp.up_proj";  // [rows, cols] of the tests' matrix

// A matrix of integers as a test draws it.
struct Drawn {
    int64_t rows = 0;
    int64_t cols = 0;
    int64_t group = 0;
    int32_t bits = 4;
    std::vector<int32_t> integers = {};  // [rows, cols], 0 to 2^bits - 1
    std::vector<int32_t> zeros = {};     // [rows, groups] likewise
    std::vector<float> scales = {};      // [rows, groups]
    std::vector<int32_t> group_of = {};  // [cols]

    [[nodiscard]] int64_t groups() const { return (cols + group - 1) / group; }
    [[nodiscard]] float weight(int64_t row, int64_t col) const {
        const int64_t at = row * groups() + group_of[col];
        return scales[at] * static_cast<float>(integers[row * cols + col] - zeros[at]);
    }
};

// `round`: to the scales' dtype. With `one_zero` all zero points are half of the integers' range.
Drawn draw(Random& random, int64_t rows, int64_t cols, int64_t group, int32_t bits, bool one_zero,
           const std::function<float(float)>& round) {
    Drawn drawn{.rows = rows, .cols = cols, .group = group, .bits = bits};
    for (int64_t i = 0; i < rows * cols; ++i) drawn.integers.push_back(random.below(1 << bits));
    for (int64_t i = 0; i < rows * drawn.groups(); ++i) {
        drawn.zeros.push_back(one_zero ? 1 << (bits - 1) : 1 + random.below((1 << bits) - 1));
        drawn.scales.push_back(round(std::ldexp(1.0F + random.centered() / 2, random.below(20) - 20)));
    }
    for (int64_t col = 0; col < cols; ++col) drawn.group_of.push_back(static_cast<int32_t>(col / group));
    return drawn;
}

float as_half(float number) {
    return to_float(to_half(number));
}
float as_bfloat16(float number) {
    return to_float(to_bfloat16(number));
}

// ---- Writing the tensors --------------------------------------------------------------------------------

void put_word(std::string& bytes, uint32_t word) {
    for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(word >> (8 * i)));
}

// The integers at(0) to at(n - 1), the first in the lowest bits.
uint32_t word_of(int32_t bits, const std::function<int32_t(int)>& at) {
    uint32_t word = 0;
    for (int i = 0; i < 32 / bits; ++i) word |= static_cast<uint32_t>(at(i)) << (bits * i);
    return word;
}

FileTensor words(const std::string& name, std::vector<int64_t> shape, int32_t bits,
                 const std::function<int32_t(int64_t, int64_t, int)>& at) {
    std::string bytes;
    for (int64_t i = 0; i < shape[0]; ++i) {
        for (int64_t j = 0; j < shape[1]; ++j) put_word(bytes, word_of(bits, [&](int k) { return at(i, j, k); }));
    }
    return {name, "I32", std::move(shape), bytes};
}

// Numbers [shape] as `dtype`.
FileTensor numbers(const std::string& name, const std::string& dtype, std::vector<int64_t> shape,
                   const std::function<float(int64_t, int64_t)>& at) {
    std::string bytes;
    for (int64_t i = 0; i < shape[0]; ++i) {
        for (int64_t j = 0; j < shape[1]; ++j) {
            const float number = at(i, j);
            const uint16_t half = dtype == "F16" ? to_half(number).bits : to_bfloat16(number).bits;
            if (dtype == "F32") bytes.append(reinterpret_cast<const char*>(&number), 4);
            if (dtype != "F32") bytes.append(reinterpret_cast<const char*>(&half), 2);
        }
    }
    return {name, dtype, std::move(shape), bytes};
}

FileTensor group_indices(const std::string& name, const Drawn& drawn) {
    std::string bytes;
    for (const int32_t group : drawn.group_of) put_word(bytes, static_cast<uint32_t>(group));
    return {name, "I32", {drawn.cols}, bytes};
}

Tensors gptq(const Drawn& of, int32_t zeros_less) {
    const int64_t n = 32 / of.bits;
    const auto integer = [&](int64_t i, int64_t row, int k) { return of.integers[row * of.cols + i * n + k]; };
    const auto zero = [&](int64_t group, int64_t i, int k) {
        return of.zeros[(i * n + k) * of.groups() + group] - zeros_less;
    };
    const auto scale = [&](int64_t group, int64_t row) { return of.scales[row * of.groups() + group]; };
    return {words(kPackedUp + ".qweight", {of.cols / n, of.rows}, of.bits, integer),
            words(kPackedUp + ".qzeros", {of.groups(), of.rows / n}, of.bits, zero),
            numbers(kPackedUp + ".scales", "F16", {of.groups(), of.rows}, scale),
            group_indices(kPackedUp + ".g_idx", of)};
}

Tensors awq(const Drawn& of) {
    constexpr int kOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};
    const auto integer = [&](int64_t col, int64_t i, int k) {
        return of.integers[(i * 8 + kOrder[k]) * of.cols + col];
    };
    const auto zero = [&](int64_t group, int64_t i, int k) {
        return of.zeros[(i * 8 + kOrder[k]) * of.groups() + group];
    };
    const auto scale = [&](int64_t group, int64_t row) { return of.scales[row * of.groups() + group]; };
    return {words(kPackedUp + ".qweight", {of.cols, of.rows / 8}, 4, integer),
            words(kPackedUp + ".qzeros", {of.groups(), of.rows / 8}, 4, zero),
            numbers(kPackedUp + ".scales", "F16", {of.groups(), of.rows}, scale)};
}

// Of compressed-tensors. What a row or the zero points have too few of fills a word up with zeros.
Tensors packed(const Drawn& of, const std::string& scale_dtype, bool zeros) {
    const int64_t n = 32 / of.bits;
    const auto integer = [&](int64_t row, int64_t i, int k) {
        return i * n + k < of.cols ? of.integers[row * of.cols + i * n + k] : 0;
    };
    const auto zero = [&](int64_t i, int64_t group, int k) {
        return i * n + k < of.rows ? of.zeros[(i * n + k) * of.groups() + group] : 0;
    };
    const auto scale = [&](int64_t row, int64_t group) { return of.scales[row * of.groups() + group]; };
    const int64_t shape[] = {of.rows, of.cols};
    Tensors tensors = {
        words(kPackedUp + ".weight_packed", {of.rows, (of.cols + n - 1) / n}, of.bits, integer),
        numbers(kPackedUp + ".weight_scale", scale_dtype, {of.rows, of.groups()}, scale),
        {kPackedUp + ".weight_shape", "I64", {2}, std::string(reinterpret_cast<const char*>(shape), 16)}};
    if (zeros)
        tensors.push_back(words(kPackedUp + ".weight_zero_point", {(of.rows + n - 1) / n, of.groups()}, of.bits, zero));
    return tensors;
}

Tensors in_bytes(const Drawn& of, bool zeros) {
    std::string weight, points;
    for (const int32_t integer : of.integers) weight.push_back(static_cast<char>(integer - 128));
    for (const int32_t zero : of.zeros) points.push_back(static_cast<char>(zero - 128));
    const auto scale = [&](int64_t row, int64_t group) { return of.scales[row * of.groups() + group]; };
    Tensors tensors = {{kPackedUp + ".weight", "I8", {of.rows, of.cols}, weight},
                       numbers(kPackedUp + ".weight_scale", "F32", {of.rows, of.groups()}, scale)};
    if (zeros) tensors.push_back({kPackedUp + ".weight_zero_point", "I8", {of.rows, of.groups()}, points});
    return tensors;
}

const std::string kGptq = R"({"bits": 4, "group_size": GROUP, "quant_method": "gptq"})";
const std::string kGptq2 =
    R"({"bits": 4, "checkpoint_format": "gptq_v2", "group_size": GROUP, "quant_method": "gptq"})";
const std::string kAwq = R"({"bits": 4, "group_size": GROUP, "quant_method": "awq"})";
const std::string kCompressed =
    R"({"config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "int"}}},
        "quant_method": "compressed-tensors"})";

std::string with_group(std::string config, int64_t group) {
    const size_t at = config.find("GROUP");
    return at == std::string::npos ? config : config.replace(at, 5, std::to_string(group));
}

// ---- Reading them --------------------------------------------------------------------------------------

class PackedWeights : public ::testing::Test {
  protected:
    // The tiny model, of whose matrices in the second layer's MLP up_proj is made of `tensors`: [rows, cols].
    Result<std::unique_ptr<Model>> load(const std::string& quantization, int64_t rows, int64_t cols, Tensors tensors) {
        const auto bytes = [](int64_t a, int64_t b) { return std::string(static_cast<size_t>(a * b * 4), '\0'); };
        const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
            int64_t size = 1;
            for (const int64_t side : shape) size *= side;
            tensors.push_back({name, "F32", std::move(shape), bytes(size, 1)});
        };
        add("model.embed_tokens.weight", {16, cols});
        add("model.norm.weight", {cols});
        add("lm_head.weight", {16, cols});
        for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
            add(layer + "input_layernorm.weight", {cols});
            add(layer + "post_attention_layernorm.weight", {cols});
            add(layer + "self_attn.q_proj.weight", {12, cols});
            add(layer + "self_attn.k_proj.weight", {6, cols});
            add(layer + "self_attn.v_proj.weight", {6, cols});
            add(layer + "self_attn.o_proj.weight", {cols, 12});
            add(layer + "mlp.gate_proj.weight", {rows, cols});
            if (layer + "mlp.up_proj" != kPackedUp) add(layer + "mlp.up_proj.weight", {rows, cols});
            add(layer + "mlp.down_proj.weight", {cols, rows});
        }
        ConfigFields config = with(tiny_config(), "quantization_config", quantization);
        config = with(with(config, "hidden_size", std::to_string(cols)), "intermediate_size", std::to_string(rows));
        write_model(folder_, config, tensors);
        return load_model(folder_.path());
    }

    // `round`: what reading wide rounds a weight to, where the weight is not compact.
    void expect_weights(const std::string& quantization, const Drawn& drawn, const Tensors& tensors, bool compact,
                        const std::function<float(float)>& round = {}) {
        const auto model = load(with_group(quantization, drawn.group), drawn.rows, drawn.cols, tensors);
        ASSERT_TRUE(model.ok()) << model.error().message;
        const WeightView& up = (*model)->weights.layers[1].up_proj;
        ASSERT_EQ(up.compact != nullptr, compact);
        std::vector<float> wide(static_cast<size_t>(drawn.rows * drawn.cols));
        // Twice, and in parts: what has been let go is read again.
        for (int i = 0; i < 2; ++i) {
            const int64_t half = drawn.rows * drawn.cols / 2 + 1;
            read_weight(up, 0, half, wide.data());
            read_weight(up, half, drawn.rows * drawn.cols - half, wide.data() + half);
        }
        for (int64_t row = 0; row < drawn.rows; ++row) {
            for (int64_t col = 0; col < drawn.cols; ++col) {
                const float weight = drawn.weight(row, col);
                ASSERT_EQ(wide[row * drawn.cols + col], compact ? weight : round(weight)) << row << ", " << col;
            }
        }
        if (compact) expect_compact(up, drawn);
    }

    static void expect_compact(const WeightView& view, const Drawn& drawn) {
        const bool in_order = std::ranges::is_sorted(drawn.group_of);
        ASSERT_EQ(view.columns.empty(), in_order);
        const CompactForm form = view.compact->form();
        EXPECT_EQ(form.codes, drawn.bits == 4 ? CodeKind::bits4 : CodeKind::int8);
        CompactReader reader(view, form);
        for (int64_t row = 0; row < drawn.rows; ++row) {
            const float row_scale = reader.read(row);
            for (int64_t col = 0; col < drawn.cols; ++col) {
                float weight = 0;
                const CompactBlock& block = reader.blocks()[static_cast<size_t>(col / kCompactBlock)];
                expand_block(form, block, row_scale, col % kCompactBlock, 1, &weight);
                const int64_t of = in_order ? col : view.columns[static_cast<size_t>(col)];
                ASSERT_EQ(weight, drawn.weight(row, of)) << row << ", " << col;
            }
        }
    }

    const uint64_t seed_ = std::random_device{}();
    const ::testing::ScopedTrace trace_{__FILE__, __LINE__, "seed " + std::to_string(seed_)};
    Random random_{seed_};
    const TempFolder folder_;
};

TEST_F(PackedWeights, OfGptq) {
    for (const int64_t group : {32, 64, 128, 512}) {
        for (const int32_t bits : {4, 8}) {
            for (const bool one_zero : {true, false}) {
                SCOPED_TRACE(std::to_string(group) + ", " + std::to_string(bits) + " bits, " +
                             std::to_string(one_zero));
                const Drawn drawn = draw(random_, 16, 320 + 64 * random_.below(4), group, bits, one_zero, as_half);
                expect_weights(kGptq, drawn, gptq(drawn, 1), true);
                expect_weights(kGptq2, drawn, gptq(drawn, 0), true);
            }
        }
    }
}

// A zero point of 0 can't be stored as one less: its bits are all set, those of the integers after it in the word too.
// GPTQ's tools add one to the whole word, which makes it 0 and the others 1.
TEST_F(PackedWeights, OfGptqWhoseZeroPointsOverflow) {
    Drawn drawn = draw(random_, 16, 256, 64, 4, false, as_half);
    for (size_t i = 0; i < drawn.zeros.size(); ++i)
        drawn.zeros[i] = static_cast<int64_t>(i) / drawn.groups() % 8 == 0 ? 0 : 1;
    const Tensors tensors = gptq(drawn, 1);
    ASSERT_EQ(tensors[1].bytes, std::string(tensors[1].bytes.size(), '\xFF'));
    expect_weights(kGptq, drawn, tensors, true);
}

TEST_F(PackedWeights, OfGptqInAnotherOrder) {
    Drawn drawn = draw(random_, 16, 256, 32, 4, false, as_half);
    for (size_t col = drawn.group_of.size(); col > 1; --col)
        std::swap(drawn.group_of[col - 1], drawn.group_of[static_cast<size_t>(random_.below(static_cast<int>(col)))]);
    expect_weights(kGptq, drawn, gptq(drawn, 1), true);
    // One column more in a group than it should have, and one less in another: no compact form has such groups.
    const auto other = std::ranges::find_if(drawn.group_of, [&](int32_t group) { return group != drawn.group_of[0]; });
    *other = drawn.group_of[0];
    expect_weights(kGptq, drawn, gptq(drawn, 1), false, as_half);
}

TEST_F(PackedWeights, OfAwq) {
    for (const int64_t group : {32, 96, 128, 256}) {
        const Drawn drawn = draw(random_, 24, 768, group, 4, false, as_half);
        expect_weights(kAwq, drawn, awq(drawn), true);
    }
}

TEST_F(PackedWeights, OfCompressedTensors) {
    for (const int64_t group : {32, 128, 384}) {
        for (const int32_t bits : {4, 8}) {
            Drawn drawn = draw(random_, 13, 384, group, bits, true, as_bfloat16);
            expect_weights(kCompressed, drawn, packed(drawn, "BF16", false), true);
            drawn = draw(random_, 13, 384, group, bits, false, as_half);
            expect_weights(kCompressed, drawn, packed(drawn, "F16", true), true);
        }
    }
}

TEST_F(PackedWeights, OfBytes) {
    for (const bool one_zero : {true, false}) {
        const Drawn drawn = draw(random_, 13, 300, 300, 8, one_zero, [](float scale) { return scale * 1.2345F; });
        expect_weights(kCompressed, drawn, in_bytes(drawn, !one_zero), true);
    }
}

// Scales that no float16 and power of two are, and groups that backends have no kernels for.
TEST_F(PackedWeights, AreReadWideWhereNoFormIsExact) {
    Drawn drawn = draw(random_, 13, 256, 64, 4, true, [](float scale) { return scale * 1.2345F; });
    expect_weights(kCompressed, drawn, packed(drawn, "F32", false), false, as_bfloat16);
    drawn = draw(random_, 13, 256, 64, 4, true, as_bfloat16);
    drawn.scales[2] = std::ldexp(1.0F, -60);
    expect_weights(kCompressed, drawn, packed(drawn, "BF16", false), false, as_bfloat16);
    drawn = draw(random_, 16, 240, 48, 4, false, as_half);
    expect_weights(kGptq, drawn, gptq(drawn, 1), false, as_half);
}

TEST_F(PackedWeights, AreRefusedByTensor) {
    const Drawn drawn = draw(random_, 16, 128, 32, 4, false, as_half);
    const auto refused = [&](const std::string& quantization, Tensors tensors, const std::string& changed,
                             const std::function<void(FileTensor&)>& change, nl_status status,
                             const std::vector<std::string>& parts) {
        SCOPED_TRACE(changed);
        for (FileTensor& tensor : tensors) {
            if (tensor.name == kPackedUp + changed) change(tensor);
        }
        expect_error(load(with_group(quantization, 32), 16, 128, tensors), status, parts);
    };
    const auto rename = [](FileTensor& tensor) { tensor.name += "s"; };
    const auto to_bytes = [](FileTensor& tensor) {
        tensor.dtype = "I8";
        tensor.shape[1] *= 4;
    };
    const auto flatten = [](FileTensor& tensor) { tensor.shape = {tensor.shape[0] * tensor.shape[1]}; };
    refused(kGptq, gptq(drawn, 1), ".qweight", rename, NL_ERROR_BAD_MODEL, {kPackedUp + ".weight is missing"});
    refused(kGptq, gptq(drawn, 1), ".qweight", flatten, NL_ERROR_BAD_MODEL,
            {kPackedUp + ".qweight has the shape [256]", "expected [16, 16] of 4 bits or [32, 16] of 8"});
    refused(kGptq, gptq(drawn, 1), ".qzeros", rename, NL_ERROR_BAD_MODEL, {kPackedUp + ".qzeros is missing", "[4, 2]"});
    refused(kGptq, gptq(drawn, 1), ".qzeros", to_bytes, NL_ERROR_BAD_MODEL,
            {kPackedUp + ".qzeros has the shape [4, 8]"});
    refused(kGptq, gptq(drawn, 1), ".scales", [](FileTensor& tensor) { tensor.dtype = "I16"; }, NL_ERROR_UNSUPPORTED,
            {kPackedUp + ".scales has the dtype \"I16\"", "F32, F16 or BF16"});
    refused(kGptq, gptq(drawn, 1), ".g_idx", [](FileTensor& tensor) { tensor.bytes[4] = 4; }, NL_ERROR_BAD_MODEL,
            {kPackedUp + ".g_idx has 4 at 1", "a group from 0 to 3"});
    refused(kAwq, awq(drawn), ".qweight", [](FileTensor& tensor) { tensor.dtype = "F32"; }, NL_ERROR_UNSUPPORTED,
            {kPackedUp + ".qweight has the dtype \"F32\"", "I32"});
    refused(kCompressed, packed(drawn, "BF16", true), ".weight_shape", [](FileTensor& tensor) { tensor.bytes[0] = 9; },
            NL_ERROR_BAD_MODEL, {kPackedUp + ".weight_shape says [9, 128]", "[16, 128]"});
    refused(kCompressed, packed(drawn, "BF16", true), ".weight_scale", flatten, NL_ERROR_BAD_MODEL,
            {kPackedUp + ".weight_scale has the shape [64]", "expected [16, 1]"});
    refused("null", gptq(drawn, 1), "", rename, NL_ERROR_BAD_MODEL, {kPackedUp + ".weight is missing"});
}

// Where there is no memory for the copy that a tensor is read from, it is read a few bytes at a time. Here the tensors
// pretend to be too large for any memory. (Sanitizers end the process where so much is asked for.)
TEST_F(PackedWeights, AreReadWithoutMemoryForACopy) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "with a sanitizer";
#endif
    constexpr size_t kTooMuch = size_t{1} << 62U;
    Drawn drawn = draw(random_, 16, 320, 64, 4, true, as_half);
    const Tensors files = gptq(drawn, 1);
    const auto pretend = [&](const FileTensor& file) {
        return Tensor{file.dtype, file.shape, {reinterpret_cast<const std::byte*>(file.bytes.data()), kTooMuch}};
    };
    const Tensor codes = pretend(files[0]);
    const Tensor zeros = pretend(files[1]);
    const Tensor scales = pretend(files[2]);
    PackedParts parts;
    parts.rows = drawn.rows;
    parts.cols = drawn.cols;
    parts.group = drawn.group;
    parts.groups = drawn.groups();
    parts.codes = pack_integers(drawn.rows, drawn.cols, 4, SharedBy::row, true);
    parts.code_tensor = &codes;
    parts.scale_row_stride = 1;
    parts.scale_group_stride = drawn.rows;
    parts.scale_tensor = &scales;
    parts.zero = 8;
    for (const bool exact : {true, false}) {
        if (!exact) drawn.group_of[0] = 1;  // which has a column more than it should have then
        if (!exact) parts.group_of = drawn.group_of;
        auto matrix = PackedMatrix::create(parts);
        ASSERT_TRUE(matrix.ok()) << matrix.error().message;
        const WeightView view = (*matrix)->view();
        ASSERT_EQ(view.compact != nullptr, exact);
        std::vector<float> weights(static_cast<size_t>(drawn.rows * drawn.cols));
        read_weight(view, 0, drawn.rows * drawn.cols, weights.data());
        for (int64_t i = 0; i < drawn.rows * drawn.cols; ++i) {
            const float weight = drawn.weight(i / drawn.cols, i % drawn.cols);
            ASSERT_EQ(weights[i], exact ? weight : as_half(weight)) << i;
        }
    }
    // Zero points are looked at when the matrix is created.
    parts.zeros = pack_integers(drawn.rows, drawn.groups(), 4, SharedBy::column, true);
    parts.zero_tensor = &zeros;
    expect_error(PackedMatrix::create(parts), NL_ERROR_OUT_OF_MEMORY, {"zero points"});
}

// NaN scales make the weights of their group NaN, and are counted.
TEST_F(PackedWeights, ScalesThatAreNotNumbersAreCounted) {
    Drawn drawn = draw(random_, 16, 128, 32, 4, false, as_half);
    drawn.scales[5] = NAN;
    const auto model = load(with_group(kAwq, 32), 16, 128, awq(drawn));
    ASSERT_TRUE(model.ok()) << model.error().message;
    const WeightView& up = (*model)->weights.layers[1].up_proj;
    CompactReader reader(up, up.compact->form());
    for (int64_t row = 0; row < 16; ++row) EXPECT_EQ(std::isnan(reader.read(row)), row == 1);
    const auto found = finish_loading(**model, true);
    ASSERT_TRUE(found.ok()) << found.error().message;
    ASSERT_EQ(found->size(), 1U);
    EXPECT_EQ(found->front().tensor, kPackedUp + ".scales");
    EXPECT_EQ(found->front().count, 1);
}

}  // namespace
}  // namespace nanolith::testing
