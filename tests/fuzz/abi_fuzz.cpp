// Fuzzes the ABI as a program: the input's bytes choose the calls and their arguments, handles among them, upon a tiny
// random model. No call may end the process, report a defect of the library or lose a page.
#include <fuzzer/FuzzedDataProvider.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "abi/tiny_model.h"
#include "nanolith/nanolith.h"
#include "support/temp_folder.h"

namespace {

constexpr int32_t kNumPages = 24;
constexpr int kMostCalls = 64;
constexpr size_t kMostHandles = 8;

void fail(const char* what) {
    std::fprintf(stderr, "%s: %s\n", what, nl_last_error());
    abort();
}

// A call's status: any but a defect, and with a sentence where it failed.
bool worked(nl_status status) {
    if (status == NL_OK) return true;
    if (std::strcmp(nl_status_name(status), "NL_ERROR_UNKNOWN") == 0) fail("a status without a name");
    if (status == NL_ERROR_INTERNAL) fail("a defect");
    if (std::strlen(nl_last_error()) < 8) fail("a failure without a sentence");
    return false;
}

nl_options* engine_options() {
    nl_options* options = nullptr;
    if (!worked(nl_options_create(NL_OPTIONS_ENGINE, &options))) fail("options");
    nl_options_set_text(options, NL_OPTION_DEVICE, "cpu", 3);
    nl_options_set_int(options, NL_OPTION_THREADS, 1);
    nl_options_set_int(options, NL_OPTION_NUM_PAGES, kNumPages);
    nl_options_set_int(options, NL_OPTION_PAGE_SIZE, 16);
    nl_options_set_int(options, NL_OPTION_MAX_BATCH_TOKENS, 32);
    return options;
}

const std::string& model_path() {
    static const nanolith::test::TinyModel model({.num_layers = 1, .max_context = 128});
    return model.path();
}

// The text that a program sets for the option `key`: `value` itself, but for NL_OPTION_STORE_FOLDER a path within a
// temporary folder. Otherwise engines would make folders with random names wherever the fuzzer was started.
std::string confined(int32_t key, std::string value) {
    static const nanolith::test::TempFolder folder;
    if (key != NL_OPTION_STORE_FOLDER || value.empty()) return value;
    std::replace(value.begin(), value.end(), '/', '_');
    return folder.file("store-" + value);
}

// The engine that all programs share, so that what one leaves behind shows in the next.
nl_engine* shared_engine() {
    static nl_engine* const engine = [] {
        nl_options* const options = engine_options();
        nl_engine* made = nullptr;
        if (!worked(nl_engine_create(model_path().data(), model_path().size(), options, &made))) fail("no engine");
        nl_options_free(options);
        return made;
    }();
    return engine;
}

// Handles of one type; a program may ask for one that is not there and gets NULL.
template <typename T, void (*kFree)(T*)>
class Handles {
  public:
    ~Handles() {
        for (T* const handle : all_) kFree(handle);
    }
    void add(T* handle) {
        if (handle == nullptr) return;
        if (all_.size() < kMostHandles) {
            all_.push_back(handle);
        } else {
            kFree(handle);
        }
    }
    T* any(FuzzedDataProvider& input) const {
        const auto index = input.ConsumeIntegralInRange<size_t>(0, kMostHandles);
        return index < all_.size() ? all_[index] : all_.empty() || index == kMostHandles ? nullptr : all_.front();
    }
    void drop(FuzzedDataProvider& input) {
        if (all_.empty()) return kFree(nullptr);
        const auto index = input.ConsumeIntegralInRange<size_t>(0, all_.size() - 1);
        kFree(all_[index]);
        all_.erase(all_.begin() + index);
    }

  private:
    std::vector<T*> all_;
};

class Program {
  public:
    explicit Program(const uint8_t* data, size_t size) : input_(data, size) {}

    void run() {
        for (int i = 0; i < kMostCalls && input_.remaining_bytes() > 0; ++i) step();
    }

  private:
    using Step = void (Program::*)();

    void step() {
        static constexpr Step kSteps[] = {
            &Program::encode,       &Program::decode,     &Program::pieces,      &Program::stream,
            &Program::chat,         &Program::set_option, &Program::get_option,  &Program::new_options,
            &Program::new_cache,    &Program::extend,     &Program::fork,        &Program::truncate,
            &Program::read_cache,   &Program::sampling,   &Program::decode_step, &Program::generate,
            &Program::next,         &Program::prefill,    &Program::chunk_facts, &Program::cancel,
            &Program::engine_facts, &Program::describe,   &Program::free_some,   &Program::new_engine,
            &Program::new_tokenizer};
        (this->*kSteps[input_.ConsumeIntegralInRange<size_t>(0, std::size(kSteps) - 1)])();
    }

