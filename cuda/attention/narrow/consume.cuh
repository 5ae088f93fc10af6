// The consumers of the narrow kernel: each of kWarps warps holds all vectors of an item and attends to its own half of
// the tiles of its pair; at the item's end the warps' results are merged. The online softmax is that of Milakov and
// Gimelshein (2018) in the form of FlashAttention-2 (Dao, 2023).
#pragma once

#include "attention/common/online_softmax.cuh"
#include "attention/common/scores.cuh"
#include "attention/narrow/shared.cuh"
#include "device/dependent.cuh"
#include "device/fragment.cuh"
#include "device/mma.cuh"

namespace nanolith::cuda::narrow {

// The tokens of a step's span that a lane's two vectors attend to.
struct LaneVisible {
    VisibleTokens tokens[2];

    template <typename V>
    __device__ __forceinline__ explicit LaneVisible(const Step<V>& step) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int m = lane_index() / 4 + 8 * i;
            tokens[i] = {step.visible_first[m], step.visible_end[m]};
        }
    }
};

// The left operands of the first product, each 16 elements of the head. Where registers are too few they are read from
// shared memory each time.
template <typename V>
struct Queries {
    uint32_t operands[V::kQueriesInRegisters ? V::kDim / 16 : 1][4];

    __device__ __forceinline__ static void read(const Step<V>& from, int step, uint32_t (&operand)[4]) {
        if constexpr (V::kFp8) {
            // A lane's elements are 4c to 4c + 3, those of the four bytes of K that it reads at once.
            const auto* const row = &from.queries[lane_index() / 4][step * 16 + lane_index() % 4 * 4];
            const auto low = *reinterpret_cast<const uint2*>(row);
            const auto high = *reinterpret_cast<const uint2*>(row + 8 * V::kQueryStride);
            operand[0] = low.x;
            operand[1] = high.x;
            operand[2] = low.y;
            operand[3] = high.y;
        } else {
            load_matrices(operand, &from.queries[lane_index() % 16][step * 16 + lane_index() / 16 * 8]);
        }
    }
    __device__ __forceinline__ void load(const Step<V>& from) {
        if constexpr (V::kQueriesInRegisters) {
#pragma unroll
            for (int step = 0; step < V::kDim / 16; ++step) read(from, step, operands[step]);
        }
    }
    __device__ __forceinline__ void get(const Step<V>& from, int step, uint32_t (&operand)[4]) const {
        if constexpr (V::kQueriesInRegisters) {
#pragma unroll
            for (int i = 0; i < 4; ++i) operand[i] = operands[step][i];
        } else {
            read(from, step, operand);
        }
    }
};

// The two fp8 numbers in the lower half of `pair` as two float16 numbers.
__device__ __forceinline__ uint32_t widen(uint32_t pair) {
    const __half2_raw raw = __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(pair & 0xffffU), __NV_E4M3);
    return static_cast<uint32_t>(raw.x) | static_cast<uint32_t>(raw.y) << 16;
}

// A warp's attention to tokens of an item, all of its vectors.
template <typename V>
struct WarpAttention {
    using M = typename V::M;
    using Scores = Fragment<V::kWarpTokens>;

    OnlineSoftmax softmax[2];  // of the lane's two vectors; the sums are of its own tokens
    Fragment<V::kDim> output{};

    __device__ __forceinline__ void attend(const Parameters<V>& p, const Step<V>& step, const Queries<V>& queries,
                                           const LaneVisible& visible, const std::byte* keys, int token) {
        Scores scores{};
        multiply_keys(step, queries, keys, scores);
        score<FastMath>(p.a.rule, scores);
        if (token < step.unmasked_first || token + V::kWarpTokens > step.unmasked_end)
            mask(visible.tokens, token, scores);
        float correction[2];
        weigh<FastMath>(softmax, scores, correction);
        if (!__all_sync(kAllLanes, correction[0] == 1.0F && correction[1] == 1.0F)) output.scale_rows(correction);
        add_values(scores, keys + V::kTensorBytes);
    }

