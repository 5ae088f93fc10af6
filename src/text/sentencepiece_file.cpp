#include "text/sentencepiece_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "text/charsmap.h"
#include "text/utf8.h"

namespace nanolith {
namespace {

// Field numbers of sentencepiece_model.proto.
enum ModelField : uint32_t { kPieces = 1, kTrainerSpec = 2, kNormalizerSpec = 3, kSelfTest = 4, kDenormalizerSpec = 5 };
enum PieceField : uint32_t { kPiece = 1, kScore = 2, kType = 3 };
enum TrainerField : uint32_t { kModelType = 3, kSpaceAsSuffix = 24, kByteFallback = 35, kUnknownSurface = 44 };
enum NormalizerField : uint32_t {
    kCharsmap = 2,
    kAddDummyPrefix = 3,
    kRemoveExtraWhitespaces = 4,
    kEscapeWhitespaces = 5
};
constexpr uint64_t kUserDefined = 4;  // a piece's type
constexpr uint64_t kWords = 3;        // a model's type

// A normalizer_spec without a table that puts, removes and escapes no spaces, as a field of a model.
constexpr std::string_view kNoNormalizer("\x1A\x08\x12\x00\x18\x00\x20\x00\x28\x00", 10);

// libsentencepiece keeps the user-defined symbols that begin at one place of a text in an array of this many.
constexpr size_t kMaxNestedSymbols = 64;

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct Field {
    uint32_t number = 0;
    uint32_t type = 0;
    std::string_view all;    // from its key to its end
    uint64_t value = 0;      // of a varint, or of a fixed32 its bits
    std::string_view bytes;  // of a kBytes
};

// Walks over the fields of one protobuf message (https://protobuf.dev/programming-guides/encoding/).
class FieldReader {
  public:
    explicit FieldReader(std::string_view message) : rest_(message) {}

    // The next field, or nothing at the end of the message or where it is damaged.
    std::optional<Field> next() {
        if (rest_.empty()) return std::nullopt;
        Field field;
        const std::string_view before = rest_;
        uint64_t key = 0;
        damaged_ = !read_varint(key) || key > UINT32_MAX || key >> 3U == 0;
        if (damaged_) return std::nullopt;
        field.number = static_cast<uint32_t>(key >> 3U);
        field.type = static_cast<uint32_t>(key & 7U);
        damaged_ = !read_value(field);
        if (damaged_) return std::nullopt;
        field.all = before.substr(0, before.size() - rest_.size());
        return field;
    }
    [[nodiscard]] bool damaged() const { return damaged_; }

  private:
    bool read_value(Field& field) {
        switch (field.type) {
            case kVarint:
                return read_varint(field.value);
            case kFixed64:
                return read_bytes(8, field.bytes);
            case kFixed32:
                if (!read_bytes(4, field.bytes)) return false;
                for (unsigned i = 0; i < 4; ++i)
                    field.value |= uint64_t{static_cast<uint8_t>(field.bytes[i])} << (8 * i);
                return true;
            case kBytes: {
                uint64_t length = 0;
                return read_varint(length) && read_bytes(length, field.bytes);
            }
            default:
                return false;
        }
    }

    bool read_varint(uint64_t& value) {
        value = 0;
        for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
            const auto byte = static_cast<uint8_t>(rest_[0]);
            rest_.remove_prefix(1);
            value |= uint64_t{byte & 0x7FU} << shift;
            if (byte < 0x80) return true;
        }
        return false;
    }

    bool read_bytes(uint64_t length, std::string_view& bytes) {
        if (length > rest_.size()) return false;
        bytes = rest_.substr(0, length);
        rest_.remove_prefix(length);
        return true;
    }

    std::string_view rest_;
    bool damaged_ = false;
};

// The message's fields as far as they matter here. As in protobuf, a message that is there twice is merged.
class FileReader {
  public:
    // An empty string, or what is wrong.
    std::string read(std::string_view file) {
        FieldReader fields(file);
        while (const auto field = fields.next()) {
            if (field->type != kBytes) continue;
            std::string problem = read_part(*field);
            if (!problem.empty()) return problem;
        }
        if (fields.damaged()) return "it is cut short or not a SentencePiece model";
        if (num_pieces_ == 0) return "it has no pieces";
        const std::string problem = check_charsmap(facts_.charsmap);
        if (!problem.empty()) return "its normalisation table is damaged: " + problem;
        return check_symbols();
    }

    [[nodiscard]] SentencePieceFacts& facts() { return facts_; }
    [[nodiscard]] bool denormalizes() const { return denormalizes_; }

  private:
    std::string read_part(const Field& field) {
        switch (field.number) {
            case kPieces:
                return read_piece(field.bytes);
            case kTrainerSpec:
                return read_trainer(field.bytes);
            case kNormalizerSpec:
                return read_normalizer(field.bytes);
            case kDenormalizerSpec:
                return read_denormalizer(field.bytes);
            default:
                return {};
        }
    }

    std::string read_piece(std::string_view message) {
        std::string_view piece;
        float score = 0;
        uint64_t type = 0;
        FieldReader fields(message);
        while (const auto field = fields.next()) {
            if (field->number == kPiece && field->type == kBytes) piece = field->bytes;
            if (field->number == kType && field->type == kVarint) type = field->value;
            if (field->number == kScore && field->type == kFixed32) {
                const auto bits = static_cast<uint32_t>(field->value);
                std::memcpy(&score, &bits, sizeof score);
            }
        }
        const std::string name = "piece " + std::to_string(num_pieces_++);
        if (fields.damaged()) return name + " is damaged";
        if (piece.empty()) return name + " is empty";
        // libsentencepiece takes pieces for C strings of whole characters.
        if (piece.find('\0') != std::string_view::npos) return name + " has a zero byte";
        if (!is_valid_utf8(piece)) return name + " is not UTF-8";
        if (!std::isfinite(score)) return name + " has a score that is not finite";
        if (type == kUserDefined) facts_.symbols.emplace_back(piece);
        return {};
    }

