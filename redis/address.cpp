#include "address.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

namespace nanolith::redis {
namespace {

constexpr int kMostPort = 65535;
constexpr int kMostDatabase = 1 << 20;

Error expected(const std::string& problem) {
    return fail(NL_ERROR_INVALID_ARGUMENT, "the address of the shared store ", problem,
                ": expected redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE], rediss:// with the same and "
                "[?ca=FILE&cert=FILE&key=FILE], or unix:PATH");
}

std::optional<int> number(const std::string& text, int least, int most) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = error == std::errc() && end == text.data() + text.size();
    return whole && value >= least && value <= most ? std::optional<int>(value) : std::nullopt;
}

// The text with every %XX replaced by its byte; nothing where a % is followed by anything else.
std::optional<std::string> unescape(std::string_view text) {
    std::string plain;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            plain += text[i];
            continue;
        }
        unsigned byte = 0;
        if (i + 2 >= text.size()) return std::nullopt;
        const auto [end, error] = std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16);
        if (error != std::errc() || end != text.data() + i + 3) return std::nullopt;
        plain += static_cast<char>(byte);
        i += 2;
    }
    return plain;
}

Result<void> parse_login(const std::string& text, Address& address) {
    const size_t colon = text.find(':');
    if (colon == std::string::npos) return expected("has a user without a password");
    const auto user = unescape(text.substr(0, colon));
    const auto password = unescape(text.substr(colon + 1));
    if (!user || !password) return expected("has a % without two hexadecimal digits before its @");
    if (password->empty()) return expected("has an empty password");
    address.user = *user;
    address.password = *password;
    return {};
}

Result<void> parse_host(const std::string& text, Address& address) {
    const size_t bracket = text.empty() || text[0] != '[' ? std::string::npos : text.find(']');
    const size_t host_end = bracket != std::string::npos ? bracket + 1 : std::min(text.find(':'), text.size());
    address.host = bracket != std::string::npos ? text.substr(1, bracket - 1) : text.substr(0, host_end);
    if (address.host.empty()) return expected("has no host");
    if (host_end == text.size()) return {};
    const auto port = text[host_end] == ':' ? number(text.substr(host_end + 1), 1, kMostPort) : std::nullopt;
    if (!port) return expected("has \"" + text.substr(host_end) + "\" after its host, which is no port");
    address.port = *port;
    return {};
}

// NAME=FILE, into the file of that name.
Result<void> parse_file(std::string_view text, Address& address) {
    const size_t equals = std::min(text.find('='), text.size());
    const std::string name(text.substr(0, equals));
    std::string* const file = name == "ca"     ? &address.ca_file
                              : name == "cert" ? &address.certificate_file
                              : name == "key"  ? &address.key_file
                                               : nullptr;
    if (file == nullptr) return expected("has \"" + name + "\" in its query, which is none of ca, cert and key");
    if (!file->empty()) return expected("has " + name + " twice in its query");
    const auto value = unescape(text.substr(std::min(equals + 1, text.size())));
    if (!value) return expected("has a % without two hexadecimal digits in its query's " + name);
    if (value->empty()) return expected("has no file in its query's " + name);
    if (value->find('\0') != std::string::npos) return expected("has a zero byte in its query's " + name);
    *file = *value;
    return {};
}

Result<void> parse_query(std::string_view text, Address& address) {
    while (true) {
        const size_t end = text.find('&');
        NL_TRY(parse_file(text.substr(0, end), address));
        if (end == std::string_view::npos) break;
        text.remove_prefix(end + 1);
    }
    if (address.certificate_file.empty() == address.key_file.empty()) return {};
    return expected(address.key_file.empty() ? "has cert without key in its query"
                                             : "has key without cert in its query");
}

}  // namespace

Result<Address> parse_address(const std::string& text) {
    Address address;
    if (text.find('\0') != std::string::npos) return expected("has a zero byte");
    if (text.starts_with("unix:")) {
        address.unix_path = text.substr(5);
        if (address.unix_path.empty()) return expected("names no socket");
        return address;
    }
    address.encrypted = text.starts_with("rediss://");
    if (!address.encrypted && !text.starts_with("redis://"))
        return expected("begins with neither redis://, rediss:// nor unix:");
    std::string rest = text.substr(text.find("//") + 2);
    const size_t at = rest.rfind('@');
    const size_t question = rest.find('?');
    if (question != std::string::npos) {
        // What stands before the @ may be a password, so none of it is named.
        if (at != std::string::npos && question < at)
            return expected("has a ? before an @: write %3F for a ? of USER or PASSWORD, %40 for an @ of FILE");
        if (!address.encrypted) return expected("has a query (?), which only rediss:// may have");
        NL_TRY(parse_query(std::string_view(rest).substr(question + 1), address));
        rest.resize(question);
    }
    if (at != std::string::npos) {
        NL_TRY(parse_login(rest.substr(0, at), address));
        rest = rest.substr(at + 1);
    }
    const size_t slash = rest.find('/');
    if (slash != std::string::npos && slash + 1 < rest.size()) {
        const auto database = number(rest.substr(slash + 1), 0, kMostDatabase);
        if (!database) return expected("has \"" + rest.substr(slash + 1) + "\" after its /, which is no database");
        address.database = *database;
    }
    NL_TRY(parse_host(rest.substr(0, slash), address));
    return address;
}

std::string name_of(const Address& address) {
    return address.unix_path.empty() ? address.host + ":" + std::to_string(address.port) : address.unix_path;
}

}  // namespace nanolith::redis
