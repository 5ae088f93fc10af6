// From a model's path and options to a running engine.
#include <algorithm>
#include <system_error>

#include "backend/device_name.h"
#include "backend/page_size.h"
#include "backend/probe.h"
#include "backend/profile.h"
#include "engine/engine.h"
#include "engine/pool_size.h"
#include "grammar/constraint.h"
#include "store/fingerprint.h"

namespace nanolith {
namespace {

int64_t milliseconds_since(Clock::time_point begin) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count();
}

Result<std::unique_ptr<Backend>> open_backend(const EngineOptions& options, Log& log) {
    NL_ASSIGN(const DeviceName device, parse_device_name(options.device, AutoDevice::taken));
    const auto warn = [&log](const std::string& line) { log.write(NL_LOG_WARNING, line); };
    if (device.kind == DeviceKind::cpu) return open_cpu_backend(options.num_threads, warn);
    auto gpu = open_cuda_backend(device.index);
    if (gpu.ok() || device.kind == DeviceKind::cuda) return gpu;
    log.write(NL_LOG_INFO, "device auto takes the CPU: ", gpu.error().message);
    return open_cpu_backend(options.num_threads, warn);
}

// INVALID_ARGUMENT where `wanted` is none of NL_DTYPE_*, or NL_DTYPE_AUTO.
Result<DType> check_dtype(const char* option, int32_t wanted) {
    if (const auto dtype = dtype_of(wanted)) return *dtype;
    return fail(NL_ERROR_INVALID_ARGUMENT, option, " is ", wanted, ": expected one of NL_DTYPE_*");
}

// "float32 or bfloat16", of weights and activations.
std::string dtypes_of(const Backend& backend) {
    std::vector<std::string> names;
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
        if (backend.supports(dtype)) names.emplace_back(dtype_name(dtype));
    std::string text;
    for (size_t i = 0; i < names.size(); ++i) text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
    return text;
}

// Of weights and activations.
Result<DType> choose_dtype(int32_t wanted, DType file, const Backend& backend) {
    if (wanted == NL_DTYPE_AUTO) return backend.supports(file) ? file : DType::bf16;
    NL_ASSIGN(const DType dtype, check_dtype("dtype", wanted));
    if (dtype == DType::f8_e4m3 || !backend.supports(dtype))
        return fail(NL_ERROR_UNSUPPORTED, "dtype is ", dtype_name(dtype), ": expected ", dtypes_of(backend), " on ",
                    backend.device_name());
    return dtype;
}

// Of keys and values in pages. The executor refuses what it has no kernels for.
Result<DType> choose_kv_dtype(int32_t wanted, DType dtype) {
    if (wanted == NL_DTYPE_AUTO) return dtype;
    return check_dtype("kv_dtype", wanted);
}

}  // namespace

Result<std::shared_ptr<Engine>> Engine::create(const std::string& path, const EngineOptions& options) {
    const WeightPlace place = options.map_weights ? WeightPlace::mapped : WeightPlace::copied;
    NL_ASSIGN(auto model, load_model(path, options.max_context, place));

    auto tokenizer = Tokenizer::load(path);
    // What is damaged is refused; an engine without a tokenizer works on tokens.
    const nl_status status = tokenizer.ok() ? NL_OK : tokenizer.error().status;
    if (status != NL_OK && status != NL_ERROR_NOT_FOUND && status != NL_ERROR_UNSUPPORTED)
        return std::move(tokenizer.error());

    std::shared_ptr<Engine> engine(new Engine(std::move(model), std::move(tokenizer), options));
    NL_ASSIGN(auto backend, open_backend(options, engine->log_));
    NL_TRY(engine->start(std::move(backend), options));
    return engine;
}

Result<std::shared_ptr<Engine>> Engine::create(std::unique_ptr<Model> model,
                                               Result<std::shared_ptr<const Tokenizer>> tokenizer,
                                               std::unique_ptr<Backend> backend, const EngineOptions& options) {
    std::shared_ptr<Engine> engine(new Engine(std::move(model), std::move(tokenizer), options));
    NL_TRY(engine->start(std::move(backend), options));
    return engine;
}

Engine::Engine(std::unique_ptr<Model> model, Result<std::shared_ptr<const Tokenizer>> tokenizer,
               const EngineOptions& options)
    : model_(std::move(model)),
      tokenizer_(std::move(tokenizer)),
      log_(options.log, options.log_user_data),
      page_size_(options.page_size),
      share_prefixes_(options.share_prefixes),
      blends_(options.page_size) {}

Engine::~Engine() {
    saver_.reset();
    buffers_.reset();
    // No step is in flight any more once the scheduler is gone. The executor, which it has, outlives its memory.
    if (scheduler_) scheduler_->stop();
    host_tier_.reset();
    scheduler_.reset();
    if (!profile_) return;
    try {
        for (const std::string& line : profile_->lines()) log_.write(NL_LOG_INFO, line);
    } catch (...) {  // no memory for a line: the rest of the table is left out
    }
}