    std::string read_trainer(std::string_view message) {
        FieldReader fields(message);
        while (const auto field = fields.next()) {
            if (field->number == kUnknownSurface && field->type == kBytes) facts_.unknown_text = field->bytes;
            if (field->type != kVarint) continue;
            if (field->number == kModelType) facts_.knows_words_alone = field->value == kWords;
            if (field->number == kSpaceAsSuffix) facts_.spaces_stand_after = field->value != 0;
            if (field->number == kByteFallback) facts_.has_byte_tokens = field->value != 0;
        }
        return fields.damaged() ? "its trainer settings are damaged" : "";
    }

    std::string read_normalizer(std::string_view message) {
        FieldReader fields(message);
        while (const auto field = fields.next()) {
            if (field->number == kCharsmap && field->type == kBytes) facts_.charsmap = field->bytes;
            if (field->type != kVarint) continue;
            if (field->number == kAddDummyPrefix) facts_.adds_first_space = field->value != 0;
            if (field->number == kRemoveExtraWhitespaces) facts_.removes_extra_spaces = field->value != 0;
            if (field->number == kEscapeWhitespaces) facts_.escapes_spaces = field->value != 0;
        }
        return fields.damaged() ? "its normaliser settings are damaged" : "";
    }

    std::string read_denormalizer(std::string_view message) {
        FieldReader fields(message);
        while (const auto field = fields.next()) {
            if (field->number == kCharsmap && field->type == kBytes) denormalizes_ = !field->bytes.empty();
        }
        return fields.damaged() ? "its denormaliser settings are damaged" : "";
    }

    // No more than kMaxNestedSymbols user-defined symbols may be prefixes of one of them.
    std::string check_symbols() {
        std::sort(facts_.symbols.begin(), facts_.symbols.end());
        std::vector<std::string_view> prefixes;
        for (const std::string_view symbol : facts_.symbols) {
            while (!prefixes.empty() && symbol.substr(0, prefixes.back().size()) != prefixes.back())
                prefixes.pop_back();
            prefixes.push_back(symbol);
            if (prefixes.size() > kMaxNestedSymbols) return "too many of its symbols begin with one another";
        }
        return {};
    }

    int64_t num_pieces_ = 0;
    SentencePieceFacts facts_{
        .unknown_text = " \xE2\x81\x87 ", .charsmap = {}, .symbols = {}};  // " ⁇ ", the format's default
    bool denormalizes_ = false;
};

void append_varint(std::string& to, uint64_t value) {
    for (; value >= 0x80U; value >>= 7U) to += static_cast<char>((value & 0x7FU) | 0x80U);
    to += static_cast<char>(value);
}
void append_key(std::string& to, uint32_t field, WireType type) {
    append_varint(to, field << 3U | type);
}
void append_number(std::string& to, uint32_t field, uint64_t value) {
    append_key(to, field, kVarint);
    append_varint(to, value);
}
void append_message(std::string& to, uint32_t field, std::string_view message) {
    append_key(to, field, kBytes);
    append_varint(to, message.size());
    to.append(message);
}

}  // namespace

Result<SentencePieceFacts> read_sentencepiece_file(std::string_view bytes, const std::string& path) {
    FileReader reader;
    const std::string problem = reader.read(bytes);
    if (!problem.empty()) return fail(NL_ERROR_BAD_MODEL, path, ": ", problem);
    if (reader.denormalizes())
        return fail(NL_ERROR_UNSUPPORTED, path,
                    ": it changes text after decoding (denormalizer_spec): expected a model without");
    return std::move(reader.facts());
}

void SentencePieceWriter::add_piece(std::string_view piece, float score, int32_t type) {
    std::string message;
    append_key(message, kPiece, kBytes);
    append_varint(message, piece.size());
    message.append(piece);
    append_key(message, kScore, kFixed32);
    std::array<char, sizeof score> bits{};
    std::memcpy(bits.data(), &score, sizeof score);
    message.append(bits.data(), bits.size());
    append_number(message, kType, static_cast<uint64_t>(type));
    append_message(bytes_, kPieces, message);
}

std::string SentencePieceWriter::finish(bool byte_fallback, bool removes_extra_spaces) && {
    constexpr uint64_t kBytePairs = 2;
    std::string trainer;
    append_number(trainer, kModelType, kBytePairs);
    append_number(trainer, kByteFallback, byte_fallback ? 1 : 0);
    append_message(bytes_, kTrainerSpec, trainer);
    std::string normalizer;
    append_number(normalizer, kAddDummyPrefix, 1);
    append_number(normalizer, kRemoveExtraWhitespaces, removes_extra_spaces ? 1 : 0);
    append_number(normalizer, kEscapeWhitespaces, 1);
    append_message(bytes_, kNormalizerSpec, normalizer);
    return std::move(bytes_);
}

std::string without_normalizer(std::string_view bytes) {
    std::string model;
    model.reserve(bytes.size() + kNoNormalizer.size());
    FieldReader fields(bytes);
    while (const auto field = fields.next()) {
        // The self-test has texts that go through the normaliser.
        if (field->number != kNormalizerSpec && field->number != kSelfTest) model += field->all;
    }
    return model.append(kNoNormalizer);
}

}  // namespace nanolith
