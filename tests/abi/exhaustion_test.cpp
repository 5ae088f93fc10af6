// Everything that the system may refuse is refused in turn: each malloc, calloc, realloc, aligned allocation, mmap and
// pthread_create of the library and of what it depends on, once alone and once with all that follow. Every call ends
// with a status, the process lives on, and the next try succeeds. Not tried is what the header lists as beyond help.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>

#include "abi/abi_fixtures.h"
#include "abi/store_programs.h"
#include "support/shared_draws.h"

namespace {

std::atomic<int64_t> requests_left = -1;  // until one is refused; -1: none will be
std::atomic<bool> refuses_all_after = false;
std::atomic<int64_t> most_threads = INT64_MAX;  // that may live at once, beside those which nobody counts
std::atomic<int64_t> living_threads = 0;
std::atomic<int64_t> requests = 0;
std::atomic<bool> creates_engine = false;
std::atomic<uint32_t> one_in = 0;  // so many requests of store_programs.h is refused; 0: none
std::atomic<uint64_t> draws = 0;   // so far, from a seed on

bool is_of(const void* caller, const char* name) {
    Dl_info library;
    return dladdr(caller, &library) != 0 && std::strstr(library.dli_fname, name) != nullptr;
}

// Whether a request of a random program is the test's own, which is not refused.
bool is_spared() {
    return nanolith::test::store_programs::is_test || nanolith::test::store_programs::references > 0;
}
bool refused_by_chance(uint32_t chance) {
    if (nanolith::test::next_draw(draws) % chance != 0) return false;
    ++requests;
    return true;
}

// Called by the replacements below, whose caller is at `caller`.
bool refused(const void* caller) {
    const uint32_t chance = one_in;  // once: another thread may set it to 0 meanwhile
    if (chance > 0 ? is_spared() : requests_left < 0) return false;
    // GCC's OpenMP ends the process where it gets no memory; the library has made sure that there is some.
    if (is_of(caller, "libgomp")) return false;
    // So does oneDNN while an engine is made and oneDNN makes its objects and their code.
    if (creates_engine && is_of(caller, "libdnnl")) return false;
    if (chance > 0) return refused_by_chance(chance);
    ++requests;
    const int64_t left = requests_left.load();
    if (left > 0) {
        --requests_left;
        return false;
    }
    if (!refuses_all_after) requests_left = -1;
    return true;
}

}  // namespace

#define NL_REFUSED() refused(__builtin_return_address(0))

// What a thread runs, and that it has ended.
struct CountedThread {
    void* (*run)(void*);
    void* argument;

    static void* begin(void* self) {
        const CountedThread counted = *static_cast<CountedThread*>(self);
        std::free(self);
        void* const result = counted.run(counted.argument);
        --living_threads;
        return result;
    }
};

// Visible, so that libraries call them.
#pragma GCC visibility push(default)
extern "C" {
void* __libc_malloc(size_t size);                      // NOLINT
void* __libc_calloc(size_t count, size_t size);        // NOLINT
void* __libc_realloc(void* memory, size_t size);       // NOLINT
void* __libc_memalign(size_t alignment, size_t size);  // NOLINT

void* malloc(size_t size) {
    return NL_REFUSED() ? (errno = ENOMEM, nullptr) : __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
    return NL_REFUSED() ? (errno = ENOMEM, nullptr) : __libc_calloc(count, size);
}
void* realloc(void* memory, size_t size) {
    return NL_REFUSED() ? (errno = ENOMEM, nullptr) : __libc_realloc(memory, size);
}
void* memalign(size_t alignment, size_t size) {
    return NL_REFUSED() ? (errno = ENOMEM, nullptr) : __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
    return NL_REFUSED() ? (errno = ENOMEM, nullptr) : __libc_memalign(alignment, size);
}
int posix_memalign(void** memory, size_t alignment, size_t size) {
    if (NL_REFUSED()) return ENOMEM;
    *memory = __libc_memalign(alignment, size);
    return *memory == nullptr ? ENOMEM : 0;
}
void* mmap(void* address, size_t length, int protection, int flags, int file, off_t offset) noexcept {
    if (NL_REFUSED()) return errno = ENOMEM, MAP_FAILED;
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    return reinterpret_cast<void*>(syscall(SYS_mmap, address, length, protection, flags, file, offset));
}
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) noexcept {
    static const auto original = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
    if (NL_REFUSED() || living_threads >= most_threads) return EAGAIN;
    auto* const counted = static_cast<CountedThread*>(__libc_malloc(sizeof(CountedThread)));
    *counted = {run, argument};
    ++living_threads;
    const int error = original(thread, attributes, CountedThread::begin, counted);
    if (error == 0) return 0;
    --living_threads;
    std::free(counted);
    return error;
}
}
#pragma GCC visibility pop

