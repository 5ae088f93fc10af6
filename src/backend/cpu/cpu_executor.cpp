#include "backend/cpu/cpu_executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "backend/check_batch.h"
#include "backend/cpu/attention_tile.h"
#include "backend/cpu/read_speed.h"
#include "backend/cpu/token_weights.h"
#include "backend/forward.h"
#include "backend/probe.h"
#include "backend/profile.h"
#include "backend/progress.h"

namespace nanolith::cpu {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
// Of the creation's progress: the weights are there.
constexpr double kLoaded = 0.8;

// Clears the running batch however the run ends.
class BatchScope {
  public:
    BatchScope(const Batch*& current, const Batch& batch) : current_(current) { current_ = &batch; }
    ~BatchScope() { current_ = nullptr; }
    BatchScope(const BatchScope&) = delete;
    BatchScope& operator=(const BatchScope&) = delete;

  private:
    const Batch*& current_;
};

uint64_t saturating_sum(std::initializer_list<uint64_t> terms) {
    uint64_t total = 0;
    for (const uint64_t term : terms) {
        if (__builtin_add_overflow(total, term, &total)) return std::numeric_limits<uint64_t>::max();
    }
    return total;
}

// The largest position that a key or query of the batch is rotated for; a query is rotated for each of its segments.
int32_t farthest_turn(const Batch& batch) {
    int32_t farthest = *std::max_element(batch.key_positions.begin(), batch.key_positions.end());
    for (const Sequence& sequence : batch.sequences) {
        const int32_t last = batch.positions[sequence.first_row + sequence.num_rows - 1];
        for (int32_t i = 0; i < sequence.num_segments; ++i)
            farthest = std::max(farthest, last - batch.segments[sequence.first_segment + i].base);
    }
    return farthest;
}

AttentionShape attention_shape(const ModelSpec& spec, const ExecutorOptions& options) {
    return {.num_heads = spec.num_heads,
            .pool = {spec.num_kv_heads, options.page_size, spec.head_dim, options.page_dtype()},
            .query_dtype = DType::f32,
            .output_dtype = options.dtype,
            .batch_invariant = options.batch_invariant};
}

}  // namespace

template <typename T>
CpuExecutor<T>::CpuExecutor(ModelSpec spec, const ExecutorOptions& options, ThreadPool& pool)
    : spec_(std::move(spec)),
      options_(options),
      pool_(pool),
      turns_(spec_.ropes.begin(), spec_.ropes.end()),
      attention_(attention_shape(spec_, options)) {}

template <typename T>
Result<std::unique_ptr<Executor>> CpuExecutor<T>::create(const ModelSpec& spec, const ModelWeights& weights,
                                                         const ExecutorOptions& options, ThreadPool& pool,
                                                         uint64_t available, const Progress& progress) {
    NL_TRY(report(progress, 0));
    std::unique_ptr<CpuExecutor> executor(new CpuExecutor(spec, options, pool));
    const uint64_t wanted = executor->bytes_wanted(weights);
    if (wanted > available)
        return fail(NL_ERROR_OUT_OF_MEMORY, "the model with a pool of ", options.num_pages, " pages of ",
                    options.page_size, " tokens needs ", static_cast<double>(wanted) / kGiB, " GiB of memory, but ",
                    static_cast<double>(available) / kGiB, " GiB are available");
    NL_TRY(executor->allocate());
    PartProgress loading(progress, 0, kLoaded, weight_bytes<T>(weights, options.weights));
    NL_ASSIGN(executor->weights_, load_weights<T>(spec, weights, pool, options.weights, loading));
    NL_TRY(executor->make_products(progress));
    if (options.profile != nullptr) {
        executor->matrices_ = matrix_bytes(weights, options.weights, options.dtype);
        NL_ASSIGN(const double bytes_per_second, measure_read_speed(pool));
        options.profile->set_ceiling({bytes_per_second, 0});
    }
    return std::unique_ptr<Executor>(std::move(executor));
}

