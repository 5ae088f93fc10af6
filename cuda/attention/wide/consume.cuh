// The computing warpgroups of the wide attention kernel: scores, online softmax and weighted values of 64 query vectors
// each.
#pragma once

#include <cstdint>

#include "attention/common/base2.h"
#include "attention/common/online_softmax.cuh"
#include "attention/common/scores.cuh"
#include "attention/wide/queries.cuh"
#include "attention/wide/shared.cuh"
#include "device/fast_math.cuh"
#include "device/fragment.cuh"
#include "device/pair.cuh"
#include "device/reduce.cuh"
#include "device/wgmma.cuh"

namespace nanolith::cuda::wide {

template <typename V>
class Consumer {
  public:
    using T = typename V::T;

    __device__ Consumer(Shared<V>& shared, const Parameters<T>& parameters)
        : shared_(shared),
          p_(parameters),
          group_(__shfl_sync(~0U, static_cast<int>(threadIdx.x) / kGroupThreads - 1, 0)),
          lane_(static_cast<int>(threadIdx.x) % 32) {
        // Each thread holds parts of two rows of the 64, these and the ones 8 below.
        vector_ = group_ * kGroupVectors + static_cast<int>(threadIdx.x) % kGroupThreads / 32 * 16 + lane_ / 4;
    }

    // One stream of tiles, whatever items they belong to: the scores of a tile are computed together with the output of
    // the previous tile, also where a new item begins. Most tiles are full and visible to all rows: they have a loop of
    // their own, because a loop that jumps over the code for other tiles takes 2% longer.
    __device__ void run() {
        if (group_ == 1) named_barrier_arrive(kSchedulerBarrier, kGroups * kGroupThreads);
        begin_step();
        if (tiles_ == 0) return;
        write_first_queries();
        begin_queries();
        begin_sums();
        // The loop multiplies a tile's keys together with the values of the tile before. The block's first tile has
        // none before it. It goes through the same loop nevertheless, because fetching separate code for it would take
        // longer than running it: the values' product then multiplies whatever shared memory contains, and its result
        // is dropped, since the next such product, the first one of the item, does not add to it.
        token_ -= V::kTile;
        ++tiles_;
        Output output;
        Scores scores;
        uint32_t weights[kSlices][4] = {};
        float correction[2];
        bool follows = false;  // there is a tile before the next one, whose values are multiplied next
        bool adds = false;     // that product adds to `output`, because it is not its item's first
        for (;;) {
            while (full_tile_follows()) {
                do_tile<V::kTile>(output, weights, follows, adds);
                adds = follows;
                follows = true;
            }
            if (kHasShort && short_tile_follows()) {
                do_tile<kShortTile>(output, weights, follows, adds);
                adds = follows;
                follows = true;
            }
            const int present = end_token_ - token_;  // tokens of the tile whose values are next
            const Next next = advance();
            if (next == Next::kEnd) {
                finish_last(output, weights, present, adds);
                return;
            }
            barrier_wait(&shared_.key_full[key_.stage], key_.parity, "keys");
            await_issue();
            wgmma_hold(output);
            wgmma_fence();
            start_scores(scores);
            if (follows) await_values(present);
            start_output(output, weights, present, adds);
            pass_issue();
            const bool ends = next == Next::kItem;  // the product in flight completes the item's output
            Result ended{};
            if (ends) {
                ended = result();
                begin_sums();
            }
            wgmma_wait<1>();
            wgmma_hold(scores);
            release_tile(&shared_.key_empty[key_.stage]);
            key_.advance();
            if (ends && !V::kEndsLate) end_item(ended, output);
            modify_scores(scores);
            weigh_tile(scores, correction);
            wgmma_hold(scores);
            // Without these branches the compiler would make the softmax wait for the products.
            if (ends) {
                if (V::kEndsLate) end_item(ended, output);
            } else {
                correct(output, correction);
            }
            wgmma_wait<0>();
            wgmma_hold(output);
            wgmma_hold(scores);
            if (follows) {
                if (!ends) release_tile(&shared_.value_empty[value_.stage]);
                value_.advance();
            }
            adds = follows && !ends;
            follows = true;
            round_weights(scores, weights);
        }
    }

  private:
    using Scores = Fragment<V::kTile>;
    using Output = Fragment<V::kHeadDim>;
    static constexpr int kSlices = Scores::kSlices;  // of the weights, as A of a product
    static constexpr int kQuerySlices = V::kHeadDim / 16;
    // The last tile of a span where no more of it is visible.
    static constexpr int kShortTile = 64;
    static constexpr bool kHasShort = V::kTile > kShortTile;

