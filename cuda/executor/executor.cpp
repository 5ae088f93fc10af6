#include "executor/executor.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <future>
#include <memory>
#include <new>
#include <system_error>
#include <type_traits>
#include <utility>

#include "backend/check_batch.h"
#include "backend/check_model.h"
#include "backend/forward.h"
#include "backend/profile.h"
#include "backend/progress.h"
#include "batch/late_draws.h"
#include "executor/decoder.h"
#include "executor/graph_cache.h"
#include "executor/move_pages.h"
#include "executor/phase_events.h"
#include "executor/step_slots.h"
#include "executor/warm_up.h"
#include "runtime/ceiling.h"
#include "runtime/nvtx.h"
#include "runtime/stream.h"

namespace nanolith::cuda {

namespace {

// Batches of more rows run without a graph: their launches cost little beside their work, and their shapes, those of
// prefills, seldom come again.
constexpr int kMaxGraphRows = 512;
// Steps of a shape that run without a graph before one is recorded, while an executor warms up and later.
constexpr int kPlainStepsOfWarmUp = 1;
constexpr int kPlainSteps = 3;
// The share of the progress of the executor's creation when the weights are on the device.
constexpr double kLoaded = 0.8;
// Between two reports of the progress once they are there, until the steps that load kernels have ended.
constexpr std::chrono::milliseconds kBetweenReports(10);

// Puts steps on one stream, one after the other. submit() waits for nothing, and where the step has a graph it makes
// four calls of CUDA's runtime: it asks which device is current, launches the first kernel, which reads the batch from
// host memory, launches the graph, and records the event that collect() waits for. Drawn tokens need no call: the last
// kernel writes them to host memory.
template <typename T>
class CudaExecutor final : public Executor {
  public:
    CudaExecutor(int device, const GpuFacts& gpu, ModelSpec spec, const ExecutorOptions& options)
        : device_(device),
          spec_(std::move(spec)),
          options_(options),
          step_layers_(spec_.num_layers),
          decoder_(std::make_unique<Decoder<T>>(gpu, spec_, options)) {}

    ~CudaExecutor() override {
        // The members must be freed while their device is current. If it cannot be made so, freeing fails in silence.
        const DeviceGuard guard(device_);
        if (stream_) cudaStreamSynchronize(stream_.get());
        graphs_.clear();
        phases_ = PhaseEvents();
        slots_ = StepSlots();
        late_draws_ = LateDraws();
        batch_ = DeviceBatch();
        probes_.release();
        page_table_ = PageTable();
        decoder_.reset();
        stream_.reset();
    }

    Result<void> initialise(const ModelWeights& weights, const Progress& progress) {
        NL_TRY(report(progress, 0));
        NL_ASSIGN(stream_, create_stream());
        NL_ASSIGN(slots_, StepSlots::create(options_.max_output_rows));
        NL_ASSIGN(late_draws_, LateDraws::create());
        NL_TRY(decoder_->allocate(weights, stream_.get()));
        NL_TRY(decoder_->clear_page(0));
        if (options_.profile != nullptr) {
            NL_ASSIGN(phases_, PhaseEvents::create(spec_.num_layers));
            NL_ASSIGN(const Ceiling ceiling, device_ceiling(device_, options_.dtype));
            options_.profile->set_ceiling(ceiling);
            matrices_ = matrix_bytes(weights, options_.weights, options_.dtype);
        }
        NL_TRY(options_.warm_up ? upload_beside_warm_up(weights, progress) : decoder_->upload(weights, progress, 1));
        if (options_.profile != nullptr) options_.profile->clear();
        page_table_.forget();
        num_drawn_ = 0;
        return report(progress, 1);
    }

    [[nodiscard]] int32_t max_in_flight() const override {
        return options_.profile != nullptr ? 1 : StepSlots::kMaxInFlight;
    }

    Result<void> submit(const Batch& batch) override {
        if (slots_.in_flight() == max_in_flight()) {
            return fail(NL_ERROR_INTERNAL, max_in_flight(),
                        " steps are in flight: expected collect() before another submit()");
        }
        if (undrawn_)
            return fail(NL_ERROR_INTERNAL, "a step has no draws: expected submit_draws() before another submit()");
        const NvtxRange range(nvtx_, "step", static_cast<int64_t>(batch.tokens.size()));
        Result<void> checked = check_batch(spec_, options_, batch, num_drawn_);
        if (!checked.ok()) {
            page_table_.forget();  // this batch's changes of the page table are not sent
            return checked;
        }
        try {
            return on_device([&] { return put_on_stream(batch); });
        } catch (const std::bad_alloc&) {
            return fail(NL_ERROR_OUT_OF_MEMORY, "host memory ran out for a step of ", batch.tokens.size(), " rows");
        }
    }

