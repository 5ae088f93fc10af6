// Reads bodies of /v1/chat/completions.
#include "api_error.h"
#include "prompt.h"
#include "tools.h"

namespace server {
namespace {

bool has_type(const Json& object, const char* type) {
    return object.is_object() && object.contains("type") && object["type"] == type;
}

// A message's content: a text, or parts of type text, which are joined.
std::string read_content(const Json& content, const std::string& where) {
    if (content.is_string()) return content.get<std::string>();
    if (!content.is_array()) throw bad_request(where, where + " is neither a text nor a list of parts.");
    std::string text;
    for (const Json& part : content) {
        if (!has_type(part, "text")) throw unsupported(where, where + " has a part that is no text.");
        const auto found = part.find("text");
        if (found == part.end() || !found->is_string()) throw bad_request(where, where + " has a part without text.");
        text += found->get<std::string>();
    }
    return text;
}

// OpenAI's arguments are JSON in a string; templates take the object.
Json read_tool_call(const Json& call, const std::string& where) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object())
        throw bad_request(where, where + " has no function.");
    Json result = call;
    Json& function = result["function"];
    const auto arguments = function.find("arguments");
    if (arguments != function.end() && arguments->is_string()) {
        Json object = Json::parse(arguments->get<std::string>(), nullptr, false);
        if (object.is_discarded())
            throw bad_request(where, where + ".function.arguments is not JSON: " + arguments->get<std::string>());
        *arguments = std::move(object);
    }
    return result;
}

Json read_message(const Json& message, const std::string& where) {
    if (!message.is_object()) throw bad_request(where, where + " is no object.");
    Fields fields(message, where + ".");
    std::string role = fields.text("role").value_or("");
    if (role == "developer") role = "system";
    if (role != "system" && role != "user" && role != "assistant" && role != "tool")
        throw bad_request(where + ".role",
                          where + ".role is " + role + ": expected system, developer, user, assistant or tool.");
    Json result = {{"role", role}};
    const Json& content = fields.any("content");
    const Json& calls = fields.list("tool_calls", 128);
    if (!content.is_null()) {
        result["content"] = read_content(content, where + ".content");
    } else if (calls.is_null()) {
        throw bad_request(where + ".content", where + " has no content.");
    } else {
        result["content"] = "";
    }
    if (!calls.is_null() && !calls.empty()) {
        if (role != "assistant") throw bad_request(where + ".tool_calls", where + " has tool calls and is no answer.");
        for (const Json& call : calls) result["tool_calls"].push_back(read_tool_call(call, where + ".tool_calls"));
    }
    if (const auto id = fields.text("tool_call_id")) result["tool_call_id"] = *id;
    if (const auto name = fields.text("name")) result["name"] = *name;
    // Members of messages that were answers once: clients send them back in the history, where they may be empty.
    fields.refuse("refusal", {""}, "there are no refusals.");
    fields.refuse("annotations", {Json::array()}, "there are no annotations.");
    fields.refuse("audio", {}, "only text is supported.");
    fields.refuse("function_call", {}, "use tool_calls.");
    fields.finish();
    return result;
}

Json read_messages(const Json& list) {
    Json messages = Json::array();
    for (size_t i = 0; i < list.size(); ++i)
        messages.push_back(read_message(list[i], "messages[" + std::to_string(i) + "]"));
    if (messages.empty()) throw bad_request("messages", "messages is empty.");
    return messages;
}

size_t count_system(const Json& messages) {
    size_t count = 0;
    while (count < messages.size() && messages[count]["role"] == "system") ++count;
    return count;
}

// Refuses OpenAI's fields that this server does not support, unless their value asks for nothing.
void refuse_the_rest(Fields& fields) {
    fields.refuse("functions", {Json::array()}, "use tools.");
    fields.refuse("function_call", {"none"}, "use tool_choice.");
    fields.refuse("modalities", {Json::array({"text"})}, "only text is supported.");
    fields.refuse("store", {false}, "answers are not kept.");
    fields.refuse("service_tier", {"auto", "default"}, "there is one.");
}

void read_logprobs(Fields& fields, Settings& settings) {
    settings.logprobs = fields.boolean("logprobs").value_or(false);
    settings.top_logprobs = fields.integer("top_logprobs", 0, 20).value_or(0);
    if (settings.top_logprobs > 0 && !settings.logprobs)
        throw bad_request("top_logprobs", "top_logprobs is there and logprobs is not true.");
}

