// The planner's plans by their definition (cuda/attention/plan/work.h): every row meets every token that it sees
// exactly once, whatever was shared, split and given to which kernel, and partial results are where they are looked
// for.
#include "attention/plan/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <tuple>
#include <utility>

#include "cuda_host/llama_shape.h"

namespace nanolith::cuda {
namespace {

// A token as a row sees it: the segment's first page, where the segment begins in the row's context, and its number.
using Token = std::tuple<int32_t, int32_t, int32_t>;

struct Step {
    std::vector<int32_t> page_table;
    std::vector<Segment> segments;
    std::vector<Sequence> sequences;
    std::vector<int32_t> positions;
    std::vector<int32_t> slots;  // the last tokens of the sequences' last segments
    std::vector<int32_t> key_positions;

    [[nodiscard]] AttentionStep input() const { return {page_table, segments, sequences, positions}; }
    [[nodiscard]] WrittenRows written() const { return {slots, key_positions}; }

    [[nodiscard]] int32_t slot_of(const PlanShape& shape, int32_t first_page, int32_t token) const {
        return page_table[first_page + token / shape.page_size] * shape.page_size + token % shape.page_size;
    }
};

class Generator {
  public:
    explicit Generator(unsigned seed) : random_(seed) {}

    int below(int bound) { return static_cast<int>(random_() % static_cast<unsigned>(bound)); }

    PlanShape shape() {
        constexpr std::pair<int, int> kHeads[] = {{4, 4}, {4, 2}, {8, 2}, {7, 1}, {16, 2}, {32, 1}, {128, 1}};
        PlanShape shape;
        std::tie(shape.num_heads, shape.num_kv_heads) = kHeads[below(7)];
        shape.page_size = 16 << below(5);
        shape.multiprocessors = 1 + below(140);
        shape.tile_bytes = 64 * 2 * 2 * (64 << below(3));
        shape.kernel = static_cast<NarrowKernel>(below(3));
        shape.appends = shape.kernel == NarrowKernel::hopper;
        if (shape.kernel == NarrowKernel::hopper && below(4) > 0) shape.wide_vectors = 128 << below(2);
        shape.causal = below(8) != 0;
        if (shape.causal && below(3) == 0) shape.window = 1 + below(400);
        shape.batch_invariant = shape.wide_vectors == 0 && below(4) == 0;
        return shape;
    }

    // Sequences after chunks of a few that they share, in any order, and each with a tail of its own.
    Step step(const PlanShape& shape, int most_rows) {
        Step step;
        std::vector<Segment> chunks;
        for (int i = below(4); i > 0; --i)
            chunks.push_back(segment(step, shape, 1 + below(below(2) == 0 ? 200 : 3000)));
        if (below(3) == 0) {  // decode
            const int tail = below(2) == 0 ? 100 : 3000;
            for (int i = 1 + below(60); i > 0; --i) add_sequence(step, shape, chunks, 1, tail);
            return step;
        }
        const int sequences = 1 + below(12);
        for (int i = 0; i < sequences; ++i)
            add_sequence(step, shape, chunks, 1 + below(below(3) == 0 ? most_rows : 2), 300);
        return step;
    }

  private:
    Segment segment(Step& step, const PlanShape& shape, int length) {
        const auto first = static_cast<int32_t>(step.page_table.size());
        for (int done = 0; done < length; done += shape.page_size) step.page_table.push_back(below(100000));
        return {first, length, 0};
    }

    void add_sequence(Step& step, const PlanShape& shape, const std::vector<Segment>& chunks, int rows,
                      int tail_below) {
        Sequence sequence{static_cast<int32_t>(step.positions.size()), rows, static_cast<int32_t>(step.segments.size()),
                          0};
        int32_t base = 0;
        for (int i = chunks.empty() ? 0 : below(4); i > 0; --i) {
            Segment use = chunks[below(static_cast<int>(chunks.size()))];
            use.base = base;
            base += use.length;
            step.segments.push_back(use);
        }
        Segment tail = segment(step, shape, rows + below(tail_below));
        tail.base = base;
        step.segments.push_back(tail);
        sequence.num_segments = static_cast<int32_t>(step.segments.size()) - sequence.first_segment;
        for (int i = 0; i < rows; ++i) {
            const int32_t token = tail.length - rows + i;
            step.positions.push_back(base + token);
            step.key_positions.push_back(token);
            step.slots.push_back(step.slot_of(shape, tail.first_page, token));
        }
        step.sequences.push_back(sequence);
    }

