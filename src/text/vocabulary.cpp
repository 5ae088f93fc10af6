#include "text/vocabulary.h"

#include <algorithm>
#include <utility>

namespace nanolith {
namespace {

// Published vocabularies leave few ids unused.
constexpr uint64_t kMaxUnusedIds = 1U << 16U;

}  // namespace

Result<Vocabulary> Vocabulary::read(const Json& json, const std::string& where) {
    const auto* const members = json.as<Json::Object>();
    if (members == nullptr)
        return fail(NL_ERROR_BAD_MODEL, where, ": model.vocab is ", show_json(json), ": expected an object");
    const uint64_t limit = members->size() + kMaxUnusedIds;
    uint64_t size = 0;
    for (const JsonMember& member : *members) {
        const auto* const id = member.value.as<uint64_t>();
        if (id == nullptr || *id >= limit)
            return fail(NL_ERROR_BAD_MODEL, where, ": model.vocab has ", show_json(member.name), " as ",
                        show_json(member.value), ": expected an id from 0 to ", limit - 1, " among ", members->size(),
                        " pieces");
        size = std::max(size, *id + 1);
    }
    Vocabulary vocabulary;
    vocabulary.pieces_.resize(size);
    std::vector<bool> used(size);
    for (const JsonMember& member : *members) {
        const uint64_t id = *member.value.as<uint64_t>();
        if (used[id])
            return fail(NL_ERROR_BAD_MODEL, where, ": model.vocab has the id ", id, " for ", show_json(member.name),
                        " and for ", show_json(vocabulary.pieces_[id]));
        used[id] = true;
        vocabulary.pieces_[id] = member.name;
        vocabulary.longest_ = std::max(vocabulary.longest_, member.name.size());
    }
    vocabulary.ids_.reserve(members->size());
    for (const JsonMember& member : *members) {
        const uint64_t id = *member.value.as<uint64_t>();
        vocabulary.ids_.emplace(vocabulary.pieces_[id], static_cast<int32_t>(id));
    }
    return vocabulary;
}

Vocabulary::Vocabulary(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {
    ids_.reserve(pieces_.size());
    for (size_t id = 0; id < pieces_.size(); ++id) {
        ids_.insert_or_assign(pieces_[id], static_cast<int32_t>(id));
        longest_ = std::max(longest_, pieces_[id].size());
    }
}

Result<void> check_piece_lengths(const Vocabulary& vocabulary, const std::string& where) {
    constexpr size_t kMaxBytes = 512;
    if (vocabulary.longest() <= kMaxBytes) return {};
    return fail(NL_ERROR_UNSUPPORTED, where, ": the vocabulary has a piece of ", vocabulary.longest(),
                " bytes: expected at most ", kMaxBytes);
}

}  // namespace nanolith
