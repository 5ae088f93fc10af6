// How many registers each thread of a warpgroup has (PTX ISA, "setmaxnreg"; sm_90a). Built for other devices, threads
// keep what they began with.
#pragma once

namespace nanolith::cuda {

template <int kRegisters>
__device__ void take_registers() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}

template <int kRegisters>
__device__ void give_registers() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}

}  // namespace nanolith::cuda
