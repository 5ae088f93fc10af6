#include "prompt.h"

#include "api_error.h"

namespace server {

size_t Prompt::num_tokens() const {
    size_t count = tail.size();
    for (const Part& part : parts) count += part.tokens.size();
    return count;
}

std::vector<std::shared_ptr<Document>> read_documents(Fields& fields, const RequestContext& context) {
    std::vector<std::shared_ptr<Document>> documents;
    for (const Json& element : fields.list("documents", static_cast<size_t>(context.config.max_documents))) {
        const std::string where = "documents[" + std::to_string(documents.size()) + "]";
        if (element.is_string()) {
            documents.push_back(context.tenant.documents.find(element.get<std::string>(), where));
            continue;
        }
        if (!element.is_object())
            throw bad_request(where, where + R"( is neither an id nor an object with "id" or "text".)");
        Fields inside(element, where + ".");
        const auto id = inside.text("id");
        const auto text = inside.text("text");
        const auto title = inside.text("title");
        inside.finish();
        if (id.has_value() == text.has_value())
            throw bad_request(where, where + R"( has both or none of "id" and "text": expected one of them.)");
        if (text && text->empty()) throw bad_request(where + ".text", where + ".text is empty.");
        if (id) {
            documents.push_back(context.tenant.documents.find(*id, where + ".id"));
        } else {
            auto document = std::make_shared<Document>();
            document->text = *text;
            document->title = title.value_or("");
            documents.push_back(std::move(document));
        }
    }
    return documents;
}

void check_length(const Prompt& prompt, const Model& model, const std::string& param) {
    const size_t count = prompt.num_tokens();
    if (count < model.max_context()) return;
    throw bad_request(param,
                      "The prompt has " + std::to_string(count) + " tokens, and the context has room for " +
                          std::to_string(model.max_context()) + " with the answer.",
                      "context_length_exceeded");
}

void check_model(Fields& fields, const Model& model) {
    const auto name = fields.text("model");
    if (name && *name != model.name())
        throw not_found("model", "There is no model " + *name + " here; " + model.name() + " is.", "model_not_found");
}

}  // namespace server
