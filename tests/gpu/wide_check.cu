// Checks the wide attention kernel against float64 on small ragged cases, and times it on large ones.
//
//   wide_check check [FROM [TO]]   cases by number
//   wide_check time                for each shape: us, TFLOP/s, the clock after it, and the share of that clock's peak
//
// Build, in the repository's root (and once more with -DNL_CHECK_HANGS, in which no wait lasts for ever):
//   nvcc -std=c++20 -O3 -gencode=arch=compute_90a,code=sm_90a -Icuda -Isrc -Iinclude tests/gpu/wide_check.cu
//       cuda/attention/page_map.cpp cuda/runtime/check.cpp -lcublasLt -o wide_check
//
// Every case gets fresh random queries, keys and values (seed printed); pages are shuffled, and what no row may read is
// NaN. Exits non-zero when a case fails.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "attention/wide_launch.h"

namespace {

using namespace nanolith::cuda;

uint32_t g_seed = 0;

void must(cudaError_t status, const char* what) {
    if (status == cudaSuccess) return;
    std::printf("FAIL %s: %s\n", what, cudaGetErrorString(status));
    std::exit(3);
}
#define MUST(call) must(call, #call)

template <typename T>
T* device_array(size_t count) {
    T* p = nullptr;
    MUST(cudaMalloc(&p, std::max<size_t>(1, count) * sizeof(T)));
    return p;
}
template <typename T>
T* device_copy(const std::vector<T>& host) {
    T* p = device_array<T>(host.size());
    MUST(cudaMemcpy(p, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
    return p;
}

// ---- data -----------------------------------------------------------------------------------------------------------

__device__ uint32_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return static_cast<uint32_t>((x ^ (x >> 31)) >> 16);
}

template <typename T>
__global__ void fill_normal(T* to, size_t count, uint64_t seed, float scale) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x) {
        const float u = (mix(seed + 2 * i) + 1.0F) * 2.3283064e-10F;
        const float v = mix(seed + 2 * i + 1) * 2.3283064e-10F;
        to[i] = from_float<T>(scale * sqrtf(-2 * logf(u)) * cospif(2 * v));
    }
}

// Poisons a page's tokens from `from` on.
template <typename T>
__global__ void poison(T* pages, const int2* page_from, HeadShape shape) {
    const int2 what = page_from[blockIdx.x];
    T* const page = pages + what.x * shape.page_elements();
    for (int64_t i = threadIdx.x; i < shape.page_elements(); i += blockDim.x) {
        if (i / shape.head_dim % shape.page_size >= what.y) page[i] = from_float<T>(NAN);
    }
}

// ---- reference ------------------------------------------------------------------------------------------------------

// Tokens a row looks at; base with the row's own included.
struct SeenSpan {
    int first_page, first_token, end_token, base;
};

struct Reference {
    const int* rows;        // to compute
    const int* first_seen;  // of all rows
    const SeenSpan* seen;
    double* scratch;
    int64_t scratch_tokens;
    double* output;  // [row index][heads][D]
    double* lse;
};

template <typename T>
__device__ const T* token_at(const AttentionArguments<T>& a, const HeadShape& shape, const SeenSpan& span, int kv_head,
                             int t, bool value) {
    const int64_t page = a.work.page_table[span.first_page + t / shape.page_size];
    const int64_t head = (value ? shape.num_kv_heads : 0) + kv_head;
    return static_cast<const T*>(a.pages) + page * shape.page_elements() +
           (head * shape.page_size + t % shape.page_size) * shape.head_dim;
}

