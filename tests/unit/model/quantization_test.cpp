// "quantization_config" as published checkpoints carry it.
#include "model/quantization.h"

#include "support/model_files.h"

namespace nanolith {
namespace {

using testing::expect_error;

Result<Quantization> read_quantization(const std::string& value) {
    NL_ASSIGN(const Json json, parse_json_object("{\"quantization_config\": " + value + "}", "FILE"));
    return read_quantization(JsonFields(json, "FILE"));
}

std::string compressed(const std::string& weights, const std::string& format = "float-quantized") {
    return R"({"config_groups": {"group_0": {"input_activations": {"dynamic": true, "num_bits": 8, "strategy": "token",
               "symmetric": true, "type": "float"}, "output_activations": null, "targets": ["Linear"], "weights": )" +
           weights + R"(}}, "format": ")" + format + R"(", "ignore": ["lm_head"], "kv_cache_scheme": null,
               "quant_method": "compressed-tensors", "quantization_status": "compressed"})";
}

TEST(Quantization, ThereIsNoneWithoutTheField) {
    const auto none = read_quantization("null");
    ASSERT_TRUE(none.ok());
    EXPECT_EQ(none->method, QuantMethod::none);
}

TEST(Quantization, TakesThePublishedFormsOfFloats) {
    const struct {
        const char* what;
        std::string value;
        int64_t block_rows;
        int64_t block_cols;
    } forms[] = {
        {"blocks", R"({"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
                       "weight_block_size": [128, 64]})",
         128, 64},
        {"a matrix", R"({"activation_scheme": "static", "ignored_layers": ["lm_head"], "quant_method": "fp8"})", 0, 0},
        {"null blocks", R"({"quant_method": "fp8", "fmt": "float8_e4m3fn", "weight_block_size": null})", 0, 0},
        {"fbgemm", R"({"activation_scale_ub": 1200.0, "modules_to_not_convert": ["lm_head"],
                       "quant_method": "fbgemm_fp8"})",
         0, 0},
        {"channels", compressed(R"({"actorder": null, "block_structure": null, "dynamic": false, "group_size": null,
                                    "num_bits": 8, "strategy": "channel", "symmetric": true, "type": "float"})"),
         0, 0},
        {"tensors", compressed(R"({"num_bits": 8, "strategy": "tensor", "type": "float"})"), 0, 0},
        {"compressed blocks", compressed(R"({"block_structure": [32, 128], "num_bits": 8, "strategy": "block",
                                             "type": "float"})"),
         32, 128},
    };
    for (const auto& form : forms) {
        SCOPED_TRACE(form.what);
        const auto read_form = read_quantization(form.value);
        ASSERT_TRUE(read_form.ok()) << read_form.error().message;
        EXPECT_EQ(read_form->method, QuantMethod::fp8);
        EXPECT_EQ(read_form->block_rows, form.block_rows);
        EXPECT_EQ(read_form->block_cols, form.block_cols);
    }
}

TEST(Quantization, TakesThePublishedFormsOfIntegers) {
    const struct {
        const char* what;
        std::string value;
        QuantMethod method;
        int64_t group;
        bool zeros_minus_one;
    } forms[] = {
        {"gptq", R"({"bits": 4, "damp_percent": 0.1, "desc_act": false, "group_size": 128, "quant_method": "gptq",
                     "sym": true})",
         QuantMethod::gptq, 128, true},
        {"gptq v2", R"({"bits": 8, "checkpoint_format": "gptq_v2", "desc_act": true, "group_size": -1,
                        "pack_dtype": "int32", "quant_method": "gptq"})",
         QuantMethod::gptq, 0, false},
        {"awq", R"({"bits": 4, "group_size": 64, "quant_method": "awq", "version": "gemm", "zero_point": true})",
         QuantMethod::awq, 64, false},
        {"awq of other names", R"({"w_bit": 4, "q_group_size": 32, "quant_method": "awq", "version": "GEMM"})",
         QuantMethod::awq, 32, false},
        {"packed groups",
         compressed(R"({"actorder": null, "group_size": 128, "num_bits": 4, "strategy": "group",
                                         "symmetric": false, "type": "int"})",
                    "pack-quantized"),
         QuantMethod::integers, 0, false},
        {"bytes of channels", compressed(R"({"num_bits": 8, "strategy": "channel", "type": "int"})", "int-quantized"),
         QuantMethod::integers, 0, false},
        {"no type", compressed(R"({"num_bits": 8})", "int-quantized"), QuantMethod::integers, 0, false},
    };
    for (const auto& form : forms) {
        SCOPED_TRACE(form.what);
        const auto read_form = read_quantization(form.value);
        ASSERT_TRUE(read_form.ok()) << read_form.error().message;
        EXPECT_EQ(read_form->method, form.method);
        EXPECT_EQ(read_form->group, form.group);
        EXPECT_EQ(read_form->zeros_minus_one, form.zeros_minus_one);
    }
}