    enum class Next { kTile, kItem, kEnd };

    // Waits for the current step and reads it.
    __device__ void begin_step() {
        barrier_wait(&shared_.step_full[step_.stage], step_.parity, "a step");
        const Step& step = shared_.steps[step_.stage];
        token_ = step.token;
        tiles_ = step.tiles;
        end_token_ = __shfl_sync(~0U, step.end_token, 0);  // no branch on it diverges
        unmasked_first_ = step.unmasked_first;
        unmasked_end_ = step.unmasked_end;
        base_ = step.base;
    }

    __device__ void end_step() {
        barrier_arrive(&shared_.step_empty[step_.stage]);
        step_.advance();
    }

    __device__ void begin_queries() {
        barrier_wait(&shared_.query_full[query_slot_.stage], query_slot_.parity, "queries");
        query_operand_ =
            wgmma_operand(shared_address(shared_.queries[query_slot_.stage]) + group_ * kGroupVectors * 128, 1024);
    }

    __device__ void end_queries() {
        barrier_arrive(&shared_.query_empty[query_slot_.stage]);
        query_slot_.advance();
    }

    // Writes the queries of the block's first step to its query slot. All consumers call it, and may then use them.
    __device__ void write_first_queries() const {
        const int thread = static_cast<int>(threadIdx.x) - (kThreads - kConsumers);
        const Step& step = shared_.steps[step_.stage];
        QueryWriter<V, kConsumers, kConsumerBarrier>(shared_, p_, thread)
            .write(query_slot_.stage, step.vectors, step.base);
        named_barrier_sync(kConsumerBarrier, kConsumers);
    }

    // Begins the item of the current step. False: there are no more items.
    __device__ bool begin_item() {
        if (tiles_ == 0) return false;
        begin_queries();
        return true;
    }

    // Goes on to the next tile.
    __device__ Next advance() {
        token_ += V::kTile;
        if (--tiles_ > 0) return Next::kTile;
        const bool last = shared_.steps[step_.stage].last;
        end_step();
        if (last) end_queries();  // the preparers may wait for an empty slot
        begin_step();
        if (last) return begin_item() ? Next::kItem : Next::kEnd;
        if (shared_.steps[step_.stage].new_queries) {
            end_queries();
            begin_queries();
        }
        return Next::kTile;
    }

    // Where an item's results are written: Step::partial, and the two vectors of the thread.
    struct Destination {
        int partial;
        Vector vectors[2];
    };

    // An item's factors of its output, for the thread's two vectors, and their log-sum-exps to base 2.
    struct Result {
        Destination destination;
        float factor[2];
        float lse[2];
    };

    // Of the current step and queries.
    __device__ Destination read_destination() const {
        const Step& step = shared_.steps[step_.stage];
        const Vector* const vectors = shared_.vectors[query_slot_.stage] + vector_;
        return {step.partial, {vectors[0], vectors[8]}};
    }

    // Arrives for the loaders of all blocks of the cluster, because each of them writes to all blocks.
    __device__ void release_tile(uint64_t* barrier) const {
        __syncwarp();
        if constexpr (V::kCluster == 1) {
            if (lane_ == 0) barrier_arrive(barrier);
        } else {
            if (lane_ < V::kCluster) barrier_arrive_at(barrier, lane_);
        }
    }

    // The two warpgroups alternate: one issues its products while the other computes its softmax.
    __device__ void await_issue() const { named_barrier_sync(kSchedulerBarrier + group_, kGroups * kGroupThreads); }
    __device__ void pass_issue() const {
        named_barrier_arrive(kSchedulerBarrier + 1 - group_, kGroups * kGroupThreads);
    }

    // Begins the softmax of the item that the next tile belongs to.
    __device__ void begin_sums() {
        destination_ = read_destination();
#pragma unroll
        for (OnlineSoftmax& softmax : softmax_) softmax = OnlineSoftmax();
    }

    __device__ Result result() const {
        Result result;
        result.destination = destination_;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const float sum = four_lanes_sum(softmax_[h].sum);
            result.factor[h] = sum == 0 ? 0.0F : fast_divide(p_.a.rule.value_scale, sum);
            result.lse[h] = sum == 0 ? -INFINITY : fmaf(softmax_[h].highest, p_.rule.factor, __log2f(sum));
        }
        return result;
    }