    Result<void> submit_draws(const Batch& batch) override {
        if (!undrawn_)
            return fail(NL_ERROR_INTERNAL, "no step waits for draws: expected submit() with draws_late before");
        undrawn_ = false;
        const NvtxRange range(nvtx_, "draws", static_cast<int64_t>(batch.output_rows.size()));
        return on_device([&]() -> Result<void> {
            UnfinishedStep unfinished(*this);
            NL_TRY(check_draws(batch, spec_.vocab_size));
            StepSlot& slot = slots_.next();
            NL_TRY(draw_late(slot, batch));
            NL_TRY(end_step(slot));
            unfinished.submitted();
            return {};
        });
    }

    Result<void> read_undrawn(int32_t output_row, std::span<float> logits) override {
        NL_TRY(check_undrawn(output_row, logits.size()));
        return on_device([&] { return copy_undrawn(logits.data(), undrawn_logits(output_row)); });
    }

    Result<void> write_undrawn(int32_t output_row, std::span<const float> logits) override {
        NL_TRY(check_undrawn(output_row, logits.size()));
        return on_device([&] { return copy_undrawn(undrawn_logits(output_row), logits.data()); });
    }

    Result<void> collect(std::span<int32_t> sampled) override {
        if (slots_.in_flight() == 0) {
            return fail(NL_ERROR_INTERNAL, "no step is in flight: expected submit() before collect()");
        }
        StepSlot& slot = slots_.oldest();
        if (sampled.size() != slot.num_outputs) {
            return fail(NL_ERROR_INTERNAL, "sampled has ", sampled.size(), " elements: expected ", slot.num_outputs);
        }
        const NvtxRange range(nvtx_, "wait", static_cast<int64_t>(slot.num_outputs));
        Result<void> ended = on_device([&]() -> Result<void> {
            NL_CUDA_TRY(cudaEventSynchronize(slot.done.get()));
            return options_.profile != nullptr ? add_to_profile(slot) : Result<void>();
        });
        slots_.pop();
        if (!ended.ok()) {
            slot.kept.clear();
            slot.num_states = 0;
            return ended;
        }
        std::copy_n(slot.sampled.template as<int32_t>(), sampled.size(), sampled.begin());
        return {};
    }

    Result<void> read_logits(int32_t index, std::span<float> logits) override {
        const StepSlot& slot = slots_.collected();
        const auto found = std::ranges::find(slot.kept, index);
        if (found == slot.kept.end()) {
            return fail(NL_ERROR_INTERNAL, "index is ", index, ": expected one of the ", slot.kept.size(),
                        " kept_logits of the step collected last");
        }
        if (logits.size() != vocab_size()) {
            return fail(NL_ERROR_INTERNAL, "logits has ", logits.size(), " elements: expected vocab_size, ",
                        spec_.vocab_size);
        }
        const auto place = static_cast<size_t>(found - slot.kept.begin());
        std::copy_n(slot.logits.template as<float>() + place * vocab_size(), vocab_size(), logits.begin());
        return {};
    }

    Result<void> read_state(int32_t index, std::span<float> state) override {
        const StepSlot& slot = slots_.collected();
        if (index < 0 || static_cast<size_t>(index) >= slot.num_states) {
            return fail(NL_ERROR_INTERNAL, "index is ", index, ": expected one of the ", slot.num_states,
                        " state_rows of the step collected last");
        }
        if (state.size() != hidden_size()) {
            return fail(NL_ERROR_INTERNAL, "state has room for ", state.size(), " numbers: expected hidden_size, ",
                        spec_.hidden_size);
        }
        std::copy_n(slot.states.template as<float>() + static_cast<size_t>(index) * hidden_size(), hidden_size(),
                    state.begin());
        return {};
    }

