#include "runtime/ceiling.h"

#include "runtime/check.h"

namespace nanolith::cuda {

namespace {

// Floating-point operations a clock and multiprocessor of dense 16-bit products that add up in float32: NVIDIA's
// whitepapers on the A100 (312 TFLOP/s with 108 multiprocessors at 1.41 GHz) and the H100 (989.4 TFLOP/s with 132 at
// 1.83 GHz). 0: not known.
double flops_per_clock(int major, int minor) {
    if (major == 8 && minor == 0) return 2048;
    if (major == 9) return 4096;
    return 0;
}

}  // namespace

Result<Ceiling> device_ceiling(int device, DType dtype) {
    const auto ask = [&](cudaDeviceAttr attribute) -> Result<double> {
        int value = 0;
        NL_CUDA_TRY(cudaDeviceGetAttribute(&value, attribute, device));
        return static_cast<double>(value);
    };
    NL_ASSIGN(const double memory_kilohertz, ask(cudaDevAttrMemoryClockRate));
    NL_ASSIGN(const double bus_bits, ask(cudaDevAttrGlobalMemoryBusWidth));
    NL_ASSIGN(const double kilohertz, ask(cudaDevAttrClockRate));
    NL_ASSIGN(const double multiprocessors, ask(cudaDevAttrMultiProcessorCount));
    NL_ASSIGN(const double major, ask(cudaDevAttrComputeCapabilityMajor));
    NL_ASSIGN(const double minor, ask(cudaDevAttrComputeCapabilityMinor));
    Ceiling ceiling;
    ceiling.bytes_per_second = 2 * memory_kilohertz * 1e3 * bus_bits / 8;  // two transfers a clock
    if (dtype != DType::f32) {
        ceiling.flops_per_second =
            flops_per_clock(static_cast<int>(major), static_cast<int>(minor)) * multiprocessors * kilohertz * 1e3;
    }
    return ceiling;
}

}  // namespace nanolith::cuda
