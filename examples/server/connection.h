// Whether the client of a request is still there.
#pragma once

#include <httplib.h>

namespace server {

// cpp-httplib tells so only where it streams, so this looks for the request's socket among those of the process. Made
// on the thread that handles the request, and used until its handler returns.
class Connection {
  public:
    explicit Connection(const httplib::Request& request);
    // Whether the client has not hung up, as far as can be told.
    [[nodiscard]] bool is_open() const;

  private:
    int socket_ = -1;
};

// Reads no more from any connection of this server, whose port it is: those that wait for a further request end.
void end_idle_connections(int port);

}  // namespace server
