// ExecutorOptions::batch_invariant: a row's logits are the same to the bit alone and in any batch, however its sequence
// was cut into batches.
#include <algorithm>
#include <map>
#include <numeric>

#include "unit/executor/executor_fixture.h"

namespace nanolith::testing {
namespace {

constexpr int32_t kInvariantPageSize = 16;
constexpr int32_t kNumPages = 128;
constexpr int32_t kMaxRows = 96;

// A sequence of tokens, after the tokens of another one that it shares with others, or after none.
struct Text {
    int32_t after = -1;
    std::vector<int32_t> tokens;
};

// Feeds texts to an executor in some order of slices, and keeps the logits of every row.
class Feeder {
  public:
    Feeder(Executor& executor, const std::vector<Text>& texts, const RandomShape& shape, Random& random)
        : executor_(executor),
          texts_(texts),
          vocab_size_(static_cast<size_t>(shape.vocab_size)),
          hidden_size_(static_cast<size_t>(shape.hidden_size)),
          random_(random) {
        std::vector<int32_t> pages(kNumPages);
        std::iota(pages.begin(), pages.end(), 0);
        for (size_t i = pages.size(); i > 1; --i) std::swap(pages[i - 1], pages[random.below(static_cast<int32_t>(i))]);
        for (const Text& text : texts) {
            const size_t count = (text.tokens.size() + kInvariantPageSize - 1) / kInvariantPageSize;
            first_entry_.push_back(static_cast<int32_t>(table_.size()));
            table_.insert(table_.end(), pages.end() - static_cast<std::ptrdiff_t>(count), pages.end());
            pages.resize(pages.size() - count);
            fed_.push_back(0);
            results_.emplace_back();
        }
    }

    // Every text alone, in slices as long as a batch can be.
    void feed_alone() {
        for (size_t i = 0; i < texts_.size(); ++i) {
            while (left(i) > 0) {
                add(i, std::min(left(i), kMaxRows));
                run();
            }
        }
    }
    // Slices of random length of several texts at a time: single rows, like decode steps, and longer ones.
    void feed_mixed() {
        while (true) {
            std::vector<size_t> ready;
            for (size_t i = 0; i < texts_.size(); ++i) {
                const int32_t after = texts_[i].after;
                if (left(i) > 0 && (after < 0 || left(static_cast<size_t>(after)) == 0)) ready.push_back(i);
            }
            if (ready.empty()) return;
            for (const size_t i : ready) {
                const int32_t room = kMaxRows - static_cast<int32_t>(batch_.tokens.size());
                const int32_t most = random_.below(2) == 0 ? 1 : 1 + random_.below(70);
                const int32_t rows = std::min({left(i), room, most});
                if (rows > 0 && random_.below(4) > 0) add(i, rows);
            }
            if (!batch_.tokens.empty()) run();
        }
    }
    // Of each row of each text: its logits, and then its hidden state.
    [[nodiscard]] const std::vector<std::vector<std::vector<float>>>& results() const { return results_; }

  private:
    [[nodiscard]] int32_t length(size_t text) const { return static_cast<int32_t>(texts_[text].tokens.size()); }
    [[nodiscard]] int32_t left(size_t text) const { return length(text) - fed_[text]; }

    void add(size_t text, int32_t rows) {
        const int32_t after = texts_[text].after;
        const int32_t base = after < 0 ? 0 : length(static_cast<size_t>(after));
        Sequence sequence{static_cast<int32_t>(batch_.tokens.size()), rows,
                          static_cast<int32_t>(batch_.segments.size()), after < 0 ? 1 : 2};
        for (int32_t i = fed_[text]; i < fed_[text] + rows; ++i) {
            batch_.tokens.push_back(texts_[text].tokens[i]);
            batch_.positions.push_back(base + i);
            batch_.key_positions.push_back(i);
            batch_.slots.push_back(table_[first_entry_[text] + i / kInvariantPageSize] * kInvariantPageSize +
                                   i % kInvariantPageSize);
            const auto row = static_cast<int32_t>(batch_.output_rows.size());
            batch_.output_rows.push_back(row);
            batch_.kept_logits.push_back(row);
            batch_.state_rows.push_back(row);
            batch_.sampling.emplace_back();
            owners_.push_back(text);
        }
        fed_[text] += rows;
        if (after >= 0) batch_.segments.push_back({first_entry_[after], base, 0});
        batch_.segments.push_back({first_entry_[text], fed_[text], base});
        batch_.sequences.push_back(sequence);
    }

