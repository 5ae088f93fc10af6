// Long texts through tokenizer.model: cut into parts, they have the tokens that libsentencepiece makes of the whole.
#include <gtest/gtest.h>
#include <sentencepiece_processor.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <sstream>

#include "text/piece_cuts.h"
#include "text/sentencepiece_file.h"
#include "text/sentencepiece_normalizer.h"
#include "text/sentencepiece_tokenizer.h"
#include "text/tokenizer.h"

namespace nanolith {
namespace {

using Tokens = std::vector<int32_t>;

std::string file_bytes(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

// Every model in the tests' folders.
std::vector<std::string> models() {
    std::vector<std::string> paths;
    for (const std::string root : {NL_TEXT_FIXTURES, NL_UNIT_DATA}) {
        for (const auto& entry : std::filesystem::recursive_directory_iterator(root))
            if (entry.path().filename() == "tokenizer.model") paths.push_back(entry.path());
    }
    std::sort(paths.begin(), paths.end());
    return paths;
}

// A field of a ModelProto's normalizer_spec, to be appended to a model: `key` is 0x18 add_dummy_prefix, 0x20
// remove_extra_whitespaces, 0x28 escape_whitespaces.
std::string with_setting(char key, bool value) {
    return std::string("\x1A\x02", 2) + key + static_cast<char>(value ? 1 : 0);
}
// Of its trainer_spec: treat_whitespace_as_suffix.
std::string with_spaces_behind() {
    return std::string("\x12\x03\xC0\x01\x01", 5);
}
// And model_type: 3 takes whole words alone for pieces, 4 single characters.
std::string with_type(char type) {
    return std::string("\x12\x02\x18", 3) + type;
}

// A model as it is, and with other settings of what happens around its pieces.
std::vector<std::string> variants(const std::string& model) {
    std::vector<std::string> made = {model};
    for (const char key : {'\x18', '\x20', '\x28'}) {
        made.push_back(model + with_setting(key, false));
        made.push_back(model + with_setting(key, true));
    }
    made.push_back(model + with_spaces_behind() + with_setting('\x18', true));
    made.push_back(model + with_spaces_behind() + with_setting('\x20', true));
    made.push_back(model + with_setting('\x18', false) + with_setting('\x20', true));
    made.push_back(model + with_type(3));
    made.push_back(model + with_type(4));
    made.push_back(model + with_type(3) + with_spaces_behind());
    return made;
}

class TextMaker {
  public:
    TextMaker(unsigned seed, const std::vector<std::string>& pieces) : random_(seed), pieces_(&pieces) {}

    std::string text(size_t parts) {
        std::string text;
        for (size_t i = below(parts + 1); i > 0; --i) text += part();
        return text;
    }

  private:
    size_t below(size_t count) { return random_() % count; }
    std::string part() {
        static const std::vector<std::string> parts = {" ",
                                                       " ",
                                                       " ",
                                                       "  ",
                                                       "\xE2\x96\x81",
                                                       "\t",
                                                       "\n",
                                                       "\xC2\xA0",
                                                       "\xE3\x80\x80",  // spaces of all kinds
                                                       "a",
                                                       "b",
                                                       "e",
                                                       "t",
                                                       "h",
                                                       "the",
                                                       "lamp",
                                                       "river",
                                                       ".",
                                                       ",",
                                                       "1",
                                                       "2",
                                                       "\xC3\xA9",
                                                       "\xC3\x9F",
                                                       "e\xCC\x81",
                                                       "\xEF\xAC\x81",
                                                       "\xEF\xBD\x86",
                                                       "\xEF\xBC\xA1",
                                                       "\xE2\x84\xA6",
                                                       "\xE6\xBC\xA2",
                                                       "\xE5\xAD\x97",
                                                       "\xF0\x9F\x99\x82",
                                                       "<|user|>",
                                                       "<tool_call>",
                                                       "<|im_",
                                                       "<s>",
                                                       "<unk>",
                                                       "<0x41>",
                                                       "<ctrl>"};
        if (below(3) == 0) return (*pieces_)[below(pieces_->size())];
        const std::string& part = parts[below(parts.size())];
        std::string run = part;
        for (size_t more = below(8) == 0 ? below(6) : 0; more > 0; --more) run += part;
        return run;
    }

    std::mt19937 random_;
    const std::vector<std::string>* pieces_;
};

std::vector<std::string> pieces_of(const sentencepiece::SentencePieceProcessor& processor) {
    std::vector<std::string> pieces;
    for (int token = 0; token < processor.GetPieceSize(); ++token) pieces.push_back(processor.IdToPiece(token));
    return pieces;
}

// Nothing where libsentencepiece fails: a model of whole words takes a control token's spelling for that token.
std::optional<Tokens> encode(const sentencepiece::SentencePieceProcessor& processor, const std::string& text) {
    std::vector<int> ids;
    if (!processor.Encode(text, &ids).ok()) return std::nullopt;
    return Tokens(ids.begin(), ids.end());
}

// Of a unigram model the best segmentation is looked for with sums in 32 bits: of two that are equally good up to
// rounding either may come out, and cut sums round otherwise.
bool same_score(const sentencepiece::SentencePieceProcessor& processor, const Tokens& a, const Tokens& b) {
    const auto sum = [&](const Tokens& tokens) {
        double total = 0;
        for (const int32_t token : tokens) total += processor.GetScore(token);
        return total;
    };
    return std::abs(sum(a) - sum(b)) < 1e-3;
}

bool is_unigram(const std::string& path) {
    return path.find("unigram") != std::string::npos;
}

// The tokens of the text, encoded by at most `threads` threads; a short text gets fewer.
Result<Tokens> encode_on_threads(const Tokenizer& tokenizer, const std::string& text, int32_t threads) {
    Tokens tokens;
    NL_TRY(tokenizer.encode_part(text, {{}, threads}, true, tokens));
    return tokens;
}

TEST(SentencePieceCuts, ChangeNoToken) {
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::cout << "seed " << seed << "\n";
    const auto folder = std::filesystem::temp_directory_path() / ("nanolith_cuts_" + std::to_string(seed));
    std::filesystem::create_directory(folder);
    size_t texts = 0;
    for (const std::string& path : models()) {
        size_t number = 0;
        for (const std::string& bytes : variants(file_bytes(path))) {
            SCOPED_TRACE(path + ", variant " + std::to_string(number++));
            const std::string file = folder / "tokenizer.model";
            std::ofstream(file, std::ios::binary) << bytes;
            sentencepiece::SentencePieceProcessor whole;
            ASSERT_TRUE(whole.LoadFromSerializedProto(bytes).ok());
            const auto cut = load_sentencepiece(file, {}, 1);
            ASSERT_TRUE(cut.ok()) << cut.error().message;
            const auto uncut = load_sentencepiece(file, {});
            ASSERT_TRUE(uncut.ok());
            const auto pieces = pieces_of(whole);
            TextMaker maker(seed + static_cast<unsigned>(number), pieces);
            for (int round = 0; round < 150; ++round) {
                const std::string text = maker.text(40);
                SCOPED_TRACE(::testing::Message() << "text " << ::testing::PrintToString(text));
                const auto expected = encode(whole, text);
                const auto together = (*uncut)->encode(text, 0);
                const auto got = (*cut)->encode(text, 0);
                ASSERT_EQ(together.ok(), expected.has_value());
                ASSERT_EQ(got.ok(), expected.has_value());
                const auto on_threads = encode_on_threads(**cut, text, 2 + round % 4);
                ASSERT_EQ(on_threads.ok(), expected.has_value());
                if (!expected) continue;
                ++texts;
                ASSERT_EQ(*on_threads, *got);
                ASSERT_EQ(*together, *expected);
                if (*got != *expected && is_unigram(path) && same_score(whole, *got, *expected)) continue;
                ASSERT_EQ(*got, *expected);
            }
        }
    }
    std::filesystem::remove_all(folder);
    EXPECT_GT(texts, 1000U);
}

// Texts longer than one part, with the sizes that are used.
TEST(SentencePieceCuts, ChangeNoTokenOfALongText) {
    for (const std::string& path : models()) {
        SCOPED_TRACE(path);
        sentencepiece::SentencePieceProcessor whole;
        ASSERT_TRUE(whole.Load(path).ok());
        const auto tokenizer = load_sentencepiece(path, {});
        ASSERT_TRUE(tokenizer.ok());
        const auto pieces = pieces_of(whole);
        TextMaker maker(1, pieces);
        std::string text;
        while (text.size() < 3 * kMaxPartBytes) text += maker.text(40);
        const auto expected = encode(whole, text);
        const auto got = (*tokenizer)->encode(text, 0);
        ASSERT_TRUE(expected.has_value());
        ASSERT_TRUE(got.ok()) << got.error().message;
        const auto parallel = (*tokenizer)->encode(text, NL_ENCODE_PARALLEL);
        ASSERT_TRUE(parallel.ok()) << parallel.error().message;
        EXPECT_EQ(*parallel, *got);
        if (*got != *expected && is_unigram(path)) {
            EXPECT_TRUE(same_score(whole, *got, *expected));
        } else {
            EXPECT_EQ(*got, *expected);
        }
    }
}

PieceCuts cuts_of(const std::vector<std::string_view>& pieces) {
    PieceIndex index;
    for (const std::string_view piece : pieces) index.add(piece, 0);
    index.finish();
    return PieceCuts(std::move(index));
}

TEST(PieceCuts, AreWhereNoPieceReachesAcross) {
    const PieceCuts cuts = cuts_of({"ab", "bcd", "\xE6\xBC\xA2x"});
    EXPECT_EQ(cuts.find("abab", 1, false), 2U);
    EXPECT_EQ(cuts.find("abcd", 1, false), std::nullopt);
    EXPECT_EQ(cuts.find("abcdd", 1, false), 4U);
    EXPECT_EQ(cuts.find("xxxx", 3, false), 3U);
    EXPECT_EQ(cuts.find("xxab", 3, false), 2U);  // none after 3, so the last before
    EXPECT_EQ(cuts.find("\xE6\xBC\xA2\xE6\xBC\xA2x", 1, false), 3U);
    EXPECT_EQ(cuts.find("\xE6\xBC\xA2\xE6\xBC\xA2x", 4, false), 3U);
    // What comes may begin at the last bytes that are known.
    EXPECT_EQ(cuts.find("xxxx", 1, true), std::nullopt);
    EXPECT_EQ(cuts.find("xxxxxx", 1, true), 1U);
    EXPECT_EQ(cuts.find("", 1, false), std::nullopt);
}

// A text that can't be cut is taken up to the limit, and refused beyond.
TEST(SentencePieceCuts, SayWhereThereAreNone) {
    const std::string path = std::string(NL_UNIT_DATA) + "/bpe_bytes/tokenizer.model";
    const std::string model = file_bytes(path);
    const auto folder = std::filesystem::temp_directory_path() / ("nanolith_nocuts_" + std::to_string(getpid()));
    std::filesystem::create_directory(folder);
    const std::string file = folder / "tokenizer.model";
    // A user-defined piece "zz": no place between two of them is free.
    std::ofstream(file, std::ios::binary) << model << std::string("\x0A\x06\x0A\x02zz\x18\x04", 8);
    const auto tokenizer = load_sentencepiece(file, {});
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    // One character of three bytes, the space, stands before the text.
    EXPECT_TRUE((*tokenizer)->encode(std::string(kMaxPartBytes - 3, 'z'), 0).ok());
    const auto refused = (*tokenizer)->encode("river " + std::string(kMaxPartBytes + 1, 'z'), 0);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().status, NL_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(refused.error().message.find("more than 65536 bytes"), std::string::npos) << refused.error().message;
    // The sentence tells the first such place, whatever other threads come to meanwhile.
    const std::string twice =
        "river " + std::string(2 * kMaxPartBytes, 'z') + " lamp " + std::string(2 * kMaxPartBytes, 'z');
    const auto on_threads = encode_on_threads(**tokenizer, twice, 4);
    ASSERT_FALSE(on_threads.ok());
    EXPECT_EQ(on_threads.error().message, refused.error().message);
    // Anything else between them helps.
    std::string text;
    while (text.size() < 4 * kMaxPartBytes) text += std::string(kMaxPartBytes / 2, 'z') + ".";
    EXPECT_TRUE((*tokenizer)->encode(text, 0).ok());
    std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace nanolith
