#include "model/gguf/gguf_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "files/json.h"
#include "model/gguf/gguf_names.h"
#include "model/rope.h"
#include "text/gguf_tokenizer.h"

namespace nanolith {
namespace {

// The largest integer that any key may have. read_config() has narrower limits for most.
constexpr int64_t kMost = INT32_MAX;

struct Family {
    const char* name;          // general.architecture
    const char* architecture;  // name of an entry of architectures()
    bool interleaved = false;  // the file's rows of queries and keys are permuted: RoPE's pairs are neighbours
};
constexpr std::array kFamilies = {
    Family{"llama", "LlamaForCausalLM", true},     Family{"qwen2", "Qwen2ForCausalLM"},
    Family{"qwen3", "Qwen3ForCausalLM"},           Family{"qwen3moe", "Qwen3MoeForCausalLM"},
    Family{"ernie4_5", "Ernie4_5ForCausalLM"},     Family{"gemma2", "Gemma2ForCausalLM"},
    Family{"gemma3", "Gemma3ForCausalLM"},         Family{"phi3", "Phi3ForCausalLM"},
    Family{"smollm3", "SmolLM3ForCausalLM", true},
};

// Collects the fields of a config.json.
class Fields {
  public:
    void add(const char* name, Json::Value value) { members_.push_back({name, Json(std::move(value))}); }
    void add_integer(const char* name, int64_t value) { add(name, static_cast<uint64_t>(value)); }
    void add_string(const char* name, std::string_view value) { add(name, std::string(value)); }
    void add_null(const char* name) { add(name, std::monostate()); }
    void add_numbers(const char* name, const std::vector<float>& numbers) {
        Json::Array list;
        for (const float number : numbers) list.emplace_back(Json::Value(double{number}));
        add(name, std::move(list));
    }
    void add_integers(const char* name, const std::vector<int64_t>& numbers) {
        Json::Array list;
        for (const int64_t number : numbers) list.emplace_back(Json::Value(static_cast<uint64_t>(number)));
        add(name, std::move(list));
    }
    Json::Object finish() {
        std::ranges::sort(members_, {}, &JsonMember::name);
        return std::move(members_);
    }

  private:
    Json::Object members_;
};

class ConfigReader {
  public:
    explicit ConfigReader(const GgufFiles& files) : files_(files), header_(files.header) {}

    Result<GgufConfig> read(int64_t max_context) {
        NL_TRY(choose_family());
        NL_TRY(refuse_unsupported());
        NL_TRY(read_sizes());
        NL_TRY(read_heads());
        NL_TRY(read_windows());
        NL_TRY(read_experts());
        NL_TRY(read_rope());
        NL_TRY(read_scales());
        NL_TRY(read_end_tokens());
        add_parts();
        NL_ASSIGN(GgufConfig made, finish(max_context));
        return made;
    }

  private:
    // The full name of a key that belongs to the family: "llama.block_count".
    [[nodiscard]] std::string key(std::string_view name) const {
        return std::string(family_->name) + "." + std::string(name);
    }
    [[nodiscard]] bool has_tensor(std::string_view name) const {
        return files_.tensors.find(name) != files_.tensors.end();
    }
    [[nodiscard]] bool is(std::string_view name) const { return architecture_->name == name; }

    // The value of a key that must be there, 1 or more.
    Result<int64_t> integer(std::string_view name) {
        NL_ASSIGN(const auto value, header_.integer(key(name), 1, kMost));
        if (!value) return header_.wrong(key(name), "an integer from 1 on");
        return *value;
    }
    Result<int64_t> integer_or(std::string_view name, int64_t fallback, int64_t min = 0) {
        NL_ASSIGN(const auto value, header_.integer(key(name), min, kMost));
        return value.value_or(fallback);
    }
    // A number above 0, or nothing.
    Result<std::optional<double>> positive(std::string_view name) {
        NL_ASSIGN(const auto value, header_.number(key(name)));
        if (value && *value <= 0) return header_.wrong(key(name), "a number above 0");
        return value;
    }
    // The value of a key that is one number, or an array of one for each layer, which must all be equal.
    Result<int64_t> same_in_all_layers(std::string_view name, int64_t min) {
        NL_ASSIGN(const auto list, header_.integers(key(name), min, kMost));
        if (list.empty()) return header_.wrong(key(name), "an integer from " + std::to_string(min) + " on");
        if (std::ranges::any_of(list, [&](int64_t value) { return value != list.front(); }))
            return header_.wrong(key(name), "the same number for all layers", NL_ERROR_UNSUPPORTED);
        return list.front();
    }

