// What the opaque handles of nanolith_ops.h are. Plans and caches share their device, whose mutex lets one call run at
// a time.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "api/home_process.h"
#include "backend/kernels.h"
#include "kv/kv_cache.h"
#include "nanolith/nanolith_ops.h"

namespace nanolith::api {

struct OpsDevice {
    explicit OpsDevice(std::unique_ptr<Kernels> of) : kernels(std::move(of)) {}

    std::mutex mutex;
    std::unique_ptr<Kernels> kernels;
};

}  // namespace nanolith::api

struct nl_ops {
    std::shared_ptr<nanolith::api::OpsDevice> device;
    nanolith::api::HomeProcess home = {};
};

struct nl_attention_options {
    nanolith::AttentionSpec spec;
    std::optional<nanolith::DType> kv_dtype;  // none: as the queries
    float k_scale = 1;
    float v_scale = 1;
};

struct nl_attention_plan {
    std::shared_ptr<nanolith::api::OpsDevice> device;
    nanolith::AttentionSpec spec;
    nanolith::PlanCapacity capacity;
    float k_scale = 1;
    float v_scale = 1;
    std::unique_ptr<nanolith::PagedAttention> attention;
    int64_t num_rows = 0;  // as set
    int64_t num_slots = 0;
    const nanolith::api::HomeProcess home;

    // What is being set; kept for its memory.
    std::vector<nanolith::Segment> segments;
    std::vector<nanolith::Sequence> sequences;
    std::vector<int32_t> sorted_slots;

    explicit nl_attention_plan(std::shared_ptr<nanolith::api::OpsDevice> of) : device(std::move(of)) {}
    nl_attention_plan(const nl_attention_plan&) = delete;
    nl_attention_plan& operator=(const nl_attention_plan&) = delete;
    ~nl_attention_plan() {
        const std::lock_guard lock(device->mutex);
        attention.reset();
    }
};

struct nl_kv_cache {
    std::shared_ptr<nanolith::api::OpsDevice> device;
    std::unique_ptr<nanolith::KvCache> cache;
    const nanolith::api::HomeProcess home;

    explicit nl_kv_cache(std::shared_ptr<nanolith::api::OpsDevice> of) : device(std::move(of)) {}
    nl_kv_cache(const nl_kv_cache&) = delete;
    nl_kv_cache& operator=(const nl_kv_cache&) = delete;
    ~nl_kv_cache() {
        const std::lock_guard lock(device->mutex);
        cache.reset();
    }
};
