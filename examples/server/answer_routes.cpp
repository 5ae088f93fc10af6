// /v1/chat/completions and /v1/completions.
#include <memory>

#include "answers.h"
#include "connection.h"
#include "reply.h"
#include "service.h"

namespace server {
namespace {

// A request that is being answered, for as long as its reply is written.
struct Session {
    Session(Service& service, const Tenant& tenant, const std::string& path) : ticket(service, tenant, path) {}

    void log_end() {
        const Usage usage = answers->usage();
        ticket.fields()["id"] = reply->id();
        ticket.fields()["prompt_tokens"] = usage.prompt_tokens;
        ticket.fields()["cached_tokens"] = usage.cached_tokens;
        ticket.fields()["answer_tokens"] = usage.answer_tokens;
    }

    Ticket ticket;
    Job job;
    std::unique_ptr<Answers> answers;
    std::unique_ptr<Reply> reply;
};

// Sends all events. Returns false where the client is gone.
bool stream(Session& session, httplib::DataSink& sink) {
    Reply& reply = *session.reply;
    const auto flush = [&] {
        std::string& events = reply.events();
        const bool sent = events.empty() || sink.write(events.data(), events.size());
        events.clear();
        return sent;
    };
    bool is_there = true;
    try {
        is_there = flush() && session.answers->read([&](const Piece& piece) { reply.take(piece); }, flush,
                                                    [&] { return sink.is_writable(); });
        if (is_there) {
            reply.close(session.answers->usage(), session.answers->report());
            session.ticket.end_with(Outcome::answered);
        }
    } catch (const ApiError& error) {
        reply.fail(error.json());
        session.ticket.end_with(outcome_of(error));
    }
    session.log_end();
    if (is_there) is_there = flush();
    if (is_there) sink.done();
    return is_there;
}

void send_stream(const std::shared_ptr<Session>& session, httplib::Response& response) {
    response.set_header("Cache-Control", "no-cache");
    response.set_header("X-Accel-Buffering", "no");  // proxies shall not collect events
    response.set_chunked_content_provider("text/event-stream", [session](size_t, httplib::DataSink& sink) {
        try {
            return stream(*session, sink);
        } catch (const std::exception&) {  // out of memory: there is no other reply than the connection's end
            session->ticket.end_with(Outcome::failed);
            return false;
        }
    });
}

void send_whole(Session& session, const httplib::Request& request, httplib::Response& response) {
    const Connection connection(request);
    const bool is_there = session.answers->read([&](const Piece& piece) { session.reply->take(piece); },
                                                [] { return true; }, [&] { return connection.is_open(); });
    session.log_end();
    if (!is_there) return;  // nobody reads what is sent
    session.ticket.end_with(Outcome::answered);
    send_json(response, session.reply->whole(session.answers->usage(), session.answers->report()));
}

using ReadJob = Job (*)(const Json& body, const RequestContext& context);

void answer(Service& service, const httplib::Request& request, httplib::Response& response, Tenant& tenant,
            const std::string& body, ReadJob read_job) {
    const Clock::time_point arrival = Clock::now();
    std::shared_ptr<Session> session;
    try {
        session = std::make_shared<Session>(service, tenant, request.path);
    } catch (const ApiError&) {
        service.metrics.count(Outcome::rejected);
        throw;
    }
    try {
        session->job = read_job(parse_body(body), service.context(tenant));
        session->answers = std::make_unique<Answers>(session->job, service.model, tenant, service.metrics, arrival);
        session->reply = std::make_unique<Reply>(session->job, service.model, session->answers->size());
        if (session->job.settings.stream) {
            send_stream(session, response);
        } else {
            send_whole(*session, request, response);
        }
    } catch (const ApiError& error) {
        session->ticket.end_with(outcome_of(error));
        session->ticket.fields()["error"] = error.message;
        throw;
    } catch (...) {
        session->ticket.end_with(Outcome::failed);
        throw;
    }
}

}  // namespace

void add_answer_routes(httplib::Server& http, Service& service) {
    const auto route = [&service](ReadJob read_job) {
        return with_body(service, [&service, read_job](const httplib::Request& request, httplib::Response& response,
                                                       Tenant& tenant, const std::string& body) {
            answer(service, request, response, tenant, body, read_job);
        });
    };
    http.Post("/v1/chat/completions", route(read_chat));
    http.Post("/v1/completions", route(read_completion));
}

}  // namespace server
