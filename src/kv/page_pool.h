// The host's record of the page pool: which pages are free, how many lists hold each of the others, and where the lists
// are in the page table. A free page may still be remembered for what is in it (PrefixIndex), and be held again: of
// these the pool keeps at most as many as were ever held at once, and takes the one that came free first when it has no
// others. Not thread-safe; the engine's mutex guards it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/page_table.h"
#include "kv/prefix_index.h"

namespace nanolith {

class PagePool {
  public:
    explicit PagePool(int32_t num_pages);

    [[nodiscard]] int32_t num_pages() const { return static_cast<int32_t>(uses_.size()); }
    [[nodiscard]] int32_t num_free() const { return static_cast<int32_t>(free_.size()) + num_kept_; }
    [[nodiscard]] int32_t uses(int32_t page) const { return uses_[page]; }

    // Takes a free page, which is then held once. The caller has checked num_free().
    int32_t take();
    // Holds a page once more: one that a list holds, or a free one that is remembered.
    void retain(int32_t page);
    void release(int32_t page);

    [[nodiscard]] PageTable& table() { return table_; }
    [[nodiscard]] PrefixIndex& prefixes() { return prefixes_; }

  private:
    void keep(int32_t page);
    void unlink(int32_t page);
    void forget_oldest();

    PageTable table_;
    PrefixIndex prefixes_;
    std::vector<int32_t> free_;  // not remembered; its capacity holds every page, so that release never allocates
    std::vector<int32_t> uses_;  // of each page: by how many lists it is held
    int32_t most_held_ = 0;      // pages held at once, ever

    // The free pages that are remembered, in the order in which they came free: a ring whose first and last link is
    // links_.back().
    struct Link {
        int32_t before = 0, after = 0;
    };
    std::vector<Link> links_;
    int32_t num_kept_ = 0;
};

// Pages in order, each held once by this list: what a chunk or a cache's tail owns. Move-only; the
// destructor gives the pages back.
class PageList {
  public:
    explicit PageList(PagePool& pool) : pool_(&pool) {}
    PageList(PageList&& other) noexcept;
    PageList& operator=(PageList&& other) noexcept;
    PageList(const PageList&) = delete;
    PageList& operator=(const PageList&) = delete;
    ~PageList() { clear(); }

    [[nodiscard]] int32_t size() const { return static_cast<int32_t>(pages_.size()); }
    [[nodiscard]] int32_t operator[](int32_t index) const { return pages_[index]; }
    [[nodiscard]] std::span<const int32_t> pages() const { return pages_; }
    // Whether another list holds the page too, so that it must be copied before it is written.
    [[nodiscard]] bool shared(int32_t index) const { return pool_->uses((*this)[index]) > 1; }

    void grow(int32_t count);   // appends free pages; the caller has checked that there are enough
    void append(int32_t page);  // appends a page that is held already, or free and remembered
    void swap_page(int32_t index, PageList& single);  // exchanges the page there with the only page of `single`
    void truncate(int32_t count);
    void clear();
    [[nodiscard]] PageList share() const;                    // a second list that holds the same pages
    [[nodiscard]] PageList share_page(int32_t index) const;  // a list that holds this one

    // Brings the list's entries in the page table up to date and returns the first one's index. Only the thread that
    // plans steps may call it.
    int32_t table_entry();

  private:
    void changed_from(int32_t index);

    PagePool* pool_;
    std::vector<int32_t> pages_;
    PageTable::Block block_;
};

}  // namespace nanolith