// One block of 256 threads for each (row, head); scores go to scratch.
template <typename T>
__global__ void reference_kernel(AttentionArguments<T> a, HeadShape shape, Reference r) {
    __shared__ double query[256];
    __shared__ double reduced[256];
    const int row = r.rows[blockIdx.x];
    const int head = static_cast<int>(blockIdx.y);
    const int thread = static_cast<int>(threadIdx.x);
    const int dim = shape.head_dim;
    const int kv_head = head / (shape.num_heads / shape.num_kv_heads);
    double* const scratch = r.scratch + (int64_t{blockIdx.x} * gridDim.y + head) * r.scratch_tokens;
    const T* const q = a.queries + a.query_layout.offset(row, head);
    double highest = -INFINITY;
    int offset = 0;
    for (int s = r.first_seen[row]; s < r.first_seen[row + 1]; ++s) {
        const SeenSpan span = r.seen[s];
        const int p = a.work.positions[row] - span.base;
        __syncthreads();
        if (thread < dim / 2) {
            double x = to_float(q[thread]);
            double y = to_float(q[thread + dim / 2]);
            if (a.rope != nullptr && p >= 0) {
                const float2 turn = a.rope[int64_t{p} * (dim / 2) + thread];
                const double turned = x * turn.x - y * turn.y;
                y = y * turn.x + x * turn.y;
                x = turned;
            }
            query[thread] = x;
            query[thread + dim / 2] = y;
        }
        __syncthreads();
        for (int t = span.first_token + thread; t < span.end_token; t += 256) {
            double score = -INFINITY;
            if ((!a.causal || t <= p) && (a.window == 0 || t > p - a.window)) {
                const T* const k = token_at(a, shape, span, kv_head, t, false);
                score = 0;
                for (int i = 0; i < dim; ++i) score += query[i] * to_float(k[i]);
                score *= a.scale;
                if (a.softcap > 0) score = a.softcap * tanh(score / a.softcap);
            }
            scratch[offset + t - span.first_token] = score;
            highest = fmax(highest, score);
        }
        offset += span.end_token - span.first_token;
    }
    reduced[thread] = highest;
    __syncthreads();
    for (int i = 0; i < 256; ++i) highest = fmax(highest, reduced[i]);
    __syncthreads();
    double sum = 0;
    for (int i = thread; i < offset; i += 256) {
        scratch[i] = scratch[i] == -INFINITY ? 0 : exp(scratch[i] - highest);
        sum += scratch[i];
    }
    reduced[thread] = sum;
    __syncthreads();
    sum = 0;
    for (int i = 0; i < 256; ++i) sum += reduced[i];
    __syncthreads();
    // Each of 256 / dim groups of threads adds a part of the tokens.
    const int parts = 256 / dim;
    const int part = thread / dim;
    double out = 0;
    offset = 0;
    for (int s = r.first_seen[row]; s < r.first_seen[row + 1]; ++s) {
        const SeenSpan span = r.seen[s];
        if (part < parts) {
            for (int t = span.first_token + part; t < span.end_token; t += parts) {
                const double weight = scratch[offset + t - span.first_token];
                if (weight != 0) out += weight * to_float(token_at(a, shape, span, kv_head, t, true)[thread % dim]);
            }
        }
        offset += span.end_token - span.first_token;
    }
    reduced[thread] = out;
    __syncthreads();
    if (thread >= dim) return;
    out = 0;
    for (int i = 0; i < parts; ++i) out += reduced[i * dim + thread];
    const int64_t at = int64_t{blockIdx.x} * gridDim.y + head;
    r.output[at * dim + thread] = sum == 0 ? 0 : a.value_scale * out / sum;
    if (thread == 0) r.lse[at] = sum == 0 ? -INFINITY : highest + log(sum);
}

// ---- a batch and its work list --------------------------------------------------------------------------------------

struct Batch {
    HeadShape shape;
    bool causal = true;
    int window = 0;
    float softcap = 0;
    float scale = NAN;  // NaN: 1 / sqrt(head_dim)
    float value_scale = 1;
    int rows_per_block = 0;  // above 0: queries and outputs lie as [block][head][row in block]
    bool rope = false;
    float query_scale = 1;
    int item_vectors = kWideVectors;

    std::vector<int> page_table;
    std::vector<int> positions;
    std::vector<QueryRow> rows;
    std::vector<Span> spans;
    std::vector<AttentionItem> items;
    std::vector<std::vector<SeenSpan>> seen;       // of each row
    std::vector<std::vector<int>> partials;        // of each row: places of its first query head
    std::vector<std::pair<int, int>> valid_until;  // page, tokens of it that are there
    int num_partials = 0;
    int used_pages = 0;

    int group() const { return shape.num_heads / shape.num_kv_heads; }

