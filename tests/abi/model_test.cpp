// nl_model_describe, and engines on folders that are supported in part.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "abi/abi_fixtures.h"
#include "support/temp_folder.h"

namespace nanolith::test {
namespace {

std::string describe(const std::string& folder, int32_t format = NL_DESCRIBE_TEXT) {
    size_t length = 0;
    EXPECT_FAILS(NL_ERROR_BUFFER_TOO_SMALL, "capacity is 0",
                 nl_model_describe(folder.data(), folder.size(), format, nullptr, 0, &length));
    std::string text(length, '\0');
    EXPECT_EQ(nl_model_describe(folder.data(), folder.size(), format, text.data(), text.size(), &length), NL_OK)
        << nl_last_error();
    EXPECT_EQ(length, text.size());
    EXPECT_EQ(text.ends_with('\n'), format == NL_DESCRIBE_TEXT);
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
constexpr const char* kUnknownModel =
    R"({"version":"1.0","added_tokens":[],"normalizer":null,"pre_tokenizer":null,)"
    R"("post_processor":null,"decoder":null,"model":{"type":"Syllables","vocab":{}}})";

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

// The same names and values as the text, in the same order.
TEST(ModelAbi, DescribesInJson) {
    const TinyModel model;
    const auto object = nlohmann::ordered_json::parse(describe(model.path(), NL_DESCRIBE_JSON));
    ASSERT_TRUE(object.is_object());
    EXPECT_EQ(object.at("model"), "supported");
    EXPECT_EQ(object.at("architecture"), "LlamaForCausalLM");
    EXPECT_EQ(object.at("layers"), 2);
    EXPECT_EQ(object.at("hidden size"), 32);
    EXPECT_EQ(object.at("logits"), 400);
    std::string text;
    for (const auto& [name, value] : object.items())
        text += name + ": " + (value.is_string() ? value.get<std::string>() : value.dump()) + "\n";
    EXPECT_EQ(text, describe(model.path()));
}

// A name that is not UTF-8 stands in the reason why a part can't be used.
TEST(ModelAbi, JsonIsUtf8WhateverAFolderIsCalled) {
    const TempFolder folder;
    const std::string odd = folder.path() + "/\xff\xfe";
    std::filesystem::create_directory(odd);
    const auto object = nlohmann::json::parse(describe(odd, NL_DESCRIBE_JSON));
    EXPECT_NE(object.at("model").get<std::string>().find("\xEF\xBF\xBD"), std::string::npos) << object.dump();
}

TEST(ModelAbi, SaysWhyAPartIsNotUsable) {
    const TinyModel model;
    write(model.path() + "/tokenizer.json", kUnknownModel);
    std::string text = describe(model.path());
    EXPECT_TRUE(has_line(text, "model: supported")) << text;
    EXPECT_NE(text.find("tokenizer: not supported: "), std::string::npos) << text;
    EXPECT_NE(text.find("Syllables"), std::string::npos) << text;

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
    EXPECT_INVALID("path", nl_model_describe(nullptr, 3, 0, nullptr, 0, &length));
    EXPECT_INVALID("path_length is 0", nl_model_describe("x", 0, 0, nullptr, 0, &length));
    EXPECT_INVALID("length", nl_model_describe("x", 1, 0, nullptr, 0, nullptr));
    for (const int32_t format : {-1, 2})
        EXPECT_INVALID("format is " + std::to_string(format), nl_model_describe("x", 1, format, nullptr, 0, &length));
    EXPECT_FAILS(NL_ERROR_NOT_FOUND, "/nowhere/at/all",
                 nl_model_describe("/nowhere/at/all", 15, 0, nullptr, 0, &length));
    EXPECT_EQ(length, 7U);
}

// Without its tokenizer, which is of an unknown kind, a model still works on tokens.
TEST(ModelAbi, AnEngineLeavesAnUnknownTokenizerOut) {
    const TinyModel model;
    write(model.path() + "/tokenizer.json", kUnknownModel);
    const EngineHandle engine = make_engine(model);
    ASSERT_NE(engine, nullptr);
    nl_tokenizer* tokenizer = nullptr;
    EXPECT_FAILS(NL_ERROR_UNSUPPORTED, "Syllables", nl_engine_tokenizer(engine.get(), &tokenizer));
    EXPECT_EQ(tokenizer, nullptr);
    const int32_t tokens[] = {1, 2, 3};
    nl_chunk* chunk = nullptr;
    NL_CHECK(nl_chunk_prefill(engine.get(), tokens, 3, 0, nullptr, 0, &chunk));
    nl_chunk_free(chunk);
}

}  // namespace
}  // namespace nanolith::test