    // Waits for the product that completes an item's output, and writes the output.
    __device__ __forceinline__ void end_item(const Result& result, Output& output) {
        wgmma_wait<0>();
        wgmma_hold(output);
        release_tile(&shared_.value_empty[value_.stage]);
        write(result, output);
        wgmma_hold(output);
    }

    __device__ void await_values(int present) {
        barrier_wait(&shared_.value_full[value_.stage], value_.parity, "values");
        if (present < V::kTile && present % V::kPart != 0) clear_values(present);
    }

    __device__ __forceinline__ void finish_last(Output& output, const uint32_t (&weights)[kSlices][4], int present,
                                                bool adds) {
        wgmma_hold(output);
        await_values(present);
        start_output(output, weights, present, adds);
        wgmma_wait<0>();
        wgmma_hold(output);
        write(result(), output);
    }

    // Whether the current step has a next tile that is visible to all rows as a whole, or a short last one.
    __device__ bool full_tile_follows() const {
        const int next = token_ + V::kTile;
        return tiles_ > 1 && next + V::kTile <= unmasked_end_ && (!V::kWindow || next >= unmasked_first_);
    }
    __device__ bool short_tile_follows() const {
        return tiles_ == 2 && end_token_ - token_ <= V::kTile + kShortTile;
    }

    // Computes the scores and weights of a tile of these two kinds, and adds the values of the tile before it, which
    // has all its tokens, to `output`. Both tiles are of the same item, step and queries. `follows`, `adds`: as in
    // run().
    template <int kTokens>
    __device__ __forceinline__ void do_tile(Output& output, uint32_t (&weights)[kSlices][4], bool follows, bool adds) {
        token_ += V::kTile;
        --tiles_;
        Fragment<kTokens> scores;
        float correction[2];
        barrier_wait(&shared_.key_full[key_.stage], key_.parity, "keys");
        await_issue();
        wgmma_hold(output);
        wgmma_fence();
        start_scores(scores);
        if (follows) barrier_wait(&shared_.value_full[value_.stage], value_.parity, "values");
        multiply_values<V::kTile>(output, weights, adds);
        pass_issue();
        wgmma_wait<1>();
        wgmma_hold(scores);
        release_tile(&shared_.key_empty[key_.stage]);
        key_.advance();
        if (V::kSoftCap) cap_products(p_.rule, scores);
        if (kTokens < V::kTile) mask_tile(scores);
        weigh_tile(scores, correction);
        wgmma_hold(scores);
        correct(output, correction);
        wgmma_wait<0>();
        wgmma_hold(output);
        wgmma_hold(scores);
        if (follows) {
            release_tile(&shared_.value_empty[value_.stage]);
            value_.advance();
        }
        round_weights(scores, weights);
    }

    // Issues the product of the queries with the keys of the tile's first kTokens tokens.
    template <int kTokens>
    __device__ __forceinline__ void start_scores(Fragment<kTokens>& scores) {
        using Product = Wgmma<T, kTokens>;
        const uint64_t keys = wgmma_operand(shared_address(shared_.keys[key_.stage]), V::kOctetBytes);
#pragma unroll
        for (int k = 0; k < kQuerySlices; ++k) {
            const uint64_t b = keys + static_cast<uint64_t>((k / 4 * V::kBlockBytes + k % 4 * 32) >> 4);
            const uint64_t q = query_operand_ + static_cast<uint64_t>((k / 4 * V::kQueryBlockBytes + k % 4 * 32) >> 4);
            if (k == 0) {
                Product::multiply(scores, q, b);
            } else {
                Product::multiply_add(scores, q, b);
            }
        }
        wgmma_commit();
    }

    // Issues the product of the weights with the tile's first `present` values, rounded up to parts of kPart. Each
    // number of parts has a fence and a group of products of its own: at a branch inside a group the compiler would
    // split it, and waits would be for other products.
    template <int kTokens = V::kTile>
    __device__ __forceinline__ void start_output(Output& output, const uint32_t (&weights)[kSlices][4], int present,
                                                 bool adds) {
        if constexpr (kTokens > V::kPart) {
            if (present <= kTokens - V::kPart) {
                start_output<kTokens - V::kPart>(output, weights, present, adds);
                return;
            }
        }
        multiply_values<kTokens>(output, weights, adds);
    }