template <typename T>
uint64_t CpuExecutor<T>::bytes_wanted(const ModelWeights& weights) const {
    const int64_t rows = padded_rows(options_.max_rows);
    const int64_t row_bytes = int64_t{spec_.hidden_size} * static_cast<int64_t>(8 + 2 * sizeof(T)) + 4 * wide_width() +
                              (query_width() + inner_width()) * static_cast<int64_t>(sizeof(T));
    return saturating_sum(
        {weight_bytes<T>(weights, options_.weights), saturating_product({rows, row_bytes}),
         Products<T>::scratch_bytes(most_product_rows(), most_product_depth()),
         saturating_product({spec_.num_layers, options_.num_pages, attention_.shape().pool.page_bytes()}),
         saturating_product({padded_rows(options_.max_output_rows), int64_t{spec_.vocab_size} + spec_.hidden_size, 4}),
         saturating_product({options_.max_kept_logits, spec_.vocab_size, 4}),
         saturating_product({static_cast<int64_t>(spec_.ropes.size()), spec_.max_context, spec_.head_dim, 4})});
}

template <typename T>
Result<void> CpuExecutor<T>::allocate() {
    const int64_t rows = padded_rows(options_.max_rows);
    const int64_t hidden = spec_.hidden_size;
    const int64_t output_rows = padded_rows(options_.max_output_rows);
    NL_ASSIGN(residual_, Buffer<float>::allocate("the residual stream", {rows, hidden}));
    NL_ASSIGN(normalized_, Buffer<T>::allocate("normalized rows", {rows, hidden}));
    NL_ASSIGN(wide_, Buffer<float>::allocate("projected rows", {rows, wide_width()}));
    NL_ASSIGN(attended_, Buffer<T>::allocate("attended rows", {rows, query_width()}));
    NL_ASSIGN(gated_, Buffer<T>::allocate("gated rows", {rows, inner_width()}));
    NL_ASSIGN(added_, Buffer<float>::allocate("rows to be added", {rows, hidden}));
    if (spec_.experts.count > 0) {
        NL_ASSIGN(gathered_, Buffer<T>::allocate("rows of an expert", {rows, hidden}));
    }
    NL_ASSIGN(output_rows_, Buffer<T>::allocate("output rows", {output_rows, hidden}));
    NL_ASSIGN(logits_, Buffer<float>::allocate("logits", {output_rows, spec_.vocab_size}));
    NL_ASSIGN(products_,
              Products<T>::create(pool_, most_product_rows(), most_product_depth(), options_.batch_invariant));

    const int64_t page_bytes = attention_.shape().pool.page_bytes();
    for (int32_t layer = 0; layer < spec_.num_layers; ++layer) {
        NL_ASSIGN(auto pool, Buffer<std::byte>::allocate("the page pool of a layer", {options_.num_pages, page_bytes}));
        pools_.push_back(std::move(pool));
    }
    NL_TRY(attention_.reserve(pool_.num_threads()));
    sample_scratch_.resize(pool_.num_threads());
    for (SampleScratch& scratch : sample_scratch_) {
        scratch.edited.reserve(spec_.vocab_size);
        scratch.logits.reserve(spec_.vocab_size);
        scratch.weights.reserve(spec_.vocab_size);
    }
    return {};
}

template <typename T>
Result<void> CpuExecutor<T>::make_products(const Progress& progress) {
    PartProgress making(progress, kLoaded, 1, weights_.layers.size() + 1);
    for (const CpuLayer<T>& layer : weights_.layers) {
        NL_TRY(make_products_of(layer));
        NL_TRY(making.add(1));
    }
    NL_TRY(products_.prepare(weights_.head(), options_.max_output_rows));
    return making.add(1);
}

