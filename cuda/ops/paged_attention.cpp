#include "ops/paged_attention.h"

#include <algorithm>
#include <array>

#include "attention/device_attention.h"
#include "attention/plan/work_arrays.h"
#include "runtime/check.h"
#include "runtime/stream.h"

namespace nanolith::cuda {

namespace {

// In the worst case the spans of a plan are as many as rows times segments. There is room for no more than this; a step
// that needs more is refused by set().
constexpr int64_t kMaxSpans = int64_t{1} << 20;

// Room for the plan of every step within the capacities.
WorkCounts most_work(const PlanShape& shape, const PlanCapacity& capacity) {
    const int64_t rows = capacity.rows;
    const PlanBounds bounds = plan_bounds(shape, rows, capacity.sequences, capacity.segments);
    const PartialBounds partials = partial_bounds(shape, rows);
    WorkCounts counts;
    counts.row_partials = static_cast<size_t>(rows * head_groups(shape).count);
    counts.queries = static_cast<size_t>(bounds.queries);
    counts.spans = static_cast<size_t>(std::min(bounds.spans, kMaxSpans));
    counts.narrow = static_cast<size_t>(bounds.narrow);
    counts.wide = static_cast<size_t>(bounds.wide);
    counts.partials = static_cast<size_t>(partials.narrow + partials.wide);
    counts.merges = counts.row_partials;
    return counts;
}

// Page-locked memory from which an array is copied to the device, and the event after that copy. There are two, used
// alternately, so that the host writes one while the other is copied.
struct Stage {
    PinnedBuffer host;
    Event copied;
};

class CudaPagedAttention final : public PagedAttention {
  public:
    CudaPagedAttention(const OpsDevice& device, const AttentionSpec& spec, const PlanCapacity& capacity)
        : device_(device),
          spec_(spec),
          capacity_(capacity),
          attention_(spec, layer_kinds(spec), capacity, device.gpu) {}

    ~CudaPagedAttention() override {
        // Freeing device memory waits for the work that uses it.
        const DeviceGuard guard(device_.index);
        work_ = DeviceBuffer();
        slots_ = DeviceBuffer();
        attention_.release();
        work_stages_ = {};
        slot_stages_ = {};
    }

    Result<void> initialise() {
        const DeviceGuard guard(device_.index);
        NL_TRY(guard.result());
        Layout layout;
        arrays_ = WorkArrays(layout, most_work(attention_.plan_shape(), capacity_));
        page_table_ = layout.reserve<int32_t>(static_cast<size_t>(capacity_.page_table));
        NL_ASSIGN(work_, allocate_device(layout.used(), "the plan"));
        NL_CUDA_TRY(cudaMemsetAsync(work_.data(), 0, layout.used(), device_.stream));
        const size_t slot_bytes = static_cast<size_t>(capacity_.rows) * 2 * sizeof(int32_t);
        NL_ASSIGN(slots_, allocate_device(slot_bytes, "the slots"));
        static_assert(kNoSlot == -1, "bytes of 0xff are no slot");
        NL_CUDA_TRY(cudaMemsetAsync(slots_.data(), 0xff, slot_bytes, device_.stream));
        NL_TRY(make_stages(work_stages_, layout.used()));
        NL_TRY(make_stages(slot_stages_, slot_bytes));
        return attention_.allocate(device_.stream);  // waits for all of this
    }

    Result<void> set(const AttentionStep& step) override {
        const DeviceGuard guard(device_.index);
        NL_TRY(guard.result());
        const AttentionPlan& plan = *attention_.plan(step).front();
        NL_TRY(check_room(plan));
        NL_ASSIGN(Stage* const stage, next_stage(work_stages_, work_turn_));
        arrays_.put(stage->host.data(), plan);
        put(stage->host.data() + page_table_, step.page_table, 0);
        const size_t used = page_table_ + step.page_table.size_bytes();
        return send(*stage, work_, used);
    }

    Result<void> set_slots(std::span<const int32_t> slots, std::span<const int32_t> key_positions) override {
        const DeviceGuard guard(device_.index);
        NL_TRY(guard.result());
        NL_ASSIGN(Stage* const stage, next_stage(slot_stages_, slot_turn_));
        const size_t to_positions = static_cast<size_t>(capacity_.rows) * sizeof(int32_t);
        // Rows without a slot: what is launched depends on the capacities alone.
        std::fill_n(stage->host.as<int32_t>(), capacity_.rows, kNoSlot);
        put(stage->host.data(), slots, 0);
        put(stage->host.data() + to_positions, key_positions, 0);
        return send(*stage, slots_, slots_.bytes());
    }