    std::mt19937 random_;
};

bool sees(const PlanShape& shape, int32_t position, int32_t token_position) {
    if (!shape.causal) return true;
    return token_position <= position && (shape.window == 0 || token_position > position - shape.window);
}

// What the items of a plan bring to each row and query head of a KV head.
class Work {
  public:
    Work(const PlanShape& shape, const Step& step, const AttentionPlan& plan)
        : shape_(shape), step_(step), plan_(plan) {
        for (const WideItem& wide : plan.wide) add_wide(wide);
        std::vector<int> visits(plan.narrow.size());
        const auto blocks = std::min(plan.narrow.size(), static_cast<size_t>(narrow_blocks(shape)));
        for (size_t block = 0; block < blocks; ++block) {
            int number = 0;
            for (auto i = static_cast<int32_t>(block); i >= 0; i = plan.narrow[i].next) {
                if (++visits.at(i) > 1) break;                    // told below
                if (plan.narrow[i].item.num_vectors == 0) break;  // a block without work
                add_narrow(plan.narrow[i], {block, number++});
            }
        }
        for (size_t i = 0; i < visits.size(); ++i) EXPECT_EQ(visits[i], 1) << "item " << i << " in lists of blocks";
    }

    void expect_every_token_once() const {
        for (const Sequence& sequence : step_.sequences) {
            for (int32_t row = sequence.first_row; row < sequence.first_row + sequence.num_rows; ++row) {
                // The heads of a head group are together in every item, so the first of each will do.
                for (int head = 0; head < shape_.heads_per_kv(); head += head_groups(shape_).heads)
                    expect_row(sequence, row, head);
            }
        }
    }

    // Every merge is one block's, and waits for no block after it: that may not run before this one has ended.
    void expect_shared_merges() const {
        const auto blocks = std::min(plan_.narrow.size(), static_cast<size_t>(narrow_blocks(shape_)));
        std::vector<int> times(plan_.merges.size(), 0);
        for (size_t block = 0; block < blocks; ++block) {
            const NarrowItem& item = plan_.narrow[block];
            for (int32_t i = item.first_merge; i < item.first_merge + item.num_merges; ++i) {
                ++times.at(i);
                for (const Place& place : outputs_.at(row_group_of(plan_.merges[i])).narrow)
                    EXPECT_LE(place.block, block);
            }
        }
        for (const int count : times) EXPECT_EQ(count, 1);
    }

    // The partial results of each row group (plan/merging.h) are those that items write, and one merges them: an item,
    // when all others are published or will be, or a block at its end.
    void expect_partials_to_meet() const {
        const HeadGroups groups = head_groups(shape_);
        std::set<int32_t> to_merge;
        for (size_t row_group = 0; row_group < plan_.row_partials.size(); ++row_group) {
            const RowPartials& listed = plan_.row_partials[row_group];
            const auto found = outputs_.find(static_cast<int32_t>(row_group));
            ASSERT_NE(found, outputs_.end()) << "nothing writes row group " << row_group;
            const Output& output = found->second;
            const auto first = plan_.partials.begin() + listed.first_partial;
            const std::multiset<int32_t> places(first, first + listed.num_partials);
            EXPECT_EQ(places, output.places) << "row group " << row_group;
            EXPECT_LE(output.merging.size() + static_cast<size_t>(output.alone), 1U) << "row group " << row_group;
            EXPECT_TRUE(output.alone == 0 || output.places.empty()) << "row group " << row_group;
            for (const Place& merging : output.merging) {
                for (const Place& other : output.narrow) EXPECT_LT(other, merging) << "row group " << row_group;
            }
            if (output.alone > 0 || !output.merging.empty()) continue;
            EXPECT_FALSE(output.places.empty()) << "row group " << row_group;
            to_merge.insert(static_cast<int32_t>(row_group));
        }
        EXPECT_EQ(outputs_.size(), step_.positions.size() * static_cast<size_t>(groups.count));
        for (const Merge& merge : plan_.merges) {
            EXPECT_EQ(to_merge.erase(row_group_of(merge)), 1U) << "row group " << row_group_of(merge);
            const RowPartials& listed = plan_.row_partials[row_group_of(merge)];
            EXPECT_EQ(merge.first_partial, listed.first_partial);
            EXPECT_EQ(merge.num_partials, listed.num_partials);
        }
        EXPECT_TRUE(to_merge.empty()) << "nobody merges row group " << *to_merge.begin();
        // No two results in one place.
        std::set<int32_t> taken;
        for (const auto& [row_group, output] : outputs_) {
            const int heads = std::min(groups.heads, shape_.heads_per_kv() - row_group % groups.count * groups.heads);
            for (const int32_t place : output.places) {
                for (int32_t i = 0; i < heads; ++i)
                    EXPECT_TRUE(taken.insert(place + i).second) << "place " << place + i;
            }
        }
    }

