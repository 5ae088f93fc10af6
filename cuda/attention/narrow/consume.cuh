// The consumers of the narrow kernel: each of kWarps warps holds all vectors of an item and attends to its own halves
// of its pair's tiles; at the item's end their results merge. The online softmax is that of Milakov and Gimelshein
// (2018) in the form of FlashAttention-2 (Dao, 2023).
#pragma once

#include "attention/narrow/shared.cuh"
#include "device/dependent.cuh"
#include "device/exp2.cuh"
#include "device/mma.cuh"
#include "device/pair.cuh"

namespace nanolith::cuda::narrow {

constexpr float kLog2E = 1.44269504088896341F;

// What a lane's two vectors see of a step's span.
struct Sight {
    int first[2];
    int end[2];

    template <typename V>
    __device__ __forceinline__ explicit Sight(const Step<V>& step) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            first[i] = step.seen_first[lane_index() / 4 + 8 * i];
            end[i] = step.seen_end[lane_index() / 4 + 8 * i];
        }
    }
};

// The left operands of the first product, 16 elements of the head each.
template <typename V>
struct Queries {
    uint32_t operands[V::kQueriesStay ? V::kDim / 16 : 1][4];

    __device__ __forceinline__ static void read(const Step<V>& from, int step, uint32_t (&operand)[4]) {
        if constexpr (V::kFp8) {
            // A lane's elements 4c to 4c + 3, which is where four bytes of K are.
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
        if constexpr (V::kQueriesStay) {
#pragma unroll
            for (int step = 0; step < V::kDim / 16; ++step) read(from, step, operands[step]);
        }
    }
    __device__ __forceinline__ void get(const Step<V>& from, int step, uint32_t (&operand)[4]) const {
        if constexpr (V::kQueriesStay) {
#pragma unroll
            for (int i = 0; i < 4; ++i) operand[i] = operands[step][i];
        } else {
            read(from, step, operand);
        }
    }
};

// Two fp8 numbers, in the lower half of `pair`, as two halves.
__device__ __forceinline__ uint32_t widen(uint32_t pair) {
    const __half2_raw raw = __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(pair & 0xffffU), __NV_E4M3);
    return static_cast<uint32_t>(raw.x) | static_cast<uint32_t>(raw.y) << 16;
}

template <typename V>
struct Softmax {
    static constexpr int kTiles = V::kWarpTokens / 8;
    using M = typename V::M;

    float highest[2] = {-INFINITY, -INFINITY};
    float sum[2] = {0, 0};  // of the lane's own tokens
    float output[V::kDim / 8][4] = {};

    __device__ __forceinline__ void attend(const Parameters<V>& p, const Step<V>& step, const Queries<V>& queries,
                                           const Sight& sight, const std::byte* keys, int token) {
        float scores[kTiles][4] = {};
        multiply_keys(step, queries, keys, scores);
        scale(p.a, scores);
        if (token < step.all_first || token + V::kWarpTokens > step.all_end) hide(sight, token, scores);
        weigh(scores);
        add_values(scores, keys + V::kTensorBytes);
    }

  private:
    __device__ __forceinline__ static void multiply_keys(const Step<V>& from, const Queries<V>& queries,
                                                         const std::byte* keys, float (&scores)[kTiles][4]) {
        const int lane = lane_index();
        // Two sums for each score, so that fewer products wait for the one before.
        float odd[kTiles][4] = {};
#pragma unroll
        for (int step = 0; step < V::kDim / 16; ++step) {
            uint32_t a[4];
            queries.get(from, step, a);
            float(&to)[kTiles][4] = step % 2 == 0 ? scores : odd;
#pragma unroll
            for (int t = 0; t < V::kWarpTokens; t += 16) {
                if constexpr (V::kFp8) {
                    const std::byte* const bytes = keys + lane % 4 * 4;
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        const int at = t + 8 * half + lane / 4;
                        const uint32_t four =
                            *reinterpret_cast<const uint32_t*>(bytes + V::place(at, step / 8, step % 8));
                        multiply_add(to[t / 8 + half], a, widen(four), widen(four >> 16), M());
                    }
                } else {
                    uint32_t b[4];
                    const int at = t + lane % 8 + lane / 16 * 8;
                    load_matrices(b, keys + V::place(at, step / 4, step % 4 * 2 + lane / 8 % 2));
                    multiply_add(to[t / 8], a, b[0], b[1], M());
                    multiply_add(to[t / 8 + 1], a, b[2], b[3], M());
                }
            }
        }
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
#pragma unroll
            for (int i = 0; i < 4; ++i) scores[t][i] += odd[t][i];
        }
    }

    // To base 2.
    __device__ __forceinline__ static void scale(const AttentionArguments<typename V::T>& a,
                                                 float (&scores)[kTiles][4]) {
        const float factor = a.scale * kLog2E;
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
#pragma unroll
            for (int i = 0; i < 4; ++i) scores[t][i] *= factor;
        }
        if (a.softcap == 0) return;
        // tanh(x) = 1 - 2 / (e^2x + 1), with an error near float32's own of the cap.
        const float cap = a.softcap * kLog2E;
        const float twice = 2.0F * kLog2E / cap;
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                scores[t][i] = cap - __fdividef(2.0F * cap, fast_exp2(scores[t][i] * twice) + 1.0F);
            }
        }
    }

    __device__ __forceinline__ static void hide(const Sight& sight, int token, float (&scores)[kTiles][4]) {
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int at = token + t * 8 + lane_index() % 4 * 2 + i % 2;
                if (at < sight.first[i / 2] || at >= sight.end[i / 2]) scores[t][i] = -INFINITY;
            }
        }
    }

    // Scores become weights relative to the highest score so far.
    __device__ __forceinline__ void weigh(float (&scores)[kTiles][4]) {
        float correction[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float top = highest[i];
#pragma unroll
            for (int t = 0; t < kTiles; ++t) top = fmaxf(top, fmaxf(scores[t][2 * i], scores[t][2 * i + 1]));
            top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 1));
            top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 2));
            // Where all is hidden so far any finite number will do: the weights are zero.
            const float base = top == -INFINITY ? 0.0F : top;
            correction[i] = fast_exp2(highest[i] - base);
            highest[i] = top;
            sum[i] *= correction[i];
