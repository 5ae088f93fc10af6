// /v1/chunks: documents that are put once, prefilled, and named by requests.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "random.h"
#include "service.h"

namespace server {
namespace {

void check_id(const std::string& id) {
    constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    if (id.empty() || id.size() > 128 || id.find_first_not_of(kAllowed) != std::string::npos)
        throw bad_request("id", "id is " + id + ": expected 1 to 128 letters, digits, dots, dashes and underscores.");
}

// Prefills a document's chunk as it stands in chats behind a short system prompt, with nothing before it in view. What
// is in the store already costs nothing.
Chunk prefill(Service& service, Tenant& tenant, const Document& document) {
    std::vector<int32_t> tokens;
    try {
        tokens = tokens_of_document(document.text, service.context(tenant));
    } catch (const ApiError& error) {
        if (error.code != "unsupported_parameter") throw;
        tokens = service.model.encode(document.text, 0, "text");  // the model can't chat
    }
    return made<Chunk>(
        [&](nl_chunk** out) {
            return nl_chunk_prefill(tenant.engine, tokens.data(), tokens.size(), NL_LEVEL_CONTEXT, nullptr, 0, out);
        },
        "text");
}

Json put(Service& service, Tenant& tenant, const std::string& body, const std::string& path_id) {
    if (service.stops) throw stopping();
    const Json json = parse_body(body);
    Fields fields(json);
    auto document = std::make_shared<Document>();
    const auto id = fields.text("id");
    document->id = !path_id.empty() ? path_id : id.value_or(random_id("doc-", kHexDigits, 16));
    document->text = fields.text("text").value_or("");
    document->title = fields.text("title").value_or("");
    document->pinned = fields.boolean("pinned").value_or(false);
    fields.finish();
    if (!path_id.empty() && id && *id != path_id) throw bad_request("id", "id is not the one in the path.");
    check_id(document->id);
    if (document->text.empty()) throw bad_request("text", "text is missing or empty.");
    document->created =
        std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
    const Chunk chunk = prefill(service, tenant, *document);
    document->tokens = fact(chunk.get(), NL_CHUNK_TOKENS);
    document->bytes = fact(chunk.get(), NL_CHUNK_BYTES);
    tenant.documents.put(document);
    tenant.documents.pin_if_wanted(document, chunk.get());
    Json reply = Documents::describe(*document);
    reply["computed"] = fact(chunk.get(), NL_CHUNK_TOKENS_COMPUTED);
    return reply;
}

Json change(Service& service, Tenant& tenant, const std::string& body, const std::string& id) {
    const Json json = parse_body(body);
    Fields fields(json);
    const auto pinned = fields.boolean("pinned");
    fields.finish();
    if (!pinned) throw bad_request("pinned", "pinned is missing: it is what can be changed.");
    const auto document = tenant.documents.find(id, "id");
    tenant.documents.set_pinned(id, *pinned);
    if (*pinned) tenant.documents.pin_if_wanted(document, prefill(service, tenant, *document).get());
    return Documents::describe(*document);
}

}  // namespace

void put_folder(Service& service, const std::string& folder) {
    namespace fs = std::filesystem;
    std::set<fs::path> files;  // in the order of their names
    for (const auto& entry : fs::directory_iterator(folder)) {
        if (entry.is_regular_file() && entry.path().filename().string().front() != '.') files.insert(entry.path());
    }
    for (const fs::path& file : files) {
        std::ifstream stream(file, std::ios::binary);
        const std::string text{std::istreambuf_iterator<char>(stream), {}};
        const Json body = {{"id", file.stem().string()}, {"title", file.stem().string()}, {"text", text}};
        for (Tenant* tenant : service.tenants.all()) put(service, *tenant, to_text(body), "");
    }
}

void add_chunk_routes(httplib::Server& http, Service& service) {
    using httplib::Request;
    using httplib::Response;
    const std::string one = R"(/v1/chunks/([A-Za-z0-9._-]+))";
    const auto put_one = with_body(
        service, [&service](const Request& request, Response& response, Tenant& tenant, const std::string& body) {
            send_json(response, put(service, tenant, body, request.matches.size() > 1 ? request.matches[1].str() : ""));
        });
    http.Post("/v1/chunks", put_one);
    http.Put(one, put_one);
    http.Patch(one, with_body(service, [&service](const Request& request, Response& response, Tenant& tenant,
                                                  const std::string& body) {
                   send_json(response, change(service, tenant, body, request.matches[1].str()));
               }));
    http.Get("/v1/chunks",
             without_body(service, [](const Request&, Response& response, Tenant& tenant, const std::string&) {
                 send_json(response, {{"object", "list"}, {"data", tenant.documents.list()}});
             }));
    http.Get(one,
             without_body(service, [](const Request& request, Response& response, Tenant& tenant, const std::string&) {
                 const auto document = tenant.documents.find(request.matches[1].str(), "id");
                 Json reply = Documents::describe(*document);
                 reply["text"] = document->text;
                 send_json(response, reply);
             }));
    http.Delete(
        one, without_body(service, [](const Request& request, Response& response, Tenant& tenant, const std::string&) {
            const std::string id = request.matches[1].str();
            tenant.documents.remove(id);
            send_json(response, {{"id", id}, {"object", "chunk"}, {"deleted", true}});
        }));
}

}  // namespace server
