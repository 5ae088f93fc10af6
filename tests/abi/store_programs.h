// Random programs upon engines whose chunks move between the device, the host's memory, a store's folder and files of
// the caller's: threads prefill, compose, extend, decode, fork, truncate, save, load and free, and engines end and
// begin again with the same folder. What is drawn is compared with what an engine draws that was made for the
// comparison alone, has no tiers and shares nothing, and so computes everything.
#pragma once

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "abi/abi_fixtures.h"

namespace nanolith::test::store_programs {

// For what makes requests of the system fail: the test's own are spared. Whether the calling thread runs the test's
// code, and how many engines exist for a comparison alone.
inline thread_local bool is_test = false;
inline std::atomic<int> references = 0;

// Code of the test in one of the library's threads.
class Spared {
  public:
    Spared() { is_test = true; }
    Spared(const Spared&) = delete;
    Spared& operator=(const Spared&) = delete;
    ~Spared() { is_test = before_; }

  private:
    const bool before_ = is_test;
};

// A call of the library by the test.
template <typename Call>
nl_status call(const Call& work) {
    is_test = false;
    const nl_status status = work();
    is_test = true;
    return status;
}

// A chunk as it was asked for.
struct Spec {
    Tokens tokens;
    int32_t level = 1;
    std::vector<std::shared_ptr<const Spec>> before = {};
};
using SpecPointer = std::shared_ptr<const Spec>;

// A call that changed a conversation.
struct Turn {
    enum class Kind { extend, truncate, decode } kind;
    Tokens tokens = {};  // that it added
    size_t length = 0;   // that it left, of `truncate`
};

// What a conversation is by its definition.
struct Context {
    int32_t composition = NL_COMPOSE_INDEPENDENT;
    std::vector<SpecPointer> chunks;
    Tokens tokens;            // all, those of the chunks first
    size_t of_chunks = 0;     // how many of these still are its chunks'
    std::vector<Turn> turns;  // all calls so far
};

// What a program's engines and its disk are like.
struct Settings {
    std::string model;  // a folder
    uint32_t seed = 0;
    int calls = 12;             // of each thread with each engine
    bool files_fail = false;    // whether calls upon files may fail, and files are damaged
    bool memory_fails = false;  // whether any call may be OUT_OF_MEMORY
    // Called before threads begin with an engine, with the program's folder, and when they have ended: where files fail
    // before the engine is made.
    std::function<void(uint32_t seed, const std::string& folder)> begin_failing = [](uint32_t, const std::string&) {};
    std::function<void()> end_failing = [] {};
    // Is given each model's folder before it is used.
    std::function<void(const std::string& model)> prepare = [](const std::string&) {};
    // How many files below the folder could not be removed so far.
    std::function<int64_t()> not_removed = [] { return int64_t{0}; };
};

struct Counts {
    std::atomic<int64_t> programs = 0, tokens = 0, calls = 0, failed = 0, loaded = 0, from_files = 0, from_host = 0,
                         evictions = 0;
};

// An engine's warnings.
struct Log {
    std::mutex mutex;
    std::string text;