template <typename T>
Result<void> CpuExecutor<T>::make_products_of(const CpuLayer<T>& layer) {
    const CpuMlp<T>& mlp = layer.experts.empty() ? layer.mlp : layer.experts.front();
    NL_TRY(products_.prepare(layer.qkv, options_.max_rows));
    NL_TRY(products_.prepare(layer.output, options_.max_rows));
    if (!layer.experts.empty()) NL_TRY(products_.prepare(layer.router, options_.max_rows));
    NL_TRY(products_.prepare(mlp.gate_up, options_.max_rows));
    return products_.prepare(mlp.down, options_.max_rows);
}

// ---- Steps ----------------------------------------------------------------------------------------------

template <typename T>
Result<void> CpuExecutor<T>::submit(const Batch& batch) {
    if (in_flight_) return fail(NL_ERROR_INTERNAL, "a step is in flight: expected collect() before another submit()");
    if (undrawn_)
        return fail(NL_ERROR_INTERNAL, "a step has no draws: expected submit_draws() before another submit()");
    NL_TRY(check_batch(spec_, options_, batch, draws_.size()));
    const BatchScope scope(batch_, batch);
    try {
        return compute(batch);
    } catch (const std::bad_alloc&) {
        return fail(NL_ERROR_OUT_OF_MEMORY, "memory ran out during a step of ", batch.tokens.size(), " rows");
    }
}

template <typename T>
Result<void> CpuExecutor<T>::submit_draws(const Batch& batch) {
    if (!undrawn_) return fail(NL_ERROR_INTERNAL, "no step waits for draws: expected submit() with draws_late before");
    undrawn_ = false;
    NL_TRY(check_draws(batch, spec_.vocab_size));
    const BatchScope scope(batch_, batch);
    try {
        NL_TRY(draw());
    } catch (const std::bad_alloc&) {
        return fail(NL_ERROR_OUT_OF_MEMORY, "memory ran out while ", batch.output_rows.size(), " tokens were drawn");
    }
    std::swap(draws_, drawing_);
    in_flight_ = true;
    return {};
}

// The logits of one output row of the step that waits for its draws.
template <typename T>
Result<float*> CpuExecutor<T>::undrawn_logits(int32_t output_row, size_t num_logits) {
    if (!undrawn_) return fail(NL_ERROR_INTERNAL, "no step waits for draws: expected submit() with draws_late before");
    NL_TRY(check_row_of_logits(spec_, output_row, drawing_.size(), num_logits));
    return logits_.data() + output_row * int64_t{spec_.vocab_size};
}

template <typename T>
Result<void> CpuExecutor<T>::read_undrawn(int32_t output_row, std::span<float> logits) {
    NL_ASSIGN(const float* const from, undrawn_logits(output_row, logits.size()));
    std::copy_n(from, logits.size(), logits.begin());
    return {};
}

template <typename T>
Result<void> CpuExecutor<T>::write_undrawn(int32_t output_row, std::span<const float> logits) {
    NL_ASSIGN(float* const to, undrawn_logits(output_row, logits.size()));
    std::ranges::copy(logits, to);
    return {};
}

template <typename T>
Result<void> CpuExecutor<T>::compute(const Batch& batch) {
    for (RotationTable& turns : turns_) turns.grow_to(farthest_turn(batch));
    attention_.plan({batch.page_table, batch.segments, batch.sequences, batch.positions});
    tokens_ = batch.tokens;
    for (int32_t& token : tokens_) {
        if (token < 0) token = std::max(draws_[-1 - token], 0);
    }
    rows_ = static_cast<int64_t>(batch.tokens.size());
    result_rows_ = batch.output_rows;
    result_rows_.insert(result_rows_.end(), batch.state_rows.begin(), batch.state_rows.end());
    std::ranges::sort(result_rows_);
    result_rows_.erase(std::unique(result_rows_.begin(), result_rows_.end()), result_rows_.end());
    drawing_.resize(batch.output_rows.size());
    surprises_.assign(batch.output_rows.size(), 0);
    size_t num_logprobs = 0;
    for (const LogprobQuery& query : batch.logprobs) num_logprobs += 1 + static_cast<size_t>(query.top);
    logprobs_.resize(num_logprobs);
    states_.resize(batch.state_rows.size() * static_cast<size_t>(spec_.hidden_size));
    token_weights_.assign(probed_tokens(batch), 0);
    keeping_ = batch.kept_logits;
    if (!keeping_.empty() && kept_logits_.data() == nullptr) {
        NL_ASSIGN(kept_logits_,
                  Buffer<float>::allocate("logits that are kept", {options_.max_kept_logits, spec_.vocab_size}));
    }
    NL_TRY(embed());
    NL_TRY(options_.profile != nullptr ? forward_timed(batch) : forward(*this, spec_.num_layers));
    undrawn_ = batch.draws_late;
    if (undrawn_) return {};
    std::swap(draws_, drawing_);
    in_flight_ = true;
    return {};
}

