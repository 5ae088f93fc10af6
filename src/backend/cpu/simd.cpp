#include "backend/cpu/simd.h"

#include <dnnl.h>

namespace nanolith::cpu {
namespace {

// oneDNN's names of instruction sets are sets of bits, one within the other.
bool allows(dnnl_cpu_isa_t isa) {
    static const dnnl_cpu_isa_t all = dnnl_get_effective_cpu_isa();
    return (all & isa) == isa;
}

SimdLevel find_level() {
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    const bool v3 = allows(dnnl_cpu_isa_avx2) && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi2");
    const bool v4 = v3 && allows(dnnl_cpu_isa_avx512_core) && __builtin_cpu_supports("avx512f") &&
                    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return v4 ? SimdLevel::v4 : v3 ? SimdLevel::v3 : SimdLevel::any;
#else
    return SimdLevel::any;
#endif
}

}  // namespace

SimdLevel simd_level() {
    static const SimdLevel level = find_level();
    return level;
}

bool has_byte_products() {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
    static const bool has =
        simd_level() == SimdLevel::v4 && allows(dnnl_cpu_isa_avx512_core_vnni) && __builtin_cpu_supports("avx512vnni");
    return has;
#else
    return false;
#endif
}

bool has_bfloat16_products() {
#if defined(__x86_64__) && defined(__GNUC__)
    return allows(dnnl_cpu_isa_avx512_core_bf16);
#else
    return false;
#endif
}

bool has_amx() {
#if defined(__x86_64__) && defined(__GNUC__)
    return allows(dnnl_cpu_isa_avx512_core_amx);
#else
    return false;
#endif
}

}  // namespace nanolith::cpu
