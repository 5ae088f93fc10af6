// Models in GGUF files: what is taken out of them, and what is refused.
#include <cmath>
#include <cstring>

#include "backend/read_weight.h"
#include "model/describe.h"
#include "model/model.h"
#include "support/gguf_writer.h"
#include "support/model_files.h"

namespace nanolith::testing {
namespace {

using test::GgufWriter;

constexpr uint32_t kQ8 = 8;  // Q8_0

struct GgufPart {
    std::string name;
    std::vector<uint64_t> shape;  // the row's length first
};

// The tensors of a Llama of 2 layers, 32 hidden elements and 2 heads.
std::vector<GgufPart> gguf_parts() {
    std::vector<GgufPart> parts = {{"token_embd.weight", {32, 16}}, {"output_norm.weight", {32}}};
    for (const char* const layer : {"blk.0.", "blk.1."}) {
        const std::string prefix = layer;
        for (const char* const norm : {"attn_norm.weight", "ffn_norm.weight"}) parts.push_back({prefix + norm, {32}});
        for (const char* const square : {"attn_q.weight", "attn_k.weight", "attn_v.weight", "attn_output.weight"})
            parts.push_back({prefix + square, {32, 32}});
        parts.push_back({prefix + "ffn_gate.weight", {32, 64}});
        parts.push_back({prefix + "ffn_up.weight", {32, 64}});
        parts.push_back({prefix + "ffn_down.weight", {64, 32}});
    }
    return parts;
}

GgufWriter gguf_keys(const std::string& family = "llama") {
    GgufWriter writer;
    writer.add_text("general.architecture", family);
    for (const auto& [name, value] : std::vector<std::pair<const char*, uint32_t>>{{"context_length", 128},
                                                                                   {"embedding_length", 32},
                                                                                   {"block_count", 2},
                                                                                   {"feed_forward_length", 64},
                                                                                   {"attention.head_count", 2}})
        writer.add_u32(family + "." + name, value);
    writer.add_f32(family + ".attention.layer_norm_rms_epsilon", 1e-5F);
    return writer;
}

// Element i of a tensor is i; of one in blocks too, since these have bytes of at most 127 and a scale of 1 or more.
void add_counted(GgufWriter& writer, const GgufPart& part, bool in_blocks) {
    uint64_t size = 1;
    for (const uint64_t side : part.shape) size *= side;
    if (!in_blocks) {
        std::vector<float> values;
        for (uint64_t i = 0; i < size; ++i) values.push_back(static_cast<float>(i));
        writer.add_floats(part.name, part.shape, values);
        return;
    }
    std::string bytes;
    for (uint64_t i = 0; i < size; ++i) {
        if (i % 32 == 0) bytes += test::raw(uint16_t{0x3C00});  // 1
        bytes += static_cast<char>(i % 100);
    }
    writer.add_tensor(part.name, part.shape, kQ8, bytes);
}

// `change` gets each part and tells whether it is added.
template <typename Change>
std::string gguf_model(GgufWriter writer, const Change& change, bool in_blocks = false) {
    for (GgufPart part : gguf_parts()) {
        if (change(part)) add_counted(writer, part, in_blocks && part.shape.size() == 2);
    }
    return writer.finish();
}
constexpr auto kUnchanged = [](const GgufPart& /*part*/) { return true; };

Result<std::unique_ptr<Model>> load_bytes(const TempFolder& folder, const std::string& bytes) {
    folder.write("model.gguf", bytes);
    return load_model(folder.file("model.gguf"));
}

std::vector<float> row_of(const WeightView& weight, int64_t row) {
    std::vector<float> values(static_cast<size_t>(weight.cols));
    read_weight(weight, row * weight.cols, weight.cols, values.data());
    return values;
}

TEST(GgufModel, HasItsWeightsInTheOrderOfTheForwardPass) {
    const TempFolder folder;
    for (const bool in_blocks : {false, true}) {
        const auto model = load_bytes(folder, gguf_model(gguf_keys(), kUnchanged, in_blocks));
        ASSERT_TRUE(model.ok()) << model.error().message;
        const ModelSpec& spec = (*model)->spec;
        EXPECT_EQ((*model)->architecture, "LlamaForCausalLM");
        EXPECT_EQ(spec.head_dim, 16);
        EXPECT_EQ(spec.num_kv_heads, 2) << "as many as query heads where the key is missing";
        EXPECT_EQ((*model)->file_dtype, in_blocks ? DType::bf16 : DType::f32);
        EXPECT_EQ((*model)->weights.head.data, (*model)->weights.embedding.data) << "without output.weight";
        const LayerWeights& layer = (*model)->weights.layers[1];
        const auto expected = [&](int64_t stored) {
            std::vector<float> values;
            for (int64_t i = 0; i < 32; ++i)
                values.push_back(static_cast<float>(in_blocks ? (stored * 32 + i) % 100 : stored * 32 + i));
            return values;
        };
        // Pairs of neighbours in the file, of halves in the forward pass.
        EXPECT_EQ(row_of(layer.q_proj, 1), expected(2));
        EXPECT_EQ(row_of(layer.q_proj, 8), expected(1));
        EXPECT_EQ(row_of(layer.k_proj, 16 + 15), expected(16 + 15));
        EXPECT_EQ(row_of(layer.v_proj, 1), expected(1));
        // From the middle of a block to the middle of another.
        std::vector<float> middle(70);
        read_weight(layer.up_proj, 17, 70, middle.data());
        for (int64_t i = 0; i < 70; ++i) ASSERT_EQ(middle[i], static_cast<float>(in_blocks ? (17 + i) % 100 : 17 + i));
    }
}

TEST(GgufModel, TakesOneFromTheNormsOfGemma) {
    const TempFolder folder;
    auto keys = gguf_keys("gemma2");
    const std::string bytes = [&] {
        GgufWriter writer = keys;
        for (const GgufPart& part : gguf_parts()) add_counted(writer, part, false);
        for (const char* const layer : {"blk.0.", "blk.1."}) {
            for (const char* const norm : {"post_attention_norm.weight", "post_ffw_norm.weight"})
                add_counted(writer, {std::string(layer) + norm, {32}}, false);
        }
        return writer.finish();
    }();
    const auto model = load_bytes(folder, bytes);
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_EQ((*model)->spec.norm_offset, 1.0F);
    EXPECT_EQ(row_of((*model)->weights.final_norm, 0)[5], 4.0F);
    EXPECT_EQ(row_of((*model)->weights.layers[0].mlp_post_norm, 0)[0], -1.0F);
    EXPECT_EQ((*model)->spec.layers[0].window, 4096);
    EXPECT_EQ((*model)->spec.layers[1].window, 0);
}

TEST(GgufModel, NamesTheTensorThatIsWrong) {
    const TempFolder folder;
    const auto without = [](const char* name) { return [name](const GgufPart& part) { return part.name != name; }; };
    for (const GgufPart& part : gguf_parts())
        expect_error(load_bytes(folder, gguf_model(gguf_keys(), without(part.name.c_str()))), NL_ERROR_BAD_MODEL,
                     {folder.file("model.gguf"), part.name, "missing"});
    const auto reshaped = gguf_model(gguf_keys(), [](GgufPart& part) {
        if (part.name == "blk.1.ffn_down.weight") part.shape = {32, 64};
        return true;
    });
    expect_error(load_bytes(folder, reshaped), NL_ERROR_BAD_MODEL, {"blk.1.ffn_down.weight", "[64, 32]", "[32, 64]"});
    const auto with_extra = [&](uint64_t row, uint32_t type, uint64_t offset) {
        return load_bytes(folder, gguf_model(gguf_keys().add_entry("extra", {row}, type, offset), kUnchanged));
    };
    expect_error(with_extra(256, 16, 0), NL_ERROR_UNSUPPORTED, {"\"extra\"", "IQ2_XXS", "Q4_K"});
    expect_error(with_extra(256, 999, 0), NL_ERROR_UNSUPPORTED, {"\"extra\"", "type 999"});
    expect_error(with_extra(33, kQ8, 0), NL_ERROR_BAD_MODEL, {"\"extra\"", "rows of 33", "32"});
    expect_error(with_extra(32, 0, uint64_t{1} << 40U), NL_ERROR_BAD_MODEL, {"\"extra\"", "inside"});
    expect_error(with_extra(uint64_t{1} << 60U, 0, 0), NL_ERROR_BAD_MODEL, {"\"extra\"", "inside"});
    expect_error(with_extra(32, 0, 0), NL_ERROR_BAD_MODEL, {"overlaps"});
}

TEST(GgufModel, NamesTheKeyThatIsWrong) {
    const TempFolder folder;
    const auto load_with = [&](const GgufWriter& keys) { return load_bytes(folder, gguf_model(keys, kUnchanged)); };
    expect_error(load_with(gguf_keys("rwkv7")), NL_ERROR_UNSUPPORTED, {"general.architecture is \"rwkv7\"", "llama"});
    expect_error(load_with({}), NL_ERROR_BAD_MODEL, {"general.architecture is missing"});
    expect_error(load_with(gguf_keys().add_u32("llama.attention.value_length", 8)), NL_ERROR_UNSUPPORTED,
                 {"llama.attention.value_length is 8", "16"});
    expect_error(load_with(gguf_keys().add_u32("llama.rope.dimension_count", 8)), NL_ERROR_UNSUPPORTED,
                 {"llama.rope.dimension_count is 8"});
    expect_error(load_with(gguf_keys().add_text("llama.rope.scaling.type", "dynamic")), NL_ERROR_UNSUPPORTED,
                 {"llama.rope.scaling.type is \"dynamic\""});
    expect_error(load_with(gguf_keys("qwen3").add_u32("qwen3.attention.sliding_window", 8)), NL_ERROR_UNSUPPORTED,
                 {"qwen3.attention.sliding_window is 8"});
    expect_error(load_with(gguf_keys().add_numbers<int32_t>("llama.attention.head_count_kv", 5, {1, 2})),
                 NL_ERROR_UNSUPPORTED, {"llama.attention.head_count_kv is an array of 2", "all layers"});
    expect_error(load_with(gguf_keys().add_u32("llama.attention.head_count_kv", 3)), NL_ERROR_BAD_MODEL,
                 {"num_key_value_heads", "3"});
    expect_error(load_with(gguf_keys().add_text("general.type", "adapter")), NL_ERROR_UNSUPPORTED,
                 {"general.type is \"adapter\""});
    expect_error(load_with(gguf_keys().add_f32("llama.logit_scale", 0.5F)), NL_ERROR_UNSUPPORTED,
                 {"llama.logit_scale is 0.5"});
}

TEST(GgufModel, IsReadOutOfItsParts) {
    const TempFolder folder;
    const auto part = [](uint16_t number, GgufWriter writer) {
        return writer.add("split.no", 2, test::raw(number)).add("split.count", 2, test::raw(uint16_t{2}));
    };
    GgufWriter first = part(0, gguf_keys());
    GgufWriter second = part(1, {});
    size_t count = 0;
    for (const GgufPart& tensor : gguf_parts()) add_counted(count++ % 2 == 0 ? first : second, tensor, false);
    folder.write("m-00001-of-00002.gguf", first.finish());
    const std::string path = folder.file("m-00001-of-00002.gguf");
    const std::string other = folder.file("m-00002-of-00002.gguf");
    expect_error(load_model(path), NL_ERROR_NOT_FOUND, {other});
    folder.write("m-00002-of-00002.gguf", second.finish());
    const auto model = load_model(path);
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_EQ((*model)->weight_files.size(), 2U);
    EXPECT_EQ(row_of((*model)->weights.layers[0].v_proj, 1)[3], 35.0F);
    expect_error(load_model(other), NL_ERROR_BAD_MODEL, {other, "split.no is 1", "first part"});
    folder.write("m-00002-of-00002.gguf", part(0, {}).finish());
    expect_error(load_model(path), NL_ERROR_BAD_MODEL, {other, "split.no is 0"});
    folder.write("m-00002-of-00002.gguf", first.finish());
    expect_error(load_model(path), NL_ERROR_BAD_MODEL, {other, "blk.0.attn_norm.weight", "another part"});
    std::filesystem::rename(path, folder.file("renamed.gguf"));
    expect_error(load_model(folder.file("renamed.gguf")), NL_ERROR_BAD_MODEL, {"-00001-of-00002.gguf"});
}

TEST(GgufModel, CountsWhatIsNotFinite) {
    const TempFolder folder;
    GgufWriter writer = gguf_keys();
    for (const GgufPart& tensor : gguf_parts()) {
        if (tensor.name != "blk.0.ffn_up.weight") {
            add_counted(writer, tensor, tensor.shape.size() == 2);
            continue;
        }
        std::string bytes;
        for (int block = 0; block < 64; ++block)
            bytes += test::raw(static_cast<uint16_t>(block == 3 ? 0x7C00 : 0)) + std::string(32, '\x01');
        writer.add_tensor(tensor.name, tensor.shape, kQ8, bytes);
    }
    const auto model = load_bytes(folder, writer.finish());
    ASSERT_TRUE(model.ok()) << model.error().message;
    for (int64_t row = 0; row < 64; ++row) static_cast<void>(row_of((*model)->weights.layers[0].up_proj, row));
    const auto found = finish_loading(**model, false);
    ASSERT_TRUE(found.ok());
    ASSERT_EQ(found->size(), 1U);
    EXPECT_EQ(found->front().tensor, "blk.0.ffn_up.weight");
    EXPECT_EQ(found->front().count, 32);
    EXPECT_EQ(found->front().size, 64 * 32);
}

TEST(GgufModel, IsNamedByItsFile) {
    const TempFolder folder;
    folder.write("model-q4.gguf", gguf_model(gguf_keys(), kUnchanged, true));
    expect_error(load_model(folder.path()), NL_ERROR_UNSUPPORTED, {folder.path(), "model-q4.gguf", "the path of"});
    const auto facts = describe_model(folder.file("model-q4.gguf"));
    ASSERT_TRUE(facts.ok());
    const std::string text = as_text(*facts);
    for (const char* const line : {"model: supported", "format: GGUF 3", "weights: Q8_0 ", "F32 ", "tokenizer: none"})
        EXPECT_NE(text.find(line), std::string::npos) << text;
    folder.write("text.gguf", "some text");
    expect_error(load_model(folder.file("text.gguf")), NL_ERROR_BAD_MODEL, {"text.gguf", "no GGUF file"});
}

// Every beginning of a file, and files with one byte changed: an error or a model, never more.
TEST(GgufModel, EndsWellWhateverIsDamaged) {
    const TempFolder folder;
    const std::string bytes = gguf_model(gguf_keys(), kUnchanged, true);
    for (size_t size = 0; size < bytes.size(); size += 1 + size / 20) {
        folder.write("model.gguf", bytes.substr(0, size));
        EXPECT_FALSE(load_model(folder.file("model.gguf")).ok()) << size;
    }
    std::mt19937 random(fresh_seed());
    for (int i = 0; i < 2000; ++i) {
        std::string damaged = bytes;
        damaged[random() % 2500] = static_cast<char>(random());
        static_cast<void>(load_bytes(folder, damaged));
    }
}

}  // namespace
}  // namespace nanolith::testing
