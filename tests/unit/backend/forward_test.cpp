#include "backend/forward.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace nanolith {
namespace {

// Records the names of the operations that forward() calls, in order; an operation that the test names fails.
class RecordingDevice {
  public:
    explicit RecordingDevice(std::string fail_at = {}, bool has_results = true)
        : fail_at_(std::move(fail_at)), has_results_(has_results) {}
    [[nodiscard]] bool has_results() const { return has_results_; }
    Result<void> attention_input(int32_t layer) { return call("attention_input", layer); }
    Result<void> attention(int32_t layer) { return call("attention", layer); }
    Result<void> attention_output(int32_t layer) { return call("attention_output", layer); }
    Result<void> mlp_input(int32_t layer) { return call("mlp_input", layer); }
    Result<void> mlp_output(int32_t layer) { return call("mlp_output", layer); }
    Result<void> head() { return call("head"); }
    [[nodiscard]] const std::string& calls() const { return calls_; }

  private:
    Result<void> call(const std::string& name, int32_t layer = -1) {
        const std::string text = layer < 0 ? name : name + "(" + std::to_string(layer) + ")";
        calls_ += text + " ";
        if (text == fail_at_) return fail(NL_ERROR_DEVICE, text);
        return {};
    }
    std::string fail_at_;
    bool has_results_;
    std::string calls_;
};

TEST(Forward, CallsTheOperationsOfEveryLayerInOrder) {
    RecordingDevice device;
    ASSERT_TRUE(forward(device, 2).ok());
    EXPECT_EQ(device.calls(),
              "attention_input(0) attention(0) attention_output(0) mlp_input(0) mlp_output(0) "
              "attention_input(1) attention(1) attention_output(1) mlp_input(1) mlp_output(1) head ");
}

TEST(Forward, EndsWithTheLastLayersKeysAndValuesWithoutOutputRows) {
    RecordingDevice device("", false);
    ASSERT_TRUE(forward(device, 2).ok());
    EXPECT_EQ(device.calls(),
              "attention_input(0) attention(0) attention_output(0) mlp_input(0) mlp_output(0) attention_input(1) ");
}

TEST(Forward, StopsAtAnError) {
    RecordingDevice device("attention(1)");
    const auto ran = forward(device, 3);
    ASSERT_FALSE(ran.ok());
    EXPECT_EQ(ran.error().status, NL_ERROR_DEVICE);
    EXPECT_EQ(ran.error().message, "attention(1)");
    EXPECT_TRUE(device.calls().ends_with(" attention_input(1) attention(1) "));
}

}  // namespace
}  // namespace nanolith