template <typename T>
Result<void> CpuExecutor<T>::forward_timed(const Batch& batch) {
    using Clock = std::chrono::steady_clock;
    ByPhase<double> seconds{};
    auto last = Clock::now();
    NL_TRY(forward(*this, spec_.num_layers, [&](Phase phase) -> Result<void> {
        const auto now = Clock::now();
        seconds[index_of(phase)] += std::chrono::duration<double>(now - last).count();
        last = now;
        return {};
    }));
    options_.profile->add(is_decode(batch), static_cast<int64_t>(batch.tokens.size()),
                          step_traffic(spec_, matrices_, options_, batch), seconds);
    return {};
}

template <typename T>
Result<void> CpuExecutor<T>::collect(std::span<int32_t> sampled) {
    if (!in_flight_) return fail(NL_ERROR_INTERNAL, "no step is in flight: expected submit() before collect()");
    if (sampled.size() != draws_.size())
        return fail(NL_ERROR_INTERNAL, "sampled has ", sampled.size(), " elements: expected ", draws_.size());
    std::copy(draws_.begin(), draws_.end(), sampled.begin());
    const int64_t vocab = spec_.vocab_size;
    for (size_t i = 0; i < keeping_.size(); ++i)
        std::copy_n(logits_.data() + keeping_[i] * vocab, vocab, kept_logits_.data() + static_cast<int64_t>(i) * vocab);
    std::swap(kept_, keeping_);
    in_flight_ = false;
    return {};
}

template <typename T>
Result<void> CpuExecutor<T>::read_logits(int32_t index, std::span<float> logits) {
    const auto found = std::find(kept_.begin(), kept_.end(), index);
    if (found == kept_.end())
        return fail(NL_ERROR_INTERNAL, "index is ", index, ": expected one of the ", kept_.size(),
                    " kept_logits of the step collected last");
    if (logits.size() != static_cast<size_t>(spec_.vocab_size))
        return fail(NL_ERROR_INTERNAL, "logits has room for ", logits.size(), " numbers: expected ", spec_.vocab_size);
    std::copy_n(kept_logits_.data() + (found - kept_.begin()) * int64_t{spec_.vocab_size}, logits.size(),
                logits.begin());
    return {};
}

template <typename T>
Result<void> CpuExecutor<T>::read_state(int32_t index, std::span<float> state) {
    const auto hidden = static_cast<size_t>(spec_.hidden_size);
    const size_t count = states_.size() / hidden;
    if (index < 0 || static_cast<size_t>(index) >= count)
        return fail(NL_ERROR_INTERNAL, "index is ", index, ": expected one of the ", count,
                    " state_rows of the step collected last");
    if (state.size() != hidden)
        return fail(NL_ERROR_INTERNAL, "state has room for ", state.size(), " numbers: expected ", hidden);
    std::copy_n(states_.data() + static_cast<size_t>(index) * hidden, hidden, state.begin());
    return {};
}

template <typename T>
Result<void> CpuExecutor<T>::read_logprobs(std::span<TokenLogprob> logprobs) {
    if (logprobs.size() != logprobs_.size())
        return fail(NL_ERROR_INTERNAL, "logprobs has room for ", logprobs.size(), " elements: expected ",
                    logprobs_.size(), ", those of the step collected last");
    std::ranges::copy(logprobs_, logprobs.begin());
    return {};
}

