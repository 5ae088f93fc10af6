// Log lines to the user's callback, one at a time.
#pragma once

#include <mutex>
#include <sstream>
#include <string>

#include "nanolith/nanolith.h"

namespace nanolith {

class Log {
  public:
    Log(nl_log_callback callback, void* user_data) : callback_(callback), user_data_(user_data) {}

    template <typename... Parts>
    void write(int32_t severity, const Parts&... parts) {
        if (callback_ == nullptr) return;
        std::ostringstream text;
        (text << ... << parts);
        const std::string line = std::move(text).str();
        const std::lock_guard lock(mutex_);
        callback_(user_data_, severity, line.data(), line.size());
    }

  private:
    nl_log_callback callback_;
    void* user_data_;
    std::mutex mutex_;
};

}  // namespace nanolith
