#include "store/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <vector>

#include "store/format.h"
#include "store/output_file.h"
#include "store/system_text.h"

namespace nanolith {
namespace {

constexpr std::string_view kEnding = ".chunk";

std::string file_name(const ChunkName& name) {
    return name.text() + std::string(kEnding);
}

bool is_hex(std::string_view text, size_t digits) {
    return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool is_chunk_name(std::string_view name) {
    if (!name.ends_with(kEnding)) return false;
    name.remove_suffix(kEnding.size());
    if (name.size() > kSaltDigits && name[kSaltDigits] == '-') {
        if (!is_hex(name.substr(0, kSaltDigits), kSaltDigits)) return false;
        name.remove_prefix(kSaltDigits + 1);
    }
    return is_hex(name, 2 * sizeof(Digest));
}

// The time of the latest use, which every process can see: that of the file's bytes, set anew by each use.
int64_t used_at(const struct stat& facts) {
    return int64_t{facts.st_mtim.tv_sec} * 1'000'000'000 + facts.st_mtim.tv_nsec;
}

struct CloseFolder {
    void operator()(DIR* folder) const { ::closedir(folder); }
};

}  // namespace

Result<std::unique_ptr<ChunkFolder>> ChunkFolder::open(std::string path, uint64_t most_bytes, Warn warn) {
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) {
        const int code = errno;
        return fail(NL_ERROR_IO, "cannot make the folder ", path, ": ", system_text(code));
    }
    std::unique_ptr<ChunkFolder> folder(new ChunkFolder(std::move(path), most_bytes, std::move(warn)));
    const std::lock_guard lock(folder->mutex_);
    NL_TRY(folder->list());
    folder->make_room();
    return folder;
}

Result<void> ChunkFolder::list() {
    files_.clear();
    total_bytes_ = 0;
    const std::unique_ptr<DIR, CloseFolder> folder(::opendir(path_.c_str()));
    if (folder == nullptr) {
        const int code = errno;
        return fail(NL_ERROR_IO, "cannot list ", path_, ": ", system_text(code));
    }
    while (const dirent* const entry = ::readdir(folder.get())) look_at(::dirfd(folder.get()), entry->d_name);
    return {};
}

void ChunkFolder::look_at(int folder, const char* name) {
    const std::string_view text(name);
    if (text.starts_with(OutputFile::kTemporaryPrefix)) {
        if (remove_orphan(path_ + "/" + name)) warn_(path_ + "/" + name + ": removed: its writer has died");
        return;
    }
    struct stat facts {};
    if (!is_chunk_name(text) || ::fstatat(folder, name, &facts, AT_SYMLINK_NOFOLLOW) != 0) return;
    if (!S_ISREG(facts.st_mode)) return warn_(path_ + "/" + name + ": skipped: it is not a regular file");
    const auto bytes = static_cast<uint64_t>(facts.st_size);
    if (bytes < kHeaderBytes) {
        const bool removed = ::unlinkat(folder, name, 0) == 0;
        return warn_(path_ + "/" + name + (removed ? ": removed" : ": skipped") + ": it has only " +
                     std::to_string(bytes) + " bytes");
    }
    files_[name] = {bytes, used_at(facts)};
    total_bytes_ += bytes;
}

std::string ChunkFolder::path_of(const ChunkName& name) const {
    return path_ + "/" + file_name(name);
}

bool ChunkFolder::find(const ChunkName& name) {
    const std::string path = path_of(name);
    struct stat facts {};
    const bool there = ::stat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode);
    if (there) ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // for the order of eviction; may be refused
    const std::lock_guard lock(mutex_);
    const auto known = files_.find(file_name(name));
    if (known != files_.end()) {
        total_bytes_ -= known->second.bytes;
        files_.erase(known);
    }
    if (!there) return false;
    files_[file_name(name)] = {static_cast<uint64_t>(facts.st_size), used_at(facts)};
    total_bytes_ += static_cast<uint64_t>(facts.st_size);
    return true;
}

void ChunkFolder::added(const ChunkName& name) {
    find(name);
    const std::lock_guard lock(mutex_);
    if (most_bytes_ == 0 || total_bytes_ <= most_bytes_) return;
    // Others may have written, used and removed files meanwhile.
    if (const auto listed = list(); !listed.ok()) return warn_(listed.error().message);
    make_room();
}

void ChunkFolder::make_room() {
    if (most_bytes_ == 0 || total_bytes_ <= most_bytes_) return;
    std::vector<std::pair<int64_t, std::string>> oldest_first;
    oldest_first.reserve(files_.size());
    for (const auto& [name, file] : files_) oldest_first.emplace_back(file.used_ns, name);
    std::ranges::sort(oldest_first);
    for (const auto& [used, name] : oldest_first) {
        if (total_bytes_ <= most_bytes_) return;
        const std::string path = path_ + "/" + name;
        if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
            const int code = errno;
            return warn_("cannot remove " + path + ": " + system_text(code));
        }
        total_bytes_ -= files_[name].bytes;
        files_.erase(name);
    }
}

void ChunkFolder::remove(const ChunkName& name, const std::string& why) {
    const bool removed = ::unlink(path_of(name).c_str()) == 0;
    warn_((removed ? "removed " : "skipped ") + why);
    const std::lock_guard lock(mutex_);
    const auto known = files_.find(file_name(name));
    if (known == files_.end()) return;
    total_bytes_ -= known->second.bytes;
    files_.erase(known);
}

ChunkFolder::Counts ChunkFolder::counts() {
    const std::lock_guard lock(mutex_);
    return {static_cast<int64_t>(files_.size()), static_cast<int64_t>(total_bytes_)};
}

ChunkFolder::Counts ChunkFolder::counts_of(const Digest& salt) {
    const std::string prefix = salt_text(salt) + "-";
    const std::lock_guard lock(mutex_);
    Counts counts;
    for (const auto& [name, file] : files_) {
        if (!name.starts_with(prefix)) continue;
        ++counts.chunks;
        counts.bytes += static_cast<int64_t>(file.bytes);
    }
    return counts;
}

}  // namespace nanolith
