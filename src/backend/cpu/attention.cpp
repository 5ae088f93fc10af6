// Tiling: a block is up to 64 queries (rows times the query heads of one KV head) that walk their segments' keys in
// tiles of 64. Per tile: the keys are read once from their pages; scores = queries x keys, online softmax, sums +=
// weights x values. Flops: 4 * head_dim a query and visible key. Bytes: K and V once a block, so prefill is bound by
// the multiply-add units and decode (a few queries) by memory. Scores, softmax and sums are float32 whatever the pool
// is: float32 and bfloat16 are multiplied as they lie in the pages, other formats are widened a page's part at a time.
#include "backend/cpu/attention.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "backend/cpu/attention_tile.h"
#include "backend/cpu/rows.h"

namespace nanolith::cpu {
namespace {

constexpr int32_t kKeyTile = 64;
constexpr int32_t kBlockQueries = 64;
constexpr int32_t kFewQueries = 8;  // up to here, dot products with the keys as they lie beat transposing them

// How many rows a block takes at most, for `group` query heads a KV head: about 64 queries.
int32_t block_rows(int32_t group) {
    return std::max(1, kBlockQueries / group);
}

// Float32 memory of one thread, for blocks of up to block_rows(group) rows.
class Scratch {
  public:
    Scratch(float* memory, const AttentionShape& shape)
        : memory_(memory),
          num_queries_(int64_t{block_rows(shape.group())} * shape.group()),
          head_dim_(shape.pool.head_dim) {}

    // Whole cache lines.
    static int64_t elements(const AttentionShape& shape) {
        const Scratch scratch(nullptr, shape);
        const int64_t all = scratch.num_queries_ * (2 * scratch.head_dim_ + kKeyTile + 2) +
                            (2 * int64_t{kKeyTile} + 1) * scratch.head_dim_;
        constexpr int64_t kLine = kAlignment / sizeof(float);
        return (all + kLine - 1) / kLine * kLine;
    }
    [[nodiscard]] float* queries() const { return memory_; }                                 // [queries][head_dim]
    [[nodiscard]] float* sums() const { return queries() + num_queries_ * head_dim_; }       // [queries][head_dim]
    [[nodiscard]] float* scores() const { return sums() + num_queries_ * head_dim_; }        // [queries][kKeyTile]
    [[nodiscard]] float* keys() const { return scores() + num_queries_ * kKeyTile; }         // [head_dim][kKeyTile]
    [[nodiscard]] float* widened() const { return keys() + int64_t{kKeyTile} * head_dim_; }  // [kKeyTile][head_dim]
    [[nodiscard]] float* turn() const { return widened() + int64_t{kKeyTile} * head_dim_; }  // [head_dim]
    [[nodiscard]] float* highest() const { return turn() + head_dim_; }                      // [queries]
    [[nodiscard]] float* totals() const { return highest() + num_queries_; }                 // [queries]

  private:
    float* memory_;
    int64_t num_queries_;
    int64_t head_dim_;
};

// Numbers of a page as they are multiplied.
const float* readable(const float* page, int64_t, float*) {
    return page;
}
const BFloat16* readable(const BFloat16* page, int64_t, float*) {
    return page;
}
template <typename P>
const float* readable(const P* page, int64_t size, float* widened) {
    convert(page, size, widened);
    return widened;
}

// The first token of a segment that a query at `position` sees through a window (0: none), were it not for the
// segment's end.
int64_t first_visible(const Segment& segment, int32_t position, int32_t window) {
    return window == 0 ? 0 : std::max<int64_t>(int64_t{position} - segment.base + 1 - window, 0);
}

// After the last token that a query at `position` sees; not above 0 where it sees none.
int64_t end_visible(const Segment& segment, int32_t position, bool causal) {
    return causal ? std::min<int64_t>(segment.length, int64_t{position} - segment.base + 1) : segment.length;
}

// A block's computation, for pages of P.
template <typename P>
class BlockAttention {
  public:
    BlockAttention(const AttentionShape& shape, const AttentionStep& step, const AttentionRule& rule,
                   const AttentionTensors& tensors, const AttentionBlock& block, const Scratch& scratch)
        : shape_(shape),
          step_(step),
          rule_(rule),
          tensors_(tensors),
          block_(block),
          scratch_(scratch),
          dim_(shape.pool.head_dim),
          group_(shape.group()),
          num_queries_(int64_t{block.num_rows} * shape.group()) {}

    void run() const {
        std::fill_n(scratch_.sums(), num_queries_ * dim_, 0.0F);
        std::fill_n(scratch_.highest(), num_queries_, -kInfinity);
        std::fill_n(scratch_.totals(), num_queries_, 0.0F);
        const Sequence& sequence = step_.sequences[block_.sequence];
        for (int32_t i = 0; i < sequence.num_segments; ++i) attend_segment(step_.segments[sequence.first_segment + i]);
        for (int64_t query = 0; query < num_queries_; ++query) write_output(query);
    }

