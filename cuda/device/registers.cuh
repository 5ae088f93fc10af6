// How many registers each thread of a warpgroup has (PTX "setmaxnreg"; sm_90a). Built for other devices, threads keep
// as many as the launch gave them.
#pragma once

namespace nanolith::cuda {

// To kRegisters each, from fewer: waits until other warpgroups of the block have released as many.
template <int kRegisters>
__device__ void increase_registers() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}

// To kRegisters each, from more.
template <int kRegisters>
__device__ void decrease_registers() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}

}  // namespace nanolith::cuda