#pragma unroll
            for (int t = 0; t < kTiles; ++t) {
                scores[t][2 * i] = fast_exp2(scores[t][2 * i] - base);
                scores[t][2 * i + 1] = fast_exp2(scores[t][2 * i + 1] - base);
                sum[i] += scores[t][2 * i] + scores[t][2 * i + 1];
            }
        }
        if (__all_sync(kAllLanes, correction[0] == 1.0F && correction[1] == 1.0F)) return;
#pragma unroll
        for (int d = 0; d < V::kDim / 8; ++d) {
            output[d][0] *= correction[0];
            output[d][1] *= correction[0];
            output[d][2] *= correction[1];
            output[d][3] *= correction[1];
        }
    }

    __device__ __forceinline__ void add_values(const float (&weights)[kTiles][4], const std::byte* values) {
        const int lane = lane_index();
#pragma unroll
        for (int t = 0; t < V::kWarpTokens; t += 16) {
            const float(&low)[4] = weights[t / 8];
            const float(&high)[4] = weights[t / 8 + 1];
            const uint32_t a[4] = {pack_pair(low[0], low[1], M()), pack_pair(low[2], low[3], M()),
                                   pack_pair(high[0], high[1], M()), pack_pair(high[2], high[3], M())};
            const int at = t + lane % 8 + lane / 8 % 2 * 8;
#pragma unroll
            for (int d = 0; d < V::kDim; d += V::kFp8 ? 32 : 16) {
                uint32_t b[4];
                if constexpr (V::kFp8) {
                    load_matrices_transposed(b, values + V::place(at, d / 128, d % 128 / 16 + lane / 16));
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        // Bytes: two elements of one token, then the same of the next. Elements apart, tokens together.
                        const uint32_t first = __byte_perm(b[2 * half], 0, 0x3120);
                        const uint32_t second = __byte_perm(b[2 * half + 1], 0, 0x3120);
                        float(&even)[4] = output[(d + 16 * half) / 8];
                        float(&odd)[4] = output[(d + 16 * half) / 8 + 1];
                        multiply_add(even, a, widen(first), widen(second), M());
                        multiply_add(odd, a, widen(first >> 16), widen(second >> 16), M());
                    }
                } else {
                    load_matrices_transposed(b, values + V::place(at, d / 64, d % 64 / 8 + lane / 16));
                    multiply_add(output[d / 8], a, b[0], b[1], M());
                    multiply_add(output[d / 8 + 1], a, b[2], b[3], M());
                }
            }
        }
    }
};

// Leaves the warp's results of the vectors [first, first + kResultRows) in shared memory, not divided by their sums.
template <typename V>
__device__ __forceinline__ void put_results(const Softmax<V>& softmax, int first, Shared<V>& shared) {
    const int c = lane_index() % 4;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int row = lane_index() / 4 + 8 * i - first;
        if (row < 0 || row >= V::kResultRows) continue;
        float* const to = shared.results[warp_index()][row];
#pragma unroll
        for (int d = 0; d < V::kDim / 8; d += 2) {
            const float(&even)[4] = softmax.output[d];
            const float(&odd)[4] = softmax.output[d + 1];
            if constexpr (V::kFp8) {
                // Even and odd elements of 16.
                *reinterpret_cast<float4*>(to + d * 8 + c * 4) =
                    make_float4(even[2 * i], odd[2 * i], even[2 * i + 1], odd[2 * i + 1]);
            } else {
                *reinterpret_cast<float2*>(to + d * 8 + c * 2) = make_float2(even[2 * i], even[2 * i + 1]);
                *reinterpret_cast<float2*>(to + d * 8 + 8 + c * 2) = make_float2(odd[2 * i], odd[2 * i + 1]);
            }
        }
    }
}