    Result<void> choose_family() {
        constexpr const char* kKey = "general.architecture";
        NL_ASSIGN(const auto name, header_.string(kKey));
        const auto* const found = std::ranges::find_if(
            kFamilies, [&](const Family& family) { return name && *name == std::string_view(family.name); });
        if (found == kFamilies.end()) {
            std::string names;
            for (const Family& family : kFamilies) names += (names.empty() ? "" : ", ") + std::string(family.name);
            return header_.wrong(kKey, "one of " + names, name ? NL_ERROR_UNSUPPORTED : NL_ERROR_BAD_MODEL);
        }
        family_ = found;
        const char* architecture = family_->architecture;
        if (is_llama()) {
            NL_ASSIGN(const int64_t experts, integer_or("expert_count", 0));
            NL_ASSIGN(const int64_t window, integer_or("attention.sliding_window", 0));
            // Mistral and Mixtral are Llama's tensors with a window or with experts.
            if (window > 0) architecture = "MistralForCausalLM";
            if (experts > 0) architecture = "MixtralForCausalLM";
        }
        architecture_ = find_architecture(architecture);
        fields_.add("architectures", one_name(architecture));
        return {};
    }
    static Json::Array one_name(const char* name) {
        Json::Array list;
        list.emplace_back(Json::Value(std::string(name)));
        return list;
    }
    [[nodiscard]] bool is_llama() const { return std::string_view(family_->name) == "llama"; }

    // What the forward pass does not compute must not load, or it would give wrong answers.
    Result<void> refuse_unsupported() {
        NL_ASSIGN(const auto type, header_.string("general.type"));
        if (type && *type != "model") return header_.wrong("general.type", "\"model\"", NL_ERROR_UNSUPPORTED);
        NL_ASSIGN(const auto causal, header_.boolean(key("attention.causal")));
        if (causal && !*causal) return header_.wrong(key("attention.causal"), "true", NL_ERROR_UNSUPPORTED);
        for (const char* const name : {"attention.clamp_kqv", "attention.max_alibi_bias", "logit_scale",
                                       "residual_scale", "embedding_scale", "expert_weights_scale", "pooling_type"}) {
            NL_ASSIGN(const auto number, header_.number(key(name)));
            const bool is_factor = std::string_view(name).ends_with("scale");
            if (number && *number != 0.0 && !(is_factor && *number == 1.0))
                return header_.wrong(key(name), is_factor ? "1, or no such key" : "0, or no such key",
                                     NL_ERROR_UNSUPPORTED);
        }
        NL_ASSIGN(const int64_t shared, integer_or("expert_shared_count", 0));
        if (shared > 0) return header_.wrong(key("expert_shared_count"), "0", NL_ERROR_UNSUPPORTED);
        return {};
    }

    Result<void> read_sizes() {
        NL_ASSIGN(context_, integer("context_length"));
        NL_ASSIGN(hidden_, integer("embedding_length"));
        NL_ASSIGN(layers_, integer("block_count"));
        NL_ASSIGN(const int64_t inner, same_in_all_layers("feed_forward_length", 1));
        NL_ASSIGN(const auto epsilon, positive("attention.layer_norm_rms_epsilon"));
        if (!epsilon) return header_.wrong(key("attention.layer_norm_rms_epsilon"), "a number above 0");
        const auto embedding = files_.tensors.find(kGgufEmbedding);
        if (embedding == files_.tensors.end() || embedding->second.shape.size() != 2)
            return fail(NL_ERROR_BAD_MODEL, header_.path(), ": tensor ", kGgufEmbedding,
                        embedding == files_.tensors.end() ? " is missing" : " is no matrix",
                        ": expected one row a token");
        fields_.add_integer("max_position_embeddings", context_);
        fields_.add_integer("hidden_size", hidden_);
        fields_.add_integer("num_hidden_layers", layers_);
        fields_.add_integer("intermediate_size", inner);
        fields_.add("rms_norm_eps", *epsilon);
        vocab_ = embedding->second.shape.front();
        fields_.add_integer("vocab_size", vocab_);
        return {};
    }

