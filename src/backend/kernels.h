// The kernels of a device on the caller's own tensors, below the functions of nanolith_ops.h. Executor and Backend
// (backend.h) run a whole model; this runs single operations.
//
// Addresses are of the device's memory save where a comment says host. What comes here has been checked by the ABI's
// shims: shapes, sizes, array contents, alignment. A device refuses with UNSUPPORTED what it has no kernel for, at
// create_plan where it can. Nothing here is thread-safe: the shims let calls take turns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/batch.h"
#include "backend/dtype.h"
#include "base/result.h"

namespace nanolith {

// Rows of heads in memory: row r, head h, element i lies at
// data + (r / rows_per_block) * block_stride + (r % rows_per_block) * row_stride + h * head_stride + i, in elements.
// A plain [rows, heads, size] tensor is one block.
template <typename Data>
struct HeadRows {
    Data* data = nullptr;
    int64_t row_stride = 0;
    int64_t head_stride = 0;
    int64_t block_stride = 0;
    int32_t rows_per_block = INT32_MAX;

    [[nodiscard]] int64_t offset(int64_t row, int64_t head) const {
        return row / rows_per_block * block_stride + row % rows_per_block * row_stride + head * head_stride;
    }
};
using ConstHeadRows = HeadRows<const void>;
using MutableHeadRows = HeadRows<void>;

// What an attention is, whatever it attends to.
struct AttentionSpec {
    int32_t num_heads = 0;  // query heads; a multiple of num_kv_heads
    int32_t num_kv_heads = 0;
    int32_t head_dim = 0;       // even, 2 to 256
    int32_t page_size = 64;     // a power of two from 16 to 256
    DType dtype = DType::bf16;  // of queries and outputs, and of keys and values before they are appended: not f8_e4m3
    DType kv_dtype = DType::bf16;  // of pages
    float scale = 0;               // scores are q.k times this
    bool causal = true;
    int32_t window = 0;                   // a query at p sees positions above p - window alone; 0: all
    float softcap = 0;                    // scores become softcap * tanh(score / softcap); 0: they stay
    std::vector<float> rope_frequencies;  // head_dim / 2, as ModelSpec's; empty: no rotation
    int32_t max_position = 0;             // what is rotated stands below this; 0 without rotation
    bool batch_invariant = false;         // as ExecutorOptions'

    bool operator==(const AttentionSpec&) const = default;
};

struct PlanCapacity {
    int32_t rows = 0;
    int32_t sequences = 0;
    int32_t segments = 0;
    int32_t page_table = 0;
    int32_t cascade_rows = 512;  // most rows of a step that read segments together with others
};

// Host arrays, with the meaning that Batch gives them. Unlike there a sequence may see no key at all, and with
// AttentionSpec::causal false its rows see all tokens of their segments.
struct AttentionStep {
    std::span<const int32_t> page_table;
    std::span<const Segment> segments;
    std::span<const Sequence> sequences;
    std::span<const int32_t> positions;  // [rows]
};

// Pages of one layer, [num_pages, 2, num_kv_heads, page_size, head_dim], and what is stored is multiplied by.
template <typename Data>
struct Pages {
    Data* data = nullptr;
    float k_scale = 1;
    float v_scale = 1;
};

// The state of nl_attention_plan: buffers on the device whose addresses never change. What run and append launch
// depends on the capacities and not on what was set, so that a recorded graph can be replayed after another set.
class PagedAttention {
  public:
    PagedAttention() = default;
    PagedAttention(const PagedAttention&) = delete;
    PagedAttention& operator=(const PagedAttention&) = delete;
    virtual ~PagedAttention() = default;

    // Within the capacities. After an error the plan is as before.
    virtual Result<void> set(const AttentionStep& step) = 0;
    // Host arrays [rows]; kNoSlot: nothing is read or written. key_positions is empty without rotation.
    virtual Result<void> set_slots(std::span<const int32_t> slots, std::span<const int32_t> key_positions) = 0;

