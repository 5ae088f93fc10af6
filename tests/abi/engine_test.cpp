// Making engines: what is loaded, what is refused and why.
#include <filesystem>
#include <fstream>
#include <thread>

#include "abi/abi_fixtures.h"

namespace nanolith::test {
namespace {

class EngineCreate : public testing::Test {
  protected:
    void SetUp() override {
        options_ = make_options(NL_OPTIONS_ENGINE);
        set_device("cpu");
    }
    void set_device(const std::string& device) {
        NL_CHECK(nl_options_set_text(options_.get(), NL_OPTION_DEVICE, device.data(), device.size()));
    }
    nl_status create(const std::string& path) {
        nl_engine* engine = nullptr;
        const nl_status status = nl_engine_create(path.data(), path.size(), options_.get(), &engine);
        EXPECT_EQ(engine == nullptr, status != NL_OK);
        engine_.reset(engine);
        return status;
    }

    TinyModel model_;
    OptionsHandle options_;
    EngineHandle engine_;
};

TEST_F(EngineCreate, RefusesWrongArguments) {
    nl_engine* engine = nullptr;
    EXPECT_INVALID("path", nl_engine_create(nullptr, 3, nullptr, &engine));
    EXPECT_INVALID("path_length", nl_engine_create("x", 0, nullptr, &engine));
    EXPECT_INVALID("path_length", nl_engine_create("x", SIZE_MAX, nullptr, &engine));
    EXPECT_INVALID("path", nl_engine_create("a\0b", 3, nullptr, &engine));
    EXPECT_INVALID("engine", nl_engine_create("x", 1, nullptr, nullptr));
    EXPECT_EQ(engine, nullptr);
}

TEST_F(EngineCreate, NamesWhatIsMissing) {
    EXPECT_FAILS(NL_ERROR_NOT_FOUND, "/nowhere/at/all", create("/nowhere/at/all"));
    std::filesystem::remove(model_.path() + "/model.safetensors");
    EXPECT_FAILS(NL_ERROR_NOT_FOUND, "model.safetensors", create(model_.path()));
    std::filesystem::remove(model_.path() + "/config.json");
    EXPECT_FAILS(NL_ERROR_NOT_FOUND, "config.json", create(model_.path()));
}

TEST_F(EngineCreate, RefusesDamagedFiles) {
    std::filesystem::resize_file(model_.path() + "/model.safetensors", 5000);
    EXPECT_FAILS(NL_ERROR_BAD_MODEL, "model.safetensors", create(model_.path()));
    std::ofstream(model_.path() + "/config.json") << "{\"model_type\": \"llama\"";
    EXPECT_FAILS(NL_ERROR_BAD_MODEL, "config.json", create(model_.path()));
    const TinyModel other;
    std::filesystem::resize_file(other.path() + "/tokenizer.model", 1000);
    EXPECT_FAILS(NL_ERROR_BAD_MODEL, "tokenizer.model", create(other.path()));
}

TEST_F(EngineCreate, RefusesDevicesAndDtypesThatAreNotThere) {
    for (const std::string device : {"gpu", "CPU", "cuda:", "cuda:x", "cuda:-1", "cuda:1 ", "cuda:99999999999"}) {
        set_device(device);
        EXPECT_INVALID(device, create(model_.path()));
    }
    set_device("cuda:63");
    EXPECT_EQ(create(model_.path()), NL_ERROR_NOT_FOUND) << nl_last_error();
    set_device("cpu");
    NL_CHECK(nl_options_set_int(options_.get(), NL_OPTION_DTYPE, NL_DTYPE_F16));
    EXPECT_FAILS(NL_ERROR_UNSUPPORTED, "float16", create(model_.path()));
}

TEST_F(EngineCreate, RefusesSizesThatDoNotFit) {
    NL_CHECK(nl_options_set_int(options_.get(), NL_OPTION_MAX_CONTEXT, 513));
    EXPECT_INVALID("max_context is 513", create(model_.path()));
    NL_CHECK(nl_options_set_int(options_.get(), NL_OPTION_MAX_CONTEXT, INT32_MAX));
    EXPECT_INVALID("max_context", create(model_.path()));
    NL_CHECK(nl_options_set_int(options_.get(), NL_OPTION_MAX_CONTEXT, 0));
    NL_CHECK(nl_options_set_int(options_.get(), NL_OPTION_NUM_PAGES, INT32_MAX));
    const nl_status status = create(model_.path());
    EXPECT_TRUE(status == NL_ERROR_INVALID_ARGUMENT || status == NL_ERROR_OUT_OF_MEMORY) << status;
    EXPECT_NE(std::string(nl_last_error()).find("num_pages"), std::string::npos) << nl_last_error();
}

TEST_F(EngineCreate, TellsTheModelsFacts) {
    const TinyModelShape& shape = model_.shape();
    NL_CHECK(nl_options_set_int(options_.get(), NL_OPTION_PAGE_SIZE, 32));
    NL_CHECK(nl_options_set_int(options_.get(), NL_OPTION_NUM_PAGES, 10));
    NL_CHECK(nl_options_set_int(options_.get(), NL_OPTION_MAX_CONTEXT, 100));
    NL_CHECK(create(model_.path()));
    options_.reset();  // an engine does not need its options any more
    const nl_engine* engine = engine_.get();
    EXPECT_EQ(fact(engine, NL_ENGINE_VOCAB_SIZE), shape.vocab_size);
    EXPECT_EQ(fact(engine, NL_ENGINE_NUM_LAYERS), shape.num_layers);
    EXPECT_EQ(fact(engine, NL_ENGINE_HIDDEN_SIZE), shape.hidden_size);
    EXPECT_EQ(fact(engine, NL_ENGINE_NUM_HEADS), shape.num_heads);
    EXPECT_EQ(fact(engine, NL_ENGINE_NUM_KV_HEADS), shape.num_kv_heads);
    EXPECT_EQ(fact(engine, NL_ENGINE_HEAD_DIM), shape.head_dim);
    EXPECT_EQ(fact(engine, NL_ENGINE_MAX_CONTEXT), 100);
    EXPECT_EQ(fact(engine, NL_ENGINE_DTYPE), NL_DTYPE_F32);
    EXPECT_EQ(fact(engine, NL_ENGINE_PAGE_SIZE), 32);
    // Two layers, K and V, two heads of eight floats for each of 32 tokens.
    EXPECT_EQ(fact(engine, NL_ENGINE_PAGE_BYTES), 2 * 2 * 2 * 8 * 4 * 32);
    EXPECT_EQ(fact(engine, NL_ENGINE_PAGES_TOTAL), 10);
    EXPECT_EQ(fact(engine, NL_ENGINE_PAGES_FREE), 10);
    EXPECT_EQ(fact(engine, NL_ENGINE_PAGES_EVICTABLE), 0);
    // Embedding and head; per layer the projections (q and o 32 x 32, k and v 16 x 32, three of 64 x 32) and two
    // norms; the final norm.
    EXPECT_EQ(fact(engine, NL_ENGINE_PARAMETERS), 2 * 400 * 32 + 2 * (2 * 1024 + 2 * 512 + 3 * 2048 + 64) + 32);
}

TEST_F(EngineCreate, KnowsEndTokens) {
    NL_CHECK(create(model_.path()));
    for (const int32_t token : {-1, 0, 1, 2, 3, 7, 400, INT32_MAX}) {
        int32_t is_end = -1;
        NL_CHECK(nl_engine_is_end_token(engine_.get(), token, &is_end));
        EXPECT_EQ(is_end, token == 2 || token == 7) << token;
    }
}

TEST_F(EngineCreate, DefaultOptionsWork) {
    nl_engine* made = nullptr;
    NL_CHECK(nl_engine_create(model_.path().data(), model_.path().size(), nullptr, &made));
    const EngineHandle engine(made);
    EXPECT_EQ(fact(engine.get(), NL_ENGINE_MAX_CONTEXT), 512);
    EXPECT_EQ(fact(engine.get(), NL_ENGINE_PAGE_SIZE), 64);
    EXPECT_GE(fact(engine.get(), NL_ENGINE_PAGES_TOTAL), 8);
}

void count_lines(void* user_data, int32_t severity, const char* message, size_t length) {
    EXPECT_GE(severity, NL_LOG_DEBUG);
    EXPECT_LE(severity, NL_LOG_ERROR);
    EXPECT_NE(message, nullptr);
    EXPECT_GT(length, 0U);
    ++*static_cast<int*>(user_data);
}

TEST_F(EngineCreate, LogsToTheCallback) {
    int lines = 0;
    NL_CHECK(nl_options_set_log(options_.get(), count_lines, &lines));
    NL_CHECK(create(model_.path()));
    EXPECT_GT(lines, 0);
}

TEST_F(EngineCreate, LastErrorIsEachThreadsOwn) {
    EXPECT_INVALID("NL_OPTION_PAGE_SIZE is 17", nl_options_set_int(options_.get(), NL_OPTION_PAGE_SIZE, 17));
    const std::string mine = nl_last_error();
    std::string before;
    std::thread([&] {
        before = nl_last_error();
        EXPECT_INVALID("options", nl_options_create(NL_OPTIONS_ENGINE, nullptr));
    }).join();
    EXPECT_EQ(before, "");
    EXPECT_EQ(nl_last_error(), mine);
}

}  // namespace
}  // namespace nanolith::test
