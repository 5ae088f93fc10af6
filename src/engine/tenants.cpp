// Tenants, and what is counted of their chunks.
#include "engine/engine.h"
#include "store/sha256.h"

namespace nanolith {

Result<Engine::TenantPtr> Engine::tenant(std::string_view salt) {
    constexpr size_t kMostBytes = 4096;
    if (salt.empty() || salt.size() > kMostBytes)
        return fail(NL_ERROR_INVALID_ARGUMENT, "salt_length is ", salt.size(), ": expected 1 to ", kMostBytes,
                    " bytes");
    Sha256 hash;
    hash.add(std::as_bytes(std::span(salt)));
    const Lock lock(mutex_);
    return store_.tenant(hash.finish());
}

void Engine::count(const ChunkIdentity& identity, int64_t StoreNumbers::*number, int64_t amount) {
    numbers_of_store_.*number += amount;
    if (identity.tenant) identity.tenant->numbers.*number += amount;
}

StoreNumbers Engine::store_numbers(const Tenant* tenant) {
    StoreNumbers numbers;
    {
        const Lock lock(mutex_);
        numbers = tenant == nullptr ? numbers_of_store_ : tenant->numbers;
        numbers.chunks = tenant == nullptr ? store_.num_chunks() : store_.num_chunks_of(*tenant);
        if (tenant == nullptr) numbers.evictions = store_.evictions();
        if (host_tier_ != nullptr) {
            const auto counts = tenant == nullptr ? host_tier_->counts() : host_tier_->counts_of(*tenant);
            numbers.host_chunks = counts.chunks;
            numbers.host_bytes = counts.bytes;
        }
    }
    if (folder_ != nullptr) {
        const auto counts = tenant == nullptr ? folder_->counts() : folder_->counts_of(tenant->salt);
        numbers.file_chunks = counts.chunks;
        numbers.file_bytes = counts.bytes;
    }
    return numbers;
}

}  // namespace nanolith