    Result<void> read_heads() {
        NL_ASSIGN(heads_, same_in_all_layers("attention.head_count", 1));
        int64_t kv_heads = heads_;
        if (header_.has(key("attention.head_count_kv"))) {
            NL_ASSIGN(kv_heads, same_in_all_layers("attention.head_count_kv", 1));
        }
        if (!header_.has(key("attention.key_length")) && hidden_ % heads_ != 0)
            return header_.wrong(key("attention.key_length"), "the elements of a head, where " +
                                                                  key("embedding_length") + " is no multiple of " +
                                                                  key("attention.head_count"));
        NL_ASSIGN(head_dim_, integer_or("attention.key_length", hidden_ / heads_, 1));
        NL_ASSIGN(const int64_t of_values, integer_or("attention.value_length", head_dim_, 1));
        if (of_values != head_dim_)
            return header_.wrong(key("attention.value_length"), std::to_string(head_dim_) + ", as keys have",
                                 NL_ERROR_UNSUPPORTED);
        fields_.add_integer("num_attention_heads", heads_);
        fields_.add_integer("num_key_value_heads", kv_heads);
        fields_.add_integer("head_dim", head_dim_);
        return {};
    }

    Result<void> read_windows() {
        NL_ASSIGN(const int64_t window, integer_or("attention.sliding_window", 0));
        const bool reads = is("MistralForCausalLM") || is("MixtralForCausalLM") || is("Phi3ForCausalLM") ||
                           is("Gemma2ForCausalLM") || is("Gemma3ForCausalLM");
        // The forward pass of the other families has no windows; one as long as the context changes nothing.
        if (!reads && window > 0 && window < context_)
            return header_.wrong(key("attention.sliding_window"), "0, or no such key", NL_ERROR_UNSUPPORTED);
        if (reads && window > 0) {
            fields_.add_integer("sliding_window", window);
        } else if (!is("Gemma2ForCausalLM") || header_.has(key("attention.sliding_window"))) {
            fields_.add_null("sliding_window");
        }
        if (is("Gemma3ForCausalLM")) return read_window_pattern(window);
        return {};
    }

    // The key is a number n, where every n-th layer attends to the whole context, or has a flag for each layer: whether
    // it has a window.
    Result<void> read_window_pattern(int64_t window) {
        constexpr const char* kName = "attention.sliding_window_pattern";
        NL_ASSIGN(const auto pattern, header_.integers(key(kName), 0, kMost));
        if (window == 0 || pattern.empty()) {
            fields_.add_integer("sliding_window_pattern", window == 0 ? 1 : 6);
        } else if (pattern.size() == 1 && pattern.front() > 0) {
            fields_.add_integer("sliding_window_pattern", pattern.front());
        } else if (pattern.size() == static_cast<size_t>(layers_)) {
            Json::Array types;
            for (const int64_t flag : pattern)
                types.emplace_back(Json::Value(std::string(flag != 0 ? "sliding_attention" : "full_attention")));
            fields_.add("layer_types", std::move(types));
        } else {
            return header_.wrong(key(kName),
                                 "a number above 0, or one for each of " + std::to_string(layers_) + " layers");
        }
        return {};
    }

    Result<void> read_experts() {
        const bool mixtral = is("MixtralForCausalLM");
        if (!mixtral && !is("Qwen3MoeForCausalLM")) {
            NL_ASSIGN(const int64_t experts, integer_or("expert_count", 0));
            if (experts > 0) return header_.wrong(key("expert_count"), "0", NL_ERROR_UNSUPPORTED);
            return {};
        }
        NL_ASSIGN(const int64_t count, integer("expert_count"));
        NL_ASSIGN(const int64_t used, integer("expert_used_count"));
        fields_.add_integer(mixtral ? "num_local_experts" : "num_experts", count);
        fields_.add_integer("num_experts_per_tok", used);
        if (mixtral) return {};
        NL_ASSIGN(const int64_t inner, same_in_all_layers("expert_feed_forward_length", 1));
        NL_ASSIGN(const auto normalized, header_.boolean(key("expert_weights_norm")));
        fields_.add_integer("moe_intermediate_size", inner);
        fields_.add("norm_topk_prob", normalized.value_or(true));
        std::vector<int64_t> dense;
        for (int64_t layer = 0; layer < layers_ && layer < static_cast<int64_t>(files_.tensors.size()); ++layer) {
            if (has_tensor("blk." + std::to_string(layer) + ".ffn_gate.weight")) dense.push_back(layer);
        }
        fields_.add_integers("mlp_only_layers", dense);
        return {};
    }

