// Random programs upon engines whose chunks move between the device, the host's memory, a store's folder and files of
// the caller's: threads prefill, compose, extend, decode, fork, truncate, save, load and free, and engines end and
// begin again with the same folder. What is drawn is compared with what an engine draws that was made for the
// comparison alone, has no tiers and shares nothing, and so computes everything.
#pragma once

#include <thread>

#include "abi/store_worker.h"

namespace nanolith::test::store_programs {

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
        shape.max_batch_tokens = max_batch_tokens_;
        shape.shares = below(2) == 0;
        if (below(5) != 0) shape.folder = store_;
        shape.warnings = &warnings_;
        warnings_.text.clear();
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
            EXPECT_EQ(warnings_.text, "");
        }
    }

    // No handle is left: every page is free or a chunk's, and free when the chunks are pushed out.
    static void check_pages(nl_engine* engine) {
        const int64_t total = fact(engine, NL_ENGINE_PAGES_TOTAL);
        // The step loop lets go of what it computed ahead for a cache that was freed, and the thread that writes to the
        // store's folder of its last chunk, which a busy disk makes wait.
        for (int tries = 0; spare_pages(engine) < total && tries < 120000; ++tries)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        EXPECT_EQ(spare_pages(engine), total) << metrics_of(engine);
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
    // One for all engines of the program: what a blended conversation recomputes depends on it, and a conversation that
    // one engine saved is loaded by another.
    const int64_t max_batch_tokens_ = 16 + below(80);
    const int64_t not_removed_before_ = settings_.not_removed();
    const TempFolder folder_;
    std::string store_;
    Warnings warnings_;
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
