// What it costs to compute a chunk again, for the order of eviction.
#pragma once

#include "backend/model_spec.h"
#include "kv/chunk_store.h"

namespace nanolith {

// Of one page of the chunk, on average, in units of a full page that attends to nothing: products of all layers, and
// attention over the tokens that a token of the chunk sees, those before the chunk included. So a page of a chunk that
// comes after long documents is worth more than one that stands alone, and one of a chunk that fills its last page
// little is worth less.
double recompute_cost(const ModelSpec& spec, const ChunkIdentity& identity, int32_t page_size);

}  // namespace nanolith
