// A server of keys and values that the engines of several machines share, Redis or Valkey: what libnanolith_redis.so
// implements and the chunk store uses below its other tiers. The library is opened at run time, so that nobody needs it
// who has no such server.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace nanolith {

// A connection, made by the first call that needs one. After a call that failed because the server could not be reached
// or did not answer in time, the connection is closed, and calls of the next second fail at once. Not thread-safe:
// whoever wants several calls under way opens several.
class SharedStore {
  public:
    SharedStore() = default;
    SharedStore(const SharedStore&) = delete;
    SharedStore& operator=(const SharedStore&) = delete;
    virtual ~SharedStore() = default;

    struct Wanted {
        std::string key;
        std::span<std::byte> into;         // the value's first bytes
        std::span<std::byte> behind = {};  // and those after them
        [[nodiscard]] size_t size() const { return into.size() + behind.size(); }
    };
    struct Given {
        std::string key;
        std::span<const std::byte> bytes;
    };

    // Both calls take at most the time `within`, connecting included, but for what the system takes to resolve a host's
    // name. TIMEOUT where that is not enough.
    using Time = std::chrono::milliseconds;

    // Fills the parts in order, up to the first whose value the server lacks or has in another length; how many were
    // filled. What the server sends is not checked any further. After an error the parts have undefined contents.
    virtual Result<size_t> read(std::span<const Wanted> parts, Time within) = 0;

    // Stores the parts in order. After an error the server may have some of them.
    virtual Result<void> write(std::span<const Given> parts, Time within) = 0;
};

// Opens libnanolith_redis.so, found next to this library or in NANOLITH_BACKEND_PATH. `address` is
// redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE], or rediss:// with the same and [?ca=FILE&cert=FILE&key=FILE] for
// encrypted connections, or unix:PATH of a socket; characters with a meaning of their own are written as %XX in USER,
// PASSWORD and FILE. NOT_FOUND where the library is missing or a file, INVALID_ARGUMENT where the address is none or a
// file can't be used, UNSUPPORTED for rediss:// where the library was built without OpenSSL. Does not connect yet.
Result<std::unique_ptr<SharedStore>> open_shared_store(const std::string& address);

// The function that the library exports as kSharedStoreOpenName. `version` must be equal to the library's own
// nl_version(), since C++ objects cross this boundary.
using SharedStoreOpen = void(const char* version, const std::string& address,
                             Result<std::unique_ptr<SharedStore>>& result);
constexpr const char* kSharedStoreOpenName = "nl_shared_store_open";

}  // namespace nanolith
