#include "text/base64.h"

#include <gtest/gtest.h>

#include <utility>

namespace nanolith {
namespace {

// The test vectors of RFC 4648, section 10.
TEST(Base64, DecodesWhatIsCanonical) {
    const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                           {"Zg==", "f"},
                                                           {"Zm8=", "fo"},
                                                           {"Zm9v", "foo"},
                                                           {"Zm9vYg==", "foob"},
                                                           {"Zm9vYmE=", "fooba"},
                                                           {"Zm9vYmFy", "foobar"}};
    for (const auto& [text, bytes] : vectors) EXPECT_EQ(decode_base64(text), bytes);
    EXPECT_EQ(decode_base64("//79"), "\xFF\xFE\xFD");
    for (const char* text :
         {"Z", "Zg", "Zg=", "Zg===", "=", "====", "Z===", "Zh==", "Zm9=", "Zm 9v", "Zg==Zg==", "Zm9-", "Z=9v"})
        EXPECT_FALSE(decode_base64(text).has_value()) << text;
}

}  // namespace
}  // namespace nanolith
