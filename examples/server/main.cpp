// nanolith-server: serves a model over HTTP, as OpenAI's interface has it, with documents that are computed once.
//
//   nanolith-server MODEL_FOLDER [--port 8080] [--help for the rest]
//
// It is built upon nanolith.h alone. config.h has what it is told, service.h what its routes share, prompt.h how a
// request becomes tokens, answers.h how it is computed, reply.h what the client gets.
#include <sys/socket.h>

#include <csignal>
#include <cstdio>
#include <thread>

#include "connection.h"
#include "service.h"
#include "threads.h"

namespace server {
namespace {

using namespace std::chrono_literals;

constexpr auto kPollEvery = 10ms;
constexpr auto kAfterCancel = 5s;  // for the last replies to be sent

// Of the socket that listens; connections inherit them. What a client does not read waits in the system's memory, so
// that is bounded. Unlike cpp-httplib's own options, these let no second server listen on the same port.
void set_socket_options(int socket) {
    const int yes = 1;
    const int bytes = 256 << 10;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

// Waits until no request is answered any more, at most until `deadline`.
void wait_for_answers(const Service& service, std::chrono::steady_clock::time_point deadline) {
    while (service.in_flight > 0 && std::chrono::steady_clock::now() < deadline)
        std::this_thread::sleep_for(kPollEvery);
}

// Waits for SIGTERM or SIGINT. Answers under way may end first; new ones are refused meanwhile.
void stop_when_asked(const sigset_t& signals, int port, httplib::Server& http, Service& service) {
    int signal = 0;
    sigwait(&signals, &signal);
    service.stops = true;
    service.log.write(NL_LOG_INFO, "stopping", {{"answers", service.in_flight.load()}});
    wait_for_answers(service, std::chrono::steady_clock::now() + std::chrono::seconds(service.config.drain_seconds));
    if (service.in_flight > 0) {
        nl_engine_cancel(service.model.engine());
        wait_for_answers(service, std::chrono::steady_clock::now() + kAfterCancel);
    }
    http.stop();
    end_idle_connections(port);
}

void set_up(httplib::Server& http, Service& service) {
    const Config& config = service.config;
    http.new_task_queue = [&service] {
        return new ConnectionThreads(static_cast<size_t>(service.config.connections), service.metrics.connections);
    };
    http.set_tcp_nodelay(true);
    http.set_keep_alive_max_count(100000);
    http.set_read_timeout(10, 0);
    http.set_write_timeout(config.write_seconds, 0);
    http.set_error_handler([](const httplib::Request& request, httplib::Response& response) {
        if (!response.body.empty()) return;
        ApiError error = response.status == 404
                             ? not_found("", "There is no " + request.method + " " + request.path + ".", "no_such_path")
                             : bad_request("", "The request is not HTTP as this server reads it.");
        error.status = response.status;
        send_error(response, error);
    });
    http.set_logger([&service](const httplib::Request& request, const httplib::Response& response) {
        service.log.write(NL_LOG_DEBUG, "request",
                          {{"method", request.method}, {"path", request.path}, {"status", response.status}});
    });
    add_answer_routes(http, service);
    add_embeddings_route(http, service);
    add_rerank_route(http, service);
    add_chunk_routes(http, service);
    add_plain_routes(http, service);
}

int serve(const Config& config) {
    // Before there are other threads, so that all of them leave these signals to the one that waits for them.
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    std::signal(SIGPIPE, SIG_IGN);

    Log log(config.log_json, config.log_level);
    Service service(config, log);
    if (!config.documents.empty()) put_folder(service, config.documents);
    httplib::Server http;
    set_up(http, service);
    int listener = -1;
    http.set_socket_options([&listener](int socket) {
        set_socket_options(socket);
        listener = socket;
    });
    const int port = config.port == 0 ? http.bind_to_any_port(config.host)
                                      : (http.bind_to_port(config.host, config.port) ? config.port : -1);
    if (port < 0) {
        std::fprintf(stderr, "Nothing can listen on %s port %d\n", config.host.c_str(), config.port);
        return 1;
    }
    // cpp-httplib lets five connections wait to be accepted: of a hundred clients at once some would be turned away.
    listen(listener, SOMAXCONN);
    log.write(NL_LOG_INFO, "serving", {{"model", service.model.name()}, {"device", service.model.device()}});
    std::printf("http://%s:%d\n", config.host.c_str(), port);
    std::fflush(stdout);
    std::thread stopper([&] { stop_when_asked(signals, port, http, service); });
    const bool listened = http.listen_after_bind();
    if (!service.stops) kill(getpid(), SIGTERM);  // it could not listen: the stopper must end too
    stopper.join();
    log.write(NL_LOG_INFO, "stopped");
    return listened ? 0 : 1;
}

}  // namespace
}  // namespace server

int main(int argc, char** argv) {
    const server::Config config = server::read_config(argc, argv);
    try {
        return server::serve(config);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
