// What all routes share, and the way from a request to a reply.
#pragma once

#include <httplib.h>

#include <atomic>
#include <functional>
#include <string>

#include "api_error.h"
#include "config.h"
#include "log.h"
#include "metrics.h"
#include "model.h"
#include "prompt.h"
#include "settings.h"
#include "tenants.h"

namespace server {

struct Service {
    Service(const Config& configuration, Log& lines)
        : config(configuration),
          log(lines),
          model(configuration, lines),
          tenants(configuration, model.engine()),
          settings(configuration, model) {}

    [[nodiscard]] RequestContext context(Tenant& tenant) const { return {config, model, settings, tenant}; }

    const Config& config;
    Log& log;
    Model model;
    Tenants tenants;
    SettingsReader settings;
    Metrics metrics;
    std::atomic<int64_t> in_flight{0};  // requests that are being answered, as Ticket counts them
    std::atomic<bool> stops{false};     // no new answers
};

// One request for answers, from its admission to its end: counts it, and writes its line to the log. The outcome is
// Outcome::cancelled unless `end_with` says another.
class Ticket {
  public:
    // Throws where the server stops, or answers as many as it may.
    Ticket(Service& service, const Tenant& tenant, const std::string& path);
    ~Ticket();
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;

    void end_with(Outcome outcome) { outcome_ = outcome; }
    // Further members of the line.
    Json& fields() { return fields_; }

  private:
    Service* service_;
    Outcome outcome_ = Outcome::cancelled;
    Json fields_;
};

using Handle = std::function<void(const httplib::Request&, httplib::Response&, Tenant&, const std::string& body)>;

// A handler with a body, which it reads up to the limit, for the tenant of the request's key; what it throws becomes
// the reply.
httplib::Server::HandlerWithContentReader with_body(Service& service, Handle handle);
// The same without a body.
httplib::Server::Handler without_body(Service& service, Handle handle);

// Answers a request for something that the engine computes with JSON; its ticket says how it ended where no error does.
using Compute = Json (*)(Service& service, const httplib::Request& request, Tenant& tenant, const std::string& body,
                         Ticket& ticket);
// The handler of such a request: as with_body, with a ticket.
httplib::Server::HandlerWithContentReader with_ticket(Service& service, Compute compute);

void send_json(httplib::Response& response, const Json& json);
void send_error(httplib::Response& response, const ApiError& error);
Outcome outcome_of(const ApiError& error);

void add_answer_routes(httplib::Server& http, Service& service);  // chat and completions
void add_embeddings_route(httplib::Server& http, Service& service);
void add_rerank_route(httplib::Server& http, Service& service);
void add_chunk_routes(httplib::Server& http, Service& service);  // documents
// Puts the text files of a folder as documents of every tenant, with their names as ids.
void put_folder(Service& service, const std::string& folder);
void add_plain_routes(httplib::Server& http, Service& service);  // models, tokens, health, metrics, the page

}  // namespace server
