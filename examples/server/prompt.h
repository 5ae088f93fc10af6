// A request as the engine needs it: prompts, each of documents and the tokens after them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "documents.h"
#include "model.h"
#include "settings.h"
#include "tenants.h"

namespace server {

// A span of a prompt that becomes a chunk.
struct Part {
    std::vector<int32_t> tokens;
    int32_t level = NL_LEVEL_CONTEXT;
    std::shared_ptr<Document> document;  // null: it is the system prompt
};

struct Prompt {
    std::vector<Part> parts;
    std::vector<int32_t> tail;  // what follows the parts: for this request alone; at least one token
    [[nodiscard]] size_t num_tokens() const;
};

struct Job {
    bool chat = false;
    Settings settings;
    std::vector<Prompt> prompts;          // each gets settings.n answers
    std::vector<std::string> tool_names;  // of a chat: the functions that an answer may call
};

// Everything that requests are read with.
struct RequestContext {
    const Config& config;
    const Model& model;
    const SettingsReader& settings;
    Tenant& tenant;
};

// The field `documents`: each one an id, {"id": ...} or {"text": ..., "title": ...}.
std::vector<std::shared_ptr<Document>> read_documents(Fields& fields, const RequestContext& context);

// The body of /v1/completions.
Job read_completion(const Json& body, const RequestContext& context);
// The body of /v1/chat/completions.
Job read_chat(const Json& body, const RequestContext& context);
// The tokens of a chat's messages without documents, for /tokenize.
std::vector<int32_t> tokens_of_chat(const Json& messages, bool with_prompt, const RequestContext& context);
// The tokens that a document has in chats: what is prefilled when it is put.
std::vector<int32_t> tokens_of_document(const std::string& text, const RequestContext& context);
// Puts a chat's system prompt and documents, which stand in front, into parts.
Prompt split_chat(const RenderedChat& chat, size_t num_system, const std::vector<std::shared_ptr<Document>>& documents,
                  size_t page_size);

// An ApiError where the prompt leaves no room for an answer.
void check_length(const Prompt& prompt, const Model& model, const std::string& param);
// `model`, where a request has it, is the one that is served.
void check_model(Fields& fields, const Model& model);

}  // namespace server
