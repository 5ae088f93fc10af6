#include "grammar/mask_cache.h"

#include "grammar/grammar_limits.h"

namespace nanolith::grammar {
namespace {

// What a leaf takes without its masks: the key and the places.
size_t bytes_without_masks(size_t signature_bytes, size_t num_states) {
    return signature_bytes + 2 * num_states * sizeof(std::shared_ptr<const StateMask>);
}

}  // namespace

size_t bytes_of(const StateMask& mask) {
    size_t bytes = sizeof(StateMask) + 4 * (mask.few.size() + mask.bits.size() + mask.by_units.size()) +
                   sizeof(StateMask::Escape) * mask.escapes.size();
    for (const Mask& bits : mask.by_room) bytes += 4 * bits.size();
    return bytes;
}

std::shared_ptr<LeafMasks> MaskCache::of_leaf(std::string signature, int32_t num_states) {
    const auto states = static_cast<size_t>(num_states);
    if (const auto found = leaves.find(signature); found != leaves.end()) return found->second;
    add(bytes_without_masks(signature.size(), states));
    auto made = std::make_shared<LeafMasks>();
    made->states.resize(states);
    made->first_states.resize(states);
    leaves.emplace(std::move(signature), made);
    return made;
}

void MaskCache::add(size_t more) {
    if (bytes + more > kMaxMaskBytes) {
        std::erase_if(leaves, [](const auto& leaf) { return leaf.second.use_count() == 1; });
        bytes = 0;
        for (auto& [signature, leaf] : leaves) {
            bytes += bytes_without_masks(signature.size(), leaf->states.size());
            for (auto* places : {&leaf->states, &leaf->first_states})
                for (auto& mask : *places) mask.reset();
        }
    }
    bytes += more;
}

void GrammarMasks::remember(uint64_t state, std::shared_ptr<const StateMask> mask) {
    const size_t more = bytes_of(*mask);
    if (state_bytes + more > kMaxMaskBytes) {
        states.clear();
        state_bytes = 0;
    }
    states[state] = std::move(mask);
    state_bytes += more;
}

}  // namespace nanolith::grammar
