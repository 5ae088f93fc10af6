// Tiling: a block is up to 64 queries (rows times the query heads of one KV head) that walk their segments' keys in
// tiles of 64. Per tile: the keys are read once from their pages; scores = queries x keys, online softmax, sums +=
// weights x values. Flops: 4 * head_dim a query and visible key. Bytes: K and V once a block, so prefill is bound by
// the multiply-add units and decode (a few queries) by memory. Scores, softmax and sums are float32 whatever the pool
// is.
#include "backend/cpu/attention.h"

#include <algorithm>
#include <limits>

#include "backend/cpu/attention_tile.h"

namespace nanolith::cpu {
namespace {

constexpr int32_t kBlockQueries = 64;
constexpr int32_t kFewQueries = 8;  // up to here, dot products with the keys as they lie beat transposing them

int64_t visible_tokens(const Segment& segment, int32_t position) {
    return std::min<int64_t>(segment.length, int64_t{position} - segment.base + 1);
}

// The tile of tokens [first, first + count) of a segment.
struct KeyTile {
    const int32_t* pages;
    int64_t first;
    int64_t count;
};

// Calls visit(page, offset in page, offset in tile, count) for each page's part of the tile.
template <typename Visit>
void for_each_page(const KeyTile& tile, int32_t page_size, const Visit& visit) {
    for (int64_t done = 0; done < tile.count;) {
        const int64_t token = tile.first + done;
        const int64_t offset = token % page_size;
        const int64_t count = std::min<int64_t>(page_size - offset, tile.count - done);
        visit(tile.pages[token / page_size], offset, done, count);
        done += count;
    }
}

template <typename T>
void compute_scores(const LayerPool<T>& pool, const KeyTile& tile, int32_t kv_head, int64_t num_queries,
                    AttentionScratch& scratch) {
    const int64_t dim = pool.shape.head_dim;
    const bool few = num_queries <= kFewQueries;
    for_each_page(tile, pool.shape.page_size, [&](int64_t page, int64_t offset, int64_t at, int64_t count) {
        const T* keys = pool.keys(page, kv_head) + offset * dim;
        if (few) {
            dot_scores(scratch.queries(), num_queries, keys, count, dim, scratch.scores() + at, kKeyTile);
            return;
        }
        for (int64_t i = 0; i < dim; ++i) {
            float* to = scratch.keys() + i * kKeyTile + at;
            for (int64_t t = 0; t < count; ++t) to[t] = to_float(keys[t * dim + i]);
        }
    });
    if (few) return;
    tile_product(scratch.queries(), dim, scratch.keys(), kKeyTile, num_queries, tile.count, dim, false,
                 scratch.scores(), kKeyTile);
}

template <typename T>
void add_values(const LayerPool<T>& pool, const KeyTile& tile, int32_t kv_head, int64_t num_queries,
                AttentionScratch& scratch) {
    const int64_t dim = pool.shape.head_dim;
    for_each_page(tile, pool.shape.page_size, [&](int64_t page, int64_t offset, int64_t at, int64_t count) {
        const T* values = pool.values(page, kv_head) + offset * dim;
        tile_product(scratch.scores() + at, kKeyTile, values, dim, num_queries, dim, count, true, scratch.sums(), dim);
    });
}

template <typename T>
void attend_segment(const AttentionInput<T>& input, const AttentionBlock& block, const Segment& segment,
                    AttentionScratch& scratch) {
    const Batch& batch = *input.batch;
    const LayerPool<T>& pool = *input.pool;
    const int64_t dim = pool.shape.head_dim;
    const int32_t group = input.num_heads / pool.shape.num_kv_heads;
    const int64_t num_queries = int64_t{block.num_rows} * group;
    const int32_t* positions = batch.positions.data() + block.first_row;
    // The first row sees the first of the block's tokens, the last row the last.
    const int64_t begin = first_visible(segment, positions[0], input.window);
    const int64_t end = visible_tokens(segment, positions[block.num_rows - 1]);
    if (begin >= end) return;

    for (int32_t row = 0; row < block.num_rows; ++row) {
        // A row before the segment's beginning sees none of it; any turn will do.
        const float* turn = input.turns->row(std::max(positions[row] - segment.base, 0));
        const float* from =
            input.queries + int64_t{block.first_row + row} * input.query_stride + block.kv_head * group * dim;
        for (int32_t head = 0; head < group; ++head)
            rotate(from + head * dim, turn, dim, input.scale, scratch.queries() + (int64_t{row} * group + head) * dim);
    }
    for (int64_t first = begin; first < end; first += kKeyTile) {
        const KeyTile tile{batch.page_table.data() + segment.first_page, first,
                           std::min<int64_t>(kKeyTile, end - first)};
        compute_scores(pool, tile, block.kv_head, num_queries, scratch);
        for (int64_t query = 0; query < num_queries; ++query) {
            const int32_t position = positions[query / group];
            float* scores = scratch.scores() + query * kKeyTile;
            if (input.softcap > 0) softcap(scores, tile.count, input.softcap);
            const int64_t from =
                std::clamp<int64_t>(first_visible(segment, position, input.window) - first, 0, tile.count);
            const int64_t to = std::clamp<int64_t>(visible_tokens(segment, position) - first, from, tile.count);
            std::fill_n(scores, from, 0.0F);
            softmax_tile(scores + from, to - from, tile.count - from, scratch.highest() + query,
                         scratch.totals() + query, scratch.sums() + query * dim, dim);
        }
        add_values(pool, tile, block.kv_head, num_queries, scratch);
    }
}

template <typename T>
void attend_block(const AttentionInput<T>& input, const AttentionBlock& block, AttentionScratch& scratch) {
    const int64_t dim = input.pool->shape.head_dim;
    const int32_t group = input.num_heads / input.pool->shape.num_kv_heads;
    const int64_t num_queries = int64_t{block.num_rows} * group;
    std::fill_n(scratch.sums(), num_queries * dim, 0.0F);
    std::fill_n(scratch.highest(), num_queries, -std::numeric_limits<float>::infinity());
    std::fill_n(scratch.totals(), num_queries, 0.0F);

    const Sequence& sequence = input.batch->sequences[static_cast<size_t>(block.sequence)];
    for (int32_t i = 0; i < sequence.num_segments; ++i)
        attend_segment(input, block, input.batch->segments[static_cast<size_t>(sequence.first_segment + i)], scratch);

    for (int64_t query = 0; query < num_queries; ++query) {
        const float total = scratch.totals()[query];
        T* to = input.output +
                ((block.first_row + query / group) * input.num_heads + block.kv_head * group + query % group) * dim;
        scale_row(scratch.sums() + query * dim, total == 0 ? 0.0F : 1.0F / total, dim, to);
    }
}

int64_t block_cost(const Batch& batch, const AttentionBlock& block) {
    const Sequence& sequence = batch.sequences[static_cast<size_t>(block.sequence)];
    const int32_t position = batch.positions[static_cast<size_t>(block.first_row + block.num_rows - 1)];
    int64_t keys = 0;
    for (int32_t i = 0; i < sequence.num_segments; ++i)
        keys += std::max<int64_t>(
            visible_tokens(batch.segments[static_cast<size_t>(sequence.first_segment + i)], position), 0);
    return keys * block.num_rows;
}

}  // namespace

int64_t first_visible(const Segment& segment, int32_t position, int32_t window) {
    return window == 0 ? 0 : std::max<int64_t>(int64_t{position} - segment.base + 1 - window, 0);
}

int32_t block_rows(int32_t group) {
    return std::max(1, kBlockQueries / group);
}

uint64_t AttentionScratch::elements(int32_t group, int32_t head_dim) {
    const int64_t queries = int64_t{block_rows(group)} * group;
    return static_cast<uint64_t>(queries * (2 * int64_t{head_dim} + kKeyTile + 2) + int64_t{kKeyTile} * head_dim);
}

Result<AttentionScratch> AttentionScratch::create(int32_t group, int32_t head_dim) {
    AttentionScratch scratch;
    NL_ASSIGN(scratch.memory_,
              Buffer<float>::allocate("attention scratch", {static_cast<int64_t>(elements(group, head_dim))}));
    scratch.num_queries_ = int64_t{block_rows(group)} * group;
    scratch.head_dim_ = head_dim;
    return scratch;
}

void plan_attention(const Batch& batch, int32_t num_kv_heads, int32_t group, std::vector<AttentionBlock>& blocks) {
    blocks.clear();
    const int32_t step = block_rows(group);
    for (size_t i = 0; i < batch.sequences.size(); ++i) {
        const Sequence& sequence = batch.sequences[i];
        for (int32_t row = 0; row < sequence.num_rows; row += step) {
            AttentionBlock block{static_cast<int32_t>(i), sequence.first_row + row,
                                 std::min(step, sequence.num_rows - row)};
            block.cost = block_cost(batch, block);
            for (block.kv_head = 0; block.kv_head < num_kv_heads; ++block.kv_head) blocks.push_back(block);
        }
    }
    std::stable_sort(blocks.begin(), blocks.end(),
                     [](const AttentionBlock& a, const AttentionBlock& b) { return a.cost > b.cost; });
}

void attend(const AttentionInput<float>& input, const AttentionBlock& block, AttentionScratch& scratch) {
    attend_block(input, block, scratch);
}

void attend(const AttentionInput<BFloat16>& input, const AttentionBlock& block, AttentionScratch& scratch) {
    attend_block(input, block, scratch);
}

}  // namespace nanolith::cpu