    // Pages for tokens [0, end); returns the first place in the page table. Those before first_token are not there.
    int add_pages(int end) {
        const int first = static_cast<int>(page_table.size());
        for (int t = 0; t < end; t += shape.page_size) {
            valid_until.push_back({used_pages, std::min(shape.page_size, end - t)});
            page_table.push_back(used_pages++);
        }
        return first;
    }
    int add_row(int position) {
        positions.push_back(position);
        seen.emplace_back();
        partials.emplace_back();
        return static_cast<int>(positions.size()) - 1;
    }
    // Items of kWideVectors vectors for `these` rows over `all` spans, cut along the tokens in `splits` parts.
    void add_items(const std::vector<QueryRow>& these, const std::vector<Span>& all, int splits, bool partial) {
        const int first_row = static_cast<int>(rows.size());
        rows.insert(rows.end(), these.begin(), these.end());
        for (const QueryRow& query : these) {
            for (const Span& span : all) {
                seen[query.row].push_back({span.first_page, span.first_token, span.end_token, span.base + query.base});
            }
        }
        int64_t total = 0;
        for (const Span& span : all) total += (span.end_token - span.first_token + 63) / 64;
        std::vector<std::vector<Span>> parts(splits);
        int64_t done = 0;
        for (const Span& span : all) {
            for (int t = span.first_token; t < span.end_token; t += 64, ++done) {
                std::vector<Span>& part = parts[std::min<int64_t>(splits - 1, done * splits / total)];
                const int end = std::min(t + 64, span.end_token);
                if (!part.empty() && part.back().first_page == span.first_page && part.back().base == span.base &&
                    part.back().end_token == t) {
                    part.back().end_token = end;
                } else {
                    part.push_back({span.first_page, t, end, span.base});
                }
            }
        }
        const int vectors = static_cast<int>(these.size()) * group();
        for (const std::vector<Span>& part : parts) {
            const int first_span = static_cast<int>(spans.size());
            spans.insert(spans.end(), part.begin(), part.end());
            const int first_partial = num_partials;
            if (partial) {
                num_partials += vectors;
                for (size_t r = 0; r < these.size(); ++r) {
                    partials[these[r].row].push_back(first_partial + static_cast<int>(r) * group());
                }
            }
            for (int v = 0; v < vectors; v += item_vectors) {
                items.push_back({first_row + v / group(), v % group(), std::min(item_vectors, vectors - v), first_span,
                                 static_cast<int>(part.size()), partial ? first_partial + v : -1});
            }
        }
    }
    int64_t tokens_of(const AttentionItem& item) const {
        int last = 0;
        for (int v = 0; v < item.num_vectors; v += group()) {
            const QueryRow& query = rows[item.first_query + (item.first_vector + v) / group()];
            last = std::max(last, positions[query.row] - query.base);
        }
        int64_t tokens = 0;
        for (int s = 0; s < item.num_spans; ++s) {
            const Span& span = spans[item.first_span + s];
            const int end = causal ? std::min(span.end_token, last - span.base + 1) : span.end_token;
            tokens += std::max(0, end - span.first_token);
        }
        return tokens;
    }
    void longest_first() {
        std::vector<std::pair<int64_t, AttentionItem>> order;
        for (const AttentionItem& item : items) order.push_back({-tokens_of(item), item});
        std::stable_sort(order.begin(), order.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
        for (size_t i = 0; i < items.size(); ++i) items[i] = order[i].second;
    }
};

// A batch on the device.
template <typename T>
struct DeviceBatch {
    AttentionArguments<T> a;
    HeadShape shape;
    int num_items = 0;
    int32_t* counters = nullptr;
    std::vector<void*> owned;
    size_t output_count = 0;

    template <typename U>
    U* keep(U* p) {
        owned.push_back(const_cast<std::remove_const_t<U>*>(p));
        return p;
    }