  private:
    // Tokens [first, first + count) of a segment.
    struct Tile {
        const int32_t* pages;
        int64_t first;
        int64_t count;
    };

    [[nodiscard]] int32_t position(int32_t row) const { return step_.positions[block_.first_row + row]; }
    [[nodiscard]] int64_t query_head(int64_t query) const { return int64_t{block_.kv_head} * group_ + query % group_; }

    // Calls visit(rows [count][head_dim], offset in tile, count) for each page's part of the tile: keys, or values
    // with `head` counted on from them.
    template <typename Visit>
    void for_each_page(const Tile& tile, int64_t head, const Visit& visit) const {
        const int64_t page_size = shape_.pool.page_size;
        const auto* const pages = static_cast<const P*>(tensors_.pages.data);
        for (int64_t done = 0; done < tile.count;) {
            const int64_t token = tile.first + done;
            const int64_t offset = token % page_size;
            const int64_t count = std::min<int64_t>(page_size - offset, tile.count - done);
            const P* const from = pages + shape_.pool.key_tile(tile.pages[token / page_size], head) + offset * dim_;
            visit(readable(from, count * dim_, scratch_.widened()), done, count);
            done += count;
        }
    }

    // The block's queries, times the scale, rotated for the segment.
    void load_queries(const Segment& segment) const {
        const float scale = rule_.scale * tensors_.pages.k_scale;
        for (int32_t row = 0; row < block_.num_rows; ++row) {
            const float* turn = nullptr;
            if (rule_.turns != nullptr) {
                // A row before the beginning of a causal segment sees none of it; any rotation will do.
                const int64_t distance = int64_t{position(row)} - segment.base;
                turn = rule_.turns->turn(rule_.causal ? std::max<int64_t>(distance, 0) : distance, scratch_.turn());
            }
            for (int64_t query = int64_t{row} * group_; query < int64_t{row + 1} * group_; ++query) {
                float* const to = scratch_.queries() + query * dim_;
                const float* const from = load_query(block_.first_row + row, query_head(query), to);
                if (turn != nullptr) {
                    rotate(from, turn, dim_, scale, to);
                } else {
                    scale_row(from, scale, dim_, to);
                }
            }
        }
    }

    // Where the query lies as float32: in its tensor, or else in `to`.
    const float* load_query(int64_t row, int64_t head, float* to) const {
        const ConstHeadRows& queries = tensors_.queries;
        if (shape_.query_dtype == DType::f32)
            return static_cast<const float*>(queries.data) + queries.offset(row, head);
        load_head(shape_.query_dtype, queries, row, head, dim_, to);
        return to;
    }

    void compute_scores(const Tile& tile) const {
        const bool few = num_queries_ <= kFewQueries && !shape_.batch_invariant;
        for_each_page(tile, block_.kv_head, [&](const auto* keys, int64_t at, int64_t count) {
            if (few) {
                dot_scores(scratch_.queries(), num_queries_, keys, count, dim_, scratch_.scores() + at, kKeyTile);
                return;
            }
            for (int64_t i = 0; i < dim_; ++i) {
                float* to = scratch_.keys() + i * kKeyTile + at;
                for (int64_t t = 0; t < count; ++t) to[t] = to_float(keys[t * dim_ + i]);
            }
        });
        if (few) return;
        tile_product(scratch_.queries(), dim_, scratch_.keys(), kKeyTile, num_queries_, tile.count, dim_, false,
                     scratch_.scores(), kKeyTile);
    }

    void add_values(const Tile& tile) const {
        const int64_t head = shape_.pool.num_kv_heads + block_.kv_head;
        for_each_page(tile, head, [&](const auto* values, int64_t at, int64_t count) {
            tile_product(scratch_.scores() + at, kKeyTile, values, dim_, num_queries_, dim_, count, true,
                         scratch_.sums(), dim_);
        });
    }

    // Turns a tile's scores into weights.
    void weigh(const Segment& segment, const Tile& tile) const {
        for (int64_t query = 0; query < num_queries_; ++query) {
            const int32_t at = position(static_cast<int32_t>(query / group_));
            float* scores = scratch_.scores() + query * kKeyTile;
            if (rule_.softcap > 0) {
                // Of whole tiles: how a score is rounded must not depend on how many are beside it.
                std::fill(scores + tile.count, scores + kKeyTile, 0.0F);
                softcap(scores, kKeyTile, rule_.softcap);
            }
            const int64_t from =
                std::clamp<int64_t>(first_visible(segment, at, rule_.window) - tile.first, 0, tile.count);
            const int64_t to =
                std::clamp<int64_t>(end_visible(segment, at, rule_.causal) - tile.first, from, tile.count);
            std::fill_n(scores, from, 0.0F);
            softmax_tile(scores + from, to - from, tile.count - from, scratch_.highest() + query,
                         scratch_.totals() + query, scratch_.sums() + query * dim_, dim_);
        }
    }

