// DRY against its definition, tried out length by length.
#include "engine/dry.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <random>

#include "text/utf8.h"

namespace nanolith::testing {
namespace {

using Tokens = std::vector<int32_t>;

// A vocabulary whose tokens are the texts given; it encodes a text byte by byte, and refuses ill-formed UTF-8 and bytes
// that are no token.
class Letters final : public Tokenizer {
  public:
    explicit Letters(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {}
    [[nodiscard]] Result<void> encode_part(std::string_view text, const EncodeRules&, bool,
                                           std::vector<int32_t>& tokens) const override {
        if (!is_valid_utf8(text)) return fail(NL_ERROR_INTERNAL, "not UTF-8");
        for (const char letter : text) {
            NL_ASSIGN(const int32_t token, find(std::string_view(&letter, 1)));
            tokens.push_back(token);
        }
        return {};
    }
    [[nodiscard]] int32_t vocab_size() const override { return static_cast<int32_t>(pieces_.size()); }
    [[nodiscard]] Result<int32_t> find(std::string_view piece) const override {
        const auto found = std::ranges::find(pieces_, piece);
        if (found == pieces_.end()) return fail(NL_ERROR_NOT_FOUND, "no such token");
        return static_cast<int32_t>(found - pieces_.begin());
    }
    [[nodiscard]] Result<std::string> piece(int32_t token) const override { return pieces_[token]; }
    [[nodiscard]] Result<Surface> surface(int32_t token, bool) const override { return Surface{pieces_[token], true}; }

  private:
    std::vector<std::string> pieces_;
};

// Of each token the longest n of at least `allowed`, and at most `longest`, such that the history's last n tokens stand
// earlier in it too, with the token behind them.
std::map<int32_t, size_t> repeats(const Tokens& history, size_t allowed, size_t longest) {
    std::map<int32_t, size_t> found;
    for (size_t n = allowed; n <= std::min(longest, history.size() - 1); ++n) {
        for (size_t end = n; end < history.size(); ++end) {
            if (std::equal(history.end() - static_cast<std::ptrdiff_t>(n), history.end(),
                           history.begin() + static_cast<std::ptrdiff_t>(end - n)))
                found[history[end]] = n;
        }
    }
    return found;
}

TEST(Dry, AgreesWithItsDefinition) {
    const unsigned seed = std::random_device{}();
    std::printf("seed %u\n", seed);
    std::mt19937 random(seed);
    int penalised = 0;
    for (int round = 0; round < 3000; ++round) {
        Tokens history;
        const size_t size = 1 + random() % 60;
        const auto alphabet = static_cast<int32_t>(1 + random() % 4);
        for (size_t i = 0; i < size; ++i)
            history.push_back(static_cast<int32_t>(random() % static_cast<unsigned>(alphabet)));
        const DryRule rule{0.8F, 1.3F, static_cast<int32_t>(1 + random() % 5)};
        std::vector<LogitEdit> edits;
        add_dry_edits(history, rule, {}, edits);
        const auto expected = repeats(history, static_cast<size_t>(rule.allowed_length), size);
        ASSERT_EQ(edits.size(), expected.size()) << "round " << round;
        for (const LogitEdit& edit : edits) {
            const auto found = expected.find(edit.token);
            ASSERT_NE(found, expected.end());
            const double exponent = static_cast<double>(found->second) - rule.allowed_length;
            const double penalty = 0.8 * std::pow(1.3, exponent);
            EXPECT_NEAR(static_cast<double>(edit.subtract), penalty, 1e-5 * penalty);
            ++penalised;
        }
    }
    EXPECT_GT(penalised, 1000);
}

TEST(Dry, PenaltiesStayFinite) {
    std::vector<LogitEdit> edits;
    add_dry_edits(Tokens(5000, 3), {1e6F, 100, 1}, {}, edits);
    ASSERT_EQ(edits.size(), 1U);
    EXPECT_TRUE(std::isfinite(edits[0].subtract));
    EXPECT_GT(edits[0].subtract, 1e30F);
}

TEST(Dry, BreakersEndRepetitions) {
    const Letters letters({"a", "b", "c", ".", "x.", "b.c", "-", ">", "a-", "->"});
    const std::vector<std::string> texts = {".", "->", ""};
    const auto breakers = DryBreakers::make(texts, letters);
    ASSERT_TRUE(breakers.ok());
    const auto after = [&](const Tokens& history) { return breakers->tokens_after_last(history); };
    EXPECT_EQ(after({0, 1, 2}), 3U) << "none: all of them";
    EXPECT_EQ(after({0, 3, 1, 2}), 2U);
    EXPECT_EQ(after({0, 4, 1, 2, 0}), 3U) << "inside a token";
    EXPECT_EQ(after({0, 5}), 0U);
    EXPECT_EQ(after({0, 6, 7, 1}), 1U) << "over two tokens";
    EXPECT_EQ(after({0, 8, 7, 1, 1}), 2U) << "begun inside a token";
    EXPECT_EQ(after({0, 6, 1}), 3U) << "not finished";
    EXPECT_TRUE(breakers->contains(3));
    EXPECT_TRUE(breakers->contains(9));
    EXPECT_FALSE(breakers->contains(8));

    const auto penalised = [&](const Tokens& history) {
        std::vector<LogitEdit> edits;
        add_dry_edits(history, {1, 2, 2}, *breakers, edits);
        std::map<int32_t, float> found;
        for (const LogitEdit& edit : edits) found[edit.token] = edit.subtract;
        return found;
    };
    using Found = std::map<int32_t, float>;
    EXPECT_EQ(penalised({0, 1, 2, 0, 1}), (Found{{2, 1}}));
    EXPECT_EQ(penalised({2, 0, 1, 2, 2, 0, 1}), (Found{{2, 2}}));
    EXPECT_EQ(penalised({3, 0, 1, 2, 3, 0, 1}), (Found{{2, 1}})) << "not across the break";
    EXPECT_EQ(penalised({0, 1, 3, 0, 1}), Found()) << "a token that breaks is not penalised";
    EXPECT_EQ(penalised({0, 1, 2, 0, 3, 1}), Found());
}

// A token may end inside a character of a breaker, and a caller's breaker may be no UTF-8 at all.
TEST(Dry, BreakersThatTokensSplitInsideACharacterAreEncodedAsValidUtf8) {
    const Letters letters({"a", "\xC3", "\xA9", "\xC3\xA9", "\xEF", "\xBF", "\xBD"});  // the last three: U+FFFD
    const std::vector<std::string> texts = {"\xC3\xA9", "a\xF0", "\xC3\xA9\xF0\x9F"};
    const auto breakers = DryBreakers::make(texts, letters);
    ASSERT_TRUE(breakers.ok()) << breakers.error().message;
    EXPECT_EQ(breakers->tokens_after_last(Tokens{0, 3, 0}), 1U);
}

}  // namespace
}  // namespace nanolith::testing
