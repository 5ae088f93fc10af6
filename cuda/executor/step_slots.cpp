#include "executor/step_slots.h"

namespace nanolith::cuda {

Result<StepSlots> StepSlots::create(int32_t max_output_rows) {
    StepSlots all;
    for (StepSlot& slot : all.slots_) {
        const size_t bytes = static_cast<size_t>(max_output_rows) * sizeof(int32_t);
        NL_ASSIGN(slot.sampled, allocate_pinned(bytes, "drawn tokens"));
        NL_ASSIGN(slot.surprises, allocate_pinned(bytes, "drawn tokens' surprises"));
        NL_ASSIGN(slot.done, create_event());
    }
    return all;
}

}  // namespace nanolith::cuda
