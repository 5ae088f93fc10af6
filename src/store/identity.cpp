#include "store/identity.h"

#include <vector>

#include "store/sha256.h"

namespace nanolith {
namespace {

// The digest of an identity. Its predecessors' digests must be set.
Digest hash(const ChunkIdentity& identity, const EngineMark& mark) {
    Sha256 hash;
    hash.add_text(identity.tenant ? "nanolith chunk 1 of a tenant" : "nanolith chunk 1");
    if (identity.tenant) hash.add(identity.tenant->salt);
    hash.add(mark.weights);
    hash.add(mark.tokenizer);
    hash.add(mark.numbers);
    hash.add(uint64_t{identity.before.size()});
    for (const auto& before : identity.before) hash.add(*before->digest);
    hash.add(uint64_t{identity.tokens.size()});
    hash.add(std::as_bytes(std::span(identity.tokens)));
    return hash.finish();
}

}  // namespace

Digest digest_of(const ChunkIdentity& identity, const EngineMark& mark) {
    // Predecessors first. A chain may be long, so this keeps its own stack.
    std::vector<const ChunkIdentity*> waiting{&identity};
    while (!waiting.empty()) {
        const ChunkIdentity& next = *waiting.back();
        const size_t size = waiting.size();
        if (!next.digest)
            for (const auto& before : next.before)
                if (!before->digest) waiting.push_back(before.get());
        if (waiting.size() > size) continue;
        if (!next.digest) next.digest = hash(next, mark);
        waiting.pop_back();
    }
    return *identity.digest;
}

std::string salt_text(const Digest& salt) {
    return to_hex(salt).substr(0, kSaltDigits);
}

std::string ChunkName::text() const {
    return salt == Digest{} ? to_hex(digest) : salt_text(salt) + "-" + to_hex(digest);
}

ChunkName name_of(const ChunkIdentity& identity, const EngineMark& mark) {
    return {digest_of(identity, mark), salt_of(identity.tenant.get())};
}

}  // namespace nanolith
