#include <string_view>

#include "api/ops_check.h"
#include "backend/device_name.h"

using namespace nanolith;
using namespace nanolith::api;

namespace {

Result<std::unique_ptr<Kernels>> open_kernels(std::string_view device) {
    NL_ASSIGN(const DeviceName name, parse_device_name(device, AutoDevice::refused));
    return name.kind == DeviceKind::cpu ? open_cpu_kernels() : open_cuda_kernels(name.index);
}

}  // namespace

extern "C" {

nl_status nl_ops_create(const char* device, size_t device_length, nl_ops** ops) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(ops, "ops"));
        NL_TRY(check_pointer(device, "device"));
        constexpr size_t kLongest = 32;
        if (device_length == 0 || device_length > kLongest)
            return fail(NL_ERROR_INVALID_ARGUMENT, "device_length is ", device_length,
                        ": expected the length of \"cpu\", \"cuda\" or \"cuda:N\"");
        NL_ASSIGN(auto kernels, open_kernels({device, device_length}));
        *ops = new nl_ops{std::make_shared<OpsDevice>(std::move(kernels))};
        return {};
    });
}

void nl_ops_free(nl_ops* ops) {
    free_handle(ops);
}

nl_status nl_ops_set_stream(nl_ops* ops, void* stream) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(ops, "ops"));
        const std::lock_guard lock(ops->device->mutex);
        return ops->device->kernels->set_stream(stream);
    });
}

nl_status nl_ops_set_threads(nl_ops* ops, int32_t num_threads) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(ops, "ops"));
        NL_TRY(check_range("num_threads", num_threads, 0, 1024));
        const std::lock_guard lock(ops->device->mutex);
        return ops->device->kernels->set_threads(num_threads);
    });
}

nl_status nl_ops_synchronize(nl_ops* ops) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(ops, "ops"));
        const std::lock_guard lock(ops->device->mutex);
        return ops->device->kernels->synchronize();
    });
}

nl_status nl_ops_device(const nl_ops* ops, char* buffer, size_t capacity, size_t* length) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_handle(ops, "ops"));
        NL_TRY(check_pointer(length, "length"));
        const std::lock_guard lock(ops->device->mutex);
        return give_text(ops->device->kernels->device_name(), buffer, capacity, length);
    });
}

}  // extern "C"
