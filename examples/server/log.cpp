#include "log.h"

#include <nanolith/nanolith.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>

namespace server {
namespace {

constexpr std::array<const char*, 4> kSeverities = {"debug", "info", "warning", "error"};

// "2026-01-31T12:00:00.123Z"
std::string timestamp() {
    using namespace std::chrono;
    const auto now = system_clock::now();
    const std::time_t seconds = system_clock::to_time_t(now);
    const auto millis = duration_cast<milliseconds>(now.time_since_epoch()).count() % 1000;
    std::tm parts{};
    gmtime_r(&seconds, &parts);
    std::array<char, 32> day{};
    std::array<char, 48> text{};
    std::strftime(day.data(), day.size(), "%Y-%m-%dT%H:%M:%S", &parts);
    std::snprintf(text.data(), text.size(), "%s.%03dZ", day.data(), static_cast<int>(millis));
    return text.data();
}

}  // namespace

Log::Log(bool json, const std::string& level) : json_(json), level_(NL_LOG_INFO) {
    for (size_t i = 0; i < kSeverities.size(); ++i) {
        if (level == kSeverities[i]) level_ = static_cast<int32_t>(i);
    }
}

void Log::write(int32_t severity, std::string_view message, const Json& fields) {
    if (severity < level_ || severity < 0 || severity > NL_LOG_ERROR) return;
    std::string line;
    if (json_) {
        Json object = {{"time", timestamp()}, {"level", kSeverities[severity]}, {"message", message}};
        object.update(fields);
        line = to_text(object);
    } else {
        line = timestamp() + " " + kSeverities[severity] + " " + std::string(message);
        for (const auto& [name, value] : fields.items())
            line += " " + name + "=" + (value.is_string() ? value.get<std::string>() : to_text(value));
        for (char& c : line) {
            if (static_cast<unsigned char>(c) < 0x20) c = ' ';  // what clients send can't begin a line of its own
        }
    }
    line += '\n';
    const std::lock_guard lock(mutex_);
    std::fwrite(line.data(), 1, line.size(), stderr);
}

void Log::from_engine(void* log, int32_t severity, const char* message, size_t length) {
    static_cast<Log*>(log)->write(severity, std::string_view(message, length));
}

}  // namespace server