template <typename V>
class Consumer {
  public:
    __device__ Consumer(Shared<V>& shared, const Parameters<V>& p, int kv_head)
        : shared_(shared), p_(p), kv_head_(kv_head), turn_(warp_index() / 2) {}

    __device__ void run() {
        RingPlace<kSteps> place;
        for (bool done = false; !done; place.advance()) {
            const Step<V>& step = shared_.steps[place.stage];
            barrier_wait(&shared_.step_full[place.stage], place.parity, "a step");
            if (step.begins && step.item.partial == kMergesRest) read_rest(step);
            attend(step);
            if (step.ends) end_item(step);
            done = step.ends_block;
            barrier_arrive(&shared_.step_empty[place.stage]);
        }
    }

  private:
    // Partial results of others. Where registers are short, few.
    static constexpr int kReadEarly = V::kFp8 || V::kDim != 128 ? 1 : 4;
    // Between the halves of a tile's K or V.
    static constexpr int kHalfBytes = V::kWarpTokens * kRowBytes * (V::kWhole ? V::kBoxes : 1);

    // Reads of what is merged at the item's end begin at its beginning.
    __device__ __forceinline__ void read_rest(const Step<V>& step) {
        const int merger = my_turn();
        const int row = merger / (V::kDim / 4);
        const int dim = merger % (V::kDim / 4) * 4;
        if (merger < 0 || row >= step.item.num_vectors || dim >= p_.shape.head_dim) return;
        const PartList list = list_rest(step, row, dim);
        if (list.count == 0) return;
        rest_.find(list, 0);
        wait_for_launches_before();
        rest_.read(list);
    }

    // The warp's halves of its pair's tiles of a step.
    __device__ __forceinline__ void attend(const Step<V>& step) {
        Queries<V> queries;
        queries.load(step);
        const Sight sight(step);
        const int half = warp_index() % 2;
        const int tiles = (step.end_token - step.first_token + V::kTokens - 1) / V::kTokens;
#pragma unroll 1
        for (; turn_ < tiles; turn_ += V::kPairs) {
            const int tile = tile_.stage * V::kPairs + warp_index() / 2;
            std::byte* const keys = shared_.tiles[tile] + half * kHalfBytes;
            barrier_wait(&shared_.full[tile], tile_.parity, "a tile");
            const int token = step.first_token + turn_ * V::kTokens + half * V::kWarpTokens;
            const int left = step.end_token - token;
            if (left > 0) {
                if (left < V::kWarpTokens) clear_values(keys + V::kTensorBytes, left);
                softmax_.attend(p_, step, queries, sight, keys, token);
                __syncwarp();
            }
            if (lane_index() == 0) barrier_arrive(&shared_.empty[tile]);
            tile_.advance();
        }
        turn_ -= tiles;
    }

    // Rows of V from `left` on hold anything, which even a weight of zero would not hide.
    __device__ __forceinline__ static void clear_values(std::byte* values, int left) {
        constexpr int kPieces = kRowBytes / 16 * V::kBoxes;
#pragma unroll 1
        for (int i = lane_index(); i < (V::kWarpTokens - left) * kPieces; i += kWarp) {
            const int piece = i % kPieces;
            *reinterpret_cast<uint4*>(values + V::place(left + i / kPieces, piece / 8, piece % 8)) =
                make_uint4(0, 0, 0, 0);
        }
        fence_async_proxy();  // the next copy to this place comes after these
        __syncwarp();
    }

    // The thread's number among those that merge the next results, or below 0. Others go on to the next item meanwhile.
    __device__ __forceinline__ int my_turn() const {
        const int thread = static_cast<int>(threadIdx.x) - merging_ * V::kMergers;
        return thread < V::kMergers ? thread : -1;
    }

    __device__ __forceinline__ void end_item(const Step<V>& step) {
        const int num_vectors = step.item.num_vectors;
#pragma unroll 1
        for (int first = 0; first < num_vectors; first += V::kResultRows) {
            barrier_wait(&shared_.results_empty, results_parity_ ^ 1U, "a place for results");
            if (first == 0) put_sums();
            put_results<V>(softmax_, first, shared_);
            barrier_arrive(&shared_.results_full);
            const int merger = my_turn();
            if (merger >= 0) {
                barrier_wait(&shared_.results_full, results_parity_, "results");
                write_results(step, first, min(V::kResultRows, num_vectors - first), merger);
                barrier_arrive(&shared_.results_empty);
            }
            results_parity_ ^= 1U;
            merging_ = merging_ + 1 == V::kConsumers / V::kMergers ? 0 : merging_ + 1;
        }
        softmax_ = Softmax<V>();
    }

