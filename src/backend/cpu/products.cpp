#include "backend/cpu/products.h"

#include <dnnl_debug.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <dnnl.hpp>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/cpu/bfloat16_products.h"
#include "backend/cpu/compact_expand.h"
#include "backend/cpu/compact_products.h"
#include "backend/cpu/dot_products.h"
#include "backend/cpu/norm_rope.h"
#include "backend/cpu/onednn_threads.h"
#include "backend/cpu/packed_products.h"
#include "backend/cpu/simd.h"

namespace nanolith::cpu {
namespace {

using DnnlType = dnnl::memory::data_type;
using DnnlTag = dnnl::memory::format_tag;

// Outputs and rows of a tile of dot_products(): few enough that a small matrix is divided among all threads and that
// the weights fit a core's second-level cache, many enough to read memory in long runs.
constexpr int64_t kDotOutputs = 48;
constexpr int64_t kDotRows = 120;
// Outputs of a tile of compact_products(): four strips.
constexpr int64_t kCompactOutputs = 4 * kStrip;
// Up to so many rows packing weights costs more than reading them again for every eight rows.
constexpr int64_t kMostDotRows = 32;
// The same of compact weights beside integers where oneDNN multiplies bfloat16 but has no AMX: products of integers are
// nearly as fast there, and weights need not be widened.
constexpr int64_t kMostIntegerRows = 128;

// A tile of packed_product(). Its weights (128 KiB as float32) stay in a core's second-level cache; the more rows, the
// less packing counts.
constexpr int64_t kPackedOutputs = 64;
constexpr int64_t kPackedDepth = 512;
constexpr int64_t kPackedRows = 132;

// Rows that a tile of a product of many rows may have. padded_rows() gives sums of these.
constexpr std::array<int64_t, 6> kTileRows = {256, 128, 64, 48, 32, 16};
// Of every tile where a row must not depend on how many others there are: a divisor of what padded_rows() gives.
constexpr int64_t kInvariantTileRows = 16;
// The most outputs of a tile: its float32 weights then fit a core's second-level cache. And the fewest, which divide
// that.
constexpr int64_t kTileOutputs = 256;
constexpr int64_t kLeastTileOutputs = 64;
// Weights that a tile has at least, where the matrix has as many: less work would not be worth a call.
constexpr int64_t kTileWeights = 64 * 1024;

// oneDNN 2 makes a primitive descriptor from an operation descriptor, oneDNN 3 from the memory descriptors.
dnnl::matmul::primitive_desc describe_matmul(const dnnl::engine& engine, const dnnl::memory::desc& x,
                                             const dnnl::memory::desc& w, const dnnl::memory::desc& y) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);  // a thread's own
#if DNNL_VERSION_MAJOR >= 3
    return dnnl::matmul::primitive_desc(engine, x, w, y, attributes);
#else
    return dnnl::matmul::primitive_desc(dnnl::matmul::desc(x, w, y), attributes, engine);
#endif
}

// Whether oneDNN multiplies many rows well. Without instructions for bfloat16 it emulates them slowly.
template <typename T>
bool has_many_rows() {
    return std::is_same_v<T, float> || has_bfloat16_products();
}

// Whether few rows are multiplied as bfloat16, without being widened.
template <typename T>
bool has_bfloat16_rows() {
    return std::is_same_v<T, BFloat16> && has_bfloat16_products();
}

// The most rows that are widened to float32 at a time.
template <typename T>
int64_t most_wide_rows(int64_t max_rows) {
    if (has_bfloat16_rows<T>()) return 0;
    return std::max(has_many_rows<T>() ? 0 : max_rows, kFewRows);
}

template <typename T>
constexpr DnnlType dnnl_type() {
    return std::is_same_v<T, float> ? DnnlType::f32 : DnnlType::bf16;
}