template <typename T>
Result<void> CpuExecutor<T>::read_surprises(std::span<float> surprises) {
    if (surprises.size() != surprises_.size())
        return fail(NL_ERROR_INTERNAL, "surprises has room for ", surprises.size(), " numbers: expected ",
                    surprises_.size(), ", the output rows of the step collected last");
    std::ranges::copy(surprises_, surprises.begin());
    return {};
}

template <typename T>
Result<void> CpuExecutor<T>::read_token_weights(std::span<float> weights) {
    if (weights.size() != token_weights_.size())
        return fail(NL_ERROR_INTERNAL, "weights has room for ", weights.size(), " numbers: expected ",
                    token_weights_.size(), ", the tokens of the probes of the step collected last");
    std::ranges::transform(token_weights_, weights.begin(), [](double weight) { return static_cast<float>(weight); });
    return {};
}

template <typename T>
Result<void> CpuExecutor<T>::copy_pages(std::span<const PageCopy> copies) {
    NL_TRY(check_copies(options_, copies));
    const int64_t bytes = attention_.shape().pool.page_bytes();
    for (const PageCopy& copy : copies) {
        if (copy.from == copy.to) continue;
        for (Buffer<std::byte>& pool : pools_)
            std::memcpy(pool.data() + copy.to * bytes, pool.data() + copy.from * bytes, static_cast<size_t>(bytes));
    }
    return {};
}

template <typename T>
Result<HostMemory> CpuExecutor<T>::allocate_host(size_t bytes) {
    NL_ASSIGN(auto buffer, Buffer<std::byte>::allocate("pages outside the pool", {static_cast<int64_t>(bytes)}));
    try {
        auto owner = std::make_shared<Buffer<std::byte>>(std::move(buffer));
        std::byte* const data = owner->data();
        return HostMemory(data, bytes, [owner](std::byte*) {});
    } catch (const std::bad_alloc&) {
        return fail(NL_ERROR_OUT_OF_MEMORY, "memory ran out for pages outside the pool");
    }
}

template <typename T>
template <typename Copy>
void CpuExecutor<T>::for_page_layers(std::span<const int32_t> pages, const Copy& copy) {
    const int64_t bytes = attention_.shape().pool.page_bytes();
    int64_t outside = 0;
    for (const int32_t page : pages) {
        for (Buffer<std::byte>& pool : pools_) {
            copy(pool.data() + page * bytes, outside, static_cast<size_t>(bytes));
            outside += bytes;
        }
    }
}

template <typename T>
Result<void> CpuExecutor<T>::read_pages(std::span<const int32_t> pages, std::span<std::byte> to) {
    NL_TRY(check_moves(spec_, options_, pages, to.size()));
    for_page_layers(pages, [to](const std::byte* inside, int64_t outside, size_t bytes) {
        std::memcpy(to.data() + outside, inside, bytes);
    });
    return {};
}

template <typename T>
Result<void> CpuExecutor<T>::write_pages(std::span<const int32_t> pages, std::span<const std::byte> from) {
    NL_TRY(check_moves(spec_, options_, pages, from.size()));
    for_page_layers(pages, [from](std::byte* inside, int64_t outside, size_t bytes) {
        std::memcpy(inside, from.data() + outside, bytes);
    });
    return {};
}

// ---- Operations -----------------------------------------------------------------------------------------

// Calls work(row, thread) for `count` rows, of which each reads and writes about so many numbers.
template <typename T>
template <typename Work>
void CpuExecutor<T>::for_rows(int64_t count, int64_t numbers, const Work& work) {
    pool_.run(count, cost_of_bytes(count * numbers * static_cast<int64_t>(sizeof(float))), work);
}

