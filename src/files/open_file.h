// Files of a model folder: opened once and read where they are asked for. Nobody vouches for them, and others may
// change them while they are read.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace nanolith {

// Which file it is and in what state: two that are equal are the same bytes, unless somebody sets clocks back.
struct FileFacts {
    std::string path;
    uint64_t device = 0;
    uint64_t inode = 0;
    uint64_t size = 0;        // in bytes
    int64_t modified_ns = 0;  // when its bytes were written, since 1970
    int64_t changed_ns = 0;   // when these or its name or rights were

    bool operator==(const FileFacts&) const = default;
};

// A regular file that is open for reading; closed with the object.
class OpenFile {
  public:
    // NOT_FOUND: there is no such file or it may not be read. BAD_MODEL: it is not a regular file.
    static Result<OpenFile> open(const std::string& path);

    OpenFile(OpenFile&& other) noexcept;
    OpenFile& operator=(OpenFile&& other) noexcept;
    OpenFile(const OpenFile&) = delete;
    OpenFile& operator=(const OpenFile&) = delete;
    ~OpenFile();

    [[nodiscard]] const std::string& path() const { return path_; }
    // In bytes, when it was opened.
    [[nodiscard]] size_t size() const { return static_cast<size_t>(facts_.st_size); }
    [[nodiscard]] int descriptor() const { return descriptor_; }
    [[nodiscard]] FileFacts facts() const;  // when it was opened

    // Reads up to `count` bytes from `offset` on. How many there were: fewer where the file ends before. IO: the system
    // could not read. Thread-safe.
    Result<size_t> read_at(size_t offset, size_t count, void* to) const;
    // The same without an error: how many bytes there were before the end or a failure.
    size_t read_some(size_t offset, size_t count, void* to) const noexcept;
    // IO where the file is no longer as large, or has been written to, since it was opened.
    [[nodiscard]] Result<void> check_unchanged() const;
    // The file's descriptor is given back; nothing can be read afterwards.
    void close();

  private:
    OpenFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

    std::string path_;
    int descriptor_;  // -1: closed
    struct stat facts_ {};
};

// The bytes of a whole file. Beside what opening gives, BAD_MODEL: there are more than `most` bytes; IO: the file
// changed while it was read.
Result<std::string> read_file(const std::string& path, size_t most);

[[nodiscard]] bool file_exists(const std::string& path);

// Whether `name` names a file inside a folder and nothing else: not empty, no separators, not "." or "..", no NUL.
[[nodiscard]] bool is_plain_file_name(std::string_view name);

}  // namespace nanolith