    static void write(void* self, int32_t severity, const char* message, size_t length) {
        const Spared spared;
        auto& log = *static_cast<Log*>(self);
        const std::lock_guard lock(log.mutex);
        if (severity >= NL_LOG_WARNING) log.text.append(message, length) += "\n";
    }
};

struct EngineShape {
    int64_t num_pages = 120;
    int64_t host_bytes = 0;
    int64_t store_bytes = 0;
    int64_t max_batch_tokens = 64;
    bool shares = false;
    std::string folder = {};
    Log* log = nullptr;
};

inline nl_status create(const std::string& model, const EngineShape& shape, EngineHandle& engine) {
    const OptionsHandle options = make_options(NL_OPTIONS_ENGINE);
    EXPECT_EQ(set_device(options.get(), test_device()), NL_OK);
    const std::pair<int32_t, int64_t> values[] = {
        {NL_OPTION_BATCH_INVARIANT, 1},
        {NL_OPTION_DTYPE, NL_DTYPE_F32},
        {NL_OPTION_THREADS, 1},
        {NL_OPTION_WARM_UP, 0},
        {NL_OPTION_PAGE_SIZE, 16},
        {NL_OPTION_NUM_PAGES, shape.num_pages},
        {NL_OPTION_MAX_BATCH_TOKENS, shape.max_batch_tokens},
        {NL_OPTION_SHARE_PREFIXES, shape.shares ? 1 : 0},
        {NL_OPTION_HOST_BYTES, shape.host_bytes},
        {NL_OPTION_STORE_BYTES, shape.store_bytes},
    };
    for (const auto& [option, value] : values)
        EXPECT_EQ(nl_options_set_int(options.get(), option, value), NL_OK) << nl_last_error();
    EXPECT_EQ(nl_options_set_text(options.get(), NL_OPTION_STORE_FOLDER, shape.folder.data(), shape.folder.size()),
              NL_OK);
    if (shape.log != nullptr) {
        EXPECT_EQ(nl_options_set_log(options.get(), Log::write, shape.log), NL_OK);
    }
    nl_engine* made = nullptr;
    const nl_status status = call([&] { return nl_engine_create(model.data(), model.size(), options.get(), &made); });
    engine.reset(made);
    return status;
}

// An engine that computes a context anew.
class Reference {
  public:
    // `max_batch_tokens`: as the engine has it that is compared, since a blend's choice depends on it.
    Reference(const std::string& model, int64_t max_batch_tokens) {
        EngineShape shape;
        shape.max_batch_tokens = max_batch_tokens;
        EXPECT_EQ(create(model, shape, engine_), NL_OK) << nl_last_error();
    }

    // The tokens that follow the context.
    Tokens draw(const Context& context, int count) {
        std::vector<ChunkHandle> handles;
        std::vector<const nl_chunk*> chunks;
        for (const SpecPointer& spec : context.chunks) {
            handles.push_back(prefill(*spec));
            chunks.push_back(handles.back().get());
        }
        const CacheHandle cache = make(context.composition, chunks);
        if (context.composition == NL_COMPOSE_BLENDED) {
            replay(cache.get(), context.turns);
        } else {
            truncate(cache.get(), context.of_chunks);
            extend(cache.get(),
                   {context.tokens.begin() + static_cast<std::ptrdiff_t>(context.of_chunks), context.tokens.end()});
        }
        EXPECT_EQ(tokens_of(cache.get()), context.tokens);
        return decode(cache.get(), count);
    }

    static CacheHandle make_of(nl_engine* engine, int32_t composition, const std::vector<const nl_chunk*>& chunks,
                               nl_status& status) {
        const OptionsHandle options = make_options(NL_OPTIONS_CACHE);
        EXPECT_EQ(nl_options_set_int(options.get(), NL_OPTION_COMPOSITION, composition), NL_OK);
        EXPECT_EQ(nl_options_set_float(options.get(), NL_OPTION_BLEND_SHARE, 0.45), NL_OK);
        nl_cache* cache = nullptr;
        status = call([&] { return nl_cache_create(engine, options.get(), chunks.data(), chunks.size(), &cache); });
        return CacheHandle(cache);
    }

  private:
    ChunkHandle prefill(const Spec& spec) {
        std::vector<ChunkHandle> handles;
        std::vector<const nl_chunk*> before;
        for (const SpecPointer& each : spec.before) {
            handles.push_back(prefill(*each));
            before.push_back(handles.back().get());
        }
        return make_chunk(engine_.get(), spec.tokens, spec.level, before);
    }

    CacheHandle make(int32_t composition, const std::vector<const nl_chunk*>& chunks) {
        nl_status status = NL_OK;
        CacheHandle cache = make_of(engine_.get(), composition, chunks, status);
        EXPECT_EQ(status, NL_OK) << nl_last_error();
        return cache;
    }

    static void truncate(nl_cache* cache, size_t length) {
        EXPECT_EQ(nl_cache_truncate(cache, length), NL_OK) << nl_last_error();
    }

    static void replay(nl_cache* cache, const std::vector<Turn>& turns) {
        for (const Turn& turn : turns) {
            if (turn.kind == Turn::Kind::extend) extend(cache, turn.tokens);
            if (turn.kind == Turn::Kind::truncate) truncate(cache, turn.length);
            if (turn.kind == Turn::Kind::decode) {
                EXPECT_EQ(decode(cache, static_cast<int>(turn.tokens.size())), turn.tokens);
            }
        }
    }