    template <int kTokens>
    __device__ __forceinline__ void multiply_values(Output& output, const uint32_t (&weights)[kSlices][4], bool adds) {
        using Product = Wgmma<T, V::kHeadDim>;
        const uint64_t values =
            wgmma_operand(shared_address(shared_.values[value_.stage]), V::kOctetBytes, V::kBlockBytes);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < kTokens / 16; ++k) {
            Product::template multiply_add<true>(
                output, weights[k], values + static_cast<uint64_t>(k * 2 * V::kOctetBytes >> 4), k > 0 || adds);
        }
        wgmma_commit();
    }

    // Zeros the values of tokens after a span's end in the part that has the last tokens: their weights are 0, but the
    // values may be NaN, and 0 * NaN is NaN.
    __device__ void clear_values(int present) {
        const int read = (present + V::kPart - 1) / V::kPart * V::kPart;
        std::byte* const values = shared_.values[value_.stage];
        const int thread = static_cast<int>(threadIdx.x) % kGroupThreads;
#pragma unroll 1
        for (int i = present * 8 * V::kBlocks + thread; i < read * 8 * V::kBlocks; i += kGroupThreads) {
            const int token = i / (8 * V::kBlocks);
            const int column = i % (8 * V::kBlocks);  // 16 bytes
            *reinterpret_cast<uint4*>(values + column / 8 * V::kBlockBytes + token / 8 * V::kOctetBytes +
                                      token % 8 * 128 + column % 8 * 16) = make_uint4(0, 0, 0, 0);
        }
        fence_async_proxy();
        named_barrier_sync(kGroupBarrier + group_, kGroupThreads);
    }

    // Scores of tokens that a row does not attend to become -infinity. As scores.cuh's mask, but a column is compared
    // with limits that count from the lane's first column, and the window's only where there is one: half the
    // instructions.
    template <int kTokens>
    __device__ __forceinline__ void mask_tile(Fragment<kTokens>& scores) const {
        const int first = token_ + Fragment<kTokens>::first_column(lane_);
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const int position = destination_.vectors[h].position - base_;
            const int end = (p_.a.rule.causal ? causal_end(position, end_token_) : end_token_) - first;
            const int from = V::kWindow ? window_first(p_.a.rule, position) - first : 0;
#pragma unroll
            for (int j = 0; j < Fragment<kTokens>::kOctets; ++j) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    bool visible = 8 * j + i < end;
                    if constexpr (V::kWindow) visible = visible && 8 * j + i >= from;
                    float& score = scores.at(j, h, i);
                    score = visible ? score : -INFINITY;
                }
            }
        }
    }

    // The soft cap, and the mask where not all rows attend to the whole tile.
    __device__ __forceinline__ void modify_scores(Scores& scores) const {
        if (V::kSoftCap) cap_products(p_.rule, scores);
        bool part = token_ + V::kTile > unmasked_end_;
        if constexpr (V::kWindow) part = part || token_ < unmasked_first_;
        if (part) mask_tile(scores);
    }

    // The online softmax: scores become weights relative to the rows' highest so far. `correction`: factors of the
    // output and the sums so far. It has a form of its own, because it is as long as the products that run beside it:
    // scores are multiplied by the rule's factor where the highest is subtracted, and the highest is raised rarely.
    template <int kTokens>
    __device__ __forceinline__ void weigh_tile(Fragment<kTokens>& scores, float (&correction)[2]) {
        const float factor = p_.rule.factor;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            float high[2] = {scores.at(0, h, 0), scores.at(0, h, 1)};
#pragma unroll
            for (int j = 1; j < Fragment<kTokens>::kOctets; ++j) {
#pragma unroll
                for (int i = 0; i < 2; ++i) high[i] = fmaxf(high[i], scores.at(j, h, i));
            }
            const float before = softmax_[h].highest;
            float highest = fmaxf(four_lanes_max(fmaxf(high[0], high[1])), before);
            // Weights up to 2^8 are exact enough, and so most tiles need no correction.
            if ((highest - before) * factor <= 8.0F) highest = before;
            softmax_[h].highest = highest;
            const float reference = weight_reference(highest);
            correction[h] = fast_exp2((before - reference) * factor);
            const float offset = reference * factor;
            float part_sum[2] = {0, 0};
#pragma unroll
            for (int j = 0; j < Fragment<kTokens>::kOctets; ++j) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    float& score = scores.at(j, h, i);
                    score = fast_exp2(fmaf(score, factor, -offset));
                    part_sum[i] += score;
                }
            }
            softmax_[h].sum = fmaf(softmax_[h].sum, correction[h], part_sum[0] + part_sum[1]);
        }
    }

    template <int kTokens>
    __device__ __forceinline__ void round_weights(const Fragment<kTokens>& scores,
                                                  uint32_t (&weights)[kSlices][4]) const {
#pragma unroll
        for (int k = 0; k < Fragment<kTokens>::kSlices; ++k) scores.template round_slice<T>(k, weights[k]);
    }

    // Corrects the output in flight, where the rows' maxima have grown.
    __device__ __forceinline__ void correct(Output& output, const float (&correction)[2]) const {
        if (__all_sync(~0U, correction[0] == 1.0F && correction[1] == 1.0F)) return;
        wgmma_wait<0>();
        wgmma_hold(output);
        output.scale_rows(correction);
        wgmma_hold(output);
    }

    // Writes the item's output, or its partial result.
    __device__ __forceinline__ void write(const Result& result, const Output& output) const {
        if (result.destination.partial >= 0) {
#pragma unroll
            for (int h = 0; h < 2; ++h) write_partial(result, output, h);
        } else {
#pragma unroll
            for (int h = 0; h < 2; ++h) write_output(result, output, h);
        }
    }

    __device__ __forceinline__ void write_partial(const Result& result, const Output& output, int h) const {
        const Destination& destination = result.destination;
        if (destination.vectors[h].row < 0) return;
        const int64_t at = int64_t{destination.partial} + vector_ + 8 * h;
        float* const to = p_.a.partial.outputs + at * V::kHeadDim + lane_ % 4 * 2;
        const float factor = result.factor[h];
#pragma unroll
        for (int j = 0; j < Output::kOctets; ++j) {
            *reinterpret_cast<float2*>(to + 8 * j) =
                make_float2(output.at(j, h, 0) * factor, output.at(j, h, 1) * factor);
        }
        if (lane_ % 4 == 0) p_.a.partial.sums[at * (V::kHeadDim / 4)] = result.lse[h];
    }

    // The 4 lanes of a row hold pairs of values. Neighbouring lanes exchange one of two pairs, so that each lane writes
    // 8 bytes at a time and the 4 together a sector of 32 bytes.
    __device__ __forceinline__ void write_output(const Result& result, const Output& output, int h) const {
        const Vector vector = result.destination.vectors[h];
        const float factor = result.factor[h];
        const int quarter = lane_ % 4;
        const bool odd = quarter % 2 != 0;
        T* const to =
            p_.a.output + p_.a.output_layout.offset(vector.row, vector.head) + quarter % 2 * 8 + quarter / 2 * 4;
#pragma unroll
        for (int j = 0; j < Output::kOctets; j += 2) {
            const uint32_t low = pack_pair(output.at(j, h, 0) * factor, output.at(j, h, 1) * factor, T());
            const uint32_t high = pack_pair(output.at(j + 1, h, 0) * factor, output.at(j + 1, h, 1) * factor, T());
            const uint32_t got = __shfl_xor_sync(~0U, odd ? low : high, 1);
            const uint2 mine = odd ? make_uint2(got, high) : make_uint2(low, got);
            if (vector.row >= 0) *reinterpret_cast<uint2*>(to + 8 * j) = mine;
        }
        if (p_.a.lse != nullptr && vector.row >= 0 && quarter == 0) {
            p_.a.lse[static_cast<int64_t>(vector.row) * p_.shape.num_heads + vector.head] = result.lse[h] * kLn2;
        }
    }

    Shared<V>& shared_;
    const Parameters<T>& p_;
    int group_;
    int lane_;
    int vector_;
    // The current tile.
    int token_ = 0;
    int tiles_ = 0;  // left of the step, with this one
    int end_token_ = 0;
    int unmasked_first_ = 0;
    int unmasked_end_ = 0;
    int base_ = 0;
    // The item that the current scores belong to.
    Destination destination_{};
    OnlineSoftmax softmax_[2];  // of the thread's two vectors; the highest are of products, without the rule's factor
    uint64_t query_operand_ = 0;
    RingPosition<kSteps> step_;
    RingPosition<V::kQuerySlots> query_slot_;
    RingPosition<V::kStages> key_;
    RingPosition<V::kStages> value_;
};

}  // namespace nanolith::cuda::wide
