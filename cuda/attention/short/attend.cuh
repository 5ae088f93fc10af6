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
        const int row = block.row_of(vector_tile * 16 + lane / 4 + 8 * half);
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
    float2 total[2] = {{-INFINITY, 0}, {-INFINITY, 0}};  // of each of the lane's two vectors: reference and sum
#pragma unroll 1
    for (int tile = 0; tile < block.num_tiles(); ++tile) {
#pragma unroll
        for (int half = 0; half < 2; ++half)
            total[half].x = fmaxf(total[half].x, block.sums(tile)[first_vector + 8 * half].x);
    }
    Fragment<16> output{};
#pragma unroll 1
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
class SliceMerge {
  public:
    __device__ SliceMerge(const Block<T, kDim>& block, const ShortArguments<T>& a, const HeadShape& shape)
        : block_(block), a_(a), shape_(shape), first_(block.sizes.first_slice(block.rank)) {
        slices_ = block.sizes.first_slice(block.rank + 1) - first_;
        take(static_cast<int>(threadIdx.x));
    }

    __device__ __forceinline__ void run() {
        const int thread = static_cast<int>(threadIdx.x);
#pragma unroll 1
        for (int i = thread; i < slices_ * block_.num_vectors() * 8; i += kThreads) {
            if (i != thread) take(i);
            if (to_ != nullptr) *to_ = merged();
        }
    }

  private:
    // Finds the two elements of a slice of a vector that number `i` is.
    __device__ __forceinline__ void take(int i) {
        const int num_vectors = block_.num_vectors();
        pair_ = i % 8 * 2;
        vector_ = i / 8 % num_vectors;
        slice_ = i / 8 / num_vectors;
        const int dim = (first_ + slice_) * 16 + pair_;
        const int row = block_.sequence.first_row + vector_ / block_.heads_per_kv;
        const int head = block_.kv_head * block_.heads_per_kv + vector_ % block_.heads_per_kv;
        to_ = dim >= shape_.head_dim
                  ? nullptr
                  : reinterpret_cast<uint32_t*>(a_.output + a_.output_layout.offset(row, head) + dim);
    }

    [[nodiscard]] __device__ __forceinline__ uint32_t merged() const {
        float2 sums[kMostShortBlocks];
        float2 parts[kMostShortBlocks];
        float top = -INFINITY;
#pragma unroll
        for (int from = 0; from < kMostShortBlocks; ++from) {
            const bool sent = from < block_.num_senders;
            sums[from] = sent ? block_.sent_sums(from)[vector_] : make_float2(-INFINITY, 0);
            parts[from] =
                sent ? *reinterpret_cast<const float2*>(block_.sent(from, slice_, vector_) + pair_) : make_float2(0, 0);
        }
#pragma unroll
        for (const float2& of_block : sums) top = fmaxf(top, of_block.x);
        float sum = 0;
        float2 output = make_float2(0, 0);
#pragma unroll
        for (int from = 0; from < kMostShortBlocks; ++from) {
            const float weight = FastMath::exp2(sums[from].x - weight_reference(top));
            sum = fmaf(weight, sums[from].y, sum);
            output.x = fmaf(weight, parts[from].x, output.x);
            output.y = fmaf(weight, parts[from].y, output.y);
        }
        const float scale = sum == 0 ? 0.0F : a_.rule.value_scale / sum;
        return pack_pair(output.x * scale, output.y * scale, T());
    }

    const Block<T, kDim>& block_;
    const ShortArguments<T>& a_;
    const HeadShape& shape_;
    int first_;  // of the block's slices
    int slices_;
    int vector_;
    int slice_;
    int pair_;
    uint32_t* to_;
};

}  // namespace nanolith::cuda::short_attention
