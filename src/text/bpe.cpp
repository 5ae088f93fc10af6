#include "text/bpe.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "files/json_fields.h"
#include "text/bpe_encoder.h"
#include "text/byte_level.h"
#include "text/byte_tokens.h"
#include "text/piece_index.h"
#include "text/space_symbol.h"
#include "text/unicode.h"

namespace nanolith {
namespace {

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

}  // namespace

Result<MergeTable::Placed> MergeTable::read_merge(const Json& json, size_t rank, const Vocabulary& vocabulary,
                                                  size_t prefix_bytes, const std::string& where) {
    const auto pair = read_pair(json);
    if (!pair || pair->left.empty() || pair->right.empty())
        return fail(NL_ERROR_BAD_MODEL, where, ": model.merges[", rank, "] is ", show_json(json),
                    ": expected two pieces");
    if (pair->right.size() < prefix_bytes)
        return fail(NL_ERROR_BAD_MODEL, where, ": model.merges[", rank, "] is ", show_json(json),
                    ": expected a second piece that begins with continuing_subword_prefix");
    const std::string merged = std::string(pair->left).append(pair->right.substr(prefix_bytes));
    for (const std::string_view piece : {pair->left, pair->right, std::string_view(merged)}) {
        if (vocabulary.find(piece) < 0)
            return fail(NL_ERROR_BAD_MODEL, where, ": model.merges[", rank, "] is ", show_json(json), ", but ",
                        show_json(piece), " is not in model.vocab");
    }
    return Placed{vocabulary.find(pair->left),
                  {vocabulary.find(pair->right), static_cast<int32_t>(rank), vocabulary.find(merged)}};
}

Result<MergeTable> MergeTable::read(const Json& json, const Vocabulary& vocabulary, size_t prefix_bytes,
                                    const std::string& where) {
    const auto* const list = json.as<Json::Array>();
    if (list == nullptr)
        return fail(NL_ERROR_BAD_MODEL, where, ": model.merges is ", show_json(json), ": expected an array");
    if (list->size() > INT32_MAX) return fail(NL_ERROR_BAD_MODEL, where, ": model.merges has too many entries");
    MergeTable table;
    std::vector<Placed> placed;
    placed.reserve(list->size());
    for (size_t rank = 0; rank < list->size(); ++rank) {
        // Files converted from merges.txt may have kept its first line.
        if (const auto* text = (*list)[rank].as<std::string>(); text != nullptr && text->starts_with("#version"))
            continue;
        NL_ASSIGN(const Placed merge, read_merge((*list)[rank], rank, vocabulary, prefix_bytes, where));
        const std::string& right = vocabulary.piece(merge.merge.right);
        if (right.starts_with(kSpaceSymbol) && !vocabulary.piece(merge.left).ends_with(kSpaceSymbol))
            table.keeps_spaces_first_ = false;
        placed.push_back(merge);
    }
    table.fill(std::move(placed), vocabulary.size(), list->size());
    return table;
}

Result<MergeTable> MergeTable::of_ranks(const Vocabulary& vocabulary, int32_t first, const std::string& where) {
    NL_TRY(check_piece_lengths(vocabulary, where));
    PieceIndex index;
    for (int32_t id = first; id < vocabulary.size(); ++id) index.add(vocabulary.piece(id), id);
    index.finish();
    std::vector<Placed> placed;
    for (int32_t id = first; id < vocabulary.size(); ++id) {
        const std::string_view piece = vocabulary.piece(id);
        index.for_each_at(piece, [&](const PieceIndex::Match& left) {
            const std::string_view rest = piece.substr(left.length);
            const int32_t right = rest.empty() ? -1 : vocabulary.find(rest);
            if (right >= first) placed.push_back({left.value, {right, id, id}});
        });
    }
    MergeTable table;
    table.fill(std::move(placed), vocabulary.size(), static_cast<size_t>(vocabulary.size()));
    return table;
}

void MergeTable::fill(std::vector<Placed> placed, int32_t num_pieces, size_t num_ranks) {
    const auto key = [](const Placed& m) { return std::pair(m.left, m.merge.right); };
    std::stable_sort(placed.begin(), placed.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
    groups_.assign(static_cast<size_t>(num_pieces) + 1, 0);
    merged_.assign(num_ranks, -1);
    for (size_t i = 0; i < placed.size(); ++i) {
        if (i + 1 < placed.size() && key(placed[i]) == key(placed[i + 1])) continue;  // of two the latter counts
        merges_.push_back(placed[i].merge);
        merged_[static_cast<size_t>(placed[i].merge.rank)] = placed[i].merge.merged;
        ++groups_[static_cast<size_t>(placed[i].left) + 1];
    }
    for (size_t token = 1; token < groups_.size(); ++token) groups_[token] += groups_[token - 1];
}

const MergeTable::Merge* MergeTable::find(int32_t left, int32_t right) const {
    const auto begin = merges_.begin() + groups_[static_cast<size_t>(left)];
    const auto end = merges_.begin() + groups_[static_cast<size_t>(left) + 1];
    const auto found =
        std::lower_bound(begin, end, right, [](const Merge& merge, int32_t token) { return merge.right < token; });
    return found != end && found->right == right ? &*found : nullptr;
}

Result<std::unique_ptr<const Bpe>> Bpe::read(const Json& json, bool byte_level, const std::string& where) {
    const JsonFields fields(json, where, "model.");
    std::unique_ptr<Bpe> made(new Bpe);
    Bpe& bpe = *made;
    bpe.byte_level_ = byte_level;
    if (const Json* dropout = fields.find("dropout"); dropout != nullptr) {
        const auto* const number = dropout->as<double>();
        const auto* const integer = dropout->as<uint64_t>();
        if ((number == nullptr || *number != 0) && (integer == nullptr || *integer != 0))
            return fields.wrong("dropout", "none, the only one supported", NL_ERROR_UNSUPPORTED);
    }
    NL_ASSIGN(bpe.fuse_unk_, fields.boolean_or("fuse_unk", false));
    NL_ASSIGN(bpe.byte_fallback_, fields.boolean_or("byte_fallback", false));
    NL_ASSIGN(bpe.ignore_merges_, fields.boolean_or("ignore_merges", false));
    NL_TRY(bpe.read_affixes(json, where));
    const Json* const vocab = fields.find("vocab");
    const Json* const merges = fields.find("merges");
    if (vocab == nullptr) return fields.wrong("vocab", "an object");
    if (merges == nullptr) return fields.wrong("merges", "an array");
    NL_ASSIGN(bpe.vocabulary_, Vocabulary::read(*vocab, where));
    NL_ASSIGN(bpe.merges_, MergeTable::read(*merges, bpe.vocabulary_, bpe.prefix_.size(), where));
    NL_TRY(bpe.read_unk(json, where));
    bpe.fill_tables();
    bpe.cuts_at_spaces_ = !byte_level && !bpe.ignore_merges_ && !bpe.has_affixes() &&
                          bpe.merges_.keeps_spaces_first() && bpe.vocabulary_.find(kSpaceSymbol) >= 0;
    return std::unique_ptr<const Bpe>(std::move(made));
}

Result<std::unique_ptr<const Bpe>> Bpe::of_ranks(Vocabulary vocabulary, int32_t first, const std::string& where) {
    std::unique_ptr<Bpe> made(new Bpe);
    made->byte_level_ = true;
    made->ignore_merges_ = true;
    made->vocabulary_ = std::move(vocabulary);
    NL_ASSIGN(made->merges_, MergeTable::of_ranks(made->vocabulary_, first, where));
    made->fill_tables();
    return std::unique_ptr<const Bpe>(std::move(made));
}

Result<void> Bpe::read_unk(const Json& json, const std::string& where) {
    const JsonFields fields(json, where, "model.");
    if (fields.find("unk_token") == nullptr) return {};
    NL_ASSIGN(const std::string unk, fields.string_or("unk_token", ""));
    unk_ = vocabulary_.find(unk);
    if (unk_ < 0) return fields.wrong("unk_token", "a piece of model.vocab");
    return {};
}

Result<void> Bpe::read_affixes(const Json& json, const std::string& where) {
    const JsonFields fields(json, where, "model.");
    NL_ASSIGN(prefix_, fields.string_or("continuing_subword_prefix", ""));
    NL_ASSIGN(suffix_, fields.string_or("end_of_word_suffix", ""));
    // Longer ones would make a long word many times as long.
    constexpr size_t kMaxBytes = 64;
    if (prefix_.size() > kMaxBytes || suffix_.size() > kMaxBytes)
        return fields.wrong(prefix_.size() > kMaxBytes ? "continuing_subword_prefix" : "end_of_word_suffix",
                            "at most 64 bytes", NL_ERROR_UNSUPPORTED);
    // The reference counts its characters where it takes away as many bytes.
    if (std::any_of(prefix_.begin(), prefix_.end(), [](char c) { return static_cast<uint8_t>(c) >= 0x80; }))
        return fields.wrong("continuing_subword_prefix", "one of ASCII", NL_ERROR_UNSUPPORTED);
    // To the reference the affixes' bytes become tokens too, so that a text could have many times as many as bytes.
    if (byte_fallback_ && has_affixes())
        return fields.wrong("byte_fallback", "false beside a prefix or a suffix", NL_ERROR_UNSUPPORTED);
    return {};
}

void Bpe::fill_tables() {
    for (uint32_t byte = 0; byte < 256; ++byte) {
        std::string character;
        append_character(character, byte_level_ ? byte_level_character(static_cast<uint8_t>(byte)) : byte);
        byte_tokens_[byte] = byte_level_ || byte < 0x80 ? vocabulary_.find(character) : -1;
        fallback_tokens_[byte] = vocabulary_.find(byte_token_name(static_cast<uint8_t>(byte)));
    }
}

// The tokens of single characters, before any merge.
void Bpe::first_symbols(std::string_view word, std::vector<int32_t>& symbols) const {
    symbols.clear();
    symbols.reserve(word.size());
    const char* const begin = word.data();
    const auto add = [&symbols](int32_t token) { symbols.push_back(token); };
    bool unknown = false;  // the unknown token waits for what comes
    const auto flush = [&] {
        if (unknown) add(unk_);
        unknown = false;
    };
    while (!word.empty()) {
        // Byte-level characters are bytes here; what they are in the vocabulary takes part in the fallback below.
        size_t length = 1;
        if (!byte_level_) first_character(word, length);
        const std::string_view character = word.substr(0, length);
        const bool is_first = character.data() == begin;
        word.remove_prefix(length);
        const int32_t token = has_affixes() ? vocabulary_.find(spelled(character, is_first, word.empty()))
                              : length == 1 ? byte_tokens_[static_cast<uint8_t>(character[0])]
                                            : vocabulary_.find(character);
        if (token >= 0) {
            flush();
            add(token);
            continue;
        }
        if (byte_fallback_) {
            const std::string bytes = spelled(character, is_first, word.empty());
            const auto fallback = [this](char c) { return fallback_tokens_[static_cast<uint8_t>(c)]; };
            if (std::all_of(bytes.begin(), bytes.end(), [&](char c) { return fallback(c) >= 0; })) {
                for (const char c : bytes) add(fallback(c));
                continue;
            }
        }
        if (unk_ < 0) continue;  // a character that nothing stands for is left out
        if (!fuse_unk_) flush();
        unknown = true;
    }
    flush();
}

std::string Bpe::spelled(std::string_view character, bool is_first, bool is_last) const {
    std::string text = is_first ? std::string() : prefix_;
    if (byte_level_) {
        append_byte_level(text, character);
    } else {
        text += character;
    }
    return is_last ? text + suffix_ : text;
}

int32_t Bpe::whole_word(std::string_view word) const {
    if (word.size() > vocabulary_.longest()) return -1;
    if (!byte_level_) return vocabulary_.find(word);
    std::string spelled_word;
    append_byte_level(spelled_word, word);
    return vocabulary_.find(spelled_word);
}

std::unique_ptr<TokenModel::Encoder> Bpe::make_encoder(size_t text_bytes) const {
    return std::make_unique<Encoder>(*this, text_bytes);
}

}  // namespace nanolith