// Fails with OUT_OF_MEMORY unless 2 MiB can be had now. oneDNN does not check whether it got the memory for an object
// (some hundred bytes) and for its code (up to some hundred kilobytes), and the process would end: so this is called
// before. Memory that was just freed can be had again, unless another thread takes it.
Result<void> check_memory_for_onednn() {
    const auto probe = Buffer<std::byte>::allocate("objects of oneDNN", {2 * 1024 * 1024});
    return probe.ok() ? Result<void>() : Result<void>(probe.error());
}

nl_status status_of(dnnl_status_t status) {
    return status == dnnl_out_of_memory ? NL_ERROR_OUT_OF_MEMORY : NL_ERROR_INTERNAL;
}

// The matrices of a tile's product on one thread, by oneDNN's names for a product's arguments. They are made once and a
// product only sets their addresses: making one takes memory, and oneDNN does not look whether it got any.
using TileArguments = std::unordered_map<int, dnnl::memory>;

// The product of one tile: x [rows, depth] with w [outputs, depth] transposed, into a dense [rows, outputs]. Compact
// weights are widened to [depth, outputs].
struct TileProduct {
    dnnl::matmul matmul;
    std::vector<TileArguments> arguments;  // one for each thread
};

constexpr int64_t tiles_of(int64_t outputs, int64_t of_tile) {
    return (outputs + of_tile - 1) / of_tile;
}

// Rows of x.
struct RowRange {
    int64_t first = 0;
    int64_t count = 0;
};

// Of one thread.
template <typename T>
struct TileMemory {
    dnnl::stream stream;
    Buffer<float> y;
    Buffer<std::byte> scratch;
    Buffer<float> packed;  // weights
    Buffer<T> expanded;    // a tile of compact weights, for oneDNN
};

}  // namespace

int64_t padded_rows(int64_t rows) {
    const int64_t step = rows <= 64 ? 16 : 64;
    return (rows + step - 1) / step * step;
}

template <typename T>
struct Products<T>::State {
    using Key = std::tuple<int64_t, int64_t, int64_t, bool>;  // rows, outputs, depth of a tile; whether w is compact

    State(ThreadPool& of, bool invariant) : pool(of), batch_invariant(invariant) {}

    // The rows of the tile at the beginning of `rows`, which padded_rows() gave.
    [[nodiscard]] int64_t first_tile_rows(int64_t rows) const {
        if (batch_invariant) return kInvariantTileRows;
        return *std::find_if(kTileRows.begin(), kTileRows.end(), [rows](int64_t tile) { return tile <= rows; });
    }
    // Whether rows go through oneDNN.
    [[nodiscard]] bool takes_tiles(const Matrix<T>& w, int64_t rows) const {
        if (!has_many_rows<T>() || multiplies_codes(w, rows)) return false;
        return rows > kFewRows || batch_invariant;
    }
    // The most rows that go through compact_products().
    static int64_t most_compact_rows(const Matrix<T>& w) {
        const auto is_float = [](const CompactRows& part) { return kind_of(part) == RowKind::floats; };
        if (has_amx() || std::ranges::any_of(w.parts, is_float)) return kMostDotRows;
        // Products of float32, which would be the other way, are slower than those of integers.
        return has_bfloat16_products() ? kMostIntegerRows : std::numeric_limits<int64_t>::max();
    }
    // Whether rows go through compact_products().
    [[nodiscard]] bool multiplies_codes(const Matrix<T>& w, int64_t rows) const {
        return w.compact() && (rows <= most_compact_rows(w) || batch_invariant);
    }

    [[nodiscard]] int64_t tile_outputs(const Matrix<T>& w) const {
        const int64_t shared = w.outputs / (2 * pool.num_threads());
        const int64_t wanted = std::clamp(std::max(shared, kTileWeights / w.depth), kLeastTileOutputs, kTileOutputs);
        return (wanted + kLeastTileOutputs - 1) / kLeastTileOutputs * kLeastTileOutputs;
    }

