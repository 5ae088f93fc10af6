// Hopper's warpgroup matrix products (PTX "wgmma"; sm_90a): 4 warps multiply a 64 x 16 tile A with a 16 x N tile
// B and add to a 64 x N tile of float32 in registers, asynchronously.
//
// Warp w has rows 16 w ... 16 w + 15 of the accumulator, as a fragment (device/fragment.cuh). A from registers: a[2 k +
// h] of lane l, two values, is row 16 w + l / 4 + 8 h, columns 8 k + 2 (l % 4) + {0, 1}, as Fragment::round_slice gives
// it.
//
// Operands in shared memory are laid out as the copy engine's 128-byte swizzle writes them: rows of 64 16-bit values,
// the 16-byte column c of row r in column c ^ (r % 8), each 8 rows together (1 KiB, aligned).
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "device/fragment.cuh"

namespace nanolith::cuda {

// Descriptor of an operand at the shared address `at`: the next 8 rows are `eight_rows` bytes on. K-major: the 64
// values of a row are along K. N-major: they are along N, a row is one k, and the next 64 values of N are `block` bytes
// on.
__device__ inline uint64_t wgmma_operand(uint32_t at, uint32_t eight_rows, uint32_t block = 16) {
    constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
    return kSwizzle128 | (uint64_t{eight_rows >> 4} << 32) | (uint64_t{block >> 4} << 16) | ((at & 0x3ffffU) >> 4);
}

// Needed before the first product that uses registers which other instructions wrote (PTX "wgmma.fence").
__device__ inline void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
// Ends a group of products (PTX "wgmma.commit_group"); wgmma_wait<n> waits until at most n groups are not complete yet
// (PTX "wgmma.wait_group").
__device__ inline void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kPending>
__device__ inline void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Keeps the compiler from moving reads and writes of an accumulator across this point: it does not know that products
// in flight write them.
template <int kColumns>
__device__ inline void wgmma_hold(Fragment<kColumns>& d) {
    d.for_each([](float& value) { asm volatile("" : "+f"(value)::"memory"); });
}
// The same of an operand A in registers: it is computed before this point, and so before the fence.
__device__ inline void wgmma_hold(uint32_t (&a)[4]) {
#pragma unroll
    for (uint32_t& pair : a) asm volatile("" : "+r"(pair)::"memory");
}

// multiply: d = A B, multiply_add: d += A B, or d = A B where `adds` is given and false (PTX "wgmma.mma_async"). A
// comes from registers or, K-major, from shared memory; B comes from shared memory, K-major, or N-major where kNMajor
// says so.
template <typename T, int kN>
struct Wgmma;

#define NL_REGISTERS_0_7 "%0, %1, %2, %3, %4, %5, %6, %7"
#define NL_REGISTERS_0_15 NL_REGISTERS_0_7 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define NL_REGISTERS_0_31              \
    NL_REGISTERS_0_15                  \
    ", %16, %17, %18, %19, %20, %21, " \
    "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NL_REGISTERS_32_47 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define NL_REGISTERS_48_63 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define NL_REGISTERS_64_127                                                                             \
    ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, " \
    "%83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, " \
    "%102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, "  \
    "%118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define NL_WRITE(x) "=f"(x)
#define NL_UPDATE(x) "+f"(x)
#define NL_EACH_4(C, d, i) \
    C((d).octets[(i) / 4][0]), C((d).octets[(i) / 4][1]), C((d).octets[(i) / 4][2]), C((d).octets[(i) / 4][3])
#define NL_EACH_8(C, d) NL_EACH_4(C, d, 0), NL_EACH_4(C, d, 4)
#define NL_EACH_16(C, d, i) \
    NL_EACH_4(C, d, i), NL_EACH_4(C, d, (i) + 4), NL_EACH_4(C, d, (i) + 8), NL_EACH_4(C, d, (i) + 12)
#define NL_EACH_FIRST_16(C, d) NL_EACH_16(C, d, 0)
#define NL_EACH_32(C, d) NL_EACH_16(C, d, 0), NL_EACH_16(C, d, 16)
#define NL_EACH_48(C, d) NL_EACH_32(C, d), NL_EACH_16(C, d, 32)
#define NL_EACH_64(C, d) NL_EACH_48(C, d), NL_EACH_16(C, d, 48)
#define NL_EACH_128(C, d) \
    NL_EACH_64(C, d), NL_EACH_16(C, d, 64), NL_EACH_16(C, d, 80), NL_EACH_16(C, d, 96), NL_EACH_16(C, d, 112)

// I0 ... I6: the numbers of the operands that follow the accumulator's registers.
#define NL_DEFINE_WGMMA(T, TYPE, N, REGISTERS, EACH, I0, I1, I2, I3, I4, I5, I6)                                    \
    template <>                                                                                                     \
    struct Wgmma<T, N> {                                                                                            \
        static __device__ void multiply(Fragment<N>& d, uint64_t a, uint64_t b) {                                   \
            asm volatile(                                                                                           \
                "{\n.reg .pred p;\nsetp.ne.b32 p, 0, 0;\n"                                                          \
                "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" REGISTERS "}, %" #I0 ", %" #I1 \
                ", p, 1, 1, 0, 0;\n}"                                                                               \
                : EACH(NL_WRITE, d)                                                                                 \
                : "l"(a), "l"(b));                                                                                  \
        }                                                                                                           \
        static __device__ void multiply_add(Fragment<N>& d, uint64_t a, uint64_t b) {                               \
            asm volatile(                                                                                           \
                "{\n.reg .pred p;\nsetp.eq.b32 p, 0, 0;\n"                                                          \
                "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" REGISTERS "}, %" #I0 ", %" #I1 \
                ", p, 1, 1, 0, 0;\n}"                                                                               \
                : EACH(NL_UPDATE, d)                                                                                \
                : "l"(a), "l"(b));                                                                                  \
        }                                                                                                           \
        template <bool kNMajor>                                                                                     \
        static __device__ void multiply_add(Fragment<N>& d, const uint32_t (&a)[4], uint64_t b, bool adds) {        \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #I6                                                   \
                         ", 0;\n"                                                                                   \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" REGISTERS "}, {%" #I0 \
                         ", %" #I1 ", %" #I2 ", %" #I3 "}, %" #I4 ", p, 1, 1, %" #I5 ";\n}"                         \
                         : EACH(NL_UPDATE, d)                                                                       \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kNMajor ? 1 : 0),                \
                           "r"(static_cast<int>(adds)));                                                            \
        }                                                                                                           \
    };
#define NL_DEFINE_WGMMAS(T, TYPE)                                                                                      \
    NL_DEFINE_WGMMA(T, TYPE, 16, NL_REGISTERS_0_7, NL_EACH_8, 8, 9, 10, 11, 12, 13, 14)                                \
    NL_DEFINE_WGMMA(T, TYPE, 32, NL_REGISTERS_0_15, NL_EACH_FIRST_16, 16, 17, 18, 19, 20, 21, 22)                      \
    NL_DEFINE_WGMMA(T, TYPE, 64, NL_REGISTERS_0_31, NL_EACH_32, 32, 33, 34, 35, 36, 37, 38)                            \
    NL_DEFINE_WGMMA(T, TYPE, 96, NL_REGISTERS_0_31 NL_REGISTERS_32_47, NL_EACH_48, 48, 49, 50, 51, 52, 53, 54)         \
    NL_DEFINE_WGMMA(T, TYPE, 128, NL_REGISTERS_0_31 NL_REGISTERS_32_47 NL_REGISTERS_48_63, NL_EACH_64, 64, 65, 66, 67, \
                    68, 69, 70)                                                                                        \
    NL_DEFINE_WGMMA(T, TYPE, 256, NL_REGISTERS_0_31 NL_REGISTERS_32_47 NL_REGISTERS_48_63 NL_REGISTERS_64_127,         \
                    NL_EACH_128, 128, 129, 130, 131, 132, 133, 134)
NL_DEFINE_WGMMAS(__half, "f16")
NL_DEFINE_WGMMAS(__nv_bfloat16, "bf16")

#undef NL_DEFINE_WGMMAS
#undef NL_DEFINE_WGMMA
#undef NL_EACH_128
#undef NL_EACH_64
#undef NL_EACH_48
#undef NL_EACH_32
#undef NL_EACH_FIRST_16
#undef NL_EACH_16
#undef NL_EACH_8
#undef NL_EACH_4
#undef NL_UPDATE
#undef NL_WRITE
#undef NL_REGISTERS_64_127
#undef NL_REGISTERS_48_63
#undef NL_REGISTERS_32_47
#undef NL_REGISTERS_0_31
#undef NL_REGISTERS_0_15
#undef NL_REGISTERS_0_7

}  // namespace nanolith::cuda
