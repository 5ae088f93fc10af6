// A file that is whole or not there: it is written under another name in the same folder, brought to the disk, and only
// then named. The name that it has until then begins with kTemporaryPrefix, and its writer holds a lock on it, so that
// others can tell it from one whose writer has died.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace nanolith {

class OutputFile {
  public:
    static constexpr std::string_view kTemporaryPrefix = ".nanolith-";

    // IO with the system's words: the folder is missing, read-only and so on. OUT_OF_MEMORY: no descriptors are left.
    static Result<OutputFile> create(const std::string& path);
    OutputFile(OutputFile&& other) noexcept;
    OutputFile& operator=(OutputFile&&) = delete;
    ~OutputFile();  // what was not finished is gone

    Result<void> write(std::span<const std::byte> bytes);
    // Brings the file to the disk and gives it its name, in place of a file that had it.
    Result<void> finish();

  private:
    OutputFile(std::string path, std::string temporary, int descriptor);
    Error io_error(const char* what, const std::string& path) const;

    std::string path_;
    std::string temporary_;  // empty: it has its name
    int descriptor_;
};

// A file of these bytes.
Result<void> write_file(const std::string& path, std::string_view bytes);

// Removes a file with a temporary name whose writer has died. True: it did.
bool remove_orphan(const std::string& path) noexcept;

// "/a/b" of "/a/b/c"; "." of "c".
std::string folder_of(const std::string& path);

}  // namespace nanolith
