#include "ops/device.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace nanolith::test {
namespace {

// The few functions of the CUDA runtime that tests need.
class CudaRuntime {
  public:
    static CudaRuntime& get() {
        static CudaRuntime runtime;
        return runtime;
    }
    [[nodiscard]] bool present() const { return library_ != nullptr; }
    [[nodiscard]] bool emulated() const { return emulated_; }

    template <typename... Arguments>
    void call(const char* name, Arguments... arguments) {
        auto* const function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library_, name));
        if (function == nullptr) throw std::runtime_error(std::string("no ") + name);
        const int status = function(arguments...);
        if (status != 0) throw std::runtime_error(std::string(name) + " gave " + std::to_string(status));
    }

  private:
    CudaRuntime() {
        const char* const named = std::getenv("NANOLITH_TEST_CUDART");
        emulated_ = named != nullptr && std::string(named) == "host";
        if (emulated_) return;
        for (const char* name : {named, "libcudart.so.13", "libcudart.so.12", "libcudart.so"}) {
            if (name != nullptr && library_ == nullptr) library_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        }
    }
    void* library_ = nullptr;
    bool emulated_ = false;
};

constexpr int kToDevice = 1;
constexpr int kToHost = 2;

}  // namespace

Buffer::Buffer(const std::string& device, const std::vector<std::byte>& contents)
    : size_(contents.size()), on_gpu_(device != "cpu" && !CudaRuntime::get().emulated()) {
    if (on_gpu_) {
        void* memory = nullptr;
        CudaRuntime::get().call<void**, size_t>("cudaMalloc", &memory, size_ + 16);
        memory_ = std::shared_ptr<void>(memory, [](void* p) { CudaRuntime::get().call<void*>("cudaFree", p); });
    } else {
        memory_ = std::shared_ptr<void>(new std::byte[size_], [](void* p) { delete[] static_cast<std::byte*>(p); });
    }
    upload(contents);
}

void Buffer::upload(const std::vector<std::byte>& contents) {
    if (contents.size() != size_) throw std::runtime_error("an upload of another size");
    if (on_gpu_)
        CudaRuntime::get().call<void*, const void*, size_t, int>("cudaMemcpy", data(), contents.data(), size_,
                                                                 kToDevice);
    else if (size_ > 0)
        std::memcpy(data(), contents.data(), size_);
}

std::vector<std::byte> Buffer::download() const {
    std::vector<std::byte> contents(size_);
    if (on_gpu_) {
        CudaRuntime::get().call<>("cudaDeviceSynchronize");
        CudaRuntime::get().call<void*, const void*, size_t, int>("cudaMemcpy", contents.data(), data(), size_, kToHost);
    } else if (size_ > 0) {
        std::memcpy(contents.data(), data(), size_);
    }
    return contents;
}

bool has_cuda_runtime() {
    return CudaRuntime::get().present();
}

RecordedGraph::RecordedGraph() {
    CudaRuntime::get().call<void**>("cudaStreamCreate", &stream_);
}

RecordedGraph::~RecordedGraph() {
    if (executable_ != nullptr) CudaRuntime::get().call<void*>("cudaGraphExecDestroy", executable_);
    if (graph_ != nullptr) CudaRuntime::get().call<void*>("cudaGraphDestroy", graph_);
    CudaRuntime::get().call<void*>("cudaStreamDestroy", stream_);
}

void RecordedGraph::begin() {
    constexpr int kThreadLocal = 1;
    CudaRuntime::get().call<void*, int>("cudaStreamBeginCapture", stream_, kThreadLocal);
}

void RecordedGraph::end() {
    CudaRuntime::get().call<void*, void**>("cudaStreamEndCapture", stream_, &graph_);
    CudaRuntime::get().call<void**, void*, unsigned long long>("cudaGraphInstantiateWithFlags", &executable_, graph_,
                                                               0ULL);
}

void RecordedGraph::replay() {
    CudaRuntime::get().call<void*, void*>("cudaGraphLaunch", executable_, stream_);
    CudaRuntime::get().call<void*>("cudaStreamSynchronize", stream_);
}

void OnDevice::SetUp() {
    if (on_gpu() && !CudaRuntime::get().present() && !CudaRuntime::get().emulated())
        GTEST_SKIP() << "the CUDA runtime is not there";
    nl_ops* made = nullptr;
    const nl_status status = nl_ops_create(device().data(), device().size(), &made);
    if (on_gpu() && (status == NL_ERROR_NOT_FOUND || status == NL_ERROR_UNSUPPORTED)) GTEST_SKIP() << nl_last_error();
    NL_CHECK(status);
    ops_.reset(made);
}

AttentionOptions make_options(int32_t num_heads, int32_t num_kv_heads, int32_t head_dim, int32_t page_size,
                              int32_t dtype, int32_t kv_dtype) {
    nl_attention_options* made = nullptr;
    NL_EXPECT(nl_attention_options_create(&made));
    AttentionOptions options(made);
    NL_EXPECT(nl_attention_options_set_heads(made, num_heads, num_kv_heads));
    NL_EXPECT(nl_attention_options_set_head_dim(made, head_dim));
    NL_EXPECT(nl_attention_options_set_page_size(made, page_size));
    NL_EXPECT(nl_attention_options_set_dtype(made, dtype));
    NL_EXPECT(nl_attention_options_set_kv_dtype(made, kv_dtype));
    return options;
}

AttentionPlan make_plan(nl_ops* ops, const nl_attention_options* options, int64_t max_rows, int64_t max_sequences,
                        int64_t max_segments, int64_t max_page_table) {
    const nl_attention_capacity capacity{.struct_size = sizeof(capacity),
                                         .max_rows = max_rows,
                                         .max_sequences = max_sequences,
                                         .max_segments = max_segments,
                                         .max_page_table = max_page_table};
    nl_attention_plan* made = nullptr;
    NL_EXPECT(nl_attention_plan_create(ops, options, &capacity, &made));
    return AttentionPlan(made);
}

}  // namespace nanolith::test
