#include "files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace nanolith {
namespace {

// Closes a file descriptor at the end of its scope.
class Descriptor {
  public:
    explicit Descriptor(int fd) : fd_(fd) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() {
        if (fd_ >= 0) ::close(fd_);
    }
    [[nodiscard]] int get() const { return fd_; }

  private:
    int fd_;
};

std::string system_message(int code) {
    return std::generic_category().message(code);
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
    if (path.find('\0') != std::string::npos) {
        return fail(NL_ERROR_INVALID_ARGUMENT, "the path \"", path.c_str(), "\" goes on after a NUL byte");
    }
    // Non-blocking, so that a FIFO in the folder can't hold up the caller: it is refused below.
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file.get() < 0) {
        const int code = errno;
        const nl_status status =
            code == EMFILE || code == ENFILE || code == ENOMEM ? NL_ERROR_OUT_OF_MEMORY : NL_ERROR_NOT_FOUND;
        return fail(status, "cannot open ", path, ": ", system_message(code));
    }
    struct stat info {};
    if (::fstat(file.get(), &info) != 0) {
        return fail(NL_ERROR_NOT_FOUND, "cannot read ", path, ": ", system_message(errno));
    }
    if (!S_ISREG(info.st_mode)) return fail(NL_ERROR_BAD_MODEL, path, " is not a regular file");
    const auto size = static_cast<size_t>(info.st_size);
    if (size == 0) return MappedFile(nullptr, 0);
    void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (data == MAP_FAILED) {
        return fail(NL_ERROR_OUT_OF_MEMORY, "cannot map the ", size, " bytes of ", path, ": ", system_message(errno));
    }
    return MappedFile(static_cast<const std::byte*>(data), size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
    if (this != &other) {
        unmap();
        data_ = std::exchange(other.data_, nullptr);
        size_ = std::exchange(other.size_, 0);
    }
    return *this;
}

MappedFile::~MappedFile() {
    unmap();
}

void MappedFile::unmap() {
    if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

std::string_view MappedFile::text() const {
    return {reinterpret_cast<const char*>(data_), size_};
}

bool file_exists(const std::string& path) {
    struct stat info {};
    return path.find('\0') == std::string::npos && ::stat(path.c_str(), &info) == 0;
}

bool is_plain_file_name(std::string_view name) {
    using namespace std::string_view_literals;
    return !name.empty() && name != "." && name != ".." && name.find_first_of("/\\\0"sv) == std::string_view::npos;
}

}  // namespace nanolith