    // Into how many parts the tiles of rows are divided. Each part widens or packs a tile of weights for itself, so the
    // fewer the better; but there must be about four parts for each thread, over all tiles of outputs.
    [[nodiscard]] int64_t row_parts(int64_t row_tiles, int64_t output_tiles) const {
        return std::min(tiles_of(4 * pool.num_threads(), output_tiles), row_tiles);
    }

    Result<void> make_product(const Key& key) {
        if (products.contains(key)) return {};
        NL_TRY(check_memory_for_onednn());
        const auto [rows, outputs, depth, compact] = key;
        const dnnl::memory::desc x({rows, depth}, dnnl_type<T>(), DnnlTag::ab);
        const dnnl::memory::desc w({depth, outputs}, dnnl_type<T>(), compact ? DnnlTag::ab : DnnlTag::ba);
        const dnnl::memory::desc y({rows, outputs}, DnnlType::f32, DnnlTag::ab);
        const auto description = describe_matmul(engine, x, w, y);
        const dnnl::memory::desc scratch = description.scratchpad_desc();
        TileProduct product{dnnl::matmul(description), {}};
        for (TileMemory<T>& memory : memories) {
            product.arguments.push_back({{DNNL_ARG_SRC, {x, engine, nullptr}},
                                         {DNNL_ARG_WEIGHTS, {w, engine, nullptr}},
                                         {DNNL_ARG_DST, {y, engine, nullptr}},
                                         {DNNL_ARG_SCRATCHPAD, {scratch, engine, nullptr}}});
            if (memory.scratch.size() >= scratch.get_size()) continue;
            NL_ASSIGN(memory.scratch, Buffer<std::byte>::allocate("scratch memory of products",
                                                                  {static_cast<int64_t>(scratch.get_size())}));
        }
        products.emplace(key, std::move(product));
        return {};
    }

    Result<void> make_products(const Matrix<T>& w, int64_t max_rows) {
        const OnednnThreads::One alone(onednn);
        const int64_t outputs = std::min(tile_outputs(w), w.outputs);
        const int64_t rest = w.outputs % outputs;
        for (const int64_t rows : kTileRows) {
            if (rows > padded_rows(max_rows) || (batch_invariant && rows != kInvariantTileRows)) continue;
            NL_TRY(make_product({rows, outputs, w.depth, w.compact()}));
            if (rest > 0) NL_TRY(make_product({rows, rest, w.depth, w.compact()}));
        }
        return {};
    }

    // Memory for products with a compact matrix.
    Result<void> reserve_compact(const Matrix<T>& w, int64_t max_rows) {
        const int64_t rows = batch_invariant ? max_rows : std::min(max_rows, most_compact_rows(w));
        for (const CompactRows& part : w.parts) {
            Buffer<float>& x = compact_x[static_cast<size_t>(kind_of(part))];
            const int64_t size = rows * spread_size(w.depth, kind_of(part));
            if (x.size() >= static_cast<size_t>(size)) continue;
            NL_ASSIGN(x, Buffer<float>::allocate("rows of activations", {size}));
        }
        if (!w.columns.empty() && ordered.size() < static_cast<size_t>(padded_rows(max_rows) * w.depth)) {
            NL_ASSIGN(ordered, Buffer<T>::allocate("rows of activations", {padded_rows(max_rows), w.depth}));
        }
        if (multiplies_codes(w, max_rows) || !has_many_rows<T>()) return {};
        for (TileMemory<T>& memory : memories) {
            const int64_t tile = tile_outputs(w) * w.depth;
            if (memory.expanded.size() >= static_cast<size_t>(tile)) continue;
            NL_ASSIGN(memory.expanded, Buffer<T>::allocate("a tile of weights", {tile}));
        }
        return {};
    }