    struct Counted {
        Counted() { ++references; }
        Counted(const Counted&) = delete;
        Counted& operator=(const Counted&) = delete;
        ~Counted() { --references; }
    };
    const Counted counted_;
    EngineHandle engine_;
};

// What may be in a file of the caller's: one after a call that succeeded, also what it should have become after others.
template <typename Thing>
struct SavedFile {
    std::vector<Thing> candidates;
    bool damaged = false;
};

// What the threads of a program share.
struct World {
    const Settings& settings;
    Counts& counts;
    std::string files;                // a folder of the caller's
    std::vector<SpecPointer> chunks;  // that are asked for
    std::function<bool(nl_status)> may_fail;
};

// One thread's part of a program.
class Worker {
  public:
    Worker(World& world, uint32_t seed, int index) : world_(world), random_(seed), index_(index) {}

    void run(nl_engine* engine, int64_t max_batch_tokens) {
        const Spared spared;
        engine_ = engine;
        max_batch_tokens_ = max_batch_tokens;
        for (int i = 0; i < world_.settings.calls && !testing::Test::HasFailure(); ++i) step();
        if (!conversations_.empty() && !testing::Test::HasFailure()) draw(some_conversation());
        // In any order, and not that in which they were made.
        std::shuffle(conversations_.begin(), conversations_.end(), random_);
        std::shuffle(held_.begin(), held_.end(), random_);
        if (below(2) == 0) conversations_.clear();
        held_.clear();
        conversations_.clear();
    }

    // Damages files that this worker has written.
    void damage() {
        for (auto& [path, file] : chunk_files_) damage(path, file.damaged);
        for (auto& [path, file] : cache_files_) damage(path, file.damaged);
    }

    static void damage(const std::string& path, std::mt19937& random) {
        namespace fs = std::filesystem;
        std::error_code error;
        const auto size = fs::file_size(path, error);
        if (error || size == 0) return;
        if (random() % 2 == 0) return fs::resize_file(path, random() % size, error);
        std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
        const auto at = static_cast<std::streamoff>(random() % size);
        file.seekg(at);
        const int byte = file.get();
        file.seekp(at);
        file.put(static_cast<char>(byte ^ (1 << (random() % 8))));
    }

  private:
    struct Held {
        ChunkHandle handle;
        SpecPointer spec;
    };
    struct Conversation {
        CacheHandle cache;
        Context context;
    };

    int below(int limit) { return static_cast<int>(random_() % static_cast<uint32_t>(limit)); }
    Tokens some(int count) {
        Tokens tokens(static_cast<size_t>(count));
        for (int32_t& token : tokens) token = 3 + below(390);
        return tokens;
    }
    Conversation& some_conversation() {
        return conversations_[static_cast<size_t>(below(static_cast<int>(conversations_.size())))];
    }

    // Whether the call succeeded. One that failed may have failed.
    bool did(nl_status status, const char* what) {
        ++world_.counts.calls;
        if (status == NL_OK) return true;
        ++world_.counts.failed;
        EXPECT_TRUE(world_.may_fail(status)) << what << ": " << nl_status_name(status) << ": " << nl_last_error();
        EXPECT_STRNE(nl_last_error(), "") << what;
        return false;
    }

    void damage(const std::string& path, bool& damaged) {
        if (below(3) != 0) return;
        damage(path, random_);
        damaged = true;
    }

    void step() {
        const int what = below(20);
        if (what < 5 || held_.empty()) return prefill();
        if (what < 7 || conversations_.empty()) return begin();
        if (what < 9) return free_some();
        if (what < 11) return save_or_load_chunk();
        if (what < 12) return save_or_load_cache();
        Conversation& conversation = some_conversation();
        if (what < 13) return fork(conversation);
        if (what < 15) return truncate(conversation);
        if (what < 17) return extend_by_some(conversation);
        draw(conversation);
    }

    void prefill() {
        auto spec = world_.chunks[static_cast<size_t>(below(static_cast<int>(world_.chunks.size())))];
        std::vector<const nl_chunk*> before;
        if (!held_.empty() && below(3) == 0) {
            const Held& first = held_[static_cast<size_t>(below(static_cast<int>(held_.size())))];
            if (first.spec->before.empty()) {
                before.push_back(first.handle.get());
                spec = std::make_shared<Spec>(Spec{spec->tokens, spec->level, {first.spec}});
            }
        }
        nl_chunk* made = nullptr;
        const nl_status status = call([&] {
            return nl_chunk_prefill(engine_, spec->tokens.data(), spec->tokens.size(), spec->level, before.data(),
                                    before.size(), &made);
        });
        if (did(status, "prefill")) hold(ChunkHandle(made), spec);
    }

