// Encrypted connections: TLS 1.2 or newer, of OpenSSL, with a server whose certificate is trusted and for its host.
#pragma once

#include <memory>

#include "address.h"
#include "channel.h"

namespace nanolith::redis {

// Reads the files that an encrypted address names, to say what is wrong with one before anything is connected:
// NOT_FOUND, IO, or INVALID_ARGUMENT where it has no certificate or key that can be used, or the two don't match.
// UNSUPPORTED where this library was built without OpenSSL.
Result<void> check_tls(const Address& address);

// Reads those files again, since certificates are renewed while programs run, and greets the server that `socket` is
// connected to. The socket stays open while the channel lives. Nothing is sent but the greeting before the server has
// shown its certificate, and IO says what is wrong with that.
Result<std::unique_ptr<Channel>> open_tls(const Address& address, int socket, Clock::time_point deadline);

}  // namespace nanolith::redis
