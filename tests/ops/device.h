// The devices that the tests run on, memory there, and handles that free themselves.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nanolith/nanolith_ops.h"

namespace nanolith::test {

template <typename T, void (*kFree)(T*)>
struct OpsHandleDeleter {
    void operator()(T* handle) const { kFree(handle); }
};
template <typename T, void (*kFree)(T*)>
using OpsHandle = std::unique_ptr<T, OpsHandleDeleter<T, kFree>>;

using Ops = OpsHandle<nl_ops, nl_ops_free>;
using AttentionOptions = OpsHandle<nl_attention_options, nl_attention_options_free>;
using AttentionPlan = OpsHandle<nl_attention_plan, nl_attention_plan_free>;
using KvCache = OpsHandle<nl_kv_cache, nl_kv_cache_free>;

#define NL_CHECK(call) ASSERT_EQ(call, NL_OK) << nl_last_error()
#define NL_EXPECT(call) EXPECT_EQ(call, NL_OK) << nl_last_error()
#define EXPECT_FAILS(status, text, call)                                                      \
    do {                                                                                      \
        EXPECT_EQ(call, status) << #call << " said \"" << nl_last_error() << "\"";            \
        EXPECT_NE(std::string(nl_last_error()).find(text), std::string::npos)                 \
            << #call << " said \"" << nl_last_error() << "\", expected \"" << (text) << "\""; \
    } while (0)
#define EXPECT_INVALID(text, call) EXPECT_FAILS(NL_ERROR_INVALID_ARGUMENT, text, call)

// Memory of a device: host memory for "cpu", for "cuda" that of the CUDA runtime (libcudart.so, opened at run time).
// NANOLITH_TEST_CUDART names another file, or is "host" for an emulated GPU, which has host memory.
class Buffer {
  public:
    Buffer() = default;
    Buffer(const std::string& device, const std::vector<std::byte>& contents);
    template <typename T>
    static Buffer of(const std::string& device, const std::vector<T>& values) {
        const auto* const bytes = reinterpret_cast<const std::byte*>(values.data());
        return Buffer(device, std::vector<std::byte>(bytes, bytes + values.size() * sizeof(T)));
    }

    [[nodiscard]] void* data() const { return memory_.get(); }
    template <typename T>
    [[nodiscard]] T* as() const {
        return static_cast<T*>(memory_.get());
    }
    void upload(const std::vector<std::byte>& contents);
    [[nodiscard]] std::vector<std::byte> download() const;
    template <typename T>
    [[nodiscard]] std::vector<T> values() const {
        const std::vector<std::byte> bytes = download();
        const auto* const first = reinterpret_cast<const T*>(bytes.data());
        return std::vector<T>(first, first + bytes.size() / sizeof(T));
    }

  private:
    std::shared_ptr<void> memory_;
    size_t size_ = 0;
    bool on_gpu_ = false;
};

// A CUDA graph of what `work` queues on its stream, and its replay; where has_cuda_runtime() alone.
bool has_cuda_runtime();
class RecordedGraph {
  public:
    RecordedGraph();
    ~RecordedGraph();
    RecordedGraph(const RecordedGraph&) = delete;
    RecordedGraph& operator=(const RecordedGraph&) = delete;

    [[nodiscard]] void* stream() const { return stream_; }
    template <typename Work>
    void record(const Work& work) {
        begin();
        work();
        end();
    }
    void replay();

  private:
    void begin();
    void end();

    void* stream_ = nullptr;
    void* graph_ = nullptr;
    void* executable_ = nullptr;
};

// A test for each device; skipped where the device can't be had.
class OnDevice : public ::testing::TestWithParam<const char*> {
  protected:
    void SetUp() override;
    [[nodiscard]] std::string device() const { return GetParam(); }
    [[nodiscard]] bool on_gpu() const { return device() != "cpu"; }
    [[nodiscard]] nl_ops* ops() const { return ops_.get(); }

  private:
    Ops ops_;
};

#define NL_ON_EVERY_DEVICE(Suite) \
    INSTANTIATE_TEST_SUITE_P(Devices, Suite, ::testing::Values("cpu", "cuda"), [](const auto& i) { return i.param; })

// Options with heads, head dim, page size and formats set.
AttentionOptions make_options(int32_t num_heads, int32_t num_kv_heads, int32_t head_dim, int32_t page_size,
                              int32_t dtype, int32_t kv_dtype = NL_DTYPE_AUTO);
AttentionPlan make_plan(nl_ops* ops, const nl_attention_options* options, int64_t max_rows, int64_t max_sequences,
                        int64_t max_segments, int64_t max_page_table);

// A struct of nanolith_ops.h with its size and nothing else.
template <typename Struct>
Struct sized() {
    Struct made{};
    made.struct_size = sizeof(Struct);
    return made;
}

// Calls `call` with the struct, which is well, and with what no struct may be: NULL, or of another size.
template <typename Struct, typename Call>
void expect_struct_checked(const std::string& name, Struct good, const Call& call) {
    EXPECT_INVALID(name + " is NULL: expected a pointer", call(nullptr));
    for (const size_t size : {size_t{0}, size_t{1}, sizeof(size_t), sizeof(Struct) - 8, sizeof(Struct) - 1,
                              sizeof(Struct) + 1, sizeof(Struct) + 8, SIZE_MAX}) {
        good.struct_size = size;
        EXPECT_INVALID(
            name + ".struct_size is " + std::to_string(size) + ": expected " + std::to_string(sizeof(Struct)),
            call(&good));
    }
    good.struct_size = sizeof(Struct);
    EXPECT_EQ(call(&good), NL_OK) << nl_last_error();
}

// nl_attention_run and nl_kv_append with tensors that are written where they are used.
inline nl_status attention_run(nl_attention_plan* plan, const nl_const_rows& q, const void* pages, const nl_rows& out,
                               float* lse = nullptr) {
    return nl_attention_run(plan, &q, pages, &out, lse);
}
inline nl_status kv_append(nl_attention_plan* plan, const nl_const_rows& k, const nl_const_rows& v, void* pages) {
    return nl_kv_append(plan, &k, &v, pages);
}

}  // namespace nanolith::test
