// The server's log, on standard error: a line of text or a JSON object for each event.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "json.h"

namespace server {

class Log {
  public:
    // `level` is the least severity (NL_LOG_*) that is written.
    Log(bool json, const std::string& level);

    // `fields` is an object of what is known of the event.
    void write(int32_t severity, std::string_view message, const Json& fields = Json::object());

    // An nl_log_callback; `log` is a Log.
    static void from_engine(void* log, int32_t severity, const char* message, size_t length);

  private:
    bool json_;
    int32_t level_;
    std::mutex mutex_;  // lines are written whole
};

}  // namespace server