    Result<void> read_logprobs(std::span<TokenLogprob> logprobs) override {
        const StepSlot& slot = slots_.collected();
        if (logprobs.size() != slot.num_logprobs) {
            return fail(NL_ERROR_INTERNAL, "logprobs has room for ", logprobs.size(), " elements: expected ",
                        slot.num_logprobs, ", those of the step collected last");
        }
        std::copy_n(slot.logprobs.template as<TokenLogprob>(), logprobs.size(), logprobs.begin());
        return {};
    }

    Result<void> read_surprises(std::span<float> surprises) override {
        const StepSlot& slot = slots_.collected();
        if (surprises.size() != slot.num_outputs) {
            return fail(NL_ERROR_INTERNAL, "surprises has room for ", surprises.size(), " numbers: expected ",
                        slot.num_outputs, ", the output rows of the step collected last");
        }
        std::copy_n(slot.surprises.template as<float>(), surprises.size(), surprises.begin());
        return {};
    }

    Result<void> read_token_weights(std::span<float> weights) override {
        const StepSlot& slot = slots_.collected();
        if (weights.size() != slot.num_token_weights) {
            return fail(NL_ERROR_INTERNAL, "weights has ", weights.size(), " elements: expected ",
                        slot.num_token_weights, ", the tokens of the probes of the step collected last");
        }
        std::copy_n(slot.token_weights.template as<float>(), weights.size(), weights.begin());
        return {};
    }

    Result<void> copy_pages(std::span<const PageCopy> copies) override {
        NL_TRY(check_copies(options_, copies));
        return on_device([&]() -> Result<void> {
            for (const PageCopy& copy : copies) NL_TRY(decoder_->copy_page(copy));
            return {};
        });
    }

    Result<HostMemory> allocate_host(size_t bytes) override {
        return on_device([&]() -> Result<HostMemory> {
            NL_ASSIGN(auto pinned, allocate_pinned(bytes, "pages outside the pool"));
            try {
                auto owner = std::make_shared<PinnedBuffer>(std::move(pinned));
                std::byte* const data = owner->data();
                return HostMemory(data, bytes, [owner](std::byte*) {});
            } catch (const std::bad_alloc&) {
                return fail(NL_ERROR_OUT_OF_MEMORY, "host memory ran out for pages outside the pool");
            }
        });
    }

    Result<void> read_pages(std::span<const int32_t> pages, std::span<std::byte> to) override {
        NL_TRY(check_moves(spec_, options_, pages, to.size()));
        return on_device([&]() -> Result<void> {
            NL_TRY(pages_to_host(decoder_->page_pool(), pages, to.data(), stream_.get()));
            NL_CUDA_TRY(cudaStreamSynchronize(stream_.get()));
            return {};
        });
    }

    Result<void> write_pages(std::span<const int32_t> pages, std::span<const std::byte> from) override {
        NL_TRY(check_moves(spec_, options_, pages, from.size()));
        return on_device([&]() -> Result<void> {
            NL_TRY(pages_from_host(decoder_->page_pool(), pages, from.data(), stream_.get()));
            NL_CUDA_TRY(cudaStreamSynchronize(stream_.get()));
            return {};
        });
    }

  private:
    // Lives while a step is put on the stream. If that fails half-way, waits until the device has done what was put
    // there, because the step's slot will be used again. The draws of the step before may be overwritten then, so that
    // no row can ask for them any more.
    class UnfinishedStep {
      public:
        explicit UnfinishedStep(CudaExecutor& executor) : executor_(executor) {}
        ~UnfinishedStep() {
            if (submitted_) return;
            executor_.num_drawn_ = 0;
            cudaStreamSynchronize(executor_.stream_.get());  // an error of the device shows at the next call
        }
        UnfinishedStep(const UnfinishedStep&) = delete;
        UnfinishedStep& operator=(const UnfinishedStep&) = delete;
        void submitted() { submitted_ = true; }

      private:
        CudaExecutor& executor_;
        bool submitted_ = false;
    };

    // Uploads the weights while another thread runs the steps that load kernels, which takes about as long. Where the
    // system gives no thread, those steps come afterwards.
    Result<void> upload_beside_warm_up(const ModelWeights& weights, const Progress& progress) {
        std::atomic<double> warm = 0;
        std::atomic<bool> stops = false;
        const auto run_steps = [&] {
            return warm_up_steps(weights, [&](double done) {
                warm = done;
                return !stops;
            });
        };
        std::future<Result<void>> steps;
        try {
            steps = std::async(std::launch::async, run_steps);
        } catch (const std::system_error&) {
            steps = std::async(std::launch::deferred, run_steps);
        }
        Result<void> uploaded = decoder_->upload(weights, progress, kLoaded);
        while (uploaded.ok() && steps.wait_for(kBetweenReports) == std::future_status::timeout)
            uploaded = report(progress, kLoaded + (1 - kLoaded) * warm);
        stops = !uploaded.ok();
        Result<void> ran = steps.get();
        NL_TRY(uploaded);
        return ran;
    }