    void attend_segment(const Segment& segment) const {
        // The first row sees the first of the block's tokens, the last row the last.
        // Tiles begin at multiples of their size, whatever rows the block has.
        const int64_t begin = first_visible(segment, position(0), rule_.window) / kKeyTile * kKeyTile;
        const int64_t end = end_visible(segment, position(block_.num_rows - 1), rule_.causal);
        if (begin >= end) return;
        load_queries(segment);
        for (int64_t first = begin; first < end; first += kKeyTile) {
            const Tile tile{step_.page_table.data() + segment.first_page, first,
                            std::min<int64_t>(kKeyTile, end - first)};
            compute_scores(tile);
            weigh(segment, tile);
            add_values(tile);
        }
    }

    void write_output(int64_t query) const {
        const int64_t row = block_.first_row + query / group_;
        const int64_t head = query_head(query);
        const float total = scratch_.totals()[query];
        float* const sums = scratch_.sums() + query * dim_;
        scale_row(sums, total == 0 ? 0.0F : tensors_.pages.v_scale / total, dim_, sums);
        store_head(shape_.output_dtype, sums, dim_, tensors_.output, row, head);
        if (tensors_.lse != nullptr)
            tensors_.lse[row * shape_.num_heads + head] =
                total == 0 ? -kInfinity : scratch_.highest()[query] + std::log(total);
    }

    const AttentionShape& shape_;
    const AttentionStep& step_;
    const AttentionRule& rule_;
    const AttentionTensors& tensors_;
    const AttentionBlock& block_;
    const Scratch& scratch_;
    const int64_t dim_;
    const int64_t group_;
    const int64_t num_queries_;
};

int64_t block_cost(const AttentionStep& step, const AttentionBlock& block) {
    const Sequence& sequence = step.sequences[block.sequence];
    const int32_t position = step.positions[block.first_row + block.num_rows - 1];
    int64_t keys = 0;
    for (int32_t i = 0; i < sequence.num_segments; ++i)
        keys += std::max<int64_t>(end_visible(step.segments[sequence.first_segment + i], position, true), 0);
    return keys * block.num_rows;
}

}  // namespace

uint64_t Attention::scratch_bytes(const AttentionShape& shape) {
    return static_cast<uint64_t>(Scratch::elements(shape)) * sizeof(float);
}

Result<void> Attention::reserve(int32_t num_threads) {
    if (num_threads <= scratch_threads_) return {};
    NL_ASSIGN(scratch_, Buffer<float>::allocate("attention scratch", {num_threads, Scratch::elements(shape_)}));
    scratch_threads_ = num_threads;
    return {};
}

void Attention::plan(const AttentionStep& step) {
    next_blocks_.clear();
    const int32_t most_rows = block_rows(shape_.group());
    for (size_t i = 0; i < step.sequences.size(); ++i) {
        const Sequence& sequence = step.sequences[i];
        for (int32_t row = 0; row < sequence.num_rows; row += most_rows) {
            AttentionBlock block{static_cast<int32_t>(i), sequence.first_row + row,
                                 std::min(most_rows, sequence.num_rows - row)};
            block.cost = block_cost(step, block);
            for (block.kv_head = 0; block.kv_head < shape_.pool.num_kv_heads; ++block.kv_head)
                next_blocks_.push_back(block);
        }
    }
    std::stable_sort(next_blocks_.begin(), next_blocks_.end(),
                     [](const AttentionBlock& a, const AttentionBlock& b) { return a.cost > b.cost; });
    std::swap(blocks_, next_blocks_);
    cost_ = 0;
    for (const AttentionBlock& block : blocks_) cost_ += block.cost;
    step_ = step;
}

void Attention::run(const AttentionRule& rule, const AttentionTensors& tensors, ThreadPool& pool) {
    const int64_t elements = Scratch::elements(shape_);
    const int64_t cost = cost_of_flops(4 * cost_ * shape_.group() * shape_.pool.head_dim);
    const auto attend = [&]<typename P>(P) {
        pool.run(static_cast<int64_t>(blocks_.size()), cost, [&](int64_t i, int32_t thread) {
            const Scratch scratch(scratch_.data() + thread * elements, shape_);
            BlockAttention<P>(shape_, step_, rule, tensors, blocks_[i], scratch).run();
        });
    };
    switch (shape_.pool.dtype) {
        case DType::f32:
            return attend(float());
        case DType::f16:
            return attend(Half());
        case DType::bf16:
            return attend(BFloat16());
        case DType::f8_e4m3:
            return attend(Float8E4M3());
    }
}

}  // namespace nanolith::cpu
