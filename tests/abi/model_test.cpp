// nl_model_describe, and engines on folders that are supported in part.
#include <filesystem>
#include <fstream>

#include "abi/abi_fixtures.h"

namespace nanolith::test {
namespace {

std::string describe(const std::string& folder) {
    size_t length = 0;
    EXPECT_FAILS(NL_ERROR_BUFFER_TOO_SMALL, "capacity is 0",
                 nl_model_describe(folder.data(), folder.size(), nullptr, 0, &length));
    std::string text(length, '\0');
    EXPECT_EQ(nl_model_describe(folder.data(), folder.size(), text.data(), text.size(), &length), NL_OK)
        << nl_last_error();
    EXPECT_EQ(length, text.size());
    EXPECT_TRUE(text.ends_with('\n'));
    return text;
}

bool has_line(const std::string& text, const std::string& line) {
    return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

void write(const std::string& path, const std::string& text) {
    std::ofstream file(path, std::ios::binary);
    file << text;
}

// A tokenizer.json of a kind that is not known.
constexpr const char* kWordPiece = R"({"version":"1.0","added_tokens":[],"normalizer":null,"pre_tokenizer":null,)"
                                   R"("post_processor":null,"decoder":null,"model":{"type":"WordPiece","vocab":{}}})";

TEST(ModelAbi, DescribesWhatIsSupported) {
    const TinyModel model;
    const std::string text = describe(model.path());
    // Of TinyModelShape.
    for (const char* line :
         {"model: supported", "architecture: LlamaForCausalLM", "weights: float32", "layers: 2", "hidden size: 32",
          "query heads: 4", "KV heads: 2", "head dim: 8", "context: 512", "logits: 400", "tokenizer: supported"}) {
        EXPECT_TRUE(has_line(text, line)) << line << "\n" << text;
    }
    EXPECT_NE(text.find("chat format: none: "), std::string::npos) << text;
}

TEST(ModelAbi, SaysWhyAPartIsNotUsable) {
    const TinyModel model;
    write(model.path() + "/tokenizer.json", kWordPiece);
    std::string text = describe(model.path());
    EXPECT_TRUE(has_line(text, "model: supported")) << text;
    EXPECT_NE(text.find("tokenizer: not supported: "), std::string::npos) << text;
    EXPECT_NE(text.find("WordPiece"), std::string::npos) << text;

    write(model.path() + "/config.json", R"({"architectures":["MambaForCausalLM"]})");
    text = describe(model.path());
    EXPECT_NE(text.find("model: not supported: "), std::string::npos) << text;
    EXPECT_NE(text.find("MambaForCausalLM"), std::string::npos) << text;
    EXPECT_NE(text.find("LlamaForCausalLM"), std::string::npos) << text;

    write(model.path() + "/config.json", "{");
    std::filesystem::remove(model.path() + "/tokenizer.json");
    std::filesystem::remove(model.path() + "/tokenizer.model");
    text = describe(model.path());
    EXPECT_NE(text.find("model: not usable: "), std::string::npos) << text;
    EXPECT_NE(text.find("tokenizer: none: "), std::string::npos) << text;
}

TEST(ModelAbi, RefusesBadArguments) {
    size_t length = 7;
    EXPECT_INVALID("path", nl_model_describe(nullptr, 3, nullptr, 0, &length));
    EXPECT_INVALID("path_length is 0", nl_model_describe("x", 0, nullptr, 0, &length));
    EXPECT_INVALID("length", nl_model_describe("x", 1, nullptr, 0, nullptr));
    EXPECT_FAILS(NL_ERROR_NOT_FOUND, "/nowhere/at/all", nl_model_describe("/nowhere/at/all", 15, nullptr, 0, &length));
    EXPECT_EQ(length, 7U);
}

// Without its tokenizer, which is of an unknown kind, a model still works on tokens.
TEST(ModelAbi, AnEngineLeavesAnUnknownTokenizerOut) {
    const TinyModel model;
    write(model.path() + "/tokenizer.json", kWordPiece);
    const EngineHandle engine = make_engine(model);
    ASSERT_NE(engine, nullptr);
    nl_tokenizer* tokenizer = nullptr;
    EXPECT_FAILS(NL_ERROR_UNSUPPORTED, "WordPiece", nl_engine_tokenizer(engine.get(), &tokenizer));
    EXPECT_EQ(tokenizer, nullptr);
    const int32_t tokens[] = {1, 2, 3};
    nl_chunk* chunk = nullptr;
    NL_CHECK(nl_chunk_prefill(engine.get(), tokens, 3, 0, nullptr, 0, &chunk));
    nl_chunk_free(chunk);
}

}  // namespace
}  // namespace nanolith::test
