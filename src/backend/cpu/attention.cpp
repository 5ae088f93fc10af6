// Tiling: a block is up to 64 queries (rows times the query heads of one KV head) that walk their segments' keys in
// tiles of 64. Per tile: the keys are read once from their pages; scores = queries x keys, online softmax, sums +=
// weights x values. Flops: 4 * head_dim a query and visible key. Bytes: K and V once a block, so prefill is bound by
// the multiply-add units and decode (a few queries) by memory: while a tile is computed the next one is fetched. Decode
// rows that share a segment read it together.
// Scores, softmax and sums are float32 whatever the pool is: bfloat16 is multiplied as it lies in the pages where
// queries are few, keys are packed as float32 where there are more, other formats are widened a page's part at a time.
#include "backend/cpu/attention.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "backend/cpu/attention_tile.h"
#include "backend/cpu/dot_products.h"
#include "backend/cpu/packed_products.h"
#include "backend/cpu/rows.h"

namespace nanolith::cpu {
namespace {

// The most queries of a block whose scores are dot products with the keys as these lie in their pages. With more
// queries it takes less time to pack the keys of a tile first. (Measured with AVX-512: a fifth to a third less
// attention time for ten queries than if these packed the keys, a tenth less for 16. With AVX2 both take the same
// time.)
constexpr int64_t kFewQueries = 16;

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
                            packed_size(kKeyTile, scratch.head_dim_) + (kKeyTile + 2) * scratch.head_dim_;
        constexpr int64_t kLine = kAlignment / sizeof(float);
        return (all + kLine - 1) / kLine * kLine;
    }
    [[nodiscard]] float* queries() const { return memory_; }                                    // [queries][head_dim]
    [[nodiscard]] float* sums() const { return queries() + num_queries_ * head_dim_; }          // [queries][head_dim]
    [[nodiscard]] float* scores() const { return sums() + num_queries_ * head_dim_; }           // [queries][kKeyTile]
    [[nodiscard]] float* keys() const { return scores() + num_queries_ * kKeyTile; }            // packed
    [[nodiscard]] float* widened() const { return keys() + packed_size(kKeyTile, head_dim_); }  // [kKeyTile][head_dim]
    [[nodiscard]] float* turn() const { return widened() + int64_t{kKeyTile} * head_dim_; }     // [head_dim]
    [[nodiscard]] float* query() const { return turn() + head_dim_; }                           // [head_dim]
    [[nodiscard]] float* highest() const { return query() + head_dim_; }                        // [queries]
    [[nodiscard]] float* totals() const { return highest() + num_queries_; }                    // [queries]

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

// The first token that a query at `position` sees through a window (0: none) of a segment that begins at `base`, were
// it not for the segment's end.
int64_t first_visible(int32_t base, int32_t position, int32_t window) {
    return window == 0 ? 0 : std::max<int64_t>(int64_t{position} - base + 1 - window, 0);
}

// After the last token of `length` that a query at `position` sees; not above 0 where it sees none.
int64_t end_visible(int32_t base, int32_t length, int32_t position, bool causal) {
    return causal ? std::min<int64_t>(length, int64_t{position} - base + 1) : length;
}

// A query's softmax so far: sums [head_dim] of values times weights, the highest score, and the weights' total.
struct Partial {
    float* sums;
    float& highest;
    float& total;