// The document becomes a message behind the system prompt.
Json document_message(const std::string& text, const RequestContext& context) {
    return {{"role", context.config.document_role}, {"content", text}};
}

}  // namespace

Prompt split_chat(const RenderedChat& chat, size_t num_system, const std::vector<std::shared_ptr<Document>>& documents,
                  size_t page_size) {
    Prompt prompt;
    size_t begin = 0;
    const auto take = [&](size_t end, int32_t level, const std::shared_ptr<Document>& document) {
        if (end <= begin) return;
        Part part;
        part.tokens.assign(chat.tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                           chat.tokens.begin() + static_cast<std::ptrdiff_t>(end));
        part.level = level;
        part.document = document;
        prompt.parts.push_back(std::move(part));
        begin = end;
    };
    // A short system prompt without documents is not worth pages of its own.
    if (num_system > 0 && (!documents.empty() || chat.ends[num_system - 1] >= page_size))
        take(chat.ends[num_system - 1], NL_LEVEL_SYSTEM, nullptr);
    for (size_t i = 0; i < documents.size(); ++i) take(chat.ends[num_system + i], NL_LEVEL_CONTEXT, documents[i]);
    prompt.tail.assign(chat.tokens.begin() + static_cast<std::ptrdiff_t>(begin), chat.tokens.end());
    return prompt;
}

Job read_chat(const Json& body, const RequestContext& context) {
    Fields fields(body);
    check_model(fields, context.model);
    Job job;
    job.chat = true;
    job.settings = context.settings.read(fields, 0);
    refuse_the_rest(fields);
    read_logprobs(fields, job.settings);
    const Json messages = read_messages(fields.list("messages", static_cast<size_t>(context.config.max_messages)));
    const Tools tools = read_tools(fields);
    job.tool_names = tools.names;
    if (!tools.call_schema.empty()) constrain(job.settings, "tool_choice", NL_OPTION_JSON_SCHEMA, tools.call_schema);
    const Json& variables = fields.object("chat_template_kwargs");
    const auto documents = read_documents(fields, context);
    fields.finish();

    const size_t num_system = count_system(messages);
    Json list = Json::array();
    for (size_t i = 0; i < num_system; ++i) list.push_back(messages[i]);
    for (const auto& document : documents) list.push_back(document_message(document->text, context));
    for (size_t i = num_system; i < messages.size(); ++i) list.push_back(messages[i]);
    const size_t num_messages = list.size();
    Json request = {{"messages", std::move(list)}};
    if (!tools.list.empty()) request["tools"] = tools.list;
    if (!variables.is_null()) request["variables"] = variables;
    const RenderedChat chat = context.model.render(request, num_messages, true);
    job.prompts.push_back(split_chat(chat, num_system, documents, context.model.page_size()));
    if (job.prompts.back().tail.empty())
        throw bad_request("messages", "Nothing stands behind the documents: a chat needs a question.");
    check_length(job.prompts.back(), context.model, "messages");
    return job;
}

std::vector<int32_t> tokens_of_chat(const Json& messages, bool with_prompt, const RequestContext& context) {
    const Json list = read_messages(messages);
    return context.model.render({{"messages", list}}, list.size(), with_prompt).tokens;
}

std::vector<int32_t> tokens_of_document(const std::string& text, const RequestContext& context) {
    // The document's message as the format writes it behind a system prompt or, where the format takes no system
    // prompt, as the first message.
    const Json question = {{"role", "user"}, {"content", "?"}};
    const Json system = {{"role", "system"}, {"content", "."}};
    size_t index = 1;
    RenderedChat chat;
    try {
        chat = context.model.render({{"messages", {system, document_message(text, context), question}}}, 3, true);
    } catch (const ApiError&) {
        index = 0;
        chat = context.model.render({{"messages", {document_message(text, context), question}}}, 2, true);
    }
    const size_t begin = index == 0 ? 0 : chat.ends[index - 1];
    return {chat.tokens.begin() + static_cast<std::ptrdiff_t>(begin),
            chat.tokens.begin() + static_cast<std::ptrdiff_t>(chat.ends[index])};
}

}  // namespace server
