// The documents that one tenant has put: their texts by id, and which of their chunks are pinned.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "handles.h"
#include "json.h"

namespace server {

struct Document {
    std::string id;  // empty: came with a request and is not kept
    std::string title;
    std::string text;
    int64_t tokens = 0;  // of the chunk that was prefilled when it was put
    int64_t bytes = 0;   // of its pages
    int64_t created = 0;
    bool pinned = false;
    std::vector<Chunk> pinned_chunks;  // guarded by Documents
};

// May be used from any thread. What `find` gives stays whole after `remove`.
class Documents {
  public:
    explicit Documents(size_t most) : most_(most) {}

    // Puts or replaces; an ApiError where there would be too many.
    void put(std::shared_ptr<Document> document);
    // Throws a 404 that blames `param`.
    std::shared_ptr<Document> find(const std::string& id, const std::string& param) const;
    void remove(const std::string& id);
    [[nodiscard]] Json list() const;
    [[nodiscard]] size_t size() const;

    // Whether chunks of the document stay in the device's pages. Unpinning lets go of those pinned so far.
    void set_pinned(const std::string& id, bool pinned);
    // Pins a chunk that was made of a pinned document. At most eight versions of a document are pinned: exact
    // composition makes one for each row of predecessors.
    void pin_if_wanted(const std::shared_ptr<Document>& document, const nl_chunk* chunk);

    // What clients see of a document.
    static Json describe(const Document& document);

  private:
    static void let_go(Document& document);

    mutable std::mutex mutex_;
    std::map<std::string, std::shared_ptr<Document>> documents_;
    size_t most_;
};

}  // namespace server
