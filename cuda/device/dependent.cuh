// Launches that begin before the one in front of them has ended (CUDA Programming Guide, "Programmatic Dependent
// Launch"; sm_90). LaunchShape::early asks for it.
#pragma once

#include "device/mbarrier.cuh"

namespace nanolith::cuda {

// Waits until the launches in front of this one have ended and what they wrote can be read. Nothing to wait for unless
// this launch is an early one.
__device__ inline void wait_for_launches_before() {
#ifdef NL_HOPPER
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// From here on the launch behind this one, if it is an early one, may take multiprocessors that are free.
__device__ inline void let_next_launch_begin() {
#ifdef NL_HOPPER
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace nanolith::cuda