    void hold(ChunkHandle chunk, const SpecPointer& spec) {
        const int64_t origin = fact(chunk.get(), NL_CHUNK_ORIGIN);
        if (origin == NL_ORIGIN_FILE) ++world_.counts.from_files;
        if (origin == NL_ORIGIN_HOST) ++world_.counts.from_host;
        EXPECT_EQ(fact(chunk.get(), NL_CHUNK_TOKENS), static_cast<int64_t>(spec->tokens.size()));
        if (held_.size() >= 3) held_.erase(held_.begin() + below(3));
        held_.push_back({std::move(chunk), spec});
    }

    void begin() {
        Conversation conversation;
        Context& context = conversation.context;
        const int kind = below(8);
        context.composition = kind == 0 ? NL_COMPOSE_BLENDED : kind < 4 ? NL_COMPOSE_EXACT : NL_COMPOSE_INDEPENDENT;
        std::vector<const nl_chunk*> chunks;
        for (int i = below(4); i > 0 && !held_.empty(); --i) {
            const Held& held = held_[static_cast<size_t>(below(static_cast<int>(held_.size())))];
            chunks.push_back(held.handle.get());
            context.chunks.push_back(held.spec);
            context.tokens.insert(context.tokens.end(), held.spec->tokens.begin(), held.spec->tokens.end());
        }
        context.of_chunks = context.tokens.size();
        nl_status status = NL_OK;
        conversation.cache = Reference::make_of(engine_, context.composition, chunks, status);
        if (did(status, "create")) add(std::move(conversation));
    }

    void add(Conversation conversation) {
        if (conversations_.size() >= 2) conversations_.erase(conversations_.begin() + below(2));
        conversations_.push_back(std::move(conversation));
    }

    void free_some() {
        if (below(2) == 0) {
            held_.erase(held_.begin() + below(static_cast<int>(held_.size())));
        } else {
            conversations_.erase(conversations_.begin() + below(static_cast<int>(conversations_.size())));
        }
    }

    void fork(const Conversation& conversation) {
        nl_cache* made = nullptr;
        if (!did(call([&] { return nl_cache_fork(conversation.cache.get(), &made); }), "fork")) return;
        add({CacheHandle(made), Context(conversation.context)});
    }

    void truncate(Conversation& conversation) {
        Context& context = conversation.context;
        const auto length = static_cast<size_t>(below(static_cast<int>(context.tokens.size()) + 1));
        if (!did(call([&] { return nl_cache_truncate(conversation.cache.get(), length); }), "truncate")) return;
        context.tokens.resize(length);
        context.of_chunks = std::min(context.of_chunks, length);
        context.turns.push_back({.kind = Turn::Kind::truncate, .length = length});
    }

    // Mostly with a beginning that other conversations have too.
    void extend_by_some(Conversation& conversation) {
        Context& context = conversation.context;
        if (context.tokens.size() > 320) return truncate(conversation);
        Tokens tokens = below(2) == 0 ? some_tokens(20 + below(20), below(3)) : Tokens{};
        const Tokens more = some(1 + below(20));
        tokens.insert(tokens.end(), more.begin(), more.end());
        const nl_status status =
            call([&] { return nl_cache_extend(conversation.cache.get(), tokens.data(), tokens.size()); });
        if (!did(status, "extend")) return;
        context.tokens.insert(context.tokens.end(), tokens.begin(), tokens.end());
        context.turns.push_back({.kind = Turn::Kind::extend, .tokens = tokens});
    }

    void draw(Conversation& conversation) {
        Context& context = conversation.context;
        if (context.tokens.empty() || context.tokens.size() > 400) return;
        Tokens drawn;
        nl_cache* caches[] = {conversation.cache.get()};
        for (int i = 1 + below(6); i > 0; --i) {
            int32_t token = -1;
            if (!did(call([&] { return nl_decode_step(caches, 1, &token); }), "decode")) break;
            drawn.push_back(token);
        }
        if (!drawn.empty()) compare(context, drawn);
        context.tokens.insert(context.tokens.end(), drawn.begin(), drawn.end());
        if (!drawn.empty()) context.turns.push_back({.kind = Turn::Kind::decode, .tokens = drawn});
        EXPECT_EQ(tokens_of(conversation.cache.get()), context.tokens);
    }

