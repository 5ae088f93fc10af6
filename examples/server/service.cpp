#include "service.h"

#include <optional>

namespace server {
namespace {

// The error for an exception that no code expects: status 500 with the exception's text.
ApiError unexpected(const std::string& message) {
    ApiError error;
    error.message = message;
    error.type = "server_error";
    return error;
}

ApiError too_large(int64_t most) {
    ApiError error = bad_request("", "The body has more than " + std::to_string(most) + " bytes.", "body_too_large");
    error.status = 413;
    return error;
}

// Runs `work`; what it throws becomes the reply.
void guard(Service& service, httplib::Response& response, const std::function<void()>& work) {
    try {
        work();
    } catch (const ApiError& error) {
        send_error(response, error);
    } catch (const std::bad_alloc&) {
        ApiError error = unexpected("Memory ran out.");
        error.status = 503;
        send_error(response, error);
    } catch (const std::exception& error) {
        service.log.write(NL_LOG_ERROR, std::string("unexpected: ") + error.what());
        send_error(response, unexpected(error.what()));
    }
}

std::string read_body(const httplib::Request& request, const httplib::ContentReader& reader, int64_t most) {
    if (request.is_multipart_form_data()) {
        reader([](const httplib::MultipartFormData&) { return true; }, [](const char*, size_t) { return true; });
        throw bad_request("", "The body is a form: expected JSON.");
    }
    std::string body;
    bool fits = true;
    const bool whole = reader([&](const char* data, size_t length) {
        fits = body.size() + length <= static_cast<size_t>(most);
        if (fits) body.append(data, length);
        return fits;
    });
    if (!fits) throw too_large(most);
    if (!whole) throw bad_request("", "The body did not come to its end.");
    return body;
}

}  // namespace

Ticket::Ticket(Service& service, const Tenant& tenant, const std::string& path)
    : service_(&service), fields_{{"path", path}, {"tenant", tenant.name}} {
    if (service.stops) throw stopping();
    if (service.in_flight.fetch_add(1) >= service.config.max_requests) {
        service.in_flight.fetch_sub(1);
        throw too_busy("The server answers " + std::to_string(service.config.max_requests) +
                       " requests now, as many as it may.");
    }
}

Ticket::~Ticket() {
    static constexpr std::array<const char*, kNumOutcomes> kNames = {"answered", "refused", "rejected", "cancelled",
                                                                     "failed"};
    service_->metrics.count(outcome_);
    service_->in_flight.fetch_sub(1);
    try {
        service_->log.write(NL_LOG_INFO, kNames[static_cast<size_t>(outcome_)], fields_);
    } catch (const std::exception&) {  // out of memory: the line is missing
    }
}

httplib::Server::HandlerWithContentReader with_body(Service& service, Handle handle) {
    return [&service, handle = std::move(handle)](const httplib::Request& request, httplib::Response& response,
                                                  const httplib::ContentReader& reader) {
        guard(service, response, [&] {
            // Read even where the key is wrong: what is left unread would be taken for the next request.
            const std::string body = read_body(request, reader, service.config.max_body_bytes);
            handle(request, response, service.tenants.of_header(request.get_header_value("Authorization")), body);
        });
    };
}

httplib::Server::Handler without_body(Service& service, Handle handle) {
    return [&service, handle = std::move(handle)](const httplib::Request& request, httplib::Response& response) {
        guard(service, response, [&] {
            handle(request, response, service.tenants.of_header(request.get_header_value("Authorization")), "");
        });
    };
}

httplib::Server::HandlerWithContentReader with_ticket(Service& service, Compute compute) {
    return with_body(service, [&service, compute](const httplib::Request& request, httplib::Response& response,
                                                  Tenant& tenant, const std::string& body) {
        std::optional<Ticket> ticket;
        try {
            ticket.emplace(service, tenant, request.path);
        } catch (const ApiError&) {
            service.metrics.count(Outcome::rejected);
            throw;
        }
        try {
            send_json(response, compute(service, request, tenant, body, *ticket));
        } catch (const ApiError& error) {
            ticket->end_with(outcome_of(error));
            ticket->fields()["error"] = error.message;
            throw;
        } catch (...) {
            ticket->end_with(Outcome::failed);
            throw;
        }
    });
}

void send_json(httplib::Response& response, const Json& json) {
    response.set_content(to_text(json), "application/json");
}

void send_error(httplib::Response& response, const ApiError& error) {
    response.status = error.status;
    if (error.retry_seconds > 0) response.set_header("Retry-After", std::to_string(error.retry_seconds));
    if (error.status == 401) response.set_header("WWW-Authenticate", "Bearer");
    send_json(response, error.json());
}

Outcome outcome_of(const ApiError& error) {
    if (error.status == 429 || error.status == 503) return Outcome::rejected;
    return error.status >= 500 ? Outcome::failed : Outcome::refused;
}

}  // namespace server