template <typename T>
void CpuExecutor<T>::normalize_rows(const std::vector<float>& weight) {
    const int64_t hidden = spec_.hidden_size;
    for_rows(rows(), 2 * hidden, [&](int64_t row, int32_t) {
        rms_norm(residual_.data() + row * hidden, weight.data(), hidden, spec_.norm_epsilon,
                 normalized_.data() + row * hidden);
    });
}

template <typename T>
Result<void> CpuExecutor<T>::embed() {
    const int64_t hidden = spec_.hidden_size;
    for_rows(rows(), 2 * hidden, [&](int64_t row, int32_t) {
        const int64_t token = tokens_[row];
        float* x = residual_.data() + row * hidden;
        if (weights_.embedding.compact()) {
            expand_row(weights_.embedding.parts, token, x);
        } else {
            convert(weights_.embedding.data + token * hidden, hidden, x);
        }
        if (spec_.embedding_scale != 1) scale_row(x, spec_.embedding_scale, hidden, x);
    });
    return {};
}

// Bias, QK-norm, RoPE on the keys, and the row's place in the pages. The queries stay un-rotated for attention.
template <typename T>
void CpuExecutor<T>::finish_qkv_row(int32_t index, int64_t row) {
    const CpuLayer<T>& layer = weights_.layers[index];
    const int64_t dim = spec_.head_dim;
    float* queries = wide_.data() + row * qkv_width();
    float* keys = queries + query_width();
    float* values = keys + spec_.num_kv_heads * dim;
    if (!layer.qkv_bias.empty()) add(layer.qkv_bias.data(), qkv_width(), queries);
    if (!layer.q_norm.empty()) {
        for (int64_t head = 0; head < spec_.num_heads; ++head)
            rms_norm(queries + head * dim, layer.q_norm.data(), dim, spec_.norm_epsilon, queries + head * dim);
    }
    const int32_t slot = batch_->slots[row];
    if (slot == kNoSlot) return;
    const float* turn = turns_of(index).row(batch_->key_positions[row]);
    for (int64_t head = 0; head < spec_.num_kv_heads; ++head) {
        float* key = keys + head * dim;
        if (!layer.k_norm.empty()) rms_norm(key, layer.k_norm.data(), dim, spec_.norm_epsilon, key);
        append_head(attention_.shape().pool, pages(index), slot, head, turn, key, values + head * dim);
    }
}

template <typename T>
Result<void> CpuExecutor<T>::attention_input(int32_t layer) {
    const CpuLayer<T>& weights = weights_.layers[layer];
    normalize_rows(weights.attention_norm);
    NL_TRY(products_.run(weights.qkv, normalized_.data(), rows(), wide_.data(), false));
    for_rows(rows(), 2 * qkv_width(), [&](int64_t row, int32_t) { finish_qkv_row(layer, row); });
    return {};
}

template <typename T>
Result<void> CpuExecutor<T>::attention(int32_t layer) {
    const Pages<void> pool = pages(layer);
    const int64_t dim = spec_.head_dim;
    const AttentionRule rule{.turns = &turns_of(layer),
                             .scale = spec_.attention_scale,
                             .softcap = spec_.attention_softcap,
                             .window = spec_.layers[layer].window};
    const AttentionTensors tensors{.queries = {wide_.data(), qkv_width(), dim},
                                   .pages = {pool.data, pool.k_scale, pool.v_scale},
                                   .output = {attended_.data(), query_width(), dim}};
    attention_.run(rule, tensors, pool_);
    if (!batch_->probes.empty() && is_probed(spec_, layer)) probe(rule, tensors);
    return {};
}

template <typename T>
void CpuExecutor<T>::probe(const AttentionRule& rule, const AttentionTensors& tensors) {
    const AttentionStep step{batch_->page_table, batch_->segments, batch_->sequences, batch_->positions};
    std::span<double> weights = token_weights_;
    for (const Probe& probe : batch_->probes) {
        const Sequence& sequence = batch_->sequences[probe.sequence];
        const size_t tokens = tokens_of(*batch_, sequence);
        add_token_weights({attention_.shape(), step, sequence, rule, tensors.queries, tensors.pages}, pool_,
                          weights.first(tokens));
        weights = weights.subspan(tokens);
    }
}