    void compare(const Context& context, const Tokens& drawn) {
        const int count = static_cast<int>(drawn.size());
        EXPECT_EQ(Reference(world_.settings.model, max_batch_tokens_).draw(context, count), drawn)
            << "composition " << context.composition << ", " << context.chunks.size() << " chunks, "
            << context.tokens.size() << " tokens, " << context.of_chunks << " of chunks, thread " << index_
            << describe(context.turns);
        world_.counts.tokens += count;
    }

    static std::string describe(const std::vector<Turn>& turns) {
        std::string text;
        for (const Turn& turn : turns) {
            const char* const names[] = {", extend by ", ", truncate to ", ", decode "};
            text += names[static_cast<int>(turn.kind)] +
                    std::to_string(turn.kind == Turn::Kind::truncate ? turn.length : turn.tokens.size());
        }
        return text;
    }

    [[nodiscard]] std::string path(const char* what, int number) const {
        return world_.files + "/" + what + std::to_string(index_) + "-" + std::to_string(number);
    }

    // After a call that failed the old file is there, or, where the folder alone could not be brought to the disk, the
    // new one.
    template <typename Thing>
    static void note(SavedFile<Thing>& file, const Thing& thing, bool saved) {
        if (saved) file = {};
        file.candidates.push_back(thing);
    }

    void save_or_load_chunk() {
        const std::string path = this->path("chunk", below(2));
        const auto known = chunk_files_.find(path);
        if (known == chunk_files_.end() || below(2) == 0) {
            const Held& held = held_[static_cast<size_t>(below(static_cast<int>(held_.size())))];
            const nl_status status = call([&] { return nl_chunk_save(held.handle.get(), path.data(), path.size()); });
            const bool saved = did(status, "save of a chunk");
            if (saved || known != chunk_files_.end()) note(chunk_files_[path], held.spec, saved);
            return;
        }
        nl_chunk* made = nullptr;
        const nl_status status = call([&] { return nl_chunk_load(engine_, path.data(), path.size(), &made); });
        if (!loaded(status, known->second.damaged, "load of a chunk")) return;
        ChunkHandle chunk(made);
        EXPECT_EQ(fact(chunk.get(), NL_CHUNK_TOKENS_COMPUTED), 0);
        nl_status created = NL_OK;
        const CacheHandle cache = Reference::make_of(engine_, NL_COMPOSE_INDEPENDENT, {chunk.get()}, created);
        if (!did(created, "create")) return;
        std::vector<SpecPointer> same;
        const Tokens tokens = tokens_of(cache.get());
        for (const SpecPointer& candidate : known->second.candidates)
            if (candidate->tokens == tokens) same.push_back(candidate);
        EXPECT_FALSE(same.empty()) << "a chunk that was not saved there";
        if (same.size() == 1) hold(std::move(chunk), same[0]);
    }

    bool loaded(nl_status status, bool damaged, const char* what) {
        if (damaged && (status == NL_ERROR_BAD_FILE || status == NL_ERROR_UNSUPPORTED)) return false;
        if (did(status, what)) ++world_.counts.loaded;
        return status == NL_OK;
    }

    void save_or_load_cache() {
        const std::string path = this->path("cache", below(2));
        const auto known = cache_files_.find(path);
        if (known == cache_files_.end() || below(2) == 0) {
            Conversation& conversation = some_conversation();
            // Pages that were recomputed can't be saved.
            if (conversation.context.composition == NL_COMPOSE_BLENDED) return;
            const nl_status status =
                call([&] { return nl_cache_save(conversation.cache.get(), path.data(), path.size()); });
            const bool saved = did(status, "save of a cache");
            if (saved || known != cache_files_.end()) note(cache_files_[path], conversation.context, saved);
            return;
        }
        nl_cache* made = nullptr;
        const nl_status status = call([&] { return nl_cache_load(engine_, path.data(), path.size(), &made); });
        if (!loaded(status, known->second.damaged, "load of a cache")) return;
        Conversation conversation;
        conversation.cache.reset(made);
        EXPECT_EQ(fact(made, NL_CACHE_TOKENS_COMPUTED), 0);
        const Tokens tokens = tokens_of(made);
        std::vector<Context> same;
        for (const Context& candidate : known->second.candidates)
            if (candidate.tokens == tokens) same.push_back(candidate);
        EXPECT_FALSE(same.empty()) << "a conversation that was not saved there";
        if (same.size() != 1) return;
        conversation.context = same[0];
        add(std::move(conversation));
    }