    // k and v [rows of the slots, num_kv_heads, head_dim] of spec.dtype.
    virtual Result<void> append(const ConstHeadRows& k, const ConstHeadRows& v, const Pages<void>& pages) = 0;
    // q and out [rows, num_heads, head_dim] of spec.dtype. lse: null or [rows, num_heads]. A row that
    // sees no key has out 0, lse -infinity.
    virtual Result<void> run(const ConstHeadRows& q, const Pages<const void>& pages, const MutableHeadRows& out,
                             float* lse) = 0;
};

// See nl_attention_merge. Part i is `outputs` moved on by i * part_stride elements.
struct MergeArguments {
    DType dtype = DType::f32;
    int64_t num_parts = 0;
    int64_t num_rows = 0;
    int32_t num_heads = 0;
    int32_t head_dim = 0;
    ConstHeadRows outputs{};
    int64_t part_stride = 0;
    const float* lse = nullptr;
    int64_t lse_part_stride = 0;
    MutableHeadRows out{};
    float* out_lse = nullptr;  // or null
};

// See nl_rms_norm.
struct RmsNormArguments {
    DType dtype = DType::f32;
    int64_t num_rows = 0;
    int32_t num_heads = 0;
    int32_t size = 0;
    ConstHeadRows x{};
    const void* weight = nullptr;
    float epsilon = 0;
    MutableHeadRows y{};
};

// See nl_rope.
struct RopeArguments {
    DType dtype = DType::f32;
    int64_t num_rows = 0;
    int32_t num_heads = 0;
    int32_t head_dim = 0;
    ConstHeadRows x{};
    const int32_t* positions = nullptr;
    const float* frequencies = nullptr;
    MutableHeadRows y{};
};

// Memory of a device, freed with its owner (after the work that was queued with it).
class DeviceMemory {
  public:
    DeviceMemory() = default;
    DeviceMemory(const DeviceMemory&) = delete;
    DeviceMemory& operator=(const DeviceMemory&) = delete;
    virtual ~DeviceMemory() = default;
    [[nodiscard]] virtual void* data() = 0;
};

class Kernels {
  public:
    Kernels() = default;
    Kernels(const Kernels&) = delete;
    Kernels& operator=(const Kernels&) = delete;
    virtual ~Kernels() = default;

    [[nodiscard]] virtual std::string device_name() const = 0;
    // Bytes that addresses and strides of tensors are multiples of; 1: the element's own size.
    [[nodiscard]] virtual size_t alignment() const = 0;
    virtual Result<void> set_stream(void* stream) = 0;
    virtual Result<void> set_threads(int32_t num_threads) = 0;
    virtual Result<void> synchronize() = 0;

    virtual Result<std::unique_ptr<DeviceMemory>> allocate(uint64_t bytes) = 0;
    // Plans don't outlive their Kernels.
    virtual Result<std::unique_ptr<PagedAttention>> create_plan(const AttentionSpec& spec,
                                                                const PlanCapacity& capacity) = 0;
    virtual Result<void> merge(const MergeArguments& arguments) = 0;
    virtual Result<void> rms_norm(const RmsNormArguments& arguments) = 0;
    virtual Result<void> rope(const RopeArguments& arguments) = 0;
};

Result<std::unique_ptr<Kernels>> open_cpu_kernels();

// Through libnanolith_cuda.so, as open_cuda_backend. UNSUPPORTED where that library has no kernels of this kind.
Result<std::unique_ptr<Kernels>> open_cuda_kernels(int32_t index);

// What a backend library exports for it, as `nl_kernels_open`; see BackendOpen.
using KernelsOpen = void(const char* version, int32_t index, Result<std::unique_ptr<Kernels>>& result);
constexpr const char* kKernelsOpenName = "nl_kernels_open";

}  // namespace nanolith
