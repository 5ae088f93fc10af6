// Pages of private tails, found again by what is in them: a page that a conversation has filled is remembered with its
// tokens and with the page before it, and another conversation that begins in the same way takes it instead of
// computing it. Not thread-safe; the engine's mutex guards it.
//
// A node is a remembered page, below the node of the page before it; the first is below a root, which stands for what
// is in front of the tail, the context's chunks, and for the tenant that it belongs to. Nodes have numbers that are
// never used twice, so that a page which got other contents leaves nothing behind: what was below its old node is not
// found any more.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/digest.h"

namespace nanolith {

struct ChunkIdentity;

class PrefixIndex {
  public:
    using Node = uint64_t;

    // A chunk in front of a tail, and how many of its tokens the context uses.
    struct Before {
        std::shared_ptr<const ChunkIdentity> chunk;
        int32_t length = 0;
    };

    struct Found {
        Node node = 0;
        int32_t page = 0;
    };

    // The root of all tails of a tenant that begin after these chunks, in this order.
    Node root(const Digest& salt, std::span<const Before> before);
    // The page with these tokens, a whole page of them, below `parent`.
    [[nodiscard]] std::optional<Found> find(Node parent, std::span<const int32_t> tokens) const;
    // Remembers the page, unless there is one with these tokens below `parent`. The node of the one that is remembered.
    Node remember(Node parent, std::span<const int32_t> tokens, int32_t page);
    void forget(int32_t page) noexcept;
    [[nodiscard]] bool remembers(int32_t page) const { return entries_.contains(page); }

  private:
    struct Entry {
        Node node = 0;
        Node parent = 0;
        std::vector<int32_t> tokens;
    };
    struct Root {
        Node node = 0;
        Digest salt{};
        std::vector<std::weak_ptr<const ChunkIdentity>> chunks;
        std::vector<int32_t> lengths;
    };
    // Adds `change` to the number of pages that are remembered just below `parent`, where that is a root.
    void count_below(Node parent, int32_t change) noexcept;
    static bool is_of(const Root& root, const Digest& salt, std::span<const Before> before);
    void drop_useless_roots();

    Node next_node_ = 1;
    std::unordered_map<int32_t, Entry> entries_;        // by page
    std::unordered_multimap<uint64_t, int32_t> pages_;  // by the hash of parent and tokens
    std::unordered_multimap<uint64_t, Root> roots_;     // by the hash of salt, chunks and lengths
    std::unordered_map<Node, int32_t> below_roots_;     // how many pages are remembered just below each root
    size_t sweep_at_ = 64;
};

}  // namespace nanolith