    int32_t number() {
        return input_.ConsumeBool() ? input_.ConsumeIntegralInRange<int32_t>(-2, 12)
                                    : input_.ConsumeIntegral<int32_t>();
    }
    // Mostly tokens of the model.
    std::vector<int32_t> tokens() {
        std::vector<int32_t> all(input_.ConsumeIntegralInRange<size_t>(0, 40));
        for (int32_t& token : all) token = input_.ConsumeIntegralInRange<int32_t>(0, 399);
        if (!all.empty() && input_.ConsumeIntegralInRange(0, 15) == 0) all.back() = input_.ConsumeIntegral<int32_t>();
        return all;
    }
    std::string text() { return input_.ConsumeRandomLengthString(64); }
    // NULL now and then.
    template <typename T>
    T* perhaps(T* pointer) {
        return input_.ConsumeIntegralInRange(0, 15) == 0 ? nullptr : pointer;
    }
    nl_engine* engine() { return perhaps(shared_engine()); }

    void encode() {
        const std::string what = text();
        std::vector<int32_t> out(input_.ConsumeIntegralInRange<size_t>(0, 80));
        size_t count = 0;
        worked(nl_tokenizer_encode(tokenizers_.any(input_), perhaps(what.data()), what.size(),
                                   input_.ConsumeIntegralInRange<uint32_t>(0, 20), perhaps(out.data()), out.size(),
                                   perhaps(&count)));
    }
    void decode() {
        const auto what = tokens();
        char out[64];
        size_t length = 0;
        worked(nl_tokenizer_decode(tokenizers_.any(input_), perhaps(what.data()), what.size(), perhaps(out),
                                   input_.ConsumeIntegralInRange<size_t>(0, sizeof out), perhaps(&length)));
    }
    void pieces() {
        const std::string what = text();
        char out[32];
        size_t length = 0;
        int32_t token = 0;
        int64_t value = 0;
        const nl_tokenizer* const tokenizer = tokenizers_.any(input_);
        worked(nl_tokenizer_find(tokenizer, perhaps(what.data()), what.size(), perhaps(&token)));
        worked(nl_tokenizer_piece(tokenizer, number(), out, input_.ConsumeIntegralInRange<size_t>(0, sizeof out),
                                  perhaps(&length)));
        worked(nl_tokenizer_query(tokenizer, number(), perhaps(&value)));
    }
    void stream() {
        nl_text_stream* made = nullptr;
        if (input_.ConsumeBool() && worked(nl_text_stream_create(tokenizers_.any(input_), &made))) streams_.add(made);
        nl_text_stream* const used = streams_.any(input_);
        char out[32];
        size_t length = 0;
        for (const int32_t token : tokens()) worked(nl_text_stream_push(used, token, out, sizeof out, &length));
        if (input_.ConsumeBool()) worked(nl_text_stream_finish(used, out, sizeof out, perhaps(&length)));
    }
    void chat() {
        nl_chat_format* made = nullptr;
        const std::string name = input_.PickValueInArray({"plain", "chatml", "llama-2", "gemma", "none", ""});
        if (worked(nl_chat_format_create(tokenizers_.any(input_), name.data(), name.size(), &made))) formats_.add(made);
        const std::string contents[3] = {text(), text(), text()};
        const char* const pointers[3] = {contents[0].data(), contents[1].data(), contents[2].data()};
        const size_t lengths[3] = {contents[0].size(), contents[1].size(), contents[2].size()};
        const int32_t roles[3] = {number(), 1, input_.ConsumeIntegralInRange(0, 2)};
        size_t ends[3];
        int32_t out[64];
        size_t count = 0;
        worked(nl_chat_format_render(formats_.any(input_), perhaps(roles), perhaps(pointers), perhaps(lengths),
                                     input_.ConsumeIntegralInRange<size_t>(0, 3),
                                     input_.ConsumeIntegralInRange<uint32_t>(0, 2), perhaps(ends), out,
                                     input_.ConsumeIntegralInRange<size_t>(0, 64), perhaps(&count)));
    }

