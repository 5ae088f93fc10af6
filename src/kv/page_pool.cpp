#include "kv/page_pool.h"

#include <algorithm>
#include <utility>

namespace nanolith {

PagePool::PagePool(int32_t num_pages)
    : free_(static_cast<size_t>(num_pages)),
      uses_(static_cast<size_t>(num_pages), 0),
      links_(static_cast<size_t>(num_pages) + 1, {num_pages, num_pages}) {
    // The lowest page is on top, so that a quiet pool stays within few pages.
    for (int32_t i = 0; i < num_pages; ++i) free_[i] = num_pages - 1 - i;
}

int32_t PagePool::take() {
    if (free_.empty()) forget_oldest();
    const int32_t page = free_.back();
    free_.pop_back();
    uses_[page] = 1;
    most_held_ = std::max(most_held_, num_pages() - num_free());
    return page;
}

void PagePool::retain(int32_t page) {
    if (uses_[page] == 0) unlink(page);
    ++uses_[page];
    most_held_ = std::max(most_held_, num_pages() - num_free());
}

void PagePool::release(int32_t page) {
    if (--uses_[page] > 0) return;
    if (!prefixes_.remembers(page)) return free_.push_back(page);
    keep(page);
    if (num_kept_ > most_held_) forget_oldest();
}

// Puts the page at the end of the ring.
void PagePool::keep(int32_t page) {
    Link& ends = links_.back();
    links_[page] = {ends.before, num_pages()};
    links_[ends.before].after = page;
    ends.before = page;
    ++num_kept_;
}

void PagePool::unlink(int32_t page) {
    const Link link = links_[page];
    links_[link.before].after = link.after;
    links_[link.after].before = link.before;
    --num_kept_;
}

void PagePool::forget_oldest() {
    const int32_t page = links_.back().after;
    unlink(page);
    prefixes_.forget(page);
    free_.push_back(page);
}

PageList::PageList(PageList&& other) noexcept
    : pool_(other.pool_), pages_(std::exchange(other.pages_, {})), block_(std::exchange(other.block_, {})) {}

PageList& PageList::operator=(PageList&& other) noexcept {
    if (this != &other) {
        clear();
        pool_ = other.pool_;
        pages_ = std::exchange(other.pages_, {});
        block_ = std::exchange(other.block_, {});
    }
    return *this;
}

void PageList::grow(int32_t count) {
    const size_t needed = pages_.size() + static_cast<size_t>(count);
    if (needed > pages_.capacity()) pages_.reserve(std::max(needed, 2 * pages_.capacity()));
    for (int32_t i = 0; i < count; ++i) pages_.push_back(pool_->take());
}

void PageList::append(int32_t page) {
    if (pages_.size() == pages_.capacity()) pages_.reserve(2 * pages_.capacity() + 1);
    pool_->retain(page);
    pages_.push_back(page);
}

void PageList::changed_from(int32_t index) {
    block_.synced = std::min(block_.synced, index);
}

void PageList::swap_page(int32_t index, PageList& single) {
    std::swap(pages_[index], single.pages_.front());
    changed_from(index);
    single.changed_from(0);
}

void PageList::truncate(int32_t count) {
    while (size() > count) {
        pool_->release(pages_.back());
        pages_.pop_back();
    }
    changed_from(size());
}

void PageList::clear() {
    truncate(0);
    pool_->table().release(block_);
}

PageList PageList::share() const {
    PageList list(*pool_);
    list.pages_ = pages_;
    for (const int32_t page : pages_) pool_->retain(page);
    return list;
}

PageList PageList::share_page(int32_t index) const {
    PageList list(*pool_);
    list.pages_ = {pages_[index]};
    pool_->retain(pages_[index]);
    return list;
}

int32_t PageList::table_entry() {
    pool_->table().sync(block_, pages_);
    return block_.first;
}

}  // namespace nanolith