  private:
    // Of a narrow item: its block and its number there.
    struct Place {
        size_t block;
        int item;
        bool operator<(const Place& other) const { return std::pair(block, item) < std::pair(other.block, other.item); }
    };

    struct Output {
        std::multiset<int32_t> places;
        int alone = 0;               // items that are all there is
        std::vector<Place> merging;  // that merge all others' with their own
        std::vector<Place> narrow;   // that bring partial results
    };

    [[nodiscard]] int32_t row_group_of(const Merge& merge) const {
        return merge.row * head_groups(shape_).count + merge.head_group;
    }

    void add_wide(const WideItem& wide) {
        add(wide.item, nullptr);
        const int32_t rows =
            (wide.item.first_vector + wide.item.num_vectors + shape_.heads_per_kv() - 1) / shape_.heads_per_kv();
        const auto first = plan_.queries.begin() + wide.item.first_query;
        const auto [low, high] = std::minmax_element(
            first, first + rows, [](const QueryRow& a, const QueryRow& b) { return a.position < b.position; });
        EXPECT_EQ(wide.lowest, low->position);
        EXPECT_EQ(wide.highest, high->position);
        if (wide.item.num_spans > 0) expect_span(wide.item, wide.span);
    }

    void expect_span(const AttentionItem& item, const Span& found) const {
        const Span& span = plan_.spans[item.first_span];
        EXPECT_EQ(std::tie(found.first_page, found.first_token, found.end_token, found.base),
                  std::tie(span.first_page, span.first_token, span.end_token, span.base));
    }

    void add_narrow(const NarrowItem& narrow, const Place& place) {
        add(narrow.item, &place);
        const QueryRow& first = plan_.queries[narrow.item.first_query];
        EXPECT_EQ(narrow.row, first.row);
        EXPECT_EQ(narrow.position, first.position);
        if (narrow.item.num_spans == 0) return;
        const Span& span = plan_.spans[narrow.item.first_span];
        expect_span(narrow.item, narrow.span);
        for (int i = 0; i < 16 && span.first_token + 16 * i < span.end_token; ++i) {
            const int32_t page = (span.first_token + 16 * i) / shape_.page_size;
            EXPECT_EQ(narrow.pages[i], step_.page_table[span.first_page + page]);
        }
    }

    // `narrow`: where a narrow item is done.
    void add(const AttentionItem& item, const Place* narrow) {
        const int group = shape_.heads_per_kv();
        const HeadGroups groups = head_groups(shape_);
        for (int32_t m = 0; m < item.num_vectors; ++m) {
            const int head = (item.first_vector + m) % group;
            const QueryRow& query = plan_.queries[item.first_query + (item.first_vector + m) / group];
            const int32_t base = step_.positions[query.row] - query.position;
            for (int32_t i = 0; i < item.num_spans; ++i) ++spans_[{query.row, head}][{item.first_span + i, base}];
            if (head % groups.heads != 0) continue;
            Output& output = outputs_[query.row * groups.count + head / groups.heads];
            if (item.partial >= 0) {
                output.places.insert(item.partial + m);
                if (narrow != nullptr) output.narrow.push_back(*narrow);
            } else if (item.partial == kMergesOthers && narrow != nullptr) {
                output.merging.push_back(*narrow);
            } else {
                EXPECT_EQ(item.partial, kWritesOutput);
                ++output.alone;
            }
        }
    }

