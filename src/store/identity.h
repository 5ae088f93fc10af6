// The name that a chunk has outside its engine: the SHA-256 of everything that decides its keys and values.
#pragma once

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

// The chunk's name: from the mark, the names of the chunks before it, and its tokens. Kept in the identity, and those
// of its predecessors in theirs. Needs the engine's mutex.
Digest name_of(const ChunkIdentity& identity, const EngineMark& mark);

}  // namespace nanolith
