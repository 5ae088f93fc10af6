// Work on the texts of one request, several at a time, so that the engine computes their rows in the same steps.
#pragma once

#include <cstddef>
#include <functional>

namespace server {

// Calls work(0) to work(count - 1), each once, on some threads; returns when all have ended, and throws what one of
// them threw. Those for which the engine has no pages beside the others are tried again at the end, one after the
// other. Where `is_there` says that the client is gone, no more are begun, and false is returned.
bool work_on_texts(size_t count, const std::function<void(size_t)>& work, const std::function<bool()>& is_there);

}  // namespace server
