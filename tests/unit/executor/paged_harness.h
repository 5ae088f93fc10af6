// Drives an executor and the float64 reference side by side over the same composition of token runs, and compares
// their logits. Pages are handed out in random order, every page holds NaN before it is used, and page tables have
// unused entries between segments.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "support/random_model.h"
#include "support/reference_model.h"
#include "support/steps.h"

namespace nanolith::testing {

// A run of tokens in the cache: a chunk, or a conversation's private tail.
struct Store {
    std::vector<int32_t> pages;
    ReferenceCache reference;
};

struct Use {
    const Store* store = nullptr;
    int32_t base = 0;
};

// Tokens to append to `own`, which begins at position own_base, with `before` in view.
struct Job {
    Store* own = nullptr;
    int32_t own_base = 0;
    std::vector<Use> before;
    std::vector<int32_t> tokens;
};

// How far logits are from the reference's, over all rows of a run, or of several runs added up.
struct Deviation {
    double highest = 0;   // largest difference over the largest reference logit
    double relative = 0;  // L2 norm of the difference over that of the reference
    bool finite = true;
    double squares = 0;  // of the difference, and of the reference
    double expected_squares = 0;

    void add(const Deviation& other) {
        highest = std::max(highest, other.highest);
        finite = finite && other.finite;
        squares += other.squares;
        expected_squares += other.expected_squares;
        relative = std::sqrt(squares / expected_squares);
    }
};

// A batch with the page table that it names; all entries count as changed.
struct OwnedBatch : Batch {
    OwnedBatch() = default;
    OwnedBatch(const OwnedBatch& other) : Batch(other), table(other.table) { page_table = table; }
    OwnedBatch& operator=(const OwnedBatch&) = delete;
    // After a change of the table.
    void name_table() {
        page_table = table;
        changed_entries = {{0, static_cast<int32_t>(table.size())}};
    }

    std::vector<int32_t> table;
};

class PagedHarness {
  public:
    PagedHarness(Backend& backend, RandomModel& model, ExecutorOptions options, uint64_t seed)
        : PagedHarness(backend, model, model.weights, options, seed) {}
    // The executor gets `weights` instead of the model's, such as compact ones, which the reference can't read.
    PagedHarness(Backend& backend, RandomModel& model, const ModelWeights& weights, ExecutorOptions options,
                 uint64_t seed)
        : model_(model), random_(seed), options_(options) {
        poison_token_ = model.spec.vocab_size - 1;
        const bool float8_pages = options.page_dtype() == DType::f8_e4m3;
        reference_ = std::make_unique<ReferenceModel>(model.spec, model.weights, float8_pages);
        model.poison(poison_token_);
        auto made = backend.create_executor(model.spec, weights, options, Progress());
        if (!made.ok()) {
            ADD_FAILURE() << made.error().message;
            return;
        }
        executor_ = std::move(*made);
        for (int32_t page = 0; page < options.num_pages; ++page) free_.push_back(page);
        for (size_t i = free_.size(); i > 1; --i)
            std::swap(free_[i - 1], free_[random_.below(static_cast<int32_t>(i))]);
        for (const int32_t page : free_) fill_with_nan(page);
    }

    [[nodiscard]] bool ready() const { return executor_ != nullptr; }
    Executor& executor() { return *executor_; }
    Random& random() { return random_; }
    ReferenceModel& reference() { return *reference_; }
    [[nodiscard]] const ExecutorOptions& options() const { return options_; }

    // Tokens that are not the poisoned one.
    std::vector<int32_t> tokens(int32_t count) {
        std::vector<int32_t> drawn(count);
        for (int32_t& token : drawn) token = random_.below(poison_token_);
        return drawn;
    }

    // Tokens that `job` could have, each of which chooses its experts by logits at least `margin` apart in every layer:
    // further than rounding reaches.
    std::vector<int32_t> clear_tokens(const Job& job, int32_t count, double margin) {
        ReferenceCache cache = job.own->reference;
        std::vector<ReferenceSpan> before;
        for (const Use& use : job.before) before.push_back({&use.store->reference, use.base});
        std::vector<int32_t> drawn;
        for (int tries = 0; static_cast<int32_t>(drawn.size()) < count; ++tries) {
            if (tries > 100 * count) {
                ADD_FAILURE() << "no tokens whose experts are " << margin << " apart";
                break;
            }
            ReferenceCache next = cache;
            const std::vector<int32_t> token = tokens(1);
            reference_->extend(next, job.own_base, before, token);
            if (reference_->smallest_margin() < margin) continue;
            cache = std::move(next);
            drawn.push_back(token.front());
        }
        return drawn;
    }

    // The reference computes another model from now on: to see that a difference shows.
    void pretend(const ModelSpec& spec, const ModelWeights& weights) {
        reference_ = std::make_unique<ReferenceModel>(spec, weights);
    }

    int32_t take_page() {
        const int32_t page = free_.back();
        free_.pop_back();
        return page;
    }

