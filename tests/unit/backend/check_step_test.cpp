#include "backend/check_step.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace nanolith {
namespace {

constexpr StepNames kNames{.status = NL_ERROR_BUFFER_TOO_SMALL,
                           .page_table = {"pages"},
                           .first_pages = {"segments", ".first"},
                           .lengths = {"segments", ".length"},
                           .bases = {"bases"},
                           .first_rows = {"sequences", ".row"},
                           .num_rows = {"sequences", ".rows"},
                           .first_segments = {"sequences", ".segment"},
                           .num_segments = {"sequences", ".segments"},
                           .positions = {"positions"},
                           .position_count = "the count",
                           .slots = {"slots"},
                           .key_positions = {"keys"}};

// Two sequences that share the second of three segments.
struct Arrays {
    std::vector<int32_t> page_table{9, 0, 3, 4};
    std::vector<Segment> segments{{0, 20, 0}, {2, 30, 20}, {1, 16, 33}};
    std::vector<Sequence> sequences{{0, 3, 0, 2}, {3, 1, 1, 2}};
    std::vector<int32_t> positions{47, 48, 49, 36};
    StepRules rules{.page_size = 16, .max_position = 64, .max_distance = 50, .every_row_sees_a_key = true};

    [[nodiscard]] Result<void> check() const {
        return check_step({page_table, segments, sequences, positions}, rules, kNames);
    }
};

template <typename Change>
std::string complaint(const Change& change) {
    Arrays arrays;
    change(arrays);
    const Result<void> checked = arrays.check();
    if (checked.ok()) return "none";
    EXPECT_EQ(checked.error().status, kNames.status);
    return checked.error().message;
}

TEST(CheckStep, TakesWhatIsGood) {
    EXPECT_EQ(complaint([](Arrays&) {}), "none");
    EXPECT_EQ(complaint([](Arrays& a) { a.segments[0] = {4, 0, 63}; }), "none");  // an empty one after the last entry
    EXPECT_EQ(complaint([](Arrays& a) { a.sequences.clear(), a.positions.clear(); }), "none");
}

TEST(CheckStep, NamesTheElementOfASegment) {
    EXPECT_EQ(complaint([](Arrays& a) { a.segments[1].first_page = -1; }), "segments[1].first is -1: expected 0 to 4");
    EXPECT_EQ(complaint([](Arrays& a) { a.segments[1].first_page = 5; }), "segments[1].first is 5: expected 0 to 4");
    EXPECT_EQ(complaint([](Arrays& a) { a.segments[1].length = 33; }), "segments[1].length is 33: expected 0 to 32");
    EXPECT_EQ(complaint([](Arrays& a) { a.segments[1].length = INT32_MAX; }),
              "segments[1].length is 2147483647: expected 0 to 32");
    EXPECT_EQ(complaint([](Arrays& a) { a.segments[2].length = -1; }), "segments[2].length is -1: expected 0 to 48");
    EXPECT_EQ(complaint([](Arrays& a) { a.segments[2].base = 64; }), "bases[2] is 64: expected 0 to 63");
}

TEST(CheckStep, NamesTheElementOfASequence) {
    EXPECT_EQ(complaint([](Arrays& a) { a.sequences[1].first_row = 2; }), "sequences[1].row is 2: expected 3 to 3");
    EXPECT_EQ(complaint([](Arrays& a) { a.sequences[1].num_rows = 0; }), "sequences[1].rows is 0: expected 1 to 1");
    EXPECT_EQ(complaint([](Arrays& a) { a.sequences[0].num_rows = INT32_MAX; }),
              "sequences[0].rows is 2147483647: expected 1 to 4");
    EXPECT_EQ(complaint([](Arrays& a) { a.sequences[1].first_segment = 4; }),
              "sequences[1].segment is 4: expected 0 to 3");
    EXPECT_EQ(complaint([](Arrays& a) { a.sequences[1].num_segments = 3; }),
              "sequences[1].segments is 3: expected 0 to 2");
    EXPECT_EQ(complaint([](Arrays& a) { a.sequences.pop_back(); }), "sequences.rows sums to 3: expected the count = 4");
}

TEST(CheckStep, NamesTheRow) {
    EXPECT_EQ(complaint([](Arrays& a) { a.positions[3] = 64; }), "positions[3] is 64: expected 0 to 63");
    EXPECT_EQ(complaint([](Arrays& a) { a.positions[1] = 47; }),
              "positions[1] is 47: expected 48, the next of its sequence");
}

TEST(CheckStep, RowsSeeAKeyWhereTheyMust) {
    const auto blind = [](Arrays& a) { a.positions[3] = 19; };
    EXPECT_EQ(complaint(blind),
              "sequence 1 begins at position 19, which sees no key in its 2 segments: expected one at least");
    EXPECT_EQ(complaint([&](Arrays& a) { blind(a), a.rules.every_row_sees_a_key = false; }), "none");
    EXPECT_EQ(complaint([&](Arrays& a) { blind(a), a.rules.causal = false; }), "none");
}

TEST(CheckStep, DistancesAreThoseOfTheRotation) {
    EXPECT_EQ(complaint([](Arrays& a) { a.rules.max_distance = 49; }),
              "sequence 0 has a query 49 positions from the base 0 of its segment 0: expected less than the "
              "rotation's max_position = 49");
    EXPECT_EQ(complaint([](Arrays& a) { a.rules.max_distance = 0; }), "none");
    // A query may stand before what it sees where attention is not causal.
    const auto before = [](Arrays& a) { a.positions[3] = 1, a.rules.max_distance = 50, a.segments[1].base = 52; };
    EXPECT_EQ(complaint([&](Arrays& a) { before(a), a.rules.causal = false; }),
              "sequence 1 has a query 51 positions from the base 52 of its segment 0: expected less than the "
              "rotation's max_position = 50");
}

TEST(CheckStep, PageTableSlotsAndKeys) {
    const std::vector<int32_t> pages{9, 0, 10};
    EXPECT_TRUE(check_page_table(pages, 100, 11, kNames).ok());
    EXPECT_EQ(check_page_table(pages, 100, 10, kNames).error().message, "pages[102] is 10: expected 0 to 9");

    std::vector<int32_t> sorted;
    EXPECT_TRUE(check_slots(std::vector<int32_t>{5, kNoSlot, 0, kNoSlot}, 6, kNames, sorted).ok());
    EXPECT_EQ(check_slots(std::vector<int32_t>{5, -2}, 6, kNames, sorted).error().message,
              "slots[1] is -2: expected -1 to 5");
    EXPECT_EQ(check_slots(std::vector<int32_t>{5, 6}, 6, kNames, sorted).error().message,
              "slots[1] is 6: expected -1 to 5");
    EXPECT_EQ(check_slots(std::vector<int32_t>{5, 1, 5}, 6, kNames, sorted).error().message,
              "slots has 5 twice: expected a slot for one row only");

    EXPECT_TRUE(check_key_positions(std::vector<int32_t>{0, 7}, 8, kNames).ok());
    EXPECT_EQ(check_key_positions(std::vector<int32_t>{0, 8}, 8, kNames).error().message,
              "keys[1] is 8: expected 0 to 7");
}

}  // namespace
}  // namespace nanolith
