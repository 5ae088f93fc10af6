// The thread that writes chunks to the store's folder once they are computed. A chunk that is evicted before its turn
// is not written.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "kv/chunk_store.h"

namespace nanolith {

class Saver {
  public:
    // `save` writes one chunk; it is called without the mutex, which is the engine's, and must not throw. Throws
    // std::system_error where there is no thread.
    Saver(std::mutex& mutex, std::function<void(const std::weak_ptr<Chunk>&)> save);
    ~Saver();  // when what was added is written; without the mutex
    Saver(const Saver&) = delete;
    Saver& operator=(const Saver&) = delete;

    // With the mutex. Where there is no memory to note it, the chunk is not written.
    void add(const std::shared_ptr<Chunk>& chunk) noexcept;

  private:
    void loop();

    std::mutex& mutex_;
    const std::function<void(const std::weak_ptr<Chunk>&)> save_;
    std::condition_variable work_;
    std::deque<std::weak_ptr<Chunk>> waiting_;
    bool stopping_ = false;
    std::thread thread_;  // last member, so that it starts when all others exist
};

}  // namespace nanolith
