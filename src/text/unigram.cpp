#include "text/unigram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "files/json_fields.h"
#include "text/byte_tokens.h"
#include "text/token_list.h"
#include "text/unicode.h"

namespace nanolith {
namespace {

// How much less than the lowest score an unknown character's is.
constexpr double kUnknownPenalty = 10.0;
// What stands in place of a piece: no way leads here, or one whose last character is unknown.
constexpr int32_t kNoWay = -2;
constexpr int32_t kUnknown = -1;
// Working space of words up to this many characters is kept for the next one.
constexpr size_t kKeptCharacters = 1U << 16U;

double score_of(const Json& json) {
    if (const auto* number = json.as<double>()) return *number;
    if (const auto* number = json.as<uint64_t>()) return static_cast<double>(*number);
    if (const auto* number = json.as<int64_t>()) return static_cast<double>(*number);
    return std::nan("");
}

}  // namespace

Result<std::unique_ptr<const Unigram>> Unigram::read(const Json& json, const std::string& where) {
    const JsonFields fields(json, where, "model.");
    std::unique_ptr<Unigram> made(new Unigram);
    NL_ASSIGN(made->byte_fallback_, fields.boolean_or("byte_fallback", false));
    if (fields.find("vocab") == nullptr) return fields.wrong("vocab", "an array");
    NL_TRY(made->read_pieces(fields.find("vocab"), where));
    NL_TRY(check_piece_lengths(made->vocabulary_, where));
    NL_TRY(made->read_unk(json, where));
    made->fill_tables();
    return std::unique_ptr<const Unigram>(std::move(made));
}

// [["piece", score], ..]
Result<void> Unigram::read_pieces(const Json* json, const std::string& where) {
    const auto* const list = json->as<Json::Array>();
    if (list == nullptr || list->size() > INT32_MAX)
        return fail(NL_ERROR_BAD_MODEL, where, ": model.vocab is ", show_json(*json), ": expected an array");
    std::vector<std::string> pieces;
    pieces.reserve(list->size());
    scores_.reserve(list->size());
    for (const Json& entry : *list) {
        const auto* const pair = entry.as<Json::Array>();
        const auto* const piece = pair != nullptr && pair->size() == 2 ? (*pair)[0].as<std::string>() : nullptr;
        const double score = piece != nullptr ? score_of((*pair)[1]) : std::nan("");
        if (piece == nullptr || !std::isfinite(score))
            return fail(NL_ERROR_BAD_MODEL, where, ": model.vocab[", pieces.size(), "] is ", show_json(entry),
                        ": expected a piece and its score");
        pieces.push_back(*piece);
        scores_.push_back(score);
    }
    vocabulary_ = Vocabulary(std::move(pieces));
    return {};
}

Result<void> Unigram::read_unk(const Json& json, const std::string& where) {
    const JsonFields fields(json, where, "model.");
    if (fields.find("unk_id") == nullptr) return {};
    NL_ASSIGN(const int64_t unk, fields.integer("unk_id", 0, static_cast<int64_t>(vocabulary_.size()) - 1));
    unk_ = static_cast<int32_t>(unk);
    return {};
}

void Unigram::fill_tables() {
    double lowest = std::numeric_limits<double>::infinity();
    for (const double score : scores_) lowest = std::min(lowest, score);
    unknown_score_ = lowest - kUnknownPenalty;
    for (int32_t id = 0; id < vocabulary_.size(); ++id) {
        index_.add(vocabulary_.piece(id), id);
        characters_.push_back(static_cast<uint16_t>(count_characters(vocabulary_.piece(id))));
    }
    index_.finish();
    for (uint32_t byte = 0; byte < 256; ++byte)
        byte_tokens_[byte] = vocabulary_.find(byte_token_name(static_cast<uint8_t>(byte)));
}

std::unique_ptr<TokenModel::Encoder> Unigram::make_encoder(size_t /*text_bytes*/) const {
    return std::make_unique<Encoder>(*this);
}

Unigram::Encoder::Encoder(const Unigram& model) : model_(&model) {
    scores_.resize(std::bit_ceil(model.index_.longest() + 2));
}

bool Unigram::Encoder::is_better(size_t end, double score) const {
    return last_[end] == kNoWay || score > scores_[end & (scores_.size() - 1)];
}

void Unigram::Encoder::offer(size_t end, int32_t piece, double score) {
    if (!is_better(end, score)) return;
    last_[end] = piece;
    score_at(end) = score;
}

Result<void> Unigram::Encoder::extend(size_t begin, std::string_view rest) {
    const double score = score_at(begin);
    bool has_character = false;
    model_->index_.for_each_at(rest, [&](const PieceIndex::Match& match) {
        const auto id = static_cast<size_t>(match.value);
        offer(begin + model_->characters_[id], match.value, model_->scores_[id] + score);
        has_character = has_character || model_->characters_[id] == 1;
    });
    if (has_character) return {};
    const double unknown = model_->unknown_score_ + score;
    if (model_->unk_ < 0 && is_better(begin + 1, unknown)) {
        size_t length = 0;
        first_character(rest, length);
        return fail(NL_ERROR_INVALID_ARGUMENT, "the text has ", show_json(rest.substr(0, length)),
                    ": expected characters that the vocabulary has, since it has no unknown token");
    }
    offer(begin + 1, kUnknown, unknown);
    return {};
}

Result<void> Unigram::Encoder::find_way(std::string_view word) {
    last_.assign(static_cast<size_t>(count_characters(word)) + 1, kNoWay);
    score_at(0) = 0;
    for (size_t place = 0; !word.empty(); ++place) {
        NL_TRY(extend(place, word));
        size_t length = 0;
        first_character(word, length);
        word.remove_prefix(length);
    }
    return {};
}

Unigram::Encoder::Place Unigram::Encoder::begin_of(std::string_view word, const Place& end) const {
    const int32_t piece = last_[end.character];
    if (piece != kUnknown)
        return {end.byte - model_->vocabulary_.piece(piece).size(),
                end.character - model_->characters_[static_cast<size_t>(piece)]};
    size_t byte = end.byte - 1;
    while ((static_cast<uint8_t>(word[byte]) & 0xC0U) == 0x80) --byte;
    return {byte, end.character - 1};
}

// The unknown token's own spelling counts too.
bool Unigram::Encoder::is_unknown(const Place& end) const {
    const int32_t piece = last_[end.character];
    return piece == kUnknown || piece == model_->unk_;
}

void Unigram::Encoder::append_unknown(std::string_view text, std::vector<int32_t>& tokens) const {
    const Vocabulary& vocabulary = model_->vocabulary_;
    const int32_t known = text.size() <= vocabulary.longest() ? vocabulary.find(text) : -1;
    const auto byte_token = [this](char c) { return model_->byte_tokens_[static_cast<uint8_t>(c)]; };
    if (known < 0 && model_->byte_fallback_ &&
        std::all_of(text.begin(), text.end(), [&](char c) { return byte_token(c) >= 0; })) {
        make_room(tokens, text.size());
        for (auto c = text.rbegin(); c != text.rend(); ++c) tokens.push_back(byte_token(*c));
        return;
    }
    make_room(tokens, 1);
    tokens.push_back(known >= 0 ? known : model_->unk_);
}

// The way is read from its end. Neighbouring unknown characters are one token.
Result<void> Unigram::Encoder::encode(std::string_view word, std::vector<int32_t>& tokens) {
    NL_TRY(find_way(word));
    const auto before = static_cast<ptrdiff_t>(tokens.size());
    for (Place end{word.size(), last_.size() - 1}; end.byte > 0;) {
        Place begin = begin_of(word, end);
        if (is_unknown(end)) {
            while (begin.byte > 0 && is_unknown(begin)) begin = begin_of(word, begin);
            append_unknown(word.substr(begin.byte, end.byte - begin.byte), tokens);
        } else {
            make_room(tokens, 1);
            tokens.push_back(last_[end.character]);
        }
        end = begin;
    }
    std::reverse(tokens.begin() + before, tokens.end());
    if (last_.size() > kKeptCharacters) last_ = {};
    return {};
}

}  // namespace nanolith