    DeviceBatch(Batch batch, uint64_t seed, bool poisoned) {
        std::mt19937 random(static_cast<uint32_t>(seed));
        shape = batch.shape;
        const int rows = static_cast<int>(batch.positions.size());
        const int dim = shape.head_dim;
        // Pages in shuffled order, a few more than are used.
        const int spare = 5;
        std::vector<int> places(batch.used_pages + spare);
        for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int>(i);
        std::shuffle(places.begin(), places.end(), random);
        for (int& page : batch.page_table) page = places[page];
        std::vector<int2> bad;
        for (const auto& [page, until] : batch.valid_until) {
            if (until < shape.page_size) bad.push_back({places[page], until});
        }
        for (int i = 0; i < spare; ++i) bad.push_back({places[batch.used_pages + i], 0});
        const size_t pool = places.size() * static_cast<size_t>(shape.page_elements());
        T* const pages = keep(device_array<T>(pool));
        fill_normal<<<1024, 256>>>(pages, pool, seed * 3 + 1, 1.0F);
        if (poisoned) poison<<<static_cast<unsigned>(bad.size()), 256>>>(pages, keep(device_copy(bad)), shape);
        // Queries inside a fused QKV row, or in blocks of rows by head.
        const int64_t row_stride = static_cast<int64_t>(shape.num_heads + 2 * shape.num_kv_heads) * dim;
        const int block = batch.rows_per_block;
        const int padded_rows = block == 0 ? rows : (rows + block - 1) / block * block;
        T* const queries = keep(device_array<T>(padded_rows * row_stride));
        fill_normal<<<1024, 256>>>(queries, padded_rows * row_stride, seed * 3 + 2, batch.query_scale);
        output_count = static_cast<size_t>(padded_rows) * shape.num_heads * dim;
        a.queries = queries;
        if (block == 0) {
            a.query_layout = {row_stride, dim};
            a.output_layout = {static_cast<int64_t>(shape.num_heads) * dim, dim};
        } else {
            const int64_t head_stride = static_cast<int64_t>(block) * dim;
            a.query_layout = {dim, head_stride, shape.num_heads * head_stride, block};
            a.output_layout = a.query_layout;
        }
        a.pages = pages;
        if (batch.rope) {
            int highest = 0;
            for (int p : batch.positions) highest = std::max(highest, p);
            for (const auto& spans : batch.seen) {
                for (const SeenSpan& span : spans) highest = std::max(highest, 4096 - span.base);
            }
            std::vector<float2> table(static_cast<size_t>(highest + 1) * (dim / 2));
            for (int p = 0; p <= highest; ++p) {
                for (int i = 0; i < dim / 2; ++i) {
                    const double angle = p * std::pow(10000.0, -2.0 * i / dim);
                    table[static_cast<size_t>(p) * (dim / 2) + i] = {static_cast<float>(std::cos(angle)),
                                                                     static_cast<float>(std::sin(angle))};
                }
            }
            a.rope = keep(device_copy(table));
        }
        a.work.positions = keep(device_copy(batch.positions));
        a.work.page_table = keep(device_copy(batch.page_table));
        a.work.queries = keep(device_copy(batch.rows));
        a.work.spans = keep(device_copy(batch.spans));
        a.work.wide = keep(device_copy(batch.items));
        num_items = static_cast<int>(batch.items.size());
        a.output = keep(device_array<T>(output_count));
        MUST(cudaMemset(a.output, 0xff, output_count * sizeof(T)));  // NaN
        a.lse = keep(device_array<float>(static_cast<size_t>(rows) * shape.num_heads));
        MUST(cudaMemset(a.lse, 0xff, sizeof(float) * rows * shape.num_heads));
        a.partial.capacity = batch.num_partials;
        const size_t partials = static_cast<size_t>(batch.num_partials) * shape.num_kv_heads;
        a.partial.outputs = keep(device_array<float>(partials * dim));
        a.partial.sums = keep(device_array<float>(partials));
        MUST(cudaMemset(a.partial.outputs, 0xff, partials * dim * sizeof(float)));
        MUST(cudaMemset(a.partial.sums, 0xff, partials * sizeof(float)));
        counters = keep(device_array<int32_t>(2));
        MUST(cudaMemset(counters, 0, 2 * sizeof(int32_t)));
        a.scale = batch.scale;
        a.value_scale = batch.value_scale;
        a.causal = batch.causal;
        a.window = batch.window;
        a.softcap = batch.softcap;
        MUST(cudaDeviceSynchronize());
    }
    ~DeviceBatch() {
        for (void* p : owned) cudaFree(p);
    }
};

template <typename T>
std::vector<T> to_host(const T* from, size_t count) {
    std::vector<T> host(count);
    MUST(cudaMemcpy(host.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost));
    return host;
}

struct Errors {
    double relative = 0;
    double lse = 0;  // largest
    int bad_vector = -1;
    int bad_dim = -1;
    double got = 0, expected = 0;
};

// Compares the given rows with float64.
template <typename T>
Errors compare(const Batch& batch, const DeviceBatch<T>& device, const std::vector<int>& rows) {
    const HeadShape& shape = batch.shape;
    const int dim = shape.head_dim;
    std::vector<int> first_seen{0};
    std::vector<SeenSpan> seen;
    int64_t most = 0;
    for (const auto& spans : batch.seen) {
        int64_t tokens = 0;
        for (const SeenSpan& span : spans) tokens += span.end_token - span.first_token;
        most = std::max(most, tokens);
        seen.insert(seen.end(), spans.begin(), spans.end());
        first_seen.push_back(static_cast<int>(seen.size()));
    }
    const size_t vectors = rows.size() * shape.num_heads;
    Reference r{device_copy(rows),
                device_copy(first_seen),
                device_copy(seen),
                device_array<double>(vectors * most),
                most,
                device_array<double>(vectors * dim),
                device_array<double>(vectors)};
    reference_kernel<<<dim3(static_cast<unsigned>(rows.size()), shape.num_heads), 256>>>(device.a, shape, r);
    MUST(cudaDeviceSynchronize());
    const std::vector<double> expected = to_host(r.output, vectors * dim);
    const std::vector<double> expected_lse = to_host(r.lse, vectors);
    for (const void* p : {(const void*)r.rows, (const void*)r.first_seen, (const void*)r.seen, (const void*)r.scratch,
                          (const void*)r.output, (const void*)r.lse}) {
        cudaFree(const_cast<void*>(p));
    }
    const std::vector<T> output = to_host(device.a.output, device.output_count);
    const std::vector<float> lse = to_host(device.a.lse, batch.positions.size() * shape.num_heads);
    const size_t partials = static_cast<size_t>(batch.num_partials) * shape.num_kv_heads;
    const std::vector<float> partial_outputs = to_host(device.a.partial.outputs, partials * dim);
    const std::vector<float> partial_lse = to_host(device.a.partial.sums, partials);
    Errors errors;
    double difference = 0;
    double norm = 0;
    double worst = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
        const int row = rows[i];
        for (int head = 0; head < shape.num_heads; ++head) {
            const size_t v = i * shape.num_heads + head;
            const size_t at = static_cast<size_t>(row) * shape.num_heads + head;
            const auto place = static_cast<size_t>(device.a.output_layout.offset(row, head));
            std::vector<double> got(dim, 0.0);
            double got_lse = -INFINITY;
            if (batch.partials[row].empty()) {
                for (int d = 0; d < dim; ++d) got[d] = static_cast<double>(static_cast<float>(output[place + d]));
                got_lse = lse[at];
            } else {
                const int kv_head = head / batch.group();
                std::vector<size_t> places;
                for (int p : batch.partials[row]) {
                    places.push_back(static_cast<size_t>(kv_head) * batch.num_partials + p + head % batch.group());
                }
                double highest = -INFINITY;
                for (size_t q : places) highest = std::max(highest, static_cast<double>(partial_lse[q]));
                double sum = 0;
                for (size_t p : places) {
                    if (partial_lse[p] == -INFINITY) {
                        for (int d = 0; d < dim; ++d) got[d] += 0 * partial_outputs[p * dim + d];  // NaN shows
                        continue;
                    }
                    const double weight = std::exp2(partial_lse[p] - highest);
                    sum += weight;
                    for (int d = 0; d < dim; ++d) got[d] += weight * partial_outputs[p * dim + d];
                }
                if (sum > 0) {
                    for (double& x : got) x /= sum;
                    got_lse = (highest + std::log2(sum)) * std::log(2.0);
                }
            }
            for (int d = 0; d < dim; ++d) {
                const double e = got[d] - expected[v * dim + d];
                difference += e * e;
                norm += expected[v * dim + d] * expected[v * dim + d];
                if (!(std::fabs(e) <= worst)) {
                    worst = std::isnan(e) ? INFINITY : std::fabs(e);
                    errors.bad_vector = static_cast<int>(at);
                    errors.bad_dim = d;
                    errors.got = got[d];
                    errors.expected = expected[v * dim + d];
                }
            }
            const double e = got_lse == expected_lse[v] ? 0 : std::fabs(got_lse - expected_lse[v]);
            if (!(e <= errors.lse)) errors.lse = std::isnan(e) ? INFINITY : e;
        }
    }
    errors.relative = norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
    return errors;
}

