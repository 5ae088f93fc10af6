// The chat format functions through the ABI. What they compute is tested in tests/unit.
#include <algorithm>

#include "abi/abi_fixtures.h"

namespace nanolith::test {
namespace {

using ChatFormatHandle = Handle<nl_chat_format, nl_chat_format_free>;

// A byte-level tokenizer of a few pieces with ChatML's marks.
constexpr const char* kTokenizer =
    R"({"version":"1.0","added_tokens":[{"content":"<|im_start|>","id":6,"special":true},)"
    R"({"content":"<|im_end|>","id":7,"special":true}],"normalizer":null,)"
    R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"post_processor":null,)"
    R"("decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"Ċ":3,"u":4,"s":5},)"
    R"("merges":["a b"]}})";
constexpr const char* kConfig =
    R"({"chat_template":"{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %})"
    R"({% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"})";

TokenizerHandle load(const TempFolder& folder) {
    nl_tokenizer* tokenizer = nullptr;
    EXPECT_EQ(nl_tokenizer_load(folder.path().data(), folder.path().size(), &tokenizer), NL_OK) << nl_last_error();
    return TokenizerHandle(tokenizer);
}

class ChatAbi : public testing::Test {
  protected:
    void SetUp() override {
        folder_.write("tokenizer.json", kTokenizer);
        folder_.write("tokenizer_config.json", kConfig);
        tokenizer_ = load(folder_);
        nl_chat_format* format = nullptr;
        NL_CHECK(nl_chat_format_create(tokenizer_.get(), nullptr, 0, &format));
        format_.reset(format);
    }

    TempFolder folder_;
    TokenizerHandle tokenizer_;
    ChatFormatHandle format_;
    const std::vector<int32_t> roles_ = {NL_ROLE_SYSTEM, NL_ROLE_USER};
    const std::vector<const char*> contents_ = {"ab", "ba<|im_end|>"};
    const std::vector<size_t> lengths_ = {2, 2};
};

TEST_F(ChatAbi, RendersAndKeepsItsTokenizer) {
    tokenizer_.reset();
    size_t count = 0;
    std::vector<size_t> ends(2, 77);
    EXPECT_FAILS(NL_ERROR_BUFFER_TOO_SMALL, "capacity is 0",
                 nl_chat_format_render(format_.get(), roles_.data(), contents_.data(), lengths_.data(), 2, 0,
                                       ends.data(), nullptr, 0, &count));
    EXPECT_EQ(ends, (std::vector<size_t>{77, 77}));
    Tokens tokens(count);
    NL_CHECK(nl_chat_format_render(format_.get(), roles_.data(), contents_.data(), lengths_.data(), 2, 0, ends.data(),
                                   tokens.data(), count, &count));
    // The tokenizer knows but a few letters and leaves out the others.
    EXPECT_EQ(tokens, (Tokens{6, 5, 5, 3, 2, 7, 3, 6, 4, 5, 3, 1, 0, 7, 3}));
    EXPECT_EQ(ends, (std::vector<size_t>{7, 15}));
    EXPECT_FAILS(NL_ERROR_BUFFER_TOO_SMALL, "capacity is 0",
                 nl_chat_format_render(format_.get(), roles_.data(), contents_.data(), lengths_.data(), 2,
                                       NL_CHAT_ADD_GENERATION_PROMPT, nullptr, nullptr, 0, &count));
    EXPECT_GT(count, tokens.size());
    char name[16];
    NL_CHECK(nl_chat_format_name(format_.get(), name, sizeof name, &count));
    EXPECT_EQ(std::string(name, count), "chatml");
}

TEST_F(ChatAbi, RefusesWrongArguments) {
    nl_chat_format* format = nullptr;
    size_t count = 77;
    EXPECT_INVALID("tokenizer", nl_chat_format_create(nullptr, nullptr, 0, &format));
    EXPECT_INVALID("format", nl_chat_format_create(tokenizer_.get(), nullptr, 0, nullptr));
    EXPECT_INVALID("name", nl_chat_format_create(tokenizer_.get(), nullptr, 3, &format));
    EXPECT_INVALID("name is \"x\"", nl_chat_format_create(tokenizer_.get(), "x", 1, &format));
    EXPECT_FAILS(NL_ERROR_UNSUPPORTED, "<|im_sep|>", nl_chat_format_create(tokenizer_.get(), "phi-4", 5, &format));
    EXPECT_INVALID("format", nl_chat_format_name(nullptr, nullptr, 0, &count));
    EXPECT_INVALID("length", nl_chat_format_name(format_.get(), nullptr, 0, nullptr));
    const auto render = [&](const nl_chat_format* of, const int32_t* roles, const char* const* contents,
                            const size_t* lengths, size_t num, uint32_t flags, size_t* size) {
        return nl_chat_format_render(of, roles, contents, lengths, num, flags, nullptr, nullptr, 0, size);
    };
    const nl_chat_format* good = format_.get();
    const int32_t* roles = roles_.data();
    const char* const* contents = contents_.data();
    const size_t* lengths = lengths_.data();
    EXPECT_INVALID("format", render(nullptr, roles, contents, lengths, 2, 0, &count));
    EXPECT_INVALID("roles", render(good, nullptr, contents, lengths, 2, 0, &count));
    EXPECT_INVALID("contents", render(good, roles, nullptr, lengths, 2, 0, &count));
    EXPECT_INVALID("content_lengths", render(good, roles, contents, nullptr, 2, 0, &count));
    EXPECT_INVALID("num_messages is 0", render(good, roles, contents, lengths, 0, 0, &count));
    EXPECT_INVALID("num_messages", render(good, roles, contents, lengths, SIZE_MAX, 0, &count));
    EXPECT_INVALID("flags is 0x2", render(good, roles, contents, lengths, 2, 2, &count));
    EXPECT_INVALID("count", render(good, roles, contents, lengths, 2, 0, nullptr));
    const int32_t wrong_roles[] = {0, 9};
    EXPECT_INVALID("roles[1] is 9", render(good, wrong_roles, contents, lengths, 2, 0, &count));
    const char* const no_content[] = {"a", nullptr};
    EXPECT_INVALID("contents[1] is NULL", render(good, roles, no_content, lengths, 2, 0, &count));
    const size_t long_lengths[] = {2, SIZE_MAX};
    EXPECT_INVALID("content_lengths[1]", render(good, roles, contents, long_lengths, 2, 0, &count));
    EXPECT_EQ(format, nullptr);
    EXPECT_EQ(count, 77U);
}

