#include "store/sha256.h"

#include <gtest/gtest.h>

#include <string>

namespace nanolith {
namespace {

Digest sha256_of(std::string_view text) {
    Sha256 hash;
    hash.add(std::as_bytes(std::span(text)));
    return hash.finish();
}

// The examples of FIPS 180-4, from NIST's "SHA-256 Example Computations" and CAVP's byte-oriented vectors.
TEST(Sha256, GivesTheStandardsExamples) {
    EXPECT_EQ(to_hex(sha256_of("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(to_hex(sha256_of("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(to_hex(sha256_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    EXPECT_EQ(to_hex(sha256_of(std::string(1000000, 'a'))),
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PartsAreAddedInARow) {
    Sha256 hash;
    for (const char* part : {"a", "b", "c"}) hash.add(std::as_bytes(std::span(std::string_view(part))));
    EXPECT_EQ(hash.finish(), sha256_of("abc"));
    EXPECT_EQ(hash.finish(), sha256_of("")) << "it is as new";
    Sha256 one;
    one.add_text("ab");
    one.add_text("c");
    Sha256 other;
    other.add_text("a");
    other.add_text("bc");
    EXPECT_NE(one.finish(), other.finish());
}

}  // namespace
}  // namespace nanolith
