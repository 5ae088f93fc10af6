#include "model/packed/find_packed.h"

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "files/json.h"

namespace nanolith {
namespace {

using TensorShape = std::vector<int64_t>;

constexpr uint32_t kOneInEach4Bits = 0x11111111U;
constexpr uint32_t kOneInEachByte = 0x01010101U;

// What the tensors of a weight are called behind its module's name.
struct Names {
    const char* codes;
    const char* scales;
    const char* zeros;
    const char* groups;
};
constexpr Names kGptqNames{".qweight", ".scales", ".qzeros", ".g_idx"};
constexpr Names kCompressedNames{".weight_packed", ".weight_scale", ".weight_zero_point", ".weight_g_idx"};
constexpr const char* kWeight = ".weight";
constexpr const char* kShape = ".weight_shape";

std::string module_of(const std::string& name) {
    return name.ends_with(kWeight) ? name.substr(0, name.size() - std::strlen(kWeight)) : name;
}

// Finds one weight's tensors.
class PackedFinder {
  public:
    PackedFinder(const TensorMap& tensors, const Quantization& quantization, const std::string& where,
                 const std::string& name, int64_t rows, int64_t cols)
        : tensors_(tensors), quantization_(quantization), where_(where), module_(module_of(name)) {
        parts_.rows = rows;
        parts_.cols = cols;
    }

    Result<PackedParts> find() {
        switch (quantization_.method) {
            case QuantMethod::gptq:
                NL_TRY(find_gptq());
                break;
            case QuantMethod::awq:
                NL_TRY(find_awq());
                break;
            default:
                NL_TRY(find_compressed());
        }
        return std::move(parts_);
    }

  private:
    // qweight [cols / n, rows], scales [groups, rows], qzeros [groups, rows / n], g_idx [cols].
    Result<void> find_gptq() {
        NL_TRY(find_codes(kGptqNames.codes, SharedBy::row, true));
        set_groups(quantization_.group);
        NL_TRY(find_scales(kGptqNames.scales, {parts_.groups, parts_.rows}, 1, parts_.rows));
        NL_TRY(find_zeros(kGptqNames.zeros, SharedBy::column, true));
        if (quantization_.zeros_minus_one)
            parts_.zeros.added = parts_.codes.bits == 4 ? kOneInEach4Bits : kOneInEachByte;
        return find_group_of(kGptqNames.groups);
    }

    // qweight [cols, rows / n], scales [groups, rows], qzeros [groups, rows / n].
    Result<void> find_awq() {
        NL_TRY(find_codes(kGptqNames.codes, SharedBy::column, true));
        if (parts_.codes.bits != 4)
            return fail(NL_ERROR_UNSUPPORTED, where_, ": tensor ", module_, kGptqNames.codes, " has weights of ",
                        parts_.codes.bits, " bits: expected 4 in AWQ's order");
        set_groups(quantization_.group);
        NL_TRY(find_scales(kGptqNames.scales, {parts_.groups, parts_.rows}, 1, parts_.rows));
        NL_TRY(find_zeros(kGptqNames.zeros, SharedBy::column, true));
        parts_.codes.interleaved = parts_.zeros.interleaved = true;
        return {};
    }

    // weight_packed [rows, cols / n] or weight [rows, cols] in bytes; weight_scale [rows, groups], [rows, 1] or [1];
    // weight_zero_point [rows / n, groups] or [rows, groups] in bytes; weight_g_idx [cols].
    Result<void> find_compressed() {
        if (has(kCompressedNames.codes)) {
            NL_TRY(find_codes(kCompressedNames.codes, SharedBy::row, false));
            NL_TRY(check_shape_tensor());
        } else {
            parts_.codes = pack_integers(parts_.rows, parts_.cols, 8, SharedBy::none, false);
            NL_TRY(tensor(kWeight, "I8", {parts_.codes.shape()[0], parts_.codes.shape()[1]}, parts_.code_tensor));
        }
        NL_TRY(find_compressed_scales());
        // Codes are stored as half of their range more, or with a sign.
        const bool is_signed = parts_.codes.shared_by == SharedBy::none;
        parts_.zero = parts_.codes.bits == 4 ? 8 : 0;
        if (has(kCompressedNames.zeros)) {
            const Tensor& zeros = tensors_.find(module_ + kCompressedNames.zeros)->second;
            if (zeros.dtype == "I8") {
                NL_TRY(find_zeros(kCompressedNames.zeros, SharedBy::none, false));
                parts_.zero_shift = parts_.zero;
            } else {
                NL_TRY(find_zeros(kCompressedNames.zeros, SharedBy::column, false));
            }
        }
        return is_signed ? Result<void>() : find_group_of(kCompressedNames.groups);
    }

