#include "redis_store.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

namespace nanolith::redis {
namespace {

// Commands that are sent before the reply to the first of them is read: enough that the server is never idle, and few
// enough that little memory is taken by what is under way.
constexpr size_t kWindow = 4;
constexpr std::chrono::milliseconds kPause{1000};  // in which nothing is asked of a server that failed
constexpr size_t kBeside = 1 << 16;                // bytes of replies beside their values

std::string_view text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string refusal_of(const char* command, const redisReply& reply) {
    std::string text = std::string("it refused ") + command;
    if (reply.type == REDIS_REPLY_ERROR) text += ": " + std::string(reply.str, static_cast<size_t>(reply.len));
    return text;
}

}  // namespace

Error RedisStore::named(const Error& error) const {
    return fail(error.status, "the shared store at ", name_of(address_), ": ", error.message);
}

Error RedisStore::lose(const Error& error) {
    connection_.reset();
    failed_at_ = Clock::now();
    return named(error);
}

Result<void> RedisStore::connect(Clock::time_point deadline) {
    if (connection_ != nullptr) return {};
    if (failed_at_ && Clock::now() < *failed_at_ + kPause)
        return named({NL_ERROR_IO, "it failed less than a second ago, and is not asked again so soon"});
    auto opened = Connection::open(address_, deadline);
    if (!opened.ok()) return lose(opened.error());
    connection_ = std::move(*opened);
    failed_at_.reset();
    return {};
}

template <typename Part, typename Step, typename Done>
Result<void> RedisStore::in_windows(std::span<const Part> parts, Time within, const Step& step, const Done& done) {
    const auto deadline = Clock::now() + within;
    NL_TRY(connect(deadline));
    for (size_t first = 0; first < parts.size(); first += kWindow) {
        const auto window = parts.subspan(first, std::min(kWindow, parts.size() - first));
        const Result<Refusal> refusal = step(window, deadline);
        if (!refusal.ok()) return lose(refusal.error());
        if (*refusal) return named({NL_ERROR_IO, **refusal});
        if (done(first + window.size())) break;
    }
    return {};
}

Result<size_t> RedisStore::read(std::span<const Wanted> parts, Time within) {
    size_t filled = 0;
    NL_TRY(in_windows(
        parts, within, [&](auto window, auto deadline) { return read_window(window, deadline, filled); },
        [&](size_t asked) { return filled < asked; }));
    return filled;
}

// Every reply of the window is read, also after the first value that is missing: the next call finds none left over.
Result<RedisStore::Refusal> RedisStore::read_window(std::span<const Wanted> parts, Clock::time_point deadline,
                                                    size_t& filled) {
    size_t bytes = kBeside;
    for (const Wanted& part : parts) {
        const std::array<std::string_view, 2> get{"GET", part.key};
        NL_TRY(connection_->append(get));
        bytes += part.size();
    }
    NL_TRY(connection_->send(deadline));
    bool whole = true;
    Refusal refusal;
    for (const Wanted& part : parts) {
        NL_ASSIGN(const Reply reply, connection_->receive(bytes, deadline));
        if (reply->type == REDIS_REPLY_ERROR && !refusal) refusal = refusal_of("GET", *reply);
        whole = whole && reply->type == REDIS_REPLY_STRING && static_cast<size_t>(reply->len) == part.size();
        if (!whole) continue;
        const auto value = std::as_bytes(std::span(reply->str, part.size()));
        std::ranges::copy(value.first(part.into.size()), part.into.begin());
        std::ranges::copy(value.subspan(part.into.size()), part.behind.begin());
        ++filled;
    }
    return refusal;
}

Result<void> RedisStore::write(std::span<const Given> parts, Time within) {
    return in_windows(
        parts, within, [&](auto window, auto deadline) { return write_window(window, deadline); },
        [](size_t) { return false; });
}

Result<RedisStore::Refusal> RedisStore::write_window(std::span<const Given> parts, Clock::time_point deadline) {
    for (const Given& part : parts) {
        const std::array<std::string_view, 3> set{"SET", part.key, text_of(part.bytes)};
        NL_TRY(connection_->append(set));
    }
    NL_TRY(connection_->send(deadline));
    Refusal refusal;
    for (size_t i = 0; i < parts.size(); ++i) {
        NL_ASSIGN(const Reply reply, connection_->receive(kBeside, deadline));
        if (reply->type != REDIS_REPLY_STATUS && !refusal) refusal = refusal_of("SET", *reply);
    }
    return refusal;
}

}  // namespace nanolith::redis
