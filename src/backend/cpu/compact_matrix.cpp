#include "backend/cpu/compact_matrix.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "backend/cpu/compact_products.h"
#include "backend/cpu/norm_rope.h"
#include "backend/read_weight.h"

namespace nanolith::cpu {
namespace {

constexpr int64_t kWords = 16;  // of 16 bits, into which codes are packed together

// The group of the source that a stored group is a part of.
int64_t source_group(const CompactForm& form, int64_t group) {
    return group * stored_group(form) / form.group;
}

template <typename T>
std::byte* put(const T& value, std::byte* to) {
    std::memcpy(to, &value, sizeof(value));
    return to + sizeof(value);
}

std::byte* store_scales(const CompactForm& form, const CompactBlock& block, int64_t groups, std::byte* to) {
    const auto put_all = [&](const auto* numbers) {
        for (int64_t group = 0; group < groups; ++group) to = put(numbers[source_group(form, group)], to);
    };
    if (form.scales == ScaleKind::half) {
        put_all(block.scales);
        if (form.mins) put_all(block.mins);
    } else if (form.scales == ScaleKind::two) {
        to = put(block.scale, to);
        to = put(form.mins ? block.min : Half{}, to);
        put_all(block.factors);
        if (form.mins) put_all(block.min_factors);
    }
    return to;
}

// Places: codes of a word.
template <int64_t Places>
void store_codes(const int8_t* codes, int64_t weights, std::byte* to) {
    constexpr uint32_t kBits = 16 / Places;
    for (int64_t part = 0; part < weights; part += kWords * Places) {
        uint16_t words[kWords];
        for (int64_t j = 0; j < kWords; ++j) {
            uint32_t word = 0;
            for (int64_t place = 0; place < Places; ++place) {
                const auto code = static_cast<uint8_t>(codes[part + place * kWords + j]);
                word |= (code & ((1U << kBits) - 1)) << (kBits * static_cast<uint32_t>(place));
            }
            words[j] = static_cast<uint16_t>(word);
        }
        std::memcpy(to, words, sizeof(words));
        to += sizeof(words);
    }
}

// Reads a row of the weight and stores it.
class RowLoader {
  public:
    RowLoader(const WeightView& weight, const CompactForm& form)
        : weight_(weight), form_(form), blocks_(static_cast<size_t>(compact_blocks(weight.cols))) {
        if (weight.compact == nullptr) wide_.resize(static_cast<size_t>(weight.cols));
    }

    // Gives the row's scale: NaN where something of it is not finite, which the kernels don't look for.
    float load(int64_t output, std::byte* to) {
        float scale = read(output);
        for (size_t block = 0; block < blocks_.size(); ++block) {
            const int64_t size = block_size(weight_.cols, static_cast<int64_t>(block));
            store_block(form_, blocks_[block], size, to);
            if (!is_finite(form_, blocks_[block])) scale = std::numeric_limits<float>::quiet_NaN();
            to += block_bytes(form_, size);
        }
        return scale;
    }

  private:
    float read(int64_t output) {
        if (weight_.compact == nullptr) {
            read_weight(weight_, output * weight_.cols, weight_.cols, wide_.data());
            return quantise_row(form_.codes, wide_.data(), weight_.cols, blocks_.data());
        }
        const int64_t row = stored_row(weight_, output);
        weight_.compact->read_blocks(weight_, row, 0, static_cast<int64_t>(blocks_.size()), blocks_.data());
        return weight_.compact->row_scale(weight_, row);
    }

    const WeightView& weight_;
    const CompactForm form_;
    std::vector<CompactBlock> blocks_;
    std::vector<float> wide_;
};

// Columns [from, from + depth) of a row.
void expand_row(const CompactRows& of, int64_t row, int64_t from, int64_t depth, float* to) {
    const std::byte* at = of.rows.data() + row * row_bytes(of.form, of.depth) +
                          from / kCompactBlock * block_bytes(of.form, kCompactBlock);
    for (int64_t k = 0; k < depth; k += kCompactBlock) {
        const int64_t size = block_size(of.depth, (from + k) / kCompactBlock);
        const float scale = of.scales.data()[row];
        if (k + size <= depth) {
            expand_stored(of.form, at, size, scale, to + k);
        } else {
            float whole[kCompactBlock];
            expand_stored(of.form, at, size, scale, whole);
            std::copy_n(whole, depth - k, to + k);
        }
        at += block_bytes(of.form, size);
    }
}

// Calls work(part, row of the part, i) for the rows [first, first + count) of all.
template <typename Work>
void for_rows(const std::vector<CompactRows>& parts, int64_t first, int64_t count, const Work& work) {
    int64_t begin = 0;
    for (const CompactRows& part : parts) {
        const int64_t end = std::min(begin + part.outputs, first + count);
        for (int64_t row = std::max(begin, first); row < end; ++row) work(part, row - begin, row - first);
        begin += part.outputs;
    }
}

}  // namespace

void store_block(const CompactForm& form, const CompactBlock& block, int64_t weights, std::byte* to) {
    to = store_scales(form, block, weights / stored_group(form), to);
    if (form.codes == CodeKind::bits4) return store_codes<4>(block.codes, weights, to);
    store_codes<2>(block.codes, weights, to);
}

uint64_t compact_bytes(const CompactForm& form, int64_t outputs, int64_t depth) {
    return saturating_product({outputs, row_bytes(form, depth) + static_cast<int64_t>(sizeof(float))});
}

Result<CompactRows> load_compact(const std::string& name, const WeightView& weight, const CompactForm& form,
                                 ThreadPool& pool) {
    CompactRows to{.form = form, .outputs = weight.rows, .depth = weight.cols, .rows = {}, .scales = {}};
    const int64_t stride = row_bytes(form, weight.cols);
    NL_ASSIGN(to.rows, Buffer<std::byte>::allocate("weight " + name, {weight.rows, stride}));
    NL_ASSIGN(to.scales, Buffer<float>::allocate("the scales of weight " + name, {weight.rows}));
    std::vector<RowLoader> loaders(static_cast<size_t>(pool.num_threads()), RowLoader(weight, form));
    pool.run(weight.rows, cost_of_bytes(weight.rows * weight.cols * 8), [&](int64_t row, int32_t thread) {
        to.scales.data()[row] = loaders[static_cast<size_t>(thread)].load(row, to.rows.data() + row * stride);
    });
    return to;
}

void expand_rows(const std::vector<CompactRows>& parts, int64_t first, int64_t count, int64_t from, int64_t depth,
                 float* to, int64_t stride) {
    for_rows(parts, first, count, [&](const CompactRows& part, int64_t row, int64_t i) {
        expand_row(part, row, from, depth, to + i * stride);
    });
}

void expand_rows(const std::vector<CompactRows>& parts, int64_t first, int64_t count, int64_t from, int64_t depth,
                 BFloat16* to, int64_t stride) {
    for_rows(parts, first, count, [&](const CompactRows& part, int64_t row, int64_t i) {
        float wide[kCompactBlock];
        for (int64_t k = 0; k < depth; k += kCompactBlock) {
            const int64_t size = std::min(kCompactBlock, depth - k);
            expand_row(part, row, from + k, size, wide);
            convert(wide, size, to + i * stride + k);
        }
    });
}

}  // namespace nanolith::cpu
