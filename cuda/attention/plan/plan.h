// Turns the segments of a batch into the work list of the attention kernels (work.h).
//
// A line is a tile of query vectors and the tokens that it attends to. Segments that several sequences use become lines
// of their own over the rows of all of them, where reading once saves more than the merging of partial results costs
// (cascade attention; Ye et al., FlashInfer, 2025); what is left of each sequence becomes lines of that sequence.
// The lines are cut along the tokens so that all multiprocessors end together (Dao et al., Flash-Decoding, 2023; wide
// lines beside narrow ones: overlap.h), and each piece is an item. Cost: in the order of rows, segments and items.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "attention/attention.h"
#include "attention/plan/overlap.h"
#include "attention/plan/work.h"
#include "backend/kernels.h"

namespace nanolith::cuda {

// The rates that costs are predicted with, in bytes a microsecond: device memory, and what one block reaches alone.
constexpr double kMemoryRate = 4.5e6;
constexpr double kBlockRate = 5.5e4;
// Microseconds between a block's items.
constexpr double kItemCost = 1.0;

constexpr int64_t divide_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

// What a plan depends on beside the batch.
struct PlanShape {
    int num_heads = 0;
    int num_kv_heads = 0;
    int page_size = 0;
    int multiprocessors = 0;
    int tile_bytes = 0;  // K and V of one KV head and 64 tokens
    NarrowKernel kernel = NarrowKernel::portable;
    bool fp8 = false;      // pages are fp8 e4m3
    int wide_vectors = 0;  // vectors of a tile of the wide kernel; 0: there is none
    bool causal = true;
    int window = 0;
    // A row's result depends on its own position and segments alone: no line is cut, none is shared by sequences, and
    // all are of one size.
    bool batch_invariant = false;

    [[nodiscard]] int heads_per_kv() const { return num_heads / num_kv_heads; }
};

// Blocks of the narrow kernels for each KV head, whatever the batch.
int narrow_blocks(const PlanShape& shape);
// Row units for the merging of partial results.
HeadGroups head_groups(const PlanShape& shape);
// No plan of at most so many rows, sequences and segments has more of these.
struct PlanBounds {
    int64_t queries = 0;
    int64_t spans = 0;
    int64_t narrow = 0;
    int64_t wide = 0;
};
PlanBounds plan_bounds(const PlanShape& shape, int64_t rows, int64_t sequences, int64_t segments);
// No plan has more partial vectors for each KV head: those that narrow blocks hand over come first (PartialView).
struct PartialBounds {
    int64_t narrow = 0;
    int64_t wide = 0;
};
PartialBounds partial_bounds(const PlanShape& shape, int64_t max_rows);

struct AttentionPlan {
    std::vector<QueryRow> queries;
    std::vector<Span> spans;
    std::vector<NarrowItem> narrow;         // the first narrow_blocks() are where the blocks begin
    std::vector<WideItem> wide;             // costliest first
    std::vector<RowPartials> row_partials;  // [rows, HeadGroups::count]
    std::vector<int32_t> partials;
    std::vector<Merge> merges;  // units that no item merges
};

// Makes plans, keeping its memory from one to the next.
class AttentionPlanner {
  public:
    AttentionPlanner(const PlanShape& shape, int64_t max_rows);

    // The input must make sense as check_step says. The plan is valid until the next call.
    const AttentionPlan& plan(const AttentionStep& input);

  private:
    // A tile of query vectors and the tokens that it attends to.
    struct Line {
        AttentionItem item;  // partial: of its first piece
        int32_t tiles;       // of 64 tokens
        int32_t pieces;
        bool wide;
        bool early;        // narrow and of early blocks, done before the wide items may have ended
        bool merges;       // its last piece merges the rest
        int32_t last_cut;  // that of this piece
    };
    // A piece of a line, and the block that does it.
    struct Cut {
        int32_t line;
        int32_t first_tile;
        int32_t num_tiles;
        int32_t block;
    };
    // A segment as a sequence uses it.
    struct Use {
        int32_t segment;
        int32_t sequence;
    };

    // A unit that no item merges, and the block that does.
    struct Waiting {
        int32_t block;
        int32_t unit;
        auto operator<=>(const Waiting&) const = default;
    };

    // What narrow blocks take of the lines.
    struct Shares {
        int blocks;
        int early;           // the first of them begin beside wide items
        double ahead;        // tiles that these do before the wide items end
        double early_share;  // tiles, in proportion to
        double share;        // those of the others
    };

    void build(const AttentionStep& input, bool with_cascades, bool with_overlap);
    void find_cascades(const AttentionStep& input);
    [[nodiscard]] bool worth_cascading(const AttentionStep& input, std::span<const Use> uses) const;
    void add_cascade(const AttentionStep& input, std::span<const Use> uses);
    void add_sequence(const AttentionStep& input, const Sequence& sequence);
    int32_t add_spans(const AttentionStep& input, const Sequence& sequence, int32_t first_row, int32_t last_row);
    void add_line(int32_t first_query, int32_t num_rows, int32_t all_rows, int32_t first_span, int32_t num_spans);
    [[nodiscard]] int tile_vectors(int64_t vectors) const;
    [[nodiscard]] int32_t rows_per_line(int64_t rows) const;
    [[nodiscard]] int64_t count_lines(int64_t rows) const;

    [[nodiscard]] double narrow_cost(int64_t lines, int64_t tiles, int64_t longest, int blocks) const;
    [[nodiscard]] int choose_blocks(int64_t lines, int64_t tiles, int64_t longest) const;
    void choose_overlap(bool allowed);
    [[nodiscard]] Shares choose_shares(int64_t lines, int64_t tiles, int64_t longest) const;
    void cut_narrow();
    void cut_wide();

    template <typename Visit>
    void for_each_unit(const Line& line, const Visit& visit) const;
    void count_pieces(size_t num_rows);
    [[nodiscard]] bool can_merge(const Line& line) const;
    bool place_partials(size_t num_rows);
    AttentionItem cut_item(const Line& line, int32_t first_tile, int32_t num_tiles);
    [[nodiscard]] WideItem wide_item(const AttentionItem& item) const;
    [[nodiscard]] NarrowItem narrow_item(const AttentionStep& input, const AttentionItem& item) const;
    void share_merges();
    [[nodiscard]] int32_t tokens_of(const AttentionItem& item) const;
    void order_wide();
    void emit(const AttentionStep& input);

    const PlanShape shape_;
    const HeadGroups units_;
    const int64_t max_cascade_partials_;
    const PartialBounds max_partials_;
    AttentionPlan plan_;
    std::vector<Line> lines_;
    std::vector<Cut> cuts_;
    std::vector<Use> uses_;
    std::vector<uint8_t> cascaded_;  // [segments]
    int64_t cascade_partials_ = 0;
    Overlap overlap_;
    std::vector<int32_t> wide_tiles_;     // of each wide line
    std::vector<int32_t> narrow_pieces_;  // [units]
    std::vector<int32_t> last_block_;     // [units] of these; -1: none
    std::vector<uint8_t> merged_;         // [units] by an item
    std::vector<Waiting> waiting_;
    std::vector<int32_t> merges_of_;  // [blocks]
};

}  // namespace nanolith::cuda
