#include "text/bpe.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "files/json_fields.h"
#include "text/byte_level.h"
#include "text/unicode.h"

namespace nanolith {
namespace {

// How vocabularies with byte fallback write a space: U+2581.
constexpr std::string_view kSpace = "\xE2\x96\x81";

std::string byte_token_name(uint32_t byte) {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    return std::string("<0x") + kDigits[byte >> 4U] + kDigits[byte & 15U] + ">";
}

struct Pair {
    std::string_view left;
    std::string_view right;
};

// Published files have both ways of writing a merge.
std::optional<Pair> read_pair(const Json& json) {
    if (const auto* text = json.as<std::string>()) {
        const size_t space = text->find(' ');
        if (space == std::string::npos || text->find(' ', space + 1) != std::string::npos) return std::nullopt;
        const std::string_view view = *text;
        return Pair{view.substr(0, space), view.substr(space + 1)};
    }
    const auto* const two = json.as<Json::Array>();
    if (two == nullptr || two->size() != 2) return std::nullopt;
    const auto* const left = (*two)[0].as<std::string>();
    const auto* const right = (*two)[1].as<std::string>();
    if (left == nullptr || right == nullptr) return std::nullopt;
    return Pair{*left, *right};
}

struct PlacedMerge {
    int32_t left;
    MergeTable::Merge merge;
    bool space_inside;  // a space behind something else
};

Result<PlacedMerge> read_merge(const Json& json, size_t rank, const Vocabulary& vocabulary, const std::string& where) {
    const auto pair = read_pair(json);
    if (!pair || pair->left.empty() || pair->right.empty())
        return fail(NL_ERROR_BAD_MODEL, where, ": model.merges[", rank, "] is ", show_json(json),
                    ": expected two pieces");
    const std::string merged = std::string(pair->left).append(pair->right);
    for (const std::string_view piece : {pair->left, pair->right, std::string_view(merged)}) {
        if (vocabulary.find(piece) < 0)
            return fail(NL_ERROR_BAD_MODEL, where, ": model.merges[", rank, "] is ", show_json(json), ", but ",
                        show_json(piece), " is not in model.vocab");
    }
    return PlacedMerge{vocabulary.find(pair->left),
                       {vocabulary.find(pair->right), static_cast<int32_t>(rank), vocabulary.find(merged)},
                       pair->right.starts_with(kSpace) && !pair->left.ends_with(kSpace)};
}

size_t hash_of(std::string_view word) {
    uint64_t hash = 0xCBF29CE484222325U;
    for (; word.size() >= 8; word.remove_prefix(8)) {
        uint64_t part = 0;
        std::memcpy(&part, word.data(), 8);
        hash = (hash ^ part) * 0x9E3779B97F4A7C15U;
        hash ^= hash >> 29U;
    }
    uint64_t part = word.size() << 56U;
    std::memcpy(&part, word.data(), word.size());
    hash = (hash ^ part) * 0x9E3779B97F4A7C15U;
    return hash ^ hash >> 32U;
}

}  // namespace

Result<MergeTable> MergeTable::read(const Json& json, const Vocabulary& vocabulary, const std::string& where) {
    const auto* const list = json.as<Json::Array>();
    if (list == nullptr)
        return fail(NL_ERROR_BAD_MODEL, where, ": model.merges is ", show_json(json), ": expected an array");
    if (list->size() > INT32_MAX) return fail(NL_ERROR_BAD_MODEL, where, ": model.merges has too many entries");
    std::vector<PlacedMerge> placed;
    placed.reserve(list->size());
    for (size_t rank = 0; rank < list->size(); ++rank) {
        // Files converted from merges.txt may have kept its first line.
        if (const auto* text = (*list)[rank].as<std::string>(); text != nullptr && text->starts_with("#version"))
            continue;
        NL_ASSIGN(const PlacedMerge merge, read_merge((*list)[rank], rank, vocabulary, where));
        placed.push_back(merge);
    }
    const auto key = [](const PlacedMerge& m) { return std::pair(m.left, m.merge.right); };
    std::stable_sort(placed.begin(), placed.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
    MergeTable table;
    table.groups_.assign(static_cast<size_t>(vocabulary.size()) + 1, 0);
    for (size_t i = 0; i < placed.size(); ++i) {
        if (i + 1 < placed.size() && key(placed[i]) == key(placed[i + 1])) continue;  // of two the latter counts
        table.merges_.push_back(placed[i].merge);
        if (placed[i].space_inside) table.keeps_spaces_first_ = false;
        ++table.groups_[static_cast<size_t>(placed[i].left) + 1];
    }
    for (size_t token = 1; token < table.groups_.size(); ++token) table.groups_[token] += table.groups_[token - 1];
    return table;
}

const MergeTable::Merge* MergeTable::find(int32_t left, int32_t right) const {
    const auto begin = merges_.begin() + groups_[static_cast<size_t>(left)];
    const auto end = merges_.begin() + groups_[static_cast<size_t>(left) + 1];
    const auto found =
        std::lower_bound(begin, end, right, [](const Merge& merge, int32_t token) { return merge.right < token; });
    return found != end && found->right == right ? &*found : nullptr;
}

Result<Bpe> Bpe::read(const Json& json, bool byte_level, const std::string& where) {
    const JsonFields fields(json, where, "model.");
    Bpe bpe;
    bpe.byte_level_ = byte_level;
    for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
        NL_ASSIGN(const std::string affix, fields.string_or(name, ""));
        if (!affix.empty()) return fields.wrong(name, "none, the only one supported", NL_ERROR_UNSUPPORTED);
    }
    if (const Json* dropout = fields.find("dropout"); dropout != nullptr) {
        const auto* const number = dropout->as<double>();
        const auto* const integer = dropout->as<uint64_t>();
        if ((number == nullptr || *number != 0) && (integer == nullptr || *integer != 0))
            return fields.wrong("dropout", "none, the only one supported", NL_ERROR_UNSUPPORTED);
    }
    NL_ASSIGN(bpe.fuse_unk_, fields.boolean_or("fuse_unk", false));
    NL_ASSIGN(bpe.byte_fallback_, fields.boolean_or("byte_fallback", false));
    NL_ASSIGN(bpe.ignore_merges_, fields.boolean_or("ignore_merges", false));
    const Json* const vocab = fields.find("vocab");
    const Json* const merges = fields.find("merges");
    if (vocab == nullptr) return fields.wrong("vocab", "an object");
    if (merges == nullptr) return fields.wrong("merges", "an array");
    NL_ASSIGN(bpe.vocabulary_, Vocabulary::read(*vocab, where));
    NL_ASSIGN(bpe.merges_, MergeTable::read(*merges, bpe.vocabulary_, where));
    NL_TRY(bpe.read_unk(json, where));
    bpe.fill_tables();
    bpe.cuts_at_spaces_ =
        !byte_level && !bpe.ignore_merges_ && bpe.merges_.keeps_spaces_first() && bpe.vocabulary_.find(kSpace) >= 0;
    return bpe;
}

Result<void> Bpe::read_unk(const Json& json, const std::string& where) {
    const JsonFields fields(json, where, "model.");
    if (fields.find("unk_token") == nullptr) return {};
    NL_ASSIGN(const std::string unk, fields.string_or("unk_token", ""));
    unk_ = vocabulary_.find(unk);
    if (unk_ < 0) return fields.wrong("unk_token", "a piece of model.vocab");
    return {};
}

void Bpe::fill_tables() {
    for (uint32_t byte = 0; byte < 256; ++byte) {
        std::string character;
        append_character(character, byte_level_ ? byte_level_character(static_cast<uint8_t>(byte)) : byte);
        byte_tokens_[byte] = byte_level_ || byte < 0x80 ? vocabulary_.find(character) : -1;
        fallback_tokens_[byte] = vocabulary_.find(byte_token_name(byte));
    }
}

void Bpe::first_symbols(std::string_view word, std::vector<Symbol>& symbols) const {
    symbols.clear();
    const auto add = [&symbols](int32_t token) {
        const auto place = static_cast<int32_t>(symbols.size());
        symbols.push_back({token, place - 1, place + 1});
    };
    bool unknown = false;  // the unknown token waits for what comes
    const auto flush = [&] {
        if (unknown) add(unk_);
        unknown = false;
    };
    while (!word.empty()) {
        // Byte-level characters are bytes here; what they are in the vocabulary takes part in the fallback below.
        size_t length = 1;
        if (!byte_level_) first_character(word, length);
        const auto byte = static_cast<uint8_t>(word[0]);
        const int32_t token = length == 1 ? byte_tokens_[byte] : vocabulary_.find(word.substr(0, length));
        const std::string_view character = word.substr(0, length);
        word.remove_prefix(length);
        if (token >= 0) {
            flush();
            add(token);
            continue;
        }
        if (byte_fallback_) {
            std::string spelled;
            if (byte_level_) {
                append_character(spelled, byte_level_character(byte));
            } else {
                spelled = character;
            }
            const auto fallback = [this](char c) { return fallback_tokens_[static_cast<uint8_t>(c)]; };
            if (std::all_of(spelled.begin(), spelled.end(), [&](char c) { return fallback(c) >= 0; })) {
                for (const char c : spelled) add(fallback(c));
                continue;
            }
        }
        if (unk_ < 0) continue;  // a character that nothing stands for is left out
        if (!fuse_unk_) flush();
        unknown = true;
    }
    flush();
    if (!symbols.empty()) symbols.back().next = -1;
}

int32_t Bpe::whole_word(std::string_view word) const {
    if (!byte_level_) return vocabulary_.find(word);
    std::string spelled;
    for (const char c : word) append_character(spelled, byte_level_character(static_cast<uint8_t>(c)));
    return vocabulary_.find(spelled);
}

Bpe::Encoder::Encoder(const Bpe& bpe, size_t text_bytes) : bpe_(&bpe) {
    size_t size = 16;
    while (size < 4096 && size * 16 < text_bytes) size *= 2;
    known_.resize(size);
}

void Bpe::Encoder::encode(std::string_view word, std::vector<int32_t>& tokens) {
    size_t begin = 0;
    for (size_t at = 0; bpe_->cuts_at_spaces_ && at < word.size();) {
        // Spaces stay with each other and with what follows them.
        while (word.substr(at).starts_with(kSpace)) at += kSpace.size();
        at = std::min(word.find(kSpace, at), word.size());
        encode_part(word.substr(begin, at - begin), tokens);
        begin = at;
    }
    if (begin < word.size()) encode_part(word.substr(begin), tokens);
}

void Bpe::Encoder::encode_part(std::string_view word, std::vector<int32_t>& tokens) {
    if (word.size() > kMaxWordBytes) return merge(word, tokens);
    Known& known = known_[hash_of(word) & (known_.size() - 1)];
    if (known.length == word.size() && std::memcmp(known.word.data(), word.data(), word.size()) == 0) {
        tokens.insert(tokens.end(), known.tokens.begin(), known.tokens.begin() + known.count);
        return;
    }
    const size_t before = tokens.size();
    merge(word, tokens);
    const size_t count = tokens.size() - before;
    if (count > kMaxTokens) return;
    known.length = static_cast<uint8_t>(word.size());
    known.count = static_cast<uint8_t>(count);
    std::memcpy(known.word.data(), word.data(), word.size());
    std::copy_n(tokens.begin() + static_cast<ptrdiff_t>(before), count, known.tokens.begin());
}

void Bpe::Encoder::consider(int32_t place) {
    if (place < 0 || symbols_[static_cast<size_t>(place)].next < 0) return;
    const Symbol& left = symbols_[static_cast<size_t>(place)];
    const auto* const merge = bpe_->merges_.find(left.token, symbols_[static_cast<size_t>(left.next)].token);
    if (merge != nullptr) heap_.push_back({merge->rank, place, merge->merged});
}

void Bpe::Encoder::apply(const Candidate& candidate) {
    Symbol& left = symbols_[static_cast<size_t>(candidate.place)];
    if (left.merged || left.next < 0) return;
    Symbol& right = symbols_[static_cast<size_t>(left.next)];
    // The pair may have changed since it was considered. As in the reference, one that makes the same token counts.
    const auto* const now = bpe_->merges_.find(left.token, right.token);
    if (now == nullptr || now->merged != candidate.merged) return;
    left.token = candidate.merged;
    left.next = right.next;
    right.merged = true;
    if (left.next >= 0) symbols_[static_cast<size_t>(left.next)].previous = candidate.place;
    for (const int32_t place : {left.previous, candidate.place}) {
        const size_t size = heap_.size();
        consider(place);
        if (heap_.size() > size) std::push_heap(heap_.begin(), heap_.end());
    }
}

void Bpe::Encoder::merge(std::string_view word, std::vector<int32_t>& tokens) {
    if (bpe_->ignore_merges_) {
        if (const int32_t token = bpe_->whole_word(word); token >= 0) {
            tokens.push_back(token);
            return;
        }
    }
    bpe_->first_symbols(word, symbols_);
    heap_.clear();
    for (size_t place = 0; place < symbols_.size(); ++place) consider(static_cast<int32_t>(place));
    std::make_heap(heap_.begin(), heap_.end());
    while (!heap_.empty()) {
        std::pop_heap(heap_.begin(), heap_.end());
        const Candidate candidate = heap_.back();
        heap_.pop_back();
        apply(candidate);
    }
    for (const Symbol& symbol : symbols_) {
        if (!symbol.merged) tokens.push_back(symbol.token);
    }
}

}  // namespace nanolith
