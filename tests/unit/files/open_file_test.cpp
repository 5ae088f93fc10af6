#include "files/open_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "support/model_files.h"

namespace nanolith {
namespace {

using testing::expect_error;
using testing::TempFolder;

constexpr size_t kMost = 100;

TEST(ReadFile, GivesTheFilesBytes) {
    const TempFolder folder;
    const std::string bytes("a\0b\xff", 4);
    folder.write("file", bytes);
    folder.write("empty", "");
    EXPECT_EQ(*read_file(folder.file("file"), kMost), bytes);
    EXPECT_EQ(*read_file(folder.file("empty"), kMost), "");
    EXPECT_EQ(*read_file(folder.file("file"), 4), bytes);
    expect_error(read_file(folder.file("file"), 3), NL_ERROR_BAD_MODEL, {"4 bytes", "expected at most 3"});
}

TEST(OpenFile, ReadsWhatIsThere) {
    const TempFolder folder;
    folder.write("file", "0123456789");
    auto file = OpenFile::open(folder.file("file"));
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ(file->size(), 10U);
    char bytes[4] = {};
    EXPECT_EQ(*file->read_at(3, 4, bytes), 4U);
    EXPECT_EQ(std::string(bytes, 4), "3456");
    EXPECT_EQ(*file->read_at(8, 4, bytes), 2U);
    EXPECT_EQ(*file->read_at(100, 4, bytes), 0U);
    EXPECT_TRUE(file->check_unchanged().ok());
    file->close();
    expect_error(file->read_at(0, 1, bytes), NL_ERROR_IO, {folder.file("file"), "cannot read"});
}

TEST(OpenFile, OutlivesItsNameAndMoves) {
    const TempFolder folder;
    folder.write("file", "still here");
    auto file = OpenFile::open(folder.file("file"));
    ASSERT_TRUE(file.ok());
    std::filesystem::remove(folder.file("file"));
    const OpenFile moved = std::move(*file);
    char bytes[10];
    EXPECT_EQ(*moved.read_at(0, 10, bytes), 10U);
    EXPECT_EQ(std::string(bytes, 10), "still here");
}

TEST(OpenFile, TellsThatTheFileChanged) {
    const TempFolder folder;
    folder.write("file", "0123456789");
    const auto file = OpenFile::open(folder.file("file"));
    ASSERT_TRUE(file.ok());
    ASSERT_EQ(::truncate(folder.file("file").c_str(), 5), 0);
    expect_error(file->check_unchanged(), NL_ERROR_IO, {folder.file("file"), "5 bytes", "expected 10"});
    // As large as before, but written to.
    ASSERT_EQ(::truncate(folder.file("file").c_str(), 10), 0);
    expect_error(file->check_unchanged(), NL_ERROR_IO, {"changed"});
}

TEST(OpenFile, RefusesWhatIsNotARegularFile) {
    const TempFolder folder;
    expect_error(OpenFile::open(folder.file("none")), NL_ERROR_NOT_FOUND, {folder.file("none")});
    expect_error(OpenFile::open(folder.path()), NL_ERROR_BAD_MODEL, {folder.path(), "regular file"});
    ASSERT_EQ(::mkfifo(folder.file("fifo").c_str(), 0600), 0);
    expect_error(OpenFile::open(folder.file("fifo")), NL_ERROR_BAD_MODEL, {"regular file"});  // and does not wait
    folder.write("file", "x");
    expect_error(OpenFile::open(folder.file("file") + std::string("\0y", 2)), NL_ERROR_INVALID_ARGUMENT, {"NUL"});
}

TEST(PlainFileName, HasNoWayOutOfTheFolder) {
    EXPECT_TRUE(is_plain_file_name("model-00001-of-00002.safetensors"));
    EXPECT_TRUE(is_plain_file_name("..model"));
    for (const char* name : {"", ".", "..", "/etc/passwd", "../model", "a/b", "a\\b", "a/"}) {
        EXPECT_FALSE(is_plain_file_name(name)) << name;
    }
    EXPECT_FALSE(is_plain_file_name(std::string_view("a\0b", 3)));
}

}  // namespace
}  // namespace nanolith