    Result<void> read_rope() {
        NL_ASSIGN(const auto theta, positive("rope.freq_base"));
        fields_.add("rope_theta", theta.value_or(10000.0));
        if (is("Gemma3ForCausalLM")) {
            NL_ASSIGN(const auto local, positive("rope.freq_base_swa"));
            fields_.add("rope_local_base_freq", local.value_or(10000.0));
        }
        NL_ASSIGN(rotated_, integer_or("rope.dimension_count", head_dim_, 1));
        if (rotated_ != head_dim_) {
            if (!architecture_->phi_rope || rotated_ > head_dim_)
                return header_.wrong(key("rope.dimension_count"), std::to_string(head_dim_) + ", a head's elements",
                                     NL_ERROR_UNSUPPORTED);
            // A quarter of an element more, so that the product with head_dim is not rounded below rotated_.
            fields_.add("partial_rotary_factor",
                        (static_cast<double>(rotated_) + 0.25) / static_cast<double>(head_dim_));
        }
        NL_ASSIGN(const auto original, header_.integer(key("rope.scaling.original_context_length"), 1, kMost));
        NL_ASSIGN(const auto type, header_.string(key("rope.scaling.type")));
        if (original && is("Phi3ForCausalLM")) fields_.add_integer("original_max_position_embeddings", *original);
        if (has_tensor(kGgufRopeFactors) || has_tensor(kGgufRopeLong)) return read_factors();
        if (!type || *type == "none") return {};
        if (*type == "linear" || *type == "yarn") return read_scaling(*type, original);
        return header_.wrong(key("rope.scaling.type"), "\"none\", \"linear\" or \"yarn\"; \"longrope\" with factors",
                             NL_ERROR_UNSUPPORTED);
    }

    Result<void> read_scaling(std::string_view type, std::optional<int64_t> original) {
        Fields scaling;
        scaling.add_string("rope_type", type);
        NL_ASSIGN(const auto factor, positive("rope.scaling.factor"));
        if (!factor) return header_.wrong(key("rope.scaling.factor"), "a number above 0");
        scaling.add("factor", *factor);
        if (type == "yarn") {
            if (original) scaling.add_integer("original_max_position_embeddings", *original);
            for (const auto& [name, field] : {std::pair("rope.scaling.yarn_beta_fast", "beta_fast"),
                                              std::pair("rope.scaling.yarn_beta_slow", "beta_slow"),
                                              std::pair("rope.scaling.yarn_attn_factor", "attention_factor")}) {
                NL_ASSIGN(const auto number, positive(name));
                if (number) scaling.add(field, *number);
            }
        }
        for (const char* const name : {"rope.scaling.attn_factor", "rope.scaling.yarn_ext_factor"}) {
            NL_ASSIGN(const auto number, header_.number(key(name)));
            if (number && *number != 1.0) return header_.wrong(key(name), "1, or no such key", NL_ERROR_UNSUPPORTED);
        }
        fields_.add("rope_scaling", scaling.finish());
        return {};
    }

    // Tensors with a divisor for the frequency of each pair: one for all contexts (Llama 3), or one for short and one
    // for long contexts (LongRoPE).
    Result<void> read_factors() {
        const bool one = has_tensor(kGgufRopeFactors);
        NL_ASSIGN(const auto of_short, read_numbers(one ? kGgufRopeFactors : kGgufRopeShort));
        NL_ASSIGN(const auto of_long, read_numbers(one ? kGgufRopeFactors : kGgufRopeLong));
        NL_ASSIGN(const auto magnitude, positive("rope.scaling.attn_factor"));
        Fields scaling;
        scaling.add_string("rope_type", "longrope");
        scaling.add_numbers("short_factor", of_short);
        scaling.add_numbers("long_factor", of_long);
        if (one) {
            scaling.add("factor", 1.0);
            scaling.add("attention_factor", magnitude.value_or(1.0));
        } else if (magnitude) {
            scaling.add("attention_factor", *magnitude);
        }
        fields_.add("rope_scaling", scaling.finish());
        return {};
    }

    // A tensor with one number, not quantised, for each pair that RoPE rotates.
    Result<std::vector<float>> read_numbers(std::string_view name) {
        const auto found = files_.tensors.find(name);
        const std::vector<int64_t> shape = {rotated_ / 2};
        if (found == files_.tensors.end() || found->second.shape != shape || found->second.type->quantised())
            return fail(NL_ERROR_BAD_MODEL, header_.path(), ": tensor ", name,
                        found == files_.tensors.end() ? " is missing" : " is something else", ": expected ",
                        rotated_ / 2, " plain numbers");
        const StoredTensor& tensor = found->second;
        std::vector<std::byte> bytes(tensor.bytes.size());
        tensor.file->read(tensor.bytes.data(), bytes.size(), bytes.data());
        std::vector<float> numbers(static_cast<size_t>(rotated_ / 2));
        tensor.type->decode(bytes.data(), rotated_ / 2, numbers.data());
        return numbers;
    }

