#include "model/quantization.h"

#include <algorithm>
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

Result<void> check_bits(const JsonFields& fields, const char* name) {
    NL_ASSIGN(const int64_t bits, fields.integer(name, 1, 64));
    return bits == 4 || bits == 8 ? Result<void>() : fields.wrong(name, "4 or 8", NL_ERROR_UNSUPPORTED);
}

// A group of floats.
Result<void> read_floats(const JsonFields& weights, Quantization& quantization) {
    NL_ASSIGN(const int64_t bits, weights.integer("num_bits", 1, 64));
    if (bits != 8) return weights.wrong("num_bits", "8", NL_ERROR_UNSUPPORTED);
    NL_ASSIGN(const std::string strategy, weights.string_or("strategy", "tensor"));
    if (strategy == "block") return read_block(weights, "block_structure", quantization);
    if (strategy == "tensor" || strategy == "channel") return {};
    return weights.wrong("strategy", "\"tensor\", \"channel\" or \"block\"", NL_ERROR_UNSUPPORTED);
}

Result<void> check_integers(const JsonFields& weights) {
    NL_TRY(check_bits(weights, "num_bits"));
    NL_ASSIGN(const std::string strategy, weights.string_or("strategy", "tensor"));
    if (strategy == "tensor" || strategy == "channel" || strategy == "group") return {};
    return weights.wrong("strategy", "\"tensor\", \"channel\" or \"group\"", NL_ERROR_UNSUPPORTED);
}

// One of compressed-tensors' groups: what its weights are.
Result<void> read_group(const JsonFields& group, Quantization& quantization) {
    NL_ASSIGN(const auto weights, group.object("weights"));
    if (!weights) return group.wrong("weights", "an object that describes the weights", NL_ERROR_UNSUPPORTED);
    NL_ASSIGN(const std::string type, weights->string_or("type", "int"));
    if (type != "float" && type != "int") return weights->wrong("type", "\"float\" or \"int\"", NL_ERROR_UNSUPPORTED);
    const QuantMethod method = type == "float" ? QuantMethod::fp8 : QuantMethod::integers;
    if (quantization.method != QuantMethod::none && quantization.method != method)
        return weights->wrong("type", "that of the other groups", NL_ERROR_UNSUPPORTED);
    quantization.method = method;
    return method == QuantMethod::fp8 ? read_floats(*weights, quantization) : check_integers(*weights);
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

Result<void> read_fp8(const JsonFields& fields, Quantization& quantization) {
    NL_ASSIGN(const std::string format, fields.string_or("fmt", "e4m3"));
    if (format != "e4m3" && format != "float8_e4m3fn") {
        return fields.wrong("fmt", "\"e4m3\"", NL_ERROR_UNSUPPORTED);
    }
    return read_block(fields, "weight_block_size", quantization);
}

// -1 is the whole row's.
Result<void> read_group_size(const JsonFields& fields, const char* name, Quantization& quantization) {
    NL_ASSIGN(const int64_t group, fields.integer(name, -1, kMaxBlock));
    if (group == 0) return fields.wrong(name, "-1 or a number of weights");
    quantization.group = std::max<int64_t>(group, 0);
    return {};
}

// A field with one of a method's formats that is read here; others hold other bits.
Result<void> check_format(const JsonFields& fields, const char* name, const char* expected) {
    NL_ASSIGN(std::string format, fields.string_or(name, expected));
    std::ranges::transform(format, format.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; });
    if (format == expected) return {};
    return fields.wrong(name, "\"" + std::string(expected) + "\"", NL_ERROR_UNSUPPORTED);
}

Result<void> read_gptq(const JsonFields& fields, Quantization& quantization) {
    NL_TRY(check_bits(fields, "bits"));
    NL_TRY(read_group_size(fields, "group_size", quantization));
    NL_TRY(check_format(fields, "pack_dtype", "int32"));
    NL_ASSIGN(const std::string format, fields.string_or("checkpoint_format", "gptq"));
    if (format != "gptq" && format != "gptq_v2")
        return fields.wrong("checkpoint_format", "\"gptq\" or \"gptq_v2\"", NL_ERROR_UNSUPPORTED);
    quantization.zeros_minus_one = format == "gptq";
    return {};
}

Result<void> read_awq(const JsonFields& fields, Quantization& quantization) {
    NL_TRY(check_bits(fields, fields.find("w_bit") != nullptr ? "w_bit" : "bits"));
    NL_TRY(
        read_group_size(fields, fields.find("q_group_size") != nullptr ? "q_group_size" : "group_size", quantization));
    NL_TRY(check_format(fields, "version", "gemm"));
    NL_ASSIGN(const bool has_zeros, fields.boolean_or("zero_point", true));
    return has_zeros ? Result<void>() : fields.wrong("zero_point", "true", NL_ERROR_UNSUPPORTED);
}

}  // namespace

Result<Quantization> read_quantization(const JsonFields& config) {
    Quantization quantization;
    NL_ASSIGN(const auto fields, config.object("quantization_config"));
    if (!fields) return quantization;
    NL_ASSIGN(const std::string method, fields->string_or("quant_method", ""));
    if (method == "compressed-tensors") {
        NL_TRY(read_compressed_tensors(*fields, quantization));
    } else if (method == "fp8") {
        quantization.method = QuantMethod::fp8;
        NL_TRY(read_fp8(*fields, quantization));
    } else if (method == "fbgemm_fp8") {
        quantization.method = QuantMethod::fp8;
    } else if (method == "gptq") {
        quantization.method = QuantMethod::gptq;
        NL_TRY(read_gptq(*fields, quantization));
    } else if (method == "awq") {
        quantization.method = QuantMethod::awq;
        NL_TRY(read_awq(*fields, quantization));
    } else {
        return fields->wrong("quant_method", "\"awq\", \"gptq\", \"fp8\", \"fbgemm_fp8\" or \"compressed-tensors\"",
                             NL_ERROR_UNSUPPORTED);
    }
    return quantization;
}

}  // namespace nanolith
