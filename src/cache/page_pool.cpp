#include "cache/page_pool.h"

#include <algorithm>
#include <utility>

namespace nanolith {

PagePool::PagePool(int32_t num_pages)
    : free_(static_cast<size_t>(num_pages)), uses_(static_cast<size_t>(num_pages), 0) {
    // The lowest page is on top, so that a quiet pool stays within few pages.
    for (int32_t i = 0; i < num_pages; ++i) free_[static_cast<size_t>(i)] = num_pages - 1 - i;
}

int32_t PagePool::take() {
    const int32_t page = free_.back();
    free_.pop_back();
    uses_[static_cast<size_t>(page)] = 1;
    return page;
}

void PagePool::release(int32_t page) {
    if (--uses_[static_cast<size_t>(page)] == 0) free_.push_back(page);
}

PageList::PageList(PageList&& other) noexcept : pool_(other.pool_), pages_(std::exchange(other.pages_, {})) {}

PageList& PageList::operator=(PageList&& other) noexcept {
    if (this != &other) {
        truncate(0);
        pool_ = other.pool_;
        pages_ = std::exchange(other.pages_, {});
    }
    return *this;
}

void PageList::grow(int32_t count) {
    reserve(count);
    for (int32_t i = 0; i < count; ++i) pages_.push_back(pool_->take());
}

void PageList::reserve(int32_t count) {
    const size_t needed = pages_.size() + static_cast<size_t>(count);
    if (needed > pages_.capacity()) pages_.reserve(std::max(needed, 2 * pages_.capacity()));
}

void PageList::append(PageList&& more) {
    pages_.insert(pages_.end(), more.pages_.begin(), more.pages_.end());
    more.pages_.clear();
}

void PageList::replace(int32_t index, PageList&& page) {
    std::swap(pages_[static_cast<size_t>(index)], page.pages_.front());
    page.truncate(0);
}

void PageList::truncate(int32_t count) {
    while (size() > count) {
        pool_->release(pages_.back());
        pages_.pop_back();
    }
}

PageList PageList::share() const {
    PageList list(*pool_);
    list.pages_ = pages_;
    for (const int32_t page : pages_) pool_->retain(page);
    return list;
}

}  // namespace nanolith
