// Launches that begin before the previous launch of their stream has ended (CUDA Programming Guide, "Programmatic
// Dependent Launch"; sm_90). LaunchShape::early asks for it.
#pragma once

#include "device/mbarrier.cuh"

namespace nanolith::cuda {

// Waits until the launches before this one have ended and what they wrote can be read (PTX "griddepcontrol.wait").
// Returns at once unless this launch is an early one.
__device__ inline void wait_for_launches_before() {
#ifdef NL_HOPPER
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// From here on the next launch, if it is an early one, may begin on multiprocessors that are free (PTX
// "griddepcontrol.launch_dependents").
__device__ inline void let_next_launch_begin() {
#ifdef NL_HOPPER
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace nanolith::cuda