namespace nanolith::test {
namespace {

// sentencepiece and protobuf do not live through what is done here.
void take_plain_tokenizer(const std::string& model) {
    std::filesystem::remove(model + "/tokenizer.model");
    std::FILE* const file = std::fopen((model + "/tokenizer.json").c_str(), "w");
    std::fputs(R"({"added_tokens":[],"normalizer":{"type":"NFC"},"pre_tokenizer":{"type":"ByteLevel"},)"
               R"("decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"c":3},)"
               R"("merges":["a b"]}})",
               file);
    std::fclose(file);
}

class ExhaustionTest : public testing::Test {
  protected:
    ExhaustionTest() {
        take_plain_tokenizer(model.path());
        EXPECT_EQ(set_device(engine_options.get(), "cpu"), NL_OK);
        EXPECT_EQ(nl_options_set_int(engine_options.get(), NL_OPTION_THREADS, 3), NL_OK);
        EXPECT_EQ(nl_options_set_int(engine_options.get(), NL_OPTION_NUM_PAGES, 64), NL_OK);
        EXPECT_EQ(nl_options_set_int(engine_options.get(), NL_OPTION_PAGE_SIZE, 16), NL_OK);
    }

    nl_status create(nl_engine** engine) const { return create(model.path(), engine); }
    nl_status create(const std::string& folder, nl_engine** engine) const {
        creates_engine = true;
        const nl_status status = nl_engine_create(folder.data(), folder.size(), engine_options.get(), engine);
        creates_engine = false;
        return status;
    }

    // Calls `work`, which gives a status, with each request refused in turn, or with a part of them drawn at random
    // where there are many. `work` undoes what it did.
    template <typename Work>
    void refuse_each(const char* what, const Work& work) {
        constexpr int64_t kMost = 150;
        ASSERT_EQ(work(), NL_OK) << what << ": " << nl_last_error();
        requests = 0;
        requests_left = INT64_MAX;
        ASSERT_EQ(work(), NL_OK) << what << ": " << nl_last_error();
        requests_left = -1;
        const int64_t all = requests;
        const int64_t step = std::getenv("NL_REFUSE_EACH") != nullptr ? 1 : std::max<int64_t>(1, all / kMost);
        ASSERT_GT(all, 0) << what << " asks for nothing: this shows nothing";
        const auto seed = std::random_device{}();
        RecordProperty("seed", std::to_string(seed));
        int64_t refused_calls = 0;
        for (int64_t i = seed % step; i < all + 20; i += step) {
            for (const bool all_after : {false, true}) {
                SCOPED_TRACE(std::string(what) + ", request " + std::to_string(i) +
                             (all_after ? " and all after" : ""));
                refuses_all_after = all_after;
                requests_left = i;
                const nl_status status = work();
                requests_left = -1;
                if (status != NL_OK) ++refused_calls;
                if (status != NL_OK && status != NL_ERROR_OUT_OF_MEMORY)
                    ADD_FAILURE() << status << ": " << nl_last_error();
                // Nothing stays broken.
                ASSERT_EQ(work(), NL_OK) << nl_last_error();
            }
        }
        EXPECT_GT(refused_calls, 0) << what;
        std::printf("%s: %d requests, every %d-th refused, %d calls failed\n", what, int(all), int(step),
                    int(refused_calls));
    }

    TinyModel model;
    const OptionsHandle engine_options = make_options(NL_OPTIONS_ENGINE);
};

TEST_F(ExhaustionTest, Create) {
    refuse_each("create", [&] {
        nl_engine* engine = nullptr;
        const nl_status status = create(&engine);
        nl_engine_free(engine);
        return status;
    });
}

TEST_F(ExhaustionTest, CreateOfPackedWeights) {
    const std::string folder = std::string(NL_PARITY_FIXTURES) + "/awq";
    refuse_each("create of packed weights", [&] {
        nl_engine* engine = nullptr;
        const nl_status status = create(folder, &engine);
        nl_engine_free(engine);
        return status;
    });
}

