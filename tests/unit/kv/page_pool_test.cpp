#include "kv/page_pool.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace nanolith {
namespace {

TEST(PagePool, GivesEveryPageOnceAndTakesThemBack) {
    PagePool pool(5);
    PageList list(pool);
    list.grow(5);
    EXPECT_EQ(pool.num_free(), 0);
    EXPECT_EQ(std::set<int32_t>(list.pages().begin(), list.pages().end()), (std::set<int32_t>{0, 1, 2, 3, 4}));
    list.truncate(2);
    EXPECT_EQ(pool.num_free(), 3);
    list = PageList(pool);
    EXPECT_EQ(pool.num_free(), 5);
}

TEST(PagePool, SharedPagesComeFreeWithTheirLastHolder) {
    PagePool pool(3);
    PageList first(pool);
    first.grow(2);
    {
        PageList second = first.share();
        EXPECT_TRUE(first.shared(0));
        EXPECT_EQ(pool.num_free(), 1);
        first.truncate(0);
        EXPECT_EQ(pool.num_free(), 1);
        EXPECT_FALSE(second.shared(0));
    }
    EXPECT_EQ(pool.num_free(), 3);
}

TEST(PagePool, ASwappedPageGoesWithTheOtherList) {
    PagePool pool(3);
    PageList list(pool);
    list.grow(2);
    PageList other = list.share();
    PageList copy(pool);
    copy.grow(1);
    const int32_t fresh = copy[0];
    const int32_t old = list[1];
    list.swap_page(1, copy);
    EXPECT_EQ(copy[0], old);
    copy.clear();
    EXPECT_EQ(list[1], fresh);
    EXPECT_FALSE(list.shared(1));
    EXPECT_FALSE(other.shared(1));
    EXPECT_TRUE(other.shared(0));
    EXPECT_EQ(pool.num_free(), 0);
}

TEST(PagePool, RandomHistoryKeepsTheBooks) {
    const auto seed = std::random_device{}();
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    PagePool pool(64);
    std::vector<PageList> lists;
    for (int step = 0; step < 5000; ++step) {
        const uint32_t what = random() % 4;
        if (what == 0 && pool.num_free() > 0) {
            lists.emplace_back(pool);
            lists.back().grow(static_cast<int32_t>(1 + random() % static_cast<uint32_t>(pool.num_free())));
        } else if (what == 1 && !lists.empty()) {
            lists.push_back(lists[random() % lists.size()].share());
        } else if (what == 2 && !lists.empty()) {
            auto& list = lists[random() % lists.size()];
            list.truncate(static_cast<int32_t>(random() % static_cast<uint32_t>(list.size() + 1)));
        } else if (!lists.empty()) {
            std::swap(lists[random() % lists.size()], lists.back());
            lists.pop_back();
        }
        std::vector<int32_t> holders(64, 0);
        for (const auto& list : lists)
            for (const int32_t page : list.pages()) ++holders[page];
        int32_t free = 0;
        for (int32_t page = 0; page < 64; ++page) {
            ASSERT_EQ(pool.uses(page), holders[page]);
            free += holders[page] == 0 ? 1 : 0;
        }
        ASSERT_EQ(pool.num_free(), free);
    }
}

}  // namespace
}  // namespace nanolith
