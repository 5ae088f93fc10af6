// Encrypted connections where the library was built without OpenSSL.
#include <gtest/gtest.h>

#include "shared_stores.h"

namespace nanolith::testing {
namespace {

TEST(StoreWithoutTls, RefusesEncryptedConnections) {
    const Error error = error_of("rediss://host?ca=/nowhere");
    EXPECT_EQ(error.status, NL_ERROR_UNSUPPORTED);
    EXPECT_TRUE(has(error, "without OpenSSL")) << error.message;
}

}  // namespace
}  // namespace nanolith::testing
