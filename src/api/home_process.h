// Handles whose calls depend on threads remember the process that made them. A child that this process forks has their
// memory but not their threads: a call there would wait for ever, and so would freeing the handle.
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

// Frees a handle. In a forked child it does nothing: freeing what the handle holds would need the threads.
template <typename Handle>
void free_handle(Handle* handle) {
    if (handle != nullptr && handle->home.is_this()) drop(handle);
}

}  // namespace nanolith::api
