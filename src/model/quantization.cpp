#include "model/quantization.h"

#include <string>

namespace nanolith {
namespace {

constexpr int64_t kMaxBlock = 1 << 20;

Result<void> read_block(const JsonFields& fields, const char* name, Quantization& quantization) {
    NL_ASSIGN(const auto block, fields.integers_or_none(name, 1, kMaxBlock));
    if (block.empty()) return {};
    if (block.size() != 2) return fields.wrong(name, "two sizes, rows and columns of a block");
    quantization.block_rows = block[0];
    quantization.block_cols = block[1];
    return {};
}

// One of compressed-tensors' groups: what its weights are.
Result<void> read_group(const JsonFields& group, Quantization& quantization) {
    NL_ASSIGN(const auto weights, group.object("weights"));
    if (!weights) return group.wrong("weights", "an object that describes the weights", NL_ERROR_UNSUPPORTED);
    NL_ASSIGN(const std::string type, weights->string_or("type", "int"));
    if (type != "float") return weights->wrong("type", "\"float\"", NL_ERROR_UNSUPPORTED);
    NL_ASSIGN(const int64_t bits, weights->integer("num_bits", 1, 64));
    if (bits != 8) return weights->wrong("num_bits", "8", NL_ERROR_UNSUPPORTED);
    NL_ASSIGN(const std::string strategy, weights->string_or("strategy", "tensor"));
    if (strategy == "block") return read_block(*weights, "block_structure", quantization);
    if (strategy == "tensor" || strategy == "channel") return {};
    return weights->wrong("strategy", "\"tensor\", \"channel\" or \"block\"", NL_ERROR_UNSUPPORTED);
}

Result<void> read_compressed_tensors(const JsonFields& fields, Quantization& quantization) {
    NL_ASSIGN(const auto groups, fields.object("config_groups"));
    if (!groups) return fields.wrong("config_groups", "an object of groups");
    for (const std::string& name : groups->names()) {
        NL_ASSIGN(const auto group, groups->object(name.c_str()));
        if (group) NL_TRY(read_group(*group, quantization));
    }
    return {};
}

}  // namespace

Result<Quantization> read_quantization(const JsonFields& config) {
    Quantization quantization;
    NL_ASSIGN(const auto fields, config.object("quantization_config"));
    if (!fields) return quantization;
    quantization.fp8 = true;
    NL_ASSIGN(const std::string method, fields->string_or("quant_method", ""));
    if (method == "compressed-tensors") {
        NL_TRY(read_compressed_tensors(*fields, quantization));
        return quantization;
    }
    if (method == "fp8") {
        NL_ASSIGN(const std::string format, fields->string_or("fmt", "e4m3"));
        if (format != "e4m3" && format != "float8_e4m3fn") {
            return fields->wrong("fmt", "\"e4m3\"", NL_ERROR_UNSUPPORTED);
        }
        NL_TRY(read_block(*fields, "weight_block_size", quantization));
        return quantization;
    }
    if (method == "fbgemm_fp8") return quantization;
    return fields->wrong("quant_method", "\"fp8\", \"fbgemm_fp8\" or \"compressed-tensors\" with 8-bit floats",
                         NL_ERROR_UNSUPPORTED);
}

}  // namespace nanolith