    // The weights of w's outputs [first, first + outputs) as oneDNN multiplies them. Compact ones are widened to the
    // memory of the pool's thread of this number.
    T* tile_weights(const Matrix<T>& w, int64_t first, int64_t outputs, int32_t thread) {
        // oneDNN takes no const pointers; sources are only read.
        if (!w.compact())
            return const_cast<T*>(w.data) + first * w.depth;  // NOLINT(cppcoreguidelines-pro-type-const-cast)
        T* const widened = memories[thread].expanded.data();
        expand_tile(w.parts, first, outputs, 0, w.depth, outputs, widened);
        return widened;
    }

    // Computes the tile of these weights, w's from output `first` on, with its rows of x, and stores it in y. Runs on
    // the calling thread, the pool's thread of this number.
    void compute_tile(const Matrix<T>& w, T* weights, T* x, int64_t rows, int64_t first, int64_t outputs, float* y,
                      bool accumulate, int32_t thread) {
        const TileProduct& product = products.at({rows, outputs, w.depth, w.compact()});
        const TileArguments& arguments = product.arguments[thread];
        TileMemory<T>& memory = memories[thread];
        arguments.at(DNNL_ARG_SRC).set_data_handle(x);
        arguments.at(DNNL_ARG_WEIGHTS).set_data_handle(weights);
        arguments.at(DNNL_ARG_DST).set_data_handle(memory.y.data());
        arguments.at(DNNL_ARG_SCRATCHPAD).set_data_handle(memory.scratch.data());
        const OnednnThreads::One alone(onednn);
        product.matmul.execute(memory.stream, arguments);
        memory.stream.wait();
        for (int64_t row = 0; row < rows; ++row) {
            const float* const from = memory.y.data() + row * outputs;
            float* const to = y + row * w.outputs + first;
            if (accumulate) {
                add(from, outputs, to);
            } else {
                std::copy_n(from, outputs, to);
            }
        }
    }

    Result<void> many_rows(const Matrix<T>& w, T* x, int64_t rows, float* y, bool accumulate) {
        const int64_t padded = padded_rows(rows);
        // oneDNN 3's AMX kernels read past the end of a row whose depth their tiles don't divide, and multiply
        // what they find there by zero. After the last row that must not be a NaN in memory that was never written.
        std::fill(x + rows * w.depth, x + padded * w.depth, T());
        tile_begins.clear();
        for (int64_t row = 0; row < padded; row += first_tile_rows(padded - row)) tile_begins.push_back(row);
        const int64_t outputs = std::min(tile_outputs(w), w.outputs);
        const int64_t output_tiles = tiles_of(w.outputs, outputs);
        const auto row_tiles = static_cast<int64_t>(tile_begins.size());
        const int64_t parts = row_parts(row_tiles, output_tiles);
        const int64_t cost = cost_of_flops(2 * padded * w.outputs * w.depth);
        std::atomic<dnnl_status_t> failed = dnnl_success;
        pool.run(output_tiles * parts, cost, [&](int64_t item, int32_t thread) {
            const int64_t first = item / parts * outputs;
            const int64_t count = std::min(outputs, w.outputs - first);
            const int64_t part = item % parts;
            try {
                T* const weights = tile_weights(w, first, count, thread);
                for (int64_t tile = part * row_tiles / parts; tile < (part + 1) * row_tiles / parts; ++tile) {
                    const int64_t row = tile_begins[tile];
                    compute_tile(w, weights, x + row * w.depth, first_tile_rows(padded - row), first, count,
                                 y + row * w.outputs, accumulate, thread);
                }
            } catch (const dnnl::error& error) {
                failed = error.status;
            } catch (...) {  // std::bad_alloc, of what a call takes
                failed = dnnl_out_of_memory;
            }
        });
        if (failed == dnnl_success) return {};
        return fail(status_of(failed), "oneDNN failed at a product of ", rows, " rows with a ", w.outputs, " x ",
                    w.depth, " matrix: ", dnnl_status2str(failed));
    }