    // One batch of all jobs, with the logits of every row; jobs that use the same store share its table entries.
    // `base_error` shifts the bases that the executor is told (not the reference's).
    OwnedBatch make_batch(const std::vector<Job>& jobs, int32_t base_error = 0) {
        OwnedBatch batch;
        std::map<const Store*, int32_t> tables;
        for (const Job& job : jobs) {
            Sequence sequence{static_cast<int32_t>(batch.tokens.size()), static_cast<int32_t>(job.tokens.size()),
                              static_cast<int32_t>(batch.segments.size()), static_cast<int32_t>(job.before.size()) + 1};
            const int32_t first = job.own->reference.length;
            grow(*job.own, first + sequence.num_rows);
            for (int32_t i = 0; i < sequence.num_rows; ++i) {
                const int32_t at = first + i;
                batch.tokens.push_back(job.tokens[i]);
                batch.positions.push_back(job.own_base + at);
                batch.key_positions.push_back(at);
                batch.slots.push_back(job.own->pages[at / options_.page_size] * options_.page_size +
                                      at % options_.page_size);
                batch.kept_logits.push_back(sequence.first_row + i);
                batch.output_rows.push_back(sequence.first_row + i);
                batch.sampling.emplace_back();
            }
            for (const Use& use : job.before)
                batch.segments.push_back(
                    {table(batch, tables, *use.store), use.store->reference.length, use.base + base_error});
            batch.segments.push_back({table(batch, tables, *job.own), first + sequence.num_rows, job.own_base});
            batch.sequences.push_back(sequence);
        }
        batch.name_table();
        return batch;
    }

    // The reference's logits of the same rows; its caches grow.
    std::vector<Row> run_reference(const std::vector<Job>& jobs) {
        std::vector<Row> expected;
        for (const Job& job : jobs) {
            std::vector<ReferenceSpan> before;
            for (const Use& use : job.before) before.push_back({&use.store->reference, use.base});
            for (Row& row : reference_->extend(job.own->reference, job.own_base, before, job.tokens))
                expected.push_back(std::move(row));
        }
        return expected;
    }

    std::vector<std::vector<float>> run_batch(const Batch& batch) {
        std::vector<int32_t> sampled(batch.output_rows.size(), -1);
        const auto ran = run_step(*executor_, batch, sampled);
        EXPECT_TRUE(ran.ok()) << ran.error().message;
        std::vector<std::vector<float>> logits(sampled.size(), std::vector<float>(model_.spec.vocab_size));
        for (size_t i = 0; ran.ok() && i < logits.size(); ++i) {
            const auto read = executor_->read_logits(static_cast<int32_t>(i), logits[i]);
            EXPECT_TRUE(read.ok()) << read.error().message;
            const auto best = std::max_element(logits[i].begin(), logits[i].end());
            const bool is_nan = std::ranges::any_of(logits[i], [](float logit) { return std::isnan(logit); });
            EXPECT_EQ(sampled[i], is_nan ? kNoToken : best - logits[i].begin()) << "greedy draw of output row " << i;
        }
        return logits;
    }

    Deviation run(const std::vector<Job>& jobs, int32_t base_error = 0) {
        const OwnedBatch batch = make_batch(jobs, base_error);
        auto logits = run_batch(batch);
        auto expected = run_reference(jobs);
        // The poisoned token's own logit is NaN where the head is the embedding.
        for (size_t i = 0; i < logits.size() && model_.weights.head.data == model_.weights.embedding.data; ++i) {
            logits[i].pop_back();
            expected[i].pop_back();
        }
        return compare(logits, expected);
    }

    static Deviation compare(const std::vector<std::vector<float>>& actual, const std::vector<Row>& expected) {
        Deviation deviation;
        double largest = 0;
        double difference = 0;
        EXPECT_EQ(actual.size(), expected.size());
        for (size_t row = 0; row < std::min(actual.size(), expected.size()); ++row) {
            for (size_t i = 0; i < expected[row].size(); ++i) {
                const auto value = static_cast<double>(actual[row][i]);
                deviation.finite = deviation.finite && std::isfinite(value);
                const double off = value - expected[row][i];
                difference = std::max(difference, std::fabs(off));
                largest = std::max(largest, std::fabs(expected[row][i]));
                deviation.squares += off * off;
                deviation.expected_squares += expected[row][i] * expected[row][i];
            }
        }
        deviation.highest = difference / largest;
        deviation.relative = std::sqrt(deviation.squares / deviation.expected_squares);
        return deviation;
    }

  private:
    void grow(Store& store, int32_t length) {
        while (static_cast<int32_t>(store.pages.size()) * options_.page_size < length)
            store.pages.push_back(take_page());
    }

    // The store's entries in the batch's page table, after an entry that nothing uses.
    int32_t table(OwnedBatch& batch, std::map<const Store*, int32_t>& tables, const Store& store) {
        const auto [at, is_new] = tables.emplace(&store, static_cast<int32_t>(batch.table.size()) + 1);
        if (is_new) {
            batch.table.push_back(free_.empty() ? 0 : free_.front());
            batch.table.insert(batch.table.end(), store.pages.begin(), store.pages.end());
        }
        return at->second;
    }

    void fill_with_nan(int32_t page) {
        const int32_t size = options_.page_size;
        OwnedBatch batch;
        for (int32_t i = 0; i < size; ++i) {
            batch.tokens.push_back(poison_token_);
            batch.positions.push_back(i);
            batch.key_positions.push_back(i);
            batch.slots.push_back(page * size + i);
        }
        batch.table = {page};
        batch.name_table();
        batch.segments = {{0, size, 0}};
        batch.sequences = {{0, size, 0, 1}};
        const auto ran = run_step(*executor_, batch, {});
        EXPECT_TRUE(ran.ok()) << ran.error().message;
    }

    RandomModel& model_;
    Random random_;
    ExecutorOptions options_;
    int32_t poison_token_ = 0;
    std::unique_ptr<ReferenceModel> reference_;
    std::unique_ptr<Executor> executor_;
    std::vector<int32_t> free_;
};

}  // namespace nanolith::testing