    static int64_t size(const AttentionShape& shape) { return int64_t{shape.pool.head_dim} + 2; }
    static Partial at(float* memory, int64_t dim) { return {memory, memory[dim], memory[dim + 1]}; }
};

// Divides by the total, and stores. Changes the sums.
void write_output(const AttentionShape& shape, const AttentionTensors& tensors, const Partial& result, int64_t row,
                  int64_t head) {
    const int64_t dim = shape.pool.head_dim;
    scale_row(result.sums, result.total == 0 ? 0.0F : tensors.pages.v_scale / result.total, dim, result.sums);
    store_head(shape.output_dtype, result.sums, dim, tensors.output, row, head);
    if (tensors.lse != nullptr)
        tensors.lse[row * shape.num_heads + head] =
            result.total == 0 ? -kInfinity : result.highest + std::log(result.total);
}

// Adds up partial results that lie `stride` numbers apart. The order is theirs, so the sums are always the same.
void merge(const float* partials, int64_t num_parts, int64_t stride, int64_t dim, const Partial& to) {
    to.highest = -kInfinity;
    for (int64_t part = 0; part < num_parts; ++part) to.highest = std::fmax(to.highest, partials[part * stride + dim]);
    const float highest = to.highest == -kInfinity ? 0 : to.highest;  // no numbers, but there may be NaN
    std::fill_n(to.sums, dim, 0.0F);
    to.total = 0;
    for (int64_t part = 0; part < num_parts; ++part) {
        const float* const from = partials + part * stride;
        const float weight = std::exp(from[dim] - highest);
        for (int64_t i = 0; i < dim; ++i) to.sums[i] += weight * from[i];
        to.total += weight * from[dim + 1];
    }
}

// `page`, if the kernels read its numbers where they lie, as Row. Null if they are first widened to Row in scratch
// memory, which is what the kernels then read.
template <typename Row, typename P>
const Row* as_read(const P* page) {
    if constexpr (std::is_same_v<Row, P>) return page;
    return nullptr;
}

// A block's computation, for pages of P.
template <typename P>
class BlockAttention {
  public:
    BlockAttention(const AttentionShape& shape, const AttentionStep& step, const AttentionPlan& plan,
                   const AttentionRule& rule, const AttentionTensors& tensors, const AttentionBlock& block,
                   const Scratch& scratch)
        : shape_(shape),
          step_(step),
          plan_(plan),
          rule_(rule),
          tensors_(tensors),
          block_(block),
          scratch_(scratch),
          dim_(shape.pool.head_dim),
          group_(shape.group()),
          num_queries_(int64_t{block.num_rows} * shape.group()) {}

    // `partials` is where a block that is a part leaves its results.
    void run(float* partials) const {
        std::fill_n(scratch_.sums(), num_queries_ * dim_, 0.0F);
        std::fill_n(scratch_.highest(), num_queries_, -kInfinity);
        std::fill_n(scratch_.totals(), num_queries_, 0.0F);
        for (int32_t i = 0; i < block_.num_walks; ++i) attend(plan_.walks[block_.first_walk + i]);
        for (int64_t query = 0; query < num_queries_; ++query) {
            const Partial result{scratch_.sums() + query * dim_, scratch_.highest()[query], scratch_.totals()[query]};
            if (block_.first_partial < 0) {
                write_output(shape_, tensors_, result, plan_.rows[block_.first_row + query / group_],
                             query_head(query));
                continue;
            }
            const Partial to = Partial::at(partials + (block_.first_partial + query) * Partial::size(shape_), dim_);
            std::copy_n(result.sums, dim_, to.sums);
            to.highest = result.highest;
            to.total = result.total;
        }
    }

  private:
    // Tokens [first, first + count) of a walk's segment, of which tokens up to `end` are walked through.
    struct Tile {
        const int32_t* pages;
        int64_t first;
        int64_t count;
        int64_t end;
    };

    // Of a row of the walk: its row of the step, that row's position, and the base of the segment for it.
    [[nodiscard]] int32_t step_row(const AttentionWalk& walk, int64_t row) const {
        return plan_.rows[block_.first_row + walk.first_row + row];
    }
    [[nodiscard]] int32_t position(const AttentionWalk& walk, int64_t row) const {
        return step_.positions[step_row(walk, row)];
    }
    [[nodiscard]] int32_t base(const AttentionWalk& walk, int64_t row) const {
        return plan_.bases[walk.first_base + row];
    }
    [[nodiscard]] int64_t num_queries(const AttentionWalk& walk) const { return int64_t{walk.num_rows} * group_; }
    [[nodiscard]] int64_t query_head(int64_t query) const { return int64_t{block_.kv_head} * group_ + query % group_; }
    // Whether dot products with the keys as they lie beat packing them.
    [[nodiscard]] bool few(const AttentionWalk& walk) const {
        return num_queries(walk) <= kFewQueries && !shape_.batch_invariant;
    }