    Result<void> warm_up_steps(const ModelWeights& weights, const Progress& progress) {
        const auto run = [&](const Batch& batch, int32_t num_layers) { return run_step(batch, num_layers); };
        plain_steps_ = kPlainStepsOfWarmUp;
        NL_TRY(warm_up(run, spec_, weights, options_, progress));
        plain_steps_ = kPlainSteps;
        return {};
    }

    [[nodiscard]] size_t vocab_size() const { return static_cast<size_t>(spec_.vocab_size); }
    [[nodiscard]] size_t hidden_size() const { return static_cast<size_t>(spec_.hidden_size); }

    // Runs `work` with the device current. After an error that breaks the device CUDA fails every later call with it.
    template <typename Work>
    std::invoke_result_t<Work> on_device(const Work& work) {
        const DeviceGuard guard(device_);
        NL_TRY(guard.result());
        return work();
    }

    Result<void> put_on_stream(const Batch& batch) {
        StepSlot& slot = slots_.next();
        NL_TRY(prepare(slot, batch));
        UnfinishedStep unfinished(*this);
        NL_TRY(lay_out(slot, batch));
        NL_TRY(set_probes(slot, batch));
        NL_TRY(decoder_->begin(batch_, page_table_.data()));
        NL_TRY(launch_forward());
        undrawn_ = batch.draws_late;
        if (!undrawn_) {
            if (batch_.shape().draws_late) NL_TRY(draw_late(slot, batch));
            NL_TRY(end_step(slot));
        }
        unfinished.submitted();
        page_table_.changes_submitted();
        return {};
    }

    Result<void> check_undrawn(int32_t output_row, size_t num_logits) {
        if (!undrawn_)
            return fail(NL_ERROR_INTERNAL, "no step waits for draws: expected submit() with draws_late before");
        return check_row_of_logits(spec_, output_row, slots_.next().num_outputs, num_logits);
    }
    [[nodiscard]] float* undrawn_logits(int32_t output_row) {
        return decoder_->logits() + static_cast<size_t>(output_row) * vocab_size();
    }
    // Copies one row of logits between the host and the device, after what is on the stream. It is there when the call
    // returns.
    Result<void> copy_undrawn(float* to, const float* from) {
        NL_CUDA_TRY(cudaMemcpyAsync(to, from, vocab_size() * sizeof(float), cudaMemcpyDefault, stream_.get()));
        NL_CUDA_TRY(cudaStreamSynchronize(stream_.get()));
        return {};
    }

    // Puts what follows the draws on the stream. The step is in flight then.
    Result<void> end_step(StepSlot& slot) {
        for (size_t i = 0; i < slot.kept.size(); ++i) {
            NL_CUDA_TRY(cudaMemcpyAsync(slot.logits.template as<float>() + i * vocab_size(),
                                        decoder_->logits() + static_cast<size_t>(slot.kept[i]) * vocab_size(),
                                        vocab_size() * sizeof(float), cudaMemcpyDeviceToHost, stream_.get()));
        }
        if (slot.num_states > 0) {
            NL_TRY(decoder_->write_states(static_cast<int>(slot.num_states), slot.states.template as<float>()));
        }
        if (slot.num_token_weights > 0) {
            NL_CUDA_TRY(cudaMemcpyAsync(slot.token_weights.data(), probes_.weights(),
                                        slot.num_token_weights * sizeof(float), cudaMemcpyDeviceToHost, stream_.get()));
        }
        NL_CUDA_TRY(cudaEventRecord(slot.done.get(), stream_.get()));
        num_drawn_ = slot.num_outputs;
        slots_.push();
        return {};
    }

    // Puts the draws on the stream behind the forward pass, which the device may still be computing.
    Result<void> draw_late(StepSlot& slot, const Batch& batch) {
        NL_TRY(late_draws_.send(batch, batch_.draw_tables(), slot.draws, stream_.get()));
        NL_TRY(decoder_->draw(late_draws_.sampling(), late_draws_.tables(), false));
        return late_draws_.drawn(stream_.get());
    }