    int32_t option_key() {
        constexpr int32_t kBases[] = {0, 99, 199, 299};
        return input_.PickValueInArray(kBases) + input_.ConsumeIntegralInRange(0, 24);
    }
    void new_options() {
        nl_options* made = nullptr;
        if (worked(nl_options_create(input_.ConsumeIntegralInRange(0, 5), perhaps(&made)))) options_.add(made);
    }
    void set_option() {
        nl_options* const options = options_.any(input_);
        const int32_t key = option_key();
        worked(nl_options_set_int(options, key, number()));
        worked(nl_options_set_float(options, key, input_.ConsumeFloatingPoint<double>()));
        const std::string what = text();
        worked(nl_options_set_text(options, key, perhaps(what.data()), what.size()));
        if (input_.ConsumeBool()) worked(nl_options_reset(options, option_key()));
    }
    void get_option() {
        const nl_options* const options = options_.any(input_);
        const int32_t key = option_key();
        int64_t integer = 0;
        double real = 0;
        char out[32];
        size_t length = 0;
        worked(nl_options_get_int(options, key, input_.ConsumeIntegralInRange<size_t>(0, 3), perhaps(&integer)));
        worked(nl_options_get_float(options, key, 0, perhaps(&real)));
        worked(nl_options_get_text(options, key, 0, out, sizeof out, perhaps(&length)));
        worked(nl_options_get_count(options, key, perhaps(&length)));
    }

    void new_cache() {
        const nl_chunk* chunks[3] = {chunks_.any(input_), chunks_.any(input_), chunks_.any(input_)};
        nl_cache* made = nullptr;
        if (worked(nl_cache_create(engine(), input_.ConsumeBool() ? options_.any(input_) : nullptr, perhaps(chunks),
                                   input_.ConsumeIntegralInRange<size_t>(0, 3), &made)))
            caches_.add(made);
    }
    void extend() {
        const auto what = tokens();
        worked(nl_cache_extend(caches_.any(input_), perhaps(what.data()), what.size()));
    }
    void fork() {
        nl_cache* made = nullptr;
        if (worked(nl_cache_fork(caches_.any(input_), perhaps(&made)))) caches_.add(made);
    }
    void truncate() { worked(nl_cache_truncate(caches_.any(input_), input_.ConsumeIntegralInRange<size_t>(0, 140))); }
    void read_cache() {
        nl_cache* const cache = caches_.any(input_);
        std::vector<float> logits(input_.ConsumeBool() ? 400 : 3);
        int32_t out[128];
        size_t count = 0;
        int64_t value = 0;
        worked(nl_cache_tokens(cache, out, input_.ConsumeIntegralInRange<size_t>(0, 128), perhaps(&count)));
        worked(nl_cache_query(cache, number(), perhaps(&value)));
        worked(nl_cache_logits(cache, perhaps(logits.data()), logits.size(), perhaps(&count)));
    }
    void sampling() { worked(nl_cache_set_sampling(caches_.any(input_), options_.any(input_))); }
    void decode_step() {
        nl_cache* const caches[3] = {caches_.any(input_), caches_.any(input_), caches_.any(input_)};
        int32_t out[3];
        worked(nl_decode_step(perhaps(caches), input_.ConsumeIntegralInRange<size_t>(0, 3), perhaps(out)));
    }

    void generate() {
        const auto what = tokens();
        nl_generation* made = nullptr;
        if (worked(nl_generation_start(caches_.any(input_), perhaps(what.data()), what.size(),
                                       input_.ConsumeBool() ? options_.any(input_) : nullptr, &made)))
            generations_.add(made);
    }
    void next() {
        nl_generation* const generation = generations_.any(input_);
        int32_t drawn[8];
        char out[16];
        size_t count = 0;
        size_t length = 0;
        int32_t end = 0;
        int64_t value = 0;
        worked(nl_generation_next(generation, input_.ConsumeIntegralInRange(0, 2), perhaps(drawn),
                                  input_.ConsumeIntegralInRange<size_t>(0, 8), perhaps(&count), perhaps(out),
                                  input_.ConsumeIntegralInRange<size_t>(0, sizeof out), perhaps(&length),
                                  perhaps(&end)));
        worked(nl_generation_query(generation, number(), perhaps(&value)));
        if (input_.ConsumeIntegralInRange(0, 7) == 0) worked(nl_generation_descriptor(generation, perhaps(&end)));
    }

