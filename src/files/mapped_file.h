// Files as memory: a read-only mapping of a whole file, and the path rules for names that come out of files.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace nanolith {

// A whole regular file mapped read-only; unmapped with the object. Pages are read when they are first touched, so
// opening costs nothing whatever the size. A file that shrinks while it is mapped makes reads fault (SIGBUS).
// The bytes do not move when the object does.
class MappedFile {
  public:
    // NOT_FOUND: there is no such file or it may not be read. BAD_MODEL: it is not a regular file.
    static Result<MappedFile> open(const std::string& path);

    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&& other) noexcept;
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;
    ~MappedFile();

    [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }
    // The same bytes as characters.
    [[nodiscard]] std::string_view text() const;

  private:
    MappedFile(const std::byte* data, size_t size) : data_(data), size_(size) {}
    void unmap();

    const std::byte* data_ = nullptr;  // null for an empty file
    size_t size_ = 0;
};

[[nodiscard]] bool file_exists(const std::string& path);

// Whether `name` names a file inside a folder and nothing else: not empty, no separators, not "." or "..", no NUL.
[[nodiscard]] bool is_plain_file_name(std::string_view name);

}  // namespace nanolith