    // Stores rows of x in `wide`, as float32: to_wide(row of x, its depth, where).
    template <typename ToWide>
    void widen(const T* x, int64_t rows, int64_t depth, const ToWide& to_wide) {
        pool.run(rows, cost_of_bytes(rows * depth * static_cast<int64_t>(sizeof(T) + sizeof(float))),
                 [&](int64_t row, int32_t) { to_wide(x + row * depth, depth, wide.data() + row * depth); });
    }

    // Divides the product into `output_tiles` tiles of w's outputs, and its rows into tiles of `row_step`. Calls
    // work(output tile, first row, thread) for each pair of the two, all row tiles of an output tile in turn.
    template <typename Work>
    void for_tiles(const Matrix<T>& w, int64_t rows, int64_t row_step, int64_t output_tiles, const Work& work) {
        const int64_t row_tiles = (rows + row_step - 1) / row_step;
        const int64_t weights = w.outputs * w.depth;
        const int64_t cost =
            std::max(cost_of_bytes(weights * static_cast<int64_t>(sizeof(T))), cost_of_flops(2 * rows * weights));
        pool.run(output_tiles * row_tiles, cost,
                 [&](int64_t tile, int32_t thread) { work(tile / row_tiles, tile % row_tiles * row_step, thread); });
    }

    void by_dots(const Matrix<T>& w, const T* x, int64_t rows, float* y, bool accumulate) {
        const int64_t depth = w.depth;
        widen(x, rows, depth, [](const T* from, int64_t size, float* to) { spread(from, size, to); });
        for_tiles(w, rows, kDotRows, tiles_of(w.outputs, kDotOutputs), [&](int64_t tile, int64_t row, int32_t) {
            const int64_t first = tile * kDotOutputs;
            const DotProducts<T> of{w.data + first * depth,
                                    wide.data() + row * depth,
                                    depth,
                                    y + row * w.outputs + first,
                                    w.outputs,
                                    accumulate};
            dot_products(of, std::min(kDotRows, rows - row), std::min(kDotOutputs, w.outputs - first));
        });
    }

    // At most kFewRows rows, where has_bfloat16_rows().
    void by_bfloat16(const Matrix<T>& w, const T* x, int64_t rows, float* y, bool accumulate) {
        if constexpr (std::is_same_v<T, BFloat16>) {
            for_tiles(w, rows, kFewRows, tiles_of(w.outputs, kDotOutputs), [&](int64_t tile, int64_t, int32_t) {
                const int64_t first = tile * kDotOutputs;
                const BFloat16Products of{w.data + first * w.depth, x, w.depth, y + first, w.outputs, accumulate};
                bfloat16_products(of, rows, std::min(kDotOutputs, w.outputs - first));
            });
        }
    }

    // The rows of x with their elements in the order of the matrix's columns.
    T* in_order_of(const Matrix<T>& w, const T* x, int64_t rows) {
        pool.run(rows, cost_of_bytes(rows * w.depth * 8), [&](int64_t row, int32_t) {
            const T* const from = x + row * w.depth;
            T* const to = ordered.data() + row * w.depth;
            for (int64_t i = 0; i < w.depth; ++i) to[i] = from[w.columns[static_cast<size_t>(i)]];
        });
        return ordered.data();
    }

    void by_compact(const Matrix<T>& w, const T* x, int64_t rows, float* y, bool accumulate) {
        for (const RowKind kind : kRowKinds) {
            if (std::ranges::none_of(w.parts, [&](const CompactRows& part) { return kind == kind_of(part); })) continue;
            pool.run(rows, cost_of_bytes(rows * w.depth * 8), [&](int64_t row, int32_t) {
                spread_compact(x + row * w.depth, w.depth, kind, compact_row(w, kind, row));
            });
        }
        int64_t tiles = 0;
        for (const CompactRows& part : w.parts) tiles += tiles_of(part.outputs, kCompactOutputs);
        for_tiles(w, rows, kDotRows, tiles, [&](int64_t tile, int64_t row, int32_t) {
            int64_t begin = 0;  // of the part, among the outputs
            for (const CompactRows& part : w.parts) {
                const int64_t of_part = tiles_of(part.outputs, kCompactOutputs);
                if (tile < of_part)
                    return compact_tile(w, part, begin, tile, {row, std::min(kDotRows, rows - row)}, y, accumulate);
                tile -= of_part;
                begin += part.outputs;
            }
        });
    }