    void expect_row(const Sequence& sequence, int32_t row, int head) const {
        std::map<Token, int> met;
        const auto found = spans_.find({row, head});
        if (found != spans_.end()) {
            for (const auto& [which, times] : found->second) {
                const Span& span = plan_.spans[which.first];
                EXPECT_EQ(span.first_token % kNarrowTokens, 0);
                for (int32_t t = span.first_token; t < span.end_token; ++t)
                    met[{span.first_page, span.base + which.second, t}] += times;
            }
        }
        const int32_t position = step_.positions[row];
        for (int32_t i = 0; i < sequence.num_segments; ++i) {
            const Segment& segment = step_.segments[sequence.first_segment + i];
            for (int32_t t = 0; t < segment.length; ++t) {
                const auto token = met.find({segment.first_page, segment.base, t});
                const int times = token == met.end() ? 0 : token->second;
                // What it doesn't see may be among an item's tokens: kernels mask it.
                if (sees(shape_, position, segment.base + t)) {
                    ASSERT_EQ(times, 1) << "row " << row << ", head " << head << ", token " << t;
                }
                if (token != met.end()) met.erase(token);
            }
        }
        EXPECT_TRUE(met.empty()) << "row " << row << " meets tokens that are not its own";
    }

    const PlanShape& shape_;
    const Step& step_;
    const AttentionPlan& plan_;
    std::map<std::pair<int32_t, int>, std::map<std::pair<int32_t, int32_t>, int>> spans_;  // by row and head
    std::map<int32_t, Output> outputs_;                                                    // by row group
};

void expect_within_bounds(const PlanShape& shape, const Step& step, const AttentionPlan& plan, int64_t max_rows) {
    const PlanBounds bounds = plan_bounds(shape, max_rows, static_cast<int64_t>(step.sequences.size()),
                                          static_cast<int64_t>(step.segments.size()));
    EXPECT_LE(static_cast<int64_t>(plan.queries.size()), bounds.queries);
    EXPECT_LE(static_cast<int64_t>(plan.spans.size()), bounds.spans);
    EXPECT_LE(static_cast<int64_t>(plan.narrow.size()), bounds.narrow);
    EXPECT_LE(static_cast<int64_t>(plan.wide.size()), bounds.wide);
    const PartialBounds partials = partial_bounds(shape, max_rows);
    for (const NarrowItem& narrow : plan.narrow) {
        if (narrow.item.num_vectors > 0 && narrow.item.partial >= 0) {
            EXPECT_LE(int64_t{narrow.item.partial} + narrow.item.num_vectors, partials.narrow);
        }
    }
    for (const WideItem& wide : plan.wide) {
        if (wide.item.partial < 0) continue;
        EXPECT_GE(wide.item.partial, partials.narrow);
        EXPECT_LE(int64_t{wide.item.partial} + wide.item.num_vectors, partials.narrow + partials.wide);
    }
}

TEST(AttentionPlan, EveryRowMeetsWhatItSeesOnce) {
    const unsigned seed = std::random_device{}();
    std::printf("seed %u\n", seed);
    Generator generator(seed);
    int cascades = 0;
    int wide = 0;
    int overlapping = 0;
    for (int round = 0; round < 150; ++round) {
        SCOPED_TRACE("round " + std::to_string(round) + " of seed " + std::to_string(seed));
        const PlanShape shape = generator.shape();
        const int64_t max_rows = 512;
        AttentionPlanner planner(shape, max_rows);
        for (int repeat = 0; repeat < 2; ++repeat) {  // the second with the memory of the first
            const Step step = generator.step(shape, 40);
            const AttentionPlan& plan = planner.plan(step.input());
            const Work work(shape, step, plan);
            work.expect_every_token_once();
            work.expect_partials_to_meet();
            work.expect_shared_merges();
            expect_within_bounds(shape, step, plan, max_rows);
            if (shape.batch_invariant) {  // no other row decides in which order a row's tokens are summed up
                EXPECT_TRUE(plan.partials.empty());
                EXPECT_EQ(plan.queries.size(), step.positions.size());
            }
            cascades += plan.queries.size() > step.positions.size() ? 1 : 0;
            wide += plan.wide.empty() ? 0 : 1;
            overlapping += !plan.wide.empty() && !plan.merges.empty() ? 1 : 0;
            if (::testing::Test::HasFailure()) return;
        }
    }
    // Else the above saw but the simplest plans.
    EXPECT_GT(cascades, 10);
    EXPECT_GT(wide, 10);
    EXPECT_GT(overlapping, 2);
}

// After a long chunk, rows' own items that come early leave their results, and later ones merge those of wide items.
TEST(AttentionPlan, LaterItemsMerge) {
    const PlanShape shape = llama_shape(128);
    constexpr int32_t kRows = 256;
    constexpr int32_t kShared = 2048;
    constexpr int32_t kOwn = 256;
    Step step;
    for (int32_t i = 0; i < (kShared + kRows * kOwn) / 64; ++i) step.page_table.push_back(i);
    for (int32_t i = 0; i < kRows; ++i) {
        step.sequences.push_back({i, 1, 2 * i, 2});
        step.segments.push_back({0, kShared, 0});
        step.segments.push_back({(kShared + i * kOwn) / 64, kOwn, kShared});
        step.positions.push_back(kShared + kOwn - 1);
    }
    AttentionPlanner planner(shape, kRows);
    const AttentionPlan& plan = planner.plan(step.input());
    const Work work(shape, step, plan);
    work.expect_partials_to_meet();
    work.expect_shared_merges();
    const auto merging = std::count_if(plan.narrow.begin(), plan.narrow.end(), [](const NarrowItem& narrow) {
        return narrow.item.num_vectors > 0 && narrow.item.partial == kMergesOthers;
    });
    EXPECT_GT(merging, 0);
    EXPECT_GT(plan.merges.size(), 0U);
    EXPECT_EQ(static_cast<size_t>(merging) + plan.merges.size(), size_t{kRows});
}

// What all KV heads of a long prompt keep does not fit in the L2 cache: a few are done at once.
TEST(AttentionPlan, LongPromptsGoByHeads) {
    const PlanShape shape = llama_shape(256);
    const auto heads = [&](int32_t rows, int32_t history) {
        Step step;
        for (int32_t i = 0; i < (history + rows + 63) / 64; ++i) step.page_table.push_back(i);
        step.sequences.push_back({0, rows, 0, 1});
        step.segments.push_back({0, history + rows, 0});
        for (int32_t i = 0; i < rows; ++i) step.positions.push_back(history + i);
        AttentionPlanner planner(shape, rows);
        return planner.plan(step.input()).wide.front().kv_heads_at_once;
    };
    EXPECT_EQ(heads(2048, 0), 0);
    EXPECT_EQ(heads(8192, 0), 4);     // 4 MiB each
    EXPECT_EQ(heads(32768, 0), 1);    // 16 MiB each
    EXPECT_EQ(heads(512, 65536), 0);  // no more than a round or two
}

// Sequences whose keys and values the cache doesn't hold all at once go in groups, each with its costliest items first.
TEST(AttentionPlan, PromptsGoInGroups) {
    const PlanShape shape = llama_shape(128);
    Step step;
    constexpr int32_t kRows = 2048;  // 8 MiB of keys and values
    for (int32_t sequence = 0; sequence < 4; ++sequence) {
        step.sequences.push_back({sequence * kRows, kRows, sequence, 1});
        step.segments.push_back({sequence * kRows / 64, kRows, 0});
        for (int32_t i = 0; i < kRows; ++i) step.positions.push_back(i);
    }
    for (int32_t page = 0; page < 4 * kRows / 64; ++page) step.page_table.push_back(page);
    AttentionPlanner planner(shape, 4 * kRows);
    const AttentionPlan& plan = planner.plan(step.input());
    ASSERT_EQ(plan.wide.size(), 256U);
    for (size_t i = 0; i < plan.wide.size(); ++i) {
        const WideItem& item = plan.wide[i];
        EXPECT_EQ(item.kv_heads_at_once, 0);
        EXPECT_EQ(item.span.first_page / (2 * kRows / 64), i < 128 ? 0 : 1) << "item " << i;
        if (i % 128 != 0) {
            EXPECT_LE(item.span.end_token, plan.wide[i - 1].span.end_token) << "item " << i;
        }
    }
}

// What blocks of a step of few rows may read before its keys and values are written is as much as there is, and none of
// these.
TEST(AttentionPlan, SettledTokensAreNotWritten) {
    const unsigned seed = std::random_device{}();
    std::printf("seed %u\n", seed);
    Generator generator(seed);
    int some = 0;
    int all = 0;
    for (int round = 0; round < 1000; ++round) {
        SCOPED_TRACE("round " + std::to_string(round) + " of seed " + std::to_string(seed));
        const PlanShape shape = generator.shape();
        const Step step = generator.step(shape, 40);
        std::set<int32_t> written;
        for (const int32_t slot : step.slots) written.insert(slot / shape.page_size);
        AttentionPlanner planner(shape, 512);
        const AttentionPlan& plan = planner.plan(step.input(), step.written());
        const auto blocks = std::min(plan.narrow.size(), static_cast<size_t>(narrow_blocks(shape)));
        for (size_t block = 0; block < blocks; ++block) {
            const NarrowItem& item = plan.narrow[block];
            int32_t token = item.span.first_token;
            const int32_t end = std::min(item.span.end_token, token + 256);
            if (item.item.num_vectors == 0 || item.item.num_spans == 0) continue;
            const auto is_written = [&](int32_t t) {
                return written.contains(step.slot_of(shape, item.span.first_page, t) / shape.page_size);
            };
            const bool few = step.positions.size() <= 16;
            while (few && token < end && !is_written(token)) ++token;
            EXPECT_EQ(item.settled, token - item.span.first_token) << "block " << block;
            some += item.settled > 0 && token < end ? 1 : 0;
            all += item.settled > 0 && token == end ? 1 : 0;
        }
        if (::testing::Test::HasFailure()) return;
    }
    EXPECT_GT(some, 10);
    EXPECT_GT(all, 10);
}

// Where items write the rows' keys and values, each row's is written once, where no other item reads it.
TEST(AttentionPlan, ItemsAppendWhatNoOtherReads) {
    const unsigned seed = std::random_device{}();
    std::printf("seed %u\n", seed);
    Generator generator(seed);
    int appending = 0;
    for (int round = 0; round < 4000; ++round) {
        SCOPED_TRACE("round " + std::to_string(round) + " of seed " + std::to_string(seed));
        PlanShape shape = generator.shape();
        shape.wide_vectors = generator.below(4) == 0 ? shape.wide_vectors : 0;
        Step step = generator.step(shape, 3);
        if (generator.below(8) == 0) step.slots[generator.below(static_cast<int>(step.slots.size()))] = kNoSlot;
        AttentionPlanner planner(shape, 512);
        const AttentionPlan& plan = planner.plan(step.input(), step.written());
        if (!plan.appends) continue;
        ++appending;
        std::multiset<std::pair<int32_t, int32_t>> reads;  // slots, and the rows that read them
        for (const NarrowItem& narrow : plan.narrow) {
            const AttentionItem& item = narrow.item;
            for (int32_t m = 0; m < item.num_vectors; m += shape.heads_per_kv()) {
                const int32_t row = plan.queries[item.first_query + m / shape.heads_per_kv()].row;
                for (int32_t s = item.first_span; s < item.first_span + item.num_spans; ++s) {
                    const Span& span = plan.spans[s];
                    for (int32_t t = span.first_token; t < span.end_token; ++t)
                        reads.emplace(step.slot_of(shape, span.first_page, t), row);
                }
            }
        }
        for (int32_t row = 0; row < static_cast<int32_t>(step.slots.size()); ++row) {
            const auto first = reads.lower_bound({step.slots[row], -1});
            ASSERT_NE(first, reads.end()) << "row " << row;
            EXPECT_EQ(*first, std::pair(step.slots[row], row));
            const auto second = std::next(first);
            EXPECT_TRUE(second == reads.end() || second->first != step.slots[row]) << "row " << row;
        }
        if (::testing::Test::HasFailure()) return;
    }
    EXPECT_GT(appending, 20);
}

// Steps whose keys and values a launch of their own must write.
TEST(AttentionPlan, OtherStepsAppendBefore) {
    PlanShape shape = llama_shape(0);
    shape.kernel = NarrowKernel::hopper;
    shape.appends = true;
    // Two sequences after a chunk, each with a page of its own.
    constexpr int32_t kChunkPages = 100;
    const int32_t length = kChunkPages * shape.page_size;
    const auto make = [&](int32_t rows, int32_t tail_base) {
        Step step;
        for (int32_t page = 0; page < kChunkPages + 2; ++page) step.page_table.push_back(page);
        for (int32_t i = 0; i < 2; ++i) {
            step.sequences.push_back({i * rows, rows, 2 * i, 2});
            step.segments.push_back({0, length, 0});
            step.segments.push_back({kChunkPages + i, 20, tail_base});
            for (int32_t row = 0; row < rows; ++row) {
                const int32_t token = 20 - rows + row;
                step.positions.push_back(tail_base + token);
                step.key_positions.push_back(token);
                step.slots.push_back((kChunkPages + i) * shape.page_size + token);
            }
        }
        return step;
    };
    const auto appends = [&](const Step& step) {
        AttentionPlanner planner(shape, 64);
        return planner.plan(step.input(), step.written()).appends;
    };
    EXPECT_TRUE(appends(make(1, length)));
    EXPECT_FALSE(appends(make(2, length)));
    Step step = make(1, length);
    step.slots[1] = kNoSlot;  // a row that writes nothing
    EXPECT_FALSE(appends(step));
    step = make(1, length);
    step.key_positions[0] += 1;  // a key that is rotated for another position
    EXPECT_FALSE(appends(step));
    step = make(1, length);
    step.slots[0] -= 1;  // a key that its row doesn't find where it looks
    EXPECT_FALSE(appends(step));
    step = make(1, length);
    step.page_table[kChunkPages + 1] = 2;  // a page that the other row reads
    step.slots[1] = 2 * shape.page_size + 19;
    EXPECT_FALSE(appends(step));
    step = make(1, length);
    step.slots.clear();  // written before
    step.key_positions.clear();
    EXPECT_FALSE(appends(step));
    EXPECT_FALSE(appends(make(1, length - 300)));  // rows whose positions the chunk has, too
    shape.appends = false;
    EXPECT_FALSE(appends(make(1, length)));
}

// Decode rows of `sequences` sequences with `own` tokens each behind `prefix` tokens that all share, a multiple of 64.
Step step_behind_prefix(int32_t sequences, int32_t prefix, int32_t own) {
    Step step;
    const int32_t pages = prefix / 64;
    const int32_t own_pages = (own + 63) / 64;
    for (int32_t page = 0; page < pages + sequences * own_pages; ++page) step.page_table.push_back(page);
    for (int32_t i = 0; i < sequences; ++i) {
        step.sequences.push_back({i, 1, 2 * i, 2});
        step.segments.push_back({0, prefix, 0});
        step.segments.push_back({pages + i * own_pages, own, prefix});
        step.positions.push_back(prefix + own - 1);
    }
    return step;
}

// A block needs some time for each item, however few KV tiles the item has. So the planner must not give many short
// items to one block and a few long ones to each other block, even if all have equally many KV tiles.
TEST(AttentionPlan, BlocksShareShortItems) {
    const unsigned seed = std::random_device{}();
    std::printf("seed %u\n", seed);
    std::mt19937 random(seed);
    const PlanShape shape = llama_shape(128);
    for (int round = 0; round < 300; ++round) {
        const auto sequences = static_cast<int32_t>(2 + random() % 7);
        const auto prefix = static_cast<int32_t>(64 * (40 + random() % 100));
        const auto own = static_cast<int32_t>(1 + random() % 150);
        SCOPED_TRACE(std::to_string(sequences) + " sequences with " + std::to_string(own) + " tokens behind " +
                     std::to_string(prefix) + ", seed " + std::to_string(seed));
        AttentionPlanner planner(shape, 64);
        const AttentionPlan& plan = planner.plan(step_behind_prefix(sequences, prefix, own).input());
        ASSERT_TRUE(plan.wide.empty());
        // In KV tiles, of which an item takes two besides its own.
        int64_t all = 0;
        int64_t most = 0;
        const size_t blocks = std::min(plan.narrow.size(), static_cast<size_t>(narrow_blocks(shape)));
        for (size_t block = 0; block < blocks; ++block) {
            int64_t work = 0;
            for (int32_t i = static_cast<int32_t>(block); i >= 0; i = plan.narrow[static_cast<size_t>(i)].next) {
                const AttentionItem& item = plan.narrow[static_cast<size_t>(i)].item;
                if (item.num_vectors == 0) break;
                work += 2;
                for (int32_t span = 0; span < item.num_spans; ++span) {
                    const Span& of = plan.spans[static_cast<size_t>(item.first_span + span)];
                    work += (of.end_token - of.first_token + 63) / 64;
                }
            }
            all += work;
            most = std::max(most, work);
        }
        EXPECT_LE(2 * most * static_cast<int64_t>(blocks), 3 * all + 12 * static_cast<int64_t>(blocks));
        if (::testing::Test::HasFailure()) return;
    }
}

// Query vectors behind a short prefix are computed by the narrow kernel, even where they fill several of its query
// tiles, each of which reads the prefix. Behind a long prefix, or where there are many vectors, the wide kernel is
// used.
TEST(AttentionPlan, FewVectorsOfShortPrefixesAreNarrow) {
    PlanShape shape = llama_shape(128);
    const auto has_wide = [&](int32_t sequences, int32_t prefix) {
        AttentionPlanner planner(shape, 512);
        return !planner.plan(step_behind_prefix(sequences, prefix, 20).input()).wide.empty();
    };
    ASSERT_EQ(shape.heads_per_kv(), 4);
    for (const int32_t sequences : {2, 4, 5, 8}) {
        EXPECT_FALSE(has_wide(sequences, 2048)) << sequences << " sequences";
    }
    EXPECT_FALSE(has_wide(16, 512));
    EXPECT_TRUE(has_wide(5, 131072));
    EXPECT_TRUE(has_wide(16, 16384));
    EXPECT_TRUE(has_wide(64, 512));
    // More query heads than the narrow kernel holds share a KV head.
    shape.num_heads = 32 * shape.num_kv_heads;
    EXPECT_TRUE(has_wide(2, 512));
}

// A long segment that many sequences share is read once, and not where two short ones do.
TEST(AttentionPlan, SharesWhereItPays) {
    PlanShape shape = llama_shape(0);
    shape.kernel = NarrowKernel::portable;
    const auto queries = [&](int sequences, int32_t length, int64_t max_rows = 512) {
        Step step;
        const int32_t pages = (length + 63) / 64;
        for (int32_t i = 0; i < pages + sequences; ++i) step.page_table.push_back(i);
        for (int i = 0; i < sequences; ++i) {
            step.sequences.push_back({i, 1, 2 * i, 2});
            step.segments.push_back({0, length, 0});
            step.segments.push_back({pages + i, 5, length});
            step.positions.push_back(length + 4);
        }
        AttentionPlanner planner(shape, max_rows);
        return planner.plan(step.input()).queries.size();
    };
    EXPECT_EQ(queries(16, 8192), 32U);  // a second time for the shared segment
    EXPECT_EQ(queries(2, 64), 2U);
    EXPECT_EQ(queries(1, 8192), 1U);
    // Where there is no room for their partial results, none share it.
    EXPECT_EQ(queries(600, 8192, 2048), 600U);
    shape.cascade_rows = 600;
    EXPECT_EQ(queries(600, 8192, 2048), 1200U);
}

}  // namespace
}  // namespace nanolith::cuda
