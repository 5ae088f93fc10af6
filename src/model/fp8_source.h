// Matrices of 8-bit floats (e4m3) as compact weights.
#pragma once

#include "backend/compact_weight.h"
#include "backend/weight_view.h"

namespace nanolith {

// What reads the weight compact: a view of dtype f8_e4m3 with its scales and a source. Null where no compact form has
// exactly these scales: such a weight is read wide alone. It needs no state and lives as long as the program.
const CompactSource* fp8_source(const WeightView& weight);

}  // namespace nanolith
