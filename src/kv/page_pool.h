// The host's record of the page pool: which pages are free, how many lists hold each of the others, and where the lists
// are in the page table. Not thread-safe; the engine's mutex guards it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/page_table.h"

namespace nanolith {

class PagePool {
  public:
    explicit PagePool(int32_t num_pages);

    [[nodiscard]] int32_t num_pages() const { return static_cast<int32_t>(uses_.size()); }
    [[nodiscard]] int32_t num_free() const { return static_cast<int32_t>(free_.size()); }
    [[nodiscard]] int32_t uses(int32_t page) const { return uses_[page]; }

    // Takes a free page, which is then held once. The caller has checked num_free().
    int32_t take();
    void retain(int32_t page) { ++uses_[page]; }
    void release(int32_t page);

    [[nodiscard]] PageTable& table() { return table_; }

  private:
    PageTable table_;
    std::vector<int32_t> free_;  // its capacity holds every page, so that release never allocates
    std::vector<int32_t> uses_;  // of each page: by how many lists it is held
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

    void grow(int32_t count);  // appends free pages; the caller has checked that there are enough
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
