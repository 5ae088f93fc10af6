// Shared stores as the tests open and use them.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "store/shared_store.h"

namespace nanolith::testing {

using Bytes = std::vector<std::byte>;
using std::chrono::milliseconds;

// Where the library is, for runs that don't say.
inline const int kTold = setenv("NANOLITH_BACKEND_PATH", NL_PLUGIN_FOLDER, 0);

// Within it every call ends whose deadline is far shorter: only a call that hangs takes longer.
constexpr milliseconds kHangs{20000};

inline std::unique_ptr<SharedStore> open(const std::string& address) {
    auto opened = open_shared_store(address);
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    return opened.ok() ? std::move(*opened) : nullptr;
}

inline Error error_of(const std::string& address) {
    auto opened = open_shared_store(address);
    EXPECT_FALSE(opened.ok()) << address;
    return opened.ok() ? Error{NL_OK, ""} : opened.error();
}

inline bool has(const Error& error, const std::string& part) {
    return error.message.find(part) != std::string::npos;
}

inline Bytes random_bytes(std::mt19937& random, size_t count) {
    Bytes bytes(count);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    return bytes;
}

inline Result<void> put(SharedStore& store, const std::string& key, const Bytes& bytes, milliseconds within = kHangs) {
    const SharedStore::Given part{key, bytes};
    return store.write({&part, 1}, within);
}

inline Result<size_t> get(SharedStore& store, const std::string& key, Bytes& into, milliseconds within = kHangs) {
    const SharedStore::Wanted part{key, into};
    return store.read({&part, 1}, within);
}

}  // namespace nanolith::testing