    Result<void> append(const ConstHeadRows& k, const ConstHeadRows& v, const Pages<void>& pages) override {
        const DeviceGuard guard(device_.index);
        NL_TRY(guard.result());
        AppendCall call;
        call.rope = rope();
        call.rows = capacity_.rows;
        call.slots = slots_.as<int32_t>();
        call.key_positions = slots_.as<int32_t>() + capacity_.rows;
        call.keys = k;
        call.values = v;
        call.pages = pages;
        return attention_.append(call, device_.stream);
    }

    Result<void> run(const ConstHeadRows& q, const Pages<const void>& pages, const MutableHeadRows& out,
                     float* lse) override {
        const DeviceGuard guard(device_.index);
        NL_TRY(guard.result());
        AttentionCall call;
        call.rope = rope();
        call.window = spec_.window;
        call.work = arrays_.view(work_.data());
        call.work.page_table = reinterpret_cast<const int32_t*>(work_.data() + page_table_);
        call.counts = arrays_.counts();
        call.queries = q;
        call.pages = pages;
        call.output = out;
        call.lse = lse;
        return attention_.run(call, device_.stream);
    }

  private:
    static LayerKinds layer_kinds(const AttentionSpec& spec) {
        LayerKinds kinds;
        kinds.windows = {spec.window};
        if (!spec.rope_frequencies.empty()) kinds.ropes = {{spec.rope_frequencies, {}}};
        return kinds;
    }
    [[nodiscard]] int32_t rope() const { return spec_.rope_frequencies.empty() ? kNoRope : 0; }

    static Result<void> make_stages(std::array<Stage, 2>& stages, size_t bytes) {
        for (Stage& stage : stages) {
            NL_ASSIGN(stage.host, allocate_pinned(bytes, "the plan"));
            NL_ASSIGN(stage.copied, create_event());
        }
        return {};
    }

    static Result<Stage*> next_stage(std::array<Stage, 2>& stages, size_t& turn) {
        Stage& stage = stages[turn];
        turn = 1 - turn;
        NL_CUDA_TRY(cudaEventSynchronize(stage.copied.get()));
        return &stage;
    }

    Result<void> send(const Stage& stage, const DeviceBuffer& to, size_t bytes) {
        NL_CUDA_TRY(cudaMemcpyAsync(to.data(), stage.host.data(), bytes, cudaMemcpyHostToDevice, device_.stream));
        NL_CUDA_TRY(cudaEventRecord(stage.copied.get(), device_.stream));
        return {};
    }

    [[nodiscard]] Result<void> check_room(const AttentionPlan& plan) const {
        const WorkCounts& room = arrays_.counts();
        if (plan.spans.size() > room.spans) {
            return fail(NL_ERROR_UNSUPPORTED, "the step needs ", plan.spans.size(),
                        " spans of tokens, the plan has room for ", room.spans,
                        ": give it fewer rows or segments a sequence");
        }
        if (plan.queries.size() > room.queries || plan.narrow.size() > room.narrow || plan.wide.size() > room.wide ||
            plan.partials.size() > room.partials) {
            return fail(NL_ERROR_INTERNAL, "the step needs more items than its capacities allow for");
        }
        return {};
    }

    const OpsDevice& device_;
    const AttentionSpec spec_;
    const PlanCapacity capacity_;
    DeviceAttention attention_;
    WorkArrays arrays_;
    size_t page_table_ = 0;
    DeviceBuffer work_;
    DeviceBuffer slots_;  // [rows] slots, [rows] positions of keys
    std::array<Stage, 2> work_stages_;
    std::array<Stage, 2> slot_stages_;
    size_t work_turn_ = 0;
    size_t slot_turn_ = 0;
};

}  // namespace

Result<std::unique_ptr<PagedAttention>> create_paged_attention(const OpsDevice& device, const AttentionSpec& spec,
                                                               const PlanCapacity& capacity) {
    NL_TRY(check_attention(spec, device.gpu));
    auto attention = std::make_unique<CudaPagedAttention>(device, spec, capacity);
    NL_TRY(attention->initialise());
    return std::unique_ptr<PagedAttention>(std::move(attention));
}

}  // namespace nanolith::cuda