// residual += norm(w x + bias); without the norm and the bias where there are none.
template <typename T>
Result<void> CpuExecutor<T>::add_product(const Matrix<T>& w, T* x, const std::vector<float>& bias,
                                         const std::vector<float>& post_norm) {
    if (bias.empty() && post_norm.empty()) return products_.run(w, x, rows(), residual_.data(), true);
    NL_TRY(products_.run(w, x, rows(), added_.data(), false));
    const int64_t hidden = spec_.hidden_size;
    for_rows(rows(), 2 * hidden, [&](int64_t row, int32_t) {
        float* y = added_.data() + row * hidden;
        if (!bias.empty()) add(bias.data(), hidden, y);
        if (!post_norm.empty()) rms_norm(y, post_norm.data(), hidden, spec_.norm_epsilon, y);
        add(y, hidden, residual_.data() + row * hidden);
    });
    return {};
}

// Moves the rows that head() reads to the front, and leaves the others: behind the last attention nobody reads them.
template <typename T>
void CpuExecutor<T>::keep_result_rows() {
    rows_ = static_cast<int64_t>(result_rows_.size());
    for (int64_t i = 0; i < rows_; ++i) {
        const int64_t row = result_rows_[i];
        if (row == i) continue;
        std::copy_n(residual_.data() + row * spec_.hidden_size, spec_.hidden_size,
                    residual_.data() + i * spec_.hidden_size);
        std::copy_n(attended_.data() + row * query_width(), query_width(), attended_.data() + i * query_width());
    }
}

template <typename T>
Result<void> CpuExecutor<T>::attention_output(int32_t layer) {
    if (layer + 1 == spec_.num_layers) keep_result_rows();
    const CpuLayer<T>& weights = weights_.layers[layer];
    return add_product(weights.output, attended_.data(), weights.output_bias, weights.attention_post_norm);
}

// gated = activation(gate x) * (up x) for `count` rows of x.
template <typename T>
Result<void> CpuExecutor<T>::gate(const CpuMlp<T>& mlp, T* x, int64_t count) {
    NL_TRY(products_.run(mlp.gate_up, x, count, wide_.data(), false));
    const int64_t inner = mlp.gate_up.outputs / 2;
    for_rows(count, 3 * inner, [&](int64_t row, int32_t) {
        float* gates = wide_.data() + row * 2 * inner;
        if (!mlp.gate_up_bias.empty()) add(mlp.gate_up_bias.data(), 2 * inner, gates);
        if (spec_.activation == Activation::silu)
            silu_mul(gates, gates + inner, inner, gated_.data() + row * inner);
        else
            gelu_tanh_mul(gates, gates + inner, inner, gated_.data() + row * inner);
    });
    return {};
}

template <typename T>
Result<void> CpuExecutor<T>::mlp_input(int32_t layer) {
    const CpuLayer<T>& weights = weights_.layers[layer];
    normalize_rows(weights.mlp_norm);
    if (weights.experts.empty()) return gate(weights.mlp, normalized_.data(), rows());
    NL_TRY(products_.run(weights.router, normalized_.data(), rows(), wide_.data(), false));
    routing_.choose(spec_.experts, wide_.data(), rows());
    return {};
}

template <typename T>
Result<void> CpuExecutor<T>::mlp_output(int32_t layer) {
    const CpuLayer<T>& weights = weights_.layers[layer];
    if (weights.experts.empty())
        return add_product(weights.mlp.down, gated_.data(), weights.mlp.down_bias, weights.mlp_post_norm);
    for (size_t expert = 0; expert < weights.experts.size(); ++expert)
        NL_TRY(add_expert(weights.experts[expert], routing_.rows_of(static_cast<int32_t>(expert))));
    return {};
}