TEST(Quantization, RefusesOtherMethodsByName) {
    const auto refused = [](const std::string& value, const std::vector<std::string>& parts) {
        SCOPED_TRACE(value);
        expect_error(read_quantization(value), NL_ERROR_UNSUPPORTED, parts);
    };
    refused(R"({"_load_in_4bit": true, "bnb_4bit_quant_type": "nf4", "load_in_4bit": true,
                "quant_method": "bitsandbytes"})",
            {"FILE", "quantization_config.quant_method is \"bitsandbytes\"", "\"awq\", \"gptq\", \"fp8\"",
             "compressed-tensors"});
    const std::string config = "quantization_config.";
    refused(R"({"bits": 3, "group_size": 128, "quant_method": "gptq"})", {config + "bits is 3", "4 or 8"});
    refused(R"({"bits": 4, "checkpoint_format": "marlin", "group_size": 128, "quant_method": "gptq"})",
            {config + "checkpoint_format is \"marlin\"", "\"gptq_v2\""});
    refused(R"({"bits": 4, "group_size": 128, "pack_dtype": "int64", "quant_method": "gptq"})",
            {config + "pack_dtype is \"int64\"", "\"int32\""});
    refused(R"({"bits": 4, "group_size": 128, "quant_method": "awq", "version": "gemv"})",
            {config + "version is \"gemv\"", "\"gemm\""});
    refused(R"({"bits": 4, "group_size": 128, "quant_method": "awq", "zero_point": false})",
            {config + "zero_point is false", "true"});
    refused(R"({"quant_method": "mxfp4", "modules_to_not_convert": []})", {"quant_method is \"mxfp4\""});
    refused("{}", {"quantization_config.quant_method is missing"});
    refused(R"({"quant_method": "fp8", "fmt": "e5m2"})", {"quantization_config.fmt is \"e5m2\"", "\"e4m3\""});
    const std::string group = "quantization_config.config_groups.group_0.weights.";
    refused(compressed(R"({"num_bits": 2, "strategy": "channel", "type": "int"})", "pack-quantized"),
            {group + "num_bits is 2", "4 or 8"});
    refused(compressed(R"({"num_bits": 4, "strategy": "block", "type": "int"})", "pack-quantized"),
            {group + "strategy is \"block\"", "\"group\""});
    refused(compressed(R"({"num_bits": 4, "type": "code"})"), {group + "type is \"code\"", "\"float\" or \"int\""});
    refused(compressed(R"({"num_bits": 4, "strategy": "tensor_group", "type": "float"})", "nvfp4-pack-quantized"),
            {group + "num_bits is 4", "8"});
    refused(compressed(R"({"num_bits": 8, "group_size": 128, "strategy": "group", "type": "float"})"),
            {group + "strategy is \"group\"", "\"channel\""});
    refused(compressed("null"), {"group_0.weights is missing", "an object"});
}

TEST(Quantization, RefusesFieldsThatAreWrong) {
    const auto wrong = [](const std::string& value, const std::vector<std::string>& parts) {
        SCOPED_TRACE(value);
        expect_error(read_quantization(value), NL_ERROR_BAD_MODEL, parts);
    };
    wrong("[]", {"quantization_config is []", "an object"});
    wrong(R"({"quant_method": 8})", {"quant_method is 8", "a string"});
    wrong(R"({"quant_method": "fp8", "weight_block_size": [128]})", {"weight_block_size is [128]", "two sizes"});
    wrong(R"({"quant_method": "fp8", "weight_block_size": [128, 0]})", {"weight_block_size is [128,0]", "from 1 to"});
    wrong(R"({"quant_method": "fp8", "weight_block_size": 128})", {"weight_block_size is 128", "a list"});
    wrong(R"({"quant_method": "compressed-tensors"})", {"config_groups is missing", "groups"});
    wrong(R"({"bits": 4, "quant_method": "gptq"})", {"group_size is missing"});
    wrong(R"({"bits": 4, "group_size": 0, "quant_method": "awq"})", {"group_size is 0", "-1 or a number of weights"});
    wrong(R"({"group_size": 128, "quant_method": "awq"})", {"bits is missing"});
    wrong(R"({"quant_method": "compressed-tensors", "config_groups": {"group_0": 1}})", {"config_groups.group_0 is 1"});
    wrong(compressed(R"({"strategy": "tensor", "type": "float"})"), {"weights.num_bits is missing"});
}

}  // namespace
}  // namespace nanolith