    void run() {
        batch_.page_table = table_;
        batch_.changed_entries = {{0, static_cast<int32_t>(table_.size())}};
        std::vector<int32_t> drawn(batch_.output_rows.size());
        const auto ran = run_step(executor_, batch_, drawn);
        ASSERT_TRUE(ran.ok()) << ran.error().message;
        for (size_t i = 0; i < owners_.size(); ++i) {
            auto& rows = results_[owners_[i]];
            rows.emplace_back(vocab_size_ + hidden_size_);
            const std::span<float> result = rows.back();
            ASSERT_TRUE(executor_.read_logits(static_cast<int32_t>(i), result.first(vocab_size_)).ok());
            ASSERT_TRUE(executor_.read_state(static_cast<int32_t>(i), result.last(hidden_size_)).ok());
        }
        batch_ = Batch();
        owners_.clear();
    }

    Executor& executor_;
    const std::vector<Text>& texts_;
    const size_t vocab_size_;
    const size_t hidden_size_;
    Random& random_;
    std::vector<int32_t> table_;
    std::vector<int32_t> first_entry_;  // of each text in the table
    std::vector<int32_t> fed_;          // tokens of each text
    std::vector<std::vector<std::vector<float>>> results_;
    Batch batch_;
    std::vector<size_t> owners_;  // of the batch's rows
};

class BatchInvariant : public ExecutorTest {
  protected:
    void check(const RandomShape& shape, int32_t longest) {
        Random random(seed_);
        RandomModel model(shape, GetParam().dtype, seed_);
        ExecutorOptions invariant = options(kInvariantPageSize, kNumPages, kMaxRows);
        invariant.batch_invariant = true;
        const auto executor = backend_->create_executor(model.spec, model.weights, invariant, Progress());
        ASSERT_TRUE(executor.ok()) << executor.error().message;
        std::vector<Text> texts;
        for (const int32_t after : {-1, -1, 0, 0, 0, 1}) {
            texts.push_back({after, {}});
            const int32_t length = longest / 2 + random.below(longest / 2);
            for (int32_t i = 0; i < length; ++i) texts.back().tokens.push_back(random.below(shape.vocab_size));
        }
        Feeder alone(**executor, texts, shape, random);
        alone.feed_alone();
        Feeder mixed(**executor, texts, shape, random);
        mixed.feed_mixed();
        for (size_t text = 0; text < texts.size(); ++text) {
            for (size_t row = 0; row < texts[text].tokens.size(); ++row)
                ASSERT_TRUE(alone.results()[text][row] == mixed.results()[text][row])
                    << "text " << text << ", row " << row;
        }
    }
};

TEST_P(BatchInvariant, GroupedHeads) {
    check({}, 150);
}

TEST_P(BatchInvariant, WindowsAndManyHeadsForEachKvHead) {
    RandomShape shape;
    shape.num_heads = 8;
    shape.num_kv_heads = 1;
    shape.qk_norm = true;
    shape.post_norms = true;
    shape.layers = {{.window = 37}, {}};
    shape.numbers.attention_softcap = 20;
    check(shape, 150);
}

TEST_P(BatchInvariant, Experts) {
    RandomShape shape;
    shape.numbers.experts = {8, 2, 64, true};
    check(shape, 100);
}

// With more rows for an expert than a kernel's smaller tiles have, and fewer.
TEST_P(BatchInvariant, ExpertsOfManyRows) {
    RandomShape shape;
    shape.num_layers = 1;
    shape.hidden_size = 328;
    shape.numbers.experts = {2, 2, 152, true};
    check(shape, 200);
}

TEST_P(BatchInvariant, WideLayers) {
    RandomShape shape;
    shape.hidden_size = 512;
    shape.intermediate_size = 1536;
    shape.num_heads = 8;
    shape.num_kv_heads = 2;
    shape.head_dim = 128;
    shape.vocab_size = 1000;
    check(shape, 240);
}

INSTANTIATE_TEST_SUITE_P(Backends, BatchInvariant, ::testing::ValuesIn(kCases),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace nanolith::testing