    // Calls visit(rows [count][head_dim], offset in tile, count, next) for each page's part of the tile: keys, or
    // values with `head` counted on from them. `next` is where the same part of the walk's next tile lies; null where
    // there is none.
    template <typename Visit>
    void for_each_page(const Tile& tile, int64_t head, const Visit& visit) const {
        const int64_t page_size = shape_.pool.page_size;
        const auto* const pages = static_cast<const P*>(tensors_.pages.data);
        for (int64_t done = 0; done < tile.count;) {
            const int64_t token = tile.first + done;
            const int64_t offset = token % page_size;
            const int64_t count = std::min<int64_t>(page_size - offset, tile.count - done);
            const auto row_at = [&](int64_t of) {
                return pages + shape_.pool.key_tile(tile.pages[of / page_size], head) + of % page_size * dim_;
            };
            const P* const next = token + kKeyTile + count <= tile.end ? row_at(token + kKeyTile) : nullptr;
            visit(readable(row_at(token), count * dim_, scratch_.widened()), done, count, next);
            done += count;
        }
    }

    // The walk's queries, times the scale, rotated for the segment, in the order that their products with keys take.
    void load_queries(const AttentionWalk& walk) const {
        const float scale = rule_.scale * tensors_.pages.k_scale;
        const bool spread = few(walk) && std::is_same_v<P, BFloat16>;
        for (int32_t row = 0; row < walk.num_rows; ++row) {
            const float* turn = nullptr;
            if (rule_.turns != nullptr) {
                // A row before the beginning of a causal segment sees none of it; any rotation will do.
                const int64_t distance = int64_t{position(walk, row)} - base(walk, row);
                turn = rule_.turns->turn(rule_.causal ? std::max<int64_t>(distance, 0) : distance, scratch_.turn());
            }
            for (int64_t query = int64_t{row} * group_; query < int64_t{row + 1} * group_; ++query) {
                float* const at = scratch_.queries() + query * dim_;
                float* const to = spread ? scratch_.query() : at;
                const float* const from = load_query(step_row(walk, row), query_head(query), to);
                if (turn != nullptr) {
                    rotate(from, turn, dim_, scale, to);
                } else {
                    scale_row(from, scale, dim_, to);
                }
                if (spread) spread_pairs(to, dim_, at);
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

    void compute_scores(const AttentionWalk& walk, const Tile& tile) const {
        for_each_page(tile, block_.kv_head, [&](const auto* keys, int64_t at, int64_t count, const P* next) {
            using Key = std::remove_const_t<std::remove_pointer_t<decltype(keys)>>;
            float* const scores = scratch_.scores() + at;
            if (few(walk)) {
                const DotProducts<Key> of{.weights = keys,
                                          .x = scratch_.queries(),
                                          .depth = dim_,
                                          .y = scores,
                                          .y_stride = kKeyTile,
                                          .next = as_read<Key>(next)};
                dot_products(of, num_queries(walk), count);
                return;
            }
            pack(keys, dim_, count, dim_, scratch_.keys());
            const PackedProduct of{.packed = scratch_.keys(),
                                   .outputs = count,
                                   .depth = dim_,
                                   .x = scratch_.queries(),
                                   .x_stride = dim_,
                                   .y = scores,
                                   .y_stride = kKeyTile};
            packed_product(of, num_queries(walk));
        });
    }

    void add_values(const AttentionWalk& walk, const Tile& tile) const {
        const int64_t head = shape_.pool.num_kv_heads + block_.kv_head;
        float* const sums = scratch_.sums() + int64_t{walk.first_row} * group_ * dim_;
        for_each_page(tile, head, [&](const auto* values, int64_t at, int64_t count, const P* next) {
            const auto add = [&]<typename Row>(const Row* rows) {
                tile_product(scratch_.scores() + at, kKeyTile, rows, dim_, num_queries(walk), dim_, count, true, sums,
                             dim_, few(walk) ? as_read<Row>(next) : nullptr);
            };
            if constexpr (std::is_same_v<P, BFloat16>) {
                if (num_queries(walk) > kFewRows) {  // widened once, and not for every few rows
                    convert(values, count * dim_, scratch_.widened());
                    return add(scratch_.widened());
                }
            }
            add(values);
        });
    }

    // Turns a tile's scores into weights.
    void weigh(const AttentionWalk& walk, const Tile& tile) const {
        for (int64_t i = 0; i < num_queries(walk); ++i) {
            const int64_t row = i / group_;
            const int64_t query = walk.first_row * group_ + i;
            float* scores = scratch_.scores() + i * kKeyTile;
            if (rule_.softcap > 0) {
                // Of whole tiles: how a score is rounded must not depend on how many are beside it.
                std::fill(scores + tile.count, scores + kKeyTile, 0.0F);
                softcap(scores, kKeyTile, rule_.softcap);
            }
            const int64_t first = first_visible(base(walk, row), position(walk, row), rule_.window);
            const int64_t end = end_visible(base(walk, row), walk.length, position(walk, row), rule_.causal);
            const int64_t from = std::clamp<int64_t>(first - tile.first, 0, tile.count);
            const int64_t to = std::clamp<int64_t>(end - tile.first, from, tile.count);
            std::fill_n(scores, from, 0.0F);
            softmax_tile(scores + from, to - from, tile.count - from, scratch_.highest() + query,
                         scratch_.totals() + query, scratch_.sums() + query * dim_, dim_);
        }
    }

    void attend(const AttentionWalk& walk) const {
        int64_t first = walk.end;
        int64_t end = 0;
        for (int32_t row = 0; row < walk.num_rows; ++row) {
            first = std::min(first, first_visible(base(walk, row), position(walk, row), rule_.window));
            end = std::max(end, end_visible(base(walk, row), walk.length, position(walk, row), rule_.causal));
        }
        // Tiles begin at multiples of their size, whatever rows the block has.
        first = std::max<int64_t>(first / kKeyTile * kKeyTile, walk.begin);
        end = std::min<int64_t>(end, walk.end);
        if (first >= end) return;
        load_queries(walk);
        for (; first < end; first += kKeyTile) {
            const Tile tile{step_.page_table.data() + walk.first_page, first, std::min<int64_t>(kKeyTile, end - first),
                            end};
            compute_scores(walk, tile);
            weigh(walk, tile);
            add_values(walk, tile);
        }
    }

    const AttentionShape& shape_;
    const AttentionStep& step_;
    const AttentionPlan& plan_;
    const AttentionRule& rule_;
    const AttentionTensors& tensors_;
    const AttentionBlock& block_;
    const Scratch& scratch_;
    const int64_t dim_;
    const int64_t group_;
    const int64_t num_queries_;
};

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
    AttentionPlan next = plan_attention(step, {.group = shape_.group(),
                                               .num_kv_heads = shape_.pool.num_kv_heads,
                                               .num_threads = scratch_threads_,
                                               .batch_invariant = shape_.batch_invariant});
    partials_.resize(static_cast<size_t>(next.num_partials * Partial::size(shape_)));
    plan_ = std::move(next);
    step_ = step;
}

void Attention::run(const AttentionRule& rule, const AttentionTensors& tensors, ThreadPool& pool) {
    const int64_t elements = Scratch::elements(shape_);
    const int64_t flops_of_query = 4 * int64_t{shape_.group()} * shape_.pool.head_dim;
    const auto attend = [&]<typename P>(P) {
        const int64_t cost = cost_of_flops(plan_.cost * flops_of_query);
        pool.run(static_cast<int64_t>(plan_.blocks.size()), cost, [&](int64_t i, int32_t thread) {
            const Scratch scratch(scratch_.data() + thread * elements, shape_);
            BlockAttention<P>(shape_, step_, plan_, rule, tensors, plan_.blocks[i], scratch).run(partials_.data());
        });
        pool.run(static_cast<int64_t>(plan_.merges.size()), cost_of_flops(plan_.num_partials * flops_of_query),
                 [&](int64_t i, int32_t thread) {
                     merge_parts(plan_.merges[i], tensors, scratch_.data() + thread * elements);
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

// `scratch` has room for a query's results.
void Attention::merge_parts(const AttentionMerge& merged, const AttentionTensors& tensors, float* scratch) const {
    const int64_t dim = shape_.pool.head_dim;
    const int64_t group = shape_.group();
    const int64_t num_queries = merged.num_rows * group;
    const int64_t size = Partial::size(shape_);
    const Partial result = Partial::at(scratch, dim);
    for (int64_t query = 0; query < num_queries; ++query) {
        merge(partials_.data() + (merged.first_partial + query) * size, merged.num_parts, num_queries * size, dim,
              result);
        write_output(shape_, tensors, result, plan_.rows[merged.first_row + query / group],
                     merged.kv_head * group + query % group);
    }
}

}  // namespace nanolith::cpu
