#include "logprobs.h"

#include <algorithm>

namespace server {
namespace {

// In place of minus infinity, the log-probability of a token that can't be drawn, which JSON can't write as a number.
constexpr float kLeast = -9999;

Json finite(float logprob) {
    return std::max(logprob, kLeast);
}

// The token's text alone, and its bytes, which are not known of a part of a character.
Json described(int32_t token, float logprob, const Model& model) {
    const std::string text = model.decode({&token, 1});
    Json bytes = nullptr;
    if (text.find("\xEF\xBF\xBD") == std::string::npos) {
        bytes = Json::array();
        for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
    }
    return {{"token", text}, {"logprob", finite(logprob)}, {"bytes", bytes}};
}

}  // namespace

std::vector<TokenLogprob> read_logprobs(nl_generation* generation, const int32_t* tokens, size_t num_tokens,
                                        size_t num_top, const Model& model) {
    std::vector<float> chosen(num_tokens);
    std::vector<float> top(num_tokens * num_top);
    std::vector<int32_t> top_tokens(num_tokens * num_top);
    size_t count = 0;
    must(nl_generation_logprobs(generation, chosen.data(), chosen.size(), &count));
    if (num_top > 0) must(nl_generation_top_logprobs(generation, top_tokens.data(), top.data(), top.size(), &count));
    std::vector<TokenLogprob> entries;
    for (size_t i = 0; i < num_tokens; ++i) {
        int32_t ends = 0;
        must(nl_engine_is_end_token(model.engine(), tokens[i], &ends));
        if (ends != 0) continue;
        TokenLogprob entry{tokens[i], chosen[i], {}};
        for (size_t j = i * num_top; j < (i + 1) * num_top; ++j) entry.top.emplace_back(top_tokens[j], top[j]);
        entries.push_back(std::move(entry));
    }
    return entries;
}

Json chat_logprobs(const std::vector<TokenLogprob>& entries, const Model& model) {
    Json content = Json::array();
    for (const TokenLogprob& entry : entries) {
        Json one = described(entry.token, entry.logprob, model);
        one["top_logprobs"] = Json::array();
        for (const auto& [token, logprob] : entry.top) one["top_logprobs"].push_back(described(token, logprob, model));
        content.push_back(std::move(one));
    }
    Json logprobs = Json::object();
    logprobs["content"] = std::move(content);
    return logprobs;
}

Json completion_logprobs(const std::vector<TokenLogprob>& entries, const Model& model, size_t& offset) {
    Json tokens = Json::array();
    Json values = Json::array();
    Json tops = Json::array();
    Json offsets = Json::array();
    for (const TokenLogprob& entry : entries) {
        const std::string text = model.decode({&entry.token, 1});
        tokens.push_back(text);
        values.push_back(finite(entry.logprob));
        offsets.push_back(offset);
        offset += text.size();
        Json top = Json::object();
        for (const auto& [token, logprob] : entry.top) top[model.decode({&token, 1})] = finite(logprob);
        tops.push_back(std::move(top));
    }
    return {{"tokens", tokens}, {"token_logprobs", values}, {"top_logprobs", tops}, {"text_offset", offsets}};
}

}  // namespace server
