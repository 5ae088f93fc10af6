// Chunks in a shared store, which engines on several machines have in common. A page is cut into pieces of 512 KiB, the
// last of which may be shorter, and each piece is stored under a key of its own, because a server hands out larger
// values more slowly. The stored value is the piece's bytes and then a checksum of these bytes, of the chunk's name and
// of the piece's number in the chunk. So a value that was damaged on the way, or that belongs to another chunk or is
// another piece, is never taken for the one that was asked for. The chunk's name, a SHA-256, says everything that its
// pages depend on. The checksum is no proof against forgery: whoever may write to the server decides what is read as
// keys and values.
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

    // How many pieces a page is cut into.
    [[nodiscard]] int64_t pieces_of_page() const;
    // Piece number `piece` of `pages`, which are whole pages; their pieces are numbered through, from 0 on.
    template <typename Byte>
    std::span<Byte> piece_in(std::span<Byte> pages, int64_t piece) const;
    // Reads the pieces [begin, end) of the pages `to`, by one connection. `first`: which page of the chunk is the first
    // one of `to`.
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
