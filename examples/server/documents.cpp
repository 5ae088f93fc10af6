#include "documents.h"

#include "api_error.h"

namespace server {
namespace {

constexpr size_t kMostPinned = 8;

}  // namespace

void Documents::put(std::shared_ptr<Document> document) {
    const std::lock_guard lock(mutex_);
    const auto found = documents_.find(document->id);
    if (found == documents_.end()) {
        if (documents_.size() >= most_)
            throw bad_request("", "There are " + std::to_string(most_) + " documents already, as many as may be kept.",
                              "too_many_documents");
        documents_.emplace(document->id, std::move(document));
        return;
    }
    let_go(*found->second);
    found->second = std::move(document);
}

std::shared_ptr<Document> Documents::find(const std::string& id, const std::string& param) const {
    const std::lock_guard lock(mutex_);
    const auto found = documents_.find(id);
    if (found == documents_.end()) throw not_found(param, "There is no document " + id + ".", "document_not_found");
    return found->second;
}

void Documents::remove(const std::string& id) {
    const std::lock_guard lock(mutex_);
    const auto found = documents_.find(id);
    if (found == documents_.end()) throw not_found("id", "There is no document " + id + ".", "document_not_found");
    let_go(*found->second);
    documents_.erase(found);
}

Json Documents::list() const {
    const std::lock_guard lock(mutex_);
    Json list = Json::array();
    for (const auto& [id, document] : documents_) list.push_back(describe(*document));
    return list;
}

size_t Documents::size() const {
    const std::lock_guard lock(mutex_);
    return documents_.size();
}

void Documents::set_pinned(const std::string& id, bool pinned) {
    const std::lock_guard lock(mutex_);
    const auto found = documents_.find(id);
    if (found == documents_.end()) throw not_found("id", "There is no document " + id + ".", "document_not_found");
    if (pinned) {
        found->second->pinned = true;
    } else {
        let_go(*found->second);
    }
}

void Documents::pin_if_wanted(const std::shared_ptr<Document>& document, const nl_chunk* chunk) {
    const std::lock_guard lock(mutex_);
    if (!document->pinned || document->pinned_chunks.size() >= kMostPinned) return;
    if (fact(chunk, NL_CHUNK_PRIORITY) == NL_PRIORITY_PINNED) return;
    Chunk again = made<Chunk>([&](nl_chunk** out) { return nl_chunk_retain(chunk, out); });
    must(nl_chunk_set_priority(again.get(), NL_PRIORITY_PINNED));
    document->pinned_chunks.push_back(std::move(again));
}

void Documents::let_go(Document& document) {
    for (const Chunk& chunk : document.pinned_chunks) must(nl_chunk_set_priority(chunk.get(), NL_PRIORITY_NORMAL));
    document.pinned_chunks.clear();
    document.pinned = false;
}

Json Documents::describe(const Document& document) {
    return {{"id", document.id},
            {"object", "chunk"},
            {"title", document.title},
            {"created", document.created},
            {"tokens", document.tokens},
            {"bytes", document.bytes},
            {"characters", document.text.size()},
            {"pinned", document.pinned}};
}

}  // namespace server
