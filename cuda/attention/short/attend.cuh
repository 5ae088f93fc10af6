// The short kernel's products: scores and weights of a block's tiles, the outputs over them, and the merging of the
// outputs of a cluster's blocks.
#pragma once

#include "attention/common/online_softmax.cuh"
#include "attention/common/scores.cuh"
#include "attention/short/shared.cuh"
#include "device/fragment.cuh"
#include "device/mma.cuh"
#include "device/pair.cuh"

namespace nanolith::cuda::short_attention {

// A warp's unit is a tile with 16 vectors: its weights 2^(score - reference), with the highest score of the unit as the
// reference of each vector.
template <typename T, int kDim>
__device__ __forceinline__ void weigh_unit(const Block<T, kDim>& block, const AttentionRule& rule, int tile,
                                           int vector_tile) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const ShortTile& is = block.tiles[tile];
    const std::byte* const queries =
        reinterpret_cast<const std::byte*>(block.query(is.rotation, vector_tile * 16 + lane % 16)) + lane / 16 * 16;
    const std::byte* const keys =
        reinterpret_cast<const std::byte*>(block.key(tile * kShortTokens + lane % 8 + lane / 16 * 8)) +
        lane / 8 % 2 * 16;
    // Two sums for each score, so that fewer products wait for the previous one.
    Fragment<kShortTokens> scores{};
    Fragment<kShortTokens> odd{};
#pragma unroll
    for (int step = 0; step < kDim / 16; ++step) {
        uint32_t a[4];
        uint32_t b[4];
        load_matrices(a, queries + step * 32);
        load_matrices(b, keys + step * 32);
        Fragment<kShortTokens>& to = step % 2 == 0 ? scores : odd;
        multiply_add(to.octets[0], a, b[0], b[1], T());
        multiply_add(to.octets[1], a, b[2], b[3], T());
    }
    scores.add(odd);
    score<FastMath>(rule, scores);
    const Span span{0, is.first_token, is.first_token + is.count, is.base};
    VisibleTokens visible[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int vector = vector_tile * 16 + lane / 4 + 8 * half;
        const int row = min(vector / block.heads_per_kv, block.sequence.num_rows - 1);
        visible[half] = visible_tokens(rule, span, block.rows[row].position - is.base);
    }
    mask(visible, is.first_token, scores);
    OnlineSoftmax softmax[2];
    float correction[2];
    weigh<FastMath>(softmax, scores, correction);
    uint4 weights;
    uint32_t operand[4];
    scores.template round_slice<T>(0, operand);
    weights = make_uint4(operand[0], operand[1], operand[2], operand[3]);
    block.weights(tile, vector_tile)[lane] = weights;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const float sum = four_lanes_sum(softmax[half].sum);
        if (lane % 4 == 0) {
            block.sums(tile)[vector_tile * 16 + lane / 4 + 8 * half] = make_float2(softmax[half].highest, sum);
        }
    }
}

// A warp computes the partial output of 16 query vectors and 16 elements of the head over the tiles of its block, and
// writes it to the shared memory of the block that merges these elements.
template <typename T, int kDim>
__device__ __forceinline__ void send_slice(const Block<T, kDim>& block, int slice, int vector_tile) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int first_vector = vector_tile * 16 + lane / 4;
    float2 total[2];  // of each of the lane's two vectors: reference and sum
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float top = -INFINITY;
        for (int tile = 0; tile < block.num_tiles(); ++tile)
            top = fmaxf(top, block.sums(tile)[first_vector + 8 * half].x);
        total[half] = make_float2(top, 0);
    }
    Fragment<16> output{};
    for (int tile = 0; tile < block.num_tiles(); ++tile) {
        const uint4 weights = block.weights(tile, vector_tile)[lane];
        const uint32_t a[4] = {weights.x, weights.y, weights.z, weights.w};
        uint32_t b[4];
        load_matrices_transposed(b, block.value(tile * kShortTokens + lane % 16) + slice * 16 + lane / 16 * 8);
        Fragment<16> part{};
        multiply_add(part.octets[0], a, b[0], b[1], T());
        multiply_add(part.octets[1], a, b[2], b[3], T());
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float2 sums = block.sums(tile)[first_vector + 8 * half];
            const float factor = FastMath::exp2(sums.x - weight_reference(total[half].x));
            total[half].y = fmaf(factor, sums.y, total[half].y);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                float& to = output.at(i / 2, half, i % 2);
                to = fmaf(factor, part.at(i / 2, half, i % 2), to);
            }
        }
    }
    const int to_rank = block.sizes.block_of_slice(slice);
    const int to_slice = slice - block.sizes.first_slice(to_rank);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int vector = first_vector + 8 * half;
        if (vector >= block.num_vectors()) continue;
        float* const to = in_block(block.sent(block.rank, to_slice, vector), to_rank) + lane % 4 * 2;
        *reinterpret_cast<float2*>(to) = output.pair(0, half);
        *reinterpret_cast<float2*>(to + 8) = output.pair(1, half);
        if (to_slice == 0 && lane % 4 == 0) *in_block(block.sent_sums(block.rank) + vector, to_rank) = total[half];
    }
}

// Merges what the cluster's blocks have sent of this block's slices, and writes the output. In the order of the blocks.
template <typename T, int kDim>
__device__ __forceinline__ void merge_slices(const Block<T, kDim>& block, const ShortArguments<T>& a,
                                             const HeadShape& shape) {
    const int first = block.sizes.first_slice(block.rank);
    const int slices = block.sizes.first_slice(block.rank + 1) - first;
    const int num_vectors = block.num_vectors();
    const int senders = block.senders();
    for (int i = static_cast<int>(threadIdx.x); i < slices * num_vectors * 8; i += kThreads) {
        const int pair = i % 8 * 2;
        const int vector = i / 8 % num_vectors;
        const int slice = i / 8 / num_vectors;
        const int dim = (first + slice) * 16 + pair;
        if (dim >= shape.head_dim) continue;
        float top = -INFINITY;
        for (int from = 0; from < senders; ++from) top = fmaxf(top, block.sent_sums(from)[vector].x);
        float sum = 0;
        float2 output = make_float2(0, 0);
        for (int from = 0; from < senders; ++from) {
            const float2 sums = block.sent_sums(from)[vector];
            const float2 part = *reinterpret_cast<const float2*>(block.sent(from, slice, vector) + pair);
            const float weight = FastMath::exp2(sums.x - weight_reference(top));
            sum = fmaf(weight, sums.y, sum);
            output.x = fmaf(weight, part.x, output.x);
            output.y = fmaf(weight, part.y, output.y);
        }
        const float scale = sum == 0 ? 0.0F : a.rule.value_scale / sum;
        const int row = block.sequence.first_row + vector / block.heads_per_kv;
        const int head = block.kv_head * block.heads_per_kv + vector % block.heads_per_kv;
        *reinterpret_cast<uint32_t*>(a.output + a.output_layout.offset(row, head) + dim) =
            pack_pair(output.x * scale, output.y * scale, T());
    }
}

}  // namespace nanolith::cuda::short_attention
