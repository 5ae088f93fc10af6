// Certificates for servers and clients of a test, made by the command `openssl` in a temporary folder.
#pragma once

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/temp_folder.h"

namespace nanolith::testing {

// An authority of the test's own, and what it has issued.
class Certificates {
  public:
    Certificates() { run("req -x509 -days 2 -subj /CN=authority -out ca.pem -keyout ca.key" + of_new_key()); }

    // NAME.pem and NAME.key, for hosts as OpenSSL writes them: "DNS:localhost,IP:127.0.0.1".
    void issue(const std::string& name, const std::string& hosts, int days = 2) const {
        folder_.write(name + ".ext", "subjectAltName=" + hosts + "\n");
        run("req -subj /CN=" + name + " -out " + name + ".csr -keyout " + name + ".key" + of_new_key());
        run("x509 -req -CA ca.pem -CAkey ca.key -CAcreateserial -in " + name + ".csr -extfile " + name + ".ext -days " +
            std::to_string(days) + " -out " + name + ".pem");
    }
    // One of OpenSSL's commands, in the folder.
    void run(const std::string& command) const {
        const std::string line = "cd " + folder_.path() + " && openssl " + command + " >log 2>&1";
        if (std::system(line.c_str()) != 0) throw std::runtime_error("openssl " + command + " fails");
    }
    [[nodiscard]] std::string file(const std::string& name) const { return folder_.file(name); }

    // Options of a redis-server that speaks TLS at the port, with NAME's certificate.
    [[nodiscard]] std::vector<std::string> server_options(const std::string& name, int port,
                                                          const std::string& asks_clients = "no") const {
        return {"--tls-port",     std::to_string(port), "--bind",
                "127.0.0.1",      "--tls-cert-file",    file(name + ".pem"),
                "--tls-key-file", file(name + ".key"),  "--tls-ca-cert-file",
                file("ca.pem"),   "--tls-auth-clients", asks_clients};
    }

  private:
    static std::string of_new_key() { return " -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"; }

    test::TempFolder folder_;
};

}  // namespace nanolith::testing
