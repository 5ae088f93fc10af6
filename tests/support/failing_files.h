// Replaces the C library's functions for files of a program and of the libraries that it uses, so that a test can let
// them fail at random below one folder. Include it in one source file of the program.
#pragma once

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>

#include "support/shared_draws.h"

namespace nanolith::test::failing_files {

// How the disk behind the folder is.
enum class Disk {
    works,
    fails,     // one call in `one_in` fails with an error that it may have; reads and writes are cut short too
    full,      // nothing more can be written
    read_only  // nothing can be changed
};

inline std::atomic<Disk> disk = Disk::works;
inline std::atomic<uint32_t> one_in = 10;  // of Disk::fails
inline std::atomic<uint64_t> draws = 0;    // state of the random numbers that decide which calls fail; set it to a seed
inline std::string folder;                 // calls upon files below it fail; to be set while the disk works
inline std::atomic<int64_t> failures = 0;
inline std::atomic<int64_t> kept = 0;  // files that could not be removed
// Descriptors of files below the folder.
inline std::array<std::atomic<bool>, 4096> watched = {};

inline uint64_t draw() {
    return next_draw(draws);
}

inline bool is_meant(const char* path) {
    return disk != Disk::works && !folder.empty() && std::strncmp(path, folder.c_str(), folder.size()) == 0;
}
inline bool is_meant(int descriptor) {
    return disk != Disk::works && descriptor >= 0 && descriptor < static_cast<int>(watched.size()) &&
           watched[static_cast<size_t>(descriptor)];
}
inline void watch(int descriptor, bool meant) {
    if (descriptor >= 0 && descriptor < static_cast<int>(watched.size()))
        watched[static_cast<size_t>(descriptor)] = meant;
}

inline bool fail_with(int code) {
    ++failures;
    errno = code;
    return true;
}
// Whether a call that reads fails now; errno then says how.
inline bool read_fails(std::initializer_list<int> codes) {
    if (disk != Disk::fails || draw() % one_in != 0) return false;
    return fail_with(codes.begin()[draw() % codes.size()]);
}
// The same of one that changes something; `grows`: which needs room.
inline bool change_fails(std::initializer_list<int> codes, bool grows) {
    if (disk == Disk::read_only) return fail_with(EROFS);
    if (disk == Disk::full && grows) return fail_with(ENOSPC);
    return read_fails(codes);
}
// How much of `count` bytes is read or written.
inline size_t cut(size_t count) {
    if (disk != Disk::fails || count < 2 || draw() % one_in != 0) return count;
    ++failures;
    return 1 + draw() % (count - 1);
}

template <typename Function>
Function* original(Function* /*replacement*/, const char* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace nanolith::test::failing_files

// Declares original_NAME: the C library's function NAME, which the function NAME below replaces and calls.
#define NL_ORIGINAL(name) static auto* const original_##name = nanolith::test::failing_files::original(&(name), #name)

// Visible, so that libraries call them.
#pragma GCC visibility push(default)
extern "C" {
int open(const char* path, int flags, ...) {
    using namespace nanolith::test::failing_files;
    NL_ORIGINAL(open);
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    const bool meant = is_meant(path);
    const bool changes = (flags & (O_WRONLY | O_RDWR | O_CREAT)) != 0;
    if (meant && changes && change_fails({ENOSPC, EIO, EACCES, EMFILE, EINTR}, true)) return -1;
    if (meant && !changes && read_fails({EIO, EACCES, EMFILE, EINTR})) return -1;
    const int descriptor = original_open(path, flags, mode);
    watch(descriptor, meant);
    return descriptor;
}
int close(int descriptor) {
    using namespace nanolith::test::failing_files;
    NL_ORIGINAL(close);
    const bool meant = is_meant(descriptor);
    watch(descriptor, false);
    const int outcome = original_close(descriptor);
    return meant && read_fails({EIO, EINTR, ENOSPC}) ? -1 : outcome;  // it is closed all the same
}
ssize_t pread(int descriptor, void* to, size_t count, off_t offset) {
    using namespace nanolith::test::failing_files;
    NL_ORIGINAL(pread);
    if (!is_meant(descriptor)) return original_pread(descriptor, to, count, offset);
    if (read_fails({EIO, EINTR})) return -1;
    return original_pread(descriptor, to, cut(count), offset);
}
ssize_t write(int descriptor, const void* from, size_t count) {
    using namespace nanolith::test::failing_files;
    NL_ORIGINAL(write);
    if (!is_meant(descriptor)) return original_write(descriptor, from, count);
    if (change_fails({ENOSPC, EIO, EINTR, EDQUOT}, true)) return -1;
    return original_write(descriptor, from, cut(count));
}
int fsync(int descriptor) {
    using namespace nanolith::test::failing_files;
    NL_ORIGINAL(fsync);
    return is_meant(descriptor) && read_fails({EIO, ENOSPC, EINTR}) ? -1 : original_fsync(descriptor);
}
int flock(int descriptor, int operation) noexcept {
    using namespace nanolith::test::failing_files;
    NL_ORIGINAL(flock);
    return is_meant(descriptor) && read_fails({ENOLCK, EINTR}) ? -1 : original_flock(descriptor, operation);
}
int rename(const char* from, const char* to) noexcept {
    using namespace nanolith::test::failing_files;
    NL_ORIGINAL(rename);
    return is_meant(to) && change_fails({ENOSPC, EIO, EACCES}, false) ? -1 : original_rename(from, to);
}
int unlink(const char* path) noexcept {
    using namespace nanolith::test::failing_files;
    NL_ORIGINAL(unlink);
    if (!is_meant(path) || !change_fails({EIO, EACCES, EBUSY}, false)) return original_unlink(path);
    ++kept;
    return -1;
}
int unlinkat(int at, const char* path, int flags) noexcept {
    using namespace nanolith::test::failing_files;
    NL_ORIGINAL(unlinkat);
    return is_meant(at) && change_fails({EIO, EACCES}, false) ? -1 : original_unlinkat(at, path, flags);
}
int mkdir(const char* path, mode_t mode) noexcept {
    using namespace nanolith::test::failing_files;
    NL_ORIGINAL(mkdir);
    return is_meant(path) && change_fails({ENOSPC, EIO, EACCES}, true) ? -1 : original_mkdir(path, mode);
}
int utimensat(int at, const char* path, const timespec* times, int flags) noexcept {
    using namespace nanolith::test::failing_files;
    NL_ORIGINAL(utimensat);
    return is_meant(path) && change_fails({EIO, EACCES}, false) ? -1 : original_utimensat(at, path, times, flags);
}
int stat(const char* path, struct stat* facts) noexcept {
    using namespace nanolith::test::failing_files;
    static const auto original_stat = reinterpret_cast<int (*)(const char*, struct stat*)>(dlsym(RTLD_NEXT, "stat"));
    return is_meant(path) && read_fails({EIO, EACCES}) ? -1 : original_stat(path, facts);
}
int fstat(int descriptor, struct stat* facts) noexcept {
    using namespace nanolith::test::failing_files;
    NL_ORIGINAL(fstat);
    return is_meant(descriptor) && read_fails({EIO}) ? -1 : original_fstat(descriptor, facts);
}
DIR* opendir(const char* path) {
    using namespace nanolith::test::failing_files;
    NL_ORIGINAL(opendir);
    if (is_meant(path) && read_fails({EIO, EMFILE, EACCES})) return nullptr;
    DIR* const listed = original_opendir(path);
    if (listed != nullptr) watch(dirfd(listed), is_meant(path));
    return listed;
}
int closedir(DIR* listed) {
    using namespace nanolith::test::failing_files;
    NL_ORIGINAL(closedir);
    watch(dirfd(listed), false);
    return original_closedir(listed);
}
}
#pragma GCC visibility pop