template <typename V>
void run_variant(const DeviceBatch<typename V::T>& device) {
    auto result = wide::start<V>(device.a, device.shape, device.num_items, device.counters, nullptr);
    if (!result.ok()) {
        std::printf("FAIL start: %s\n", result.error().message.c_str());
        std::exit(3);
    }
}

// ---- small cases ----------------------------------------------------------------------------------------------------

int g_failed = 0;

template <typename V>
void check(const char* name, Batch batch) {
    using T = typename V::T;
    batch.shape.head_dim = V::kHeadDim;
    if (std::isnan(batch.scale)) batch.scale = 1.0F / std::sqrt(static_cast<float>(V::kHeadDim));
    batch.longest_first();
    DeviceBatch<T> device(batch, g_seed, true);
    run_variant<V>(device);
    MUST(cudaGetLastError());
    const cudaError_t status = cudaDeviceSynchronize();
    if (status != cudaSuccess) {
        std::printf("FAIL %s: %s\n", name, cudaGetErrorString(status));
        std::exit(3);
    }
    std::vector<int> rows(batch.positions.size());
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int>(i);
    const Errors e = compare(batch, device, rows);
    const bool half = std::is_same_v<T, __half>;
    const bool pass = e.relative < (half ? 1e-3 : 6e-3) && e.lse < (half ? 2e-3 : 1.5e-2);
    if (!pass) ++g_failed;
    std::printf("%s %-34s %s D%-3d page %-3d rel %.2e lse %.1e", pass ? "PASS" : "FAIL", name, half ? "f16 " : "bf16",
                V::kHeadDim, batch.shape.page_size, e.relative, e.lse);
    if (!pass) {
        std::printf("  worst row %d head %d dim %d: %g, expected %g", e.bad_vector / batch.shape.num_heads,
                    e.bad_vector % batch.shape.num_heads, e.bad_dim, e.got, e.expected);
    }
    std::printf("\n");
}

Batch plain(int heads, int kv_heads, int page_size) {
    Batch batch;
    batch.shape = {heads, kv_heads, 128, page_size};
    return batch;
}

// Sequences with `rows` new rows behind segments of history at bases of their own.
struct Sequence {
    std::vector<std::pair<int, int>> history;  // tokens, base
    int rows;
    int first_position;
};

Batch prefill(int heads, int kv_heads, int page_size, const std::vector<Sequence>& sequences, int splits = 1,
              int item_vectors = kWideVectors) {
    Batch batch = plain(heads, kv_heads, page_size);
    batch.item_vectors = item_vectors;
    for (const Sequence& sequence : sequences) {
        std::vector<Span> spans;
        for (const auto& [tokens, base] : sequence.history) spans.push_back({batch.add_pages(tokens), 0, tokens, base});
        spans.push_back({batch.add_pages(sequence.rows), 0, sequence.rows, sequence.first_position});
        std::vector<QueryRow> rows;
        for (int i = 0; i < sequence.rows; ++i) rows.push_back({batch.add_row(sequence.first_position + i), 0});
        batch.add_items(rows, spans, splits, splits > 1);
    }
    return batch;
}

// Rows of different sequences behind one shared segment, each at its own position, and a private segment each.
Batch shared(int heads, int kv_heads, int page_size, int rows, int tokens, int private_tokens, int splits,
             bool partial = true) {
    Batch batch = plain(heads, kv_heads, page_size);
    std::mt19937 random(g_seed + 7);
    const Span span{batch.add_pages(tokens), 0, tokens, 0};
    std::vector<QueryRow> queries;
    for (int i = 0; i < rows; ++i) {
        const int base = static_cast<int>(random() % 1000);
        // Most see the whole segment, some a part, a few nothing.
        const int position = base + (i % 7 == 3 ? static_cast<int>(random() % tokens) : tokens + private_tokens - 1);
        const int row = batch.add_row(i % 11 == 5 ? base - 1 : position);
        queries.push_back({row, base});
    }
    batch.add_items(queries, {span}, splits, partial);
    if (private_tokens > 0) {
        for (const QueryRow& query : queries) {
            const Span own{batch.add_pages(private_tokens), 0, private_tokens, query.base + tokens};
            batch.add_items({{query.row, 0}}, {own}, 1, true);
        }
    }
    return batch;
}

