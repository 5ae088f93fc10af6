#include "kv/prefix_index.h"

#include <algorithm>

namespace nanolith {
namespace {

// FNV-1a over 64-bit words. Only a bucket index: equality is always checked on what was hashed.
class Hash {
  public:
    void add(uint64_t word) { value_ = (value_ ^ word) * 0x100000001b3U; }
    [[nodiscard]] uint64_t value() const { return value_; }

  private:
    uint64_t value_ = 0xcbf29ce484222325U;
};

uint64_t hash_page(uint64_t parent, std::span<const int32_t> tokens) {
    Hash hash;
    hash.add(parent);
    for (const int32_t token : tokens) hash.add(static_cast<uint32_t>(token));
    return hash.value();
}

}  // namespace

bool PrefixIndex::is_of(const Root& root, const Digest& salt, std::span<const Before> before) {
    if (root.salt != salt || root.chunks.size() != before.size()) return false;
    for (size_t i = 0; i < before.size(); ++i)
        if (root.lengths[i] != before[i].length || root.chunks[i].lock() != before[i].chunk) return false;
    return true;
}

PrefixIndex::Node PrefixIndex::root(const Digest& salt, std::span<const Before> before) {
    Hash hash;
    for (const std::byte byte : salt) hash.add(std::to_integer<uint64_t>(byte));
    for (const Before& each : before) {
        hash.add(reinterpret_cast<uintptr_t>(each.chunk.get()));
        hash.add(static_cast<uint32_t>(each.length));
    }
    const auto [first, last] = roots_.equal_range(hash.value());
    const auto known = std::find_if(first, last, [&](const auto& entry) { return is_of(entry.second, salt, before); });
    if (known != last) return known->second.node;
    if (roots_.size() >= sweep_at_) drop_useless_roots();
    Root root;
    root.salt = salt;
    for (const Before& each : before) {
        root.chunks.push_back(each.chunk);
        root.lengths.push_back(each.length);
    }
    root.node = next_node_;
    below_roots_.emplace(root.node, 0);
    roots_.emplace(hash.value(), std::move(root));
    return next_node_++;
}

// Roots below which no page is remembered, and those of chunks that are gone: no context can begin with them again.
void PrefixIndex::drop_useless_roots() {
    std::erase_if(roots_, [&](const auto& each) {
        const auto below = below_roots_.find(each.second.node);
        const bool useless = below->second == 0 ||
                             std::ranges::any_of(each.second.chunks, [](const auto& chunk) { return chunk.expired(); });
        if (useless) below_roots_.erase(below);
        return useless;
    });
    sweep_at_ = 2 * roots_.size() + 64;
}

std::optional<PrefixIndex::Found> PrefixIndex::find(Node parent, std::span<const int32_t> tokens) const {
    const auto [first, last] = pages_.equal_range(hash_page(parent, tokens));
    for (auto it = first; it != last; ++it) {
        const Entry& entry = entries_.at(it->second);
        if (entry.parent == parent && std::ranges::equal(entry.tokens, tokens)) return Found{entry.node, it->second};
    }
    return std::nullopt;
}

PrefixIndex::Node PrefixIndex::remember(Node parent, std::span<const int32_t> tokens, int32_t page) {
    if (const auto found = find(parent, tokens)) return found->node;
    forget(page);
    const auto place = pages_.emplace(hash_page(parent, tokens), page);
    try {
        entries_.emplace(page, Entry{next_node_, parent, std::vector<int32_t>(tokens.begin(), tokens.end())});
    } catch (...) {
        pages_.erase(place);
        throw;
    }
    count_below(parent, 1);
    return next_node_++;
}

void PrefixIndex::count_below(Node parent, int32_t change) noexcept {
    const auto root = below_roots_.find(parent);
    if (root != below_roots_.end()) root->second += change;
}

void PrefixIndex::forget(int32_t page) noexcept {
    const auto entry = entries_.find(page);
    if (entry == entries_.end()) return;
    const auto [first, last] = pages_.equal_range(hash_page(entry->second.parent, entry->second.tokens));
    const auto place = std::find_if(first, last, [page](const auto& each) { return each.second == page; });
    if (place != last) pages_.erase(place);
    count_below(entry->second.parent, -1);
    entries_.erase(entry);
}

}  // namespace nanolith