    // Memory for the step's surprises and log-probabilities.
    Result<DrawTables> draw_tables(StepSlot& slot, const Batch& batch) {
        slot.num_logprobs = 0;
        for (const LogprobQuery& query : batch.logprobs) slot.num_logprobs += 1 + static_cast<size_t>(query.top);
        const size_t logprob_bytes = slot.num_logprobs * sizeof(TokenLogprob);
        if (slot.logprobs.bytes() < logprob_bytes) {
            NL_ASSIGN(slot.logprobs, allocate_pinned(std::bit_ceil(logprob_bytes), "log-probabilities"));
        }
        std::fill_n(slot.surprises.template as<float>(), batch.output_rows.size(), 0.0F);
        return DrawTables{.sampled = slot.sampled.template as<int32_t>(),
                          .surprises = slot.surprises.template as<float>(),
                          .logprobs = slot.logprobs.template as<TokenLogprob>()};
    }

    // What of a step needs no device: plans attention, and keeps in the slot what collect() and read_logits() need.
    Result<void> prepare(StepSlot& slot, const Batch& batch) {
        // Probes read queries where append() leaves them: attention that appends doesn't.
        const bool may_append = batch.probes.empty();
        plans_ = decoder_->plan({batch.page_table, batch.segments, batch.sequences, batch.positions},
                                may_append ? WrittenRows{batch.slots, batch.key_positions} : WrittenRows{});
        slot.num_outputs = batch.output_rows.size();
        slot.kept = batch.kept_logits;
        slot.num_states = batch.state_rows.size();
        const size_t state_bytes = slot.num_states * hidden_size() * sizeof(float);
        if (slot.states.bytes() < state_bytes) {
            NL_ASSIGN(slot.states, allocate_pinned(std::bit_ceil(state_bytes), "hidden states"));
        }
        if (options_.profile != nullptr) {
            slot.traffic = step_traffic(spec_, matrices_, options_, batch);
            slot.num_rows = batch.tokens.size();
            slot.decodes = is_decode(batch);
        }
        if (slot.kept.empty() || slot.logits.bytes() > 0) return {};
        const size_t bytes = static_cast<size_t>(options_.max_kept_logits) * vocab_size() * sizeof(float);
        NL_ASSIGN(slot.logits, allocate_pinned(bytes, "logits that are kept"));
        return {};
    }

    // Writes the step's batch to the slot. Where arrays or the page table move on the device, the graphs are void.
    Result<void> lay_out(StepSlot& slot, const Batch& batch) {
        bool moved = false;
        const auto changes = page_table_.changes_of(batch, stream_.get(), &moved);
        if (moved) graphs_.clear();
        if (!changes.ok()) return changes.error();
        NL_ASSIGN(const DrawTables draw, draw_tables(slot, batch));
        moved = false;
        Result<void> laid_out = batch_.lay_out(batch, plans_, *changes, draw, slot.batch, stream_.get(), &moved);
        if (moved) graphs_.clear();
        return laid_out;
    }

    Result<void> set_probes(StepSlot& slot, const Batch& batch) {
        NL_TRY(probes_.set(batch, options_.page_size, spec_, slot.probe_pages, stream_.get()));
        decoder_->set_probes(probes_.empty() ? nullptr : &probes_);
        slot.num_token_weights = probes_.num_tokens();
        const size_t bytes = slot.num_token_weights * sizeof(float);
        if (slot.token_weights.bytes() >= bytes) return {};
        NL_ASSIGN(slot.token_weights, allocate_pinned(2 * bytes, "token weights"));
        return {};
    }

    // Of a step that has ended.
    Result<void> add_to_profile(const StepSlot& slot) {
        NL_ASSIGN(const ByPhase<double> seconds, phases_.seconds());
        options_.profile->add(slot.decodes, static_cast<int64_t>(slot.num_rows), slot.traffic, seconds);
        return {};
    }

    // Runs a step through the first `num_layers` layers. A profile's events are for all of them.
    Result<void> run_step(const Batch& batch, int32_t num_layers) {
        step_layers_ = options_.profile == nullptr ? num_layers : spec_.num_layers;
        std::vector<int32_t> sampled(batch.output_rows.size());
        Result<void> done = submit(batch);
        if (done.ok()) done = collect(sampled);
        step_layers_ = spec_.num_layers;
        return done;
    }

