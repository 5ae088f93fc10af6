// Attention of a block of query rows over the segments of their sequence.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/kv_pool.h"
#include "backend/cpu/norm_rope.h"

namespace nanolith::cpu {

// What all blocks of one layer share. `queries` holds [rows][query_stride], un-rotated, heads first; `output` is
// [rows][num_heads * head_dim]. `turns` has every distance p - base of the batch.
template <typename T>
struct AttentionInput {
    const Batch* batch = nullptr;
    const LayerPool<T>* pool = nullptr;
    const RotationTable* turns = nullptr;
    const float* queries = nullptr;
    int64_t query_stride = 0;
    int32_t num_heads = 0;
    float scale = 0;
    float softcap = 0;   // scores become softcap * tanh(score / softcap); 0: they stay
    int32_t window = 0;  // a query at p sees positions above p - window; 0: all
    T* output = nullptr;
};

// Rows [first_row, first_row + num_rows) of the batch, all of `sequence`, and the query heads that share `kv_head`.
struct AttentionBlock {
    int32_t sequence = 0;
    int32_t first_row = 0;
    int32_t num_rows = 0;
    int32_t kv_head = 0;
    int64_t cost = 0;  // queries times keys in view
};

// Tiling of the key loop.
constexpr int32_t kKeyTile = 64;

// The first token of a segment that a query at `position` sees through a window (0: none), were it not for the
// segment's end.
int64_t first_visible(const Segment& segment, int32_t position, int32_t window);

// How many rows a block takes at most, for `group` query heads a KV head: about 64 queries.
int32_t block_rows(int32_t group);

// Float32 memory of one thread for blocks of up to block_rows(group) rows.
class AttentionScratch {
  public:
    static Result<AttentionScratch> create(int32_t group, int32_t head_dim);

    float* queries() { return memory_.data(); }                          // [queries][head_dim], rotated
    float* sums() { return queries() + num_queries_ * head_dim_; }       // [queries][head_dim]
    float* scores() { return sums() + num_queries_ * head_dim_; }        // [queries][kKeyTile]
    float* keys() { return scores() + num_queries_ * kKeyTile; }         // [head_dim][kKeyTile]
    float* highest() { return keys() + int64_t{kKeyTile} * head_dim_; }  // [queries]
    float* totals() { return highest() + num_queries_; }                 // [queries]
    static uint64_t elements(int32_t group, int32_t head_dim);

  private:
    Buffer<float> memory_;
    int64_t num_queries_ = 0;
    int64_t head_dim_ = 0;
};

// Every block of the batch, for `num_kv_heads` KV heads with `group` query heads each; the most expensive first.
void plan_attention(const Batch& batch, int32_t num_kv_heads, int32_t group, std::vector<AttentionBlock>& blocks);

void attend(const AttentionInput<float>& input, const AttentionBlock& block, AttentionScratch& scratch);
void attend(const AttentionInput<BFloat16>& input, const AttentionBlock& block, AttentionScratch& scratch);

}  // namespace nanolith::cpu