  private:
    __device__ __forceinline__ static void multiply_keys(const Step<V>& from, const Queries<V>& queries,
                                                         const std::byte* keys, Scores& scores) {
        const int lane = lane_index();
        // Two sums for each score, so that fewer products wait for the previous one.
        Scores odd{};
#pragma unroll
        for (int step = 0; step < V::kDim / 16; ++step) {
            uint32_t a[4];
            queries.get(from, step, a);
            Scores& to = step % 2 == 0 ? scores : odd;
#pragma unroll
            for (int t = 0; t < V::kWarpTokens; t += 16) {
                if constexpr (V::kFp8) {
                    const std::byte* const bytes = keys + lane % 4 * 4;
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        const int at = t + 8 * half + lane / 4;
                        const uint32_t four =
                            *reinterpret_cast<const uint32_t*>(bytes + V::swizzle_offset(at, step / 8, step % 8));
                        multiply_add(to.octets[t / 8 + half], a, widen(four), widen(four >> 16), M());
                    }
                } else {
                    uint32_t b[4];
                    const int at = t + lane % 8 + lane / 16 * 8;
                    load_matrices(b, keys + V::swizzle_offset(at, step / 4, step % 4 * 2 + lane / 8 % 2));
                    multiply_add(to.octets[t / 8], a, b[0], b[1], M());
                    multiply_add(to.octets[t / 8 + 1], a, b[2], b[3], M());
                }
            }
        }
        scores.add(odd);
    }

    __device__ __forceinline__ void add_values(const Scores& weights, const std::byte* values) {
        const int lane = lane_index();
#pragma unroll
        for (int t = 0; t < V::kWarpTokens; t += 16) {
            uint32_t a[4];
            weights.template round_slice<M>(t / 16, a);
            const int at = t + lane % 8 + lane / 8 % 2 * 8;
#pragma unroll
            for (int d = 0; d < V::kDim; d += V::kFp8 ? 32 : 16) {
                uint32_t b[4];
                if constexpr (V::kFp8) {
                    load_matrices_transposed(b, values + V::swizzle_offset(at, d / 128, d % 128 / 16 + lane / 16));
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        // Bytes: two elements of one token, then the same two of the next token. Permuted so that the
                        // two tokens of an element are together.
                        const uint32_t first = __byte_perm(b[2 * half], 0, 0x3120);
                        const uint32_t second = __byte_perm(b[2 * half + 1], 0, 0x3120);
                        float(&even)[4] = output.octets[(d + 16 * half) / 8];
                        float(&odd)[4] = output.octets[(d + 16 * half) / 8 + 1];
                        multiply_add(even, a, widen(first), widen(second), M());
                        multiply_add(odd, a, widen(first >> 16), widen(second >> 16), M());
                    }
                } else {
                    load_matrices_transposed(b, values + V::swizzle_offset(at, d / 64, d % 64 / 8 + lane / 16));
                    multiply_add(output.octets[d / 8], a, b[0], b[1], M());
                    multiply_add(output.octets[d / 8 + 1], a, b[2], b[3], M());
                }
            }
        }
    }
};

// Writes the warp's results of the vectors [first, first + kResultRows) to shared memory, not divided by their sums.
template <typename V>
__device__ __forceinline__ void put_results(const Fragment<V::kDim>& output, int first, Shared<V>& shared) {
    const int c = lane_index() % 4;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const int row = lane_index() / 4 + 8 * h - first;
        if (row < 0 || row >= V::kResultRows) continue;
        float* const to = shared.results[warp_index()][row];
#pragma unroll
        for (int d = 0; d < V::kDim / 8; d += 2) {
            if constexpr (V::kFp8) {
                // The output has the even elements of 16 in one octet and the odd ones in the next.
                *reinterpret_cast<float4*>(to + d * 8 + c * 4) =
                    make_float4(output.at(d, h, 0), output.at(d + 1, h, 0), output.at(d, h, 1), output.at(d + 1, h, 1));
            } else {
                *reinterpret_cast<float2*>(to + d * 8 + c * 2) = output.pair(d, h);
                *reinterpret_cast<float2*>(to + d * 8 + 8 + c * 2) = output.pair(d + 1, h);
            }
        }
    }
}

template <typename V>
class Consumer {
  public:
    __device__ Consumer(Shared<V>& shared, const Parameters<V>& p, int kv_head)
        : shared_(shared), p_(p), kv_head_(kv_head), next_tile_(warp_index() / 2) {}

