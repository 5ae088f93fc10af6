// A file whose weights a backend loads.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/dtype.h"
#include "backend/weight_view.h"
#include "base/result.h"
#include "files/open_file.h"
#include "model/safetensors.h"

namespace nanolith {

// Whether weights may be used where they lie in their files, by a device that can.
enum class WeightPlace : uint8_t {
    mapped,  // yes: the files stay mapped, and one that is cut short later ends the process (SIGBUS)
    copied   // no: everything is read into memory
};

// How many of a tensor's elements are NaN or infinite.
struct NotFinite {
    std::string tensor;
    int64_t count = 0;
    int64_t size = 0;  // elements of the tensor
};

// How many of the numbers in `bytes`, of that format, are NaN or infinite.
int64_t count_not_finite(DType dtype, std::span<const std::byte> bytes);

// Weights are read out of the file, so that one that others change while it loads gives an error. Every element is
// looked at on its way: what is NaN or infinite is counted. The addresses of tensors are those of a mapping of the
// file, which stays as long as the object.
class WeightFile final : public WeightSource {
  public:
    // A safetensors file. Reads the header alone.
    static Result<std::unique_ptr<WeightFile>> open(const std::string& path, WeightPlace place);
    // A file of any format: the caller reads its header and calls set_tensors().
    static Result<std::unique_ptr<WeightFile>> of(OpenFile file, WeightPlace place);
    WeightFile(const WeightFile&) = delete;
    WeightFile& operator=(const WeightFile&) = delete;
    ~WeightFile() override;

    [[nodiscard]] FileFacts facts() const { return file_.facts(); }
    [[nodiscard]] const OpenFile& file() const { return file_; }
    // The whole file's addresses, which must not be read from.
    [[nodiscard]] std::span<const std::byte> bytes() const { return mapping_; }
    // Tells it the tensors of the file, once. Elements whose format weight_dtype() knows are checked for NaNs and
    // infinities as they are read.
    void set_tensors(TensorMap tensors);
    [[nodiscard]] TensorMap take_tensors() { return std::move(tensors_); }

    void read(const std::byte* from, size_t size, void* to) noexcept override;
    [[nodiscard]] bool stays() const override { return place_ == WeightPlace::mapped; }

    // To be called when all is loaded: IO where bytes were missing or the file has changed. Nothing is read out of it
    // any more.
    Result<void> finish();
    // The tensors that had such elements, in the order of the file.
    [[nodiscard]] std::vector<NotFinite> not_finite() const;

  private:
    static constexpr size_t kNothingMissing = SIZE_MAX;

    // A tensor of numbers that can be looked at.
    struct Numbers {
        std::string name;
        std::span<const std::byte> bytes;
        DType dtype = DType::f32;
        std::atomic<int64_t> not_finite = 0;
    };

    WeightFile(OpenFile file, WeightPlace place) : file_(std::move(file)), place_(place) {}
    Result<void> map();
    Result<void> read_header();
    void look_at(const std::byte* from, std::span<const std::byte> copy);

    OpenFile file_;
    WeightPlace place_;
    std::span<const std::byte> mapping_;  // of the whole file
    TensorMap tensors_;
    std::deque<Numbers> numbers_;  // in the order of the file

    std::atomic<size_t> missing_at_ = kNothingMissing;  // where in the file the first bytes were that could not be read
};

}  // namespace nanolith
