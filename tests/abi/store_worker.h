// One thread of a random program upon the store (store_programs.h): its chunks, conversations and files, and calls upon
// them. Some threads are tenants of the engine.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>

#include "abi/store_reference.h"

namespace nanolith::test::store_programs {

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

// What a file may hold: one thing after a save that succeeded; after saves that failed, also what they were to write.
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
    Worker(World& world, uint32_t seed, int index)
        : world_(world), random_(seed), index_(index), salt_(below(2) == 0 ? "" : std::to_string(below(3))) {}

    void run(nl_engine* engine, int64_t max_batch_tokens) {
        const Spared spared;
        EngineHandle tenant;
        engine_ = engine;
        if (!salt_.empty()) {
            nl_engine* made = nullptr;
            if (!did(call([&] { return nl_engine_tenant(engine, salt_.data(), salt_.size(), &made); }), "tenant"))
                return;
            tenant.reset(made);
            engine_ = made;
        }
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
        if (random() % 3 == 0) return fs::resize_file(path, random() % size, error);
        // Flips one bit, or a bit in each of up to 400 bytes, which shows in the tokens drawn.
        const auto at = random() % size;
        const auto count = random() % 2 == 0 ? 1 : std::min<uintmax_t>(size - at, 400);
        std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
        std::string bytes(count, '\0');
        file.seekg(static_cast<std::streamoff>(at));
        file.read(bytes.data(), static_cast<std::streamsize>(count));
        for (char& byte : bytes) byte = static_cast<char>(byte ^ (1 << (random() % 8)));
        file.seekp(static_cast<std::streamoff>(at));
        file.write(bytes.data(), static_cast<std::streamsize>(count));
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
        const int count = 1 + below(6);
        const Tokens drawn =
            below(3) == 0 ? generate(conversation.cache.get(), count) : decode_steps(conversation.cache.get(), count);
        if (!drawn.empty()) compare(context, drawn);
        context.tokens.insert(context.tokens.end(), drawn.begin(), drawn.end());
        if (!drawn.empty()) context.turns.push_back({.kind = Turn::Kind::decode, .tokens = drawn});
        EXPECT_EQ(tokens_of(conversation.cache.get()), context.tokens);
    }

    // Up to `count` tokens: fewer where a call fails.
    Tokens decode_steps(nl_cache* cache, int count) {
        Tokens drawn;
        for (; count > 0; --count) {
            int32_t token = -1;
            if (!did(call([&] { return nl_decode_step(&cache, 1, &token); }), "decode")) break;
            drawn.push_back(token);
        }
        return drawn;
    }

    Tokens generate(nl_cache* cache, int count) {
        const OptionsHandle options = make_options(NL_OPTIONS_GENERATION);
        const std::pair<int32_t, int64_t> values[] = {
            {NL_OPTION_MAX_TOKENS, count}, {NL_OPTION_END_TOKENS, 0}, {NL_OPTION_TEXT, 0}};
        for (const auto& [option, value] : values) EXPECT_EQ(nl_options_set_int(options.get(), option, value), NL_OK);
        nl_generation* made = nullptr;
        Tokens drawn;
        if (!did(call([&] { return nl_generation_start(cache, nullptr, 0, options.get(), &made); }), "generation"))
            return drawn;
        const Handle<nl_generation, nl_generation_free> generation(made);
        for (int32_t end = NL_END_NONE; end == NL_END_NONE;) {
            Tokens some(2);
            size_t number = 0;
            const nl_status status = call([&] {
                return nl_generation_next(made, -1, some.data(), some.size(), &number, nullptr, 0, nullptr, &end);
            });
            drawn.insert(drawn.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(number));
            if (did(status, "next tokens of a generation") && end != NL_END_NONE) {
                EXPECT_EQ(end, NL_END_LENGTH);
            }
        }
        return drawn;
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
    const std::string salt_;       // the tenant's salt; empty: the engine's own handle
    nl_engine* engine_ = nullptr;  // the tenant's handle, where it has one
    int64_t max_batch_tokens_ = 0;
    std::vector<Held> held_;
    std::vector<Conversation> conversations_;
    std::map<std::string, SavedFile<SpecPointer>> chunk_files_;
    std::map<std::string, SavedFile<Context>> cache_files_;
};

}  // namespace nanolith::test::store_programs
