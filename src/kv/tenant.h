// One of several parties that an engine serves and that must learn nothing of each other: its chunks and conversations
// are found by itself alone. There is one object for each salt (ChunkStore::tenant), so comparing pointers is enough; a
// null pointer stands for the engine itself, whose chunks every tenant may use. The engine's mutex guards the numbers.
#pragma once

#include "base/digest.h"
#include "kv/store_numbers.h"

namespace nanolith {

struct Tenant {
    const Digest salt;  // the SHA-256 of the text that names the tenant
    StoreNumbers numbers = {};
};

// All zeros for the engine itself.
inline Digest salt_of(const Tenant* tenant) {
    return tenant == nullptr ? Digest{} : tenant->salt;
}

}  // namespace nanolith
