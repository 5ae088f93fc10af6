// Log-probabilities of an answer's tokens, and their form in replies.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "handles.h"
#include "json.h"
#include "model.h"

namespace server {

struct TokenLogprob {
    int32_t token = 0;
    float logprob = 0;
    std::vector<std::pair<int32_t, float>> top;  // the most probable tokens in its place, the most probable first
};

// Those of the tokens that the latest call of nl_generation_next gave, with `num_top` others each. End tokens are no
// part of the answer and are left out.
std::vector<TokenLogprob> read_logprobs(nl_generation* generation, const int32_t* tokens, size_t num_tokens,
                                        size_t num_top, const Model& model);
// The member `logprobs` of a chat's choice.
Json chat_logprobs(const std::vector<TokenLogprob>& entries, const Model& model);
// The same of a completion's; the first token's text begins at `offset` in the answer's, which is moved on.
Json completion_logprobs(const std::vector<TokenLogprob>& entries, const Model& model, size_t& offset);

}  // namespace server
