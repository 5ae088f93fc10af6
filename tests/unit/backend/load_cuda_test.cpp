// How opening the CUDA backend fails: without the library, with a file that is none, and with libraries that are not
// the one wanted (wrong_backend.cpp).
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "backend/backend.h"
#include "backend/kernels.h"
#include "support/temp_folder.h"

namespace nanolith::testing {
namespace {

namespace fs = std::filesystem;

// A folder of its own, on NANOLITH_BACKEND_PATH.
class LoadCuda : public ::testing::Test {
  protected:
    void SetUp() override {
        if (const char* before = std::getenv("NANOLITH_BACKEND_PATH")) before_ = before;
        set_path(folder_.path());
    }
    void TearDown() override { set_path(before_); }
    static void set_path(const std::string& path) { setenv("NANOLITH_BACKEND_PATH", path.c_str(), 1); }

    static Error open() {
        const auto opened = open_cuda_backend(0);
        EXPECT_FALSE(opened.ok());
        return opened.ok() ? Error{NL_OK, ""} : opened.error();
    }
    static bool has(const Error& error, const std::string& part) {
        return error.message.find(part) != std::string::npos;
    }

    fs::path library() const { return folder_.file("libnanolith_cuda.so"); }

    test::TempFolder folder_;
    std::string before_;
};

TEST_F(LoadCuda, NamesTheMissingLibrary) {
    const auto opened = open_cuda_backend(0);
    if (opened.ok()) GTEST_SKIP() << "the CUDA backend lies beside this program";
    EXPECT_EQ(opened.error().status, NL_ERROR_NOT_FOUND);
    EXPECT_TRUE(has(opened.error(), library().string()) || has(opened.error(), "libnanolith_cuda.so: "))
        << opened.error().message;
}

TEST_F(LoadCuda, RefusesAFileThatIsNoLibrary) {
    std::ofstream(library()) << "not an ELF file\n";
    const auto opened = open_cuda_backend(0);
    if (opened.ok()) GTEST_SKIP() << "the CUDA backend lies beside this program";
    EXPECT_TRUE(has(opened.error(), library().string())) << opened.error().message;
}

TEST_F(LoadCuda, RefusesALibraryWithoutTheSymbol) {
    fs::copy_file(NL_TEST_NO_SYMBOL_LIBRARY, library());
    const Error error = open();
    EXPECT_EQ(error.status, NL_ERROR_NOT_FOUND);
    EXPECT_TRUE(has(error, kBackendOpenName)) << error.message;
    EXPECT_TRUE(has(error, library().string())) << error.message;
}

// The backend itself compares versions; its refusal comes through with the library's path.
TEST_F(LoadCuda, PassesOnARefusedVersion) {
    fs::copy_file(NL_TEST_WRONG_VERSION_LIBRARY, library());
    set_path("/nonexistent::" + folder_.path());  // also: missing and empty folders on the way are skipped
    const Error error = open();
    EXPECT_EQ(error.status, NL_ERROR_UNSUPPORTED);
    EXPECT_TRUE(has(error, "version 99.0.0")) << error.message;
    EXPECT_TRUE(has(error, std::to_string(NL_VERSION_MAJOR) + "." + std::to_string(NL_VERSION_MINOR) + "." +
                               std::to_string(NL_VERSION_PATCH)))
        << error.message;
    EXPECT_TRUE(has(error, library().string())) << error.message;
}

// A backend library of before the kernel-level ABI, or built without it.
TEST_F(LoadCuda, SaysThatTheKernelsAreMissing) {
    for (const char* library_without : {NL_TEST_NO_SYMBOL_LIBRARY, NL_TEST_WRONG_VERSION_LIBRARY}) {
        fs::copy_file(library_without, library(), fs::copy_options::overwrite_existing);
        const auto opened = open_cuda_kernels(0);
        ASSERT_FALSE(opened.ok());
        EXPECT_EQ(opened.error().status, NL_ERROR_UNSUPPORTED);
        EXPECT_TRUE(has(opened.error(), kKernelsOpenName)) << opened.error().message;
        EXPECT_TRUE(has(opened.error(), "kernel-level ABI")) << opened.error().message;
        EXPECT_TRUE(has(opened.error(), library().string())) << opened.error().message;
    }
    EXPECT_EQ(open_cuda_kernels(-1).error().status, NL_ERROR_INVALID_ARGUMENT);
}

TEST_F(LoadCuda, RefusesANegativeIndex) {
    const auto opened = open_cuda_backend(-1);
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.error().status, NL_ERROR_INVALID_ARGUMENT);
    EXPECT_TRUE(has(opened.error(), "-1")) << opened.error().message;
}

}  // namespace
}  // namespace nanolith::testing
