// A batch of paged attention with random contents: built chunk by chunk and sequence by sequence, run on a device, and
// compared with the same in float64.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/device.h"
#include "ops/numbers.h"

namespace nanolith::test {

struct AttentionKind {
    int32_t num_heads = 4;
    int32_t num_kv_heads = 2;
    int32_t head_dim = 64;
    int32_t page_size = 16;
    Format dtype = Format::f32;
    Format kv_dtype = Format::f32;
    double scale = 0;  // 0: 1 / sqrt(head_dim)
    bool causal = true;
    int32_t window = 0;
    double softcap = 0;
    bool rotated = false;
    float k_scale = 1;
    float v_scale = 1;

    [[nodiscard]] std::string name() const;
    [[nodiscard]] AttentionOptions options() const;
};

constexpr int32_t kMaxPosition = 1 << 20;
// What rotated kinds turn by: 10000^(-2i / head_dim), as float32.
std::vector<float> rope_frequencies(int32_t head_dim);
// `head` of head_dim elements, turned for `position`, in double.
void rotate_head(double* head, const std::vector<float>& frequencies, int64_t position);

// A span of tokens with its keys and values as numbers of the pages' format times their scale.
struct TokenSpan {
    int32_t length = 0;
    int32_t first_entry = 0;     // in the page table
    std::vector<double> keys;    // [length, num_kv_heads, head_dim]
    std::vector<double> values;  // the same
};

// How a sequence uses a chunk: its first `length` tokens, at `base`.
struct ChunkUse {
    size_t chunk = 0;
    int32_t length = 0;
    int32_t base = 0;
};

struct CaseSequence {
    int32_t num_rows = 0;
    int32_t first_position = 0;
    std::vector<ChunkUse> chunks;
};

// softmax(scores) V of one query over all that it sees, in double; returns the log-sum-exp.
double reference_attention(const AttentionKind& kind, const std::vector<double>& query, int32_t kv_head,
                           int64_t position, const std::vector<ChunkUse>& uses, const std::vector<TokenSpan>& spans,
                           double* out);

class PagedCase {
  public:
    PagedCase(const AttentionKind& kind, Random& random) : kind_(kind), random_(random) {}

    // Keys and values of random numbers in [-1, 1]; returns the chunk's index.
    size_t add_chunk(int32_t length);
    // The same with given keys, [length][head_dim] for every KV head.
    size_t add_chunk_with_keys(const std::vector<std::vector<double>>& keys);
    // Makes a key or a value of a chunk NaN, for every KV head.
    void spoil_key(size_t chunk, int32_t token) { spoil(spans_[chunk].keys, token); }
    void spoil_value(size_t chunk, int32_t token) { spoil(spans_[chunk].values, token); }
    void add_sequence(int32_t num_rows, int32_t first_position, std::vector<ChunkUse> chunks);
    // A decode or prefill of `num_rows` at the end of a chunk of `length` tokens of its own.
    void add_simple_sequence(int32_t num_rows, int32_t length);
    // Queries are random numbers in [-bound, bound] unless set.
    void set_query_bound(double bound) { query_bound_ = bound; }
    void set_query(const std::vector<double>& query) { fixed_query_ = query; }

    // The plan that expect_right makes is for so many rows; for those that there are unless set.
    void set_max_rows(int64_t rows) { max_rows_ = rows; }

    // Lays the chunks out in shuffled pages among poisoned ones, and draws the queries.
    void finish();

    // plan_set with everything that finish made.
    [[nodiscard]] nl_status set(nl_attention_plan* plan) const;
    // Creates options and plan, runs, and expects the reference's output and log-sum-exp; twice, with the same bits.
    void expect_right(nl_ops* ops, const std::string& device);

    [[nodiscard]] int64_t num_rows() const { return static_cast<int64_t>(positions_.size()); }
    [[nodiscard]] int64_t num_sequences() const { return static_cast<int64_t>(sequence_rows_.size()); }
    [[nodiscard]] int64_t num_segments() const { return static_cast<int64_t>(lengths_.size()); }
    [[nodiscard]] int64_t num_entries() const { return static_cast<int64_t>(page_table_.size()); }
    [[nodiscard]] const std::vector<std::byte>& pool() const { return pool_; }
    [[nodiscard]] const std::vector<std::byte>& queries() const { return queries_; }
    // Rows are further apart than their heads take, so that writes beside them show.
    [[nodiscard]] int64_t row_stride() const { return int64_t{kind_.num_heads} * kind_.head_dim + 16; }
    [[nodiscard]] int64_t head_stride() const { return kind_.head_dim; }
    [[nodiscard]] size_t tensor_elements() const { return static_cast<size_t>(num_rows() * row_stride()); }
    // Output and log-sum-exp as they should be; `lse` may be empty.
    void compare(const std::vector<std::byte>& out, const std::vector<float>& lse) const;

  private:
    TokenSpan make_span(int32_t length);
    void spoil(std::vector<double>& elements, int32_t token) const;
    void place(const TokenSpan& span);
    void compare_head(int64_t row, int32_t head, const CaseSequence& sequence, const std::vector<std::byte>& out,
                      const std::vector<float>& lse) const;

    AttentionKind kind_;
    Random& random_;
    double query_bound_ = 4;
    std::vector<double> fixed_query_;
    int64_t max_rows_ = 0;
    std::vector<TokenSpan> spans_;
    std::vector<CaseSequence> sequences_;

    int32_t num_pages_ = 0;
    std::vector<int32_t> page_table_, first_entries_, lengths_, bases_, sequence_rows_, sequence_segments_, positions_;
    std::vector<std::byte> pool_;
    std::vector<std::byte> queries_;
};

}  // namespace nanolith::test