    Result<void> read_scales() {
        NL_ASSIGN(const auto scale, positive("attention.scale"));
        if (!architecture_->gemma) {
            const double own = 1.0 / std::sqrt(static_cast<double>(head_dim_));
            if (scale && std::abs(*scale / own - 1.0) > 1e-6)
                return header_.wrong(key("attention.scale"), std::to_string(own), NL_ERROR_UNSUPPORTED);
            return {};
        }
        // The largest models of Gemma 2 and of Gemma 3 scale scores by hidden size / heads, not by head_dim.
        const bool largest = layers_ == (is("Gemma2ForCausalLM") ? 46 : 62);
        const int64_t scaled_by = largest ? hidden_ / heads_ : head_dim_;
        const auto own = static_cast<double>(scaled_by);
        fields_.add("query_pre_attn_scalar", scale ? 1.0 / (*scale * *scale) : own);
        for (const auto& [name, field] : {std::pair("attn_logit_softcapping", "attn_logit_softcapping"),
                                          std::pair("final_logit_softcapping", "final_logit_softcapping")}) {
            NL_ASSIGN(const auto cap, header_.number(key(name)));
            if (!cap) continue;
            if (*cap < 0) return header_.wrong(key(name), "a number from 0 on");
            if (*cap > 0) {
                fields_.add(field, *cap);
            } else {
                fields_.add_null(field);
            }
        }
        return {};
    }

    // The end tokens that the metadata name, and those that gguf_end_tokens() finds in the vocabulary.
    Result<void> read_end_tokens() {
        std::vector<int64_t> ends;
        for (const char* const name : {"eos", "eot", "eom"}) {
            NL_ASSIGN(const auto token,
                      header_.integer("tokenizer.ggml." + std::string(name) + "_token_id", 0, UINT32_MAX));
            if (token && *token < vocab_) ends.push_back(*token);
        }
        NL_ASSIGN(const auto spelled, gguf_end_tokens(header_));
        for (const int64_t token : spelled) {
            if (token < vocab_) ends.push_back(token);
        }
        std::ranges::sort(ends);
        ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
        if (!ends.empty()) fields_.add_integers("eos_token_id", ends);
        return {};
    }

    // Options that follow from which tensors the file has: a head of its own, biases.
    void add_parts() {
        fields_.add("tie_word_embeddings", !has_tensor(kGgufHead));
        const bool attention = has_tensor("blk.0.attn_q.bias");
        if (architecture_->attention_bias == Presence::by_config)
            fields_.add(architecture_->attention_bias_field, attention);
        const bool same_field = std::string_view(architecture_->mlp_bias_field) == architecture_->attention_bias_field;
        if (architecture_->mlp_bias == Presence::by_config && !same_field)
            fields_.add(architecture_->mlp_bias_field, has_tensor("blk.0.ffn_gate.bias"));
    }

    Result<GgufConfig> finish(int64_t max_context) {
        GgufConfig made;
        const Json json(Json::Value(fields_.finish()));
        NL_ASSIGN(made.config, read_config(json, header_.path() + " (as config.json)", max_context));
        Config& config = made.config;
        config.tensors = gguf_tensor_names(architecture_->tensors);
        if (family_->interleaved) config.head_order = rope_order(config.spec.head_dim, config.spec.head_dim, true);
        made.norms_have_one = architecture_->gemma;
        return made;
    }

    const GgufFiles& files_;
    const GgufHeader& header_;
    const Family* family_ = nullptr;
    const Architecture* architecture_ = nullptr;
    Fields fields_;
    int64_t context_ = 0;
    int64_t hidden_ = 0;
    int64_t layers_ = 0;
    int64_t heads_ = 0;
    int64_t head_dim_ = 0;
    int64_t rotated_ = 0;  // elements of a head that RoPE rotates
    int64_t vocab_ = 0;
};

}  // namespace

Result<GgufConfig> read_gguf_config(const GgufFiles& files, int64_t max_context) {
    return ConfigReader(files).read(max_context);
}

}  // namespace nanolith
