// Addresses of Redis servers.
#pragma once

#include <string>

#include "base/result.h"

namespace nanolith::redis {

struct Address {
    std::string host;  // empty: a socket
    int port = 6379;
    std::string unix_path;  // of a socket
    std::string user;       // empty: the default one
    std::string password;   // empty: none
    int database = 0;
    bool encrypted = false;        // by TLS; the files are of such addresses alone
    std::string ca_file;           // certificates that are trusted; empty: the system's
    std::string certificate_file;  // the client's own; empty: none
    std::string key_file;          // of that certificate
};

// redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE], [HOST] in brackets where it is an IPv6 address; rediss:// with the
// same and [?ca=FILE&cert=FILE&key=FILE], for an encrypted connection; or unix:PATH. INVALID_ARGUMENT says which part
// is wrong, and never names the password.
Result<Address> parse_address(const std::string& text);

// The server as error texts name it, without user and password: "HOST:PORT" or the path.
std::string name_of(const Address& address);

}  // namespace nanolith::redis