void check_all(int from, int to) {
    int number = 0;
    auto wanted = [&] {
        ++number;
        return number >= from && number <= to;
    };
    using B128 = wide::Variant<__nv_bfloat16, 128>;
    using H128 = wide::Variant<__half, 128>;
    using B64 = wide::Variant<__nv_bfloat16, 64>;
    using B96 = wide::Variant<__nv_bfloat16, 96>;
    using B256 = wide::Variant<__nv_bfloat16, 256>;
    auto with = [](Batch batch, auto change) {
        change(batch);
        return batch;
    };
    // From the simplest on: these tell where a defect is.
    if (wanted())
        check<B128>("values: queries 0, one tile", with(prefill(4, 1, 64, {{{}, 128, 0}}), [](Batch& b) {
                        b.query_scale = 0;
                        b.causal = false;
                    }));
    if (wanted())
        check<B128>("one tile, not causal",
                    with(prefill(4, 1, 64, {{{}, 128, 0}}), [](Batch& b) { b.causal = false; }));
    if (wanted()) check<B128>("one tile, causal", prefill(4, 1, 64, {{{}, 128, 0}}));
    if (wanted())
        check<B128>("4 tiles, not causal", with(prefill(4, 1, 64, {{{}, 512, 0}}), [](Batch& b) { b.causal = false; }));
    if (wanted()) check<B128>("4 tiles, causal", prefill(4, 1, 64, {{{}, 512, 0}}));
    if (wanted()) check<B128>("ragged", prefill(8, 2, 64, {{{}, 333, 0}, {{}, 1, 0}, {{}, 70, 0}, {{}, 129, 0}}));
    if (wanted()) check<B128>("pages of 16", prefill(8, 2, 16, {{{}, 333, 0}, {{}, 15, 0}, {{}, 17, 0}}));
    if (wanted()) check<B128>("pages of 32", prefill(8, 2, 32, {{{}, 333, 0}, {{}, 32, 0}, {{}, 17, 0}}));
    if (wanted()) check<B128>("pages of 128", prefill(8, 2, 128, {{{}, 333, 0}, {{}, 127, 0}}));
    if (wanted()) check<B128>("pages of 256, history", prefill(8, 2, 256, {{{{700, 0}}, 333, 700}, {{{1, 0}}, 3, 1}}));
    if (wanted()) check<B128>("history, 4 splits", prefill(8, 2, 32, {{{{1000, 0}}, 100, 1000}}, 4));
    if (wanted())
        check<B128>("rope, one base", with(prefill(8, 2, 64, {{{}, 200, 0}}), [](Batch& b) { b.rope = true; }));
    if (wanted())
        check<B128>(
            "rope, chunks in any order",
            with(prefill(8, 2, 64, {{{{300, 100}, {64, 900}, {513, 0}, {16, 777}}, 200, 1500}, {{{40, 5}}, 50, 60}}),
                 [](Batch& b) { b.rope = true; }));
    if (wanted())
        check<B128>(
            "same, 3 splits",
            with(prefill(8, 2, 16, {{{{300, 100}, {64, 900}, {513, 0}, {16, 777}}, 200, 1500}, {{{40, 5}}, 50, 60}}, 3),
                 [](Batch& b) { b.rope = true; }));
    if (wanted()) check<B128>("shared, parts and nothing seen", shared(8, 2, 64, 60, 1000, 0, 1, false));
    if (wanted())
        check<B128>("shared, rope, private, 3 splits",
                    with(shared(8, 2, 64, 60, 1000, 40, 3), [](Batch& b) { b.rope = true; }));
    if (wanted()) check<H128>("f16 ragged", prefill(8, 2, 64, {{{}, 333, 0}, {{}, 1, 0}, {{}, 70, 0}}));
    if (wanted())
        check<H128>("f16 shared, rope, ratio 7",
                    with(shared(28, 4, 64, 50, 777, 33, 2), [](Batch& b) { b.rope = true; }));
    if (wanted())
        check<H128>("f16 scores of +-80",
                    with(prefill(8, 2, 64, {{{{256, 0}}, 200, 256}}), [](Batch& b) { b.scale = 1.8F; }));
    if (wanted())
        check<B64>("chunks, rope", with(prefill(8, 8, 64, {{{{300, 100}, {64, 900}}, 200, 1500}, {{}, 50, 0}}),
                                        [](Batch& b) { b.rope = true; }));
    if (wanted())
        check<B96>("chunks, rope", with(prefill(8, 2, 32, {{{{300, 100}, {64, 900}}, 200, 1500}, {{}, 50, 0}}),
                                        [](Batch& b) { b.rope = true; }));
    if (wanted())
        check<B256>("chunks, rope", with(prefill(8, 2, 16, {{{{300, 100}, {64, 900}}, 200, 1500}, {{}, 50, 0}}),
                                         [](Batch& b) { b.rope = true; }));
    if (wanted())
        check<wide::Variant<__nv_bfloat16, 128, true>>(
            "window 100", with(prefill(8, 2, 64, {{{{700, 0}}, 333, 700}}), [](Batch& b) { b.window = 100; }));
    if (wanted())
        check<wide::Variant<__nv_bfloat16, 128, true, true>>(
            "window 300, soft cap", with(prefill(8, 2, 64, {{{{700, 0}}, 333, 700}}), [](Batch& b) {
                b.window = 300;
                b.softcap = 2;
            }));
    if (wanted())
        check<B128>("large scores", with(prefill(8, 2, 64, {{{{700, 0}}, 333, 700}}), [](Batch& b) { b.scale = 1; }));
    if (wanted())
        check<B128>("items that see nothing",
                    prefill(8, 2, 64, {{{{600, 5000}}, 64, 0}, {{}, 300, 0}, {{{900, 5000}, {70, 0}}, 40, 70}}, 3));
    using C128 = wide::Variant<__nv_bfloat16, 128, false, false, 2>;
    if (wanted())
        check<C128>("pairs of blocks",
                    prefill(8, 2, 64, {{{}, 333, 0}, {{}, 1, 0}, {{}, 70, 0}, {{}, 129, 0}}, 1, 256));
    if (wanted())
        check<C128>(
            "pairs of blocks, rope, 3 splits",
            with(prefill(8, 2, 16, {{{{300, 100}, {64, 900}, {513, 0}, {16, 777}}, 200, 1500}, {{{40, 5}}, 50, 60}}, 3,
                         256),
                 [](Batch& b) { b.rope = true; }));
    if (wanted())
        check<C128>("pairs of blocks, many items",
                    prefill(32, 8, 64, {{{}, 900, 0}, {{}, 700, 0}, {{}, 513, 0}}, 1, 256));
    if (wanted()) check<B128>("many items", prefill(32, 8, 64, {{{}, 900, 0}, {{}, 700, 0}, {{}, 513, 0}}));
    if (wanted())
        check<B128>("scale below 0, scaled values", with(prefill(8, 2, 64, {{{{100, 0}}, 200, 100}}), [](Batch& b) {
                        b.scale = -0.1F;
                        b.value_scale = 0.37F;
                    }));
    if (wanted())
        check<B128>("scale 0", with(prefill(8, 2, 64, {{{{100, 0}}, 200, 100}}), [](Batch& b) { b.scale = 0; }));
    if (wanted())
        check<H128>("blocks of rows by head, rope",
                    with(prefill(8, 2, 64, {{{}, 200, 0}, {{{33, 0}}, 200, 33}}, 1), [](Batch& b) {
                        b.rows_per_block = 200;
                        b.rope = true;
                    }));
    std::printf("%s: %d of %d cases failed (seed %u)\n", g_failed == 0 ? "PASS" : "FAIL", g_failed,
                std::min(to, number) - from + 1, g_seed);
}

