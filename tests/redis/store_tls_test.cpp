// Engines that share a server by encrypted connections.
#include "certificates.h"
#include "store_engines.h"

namespace nanolith::testing {
namespace {

class TlsStoreServer : public StoreServer {
  protected:
    TlsStoreServer() {
        certificates.issue("server", "DNS:localhost");
        tls_server = std::make_unique<RedisServer>(certificates.server_options("server", port));
        address = "rediss://localhost:" + std::to_string(port) + "?ca=" + certificates.file("ca.pem");
    }

    const Certificates certificates;
    const int port = free_port();
    std::unique_ptr<RedisServer> tls_server;
};

TEST_F(TlsStoreServer, AnotherEngineComputesNothing) {
    const Tokens drawn = computed_first();
    EXPECT_EQ(later(NL_ORIGIN_SERVER), drawn);
}

TEST_F(TlsStoreServer, ACertificateThatIsNotTrustedCostsAComputationAndALineOfTheLog) {
    const Tokens drawn = computed_first();
    const Certificates others;
    address = "rediss://localhost:" + std::to_string(port) + "?ca=" + others.file("ca.pem");
    ServerLog log;
    EXPECT_EQ(later(NL_ORIGIN_COMPUTED, &log), drawn);
    EXPECT_EQ(log.warnings, 1) << log.text;
    EXPECT_NE(log.text.find("certificate is not trusted"), std::string::npos) << log.text;
}

TEST_F(TlsStoreServer, AServerThatIsGoneOrSilentCostsAComputation) {
    const Tokens drawn = computed_first();
    tls_server->pause();
    EXPECT_EQ(later(NL_ORIGIN_COMPUTED, nullptr, 100), drawn);
    tls_server->go_on();
    EXPECT_EQ(later(NL_ORIGIN_SERVER), drawn);
    tls_server->kill_it();
    EXPECT_EQ(later(NL_ORIGIN_COMPUTED), drawn);
}

TEST_F(TlsStoreServer, AFileThatIsNotThereIsAnErrorOfTheEngine) {
    const std::string file = certificates.file("none.pem");
    EXPECT_EQ(status_of_engine("rediss://localhost?ca=" + file), NL_ERROR_NOT_FOUND);
    EXPECT_NE(std::string(nl_last_error()).find(file), std::string::npos) << nl_last_error();
}

}  // namespace
}  // namespace nanolith::testing
