// Chunks in a shared store, which engines on several machines have in common. A page is stored as one value or several,
// of up to 512 KiB of its bytes each: a server hands out larger values more slowly. Behind the bytes a value has a
// checksum of them, of the chunk's name and of which part of it they are. So what was damaged on the way, belongs to
// another chunk or is another part of it is never taken for what was asked for. The chunk's name, a SHA-256, says
// everything that its pages depend on. The checksum is no proof against forgery: whoever may write to the server
// decides what is read as keys and values.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "store/identity.h"
#include "store/shared_store.h"

namespace nanolith {

// Thread-safe: each call under way has a connection of its own.
class SharedTier {
  public:
    // Opens the library and looks at the address; connects when pages are asked for. `page_bytes`: of every page. As
    // open_shared_store().
    static Result<std::unique_ptr<SharedTier>> open(const std::string& address, size_t page_bytes);

    using Clock = std::chrono::steady_clock;

    // Reads pages `first`, `first` + 1, ... of the chunk, as many as `to` has room for; the threads of `pool` each ask
    // for some of them. False where the store lacks one of them, or has another one in its place; `to` has undefined
    // contents then, and after an error.
    Result<bool> read(const ChunkName& name, int64_t first, std::span<std::byte> to, Clock::time_point deadline,
                      ThreadPool& pool);
    Result<void> write(const ChunkName& name, int64_t first, std::span<const std::byte> pages,
                       Clock::time_point deadline);

  private:
    SharedTier(std::string address, size_t page_bytes, std::unique_ptr<SharedStore> first)
        : address_(std::move(address)), page_bytes_(page_bytes) {
        idle_.push_back(std::move(first));
    }

    // Values of a page, all but the last of which have kValueBytes bytes of it.
    [[nodiscard]] int64_t values_of_page() const;
    // The bytes of value number `value` in `pages`, which begin with the first byte of value 0.
    template <typename Byte>
    std::span<Byte> bytes_of(std::span<Byte> pages, int64_t value) const;
    // Reads the values [begin, end) of `to`, whose first page is page `first` of the chunk, by one connection.
    Result<bool> read_some(const ChunkName& name, int64_t first, std::span<std::byte> to, int64_t begin, int64_t end,
                           Clock::time_point deadline);
    // Calls use(store) with a connection that no other call has meanwhile.
    template <typename Use>
    auto with_connection(const Use& use) -> decltype(use(std::declval<SharedStore&>()));

    const std::string address_;
    const size_t page_bytes_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<SharedStore>> idle_;
};

}  // namespace nanolith