    // One tile of a part, whose first output is output `begin` of w.
    void compact_tile(const Matrix<T>& w, const CompactRows& part, int64_t begin, int64_t tile, const RowRange& rows,
                      float* y, bool accumulate) {
        const int64_t first = tile * kCompactOutputs;
        const RowKind kind = kind_of(part);
        const CompactProducts of{.form = part.form,
                                 .strips = part.strips.data() + first / kStrip * strip_bytes(part.form, w.depth),
                                 .row_scales = part.scales.data() + first,
                                 .depth = w.depth,
                                 .kind = kind,
                                 .x = compact_row(w, kind, rows.first),
                                 .y = y + rows.first * w.outputs + begin + first,
                                 .y_stride = w.outputs,
                                 .accumulate = accumulate};
        compact_products(of, rows.count, std::min(kCompactOutputs, part.outputs - first));
    }

    // Packs the columns [k, k + depth) of w's outputs [first, first + outputs).
    static void pack_tile(const Matrix<T>& w, int64_t first, int64_t outputs, int64_t k, int64_t depth, float* to) {
        if (w.compact()) return expand_tile(w.parts, first, outputs, k, depth, panel_outputs(), to);
        pack(w.data + first * w.depth + k, w.depth, outputs, depth, to);
    }

    void by_packing(const Matrix<T>& w, const T* x, int64_t rows, float* y, bool accumulate) {
        widen(x, rows, w.depth, [](const T* from, int64_t size, float* to) { convert(from, size, to); });
        const int64_t tiles = tiles_of(w.outputs, kPackedOutputs);
        const int64_t parts = row_parts(tiles_of(rows, kPackedRows), tiles);
        const int64_t step = tiles_of(tiles_of(rows, parts), kPackedRows) * kPackedRows;
        for_tiles(w, rows, step, tiles, [&](int64_t tile, int64_t first_row, int32_t thread) {
            const int64_t first = tile * kPackedOutputs;
            const int64_t outputs = std::min(kPackedOutputs, w.outputs - first);
            float* const packed = memories[thread].packed.data();
            for (int64_t k = 0; k < w.depth; k += kPackedDepth) {
                const int64_t depth = std::min(kPackedDepth, w.depth - k);
                pack_tile(w, first, outputs, k, depth, packed);
                const int64_t end = std::min(first_row + step, rows);
                for (int64_t row = first_row; row < end; row += kPackedRows) {
                    const PackedProduct of{.packed = packed,
                                           .outputs = outputs,
                                           .depth = depth,
                                           .x = wide.data() + row * w.depth + k,
                                           .x_stride = w.depth,
                                           .y = y + row * w.outputs + first,
                                           .y_stride = w.outputs,
                                           .accumulate = accumulate || k > 0};
                    packed_product(of, std::min(kPackedRows, end - row));
                }
            }
        });
    }

    static constexpr std::array<RowKind, kNumRowKinds> kRowKinds{RowKind::floats, RowKind::words, RowKind::bytes};
    // How the products with a part read rows of x.
    static RowKind kind_of(const CompactRows& part) { return row_kind(part.form.codes, std::is_same_v<T, BFloat16>); }
    float* compact_row(const Matrix<T>& w, RowKind kind, int64_t row) {
        return compact_x[static_cast<size_t>(kind)].data() + row * spread_size(w.depth, kind);
    }