    // Puts the forward pass on the stream, or, where it is `recording`, into a graph.
    Result<void> enqueue_forward(bool recording) {
        PhaseRanges ranges(nvtx_, step_layers_, batch_.shape().rows);
        if (options_.profile != nullptr) NL_TRY(phases_.begin(stream_.get(), recording));
        return forward(*decoder_, step_layers_, [&](Phase phase) -> Result<void> {
            ranges.ended(phase);
            return options_.profile != nullptr ? phases_.ended(stream_.get()) : Result<void>();
        });
    }

    // Puts the forward pass on the stream, as a graph once some steps of its shape have gone through all layers.
    Result<void> launch_forward() {
        if (batch_.shape().rows > kMaxGraphRows || !probes_.empty() || step_layers_ < spec_.num_layers)
            return enqueue_forward(false);
        GraphCache::Entry& entry = graphs_.find(batch_.shape());
        if (entry.steps < plain_steps_) {
            NL_TRY(enqueue_forward(false));
            ++entry.steps;
            return {};
        }
        if (!entry.graph) {
            NL_ASSIGN(entry.graph, record_graph(stream_.get(), [&] { return enqueue_forward(true); }));
        }
        if (!entry.graph) {  // another thread ended the recording: another one is made some steps later
            entry.steps = 0;
            return enqueue_forward(false);
        }
        NL_CUDA_TRY(cudaGraphLaunch(entry.graph.get(), stream_.get()));
        return {};
    }

    const NvtxDomain nvtx_;
    const int device_;
    const ModelSpec spec_;
    const ExecutorOptions options_;
    int32_t step_layers_;  // layers of the step that is being submitted: all, but for steps that only warm up
    Stream stream_;
    std::unique_ptr<Decoder<T>> decoder_;
    std::span<const AttentionPlan* const> plans_;  // of the step that is being submitted
    PageTable page_table_;
    DeviceBatch batch_;
    LateDraws late_draws_;
    Probes probes_;  // of the step that is being submitted
    GraphCache graphs_;
    int plain_steps_ = kPlainSteps;
    MatrixBytes matrices_;  // for the profile, where there is one
    StepSlots slots_;
    bool undrawn_ = false;  // the step submitted last waits for submit_draws()
    PhaseEvents phases_;    // for options_.profile
    size_t num_drawn_ = 0;  // output rows of the step submitted last
};

template <typename T>
Result<std::unique_ptr<Executor>> create_typed(int index, const GpuFacts& gpu, const ModelSpec& spec,
                                               const ModelWeights& weights, const ExecutorOptions& options,
                                               const Progress& progress) {
    auto executor = std::make_unique<CudaExecutor<T>>(index, gpu, spec, options);
    NL_TRY(executor->initialise(weights, progress));
    return std::unique_ptr<Executor>(std::move(executor));
}

}  // namespace

Result<std::unique_ptr<Executor>> create_cuda_executor(int index, const ModelSpec& spec, const ModelWeights& weights,
                                                       const ExecutorOptions& wanted, const Progress& progress) {
    ExecutorOptions options = wanted;
    NL_TRY(check_model(spec, weights, options));
    const DeviceGuard guard(index);
    NL_TRY(guard.result());
    GpuFacts gpu;
    NL_CUDA_TRY(cudaDeviceGetAttribute(&gpu.multiprocessors, cudaDevAttrMultiProcessorCount, index));
    NL_CUDA_TRY(cudaDeviceGetAttribute(&gpu.major, cudaDevAttrComputeCapabilityMajor, index));
    NL_TRY(check_attention(attention_spec(spec, options), gpu));
    if (options.weights == WeightForm::source && !keeps_compact(gpu.major)) options.weights = WeightForm::wide;
    switch (options.dtype) {
        case DType::f16:
            return create_typed<__half>(index, gpu, spec, weights, options, progress);
        case DType::bf16:
            return create_typed<__nv_bfloat16>(index, gpu, spec, weights, options, progress);
        case DType::f32:
        case DType::f8_e4m3:  // of files and pages
            break;
    }
    return create_typed<float>(index, gpu, spec, weights, options, progress);
}

}  // namespace nanolith::cuda