    void prefill() {
        const auto what = tokens();
        const nl_chunk* const before[2] = {chunks_.any(input_), chunks_.any(input_)};
        nl_chunk* made = nullptr;
        if (worked(nl_chunk_prefill(engine(), perhaps(what.data()), what.size(), number(), perhaps(before),
                                    input_.ConsumeIntegralInRange<size_t>(0, 2), &made)))
            chunks_.add(made);
    }
    void chunk_facts() {
        int64_t value = 0;
        nl_chunk* made = nullptr;
        worked(nl_chunk_query(chunks_.any(input_), number(), perhaps(&value)));
        if (worked(nl_chunk_retain(chunks_.any(input_), &made))) chunks_.add(made);
    }
    void cancel() {
        if (input_.ConsumeBool()) worked(nl_generation_cancel(generations_.any(input_)));
        if (input_.ConsumeBool()) worked(nl_cache_cancel(caches_.any(input_)));
        if (input_.ConsumeBool()) worked(nl_engine_cancel(engine()));
    }
    void engine_facts() {
        char out[64];
        size_t length = 0;
        int64_t value = 0;
        int32_t flag = 0;
        worked(nl_engine_query(engine(), number(), perhaps(&value)));
        worked(nl_engine_device(engine(), out, input_.ConsumeIntegralInRange<size_t>(0, 64), perhaps(&length)));
        worked(nl_engine_is_end_token(engine(), number(), perhaps(&flag)));
        std::vector<char> json(input_.ConsumeBool() ? 16384 : 8);
        worked(nl_engine_describe(engine(), json.data(), json.size(), perhaps(&length)));
        worked(nl_engine_metrics(engine(), json.data(), json.size(), perhaps(&length)));
        worked(nl_cache_describe(caches_.any(input_), json.data(), json.size(), perhaps(&length)));
    }
    void describe() {
        std::vector<char> out(input_.ConsumeBool() ? 4096 : 8);
        size_t length = 0;
        int64_t integers[3];
        double numbers[3];
        worked(nl_option_describe(number(), out.data(), out.size(), &length));
        worked(nl_fact_describe(number(), out.data(), out.size(), perhaps(&length)));
        worked(nl_option_bounds_int(option_key(), &integers[0], &integers[1], perhaps(&integers[2])));
        worked(nl_option_bounds_float(option_key(), &numbers[0], &numbers[1], perhaps(&numbers[2])));
        if (input_.ConsumeIntegralInRange(0, 15) == 0)
            worked(
                nl_model_describe(model_path().data(), model_path().size(), number(), out.data(), out.size(), &length));
    }

    void new_tokenizer() {
        nl_tokenizer* made = nullptr;
        const bool loads = input_.ConsumeIntegralInRange(0, 7) == 0;
        const nl_status status = loads ? nl_tokenizer_load(model_path().data(), model_path().size(), &made)
                                       : nl_engine_tokenizer(engine(), perhaps(&made));
        if (worked(status)) tokenizers_.add(made);
    }
    // An engine of its own, which goes again at once; its options may be any, within what a machine can hold.
    void new_engine() {
        nl_options* const options = engine_options();
        const int32_t key = option_key();
        if (key != NL_OPTION_NUM_PAGES && key != NL_OPTION_THREADS) {
            worked(nl_options_set_int(options, key, number()));
            const std::string what = confined(key, text());
            worked(nl_options_set_text(options, key, what.data(), what.size()));
        }
        nl_engine* made = nullptr;
        nl_cache* cache = nullptr;
        if (worked(nl_engine_create(model_path().data(), model_path().size(), perhaps(options), &made)))
            worked(nl_cache_create(made, nullptr, nullptr, 0, &cache));
        const int32_t some[4] = {1, 20, 30, 40};
        if (cache != nullptr) worked(nl_cache_extend(cache, some, 4));
        nl_engine_free(made);
        nl_cache_free(cache);
        nl_options_free(options);
    }
    void free_some() {
        switch (input_.ConsumeIntegralInRange(0, 6)) {
            case 0:
                return tokenizers_.drop(input_);
            case 1:
                return streams_.drop(input_);
            case 2:
                return formats_.drop(input_);
            case 3:
                return options_.drop(input_);
            case 4:
                return caches_.drop(input_);
            case 5:
                return generations_.drop(input_);
            default:
                return chunks_.drop(input_);
        }
    }

    FuzzedDataProvider input_;
    Handles<nl_options, nl_options_free> options_;
    Handles<nl_tokenizer, nl_tokenizer_free> tokenizers_;
    Handles<nl_text_stream, nl_text_stream_free> streams_;
    Handles<nl_chat_format, nl_chat_format_free> formats_;
    Handles<nl_chunk, nl_chunk_free> chunks_;
    Handles<nl_cache, nl_cache_free> caches_;
    Handles<nl_generation, nl_generation_free> generations_;
};

// When every handle is gone all pages are free or a chunk's that nobody uses. Generations end at their next step.
void check_pages() {
    int64_t spare = 0;
    for (int i = 0; i < 5000 && spare != kNumPages; ++i) {
        int64_t free = 0;
        int64_t evictable = 0;
        nl_engine_query(shared_engine(), NL_ENGINE_PAGES_FREE, &free);
        nl_engine_query(shared_engine(), NL_ENGINE_PAGES_EVICTABLE, &evictable);
        spare = free + evictable;
        if (spare != kNumPages) usleep(1000);
    }
    if (spare != kNumPages) fail("pages were lost");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Program(data, size).run();
    check_pages();
    return 0;
}