    World& world_;
    std::mt19937 random_;
    const int index_;
    nl_engine* engine_ = nullptr;
    int64_t max_batch_tokens_ = 0;
    std::vector<Held> held_;
    std::vector<Conversation> conversations_;
    std::map<std::string, SavedFile<SpecPointer>> chunk_files_;
    std::map<std::string, SavedFile<Context>> cache_files_;
};

// A program: threads, and engines one after the other.
class Program {
  public:
    Program(const Settings& settings, Counts& counts)
        : settings_(settings), random_(settings.seed), world_{settings, counts, {}, {}, {}} {
        store_ = folder_.file("store");
        world_.files = folder_.file("files");
        std::filesystem::create_directory(world_.files);
        for (int i = 0; i < 8; ++i) world_.chunks.push_back(make_spec());
        world_.may_fail = [&settings](nl_status status) {
            if (status == NL_ERROR_OUT_OF_PAGES) return true;
            if (settings.memory_fails && status == NL_ERROR_OUT_OF_MEMORY) return true;
            // Too many open files are OUT_OF_MEMORY too.
            return settings.files_fail && (status == NL_ERROR_IO || status == NL_ERROR_NOT_FOUND ||
                                           status == NL_ERROR_BAD_FILE || status == NL_ERROR_OUT_OF_MEMORY);
        };
    }

    void run() {
        const Spared spared;
        const int num_workers = 1 + below(8);
        for (int i = 0; i < num_workers; ++i)
            workers_.push_back(std::make_unique<Worker>(world_, static_cast<uint32_t>(random_()), i));
        for (int i = 1 + below(3); i > 0 && !testing::Test::HasFailure(); --i) {
            with_an_engine();
            if (settings_.files_fail && below(2) == 0) damage();
        }
        if (!testing::Test::HasFailure()) check_folder();
        ++world_.counts.programs;
    }

  private:
    static constexpr int64_t kPageBytes = 8192;  // of the tiny model

    int below(int limit) { return static_cast<int>(random_() % static_cast<uint32_t>(limit)); }

    SpecPointer make_spec() {
        auto spec = std::make_shared<Spec>();
        spec->tokens.resize(static_cast<size_t>(1 + below(70)));
        for (int32_t& token : spec->tokens) token = 3 + below(390);
        spec->level = below(3);
        return spec;
    }

    void with_an_engine() {
        EngineShape shape;
        shape.num_pages = 24 + below(static_cast<int>(8 * workers_.size()));
        shape.host_bytes = std::min(below(4), 1) * (1 + below(50)) * kPageBytes;
        shape.store_bytes = below(3) == 0 ? 20000 + below(100000) : 0;
        shape.max_batch_tokens = 16 + below(80);
        shape.shares = below(2) == 0;
        if (below(5) != 0) shape.folder = store_;
        shape.log = &log_;
        log_.text.clear();
        const auto failing_seed = static_cast<uint32_t>(random_());
        if (settings_.files_fail) settings_.begin_failing(failing_seed, folder_.path());
        EngineHandle engine;
        ASSERT_EQ(create(settings_.model, shape, engine), NL_OK) << nl_last_error();
        if (!settings_.files_fail) settings_.begin_failing(failing_seed, folder_.path());
        std::vector<std::thread> threads;
        for (auto& worker : workers_) threads.emplace_back([&] { worker->run(engine.get(), shape.max_batch_tokens); });
        for (auto& thread : threads) thread.join();
        settings_.end_failing();
        world_.counts.evictions += fact(engine.get(), NL_ENGINE_EVICTIONS);
        check_pages(engine.get());
        engine.reset();
        if (!settings_.files_fail && !settings_.memory_fails) {
            EXPECT_EQ(log_.text, "");
        }
    }