    __device__ __forceinline__ void put_sums() {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float sum = softmax_.sum[i];
            sum += __shfl_xor_sync(kAllLanes, sum, 1);
            sum += __shfl_xor_sync(kAllLanes, sum, 2);
            if (lane_index() % 4 != 0) continue;
            shared_.sums[lane_index() / 4 + 8 * i][warp_index()] = {softmax_.highest[i], sum};
        }
    }

    // Merges the warps' results of `rows` vectors from `first` on and writes them where the item says.
    __device__ __forceinline__ void write_results(const Step<V>& step, int first, int rows, int merger) {
        const int row = merger / (V::kDim / 4);
        const int dim = merger % (V::kDim / 4) * 4;
        // In the first round read_rest has read some of what others left.
        const int early = first == 0 ? kReadEarly : 0;
        if (row < rows && dim < p_.shape.head_dim)
            write_part(step, first + row, dim, &shared_.results[0][row][dim], step.item.partial, early);
    }

    // Elements [dim, dim + 4) of vector m; the warps' are at `results`. `early` of others' are in rest_.
    __device__ __forceinline__ void write_part(const Step<V>& step, int m, int dim, const float* results, int partial,
                                               int early) {
        WarpSum sums[V::kWarps];
        float4 parts[V::kWarps];
#pragma unroll
        for (int w = 0; w < V::kWarps; ++w) sums[w] = shared_.sums[m][w];
#pragma unroll
        for (int w = 0; w < V::kWarps; ++w) {
            parts[w] = *reinterpret_cast<const float4*>(results + w * V::kResultRows * V::kResultStride);
        }
        float top = -INFINITY;
#pragma unroll
        for (int w = 0; w < V::kWarps; ++w) top = fmaxf(top, sums[w].highest);
        // Where nothing was seen any finite number will do: the weights are zero.
        const float base = top == -INFINITY ? 0.0F : top;
        float sum = 0;
        float4 output = make_float4(0, 0, 0, 0);
#pragma unroll
        for (int w = 0; w < V::kWarps; ++w) {
            const float weight = fast_exp2(sums[w].highest - base);
            sum = fmaf(weight, sums[w].sum, sum);
            output.x = fmaf(weight, parts[w].x, output.x);
            output.y = fmaf(weight, parts[w].y, output.y);
            output.z = fmaf(weight, parts[w].z, output.z);
            output.w = fmaf(weight, parts[w].w, output.w);
        }
        const float inverse = sum == 0 ? 0.0F : __fdividef(p_.a.value_scale, sum);
        output = make_float4(output.x * inverse, output.y * inverse, output.z * inverse, output.w * inverse);
        const float log_sum = sum == 0 ? -INFINITY : top + log2f(sum);
        if (partial >= 0) {
            leave_part(p_.a, p_.shape, kv_head_, partial + m, dim, output, log_sum);
        } else if (partial == kMergesRest) {
            write_merged(step, m, dim, output, log_sum, early);
        } else if (partial == kAlone) {
            store_output(p_.a, step.rows[m], step.heads[m], dim, output);
            if (dim == 0) store_lse(p_.a, p_.shape, step.rows[m], step.heads[m], log_sum);
        }
    }

    // Together with what others have left of vector m.
    __device__ __forceinline__ void write_merged(const Step<V>& step, int m, int dim, const float4& output,
                                                 float log_sum, int early) {
        Merged merged;
        merged.add<1>({output}, {log_sum});
        const PartList list = list_rest(step, m, dim);
        if (early > 0 && list.count > 0) {
            while (!rest_.all_come()) rest_.read(list);
            rest_.take(list, merged);
        }
        bool wait = false;
        add_partials<4>(list, early, 1, wait, merged);
        store_merged(p_.a, p_.shape, step.rows[m], step.heads[m], dim, merged);
    }

    // Of what others have left of vector m.
    __device__ __forceinline__ PartList list_rest(const Step<V>& step, int m, int dim) const {
        const int head = (step.heads[m] - kv_head_ * p_.group) % p_.a.units.heads;
        return PartList(p_.a, p_.shape, step.rest[m].first_partial, step.rest[m].num_partials, kv_head_, head, dim);
    }

    Shared<V>& shared_;
    const Parameters<V>& p_;
    const int kv_head_;
    int turn_;  // tiles of other pairs that come before the warp's next one
    RingPlace<V::kStages> tile_;
    uint32_t results_parity_ = 0;
    int merging_ = 0;  // whose turn it is
    Softmax<V> softmax_;
    Parts<kReadEarly> rest_;
};

}  // namespace nanolith::cuda::narrow
