// Tiling: a block is up to 64 queries (rows times the query heads of one KV head) that walk their segments' keys in
// tiles of 64. Per tile keys and values are read once from their pages and widened to float32: scores = queries x
// keys, online softmax, sums += weights x values. Flops: 4 * head_dim a query and visible key. Bytes: K and V once a
// block, so prefill is bound by the multiply-add units and decode (a few queries) by memory and the widening.
#include "backend/cpu/paged_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "backend/cpu/attention_tile.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/rows.h"

namespace nanolith::cpu {
namespace {

constexpr int32_t kFewQueries = 8;  // up to here, dot products with the keys as they lie beat transposing them
constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

struct CpuPagedAttention::Tensors {
    ConstHeadRows q;
    Pages<const void> pages;
    MutableHeadRows out;
    float* lse;
};

// Float32 memory of one thread.
class CpuPagedAttention::Scratch {
  public:
    Scratch(float* memory, int32_t group, int32_t head_dim)
        : memory_(memory), num_queries_(int64_t{block_rows(group)} * group), head_dim_(head_dim) {}

    static int64_t elements(int32_t group, int32_t head_dim) {
        const int64_t queries = int64_t{block_rows(group)} * group;
        return queries * (2 * int64_t{head_dim} + kKeyTile + 2) + 2 * int64_t{kKeyTile} * head_dim + head_dim;
    }
    [[nodiscard]] float* queries() const { return memory_; }                             // [queries][head_dim]
    [[nodiscard]] float* sums() const { return queries() + num_queries_ * head_dim_; }   // [queries][head_dim]
    [[nodiscard]] float* scores() const { return sums() + num_queries_ * head_dim_; }    // [queries][kKeyTile]
    [[nodiscard]] float* highest() const { return scores() + num_queries_ * kKeyTile; }  // [queries]
    [[nodiscard]] float* totals() const { return highest() + num_queries_; }             // [queries]
    [[nodiscard]] float* tokens() const { return totals() + num_queries_; }              // [kKeyTile][head_dim]
    [[nodiscard]] float* transposed() const {
        return tokens() + int64_t{kKeyTile} * head_dim_;
    }                                                                                           // [head_dim][kKeyTile]
    [[nodiscard]] float* turn() const { return transposed() + int64_t{kKeyTile} * head_dim_; }  // [head_dim]

