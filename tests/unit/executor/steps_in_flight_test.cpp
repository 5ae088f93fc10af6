// Several steps in flight, a page table that changes and grows between them, and what a step leaves: the same steps one
// after the other, each with the whole table and the tokens themselves, must give the same.
#include <algorithm>
#include <deque>
#include <numeric>
#include <optional>

#include "unit/executor/executor_fixture.h"

namespace nanolith::testing {
namespace {

constexpr int32_t kPageSize = 16;
constexpr int32_t kNumPages = 40;
constexpr int32_t kNumSteps = 14;
constexpr int32_t kOldPage = 30;  // the first one of the first sequence, until it is copied

const RandomShape kShape = {.vocab_size = 71};

// A sequence that joins at a step with a prompt, and from then on appends what was drawn for it.
struct Joining {
    int32_t step;
    int32_t prompt;
    int32_t first_entry;  // where its pages stand in the table
};
// The last one joins where the table has become longer than executors make room for at first.
constexpr Joining kJoining[] = {{0, 14, 0}, {1, 17, 10}, {3, 33, 20}, {6, 6, 30}, {7, 3, 20'000}};
constexpr int32_t kCopyStep = 5;  // before it, the first sequence's first page goes elsewhere

struct Outcome {
    std::vector<int32_t> drawn;
    std::vector<std::vector<float>> logits;  // of the first and the last output row
    bool operator==(const Outcome&) const = default;
};

class Script {
  public:
    Script(const RandomModel& model, uint64_t seed) : vocab_size_(model.spec.vocab_size), random_(seed) {
        for (const Joining& joining : kJoining) {
            prompts_.emplace_back();
            for (int32_t i = 0; i < joining.prompt; ++i) prompts_.back().push_back(random_.below(vocab_size_));
        }
        for (double& uniform : uniforms_) uniform = random_.uniform();
    }

    // Runs all steps with up to `depth` in flight. `resident`: tokens are drawn_by(), and of the table the changed
    // entries alone are named; else tokens are ids (depth is 1) and all entries are.
    std::vector<Outcome> run(Executor& executor, int32_t depth, bool resident) const {
        std::vector<int32_t> table;
        int32_t next_page = 0;
        std::vector<Outcome> outcomes;
        std::deque<Batch> in_flight;
        std::optional<Batch> collected;  // whose logits are not read yet
        for (int32_t step = 0; step < kNumSteps; ++step) {
            if (step == kCopyStep) copy_first_page(executor);
            Batch batch = make_batch(step, table, next_page);
            if (!resident) {
                batch.changed_entries = {{0, static_cast<int32_t>(table.size())}};
                for (int32_t& token : batch.tokens) {
                    if (token < 0) token = outcomes.back().drawn[-1 - token];
                }
            }
            if (static_cast<int32_t>(in_flight.size()) == depth) collected = collect(executor, in_flight, outcomes);
            submit(executor, batch);
            if (collected) read(executor, *collected, outcomes.back());
            collected.reset();
            in_flight.push_back(std::move(batch));
            // Ids for the next step are needed.
            if (!resident) collect_and_read(executor, in_flight, outcomes);
        }
        while (!in_flight.empty()) collect_and_read(executor, in_flight, outcomes);
        return outcomes;
    }

    // Step `step` of the script, with the entries of the table that it is the first to need.
    Batch make_batch(int32_t step, std::vector<int32_t>& table, int32_t& next_page) const {
        Batch batch;
        for (size_t i = 0; i < std::size(kJoining) && kJoining[i].step <= step; ++i) {
            const Joining& joining = kJoining[i];
            const bool joins = joining.step == step;
            const int32_t first = joins ? 0 : joining.prompt + step - joining.step - 1;
            const int32_t count = joins ? joining.prompt : 1;
            const int32_t before = (first + kPageSize - 1) / kPageSize;
            const int32_t pages = (first + count + kPageSize - 1) / kPageSize;
            const auto old_size = static_cast<int32_t>(table.size());
            if (joining.first_entry + pages > old_size) {
                table.resize(joining.first_entry + pages, 0);
                batch.changed_entries.push_back({old_size, joining.first_entry + before - old_size});
            }
            for (int32_t page = before; page < pages; ++page)
                table[joining.first_entry + page] = take_page(i, page, next_page);
            if (pages > before) batch.changed_entries.push_back({joining.first_entry + before, pages - before});
            if (i == 0 && step == kCopyStep) {
                table[0] = kOldPage + 1;
                batch.changed_entries.push_back({0, 1});
            }
            batch.sequences.push_back({static_cast<int32_t>(batch.tokens.size()), count, static_cast<int32_t>(i), 1});
            batch.segments.push_back({joining.first_entry, first + count, 0});
            for (int32_t at = first; at < first + count; ++at) {
                batch.tokens.push_back(joins ? prompts_[i][at] : drawn_by(static_cast<int32_t>(i)));
                batch.positions.push_back(at);
                batch.key_positions.push_back(at);
                const int32_t page = table[joining.first_entry + at / kPageSize];
                batch.slots.push_back(page * kPageSize + at % kPageSize);
            }
            batch.output_rows.push_back(static_cast<int32_t>(batch.tokens.size()) - 1);
            batch.sampling.push_back(
                {.temperature = 1, .uniform = uniforms_[(static_cast<size_t>(step) * 7 + i) % 50]});
        }
        batch.kept_logits = {0};
        if (batch.output_rows.size() > 1)
            batch.kept_logits.push_back(static_cast<int32_t>(batch.output_rows.size()) - 1);
        batch.page_table = table;
        std::erase_if(batch.changed_entries, [](const TableRange& range) { return range.count <= 0; });
        return batch;
    }

  private:
    // The first sequence begins in kOldPage, which the fourth one takes when the first has left it.
    static int32_t take_page(size_t sequence, int32_t page, int32_t& next_page) {
        if (page == 0 && (sequence == 0 || sequence == 3)) return kOldPage;
        return next_page++;
    }

    static void copy_first_page(Executor& executor) {
        const PageCopy copies[] = {{kOldPage, kOldPage + 2}, {kOldPage + 2, kOldPage + 1}};
        const auto copied = executor.copy_pages(copies);
        ASSERT_TRUE(copied.ok()) << copied.error().message;
    }

    // What the caller does with a batch and its table after the call must not matter.
    static void submit(Executor& executor, const Batch& batch) {
        std::vector<int32_t> table(batch.page_table.begin(), batch.page_table.end());
        Batch passed = batch;
        passed.page_table = table;
        const auto submitted = executor.submit(passed);
        ASSERT_TRUE(submitted.ok()) << submitted.error().message;
        std::ranges::fill(table, 0);
        for (auto* numbers : {&passed.tokens, &passed.positions, &passed.key_positions, &passed.slots,
                              &passed.output_rows, &passed.kept_logits})
            std::ranges::fill(*numbers, 0);
        std::ranges::fill(passed.segments, Segment{});
    }

    static Batch collect(Executor& executor, std::deque<Batch>& in_flight, std::vector<Outcome>& outcomes) {
        Batch batch = std::move(in_flight.front());
        in_flight.pop_front();
        outcomes.emplace_back();
        outcomes.back().drawn.resize(batch.output_rows.size(), -1);
        const auto collected = executor.collect(outcomes.back().drawn);
        EXPECT_TRUE(collected.ok()) << collected.error().message;
        return batch;
    }

    void collect_and_read(Executor& executor, std::deque<Batch>& in_flight, std::vector<Outcome>& outcomes) const {
        const Batch batch = collect(executor, in_flight, outcomes);
        read(executor, batch, outcomes.back());
    }

    void read(Executor& executor, const Batch& batch, Outcome& outcome) const {
        for (const int32_t index : batch.kept_logits) {
            outcome.logits.emplace_back(static_cast<size_t>(vocab_size_));
            const auto got = executor.read_logits(index, outcome.logits.back());
            EXPECT_TRUE(got.ok()) << got.error().message;
        }
    }

    int32_t vocab_size_;
    Random random_;
    std::vector<std::vector<int32_t>> prompts_;
    double uniforms_[50] = {};
};

class StepsInFlightTest : public ExecutorTest {
  protected:
    std::unique_ptr<Executor> make_executor(const RandomModel& model) {
        ExecutorOptions wanted = options(kPageSize, kNumPages);
        wanted.max_rows = 40;
        wanted.max_output_rows = 5;
        wanted.max_kept_logits = 2;
        auto made = backend_->create_executor(model.spec, model.weights, wanted, Progress());
        if (!made.ok()) ADD_FAILURE() << made.error().message;
        return made.ok() ? std::move(*made) : nullptr;
    }
};

TEST_P(StepsInFlightTest, GiveWhatStepsOneByOneGive) {
    const RandomModel model(kShape, GetParam().dtype, seed_);
    const Script script(model, seed_);
    const auto one_by_one = make_executor(model);
    const auto executor = make_executor(model);
    ASSERT_TRUE(one_by_one && executor);
    const std::vector<Outcome> expected = script.run(*one_by_one, 1, false);
    const std::vector<Outcome> outcomes = script.run(*executor, executor->max_in_flight(), true);
    ASSERT_EQ(expected.size(), static_cast<size_t>(kNumSteps));
    ASSERT_EQ(outcomes.size(), expected.size());
    for (size_t step = 0; step < expected.size(); ++step) {
        EXPECT_EQ(outcomes[step].drawn, expected[step].drawn) << "step " << step;
        EXPECT_EQ(outcomes[step].logits, expected[step].logits) << "step " << step;
        EXPECT_EQ(expected[step].logits.size(), step == 0 ? 1U : 2U);
    }
    // The draws are not all the same, so that a wrong one would show.
    std::vector<int32_t> drawn;
    for (const Outcome& outcome : expected) drawn.insert(drawn.end(), outcome.drawn.begin(), outcome.drawn.end());
    std::sort(drawn.begin(), drawn.end());
    EXPECT_GT(std::unique(drawn.begin(), drawn.end()) - drawn.begin(), 10);
}

// A table of which the device would not see a change gives other logits.
TEST_P(StepsInFlightTest, ChangesOfTheTableMatter) {
    const RandomModel model(kShape, GetParam().dtype, seed_ + 1);
    const Script script(model, seed_ + 1);
    const auto executor = make_executor(model);
    ASSERT_TRUE(executor);
    std::vector<int32_t> table;
    int32_t next_page = 0;
    std::vector<int32_t> sampled(1);
    std::vector<float> right(model.spec.vocab_size);
    std::vector<float> wrong(right.size());
    Batch batch = script.make_batch(0, table, next_page);
    ASSERT_TRUE(run_step(*executor, batch, sampled).ok());
    ASSERT_TRUE(executor->read_logits(0, right).ok());
    const PageCopy copy{kOldPage, kOldPage + 1};
    ASSERT_TRUE(executor->copy_pages({&copy, 1}).ok());
    // The copy read in place of the original: nothing is written, so the logits are the same.
    std::ranges::fill(batch.slots, kNoSlot);
    table[0] = kOldPage + 1;
    ASSERT_TRUE(run_step(*executor, batch, sampled).ok());
    ASSERT_TRUE(executor->read_logits(0, wrong).ok());
    EXPECT_EQ(right, wrong);
    // Another page, which the rows' keys are not in.
    std::vector<int32_t> other_table;
    Batch other = script.make_batch(0, other_table, next_page);
    other_table[0] = kOldPage + 5;
    other.changed_entries = {{0, 1}};
    std::ranges::fill(other.slots, (kOldPage + 5) * kPageSize);
    std::iota(other.slots.begin(), other.slots.end(), (kOldPage + 5) * kPageSize);
    std::ranges::reverse(other.tokens);
    ASSERT_TRUE(run_step(*executor, other, sampled).ok());
    batch.changed_entries = {};
    batch.page_table = other_table;
    ASSERT_TRUE(run_step(*executor, batch, sampled).ok());
    ASSERT_TRUE(executor->read_logits(0, wrong).ok());
    EXPECT_NE(right, wrong);
}

TEST_P(StepsInFlightTest, RefusalsLeaveThemAsTheyAre) {
    const RandomModel model(kShape, GetParam().dtype, seed_ + 2);
    const Script script(model, seed_ + 2);
    const auto executor = make_executor(model);
    ASSERT_TRUE(executor);
    std::vector<int32_t> sampled(1, -1);
    EXPECT_EQ(executor->collect(sampled).error().status, NL_ERROR_INTERNAL);

    const std::vector<Outcome> expected = script.run(*executor, 1, false);
    std::vector<int32_t> table;
    int32_t next_page = 0;
    std::vector<Batch> batches;
    for (int32_t step = 0; step < executor->max_in_flight(); ++step) {
        Batch batch = script.make_batch(step, table, next_page);
        if (step == 0) batch.changed_entries = {{0, static_cast<int32_t>(table.size())}};
        Batch bad = batch;
        bad.slots[0] = kNumPages * kPageSize;
        EXPECT_EQ(executor->submit(bad).error().status, NL_ERROR_INTERNAL) << "step " << step;
        const auto submitted = executor->submit(batch);
        ASSERT_TRUE(submitted.ok()) << submitted.error().message;
        batches.push_back(std::move(batch));
    }
    const auto too_many = executor->submit(batches.back());
    ASSERT_FALSE(too_many.ok());
    EXPECT_EQ(too_many.error().status, NL_ERROR_INTERNAL);
    EXPECT_NE(too_many.error().message.find("in flight"), std::string::npos) << too_many.error().message;
    for (size_t step = 0; step < batches.size(); ++step) {
        std::vector<int32_t> more(batches[step].output_rows.size() + 1);
        EXPECT_EQ(executor->collect(more).error().status, NL_ERROR_INTERNAL);
        more.pop_back();
        const auto collected = executor->collect(more);
        ASSERT_TRUE(collected.ok()) << collected.error().message;
        EXPECT_EQ(more, expected[step].drawn) << "step " << step;
        std::vector<float> logits(model.spec.vocab_size);
        ASSERT_TRUE(executor->read_logits(0, logits).ok());
        EXPECT_EQ(logits, expected[step].logits[0]);
    }
    EXPECT_EQ(executor->collect(sampled).error().status, NL_ERROR_INTERNAL);
}

TEST_P(StepsInFlightTest, LogitsThatWereNotAskedForAreRefused) {
    const RandomModel model(kShape, GetParam().dtype, seed_ + 3);
    const Script script(model, seed_ + 3);
    const auto executor = make_executor(model);
    ASSERT_TRUE(executor);
    std::vector<float> logits(model.spec.vocab_size);
    EXPECT_FALSE(executor->read_logits(0, logits).ok());  // nothing was collected
    std::vector<int32_t> table;
    int32_t next_page = 0;
    Batch batch = script.make_batch(0, table, next_page);
    std::vector<int32_t> sampled(1);
    ASSERT_TRUE(run_step(*executor, batch, sampled).ok());
    EXPECT_TRUE(executor->read_logits(0, logits).ok());
    EXPECT_FALSE(executor->read_logits(1, logits).ok());
    batch.kept_logits.clear();
    ASSERT_TRUE(run_step(*executor, batch, sampled).ok());
    EXPECT_FALSE(executor->read_logits(0, logits).ok());
}

TEST_P(StepsInFlightTest, CreationTellsItsProgressAndCanBeCancelled) {
    const RandomModel model(kShape, GetParam().dtype, seed_ + 4);
    ExecutorOptions wanted = options(kPageSize, kNumPages);
    wanted.warm_up = true;
    wanted.max_rows = 20;
    wanted.max_output_rows = 4;
    std::vector<double> told;
    const auto made = backend_->create_executor(model.spec, model.weights, wanted, [&](double done) {
        told.push_back(done);
        return true;
    });
    ASSERT_TRUE(made.ok()) << made.error().message;
    ASSERT_GE(told.size(), 4U);
    EXPECT_GE(told.front(), 0);
    EXPECT_LT(told.front(), 0.5);
    EXPECT_EQ(told.back(), 1);
    EXPECT_TRUE(std::ranges::is_sorted(told));
    ExecutorOptions cold = wanted;
    cold.warm_up = false;
    double latest = 0;
    ASSERT_TRUE(backend_
                    ->create_executor(model.spec, model.weights, cold,
                                      [&](double done) {
                                          latest = done;
                                          return true;
                                      })
                    .ok());
    EXPECT_EQ(latest, 1);
    for (const double share : {told[0], told[1], told[told.size() / 2], 1.0}) {
        bool asked = false;  // for its end, after which nothing more is told
        const auto cancelled = backend_->create_executor(model.spec, model.weights, wanted, [&](double done) {
            EXPECT_FALSE(asked);
            asked = done >= share;
            return !asked;
        });
        ASSERT_FALSE(cancelled.ok()) << "at " << share;
        EXPECT_EQ(cancelled.error().status, NL_ERROR_CANCELLED);
        EXPECT_TRUE(asked);
    }
}

INSTANTIATE_TEST_SUITE_P(Backends, StepsInFlightTest, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace nanolith::testing
