#include "tenants.h"

#include <fstream>

#include "api_error.h"

namespace server {
namespace {

std::vector<std::string> read_keys(const Config& config) {
    std::vector<std::string> keys = config.api_keys;
    if (config.api_key_file.empty()) return keys;
    std::ifstream file(config.api_key_file);
    for (std::string line; std::getline(file, line);) {
        while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
        if (!line.empty()) keys.push_back(line);
    }
    if (keys.empty()) throw bad_request("", config.api_key_file + " has no keys.");
    return keys;
}

// Takes as long wherever the first difference is, so that a key can't be guessed byte by byte.
bool equal(const std::string& given, const std::string& key) {
    unsigned char difference = given.size() == key.size() ? 0 : 1;
    for (size_t i = 0; i < given.size(); ++i) difference |= static_cast<unsigned char>(given[i] ^ key[i % key.size()]);
    return difference == 0;
}

ApiError wrong_key() {
    ApiError error =
        bad_request("", "The key in the Authorization header is none of this server's.", "invalid_api_key");
    error.status = 401;
    error.type = "authentication_error";
    return error;
}

}  // namespace

Tenants::Tenants(const Config& config, nl_engine* engine) {
    const auto max_stored = static_cast<size_t>(config.max_stored);
    for (const std::string& key : read_keys(config)) {
        auto tenant = std::make_unique<Tenant>("key-" + std::to_string(entries_.size() + 1), max_stored);
        const std::string salt = "nanolith-server:" + key;
        tenant->handle =
            made<Engine>([&](nl_engine** out) { return nl_engine_tenant(engine, salt.data(), salt.size(), out); });
        tenant->engine = tenant->handle.get();
        entries_.push_back({key, std::move(tenant)});
    }
    if (!entries_.empty()) return;
    everybody_ = std::make_unique<Tenant>("all", max_stored);
    everybody_->engine = engine;
}

Tenant& Tenants::of_header(const std::string& authorization) {
    if (everybody_ != nullptr) return *everybody_;
    constexpr std::string_view kScheme = "Bearer ";
    if (authorization.compare(0, kScheme.size(), kScheme) != 0) throw wrong_key();
    const std::string given = authorization.substr(kScheme.size());
    Tenant* found = nullptr;
    for (const Entry& entry : entries_) {
        if (equal(given, entry.key)) found = entry.tenant.get();
    }
    if (found == nullptr) throw wrong_key();
    return *found;
}

std::vector<Tenant*> Tenants::all() const {
    std::vector<Tenant*> tenants;
    if (everybody_ != nullptr) tenants.push_back(everybody_.get());
    for (const Entry& entry : entries_) tenants.push_back(entry.tenant.get());
    return tenants;
}

}  // namespace server
