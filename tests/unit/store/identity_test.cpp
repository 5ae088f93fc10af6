#include "store/identity.h"

#include <gtest/gtest.h>

namespace nanolith {
namespace {

using Tokens = std::vector<int32_t>;

EngineMark a_mark() {
    EngineMark mark;
    mark.weights.fill(std::byte{1});
    mark.tokenizer.fill(std::byte{2});
    mark.numbers.fill(std::byte{3});
    return mark;
}

// hashlib.sha256 of what digest_of says it adds: (16).to_bytes(8, "little") + b"nanolith chunk 1" + bytes([1]) * 32 +
// bytes([2]) * 32 + bytes([3]) * 32 + (0).to_bytes(8, "little") + (3).to_bytes(8, "little") and the tokens 5, 6, 7 in 4
// bytes each, little-endian; then the same with 1 predecessor, that name, and the single token 9.
TEST(Identity, NamesAreWhatTheDefinitionGives) {
    ChunkStore store;
    const auto first = store.intern(Tokens{5, 6, 7}, {});
    const auto second = store.intern(Tokens{9}, {first});
    EXPECT_EQ(to_hex(digest_of(*second, a_mark())), "e531c5212a16289dc01841c8457f6dab1081a4246f739f6a91e52cdd9d78036d");
    EXPECT_EQ(to_hex(digest_of(*first, a_mark())), "afb60265c0d5b98dbdb37122d9ebce94377b5586e157825c98c24df10f139e2f");
}

TEST(Identity, EverythingCounts) {
    std::vector<Digest> names;
    const auto add = [&](const Tokens& tokens, const Tokens& before, const EngineMark& mark) {
        ChunkStore store;
        ChunkStore::Identities list;
        if (!before.empty()) list.push_back(store.intern(before, {}));
        names.push_back(digest_of(*store.intern(tokens, list), mark));
    };
    add({1, 2}, {}, a_mark());
    add({2, 1}, {}, a_mark());
    add({2}, {1}, a_mark());
    add({1, 2}, {1}, a_mark());
    for (Digest EngineMark::*part : {&EngineMark::weights, &EngineMark::tokenizer, &EngineMark::numbers}) {
        EngineMark mark = a_mark();
        (mark.*part)[31] = std::byte{9};
        add({1, 2}, {}, mark);
    }
    for (size_t i = 0; i < names.size(); ++i)
        for (size_t j = 0; j < i; ++j) EXPECT_NE(names[i], names[j]) << i << " " << j;
}

// A chain so long that a recursion would end the process.
TEST(Identity, LongChainsHaveNames) {
    ChunkStore store;
    std::vector<std::shared_ptr<const ChunkIdentity>> chain;
    for (int i = 0; i < 200000; ++i) {
        ChunkStore::Identities before;
        if (!chain.empty()) before.push_back(chain.back());
        chain.push_back(store.intern(Tokens{i}, before));
    }
    digest_of(*chain.back(), a_mark());
    EXPECT_TRUE(chain.front()->digest.has_value());
    while (!chain.empty()) chain.pop_back();
}

}  // namespace
}  // namespace nanolith