  private:
    float* memory_;
    int64_t num_queries_;
    int64_t head_dim_;
};

CpuPagedAttention::CpuPagedAttention(const AttentionSpec& spec, const int32_t& num_threads)
    : spec_(spec), shape_{0, spec.num_kv_heads, spec.page_size, spec.head_dim}, num_threads_(num_threads) {}

Result<std::unique_ptr<PagedAttention>> CpuPagedAttention::create(const AttentionSpec& spec, const PlanCapacity&,
                                                                  const int32_t& num_threads) {
    std::unique_ptr<CpuPagedAttention> attention(new CpuPagedAttention(spec, num_threads));
    NL_TRY(attention->grow_scratch());
    return std::unique_ptr<PagedAttention>(std::move(attention));
}

Result<void> CpuPagedAttention::grow_scratch() {
    if (num_threads_ <= scratch_threads_) return {};
    NL_ASSIGN(scratch_,
              Buffer<float>::allocate("attention scratch", {num_threads_, Scratch::elements(group(), spec_.head_dim)}));
    scratch_threads_ = num_threads_;
    return {};
}

Result<void> CpuPagedAttention::set(const AttentionStep& step) {
    next_page_table_.assign(step.page_table.begin(), step.page_table.end());
    next_.page_table = next_page_table_;
    next_.segments.assign(step.segments.begin(), step.segments.end());
    next_.sequences.assign(step.sequences.begin(), step.sequences.end());
    next_.positions.assign(step.positions.begin(), step.positions.end());
    plan_attention(next_, spec_.num_kv_heads, group(), next_blocks_);
    std::swap(batch_, next_);
    std::swap(page_table_, next_page_table_);
    std::swap(blocks_, next_blocks_);
    return {};
}

Result<void> CpuPagedAttention::set_slots(std::span<const int32_t> slots, std::span<const int32_t> key_positions) {
    std::vector<int32_t> new_slots(slots.begin(), slots.end());
    key_positions_.assign(key_positions.begin(), key_positions.end());
    slots_ = std::move(new_slots);
    return {};
}

// ---- Append ---------------------------------------------------------------------------------------------

void CpuPagedAttention::append_row(int64_t row, const ConstHeadRows& k, const ConstHeadRows& v,
                                   const Pages<void>& pages, float* scratch) const {
    const int32_t slot = slots_[static_cast<size_t>(row)];
    if (slot == kNoSlot) return;
    const int64_t dim = spec_.head_dim;
    const int64_t page = slot / spec_.page_size;
    const int64_t at = slot % spec_.page_size * dim;
    float* const values = scratch;
    float* const turn = scratch + dim;
    const bool turned = !key_positions_.empty();
    if (turned) make_turn(spec_.rope_frequencies.data(), dim, key_positions_[static_cast<size_t>(row)], turn);
    for (int64_t head = 0; head < spec_.num_kv_heads; ++head) {
        load_head(spec_.dtype, k, row, head, dim, values);
        if (turned) {
            rotate(values, turn, dim, 1.0F / pages.k_scale, values);
        } else if (pages.k_scale != 1) {
            scale_row(values, 1.0F / pages.k_scale, dim, values);
        }
        store_row(spec_.kv_dtype, values, dim, element(spec_.kv_dtype, pages.data, shape_.key_tile(page, head) + at));
        load_head(spec_.dtype, v, row, head, dim, values);
        if (pages.v_scale != 1) scale_row(values, 1.0F / pages.v_scale, dim, values);
        store_row(spec_.kv_dtype, values, dim, element(spec_.kv_dtype, pages.data, shape_.value_tile(page, head) + at));
    }
}

Result<void> CpuPagedAttention::append(const ConstHeadRows& k, const ConstHeadRows& v, const Pages<void>& pages) {
    NL_TRY(grow_scratch());
    const int64_t elements = Scratch::elements(group(), spec_.head_dim);
    parallel_for(num_threads_, static_cast<int64_t>(slots_.size()),
                 [&](int64_t row, int thread) { append_row(row, k, v, pages, scratch_.data() + thread * elements); });
    return {};
}

// ---- Run ------------------------------------------------------------------------------------------------

int64_t CpuPagedAttention::end_visible(const Segment& segment, int32_t position) const {
    if (!spec_.causal) return segment.length;
    return std::clamp<int64_t>(int64_t{position} - segment.base + 1, 0, segment.length);
}

// Tokens [first, first + count) of a segment as rows of `to`, keys or values as `tile_head` says.
void CpuPagedAttention::load_tokens(const Pages<const void>& pages, const Segment& segment, int64_t first,
                                    int64_t count, int32_t tile_head, float* to) const {
    const int64_t dim = spec_.head_dim;
    for (int64_t done = 0; done < count;) {
        const int64_t token = first + done;
        const int64_t offset = token % spec_.page_size;
        const int64_t part = std::min<int64_t>(spec_.page_size - offset, count - done);
        const int64_t page = batch_.page_table[static_cast<size_t>(segment.first_page + token / spec_.page_size)];
        load_row(spec_.kv_dtype, element(spec_.kv_dtype, pages.data, shape_.key_tile(page, tile_head) + offset * dim),
                 part * dim, to + done * dim);
        done += part;
    }
}

// The block's queries, times the scale, rotated for the segment.
void CpuPagedAttention::load_queries(const Tensors& tensors, const AttentionBlock& block, const Segment& segment,
                                     Scratch& scratch) const {
    const int64_t dim = spec_.head_dim;
    const float scale = spec_.scale * tensors.pages.k_scale;
    const bool turned = !spec_.rope_frequencies.empty();
    for (int32_t row = 0; row < block.num_rows; ++row) {
        const int32_t position = batch_.positions[static_cast<size_t>(block.first_row + row)];
        if (turned) make_turn(spec_.rope_frequencies.data(), dim, position - segment.base, scratch.turn());
        for (int32_t head = 0; head < group(); ++head) {
            float* query = scratch.queries() + (int64_t{row} * group() + head) * dim;
            load_head(spec_.dtype, tensors.q, block.first_row + row, int64_t{block.kv_head} * group() + head, dim,
                      query);
            if (turned) {
                rotate(query, scratch.turn(), dim, scale, query);
            } else {
                scale_row(query, scale, dim, query);
            }
        }
    }
}

// Scores of all queries with the `count` keys in scratch.tokens().
void CpuPagedAttention::compute_scores(int64_t num_queries, int64_t count, Scratch& scratch) const {
    const int64_t dim = spec_.head_dim;
    if (num_queries <= kFewQueries) {
        dot_scores(scratch.queries(), num_queries, scratch.tokens(), count, dim, scratch.scores(), kKeyTile);
    } else {
        for (int64_t t = 0; t < count; ++t) {
            for (int64_t i = 0; i < dim; ++i) scratch.transposed()[i * kKeyTile + t] = scratch.tokens()[t * dim + i];
        }
        tile_product(scratch.queries(), dim, scratch.transposed(), kKeyTile, num_queries, count, dim, false,
                     scratch.scores(), kKeyTile);
    }
    if (spec_.softcap == 0) return;
    for (int64_t query = 0; query < num_queries; ++query) {
        softcap(scratch.scores() + query * kKeyTile, count, spec_.softcap);
    }
}

void CpuPagedAttention::attend_segment(const Tensors& tensors, const AttentionBlock& block, const Segment& segment,
                                       Scratch& scratch) const {
    const int64_t dim = spec_.head_dim;
    const int64_t num_queries = int64_t{block.num_rows} * group();
    const int32_t* positions = batch_.positions.data() + block.first_row;
    // The first row sees the first of the block's tokens, the last row the last.
    const int64_t begin = first_visible(segment, positions[0], spec_.window);
    const int64_t end = end_visible(segment, positions[block.num_rows - 1]);
    if (begin >= end) return;
    load_queries(tensors, block, segment, scratch);
    for (int64_t first = begin; first < end; first += kKeyTile) {
        const int64_t count = std::min<int64_t>(kKeyTile, end - first);
        load_tokens(tensors.pages, segment, first, count, block.kv_head, scratch.tokens());
        compute_scores(num_queries, count, scratch);
        for (int64_t query = 0; query < num_queries; ++query) {
            const int32_t position = positions[query / group()];
            const int64_t from = std::clamp<int64_t>(first_visible(segment, position, spec_.window) - first, 0, count);
            const int64_t to = std::clamp<int64_t>(end_visible(segment, position) - first, from, count);
            float* scores = scratch.scores() + query * kKeyTile;
            std::fill_n(scores, from, 0.0F);
            softmax_tile(scores + from, to - from, count - from, scratch.highest() + query, scratch.totals() + query,
                         scratch.sums() + query * dim, dim);
        }
        load_tokens(tensors.pages, segment, first, count, spec_.num_kv_heads + block.kv_head, scratch.tokens());
        tile_product(scratch.scores(), kKeyTile, scratch.tokens(), dim, num_queries, dim, count, true, scratch.sums(),
                     dim);
    }
}

void CpuPagedAttention::attend(const Tensors& tensors, const AttentionBlock& block, Scratch& scratch) const {
    const int64_t dim = spec_.head_dim;
    const int64_t num_queries = int64_t{block.num_rows} * group();
    std::fill_n(scratch.sums(), num_queries * dim, 0.0F);
    std::fill_n(scratch.highest(), num_queries, -kInfinity);
    std::fill_n(scratch.totals(), num_queries, 0.0F);

    const Sequence& sequence = batch_.sequences[static_cast<size_t>(block.sequence)];
    for (int32_t i = 0; i < sequence.num_segments; ++i)
        attend_segment(tensors, block, batch_.segments[static_cast<size_t>(sequence.first_segment + i)], scratch);

    for (int64_t query = 0; query < num_queries; ++query) {
        const int64_t row = block.first_row + query / group();
        const int64_t head = int64_t{block.kv_head} * group() + query % group();
        const float total = scratch.totals()[query];
        float* sums = scratch.sums() + query * dim;
        scale_row(sums, total == 0 ? 0.0F : tensors.pages.v_scale / total, dim, sums);
        store_head(spec_.dtype, sums, dim, tensors.out, row, head);
        if (tensors.lse != nullptr)
            tensors.lse[row * spec_.num_heads + head] =
                total == 0 ? -kInfinity : scratch.highest()[query] + std::log(total);
    }
}

Result<void> CpuPagedAttention::run(const ConstHeadRows& q, const Pages<const void>& pages, const MutableHeadRows& out,
                                    float* lse) {
    NL_TRY(grow_scratch());
    const Tensors tensors{q, pages, out, lse};
    const int64_t elements = Scratch::elements(group(), spec_.head_dim);
    parallel_for_dynamic(num_threads_, static_cast<int64_t>(blocks_.size()), [&](int64_t i, int thread) {
        Scratch scratch(scratch_.data() + thread * elements, group(), spec_.head_dim);
        attend(tensors, blocks_[static_cast<size_t>(i)], scratch);
    });
    return {};
}

}  // namespace nanolith::cpu