    __device__ void run() {
        RingPosition<kSteps> position;
        for (bool done = false; !done;) {
            attention_ = WarpAttention<V>();
            for (bool ended = false; !ended; position.advance()) {
                const Step<V>& step = shared_.steps[position.stage];
                barrier_wait(&shared_.step_full[position.stage], position.parity, "a step");
                if (step.begins_item && step.item.partial == kMergesOthers) read_others_early(step);
                attend(step);
                if (step.ends_block) let_next_launch_begin();
                ended = step.ends_item;
                done = step.ends_block;
                if (ended) end_item(step);
                barrier_arrive(&shared_.step_empty[position.stage]);
            }
        }
    }

  private:
    // Partial results of others that a thread reads at the beginning of an item; few where registers are short.
    static constexpr int kReadEarly = V::kFp8 || V::kDim != 128 ? 1 : 4;
    // From the first warp's half of a tile's K or V to the second warp's.
    static constexpr int kHalfBytes = V::kWarpTokens * kRowBytes * (V::kWhole ? V::kBoxes : 1);

    // Starts, at the item's beginning, to read the partial results of others that are merged at its end.
    __device__ __forceinline__ void read_others_early(const Step<V>& step) {
        const int merger = merger_index();
        const int row = merger / (V::kDim / 4);
        const int dim = merger % (V::kDim / 4) * 4;
        if (merger < 0 || row >= step.item.num_vectors || dim >= p_.shape.head_dim) return;
        const PartialList list = list_others(step, row, dim);
        if (list.count == 0) return;
        early_others_.find(list, 0);
        wait_for_launches_before();
        early_others_.read(list);
    }

    // Attends to the warp's half of each of its pair's tiles of a step.
    __device__ __forceinline__ void attend(const Step<V>& step) {
        Queries<V> queries;
        queries.load(step);
        const LaneVisible visible(step);
        const int half = warp_index() % 2;
        const int tiles = (step.end_token - step.first_token + V::kTokens - 1) / V::kTokens;
#pragma unroll 1
        for (; next_tile_ < tiles; next_tile_ += V::kPairs) {
            const int tile = tile_.stage * V::kPairs + warp_index() / 2;
            std::byte* const keys = shared_.tiles[tile] + half * kHalfBytes;
            barrier_wait(&shared_.full[tile], tile_.parity, "a tile");
            const int token = step.first_token + next_tile_ * V::kTokens + half * V::kWarpTokens;
            const int left = step.end_token - token;
            if (left > 0) {
                if (left < V::kWarpTokens) clear_values(keys + V::kTensorBytes, left);
                attention_.attend(p_, step, queries, visible, keys, token);
                __syncwarp();
            }
            if (lane_index() == 0) barrier_arrive(&shared_.empty[tile]);
            tile_.advance();
        }
        next_tile_ -= tiles;
    }

    // Zeros the rows of V from `left` on: they may hold NaN, which a weight of zero would not remove.
    __device__ __forceinline__ static void clear_values(std::byte* values, int left) {
        constexpr int kColumns = kRowBytes / 16 * V::kBoxes;
#pragma unroll 1
        for (int i = lane_index(); i < (V::kWarpTokens - left) * kColumns; i += kWarp) {
            const int column = i % kColumns;
            *reinterpret_cast<uint4*>(values + V::swizzle_offset(left + i / kColumns, column / 8, column % 8)) =
                make_uint4(0, 0, 0, 0);
        }
        fence_async_proxy();  // orders these writes before the next copy to this stage
        __syncwarp();
    }

    // The thread's number among the kMergers threads that merge the next results, below 0 if it is none of them. The
    // others continue with the next item meanwhile.
    __device__ __forceinline__ int merger_index() const {
        const int thread = static_cast<int>(threadIdx.x) - merging_ * V::kMergers;
        return thread < V::kMergers ? thread : -1;
    }

    __device__ __forceinline__ void end_item(const Step<V>& step) {
        const int num_vectors = step.item.num_vectors;
#pragma unroll 1
        for (int first = 0; first < num_vectors; first += V::kResultRows) {
            barrier_wait(&shared_.results_empty, results_parity_ ^ 1U, "empty results");
            if (first == 0) put_softmaxes();
            put_results<V>(attention_.output, first, shared_);
            barrier_arrive(&shared_.results_full);
            const int merger = merger_index();
            if (merger >= 0) {
                barrier_wait(&shared_.results_full, results_parity_, "results");
                write_results(step, first, min(V::kResultRows, num_vectors - first), merger);
                barrier_arrive(&shared_.results_empty);
            }
            results_parity_ ^= 1U;
            merging_ = merging_ + 1 == V::kConsumers / V::kMergers ? 0 : merging_ + 1;
        }
    }

