// A folder of chunk files that outlive their engine, and that engines of several processes may share. A file is named
// by its chunk: ChunkName::text() and ".chunk". Other files in the folder are left alone. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/result.h"
#include "store/identity.h"

namespace nanolith {

class ChunkFolder {
  public:
    // Is told what was skipped, removed, or could not be done.
    using Warn = std::function<void(const std::string&)>;

    // Makes the folder where there is none, and lists it: names and sizes, no contents. Files whose writers died, and
    // files too short to be whole, are removed. `most_bytes`: of all chunk files together; 0: no limit. IO.
    static Result<std::unique_ptr<ChunkFolder>> open(std::string path, uint64_t most_bytes, Warn warn);

    [[nodiscard]] std::string path_of(const ChunkName& name) const;
    // Where digests of weights are remembered.
    [[nodiscard]] std::string digests_path() const { return path_ + "/weights.digests"; }
    // Whether there is such a file: another process may have written it since the folder was opened. Counts as a use.
    bool find(const ChunkName& name);
    // Whether a file of so many bytes may be written.
    [[nodiscard]] bool fits(uint64_t bytes) const { return most_bytes_ == 0 || bytes <= most_bytes_; }
    // A file has been written. Those used longest ago are removed where the folder has become too large.
    void added(const ChunkName& name);
    // Removes a file that is not what its name says, and tells why.
    void remove(const ChunkName& name, const std::string& why);

    struct Counts {
        int64_t chunks = 0, bytes = 0;
    };
    Counts counts();
    Counts counts_of(const Digest& salt);  // of one tenant

  private:
    ChunkFolder(std::string path, uint64_t most_bytes, Warn warn)
        : path_(std::move(path)), most_bytes_(most_bytes), warn_(std::move(warn)) {}
    Result<void> list();
    void look_at(int folder, const char* name);
    void make_room();

    struct File {
        uint64_t bytes = 0;
        int64_t used_ns = 0;  // since 1970
    };

    const std::string path_;
    const uint64_t most_bytes_;
    const Warn warn_;
    std::mutex mutex_;
    std::unordered_map<std::string, File> files_;  // by name
    uint64_t total_bytes_ = 0;
};

}  // namespace nanolith