// ---- times ----------------------------------------------------------------------------------------------------------

struct Shape {
    const char* name;
    Batch batch;
    double flops;
    int repeats;
};

Batch long_prefill(int sequences, int tokens, int page_size, int item_vectors) {
    std::vector<Sequence> all(sequences, Sequence{{}, tokens, 0});
    Batch batch = prefill(32, 8, page_size, all, 1, item_vectors);
    return batch;
}

Batch long_shared(int rows, int tokens, int page_size, int splits, int item_vectors) {
    Batch batch = plain(32, 8, page_size);
    batch.item_vectors = item_vectors;
    const Span span{batch.add_pages(tokens), 0, tokens, 0};
    std::vector<QueryRow> queries;
    for (int i = 0; i < rows; ++i) queries.push_back({batch.add_row(tokens + 100 + i), 0});
    batch.add_items(queries, {span}, splits, true);
    return batch;
}

// The multiprocessors' clock right now.
__global__ void clock_kernel(float* megahertz) {
    unsigned long long begin_ns, end_ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin_ns));
    const long long begin = clock64();
    do {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(end_ns));
    } while (end_ns - begin_ns < 60000);
    *megahertz = static_cast<float>(clock64() - begin) * 1000.0F / static_cast<float>(end_ns - begin_ns);
}

struct Timing {
    double us;
    float megahertz;
};

