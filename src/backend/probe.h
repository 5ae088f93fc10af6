// What a probe (batch.h) is about: the layers whose attention it adds up, and how many pages it gives a number for.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/batch.h"
#include "backend/model_spec.h"
#include "backend/page_size.h"

namespace nanolith {

// Whether a probe adds up the attention of the layer. A layer with a window does not tell what a row needs of the pages
// in front of it, and the last layer's attention is left out of steps that draw nothing (forward.h).
inline bool is_probed(const ModelSpec& spec, int32_t layer) {
    return layer + 1 < spec.num_layers && spec.layers[layer].window == 0;
}

inline bool has_probed_layers(const ModelSpec& spec) {
    for (int32_t layer = 0; layer < spec.num_layers; ++layer)
        if (is_probed(spec, layer)) return true;
    return false;
}

inline size_t pages_of(const Batch& batch, const Sequence& sequence, int32_t page_size) {
    size_t pages = 0;
    for (int32_t i = 0; i < sequence.num_segments; ++i)
        pages += static_cast<size_t>(pages_for(batch.segments[sequence.first_segment + i].length, page_size));
    return pages;
}

// Of all probes of the batch.
inline size_t probed_pages(const Batch& batch, int32_t page_size) {
    size_t pages = 0;
    for (const Probe& probe : batch.probes) pages += pages_of(batch, batch.sequences[probe.sequence], page_size);
    return pages;
}

}  // namespace nanolith
