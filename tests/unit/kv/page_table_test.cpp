#include "kv/page_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "kv/page_pool.h"

namespace nanolith {
namespace {

// A copy that hears of changes alone, as a device's does.
class Mirror {
  public:
    void follow(PageTable& table) {
        entries_.resize(table.entries().size(), -1);
        for (const TableRange& range : table.changes()) {
            std::copy_n(table.entries().begin() + range.first, range.count, entries_.begin() + range.first);
            sent_ += range.count;
        }
        table.forget_changes();
    }
    [[nodiscard]] bool shows(PageList& list) const {
        const int32_t first = list.table_entry();
        return std::equal(list.pages().begin(), list.pages().end(), entries_.begin() + first);
    }
    [[nodiscard]] int64_t sent() const { return sent_; }

  private:
    std::vector<int32_t> entries_;
    int64_t sent_ = 0;
};

TEST(PageTable, AGrowingListSendsWhatIsNew) {
    PagePool pool(5000);
    PageList list(pool);
    Mirror mirror;
    for (int i = 0; i < 4096; ++i) {
        list.grow(1);
        list.table_entry();
        mirror.follow(pool.table());
        ASSERT_TRUE(mirror.shows(list));
    }
    EXPECT_LE(mirror.sent(), 2 * 4096 + 8);  // each entry once, and again when the block moves to one twice as large
}

TEST(PageTable, AnEntryThatChangesIsSentAgain) {
    PagePool pool(64);
    PageList list(pool);
    list.grow(10);
    Mirror mirror;
    list.table_entry();
    mirror.follow(pool.table());
    PageList other(pool);
    other.grow(1);
    list.swap_page(4, other);
    list.table_entry();
    mirror.follow(pool.table());
    EXPECT_TRUE(mirror.shows(list));
    list.truncate(3);
    list.grow(5);
    list.table_entry();
    mirror.follow(pool.table());
    EXPECT_TRUE(mirror.shows(list));
}

TEST(PageTable, BlocksOfListsThatAreGoneAreUsedAgain) {
    PagePool pool(1024);
    size_t size = 0;
    for (int round = 0; round < 100; ++round) {
        std::vector<PageList> lists;
        for (int i = 0; i < 20; ++i) {
            lists.emplace_back(pool);
            lists.back().grow(1 + i);
            lists.back().table_entry();
        }
        if (round == 0) size = pool.table().entries().size();
    }
    EXPECT_EQ(pool.table().entries().size(), size);
}

TEST(PageTable, RandomListsAreAllShown) {
    const auto seed = std::random_device{}();
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](int32_t limit) { return static_cast<int32_t>(random() % static_cast<uint32_t>(limit)); };
    PagePool pool(4000);
    std::vector<PageList> lists;
    Mirror mirror;
    for (int step = 0; step < 4000; ++step) {
        const int32_t what = below(5);
        PageList* const list = lists.empty() ? nullptr : &lists[below(static_cast<int32_t>(lists.size()))];
        if (list == nullptr || what == 0) {
            lists.emplace_back(pool);
        } else if (what == 1 && pool.num_free() > 20) {
            list->grow(below(20));
        } else if (what == 2) {
            list->truncate(below(list->size() + 1));
        } else if (what == 3) {
            lists.push_back(list->share());
        } else if (lists.size() > 10) {
            std::swap(*list, lists.back());
            lists.pop_back();
        }
        if (below(3) > 0) continue;
        for (PageList& each : lists) each.table_entry();
        mirror.follow(pool.table());
        for (PageList& each : lists) ASSERT_TRUE(mirror.shows(each)) << "step " << step;
    }
}

}  // namespace
}  // namespace nanolith