// After a pause, so that what ran before does not count; `repeats` launches after two to warm up.
template <typename V>
Timing time_variant(const DeviceBatch<typename V::T>& device, int repeats) {
    static float* const megahertz = device_array<float>(1);
    MUST(cudaDeviceSynchronize());
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::vector<cudaEvent_t> events(repeats + 1);
    for (cudaEvent_t& event : events) MUST(cudaEventCreate(&event));
    for (int i = 0; i < 2; ++i) run_variant<V>(device);
    MUST(cudaEventRecord(events[0]));
    for (int i = 0; i < repeats; ++i) {
        run_variant<V>(device);
        MUST(cudaEventRecord(events[i + 1]));
    }
    clock_kernel<<<1, 1>>>(megahertz);
    std::vector<float> times(repeats);
    MUST(cudaDeviceSynchronize());
    for (int i = 0; i < repeats; ++i) MUST(cudaEventElapsedTime(&times[i], events[i], events[i + 1]));
    for (cudaEvent_t& event : events) cudaEventDestroy(event);
    std::sort(times.begin(), times.end());
    return {times[times.size() / 2] * 1000.0, to_host(megahertz, 1)[0]};
}

template <typename V>
void time_row(const char* name, std::vector<Shape>& shapes, std::vector<DeviceBatch<typename V::T>*>& devices) {
    std::printf("%-16s", name);
    for (size_t i = 0; i < shapes.size(); ++i) {
        MUST(cudaMemset(devices[i]->a.output, 0xff, devices[i]->output_count * 2));
        const Timing t = time_variant<V>(*devices[i], shapes[i].repeats);
        const double tera = shapes[i].flops / t.us * 1e-6;
        std::printf(" %7.1f us %3.0f %4.0f %2.0f%%", t.us, tera, t.megahertz, tera / (132 * 4096 * t.megahertz) * 1e8);
        std::fflush(stdout);
    }
    std::printf("\n");
}

template <typename T>
void check_some(const std::vector<Shape>& shapes, const std::vector<DeviceBatch<T>*>& devices) {
    for (size_t i = 0; i < shapes.size(); ++i) {
        std::vector<int> rows;
        std::mt19937 random(g_seed + 1);
        const int count = static_cast<int>(shapes[i].batch.positions.size());
        for (int k = 0; k < 12; ++k) rows.push_back(static_cast<int>(random() % count));
        const Errors e = compare(shapes[i].batch, *devices[i], rows);
        if (!(e.relative < 6e-3)) std::printf("FAIL %s: rel %.2e lse %.1e\n", shapes[i].name, e.relative, e.lse);
    }
}

// Causal prefill shapes, and a shared segment, in items of `item_vectors`.
std::vector<Shape> make_shapes(int head_dim, int item_vectors, bool all) {
    const double pair = 4.0 * head_dim * 32;
    auto causal = [&](double b, double s) { return pair * b * s * s / 2; };
    std::vector<Shape> shapes{
        {"B4 S2048", long_prefill(4, 2048, 64, item_vectors), causal(4, 2048), 200},
        {"B1 S8192", long_prefill(1, 8192, 64, item_vectors), causal(1, 8192), 80},
    };
    if (all) {
        shapes.push_back({"B1 S32768", long_prefill(1, 32768, 64, item_vectors), causal(1, 32768), 7});
        shapes.push_back({"256x32768", long_shared(256, 32768, 64, 2, item_vectors), pair * 256 * 32768, 200});
        shapes.push_back({"S8192 page 16", long_prefill(1, 8192, 16, item_vectors), causal(1, 8192), 80});
    }
    for (Shape& shape : shapes) {
        shape.batch.shape.head_dim = head_dim;
        shape.batch.scale = 1.0F / std::sqrt(static_cast<float>(head_dim));
        shape.batch.longest_first();
    }
    return shapes;
}

template <typename V>
struct Row {
    const char* name;
    std::vector<Shape> shapes;
    std::vector<DeviceBatch<typename V::T>*> devices;

    Row(const char* what, bool all) : name(what), shapes(make_shapes(V::kHeadDim, V::kItemVectors, all)) {
        for (const Shape& shape : shapes) devices.push_back(new DeviceBatch<typename V::T>(shape.batch, g_seed, true));
    }
    void time(bool check) {
        time_row<V>(name, shapes, devices);
        if (check) check_some(shapes, devices);
    }
};

void time_all() {
    using T = __nv_bfloat16;
    Row<wide::Variant<T, 128>> one("D128", true);
    Row<wide::Variant<T, 128, false, false, 2>> two("D128 pairs", true);
    std::printf("%-16s", "us TFLOP/s MHz");
    for (const Shape& shape : one.shapes) std::printf(" %22s", shape.name);
    std::printf("\n");
    for (int round = 0; round < 4; ++round) {
        one.time(round == 0);
        two.time(round == 0);
    }
    Row<wide::Variant<T, 64>> d64("D64", false);
    Row<wide::Variant<T, 256>> d256("D256", false);
    for (int round = 0; round < 2; ++round) {
        d64.time(round == 0);
        d256.time(round == 0);
    }
}

}  // namespace

int main(int count, char** arguments) {
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    const std::string what = count > 1 ? arguments[1] : "check";
    g_seed = std::random_device{}();
    if (what == "check") {
        check_all(count > 2 ? std::atoi(arguments[2]) : 1, count > 3 ? std::atoi(arguments[3]) : 1000);
        return g_failed == 0 ? 0 : 1;
    }
    time_all();
    return 0;
}
