// Tenants, and what is told of the store: of all chunks, or of those of one tenant.
#include <cmath>

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

// What computing so many tokens would have taken, less what bringing them took. With the mutex.
int64_t Engine::saved_ms(int64_t tokens_reused, double seconds_bringing) const {
    const auto computing = computing_.estimate(tokens_reused);
    return computing ? std::llround(1e3 * (*computing - seconds_bringing)) : 0;
}

Engine::StoreReport Engine::store_report(const Tenant* tenant, bool with_levels) {
    StoreReport report;
    report.has_host = host_tier_ != nullptr;
    report.has_files = folder_ != nullptr;
    report.has_server = server_ != nullptr;
    {
        const Lock lock(mutex_);
        report.counted = tenant == nullptr ? store_.numbers() : tenant->numbers;
        report.saved_ms = saved_ms(report.counted.tokens_reused, report.counted.seconds_bringing);
        const bool looks = with_levels || tenant != nullptr;
        if (looks) report.device_levels = store_.count_by_level(tenant);
        if (looks && report.has_host) report.host_levels = host_tier_->count_by_level(tenant);
        report.chunks = looks ? total(report.device_levels).chunks : store_.num_chunks();
        if (report.has_host) {
            const LevelCount host = total(report.host_levels);
            report.host_chunks = looks ? host.chunks : host_tier_->num_chunks();
            report.host_bytes = looks ? host.pages * page_bytes_ : host_tier_->bytes();
        }
    }
    if (report.has_files) {
        const auto counts = tenant == nullptr ? folder_->counts() : folder_->counts_of(tenant->salt);
        report.file_chunks = counts.chunks;
        report.file_bytes = counts.bytes;
    }
    return report;
}

}  // namespace nanolith
