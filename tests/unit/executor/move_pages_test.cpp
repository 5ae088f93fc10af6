// Pages that leave a device and come back, to it or to another one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "unit/executor/executor_fixture.h"

namespace nanolith::testing {
namespace {

const RandomShape kMovedShape{
    .hidden_size = 48, .intermediate_size = 64, .num_heads = 4, .num_kv_heads = 2, .head_dim = 64, .vocab_size = 90};

class MovePagesTest : public ExecutorTest {
  protected:
    // [2, num_kv_heads, page_size, head_dim] of every layer.
    static size_t page_bytes(const RandomModel& model, const ExecutorOptions& options) {
        return static_cast<size_t>(model.spec.num_layers) * 2 * static_cast<size_t>(model.spec.num_kv_heads) *
               static_cast<size_t>(options.page_size * model.spec.head_dim) * dtype_bytes(options.page_dtype());
    }

    // Reads the pages of `store` out of one executor and writes them to new pages of another.
    static void move(PagedHarness& from, PagedHarness& to, Store& store, size_t bytes) {
        auto outside = from.executor().allocate_host(bytes);
        auto other = to.executor().allocate_host(bytes);
        ASSERT_TRUE(outside.ok() && other.ok());
        ASSERT_TRUE(from.executor().read_pages(store.pages, outside->bytes()).ok());
        std::memcpy(other->bytes().data(), outside->bytes().data(), bytes);
        for (int32_t& page : store.pages) page = to.take_page();
        ASSERT_TRUE(to.executor().write_pages(store.pages, other->bytes()).ok());
        std::memset(other->bytes().data(), 0xff, bytes);  // the call has read it
    }
};

// A conversation goes on after its pages were moved: on the same executor, on another one, and on the CPU, whose order
// of bytes is the same.
TEST_P(MovePagesTest, ConversationsGoOnElsewhere) {
    RandomModel model(kMovedShape, GetParam().dtype, seed_);
    const ExecutorOptions wanted = options(16, 150);
    auto cpu = open_cpu_backend(1);
    ASSERT_TRUE(cpu.ok());
    const bool on_cpu_too = (*cpu)->supports(GetParam().dtype);
    Backend& second = on_cpu_too ? **cpu : *backend_;
    PagedHarness here(*backend_, model, wanted, seed_ + 1);
    PagedHarness there(second, model, wanted, seed_ + 2);
    ASSERT_TRUE(here.ready() && there.ready());
    Store chunk;
    Store tail;
    // More pages than one launch of the kernel takes.
    for (int i = 0; i < 12; ++i) expect_close(here.run({{&chunk, 0, {}, here.tokens(97)}}), "chunk");
    const int32_t length = chunk.reference.length;
    expect_close(here.run({{&tail, length, {{&chunk, 0}}, here.tokens(21)}}), "tail");
    const size_t bytes = page_bytes(model, wanted);
    move(here, here, tail, bytes * tail.pages.size());
    expect_close(here.run({{&tail, length, {{&chunk, 0}}, here.tokens(3)}}), "moved within an executor");
    move(here, there, tail, bytes * tail.pages.size());
    move(here, there, chunk, bytes * chunk.pages.size());
    expect_close(there.run({{&tail, length, {{&chunk, 0}}, there.tokens(5)}}), "moved to another executor");
}

// What is moved lies page by page, each with all its layers.
TEST_P(MovePagesTest, PagesLieOneAfterTheOther) {
    const RandomModel model(kMovedShape, GetParam().dtype, seed_);
    const ExecutorOptions wanted = options(32, 9);
    const auto made = backend_->create_executor(model.spec, model.weights, wanted, Progress());
    ASSERT_TRUE(made.ok());
    Executor& executor = **made;
    const size_t bytes = page_bytes(model, wanted);
    auto all = executor.allocate_host(9 * bytes);
    auto some = executor.allocate_host(3 * bytes);
    ASSERT_TRUE(all.ok() && some.ok());
    Random random(seed_);
    for (std::byte& byte : all->bytes()) byte = static_cast<std::byte>(random.below(256));
    const std::vector<int32_t> order = {4, 0, 8, 1, 7, 2, 6, 3, 5};
    ASSERT_TRUE(executor.write_pages(order, all->bytes()).ok());
    const std::vector<int32_t> wanted_pages = {7, 4, 3};  // those written fifth, first and eighth
    ASSERT_TRUE(executor.read_pages(wanted_pages, some->bytes()).ok());
    const size_t places[] = {4, 0, 7};
    for (size_t i = 0; i < 3; ++i)
        EXPECT_EQ(std::memcmp(some->bytes().data() + i * bytes, all->bytes().data() + places[i] * bytes, bytes), 0)
            << "page " << wanted_pages[i];
}

TEST_P(MovePagesTest, RefusesWhatDoesNotFit) {
    const RandomModel model(kMovedShape, GetParam().dtype, seed_);
    const ExecutorOptions wanted = options(16, 4);
    const auto made = backend_->create_executor(model.spec, model.weights, wanted, Progress());
    ASSERT_TRUE(made.ok());
    auto memory = (*made)->allocate_host(2 * page_bytes(model, wanted));
    ASSERT_TRUE(memory.ok());
    const std::vector<int32_t> outside = {0, 4};
    EXPECT_EQ((*made)->read_pages(outside, memory->bytes()).error().status, NL_ERROR_INTERNAL);
    const std::vector<int32_t> three = {0, 1, 2};
    EXPECT_EQ((*made)->write_pages(three, memory->bytes()).error().status, NL_ERROR_INTERNAL);
}

INSTANTIATE_TEST_SUITE_P(Backends, MovePagesTest, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace nanolith::testing
