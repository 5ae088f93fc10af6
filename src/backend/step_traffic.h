// What each phase of a step must move through memory and compute, as numbers: what a device's time is held against.
#pragma once

#include "backend/batch.h"
#include "backend/executor.h"
#include "backend/model_spec.h"
#include "backend/phase.h"
#include "backend/weight_form.h"

namespace nanolith {

struct Traffic {
    double read = 0;     // bytes
    double written = 0;  // bytes
    double flops = 0;    // a multiplication and its addition are two

    [[nodiscard]] double bytes() const { return read + written; }
    Traffic& operator+=(const Traffic& other) {
        read += other.read;
        written += other.written;
        flops += other.flops;
        return *this;
    }
};

using StepTraffic = ByPhase<Traffic>;

// The least that a device can do for this step: each matrix is read once a step as it is kept, keys and values of a
// token once a layer however many sequences share its pages, activations once by the phase that takes them, and what
// phases pass to each other is written once. Left out, being under a hundredth: embeddings, norms' weights, biases, and
// indices. Of a mixture of experts as many are counted as rows choose on average when they choose evenly. The flops
// are those of the matrix products, and of attention's two products, queries with keys and scores with values, over the
// tokens that each row sees.
StepTraffic step_traffic(const ModelSpec& spec, const MatrixBytes& matrices, const ExecutorOptions& options,
                         const Batch& batch);

// Of all phases.
Traffic total(const StepTraffic& traffic);

}  // namespace nanolith
