// Models, tokens, health, metrics, and the page.
#include "page.h"
#include "service.h"

namespace server {
namespace {

using httplib::Request;
using httplib::Response;

Json describe_model(const Service& service) {
    return {{"id", service.model.name()},
            {"object", "model"},
            {"created", service.model.created()},
            {"owned_by", "nanolith"},
            {"max_model_len", service.model.max_context()}};
}

Json tokenize(Service& service, Tenant& tenant, const std::string& body) {
    const Json json = parse_body(body);
    Fields fields(json);
    check_model(fields, service.model);
    const auto text = fields.text("prompt");
    const Json& messages = fields.list("messages", static_cast<size_t>(service.config.max_messages));
    const bool special = fields.boolean("add_special_tokens").value_or(true);
    const bool with_prompt = fields.boolean("add_generation_prompt").value_or(true);
    fields.finish();
    if (text.has_value() == !messages.is_null())
        throw bad_request("prompt", "The body has both or none of prompt and messages: expected one of them.");
    const auto tokens = text ? service.model.encode(*text, special ? NL_ENCODE_ADD_SPECIAL : 0, "prompt")
                             : tokens_of_chat(messages, with_prompt, service.context(tenant));
    return {{"count", tokens.size()}, {"max_model_len", service.model.max_context()}, {"tokens", tokens}};
}

Json detokenize(Service& service, const std::string& body) {
    const Json json = parse_body(body);
    Fields fields(json);
    check_model(fields, service.model);
    const auto tokens = fields.integers("tokens", size_t{1} << 22);
    fields.finish();
    return {{"prompt", service.model.decode(tokens)}};
}

void add_models(httplib::Server& http, Service& service) {
    http.Get("/v1/models",
             without_body(service, [&service](const Request&, Response& response, Tenant&, const std::string&) {
                 send_json(response, {{"object", "list"}, {"data", Json::array({describe_model(service)})}});
             }));
    http.Get(R"(/v1/models/(.+))",
             without_body(service, [&service](const Request& request, Response& response, Tenant&, const std::string&) {
                 const Json wanted = {{"model", request.matches[1].str()}};
                 Fields fields(wanted);
                 check_model(fields, service.model);
                 send_json(response, describe_model(service));
             }));
}

void add_page(httplib::Server& http, const Service& service) {
    http.Get("/page/settings", [&service](const Request&, Response& response) {
        send_json(response, {{"system_prompt", service.config.page_prompt}});
    });
    for (const PageFile& file : kPageFiles) {
        http.Get(std::string(file.path), [&file](const Request&, Response& response) {
            response.set_header("Cache-Control", "no-cache");
            response.set_header("Content-Security-Policy", "default-src 'self'");
            response.set_header("X-Content-Type-Options", "nosniff");
            response.set_content(file.text.data(), file.text.size(), std::string(file.type));
        });
    }
}

}  // namespace

void add_plain_routes(httplib::Server& http, Service& service) {
    add_models(http, service);
    add_page(http, service);
    http.Post("/tokenize", with_body(service, [&service](const Request&, Response& response, Tenant& tenant,
                                                         const std::string& body) {
                  send_json(response, tokenize(service, tenant, body));
              }));
    http.Post("/detokenize",
              with_body(service, [&service](const Request&, Response& response, Tenant&, const std::string& body) {
                  send_json(response, detokenize(service, body));
              }));
    http.Get("/health", [&service](const Request&, Response& response) {
        response.status = service.stops ? 503 : 200;
        send_json(response, {{"status", service.stops ? "stopping" : "ok"}});
    });
    http.Get("/metrics",
             without_body(service, [&service](const Request&, Response& response, Tenant&, const std::string&) {
                 response.set_content(service.metrics.text(service.model.engine(), service.model.name()),
                                      "text/plain; version=0.0.4");
             }));
}

}  // namespace server