    ThreadPool& pool;
    const bool batch_invariant;
    OnednnThreads onednn;
    std::array<Buffer<float>, kNumRowKinds> compact_x;  // rows of x as compact_products() takes them, by RowKind
    Buffer<T> ordered;                                  // see in_order_of()
    Buffer<float> wide;                                 // rows of x as dot_products() or packed_product() takes them
    dnnl::engine engine{dnnl::engine::kind::cpu, 0};
    std::map<Key, TileProduct> products;
    std::vector<TileMemory<T>> memories;  // one for each thread
    std::vector<int64_t> tile_begins;     // first rows of the tiles of the product that runs
};

template <typename T>
Products<T>::Products(std::unique_ptr<State> state) : state_(std::move(state)) {}
template <typename T>
Products<T>::Products() noexcept = default;
template <typename T>
Products<T>::Products(Products&&) noexcept = default;
template <typename T>
Products<T>& Products<T>::operator=(Products&&) noexcept = default;
template <typename T>
Products<T>::~Products() = default;

template <typename T>
uint64_t Products<T>::scratch_bytes(int64_t max_rows, int64_t max_depth) {
    return saturating_product({most_wide_rows<T>(max_rows), max_depth, static_cast<int64_t>(sizeof(float))});
}

template <typename T>
Result<Products<T>> Products<T>::create(ThreadPool& pool, int64_t max_rows, int64_t max_depth, bool batch_invariant) {
    NL_TRY(check_memory_for_onednn());
    try {
        auto state = std::make_unique<State>(pool, batch_invariant);
        NL_ASSIGN(state->wide,
                  Buffer<float>::allocate("rows of activations", {most_wide_rows<T>(max_rows), max_depth}));
        for (int32_t thread = 0; thread < pool.num_threads(); ++thread) {
            NL_ASSIGN(auto y, Buffer<float>::allocate("a tile of a product", {kTileRows.front(), kTileOutputs}));
            NL_ASSIGN(auto packed,
                      Buffer<float>::allocate("packed weights",
                                              {has_many_rows<T>() ? 0 : packed_size(kPackedOutputs, kPackedDepth)}));
            state->memories.push_back({dnnl::stream(state->engine), std::move(y), {}, std::move(packed), {}});
        }
        return Products(std::move(state));
    } catch (const dnnl::error& error) {
        return fail(status_of(error.status), "oneDNN could not start: ", error.what());
    }
}

template <typename T>
Result<void> Products<T>::prepare(const Matrix<T>& w, int64_t max_rows) {
    if (w.compact()) NL_TRY(state_->reserve_compact(w, max_rows));
    if (!state_->takes_tiles(w, max_rows)) return {};
    try {
        return state_->make_products(w, max_rows);
    } catch (const dnnl::error& error) {
        return fail(status_of(error.status), "oneDNN failed to make products with a ", w.outputs, " x ", w.depth,
                    " matrix: ", error.what());
    }
}

template <typename T>
Result<void> Products<T>::run(const Matrix<T>& w, T* x, int64_t rows, float* y, bool accumulate) {
    if (rows == 0) return {};
    if (!w.columns.empty()) x = state_->in_order_of(w, x, rows);
    if (state_->takes_tiles(w, rows)) return state_->many_rows(w, x, rows, y, accumulate);
    if (state_->multiplies_codes(w, rows)) {
        state_->by_compact(w, x, rows, y, accumulate);
    } else if (has_bfloat16_rows<T>()) {
        state_->by_bfloat16(w, x, rows, y, accumulate);
    } else if (rows <= kMostDotRows || state_->batch_invariant) {
        state_->by_dots(w, x, rows, y, accumulate);
    } else {
        state_->by_packing(w, x, rows, y, accumulate);
    }
    return {};
}

template class Products<float>;
template class Products<BFloat16>;

}  // namespace nanolith::cpu