// residual += share * expert(normalized) for the rows that chose the expert.
template <typename T>
Result<void> CpuExecutor<T>::add_expert(const CpuMlp<T>& expert, std::span<const Route> routes) {
    if (routes.empty()) return {};
    const int64_t hidden = spec_.hidden_size;
    const auto count = static_cast<int64_t>(routes.size());
    for (int64_t i = 0; i < count; ++i)
        std::copy_n(normalized_.data() + routes[i].row * hidden, hidden, gathered_.data() + i * hidden);
    NL_TRY(gate(expert, gathered_.data(), count));
    NL_TRY(products_.run(expert.down, gated_.data(), count, added_.data(), false));
    for_rows(count, 3 * hidden, [&](int64_t i, int32_t) {
        const Route& route = routes[i];
        float* y = added_.data() + i * hidden;
        scale_row(y, route.share, hidden, y);
        add(y, hidden, residual_.data() + route.row * hidden);
    });
    return {};
}

// to[i] = the final norm of the batch's row batch_rows[i], which is one of result_rows_.
template <typename T>
template <typename Out>
void CpuExecutor<T>::finish_rows(std::span<const int32_t> batch_rows, Out* to) {
    const int64_t hidden = spec_.hidden_size;
    for_rows(static_cast<int64_t>(batch_rows.size()), 2 * hidden, [&](int64_t i, int32_t) {
        const auto place = std::ranges::lower_bound(result_rows_, batch_rows[i]) - result_rows_.begin();
        const float* x = residual_.data() + place * hidden;
        rms_norm(x, weights_.final_norm.data(), hidden, spec_.norm_epsilon, to + i * hidden);
    });
}

template <typename T>
Result<void> CpuExecutor<T>::head() {
    finish_rows(batch_->state_rows, states_.data());
    return batch_->output_rows.empty() ? Result<void>() : compute_logits();
}

template <typename T>
Result<void> CpuExecutor<T>::compute_logits() {
    const auto count = static_cast<int64_t>(batch_->output_rows.size());
    const int64_t vocab = spec_.vocab_size;
    finish_rows(batch_->output_rows, output_rows_.data());
    NL_TRY(products_.run(weights_.head(), output_rows_.data(), count, logits_.data(), false));
    if (spec_.logit_softcap > 0) {
        for_rows(count, 2 * vocab,
                 [&](int64_t i, int32_t) { softcap(logits_.data() + i * vocab, vocab, spec_.logit_softcap); });
    }
    return batch_->draws_late ? Result<void>() : draw();
}

template <typename T>
Result<void> CpuExecutor<T>::draw() {
    const int64_t vocab = spec_.vocab_size;
    for_rows(static_cast<int64_t>(batch_->output_rows.size()), 2 * vocab, [&](int64_t i, int32_t thread) {
        const std::span<const float> logits(logits_.data() + i * vocab, static_cast<size_t>(vocab));
        const Drawn drawn =
            sample(logits, draw_rule(*batch_, static_cast<size_t>(i), spec_.vocab_size), sample_scratch_[thread]);
        drawing_[i] = drawn.token;
        surprises_[i] = drawn.surprise;
    });
    return answer_logprobs();
}

template <typename T>
Result<void> CpuExecutor<T>::answer_logprobs() {
    const int64_t vocab = spec_.vocab_size;
    std::vector<size_t> places;
    size_t place = 0;
    for (const LogprobQuery& query : batch_->logprobs) {
        places.push_back(place);
        place += 1 + static_cast<size_t>(query.top);
    }
    for_rows(static_cast<int64_t>(places.size()), 2 * vocab, [&](int64_t i, int32_t) {
        LogprobQuery query = batch_->logprobs[i];
        if (query.token < 0) query.token = std::max(drawing_[query.output_row], 0);  // 0: the draw failed
        const std::span<const float> logits(logits_.data() + query.output_row * vocab, static_cast<size_t>(vocab));
        find_logprobs(logits, query, std::span(logprobs_).subspan(places[i]));
    });
    return {};
}

template class CpuExecutor<float>;
template class CpuExecutor<BFloat16>;

}  // namespace nanolith::cpu
