// Who asks: each API key is a tenant of its own, whose chunks and documents no other one finds.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config.h"
#include "documents.h"
#include "handles.h"

namespace server {

struct Tenant {
    Tenant(std::string log_name, size_t max_stored) : name(std::move(log_name)), documents(max_stored) {}

    std::string name;  // for the log: never the key
    Engine handle;     // the tenant's handle; null: the engine's own
    nl_engine* engine = nullptr;
    Documents documents;
};

class Tenants {
  public:
    // Without keys everybody is the one tenant of the engine's own handle.
    Tenants(const Config& config, nl_engine* engine);

    // The tenant of an Authorization header, or an ApiError (401).
    Tenant& of_header(const std::string& authorization);

    [[nodiscard]] std::vector<Tenant*> all() const;

  private:
    struct Entry {
        std::string key;
        std::unique_ptr<Tenant> tenant;
    };
    std::vector<Entry> entries_;
    std::unique_ptr<Tenant> everybody_;  // where there are no keys
};

}  // namespace server
