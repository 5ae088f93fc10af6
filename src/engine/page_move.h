// A copy of pages between the device and the host, which the step loop makes between two steps: it alone uses the
// device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <semaphore>
#include <span>
#include <vector>

#include "base/result.h"
#include "kv/chunk_store.h"

namespace nanolith {

// Where on the host the pages of a move are: stretches of memory that the executor gave, one after the other, each a
// whole number of pages.
using HostPages = std::vector<std::span<std::byte>>;

// Some pages in order, and how many tokens they hold.
struct PageRun {
    std::vector<int32_t> pages;
    int32_t tokens = 0;
    std::optional<std::weak_ptr<const Chunk>> of = {};  // as PageMove's
};

struct PageMove {
    // At most so many bytes in one of those through files: steps wait while one is made.
    static constexpr size_t kMostBytes = size_t{32} << 20;

    std::vector<int32_t> pages;
    HostPages host;
    bool to_host = false;
    // Whose pages these are, where its eviction is no reason to wait: the move then fails with CANCELLED.
    std::optional<std::weak_ptr<const Chunk>> of = {};

    std::binary_semaphore done{0};
    Result<void> outcome = {};  // to be read after done
};

// Moves that were started: what they copy from and to must not go before they have ended, so this goes first.
class StartedMoves {
  public:
    StartedMoves() = default;
    StartedMoves(const StartedMoves&) = delete;
    StartedMoves& operator=(const StartedMoves&) = delete;
    ~StartedMoves() {
        while (!moves_.empty()) static_cast<void>(finish_oldest());
    }

    [[nodiscard]] size_t size() const { return moves_.size(); }
    // Room for one more, so that it can be noted once it is started.
    void reserve() { moves_.reserve(moves_.size() + 1); }
    void add(std::shared_ptr<PageMove> move) { moves_.push_back(std::move(move)); }
    // Waits for the end of the one that was added first. There must be one.
    Result<void> finish_oldest() {
        const auto move = std::move(moves_.front());
        moves_.erase(moves_.begin());
        move->done.acquire();
        return std::move(move->outcome);
    }

  private:
    std::vector<std::shared_ptr<PageMove>> moves_;
};

}  // namespace nanolith
