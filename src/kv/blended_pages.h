// The pages of a chunk as blended composition uses them: some are the conversation's own, with tokens that are
// recomputed with the whole context in view beside copies of tokens that are not.
#pragma once

#include <vector>

#include "kv/page_pool.h"
#include "store/blend_unit.h"

namespace nanolith {

struct BlendedPages {
    PageList pages;
    std::vector<bool> recomputed;  // [units_for(the chunk's tokens)]
};

}  // namespace nanolith
