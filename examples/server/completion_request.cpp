// Reads bodies of /v1/completions.
#include "api_error.h"
#include "prompt.h"

namespace server {
namespace {

constexpr int64_t kStandardTokens = 16;  // OpenAI's
constexpr size_t kMostPrompts = 64;

// A prompt of token ids as they are.
std::vector<int32_t> read_ids(const Json& list) {
    const Json object = {{"prompt", list}};
    return Fields(object).integers("prompt", list.size());
}

Prompt make_prompt(const Json& text, const std::vector<std::shared_ptr<Document>>& documents,
                   const RequestContext& context) {
    Prompt prompt;
    // The tokens that the tokenizer puts in front of a text, as a begin-of-text token, go in front of the documents.
    const bool behind = !documents.empty();
    std::vector<int32_t> begin;
    if (behind) begin = context.model.encode("", NL_ENCODE_ADD_SPECIAL, "documents");
    for (const auto& document : documents) {
        Part part;
        part.tokens = begin;
        begin.clear();
        const auto tokens = context.model.encode(document->text, 0, "documents");
        part.tokens.insert(part.tokens.end(), tokens.begin(), tokens.end());
        part.document = document;
        prompt.parts.push_back(std::move(part));
    }
    if (text.is_array()) {
        prompt.tail = read_ids(text);
    } else {
        prompt.tail = context.model.encode(text.get<std::string>(), behind ? 0 : NL_ENCODE_ADD_SPECIAL, "prompt");
    }
    if (prompt.tail.empty()) throw bad_request("prompt", "The prompt has no tokens.");
    check_length(prompt, context.model, "prompt");
    return prompt;
}

// The field is a text, a list of texts, a list of token ids, or a list of such lists.
std::vector<Prompt> read_prompts(Fields& fields, const std::vector<std::shared_ptr<Document>>& documents,
                                 const RequestContext& context) {
    const Json& field = fields.any("prompt");
    if (field.is_string()) return {make_prompt(field, documents, context)};
    if (!field.is_array() || field.empty())
        throw bad_request("prompt", "prompt is neither a text nor a list of texts or token ids.");
    if (field.front().is_number()) return {make_prompt(field, documents, context)};
    if (field.size() > kMostPrompts)
        throw bad_request("prompt", "prompt has more than " + std::to_string(kMostPrompts) + " elements.");
    std::vector<Prompt> prompts;
    for (const Json& element : field) {
        if (!element.is_string() && !element.is_array())
            throw bad_request("prompt", "prompt has an element that is neither a text nor a list of token ids.");
        prompts.push_back(make_prompt(element, documents, context));
    }
    return prompts;
}

}  // namespace

Job read_completion(const Json& body, const RequestContext& context) {
    Fields fields(body);
    check_model(fields, context.model);
    Job job;
    job.settings = context.settings.read(fields, kStandardTokens);
    const auto logprobs = fields.integer("logprobs", 0, 20);
    job.settings.logprobs = logprobs.has_value();
    job.settings.top_logprobs = logprobs.value_or(0);
    fields.refuse("echo", {false}, "the prompt is not given back.");
    fields.refuse("suffix", {""}, "there is no insertion.");
    fields.refuse("best_of", {1, job.settings.n}, "answers are not ranked: ask for n.");
    const auto documents = read_documents(fields, context);
    job.prompts = read_prompts(fields, documents, context);
    fields.finish();
    return job;
}

}  // namespace server