    Result<void> find_compressed_scales() {
        const std::string name = module_ + kCompressedNames.scales;
        const auto found = tensors_.find(name);
        const TensorShape shape = found == tensors_.end() ? TensorShape() : found->second.shape;
        set_groups(0);
        if (shape == TensorShape{1} || shape.empty()) return find_scales(kCompressedNames.scales, shape, 0, 0);
        const bool in_groups = shape.size() == 2 && shape[1] > 0 && parts_.cols % shape[1] == 0;
        if (in_groups) set_groups(parts_.cols / shape[1]);
        return find_scales(kCompressedNames.scales, {parts_.rows, parts_.groups}, parts_.groups, 1);
    }

    // A tensor that says which shape the weight had before it was packed.
    Result<void> check_shape_tensor() {
        const Tensor* shape = nullptr;
        NL_TRY(tensor(kShape, "I64", {2}, shape));
        int64_t sizes[2] = {};
        PassingBytes(*shape, 1).read(0, sizeof sizes, sizes);
        if (sizes[0] == parts_.rows && sizes[1] == parts_.cols) return {};
        return fail(NL_ERROR_BAD_MODEL, where_, ": tensor ", module_, kShape, " says ", show_shape(sizes),
                    ": expected ", show_shape(TensorShape{parts_.rows, parts_.cols}), " by the model's sizes");
    }

    // 0: a row is a group.
    void set_groups(int64_t group) {
        parts_.group = group == 0 ? parts_.cols : group;
        parts_.groups = (parts_.cols + parts_.group - 1) / parts_.group;
    }

    // Codes of 4 or of 8 bits, whichever has the tensor's shape.
    Result<void> find_codes(const char* end, SharedBy shared_by, bool transposed) {
        const TensorShape shape = tensors_.find(module_ + end)->second.shape;
        const auto shape_of = [&](int32_t bits) {
            parts_.codes = pack_integers(parts_.rows, parts_.cols, bits, shared_by, transposed);
            return TensorShape{parts_.codes.shape()[0], parts_.codes.shape()[1]};
        };
        const TensorShape of_eight = shape_of(8);
        const TensorShape of_four = shape_of(4);
        if (shape != of_four && shape != of_eight)
            return fail(NL_ERROR_BAD_MODEL, where_, ": tensor ", module_, end, " has the shape ", show_shape(shape),
                        ": expected ", show_shape(of_four), " of 4 bits or ", show_shape(of_eight),
                        " of 8 by the model's sizes");
        if (shape != of_four) shape_of(8);
        parts_.code_shift = parts_.codes.bits == 8 ? -128 : 0;
        return tensor(end, "I32", shape, parts_.code_tensor);
    }

    Result<void> find_zeros(const char* end, SharedBy shared_by, bool transposed) {
        parts_.zeros = pack_integers(parts_.rows, parts_.groups, parts_.codes.bits, shared_by, transposed);
        parts_.zero_shift = shared_by == SharedBy::none ? 0 : parts_.code_shift;
        const bool bytes = shared_by == SharedBy::none;
        return tensor(end, bytes ? "I8" : "I32", {parts_.zeros.shape()[0], parts_.zeros.shape()[1]},
                      parts_.zero_tensor);
    }

