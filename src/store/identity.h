// The name that a chunk has outside its engine: the SHA-256 of everything that decides its keys and values.
#pragma once

#include <string>

#include "base/digest.h"
#include "kv/chunk_store.h"

namespace nanolith {

// What all chunks of an engine have in common. Two engines whose marks are equal have the same keys and values for the
// same chunks, to rounding.
struct EngineMark {
    Digest weights{};    // of the files' bytes
    Digest tokenizer{};  // of its files' bytes
    Digest numbers{};    // of the model's numbers, the formats of activations and pages, and the page size

    bool operator==(const EngineMark&) const = default;
};

// The chunk's digest: from the mark, the digests of the chunks before it, its tokens, and its tenant's salt. Kept in
// the identity, and those of its predecessors in theirs. Needs the engine's mutex.
Digest digest_of(const ChunkIdentity& identity, const EngineMark& mark);

// What a chunk is called in the store's folder and on its server.
struct ChunkName {
    Digest digest{};
    Digest salt{};  // the tenant's, whom the digest depends on too; all zeros: of none

    // The digest's 64 hexadecimal digits; before them those that begin the salt (salt_text), and "-", where there is a
    // tenant: all that is kept of a tenant can so be found, and removed.
    [[nodiscard]] std::string text() const;
};

constexpr size_t kSaltDigits = 16;
std::string salt_text(const Digest& salt);

// As digest_of().
ChunkName name_of(const ChunkIdentity& identity, const EngineMark& mark);

}  // namespace nanolith