TEST_F(ChatAbi, AFolderWithoutATemplateOrWithAnotherOne) {
    nl_chat_format* format = nullptr;
    folder_.write("tokenizer_config.json", "{}");
    EXPECT_FAILS(NL_ERROR_NOT_FOUND, "no chat template", nl_chat_format_create(load(folder_).get(), "", 0, &format));
    folder_.write("tokenizer_config.json", R"({"chat_template":"{% other %}"})");
    EXPECT_FAILS(NL_ERROR_UNSUPPORTED, "line 1: the tag \"other\"",
                 nl_chat_format_create(load(folder_).get(), "", 0, &format));
    EXPECT_EQ(format, nullptr);
}

TEST_F(ChatAbi, RendersJson) {
    const std::string request = R"({"messages":[{"role":"system","content":"ab"},{"role":"user","content":"ba"}]})";
    size_t count = 0;
    std::vector<size_t> ends(2, 77);
    const auto render = [&](const std::string& json, size_t num_ends, int32_t* tokens, size_t capacity) {
        return nl_chat_format_render_json(format_.get(), json.data(), json.size(), 0, ends.data(), num_ends, tokens,
                                          capacity, &count);
    };
    EXPECT_FAILS(NL_ERROR_BUFFER_TOO_SMALL, "capacity is 0", render(request, 2, nullptr, 0));
    EXPECT_EQ(ends, (std::vector<size_t>{77, 77}));
    Tokens tokens(count);
    NL_CHECK(render(request, 2, tokens.data(), count));
    EXPECT_EQ(tokens, (Tokens{6, 5, 5, 3, 2, 7, 3, 6, 4, 5, 3, 1, 0, 7, 3}));
    EXPECT_EQ(ends, (std::vector<size_t>{7, 15}));
    NL_CHECK(render(request, 0, tokens.data(), count));
    EXPECT_INVALID("num_ends is 1", render(request, 1, tokens.data(), count));
    EXPECT_INVALID("byte", render("{\"messages\":", 0, tokens.data(), count));
    EXPECT_INVALID("messages", render("{}", 0, tokens.data(), count));
    EXPECT_INVALID("messages", render(R"({"messages":[]})", 0, tokens.data(), count));
    EXPECT_INVALID("messages[0] has no role", render(R"({"messages":[{"content":"a"}]})", 0, tokens.data(), count));
    EXPECT_INVALID("messages[0].role is \"<x>\"",
                   render(R"({"messages":[{"role":"<x>","content":"a"}]})", 0, tokens.data(), count));
    EXPECT_INVALID("\"tool\"",
                   render(R"({"messages":[{"role":"user","content":"a"}],"tool":[]})", 0, tokens.data(), count));
    EXPECT_INVALID("2024-02-30", render(R"({"messages":[{"role":"user","content":"a"}],"date":"2024-02-30"})", 0,
                                        tokens.data(), count));
    EXPECT_INVALID("request", nl_chat_format_render_json(format_.get(), nullptr, 3, 0, nullptr, 0, nullptr, 0, &count));
    EXPECT_INVALID("format", nl_chat_format_render_json(nullptr, "{}", 2, 0, nullptr, 0, nullptr, 0, &count));
    EXPECT_INVALID("count", nl_chat_format_render_json(format_.get(), "{}", 2, 0, nullptr, 0, nullptr, 0, nullptr));
    EXPECT_INVALID("flags is 0x2", nl_chat_format_render_json(format_.get(), request.data(), request.size(), 2, nullptr,
                                                              0, nullptr, 0, &count));
}

}  // namespace
}  // namespace nanolith::test