    Result<void> find_scales(const char* end, const TensorShape& shape, int64_t row_stride, int64_t group_stride) {
        parts_.scale_row_stride = row_stride;
        parts_.scale_group_stride = group_stride;
        NL_TRY(tensor(end, nullptr, shape, parts_.scale_tensor));
        const std::optional<DType> dtype = weight_dtype(parts_.scale_tensor->dtype);
        if (!dtype || *dtype == DType::f8_e4m3)
            return fail(NL_ERROR_UNSUPPORTED, where_, ": tensor ", module_, end, " has the dtype ",
                        show_json(parts_.scale_tensor->dtype), ": expected F32, F16 or BF16");
        parts_.scale_dtype = *dtype;
        return {};
    }

    // Where columns are not in the order of their groups.
    Result<void> find_group_of(const char* end) {
        if (!has(end)) return {};
        const Tensor* groups = nullptr;
        NL_TRY(tensor(end, "I32", {parts_.cols}, groups));
        std::vector<int32_t> group_of(static_cast<size_t>(parts_.cols));
        PassingBytes(*groups, 1).read(0, groups->bytes.size(), group_of.data());
        bool in_order = true;
        for (int64_t col = 0; col < parts_.cols; ++col) {
            const int32_t group = group_of[static_cast<size_t>(col)];
            if (group < 0 || group >= parts_.groups)
                return fail(NL_ERROR_BAD_MODEL, where_, ": tensor ", module_, end, " has ", group, " at ", col,
                            ": expected a group from 0 to ", parts_.groups - 1);
            in_order = in_order && group == col / parts_.group;
        }
        if (!in_order) parts_.group_of = std::move(group_of);
        return {};
    }

    [[nodiscard]] bool has(const char* end) const { return tensors_.find(module_ + end) != tensors_.end(); }

    // `dtype`: null where the caller checks it.
    Result<void> tensor(const char* end, const char* dtype, const TensorShape& shape, const Tensor*& to) const {
        const std::string name = module_ + end;
        const auto found = tensors_.find(name);
        if (found == tensors_.end())
            return fail(NL_ERROR_BAD_MODEL, where_, ": tensor ", name, " is missing: expected one of shape ",
                        show_shape(shape), " beside the weights of ", module_);
        const Tensor& tensor = found->second;
        if (tensor.shape != shape)
            return fail(NL_ERROR_BAD_MODEL, where_, ": tensor ", name, " has the shape ", show_shape(tensor.shape),
                        ": expected ", show_shape(shape), " by the model's sizes");
        if (dtype != nullptr && tensor.dtype != dtype)
            return fail(NL_ERROR_UNSUPPORTED, where_, ": tensor ", name, " has the dtype ", show_json(tensor.dtype),
                        ": expected ", dtype);
        to = &tensor;
        return {};
    }

    const TensorMap& tensors_;
    const Quantization& quantization_;
    const std::string& where_;
    const std::string module_;
    PackedParts parts_;
};

}  // namespace

bool is_packed(const TensorMap& tensors, const Quantization& quantization, const std::string& name) {
    const auto there = [&](const std::string& tensor) { return tensors.find(tensor) != tensors.end(); };
    const std::string module = module_of(name);
    switch (quantization.method) {
        case QuantMethod::gptq:
        case QuantMethod::awq:
            return there(module + kGptqNames.codes);
        case QuantMethod::integers: {
            const auto found = tensors.find(name);
            return there(module + kCompressedNames.codes) || (found != tensors.end() && found->second.dtype == "I8");
        }
        case QuantMethod::none:
        case QuantMethod::fp8:
            break;
    }
    return false;
}

Result<WeightView> find_packed(const TensorMap& tensors, const Quantization& quantization, const std::string& where,
                               const std::string& name, int64_t rows, int64_t cols, PackedMatrices& matrices) {
    NL_ASSIGN(PackedParts parts, PackedFinder(tensors, quantization, where, name, rows, cols).find());
    NL_ASSIGN(std::unique_ptr<PackedMatrix> matrix, PackedMatrix::create(std::move(parts)));
    const WeightView view = matrix->view();
    matrices.push_back(std::move(matrix));
    return view;
}

}  // namespace nanolith
