#include "files/open_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace nanolith {
namespace {

std::string system_message(int code) {
    return std::generic_category().message(code);
}

}  // namespace

Result<OpenFile> OpenFile::open(const std::string& path) {
    if (path.find('\0') != std::string::npos) {
        return fail(NL_ERROR_INVALID_ARGUMENT, "the path \"", path.c_str(), "\" goes on after a NUL byte");
    }
    // Non-blocking, so that a FIFO in the folder can't hold up the caller: it is refused below.
    OpenFile file(path, ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file.descriptor_ < 0) {
        const int code = errno;
        const nl_status status =
            code == EMFILE || code == ENFILE || code == ENOMEM ? NL_ERROR_OUT_OF_MEMORY : NL_ERROR_NOT_FOUND;
        return fail(status, "cannot open ", path, ": ", system_message(code));
    }
    if (::fstat(file.descriptor_, &file.facts_) != 0) {
        return fail(NL_ERROR_NOT_FOUND, "cannot read ", path, ": ", system_message(errno));
    }
    if (!S_ISREG(file.facts_.st_mode)) return fail(NL_ERROR_BAD_MODEL, path, " is not a regular file");
    return file;
}

OpenFile::OpenFile(OpenFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), facts_(other.facts_) {}

OpenFile& OpenFile::operator=(OpenFile&& other) noexcept {
    if (this != &other) {
        close();
        path_ = std::move(other.path_);
        descriptor_ = std::exchange(other.descriptor_, -1);
        facts_ = other.facts_;
    }
    return *this;
}

OpenFile::~OpenFile() {
    close();
}

void OpenFile::close() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
}

FileFacts OpenFile::facts() const {
    const auto nanoseconds = [](const timespec& time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; };
    return {.path = path_,
            .device = facts_.st_dev,
            .inode = facts_.st_ino,
            .size = static_cast<uint64_t>(facts_.st_size),
            .modified_ns = nanoseconds(facts_.st_mtim),
            .changed_ns = nanoseconds(facts_.st_ctim)};
}

size_t OpenFile::read_some(size_t offset, size_t count, void* to) const noexcept {
    size_t done = 0;
    errno = 0;
    while (done < count) {
        const ssize_t got =
            ::pread(descriptor_, static_cast<char*>(to) + done, count - done, static_cast<off_t>(offset + done));
        if (got > 0) done += static_cast<size_t>(got);
        if (got == 0 || (got < 0 && errno != EINTR)) break;
        errno = 0;
    }
    return done;
}

Result<size_t> OpenFile::read_at(size_t offset, size_t count, void* to) const {
    const size_t done = read_some(offset, count, to);
    if (done < count && errno != 0)
        return fail(NL_ERROR_IO, "cannot read ", path_, " at byte ", offset + done, ": ", system_message(errno));
    return done;
}

Result<void> OpenFile::check_unchanged() const {
    struct stat now {};
    if (::fstat(descriptor_, &now) != 0) return fail(NL_ERROR_IO, "cannot read ", path_, ": ", system_message(errno));
    if (now.st_size != facts_.st_size)
        return fail(NL_ERROR_IO, path_, " changed while it was read: it has ", now.st_size, " bytes: expected ",
                    facts_.st_size, " as at the beginning");
    if (now.st_mtim.tv_sec != facts_.st_mtim.tv_sec || now.st_mtim.tv_nsec != facts_.st_mtim.tv_nsec)
        return fail(NL_ERROR_IO, path_, " changed while it was read: it was written to: expected a file that stays");
    return {};
}

Result<std::string> read_file(const std::string& path, size_t most) {
    NL_ASSIGN(const OpenFile file, OpenFile::open(path));
    if (file.size() > most)
        return fail(NL_ERROR_BAD_MODEL, path, " has ", file.size(), " bytes: expected at most ", most);
    std::string bytes(file.size(), '\0');
    NL_ASSIGN(const size_t count, file.read_at(0, bytes.size(), bytes.data()));
    if (count < bytes.size())
        return fail(NL_ERROR_IO, path, " changed while it was read: it has ", count, " bytes: expected ", bytes.size(),
                    " as at the beginning");
    NL_TRY(file.check_unchanged());
    return bytes;
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
