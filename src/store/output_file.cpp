#include "store/output_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <utility>

#include "store/system_text.h"

namespace nanolith {
namespace {

constexpr int kTries = 100;  // names that are taken, or that another process takes for an orphan's

// A name that no other writer has, on this machine or on another that shares the folder: the file's own inode number is
// not known yet, so it is made of the process, the time and a count, and tried.
std::string temporary_name(int attempt) {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    std::string name(OutputFile::kTemporaryPrefix);
    for (const long part : {static_cast<long>(::getpid()), static_cast<long>(now.tv_sec), now.tv_nsec})
        name += std::to_string(part) + "-";
    return name + std::to_string(attempt);
}

// Whether the file still has a name: nobody took it for an orphan's before it was locked.
bool has_name(int descriptor) {
    struct stat facts {};
    return ::fstat(descriptor, &facts) == 0 && facts.st_nlink > 0;
}

Result<void> sync_folder(const std::string& path) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return fail(NL_ERROR_IO, "cannot open ", path, ": ", system_text(errno));
    const int code = ::fsync(descriptor) == 0 ? 0 : errno;
    ::close(descriptor);
    // Some file systems have no folders that can be brought to the disk.
    if (code != 0 && code != EINVAL && code != ENOTSUP)
        return fail(NL_ERROR_IO, "cannot bring ", path, " to the disk: ", system_text(code));
    return {};
}

}  // namespace

std::string folder_of(const std::string& path) {
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return ".";
    return slash == 0 ? "/" : path.substr(0, slash);
}

Result<OutputFile> OutputFile::create(const std::string& path) {
    const std::string folder = folder_of(path);
    for (int attempt = 0;; ++attempt) {
        std::string temporary = folder + "/" + temporary_name(attempt);
        std::string named = path;  // copied before there is a file to lose
        const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor < 0) {
            if (errno == EEXIST && attempt < kTries) continue;
            const int code = errno;
            const nl_status status = code == EMFILE || code == ENFILE ? NL_ERROR_OUT_OF_MEMORY : NL_ERROR_IO;
            return fail(status, "cannot make a file in ", folder, ": ", system_text(code));
        }
        OutputFile file(std::move(named), std::move(temporary), descriptor);
        // A file system without locks: its orphans stay.
        if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
            if (has_name(descriptor) || attempt >= kTries) return file;
        }
    }
}

OutputFile::OutputFile(std::string path, std::string temporary, int descriptor)
    : path_(std::move(path)), temporary_(std::move(temporary)), descriptor_(descriptor) {}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

OutputFile::~OutputFile() {
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
    if (descriptor_ >= 0) ::close(descriptor_);
}

Error OutputFile::io_error(const char* what, const std::string& path) const {
    const int code = errno;
    return fail(NL_ERROR_IO, "cannot ", what, " ", path, ": ", system_text(code));
}

Result<void> OutputFile::write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
        if (count < 0 && errno == EINTR) continue;
        if (count == 0) errno = ENOSPC;
        if (count <= 0) return io_error("write", path_);
        bytes = bytes.subspan(static_cast<size_t>(count));
    }
    return {};
}

Result<void> OutputFile::finish() {
    const std::string folder = folder_of(path_);  // before the file has its name, since there may be no memory for it
    if (::fsync(descriptor_) != 0) return io_error("bring to the disk", path_);
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) return io_error("name", path_);
    temporary_.clear();
    const int descriptor = std::exchange(descriptor_, -1);
    if (::close(descriptor) != 0 && errno != EINTR) return io_error("close", path_);
    return sync_folder(folder);
}

Result<void> write_file(const std::string& path, std::string_view bytes) {
    NL_ASSIGN(OutputFile file, OutputFile::create(path));
    NL_TRY(file.write(std::as_bytes(std::span(bytes))));
    return file.finish();
}

bool remove_orphan(const std::string& path) noexcept {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor < 0) return false;
    const bool orphan = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
    const bool removed = orphan && ::unlink(path.c_str()) == 0;
    ::close(descriptor);
    return removed;
}

}  // namespace nanolith
