#include "store/identity.h"

#include <vector>

#include "store/sha256.h"

namespace nanolith {
namespace {

// Of an identity whose predecessors have their names.
Digest hash(const ChunkIdentity& identity, const EngineMark& mark) {
    Sha256 hash;
    hash.add_text("nanolith chunk 1");
    hash.add(mark.weights);
    hash.add(mark.tokenizer);
    hash.add(mark.numbers);
    hash.add(uint64_t{identity.before.size()});
    for (const auto& before : identity.before) hash.add(*before->name);
    hash.add(uint64_t{identity.tokens.size()});
    hash.add(std::as_bytes(std::span(identity.tokens)));
    return hash.finish();
}

}  // namespace

Digest name_of(const ChunkIdentity& identity, const EngineMark& mark) {
    // Predecessors first. A chain may be long, so this keeps its own stack.
    std::vector<const ChunkIdentity*> waiting{&identity};
    while (!waiting.empty()) {
        const ChunkIdentity& next = *waiting.back();
        const size_t size = waiting.size();
        if (!next.name)
            for (const auto& before : next.before)
                if (!before->name) waiting.push_back(before.get());
        if (waiting.size() > size) continue;
        if (!next.name) next.name = hash(next, mark);
        waiting.pop_back();
    }
    return *identity.name;
}

}  // namespace nanolith
