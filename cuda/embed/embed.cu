// All threads of the grid copy the batch, 16 bytes at a time, and make the changes of the page table, of which a decode
// step has few; then a block for each row embeds its token. The batch is read over the bus, each thread's 16 bytes in
// one round trip while the batch has no more than 16 bytes a thread. Bytes: the batch, and 2 hidden (or
// fewer) to read and 4 hidden to write a row; with few rows the round trip to the host's memory is what it costs.
#include <algorithm>
#include <type_traits>

#include "compact/numbers.cuh"
#include "device/number.cuh"
#include "embed/embed.h"
#include "runtime/launch.h"

namespace nanolith::cuda {

namespace {

constexpr int kThreads = 256;

// Where embeddings come from: token's number `i`.
template <typename T>
struct WideTable {
    const T* table;
    int hidden;
    __device__ float at(int32_t token, int i) const { return to_float(table[int64_t{token} * hidden + i]); }
};

template <CodeKind kCodes>
struct CompactTable {
    CompactMatrix table;
    __device__ float at(int32_t token, int i) const { return compact_weight<kCodes>(table, token, i); }
};

template <typename Table>
__global__ void __launch_bounds__(kThreads)
    begin_step_kernel(Table table, HostBatch batch, const int32_t* drawn, int32_t* page_table, float factor, int rows,
                      int hidden, float* residual) {
    const int num_threads = static_cast<int>(gridDim.x) * kThreads;
    const int thread = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
    const int num_vectors = static_cast<int>(batch.bytes / sizeof(uint4));
    for (int i = thread; i < num_vectors; i += num_threads) {
        reinterpret_cast<uint4*>(batch.to)[i] = reinterpret_cast<const uint4*>(batch.from)[i];
    }
    const int num_changes = batch.head->num_changes;
    for (int i = thread; i < num_changes; i += num_threads) {
        page_table[batch.changes[i].entry] = batch.changes[i].page;
    }
    const int row = static_cast<int>(blockIdx.x);
    if (row >= rows) return;
    const int32_t drawn_by = batch.tokens[row];
    const int32_t token = drawn_by < 0 ? drawn[-1 - drawn_by] : drawn_by;
    float* to = residual + static_cast<int64_t>(row) * hidden;
    for (int i = static_cast<int>(threadIdx.x); i < hidden; i += kThreads) to[i] = table.at(token, i) * factor;
}

}  // namespace

template <typename T>
Result<void> begin_step(const DeviceMatrix<T>& table, const HostBatch& batch, const int32_t* drawn, int32_t* page_table,
                        float factor, int rows, float* residual, cudaStream_t stream) {
    constexpr size_t kBlockBytes = kThreads * sizeof(uint4);
    const auto blocks = std::max(static_cast<size_t>(rows), (batch.bytes + kBlockBytes - 1) / kBlockBytes);
    const LaunchShape shape{dim3(static_cast<unsigned>(blocks)), dim3(kThreads)};
    const auto start = [&](const auto& from) {
        return launch(begin_step_kernel<std::decay_t<decltype(from)>>, shape, stream, from, batch, drawn, page_table,
                      factor, rows, table.size, residual);
    };
    if (!table.compact()) return start(WideTable<T>{table.wide, table.size});
    const CompactMatrix& compact = table.parts.front();
    switch (compact.layout.codes) {
        case CodeKind::bits4:
            return start(CompactTable<CodeKind::bits4>{compact});
        case CodeKind::int8:
            return start(CompactTable<CodeKind::int8>{compact});
        case CodeKind::e4m3:
            break;
    }
    return start(CompactTable<CodeKind::e4m3>{compact});
}

template Result<void> begin_step(const DeviceMatrix<float>&, const HostBatch&, const int32_t*, int32_t*, float, int,
                                 float*, cudaStream_t);
template Result<void> begin_step(const DeviceMatrix<__half>&, const HostBatch&, const int32_t*, int32_t*, float, int,
                                 float*, cudaStream_t);
template Result<void> begin_step(const DeviceMatrix<__nv_bfloat16>&, const HostBatch&, const int32_t*, int32_t*, float,
                                 int, float*, cudaStream_t);

}  // namespace nanolith::cuda