TEST_F(ExhaustionTest, Calls) {
    nl_engine* made = nullptr;
    NL_CHECK(create(&made));
    const EngineHandle engine(made);
    nl_tokenizer* loaded = nullptr;
    NL_CHECK(nl_engine_tokenizer(engine.get(), &loaded));
    const TokenizerHandle tokenizer(loaded);
    refuse_each("tokenize", [&] {
        int32_t tokens[32];
        size_t count = 0;
        return nl_tokenizer_encode(tokenizer.get(), "abcab cabba", 11, 0, tokens, 32, &count);
    });
    const Tokens prompt = some_tokens(100);
    Tokens document = prompt;
    refuse_each("prefill", [&] {
        nl_chunk* chunk = nullptr;
        document[0] = (document[0] + 1) % 390;  // a chunk that is not known
        const nl_status status =
            nl_chunk_prefill(engine.get(), document.data(), document.size(), 1, nullptr, 0, &chunk);
        nl_chunk_free(chunk);
        return status;
    });
    refuse_each("extend", [&] {
        nl_cache* cache = nullptr;
        nl_status status = nl_cache_create(engine.get(), nullptr, nullptr, 0, &cache);
        if (status == NL_OK) status = nl_cache_extend(cache, prompt.data(), prompt.size());
        nl_cache_free(cache);
        return status;
    });
    const CacheHandle cache = make_cache(engine.get());
    extend(cache.get(), {1, 5, 9});
    refuse_each("decode", [&] {
        int32_t token = 0;
        nl_cache* caches[] = {cache.get()};
        const nl_status status = nl_decode_step(caches, 1, &token);
        return status == NL_OK ? nl_cache_truncate(cache.get(), 3) : status;
    });
    refuse_each("generate", [&] {
        nl_generation* generation = nullptr;
        nl_cache* begun = nullptr;
        nl_options* options = nullptr;
        nl_status status = nl_options_create(NL_OPTIONS_GENERATION, &options);
        if (status == NL_OK) status = nl_options_set_int(options, NL_OPTION_MAX_TOKENS, 6);
        if (status == NL_OK) status = nl_cache_create(engine.get(), nullptr, nullptr, 0, &begun);
        if (status == NL_OK) status = nl_generation_start(begun, prompt.data(), prompt.size(), options, &generation);
        int32_t end = NL_END_NONE;
        while (status == NL_OK && end == NL_END_NONE) {
            char text[64];
            size_t length = 0;
            status = nl_generation_next(generation, -1, nullptr, 0, nullptr, text, sizeof text, &length, &end);
        }
        nl_options_free(options);
        nl_generation_free(generation);
        nl_cache_free(begun);
        return status;
    });
}

// A reader without memory for the sentence of the error that ended its generation gets every token all the same.
TEST_F(ExhaustionTest, TokensBeforeAnError) {
    nl_engine* made = nullptr;
    NL_CHECK(create(&made));
    const EngineHandle engine(made);
    constexpr size_t kTokens = 3;
    const auto spoil_the_last = [](void*, const int32_t*, size_t num_tokens, float* logits, size_t) -> int32_t {
        if (num_tokens == 1 + kTokens) logits[0] = NAN;
        return 0;
    };
    const OptionsHandle options = make_options(NL_OPTIONS_GENERATION);
    NL_CHECK(nl_options_set_logits(options.get(), spoil_the_last, nullptr));
    NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_END_TOKENS, 0));
    NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_TEXT, 0));
    int failed_for_memory = 0;
    for (int64_t refused = 0; refused < 5; ++refused) {
        SCOPED_TRACE(refused);
        const CacheHandle cache = make_cache(engine.get());
        const int32_t first = 7;
        nl_generation* started = nullptr;
        NL_CHECK(nl_generation_start(cache.get(), &first, 1, options.get(), &started));
        const GenerationHandle generation(started);
        while (fact(started, NL_GENERATION_END) == NL_END_NONE) usleep(1000);
        std::array<int32_t, 8> tokens = {};
        size_t total = 0;
        int32_t end = NL_END_NONE;
        for (int calls = 0; end == NL_END_NONE; ++calls) {
            ASSERT_LT(calls, 5);
            size_t count = 0;
            refuses_all_after = true;
            requests_left = calls == 0 ? refused : -1;
            const nl_status status = nl_generation_next(started, -1, tokens.data() + total, tokens.size() - total,
                                                        &count, nullptr, 0, nullptr, &end);
            requests_left = -1;
            total += count;
            if (status == NL_ERROR_OUT_OF_MEMORY) ++failed_for_memory;
            if (end != NL_END_NONE && status != NL_ERROR_OUT_OF_MEMORY) {
                EXPECT_FAILS(NL_ERROR_INVALID_ARGUMENT, "token 0 nan", status);
            }
        }
        EXPECT_EQ(end, NL_END_ERROR);
        EXPECT_EQ(total, kTokens);
        EXPECT_EQ(fact(cache.get(), NL_CACHE_TOKENS), static_cast<int64_t>(1 + kTokens));
    }
    EXPECT_GT(failed_for_memory, 0);
}

