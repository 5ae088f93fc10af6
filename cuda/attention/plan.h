// Cuts the attention of a batch into items of work, split along the KV length so that every multiprocessor gets
// some whatever the batch (Dao et al., "Flash-Decoding", 2023).
#pragma once

#include <vector>

#include "attention/items.h"

namespace nanolith::cuda {

struct AttentionPlan {
    int tile_vectors = 0;  // query vectors of a full item: 4, 8 or 16
    std::vector<AttentionItem> items;
    std::vector<MergeItem> merges;  // of the query vectors that several items share
    int num_slots = 0;              // partial results, each [num_kv_heads, tile_vectors, head_dim]
};

// `target_blocks`: blocks over all items and KV heads that fill the GPU. The batch must have passed check_batch.
// `plan` is overwritten, its memory is kept.
void plan_attention(const Batch& batch, int group, int num_kv_heads, int target_blocks, AttentionPlan& plan);

// No plan needs more slots.
int max_attention_slots(int num_kv_heads, int target_blocks);

}  // namespace nanolith::cuda
