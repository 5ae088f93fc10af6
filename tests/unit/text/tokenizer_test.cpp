#include "text/tokenizer.h"

#include <gtest/gtest.h>
#include <sentencepiece_processor.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "support/temp_folder.h"
#include "text/charsmap.h"
#include "text/utf8.h"
#include "unit/text/tokenizer_fixtures.h"

namespace nanolith {
namespace {

using Tokens = std::vector<int32_t>;

// A folder that holds one tokenizer.model and goes away with the object.
class ModelFolder {
  public:
    Result<std::shared_ptr<const Tokenizer>> load(const std::string& bytes) {
        folder_.write("tokenizer.model", bytes);
        return Tokenizer::load(folder_.path());
    }
    [[nodiscard]] const std::string& path() const { return folder_.path(); }

  private:
    test::TempFolder folder_;
};

std::string read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

std::string model_bytes(const std::string& name) {
    return read_file(tokenizer_folder(name) + "/tokenizer.model");
}

TEST(Tokenizer, EncodesAsSentencePiece) {
    for (const std::string name : kTokenizerNames) {
        SCOPED_TRACE(name);
        const auto tokenizer = load_tokenizer(name);
        ASSERT_TRUE(tokenizer);
        sentencepiece::SentencePieceProcessor reference;
        ASSERT_TRUE(reference.Load(tokenizer_folder(name) + "/tokenizer.model").ok());
        for (const std::string text : {"", "the lamp near the river", "  two  spaces ", "Größe 漢字 🙂",
                                       "<|user|>Mira<|user|>", "\xEF\xAC\x81x"}) {
            std::vector<int> expected;
            ASSERT_TRUE(reference.Encode(text, &expected).ok());
            const auto tokens = tokenizer->encode(text, 0);
            ASSERT_TRUE(tokens.ok());
            EXPECT_EQ(*tokens, Tokens(expected.begin(), expected.end())) << text;
        }
    }
}

TEST(Tokenizer, TextComesBack) {
    for (const std::string name : {"bpe_bytes", "bpe_symbols"}) {
        const auto tokenizer = load_tokenizer(name);
        ASSERT_TRUE(tokenizer);
        for (const std::string text : {"", " ", "a", " lamp", "  the  river\n\t", "漢字🙂", "<|user|> Mira"}) {
            EXPECT_EQ(*tokenizer->decode(*tokenizer->encode(text, 0)), text) << name;
        }
    }
}

TEST(Tokenizer, ReadsIllFormedTextAsReplacementCharacters) {
    const auto tokenizer = load_tokenizer("bpe_bytes");
    ASSERT_TRUE(tokenizer);
    EXPECT_EQ(*tokenizer->decode(*tokenizer->encode("a\xF0\x9F\x99z\xFF", 0)), "a\xEF\xBF\xBDz\xEF\xBF\xBD");
}

TEST(Tokenizer, AddsBosAndEos) {
    const auto tokenizer = load_tokenizer("bpe_bytes");
    ASSERT_TRUE(tokenizer);
    const Tokens plain = *tokenizer->encode("river", 0);
    Tokens expected = plain;
    expected.insert(expected.begin(), tokenizer->bos());
    EXPECT_EQ(*tokenizer->encode("river", NL_ENCODE_ADD_BOS), expected);
    expected.push_back(tokenizer->eos());
    EXPECT_EQ(*tokenizer->encode("river", NL_ENCODE_ADD_BOS | NL_ENCODE_ADD_EOS), expected);
    EXPECT_EQ(*tokenizer->decode(expected), "river");  // control tokens give no text
}

TEST(Tokenizer, RefusesBadArguments) {
    const auto tokenizer = load_tokenizer("unigram");
    ASSERT_TRUE(tokenizer);
    const auto no_bos = tokenizer->encode("a", NL_ENCODE_ADD_BOS);
    ASSERT_FALSE(no_bos.ok());
    EXPECT_EQ(no_bos.error().status, NL_ERROR_INVALID_ARGUMENT);
    const auto flags = tokenizer->encode("a", 32);
    ASSERT_FALSE(flags.ok());
    EXPECT_NE(flags.error().message.find("flags is 0x20"), std::string::npos);
    for (const int32_t token : {-1, tokenizer->vocab_size(), INT32_MAX, INT32_MIN}) {
        const auto text = tokenizer->decode(Tokens{token});
        ASSERT_FALSE(text.ok());
        EXPECT_EQ(text.error().status, NL_ERROR_INVALID_ARGUMENT);
        EXPECT_NE(text.error().message.find(std::to_string(token)), std::string::npos);
        EXPECT_FALSE(tokenizer->piece(token).ok());
    }
}

TEST(Tokenizer, KnowsItsSpecialTokens) {
    const auto bytes = load_tokenizer("bpe_bytes");
    const auto symbols = load_tokenizer("bpe_symbols");
    const auto unigram = load_tokenizer("unigram");
    ASSERT_TRUE(bytes && symbols && unigram);
    EXPECT_EQ(bytes->unk(), 0);
    EXPECT_EQ(bytes->bos(), 1);
    EXPECT_EQ(bytes->eos(), 2);
    EXPECT_EQ(bytes->pad(), -1);
    EXPECT_EQ(symbols->pad(), 3);
    EXPECT_EQ(unigram->bos(), -1);
}

TEST(Tokenizer, FindsPieces) {
    const auto tokenizer = load_tokenizer("bpe_symbols");
    ASSERT_TRUE(tokenizer);
    const auto user = tokenizer->find("<|user|>");
    ASSERT_TRUE(user.ok());
    EXPECT_EQ(*tokenizer->piece(*user), "<|user|>");
    EXPECT_EQ(*tokenizer->encode("<|user|>", 0), Tokens{*user});
    EXPECT_EQ(*tokenizer->find("<unk>"), tokenizer->unk());
    for (int32_t token = 0; token < tokenizer->vocab_size(); ++token) {
        EXPECT_EQ(*tokenizer->find(*tokenizer->piece(token)), token);
    }
    for (const std::string text : {"", "no such piece", "<|user|", "\xFF"}) {
        const auto found = tokenizer->find(text);
        ASSERT_FALSE(found.ok()) << text;
        EXPECT_EQ(found.error().status, NL_ERROR_NOT_FOUND);
        EXPECT_TRUE(is_valid_utf8(found.error().message));
    }
}

TEST(Tokenizer, SaysWhatOtherFilesAre) {
    for (const char* name : {"vocab.json", "qwen.tiktoken", "vocab.txt"}) {
        ModelFolder folder;
        std::ofstream(folder.path() + "/" + name) << "x";
        const auto other = Tokenizer::load(folder.path());
        ASSERT_FALSE(other.ok());
        EXPECT_EQ(other.error().status, NL_ERROR_UNSUPPORTED);
        EXPECT_NE(other.error().message.find(name), std::string::npos) << other.error().message;
    }
    for (const char* lines : {"IQ== 0\nIg== 1\n", "AAAA 17"}) {
        ModelFolder folder;
        std::ofstream(folder.path() + "/tokenizer.model") << lines;
        const auto tiktoken = Tokenizer::load(folder.path());
        ASSERT_FALSE(tiktoken.ok());
        EXPECT_EQ(tiktoken.error().status, NL_ERROR_UNSUPPORTED);
        EXPECT_NE(tiktoken.error().message.find("tiktoken: expected a SentencePiece model"), std::string::npos)
            << tiktoken.error().message;
    }
}

TEST(Tokenizer, DecodingNamesTheTokenThatIsNone) {
    const auto tokenizer = load_tokenizer("bpe_bytes");
    const std::vector<int32_t> tokens = {5, 6, 1 << 20};
    const auto text = tokenizer->decode(tokens);
    ASSERT_FALSE(text.ok());
    EXPECT_EQ(text.error().status, NL_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(text.error().message.find("tokens[2] is 1048576: expected 0 to "), std::string::npos);
    EXPECT_EQ(text.error().details.at(NL_DETAIL_INDEX - 1), 2);
}

TEST(Tokenizer, SaysWhatIsMissing) {
    ModelFolder folder;
    const auto missing = Tokenizer::load(folder.path());
    ASSERT_FALSE(missing.ok());
    EXPECT_EQ(missing.error().status, NL_ERROR_NOT_FOUND);
    EXPECT_NE(missing.error().message.find(folder.path() + "/tokenizer.model"), std::string::npos);
    std::filesystem::create_directory(folder.path() + "/tokenizer.model");
    const auto directory = Tokenizer::load(folder.path());
    ASSERT_FALSE(directory.ok());
    EXPECT_EQ(directory.error().status, NL_ERROR_BAD_MODEL);
}

// Whatever loads must encode and decode without harm; whatever does not must be called a bad model.
void try_model(ModelFolder& folder, const std::string& bytes) {
    const auto tokenizer = folder.load(bytes);
    if (!tokenizer.ok()) {
        EXPECT_TRUE(tokenizer.error().status == NL_ERROR_BAD_MODEL || tokenizer.error().status == NL_ERROR_UNSUPPORTED);
        EXPECT_NE(tokenizer.error().message.find("tokenizer.model"), std::string::npos);
        return;
    }
    const auto tokens = (*tokenizer)
                            ->encode(
                                "the river\xC2\xA0near Gr\xC3\xB6\xC3\x9F"
                                "e \xEF\xAC\x81 A\xEF\xBC\xA1 <|user|>",
                                0);
    if (!tokens.ok()) return;
    EXPECT_TRUE(is_valid_utf8(*(*tokenizer)->decode(*tokens)));
}

TEST(Tokenizer, SurvivesTruncatedFiles) {
    ModelFolder folder;
    for (const std::string name : kTokenizerNames) {
        const std::string bytes = model_bytes(name);
        // The settings at the end may be cut off between two fields, but pieces must not be lost unnoticed.
        for (size_t length = 0; length < bytes.size(); length += 1 + length / 40)
            try_model(folder, bytes.substr(0, length));
        EXPECT_FALSE(folder.load(bytes.substr(0, 20)).ok());
        EXPECT_TRUE(folder.load(bytes).ok());
    }
}

TEST(Tokenizer, SurvivesFlippedBytes) {
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    ModelFolder folder;
    for (const std::string name : kTokenizerNames) {
        const std::string bytes = model_bytes(name);
        for (int round = 0; round < 300; ++round) {
            std::string damaged = bytes;
            for (unsigned flips = 1 + random() % 4; flips > 0; --flips)
                damaged[random() % damaged.size()] = static_cast<char>(random());
            try_model(folder, damaged);
        }
    }
}

// Every unit of the normalisation table's trie set to wild values: it leads outside, in circles, to wrong strings.
TEST(Tokenizer, SurvivesADamagedNormalisationTable) {
    const std::string bytes = model_bytes("unigram");
    // The table is the one string in the file with the full-width letters' replacement "A".
    const size_t end = bytes.find(std::string("fi\0", 3));
    ASSERT_NE(end, std::string::npos);
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    ModelFolder folder;
    for (int round = 0; round < 1500; ++round) {
        std::string damaged = bytes;
        for (unsigned flips = 1 + random() % 3; flips > 0; --flips)
            damaged[end - 1 - random() % std::min<size_t>(end, 1024)] ^= static_cast<char>(1U << random() % 8);
        try_model(folder, damaged);
    }
}

// A table of 512 units whose root leads with 'a' to a unit of the test's choice.
std::string charsmap_with(uint32_t unit, uint32_t value, const std::string& strings) {
    std::vector<uint32_t> units(512, 0);
    units[0] = 256U << 10U;  // children at 256
    units[256 ^ 'a'] = unit;
    units[0 ^ 1] = value;
    std::string table(4 + 2048, '\0');
    const uint32_t size = 2048;
    std::memcpy(table.data(), &size, 4);
    std::memcpy(table.data() + 4, units.data(), 2048);
    return table + strings;
}

TEST(Charsmap, RefusesWhatLeadsAstray) {
    const uint32_t a = 'a' | (256U ^ 'a' ^ 1U) << 10U;  // its children begin at unit 1
    const std::string strings("b\0\xC3\xA4\0", 5);
    EXPECT_EQ(check_charsmap(charsmap_with(a | 0x100U, 0, strings)), "");
    EXPECT_EQ(check_charsmap(charsmap_with(a | 0x100U, 2, strings)), "");
    EXPECT_NE(check_charsmap(charsmap_with(a | 0x100U, 3, strings)), "");          // inside a character
    EXPECT_NE(check_charsmap(charsmap_with(a | 0x100U, 5, strings)), "");          // after the strings
    EXPECT_NE(check_charsmap(charsmap_with('a' | 1024U << 10U, 0, strings)), "");  // outside of the trie
    EXPECT_NE(check_charsmap(charsmap_with('a' | 0x100U, 0, strings)), "");        // matches in a circle
    EXPECT_NE(check_charsmap(charsmap_with(a, 0, "unfinished")), "");
    EXPECT_NE(check_charsmap(charsmap_with(a, 0, std::string("\xFF\0", 2))), "");
    EXPECT_NE(check_charsmap("abc"), "");
    EXPECT_NE(check_charsmap(std::string("\xFF\xFF\xFF\xFF", 4) + "abc"), "");
}

TEST(Tokenizer, ServesManyThreads) {
    const auto tokenizer = load_tokenizer("bpe_symbols");
    ASSERT_TRUE(tokenizer);
    const std::string text = "<|user|>the lamp near the river 漢字";
    const Tokens expected = *tokenizer->encode(text, 0);
    std::vector<std::thread> threads;
    std::vector<int> wrong(4, 0);
    for (size_t i = 0; i < wrong.size(); ++i) {
        threads.emplace_back([&, i] {
            for (int round = 0; round < 100; ++round) {
                const auto tokens = tokenizer->encode(text, 0);
                if (!tokens.ok() || *tokens != expected || *tokenizer->decode(*tokens) != text) ++wrong[i];
            }
        });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

}  // namespace
}  // namespace nanolith
