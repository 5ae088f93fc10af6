#include "files/mapped_file.h"

#include <sys/stat.h>

#include <cstring>

#include "support/model_files.h"

namespace nanolith {
namespace {

using testing::expect_error;
using testing::TempFolder;

TEST(MappedFile, HasTheFilesBytes) {
    const TempFolder folder;
    const std::string bytes("a\0b\xff", 4);
    folder.write("file", bytes);
    const auto file = MappedFile::open(folder.file("file"));
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ(file->text(), bytes);
    EXPECT_EQ(file->bytes().size(), 4U);
}

TEST(MappedFile, AnEmptyFileHasNoBytes) {
    const TempFolder folder;
    folder.write("empty", "");
    const auto file = MappedFile::open(folder.file("empty"));
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_TRUE(file->bytes().empty());
    EXPECT_TRUE(file->text().empty());
}

TEST(MappedFile, BytesStayWhereTheyAreWhenItMoves) {
    const TempFolder folder;
    folder.write("one", "one");
    folder.write("two", "two");
    auto one = MappedFile::open(folder.file("one"));
    auto two = MappedFile::open(folder.file("two"));
    ASSERT_TRUE(one.ok() && two.ok());
    const std::byte* data = one->bytes().data();
    *two = std::move(*one);
    EXPECT_EQ(two->bytes().data(), data);
    EXPECT_EQ(two->text(), "one");
    EXPECT_TRUE(one->bytes().empty());  // NOLINT(bugprone-use-after-move): moved-from is empty by contract
}

TEST(MappedFile, OutlivesItsName) {
    const TempFolder folder;
    folder.write("file", "still here");
    const auto file = MappedFile::open(folder.file("file"));
    ASSERT_TRUE(file.ok());
    std::filesystem::remove(folder.file("file"));
    EXPECT_EQ(file->text(), "still here");
}

TEST(MappedFile, RefusesWhatIsNotARegularFile) {
    const TempFolder folder;
    expect_error(MappedFile::open(folder.file("none")), NL_ERROR_NOT_FOUND, {folder.file("none")});
    expect_error(MappedFile::open(folder.path()), NL_ERROR_BAD_MODEL, {folder.path(), "regular file"});
    ASSERT_EQ(::mkfifo(folder.file("fifo").c_str(), 0600), 0);
    expect_error(MappedFile::open(folder.file("fifo")), NL_ERROR_BAD_MODEL, {"regular file"});  // and does not wait
    folder.write("file", "x");
    expect_error(MappedFile::open(folder.file("file") + std::string("\0y", 2)), NL_ERROR_INVALID_ARGUMENT, {"NUL"});
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