Result<void> Engine::start(std::unique_ptr<Backend> backend, const EngineOptions& options) {
    const auto begin = Clock::now();
    backend_ = std::move(backend);
    device_name_ = backend_->device_name();
    NL_ASSIGN(dtype_, choose_dtype(options.dtype, model_->file_dtype, *backend_));
    NL_ASSIGN(const DType kv_dtype, choose_kv_dtype(options.kv_dtype, dtype_));
    page_bytes_ = nanolith::page_bytes(spec(), page_size_, kv_dtype);
    NL_ASSIGN(const uint64_t memory, backend_->available_memory());
    const bool is_wide = options.weights == WeightForm::source && !backend_->keeps_compact();
    const uint64_t weight_bytes = stored_bytes(model_->weights, is_wide ? WeightForm::wide : options.weights, dtype_);
    NL_ASSIGN(const int32_t num_pages, choose_num_pages({.wanted = options.num_pages,
                                                         .page_bytes = page_bytes_,
                                                         .pages_per_context = pages_for(spec().max_context, page_size_),
                                                         .page_size = page_size_,
                                                         .memory = memory,
                                                         .weight_bytes = static_cast<int64_t>(weight_bytes)}));
    if (options.profile) profile_ = std::make_unique<Profile>();
    const ExecutorOptions executor_options{
        .dtype = dtype_,
        .weights = options.weights,
        .kv_dtype = kv_dtype,
        .page_size = page_size_,
        .num_pages = num_pages,
        .max_rows = options.max_batch_tokens,
        .max_output_rows = std::min(options.max_output_rows, options.max_batch_tokens),
        .warm_up = options.warm_up,
        .batch_invariant = options.batch_invariant,
        .profile = profile_.get()};
    Progress progress;
    if (options.progress != nullptr)
        progress = [&](double done) { return options.progress(options.progress_user_data, done) == 0; };
    NL_ASSIGN(auto executor, backend_->create_executor(spec(), model_->weights, executor_options, progress));
    NL_ASSIGN(const auto not_finite, finish_loading(*model_, executor->uses_weights_in_place()));
    NL_TRY(judge_weights(not_finite, options.allow_not_finite));
    pool_ = std::make_unique<PagePool>(num_pages);
    const SchedulerOptions scheduler_options{.page_size = page_size_,
                                             .max_rows = executor_options.max_rows,
                                             .max_output_rows = executor_options.max_output_rows,
                                             .max_kept_logits = executor_options.max_kept_logits,
                                             .max_context = spec().max_context,
                                             .vocab_size = spec().vocab_size,
                                             .probes = !probe_layers(spec()).empty(),
                                             .keeps_blends = !options.batch_invariant,
                                             .step_ms = options.step_ms,
                                             .queue_limit = options.queue_limit};
    try {
        scheduler_ =
            std::make_unique<Scheduler>(std::move(executor), scheduler_options, mutex_, *pool_, store_, blends_);
    } catch (const std::system_error& error) {
        return fail(NL_ERROR_OUT_OF_MEMORY, "the engine's thread could not be started: ", error.what());
    }
    numbers_ = digest_of_numbers(spec(), executor_options, device_name_);
    row_bytes_ = static_cast<size_t>(spec().head_dim) * dtype_bytes(kv_dtype);
    const size_t pages = std::max<size_t>(1, PageMove::kMostBytes / static_cast<size_t>(page_bytes_));
    buffers_ = std::make_unique<HostBuffers>(*scheduler_, pages * static_cast<size_t>(page_bytes_));
    NL_TRY(open_tiers(options));
    if (!tokenizer_.ok() && tokenizer_.error().status == NL_ERROR_UNSUPPORTED)
        log_.write(NL_LOG_WARNING, "no tokenizer: ", tokenizer_.error().message);
    log_.write(NL_LOG_INFO, model_->architecture, " in ", dtype_name(dtype_), ", weights ", form_name(options.weights),
               " (", weight_bytes, " bytes), on ", device_name_, ", ", num_pages, " pages of ", page_size_,
               " tokens in ", dtype_name(kv_dtype), " (", page_bytes_, " bytes each), made ready in ",
               milliseconds_since(begin), " ms");
    return {};
}

Result<void> Engine::judge_weights(std::span<const NotFinite> tensors, bool allowed) {
    for (const NotFinite& tensor : tensors) {
        log_.write(allowed ? NL_LOG_WARNING : NL_LOG_ERROR, "tensor ", tensor.tensor, " has ", tensor.count, " of ",
                   tensor.size, " elements that are NaN or infinite");
    }
    if (tensors.empty() || allowed) return {};
    int64_t count = 0;
    for (const NotFinite& tensor : tensors) count += tensor.count;
    return fail(NL_ERROR_BAD_MODEL, count, " weights in ", tensors.size(), " tensors are NaN or infinite, ",
                tensors.front().count, " of ", tensors.front().size, " in ", tensors.front().tensor,
                ": expected finite numbers (NL_OPTION_ALLOW_NOT_FINITE takes them as they are)");
}

bool Engine::is_end_token(int32_t token) const {
    return std::ranges::find(model_->end_tokens, token) != model_->end_tokens.end();
}

Engine::PageCounts Engine::page_counts() {
    const Lock lock(mutex_);
    return {pool_->num_pages(), pool_->num_free(), store_.evictable_pages() + blends_.evictable_pages()};
}

Scheduler::Report Engine::loop_report() {
    const Lock lock(mutex_);
    return scheduler_->report();
}

}  // namespace nanolith