    // No handle is left: every page is free or a chunk's, and free when the chunks are pushed out.
    static void check_pages(nl_engine* engine) {
        const int64_t total = fact(engine, NL_ENGINE_PAGES_TOTAL);
        // The step loop lets go of what it computed ahead for a cache that was freed.
        for (int tries = 0; spare_pages(engine) < total && tries < 1000; ++tries)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        EXPECT_EQ(spare_pages(engine), total);
        std::vector<CacheHandle> fillers;
        for (int64_t left = total; left > 0;) {
            const int64_t pages = std::min<int64_t>(left, 30);
            fillers.push_back(make_cache(engine));
            Tokens tokens(static_cast<size_t>(16 * pages), 5);
            tokens[0] = static_cast<int32_t>(fillers.size());  // no two have a beginning in common
            extend(fillers.back().get(), tokens);
            left -= pages;
        }
        EXPECT_EQ(fact(engine, NL_ENGINE_PAGES_FREE), 0);
        EXPECT_EQ(fact(engine, NL_ENGINE_CHUNKS), 0);
        fillers.clear();
        EXPECT_EQ(fact(engine, NL_ENGINE_PAGES_FREE), total);
    }

    void damage() {
        for (auto& worker : workers_) worker->damage();
        if (!std::filesystem::exists(store_)) return;
        for (const auto& entry : std::filesystem::directory_iterator(store_))
            if (below(3) == 0) Worker::damage(entry.path().string(), random_);
    }

    // An engine with the folder leaves nothing there but chunks and the weights' digests, and opens every file.
    void check_folder() {
        EngineHandle engine;
        EngineShape shape;
        shape.folder = store_;
        EXPECT_EQ(create(settings_.model, shape, engine), NL_OK) << nl_last_error();
        for (const auto& entry : std::filesystem::directory_iterator(store_)) {
            const std::string name = entry.path().filename().string();
            EXPECT_TRUE(name == "weights.digests" || entry.path().extension() == ".chunk") << name;
        }
        int64_t others = 0;
        for (const auto& entry : std::filesystem::directory_iterator(world_.files)) {
            const std::string name = entry.path().filename().string();
            if (!name.starts_with("chunk") && !name.starts_with("cache")) ++others;
        }
        EXPECT_LE(others, settings_.not_removed() - not_removed_before_);
    }

    const Settings& settings_;
    std::mt19937 random_;
    const int64_t not_removed_before_ = settings_.not_removed();
    const TempFolder folder_;
    std::string store_;
    Log log_;
    World world_;
    std::vector<std::unique_ptr<Worker>> workers_;
};

// How many programs a test runs: NANOLITH_PROGRAMS, or `standard`.
inline int num_programs(int standard) {
    const char* const told = std::getenv("NANOLITH_PROGRAMS");
    return told != nullptr ? std::max(1, std::atoi(told)) : standard;
}

inline uint32_t first_seed() {
    const char* const told = std::getenv("NANOLITH_TEST_SEED");
    return told != nullptr ? static_cast<uint32_t>(std::strtoul(told, nullptr, 10)) : std::random_device{}();
}

// Runs programs of consecutive seeds, a few with each model.
inline void run_programs(Settings settings, int count, Counts& counts) {
    constexpr int kWithOneModel = 25;
    settings.seed = first_seed();
    for (int done = 0; done < count && !testing::Test::HasFailure(); done += kWithOneModel) {
        TinyModelShape shape;
        shape.seed = settings.seed;
        const TinyModel model(shape);
        settings.model = model.path();
        settings.prepare(settings.model);
        for (int i = done; i < std::min(count, done + kWithOneModel) && !testing::Test::HasFailure(); ++i) {
            SCOPED_TRACE("NANOLITH_TEST_SEED=" + std::to_string(settings.seed));
            Program(settings, counts).run();
            // Failures of other threads are not seen with the trace.
            if (testing::Test::HasFailure()) ADD_FAILURE() << "of this program";
            ++settings.seed;
        }
    }
    std::printf(
        "%d programs: %d calls, %d of them failed, %d tokens compared, %d evictions, %d chunks from files, %d "
        "from the host's memory, %d files loaded\n",
        int(counts.programs), int(counts.calls), int(counts.failed), int(counts.tokens), int(counts.evictions),
        int(counts.from_files), int(counts.from_host), int(counts.loaded));
}

}  // namespace nanolith::test::store_programs
