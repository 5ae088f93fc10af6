// Handles with threads behind them know the process that made them. In a child that it forks, memory is there and the
// threads are not: a call would wait for ever, and so would freeing.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include "api/guard.h"

namespace nanolith::api {

class HomeProcess {
  public:
    [[nodiscard]] bool is_this() const { return getpid() == process_; }

  private:
    pid_t process_ = getpid();
};

// A handle argument with a member `home`: a pointer, and one of this process.
template <typename Handle>
Result<void> check_handle(const Handle* handle, const char* name) {
    NL_TRY(check_pointer(handle, name));
    if (handle->home.is_this()) return {};
    return fail(NL_ERROR_INVALID_ARGUMENT, name,
                " was made before this process was forked, by its parent: expected one made in this process");
}

// Frees a handle. In a forked child it stays: what it holds is its parent's, and to give it back would take threads.
template <typename Handle>
void free_handle(Handle* handle) {
    if (handle != nullptr && handle->home.is_this()) drop(handle);
}

}  // namespace nanolith::api