// Log lines of a warning's weight.
struct Warnings {
    static void append(void* self, int32_t severity, const char* message, size_t length) {
        if (severity == NL_LOG_WARNING) static_cast<Warnings*>(self)->lines.emplace_back(message, length);
    }
    std::vector<std::string> lines;
};

std::ptrdiff_t threads_of_this_process() {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
}

// An engine that is to have 3 threads beside its step loop's, where the system gives `given` and no more: it works with
// those, and says so, or is refused. Whatever happened, no thread stays.
TEST_F(ExhaustionTest, Threads) {
    NL_CHECK(nl_options_set_int(engine_options.get(), NL_OPTION_THREADS, 4));
    Warnings warnings;
    NL_CHECK(nl_options_set_log(engine_options.get(), Warnings::append, &warnings));
    const std::ptrdiff_t before = threads_of_this_process();
    for (int64_t given = 0; given <= 4; ++given) {
        SCOPED_TRACE(given);
        warnings.lines.clear();
        nl_engine* made = nullptr;
        most_threads = living_threads + given;
        const nl_status status = create(&made);
        if (status == NL_OK) {
            const CacheHandle cache = make_cache(made);
            extend(cache.get(), {1, 5, 9});
            decode(cache.get(), 5);
        }
        most_threads = INT64_MAX;
        if (given == 0) {
            EXPECT_FAILS(NL_ERROR_OUT_OF_MEMORY, "thread", status);
        } else {
            EXPECT_EQ(status, NL_OK) << nl_last_error();
            ASSERT_EQ(warnings.lines.size(), given < 4 ? 1U : 0U);
            if (given < 4) {
                EXPECT_NE(warnings.lines[0].find("threads"), std::string::npos) << warnings.lines[0];
            }
        }
        nl_engine_free(made);
        // A thread that was joined may still be listed for a moment.
        for (int i = 0; i < 1000 && threads_of_this_process() > before; ++i) usleep(1000);
        EXPECT_EQ(threads_of_this_process(), before);
    }
}

// Encoding on several cores takes the threads that there are, and leaves none.
TEST_F(ExhaustionTest, ThreadsOfEncoding) {
    const std::string folder = std::string(NL_UNIT_DATA) + "/bpe_bytes";
    nl_tokenizer* loaded = nullptr;
    NL_CHECK(nl_tokenizer_load(folder.data(), folder.size(), &loaded));
    const TokenizerHandle tokenizer(loaded);
    std::string text;
    while (text.size() < 300'000) text += "the lamp near the river ";
    const auto encode = [&](uint32_t flags) {
        Tokens tokens(text.size());
        size_t count = 0;
        const nl_status status =
            nl_tokenizer_encode(tokenizer.get(), text.data(), text.size(), flags, tokens.data(), tokens.size(), &count);
        EXPECT_EQ(status, NL_OK) << nl_last_error();
        tokens.resize(count);
        return tokens;
    };
    const Tokens expected = encode(0);
    EXPECT_GT(expected.size(), 10'000U);
    const std::ptrdiff_t before = threads_of_this_process();
    for (int64_t given = 0; given <= 2; ++given) {
        SCOPED_TRACE(given);
        most_threads = living_threads + given;
        EXPECT_EQ(encode(NL_ENCODE_PARALLEL), expected);
        most_threads = INT64_MAX;
        for (int i = 0; i < 1000 && threads_of_this_process() > before; ++i) usleep(1000);
        EXPECT_EQ(threads_of_this_process(), before);
    }
}

// Random programs upon the store, some of whose requests are refused: a call fails, or a chunk is not kept, and no
// token is another one.
TEST(StorePrograms, RefusedRequestsCostNoToken) {
    store_programs::Settings settings;
    settings.memory_fails = true;
    settings.prepare = take_plain_tokenizer;
    settings.begin_failing = [](uint32_t seed, const std::string&) {
        creates_engine = true;  // oneDNN makes its objects when they are needed first
        draws = seed;
        one_in = 40U << (seed % 6);
    };
    settings.end_failing = [] {
        one_in = 0;
        creates_engine = false;
    };
    requests = 0;
    store_programs::Counts counts;
    store_programs::run_programs(settings, store_programs::num_programs(30), counts);
    std::printf("%d requests refused\n", int(requests));
    EXPECT_GT(requests, counts.programs);
    EXPECT_GT(counts.tokens, counts.programs);
    EXPECT_GT(counts.failed, 0);
}

}  // namespace
}  // namespace nanolith::test
