// Threads for connections: as many as are needed at a time, up to a limit.
#pragma once

#include <httplib.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

namespace server {

// cpp-httplib gives it one job a connection, which lasts as long as the connection does.
class ConnectionThreads : public httplib::TaskQueue {
  public:
    // `open` counts the connections that are open.
    ConnectionThreads(size_t most, std::atomic<int64_t>& open) : open_(&open), most_(most) {}

    void enqueue(std::function<void()> job) override;
    void shutdown() override;

  private:
    void work();

    std::mutex mutex_;
    std::condition_variable wake_;
    std::list<std::function<void()>> jobs_;
    std::vector<std::thread> threads_;
    size_t idle_ = 0;
    std::atomic<int64_t>* open_;
    size_t most_;
    bool stops_ = false;
};

}  // namespace server