    __device__ __forceinline__ void put_softmaxes() {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const OnlineSoftmax& softmax = attention_.softmax[i];
            const float sum = four_lanes_sum(softmax.sum);
            if (lane_index() % 4 != 0) continue;
            shared_.softmaxes[lane_index() / 4 + 8 * i][warp_index()] = {softmax.highest, sum};
        }
    }

    // Merges the warps' results of `rows` vectors from `first` on and writes them where the item says.
    __device__ __forceinline__ void write_results(const Step<V>& step, int first, int rows, int merger) {
        const int row = merger / (V::kDim / 4);
        const int dim = merger % (V::kDim / 4) * 4;
        // In the first round read_others_early has already read some of the others' partial results.
        const int early = first == 0 ? kReadEarly : 0;
        if (row < rows && dim < p_.shape.head_dim)
            write_part(step, first + row, dim, &shared_.results[0][row][dim], step.item.partial, early);
    }

    // Writes elements [dim, dim + 4) of vector m, merged from the warps' at `results`. The first `early` partial
    // results of others are in early_others_.
    __device__ __forceinline__ void write_part(const Step<V>& step, int m, int dim, const float* results, int partial,
                                               int early) {
        OnlineSoftmax softmaxes[V::kWarps];
        float4 parts[V::kWarps];
#pragma unroll
        for (int w = 0; w < V::kWarps; ++w) softmaxes[w] = shared_.softmaxes[m][w];
#pragma unroll
        for (int w = 0; w < V::kWarps; ++w) {
            parts[w] = *reinterpret_cast<const float4*>(results + w * V::kResultRows * V::kResultStride);
        }
        const Merged merged = Merged::of<FastMath>(parts, softmaxes);
        const float sum = merged.softmax.sum;
        const float4 output = scaled(merged.output, sum == 0 ? 0.0F : fast_divide(p_.a.rule.value_scale, sum));
        const float log_sum = merged.softmax.lse<FastMath>();
        if (partial >= 0) {
            publish_partial(p_.a, p_.shape, kv_head_, partial + m, dim, output, log_sum);
        } else if (partial == kMergesOthers) {
            write_merged(step, m, dim, output, log_sum, early);
        } else if (partial == kWritesOutput) {
            store_output(p_.a, step.rows[m], step.heads[m], dim, output);
            if (dim == 0) store_lse(p_.a, p_.shape, step.rows[m], step.heads[m], log_sum);
        }
    }

    // Merges the result of vector m with the partial results of others, and writes the output.
    __device__ __forceinline__ void write_merged(const Step<V>& step, int m, int dim, const float4& output,
                                                 float log_sum, int early) {
        Merged merged;
        merged.add<1>({output}, {log_sum});
        const PartialList list = list_others(step, m, dim);
        if (early > 0 && list.count > 0) {
            while (!early_others_.all_published()) early_others_.read(list);
            early_others_.consume(list, merged);
        }
        bool wait = false;
        add_partials<4>(list, early, 1, wait, merged);
        store_merged(p_.a, p_.shape, step.rows[m], step.heads[m], dim, merged);
    }

    // The partial results of vector m that other items or blocks have published.
    __device__ __forceinline__ PartialList list_others(const Step<V>& step, int m, int dim) const {
        const int heads = p_.a.head_groups.heads;
        const int of_kv_group = step.heads[m] - kv_head_ * p_.heads_per_kv;
        const int head = of_kv_group - divide_small(of_kv_group, heads) * heads;
        return PartialList(p_.a, p_.shape, step.others[m].first_partial, step.others[m].num_partials, kv_head_, head,
                           dim);
    }

    Shared<V>& shared_;
    const Parameters<V>& p_;
    const int kv_head_;
    int next_tile_;  // the step's next tile of the warp's pair
    RingPosition<V::kStages> tile_;
    uint32_t results_parity_ = 0;
    int merging_ = 0;  // which set of kMergers threads merges the next results
    WarpAttention<V> attention_;
    PartialBatch<kReadEarly> early_others_;
};

}  // namespace nanolith::cuda::narrow
