// tokenizer.json files that are damaged, hostile or beyond what is supported, and texts that are hard on a tokenizer.
#include "text/json_tokenizer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <random>
#include <sstream>

#include "support/temp_folder.h"
#include "text/pattern.h"
#include "text/pattern_syntax.h"
#include "text/text_stream.h"
#include "text/utf8.h"

namespace nanolith {
namespace {

using Tokens = std::vector<int32_t>;

// A byte-level tokenizer of a few pieces, whose parts a test replaces.
struct Parts {
    std::string added = "[]";
    std::string normalizer = "null";
    std::string pre_tokenizer = R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":true})";
    std::string post_processor = "null";
    std::string decoder = R"({"type":"ByteLevel"})";
    std::string model = R"("type":"BPE")";
    std::string vocab = R"({"a":0,"b":1,"ab":2,"Ġ":3,"Ġa":4})";
    std::string merges = R"([["a","b"],"Ġ a"])";

    [[nodiscard]] std::string json() const {
        return R"({"version":"1.0","added_tokens":)" + added + R"(,"normalizer":)" + normalizer +
               R"(,"pre_tokenizer":)" + pre_tokenizer + R"(,"post_processor":)" + post_processor + R"(,"decoder":)" +
               decoder + R"(,"model":{)" + model + R"(,"vocab":)" + vocab + R"(,"merges":)" + merges + "}}";
    }
    [[nodiscard]] Result<std::shared_ptr<const Tokenizer>> load() const {
        return parse_json_tokenizer(json(), "folder/tokenizer.json", {});
    }
};

// The parts must be refused with `status` and a message that has `text` and the file's name.
void expect_refused(const Parts& parts, nl_status status, const std::string& text) {
    const auto tokenizer = parts.load();
    ASSERT_FALSE(tokenizer.ok()) << text;
    EXPECT_EQ(tokenizer.error().status, status) << tokenizer.error().message;
    EXPECT_NE(tokenizer.error().message.find(text), std::string::npos) << tokenizer.error().message;
    EXPECT_NE(tokenizer.error().message.find("folder/tokenizer.json"), std::string::npos) << tokenizer.error().message;
}

// A tokenizer of nothing but a model, whose members are `model`.
Result<std::shared_ptr<const Tokenizer>> load_model(const std::string& model) {
    return parse_json_tokenizer(R"({"decoder":{"type":"Fuse"},"model":{)" + model + "}}", "folder/tokenizer.json", {});
}

void expect_refused_model(const std::string& model, nl_status status, const std::string& text) {
    const auto tokenizer = load_model(model);
    ASSERT_FALSE(tokenizer.ok()) << text;
    EXPECT_EQ(tokenizer.error().status, status) << tokenizer.error().message;
    EXPECT_NE(tokenizer.error().message.find(text), std::string::npos) << tokenizer.error().message;
}

TEST(JsonTokenizer, TakesASmallOne) {
    const auto tokenizer = Parts().load();
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    EXPECT_EQ(*(*tokenizer)->encode("ab a", 0), (Tokens{2, 4}));
    EXPECT_EQ(*(*tokenizer)->decode(Tokens{2, 4}), "ab a");
}

// What stands after ByteLevel in a sequence, as in Falcon's files, sees how bytes are spelled: the space as U+0120,
// and of the two bytes of U+00B2, C2 and B2, the second as a digit.
TEST(JsonTokenizer, CutsSpelledBytesBehindByteLevel) {
    Parts parts;
    parts.vocab = R"({"a":0,"b":1,"ab":2,"\u0120":3,"\u0120a":4,"\u00C2":5,"\u00B2":6,"\u00C2\u00B2":7})";
    parts.merges = R"([["a","b"],["\u0120","a"],["\u00C2","\u00B2"]])";
    const std::string byte_level = R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false})";
    const auto tokens = [&](const std::string& after) {
        parts.pre_tokenizer = R"({"type":"Sequence","pretokenizers":[)" + byte_level + after + "]}";
        const auto tokenizer = parts.load();
        EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().message;
        return *(*tokenizer)->encode("ab a\xC2\xB2", 0);
    };
    EXPECT_EQ(tokens(""), (Tokens{2, 4, 7}));
    EXPECT_EQ(tokens(R"(,{"type":"Digits"})"), (Tokens{2, 4, 5, 6}));
    EXPECT_EQ(tokens(R"(,{"type":"Split","pattern":{"String":"\u0120"},"behavior":"Isolated"})"), (Tokens{2, 3, 0, 7}));
}

TEST(JsonTokenizer, NamesWhatItDoesNotKnow) {
    Parts parts;
    parts.normalizer = R"({"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Other"}]})";
    expect_refused(parts, NL_ERROR_UNSUPPORTED, "normalizer \"Other\"");
    parts = {};
    parts.pre_tokenizer = R"({"type":"UnicodeScripts"})";
    expect_refused(parts, NL_ERROR_UNSUPPORTED, "pre_tokenizer \"UnicodeScripts\"");
    parts.pre_tokenizer = R"({"type":"Split","pattern":{"String":" "},"behavior":"Sideways","invert":false})";
    expect_refused(parts, NL_ERROR_UNSUPPORTED, "Sideways");
    parts = {};
    parts.decoder = R"({"type":"CTC"})";
    expect_refused(parts, NL_ERROR_UNSUPPORTED, "decoder \"CTC\"");
    const std::string word_piece = R"({"type":"WordPiece","prefix":"##","cleanup":true})";
    for (const std::string& decoders : {R"({"type":"ByteFallback"},)" + word_piece, word_piece + R"(,{"type":"Fuse"})",
                                        word_piece + "," + word_piece}) {
        parts.decoder = R"({"type":"Sequence","decoders":[)" + decoders + "]}";
        expect_refused(parts, NL_ERROR_UNSUPPORTED, "\"WordPiece\"");
    }
    const std::string suffix = R"({"type":"BPEDecoder","suffix":"</w>"})";
    for (const std::string& decoders : {R"({"type":"ByteFallback"},)" + suffix, suffix + R"(,{"type":"Fuse"})"}) {
        parts.decoder = R"({"type":"Sequence","decoders":[)" + decoders + "]}";
        expect_refused(parts, NL_ERROR_UNSUPPORTED, "\"BPEDecoder\"");
    }
    parts.decoder = R"({"type":"BPEDecoder","suffix":""})";
    expect_refused(parts, NL_ERROR_UNSUPPORTED, "decoder.suffix");
    parts.decoder =
        R"({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Strip","content":"x","start":1,"stop":0}]})";
    expect_refused(parts, NL_ERROR_UNSUPPORTED, "\"Strip\"");
    parts = {};
    parts.post_processor = R"({"type":"Other"})";
    expect_refused(parts, NL_ERROR_UNSUPPORTED, "post_processor \"Other\"");
    parts = {};
    parts.model = R"("type":"Other")";
    expect_refused(parts, NL_ERROR_UNSUPPORTED, "model \"Other\"");
    parts.model = R"("type":"BPE","dropout":0.1)";
    expect_refused(parts, NL_ERROR_UNSUPPORTED, "model.dropout is 0.1");
    parts.model = R"("type":"BPE","continuing_subword_prefix":"\u2581")";
    expect_refused(parts, NL_ERROR_UNSUPPORTED, "continuing_subword_prefix");
    parts.model = R"("type":"BPE","end_of_word_suffix":")" + std::string(65, 'x') + "\"";
    expect_refused(parts, NL_ERROR_UNSUPPORTED, "end_of_word_suffix");
    parts.model = R"("type":"BPE","byte_fallback":true,"end_of_word_suffix":"</w>")";
    expect_refused(parts, NL_ERROR_UNSUPPORTED, "byte_fallback");
}

// A merge's second piece loses the prefix that it must have.
TEST(JsonTokenizer, RefusesAMergeShorterThanThePrefix) {
    Parts parts;
    parts.model = R"("type":"BPE","continuing_subword_prefix":"##")";
    parts.merges = R"([["a","b"]])";
    expect_refused(parts, NL_ERROR_BAD_MODEL, "continuing_subword_prefix");
}

// What ends a word is a space where another word follows, and nothing where none does: a stream tells as soon as it
// can know.
TEST(JsonTokenizer, EndsWordsWithASpaceOnceAnotherFollows) {
    Parts parts;
    parts.model = R"("type":"BPE","end_of_word_suffix":"</w>")";
    parts.vocab = R"({"a":0,"b</w>":1,"x</w>y</w>":2})";
    parts.merges = "[]";
    parts.decoder = R"({"type":"BPEDecoder","suffix":"</w>"})";
    const auto tokenizer = parts.load();
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    EXPECT_EQ(*(*tokenizer)->decode(Tokens{0, 1, 0, 1}), "ab ab");
    EXPECT_EQ(*(*tokenizer)->decode(Tokens{1, 2}), "b xy");
    EXPECT_EQ(*(*tokenizer)->decode(Tokens{2, 0}), "x y a");
    TextStream stream(*tokenizer);
    EXPECT_EQ(*stream.push(0), "a");
    EXPECT_EQ(*stream.push(1), "b");
    EXPECT_EQ(*stream.push(2), " x");
    EXPECT_EQ(*stream.push(0), " y a");
    EXPECT_EQ(stream.finish(), "");
    EXPECT_EQ(*stream.push(2), "x");
    EXPECT_EQ(stream.finish(), "y");
    EXPECT_EQ(*stream.push(0), "a");
}

TEST(JsonTokenizer, RefusesAContradictoryVocabulary) {
    Parts parts;
    for (const std::string vocab : {R"({"a":-1})", R"({"a":1.5})", R"({"a":"0"})", R"({"a":4294967296})",
                                    R"({"a":0,"b":0})", R"({"a":100000})", R"({"a":0,"a":1})", "[]", "7"}) {
        parts.vocab = vocab;
        parts.merges = "[]";
        expect_refused(parts, NL_ERROR_BAD_MODEL, "");
    }
    parts = {};
    for (const std::string merges : {R"(["ab"])", R"(["a b c"])", R"([["a"]])", R"([["a",1]])", R"(["a x"])",
                                     R"(["b a"])", R"([" a"])", R"({})", "[null]"}) {
        parts.merges = merges;
        expect_refused(parts, NL_ERROR_BAD_MODEL, "merges");
    }
    parts = {};
    parts.model = R"("type":"BPE","unk_token":"<none>")";
    expect_refused(parts, NL_ERROR_BAD_MODEL, "unk_token");
}

TEST(JsonTokenizer, RefusesContradictoryTokens) {
    Parts parts;
    const auto token = [](const std::string& content, const std::string& id) {
        return R"({"content":")" + content + R"(","id":)" + id + "}";
    };
    for (const std::string& added :
         {"[" + token("a", "1") + "]", "[" + token("", "5") + "]", "[" + token("x", "-1") + "]",
          "[" + token("x", "2147483647") + "]", "[" + token("x", "5") + "," + token("y", "5") + "]",
          "[" + token("x", "5") + "," + token("x", "6") + "]", "[" + token(std::string(600, 'x'), "5") + "]",
          std::string("[1]"), std::string("{}"), std::string(R"([{"content":"x","id":5,"special":"yes"}])")}) {
        parts.added = added;
        expect_refused(parts, NL_ERROR_BAD_MODEL, "added");
    }
    parts = {};
    parts.post_processor = R"({"type":"RobertaProcessing","sep":["</s>",9],"cls":["<s>",0]})";
    expect_refused(parts, NL_ERROR_BAD_MODEL, "token 9: expected 0 to 4");
    parts.post_processor =
        R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}}],"special_tokens":{}})";
    expect_refused(parts, NL_ERROR_BAD_MODEL, "special_tokens");
}

std::string unigram(const std::string& vocab, const std::string& more = "") {
    return R"("type":"Unigram","vocab":)" + vocab + more;
}

TEST(JsonTokenizer, RefusesAContradictoryUnigram) {
    for (const std::string vocab :
         {R"([["a"]])", R"([["a",0,0]])", R"([[0,"a"]])", R"([["a","0"]])", R"([["a",null]])", "[0]", "7", "null"}) {
        expect_refused_model(unigram(vocab), NL_ERROR_BAD_MODEL, "model.vocab");
    }
    expect_refused_model(unigram(R"([["a",0]])", R"(,"unk_id":1)"), NL_ERROR_BAD_MODEL, "unk_id");
    expect_refused_model(unigram("[]", R"(,"unk_id":0)"), NL_ERROR_BAD_MODEL, "unk_id");
    expect_refused_model(unigram(R"([[")" + std::string(600, 'a') + R"(",0]])"), NL_ERROR_UNSUPPORTED, "600 bytes");
    for (const std::string charsmap : {"null", "7", R"("")", R"("A")", R"("AAAA")", R"("*AAA")"}) {
        Parts parts;
        parts.normalizer = R"({"type":"Precompiled","precompiled_charsmap":)" + charsmap + "}";
        expect_refused(parts, NL_ERROR_BAD_MODEL, "precompiled_charsmap");
    }
}

// Without an unknown token the reference fails too.
TEST(JsonTokenizer, NamesWhatAModelCanNotSpell) {
    const auto unigram_tokenizer = load_model(unigram(R"([["a",0],["ab",-1]])"));
    ASSERT_TRUE(unigram_tokenizer.ok()) << unigram_tokenizer.error().message;
    EXPECT_EQ(*(*unigram_tokenizer)->encode("aab", 0), (Tokens{0, 1}));
    const auto unspelled = (*unigram_tokenizer)->encode("ax", 0);
    ASSERT_FALSE(unspelled.ok());
    EXPECT_EQ(unspelled.error().status, NL_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(unspelled.error().message.find("\"x\""), std::string::npos) << unspelled.error().message;
    const std::string word_piece = R"("type":"WordPiece","unk_token":"?","continuing_subword_prefix":"##",)"
                                   R"("max_input_chars_per_word":3,"vocab":{"a":0,"##b":1})";
    const auto word_piece_tokenizer = load_model(word_piece);
    ASSERT_TRUE(word_piece_tokenizer.ok()) << word_piece_tokenizer.error().message;
    EXPECT_EQ(*(*word_piece_tokenizer)->encode("abb", 0), (Tokens{0, 1, 1}));
    for (const char* text : {"abbb", "aa"}) {
        const auto unknown = (*word_piece_tokenizer)->encode(text, 0);
        ASSERT_FALSE(unknown.ok());
        EXPECT_EQ(unknown.error().status, NL_ERROR_INVALID_ARGUMENT);
        EXPECT_NE(unknown.error().message.find(text), std::string::npos) << unknown.error().message;
    }
    const std::string word_level = R"("type":"WordLevel","unk_token":"?","vocab":{"a":0,"b":1})";
    const auto word_level_tokenizer = load_model(word_level);
    ASSERT_TRUE(word_level_tokenizer.ok()) << word_level_tokenizer.error().message;
    EXPECT_EQ(*(*word_level_tokenizer)->encode("b", 0), (Tokens{1}));
    const auto unknown_word = (*word_level_tokenizer)->encode("ab", 0);
    ASSERT_FALSE(unknown_word.ok());
    EXPECT_NE(unknown_word.error().message.find("\"ab\""), std::string::npos) << unknown_word.error().message;
    for (const std::string field : {"unk_token", "vocab"}) {
        std::string without = word_level;
        without.replace(without.find(field), 1, "-");
        expect_refused_model(without, NL_ERROR_BAD_MODEL, field);
    }
    for (const std::string field : {"unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"}) {
        std::string without = word_piece;
        without.replace(without.find(field), 1, "-");
        expect_refused_model(without, NL_ERROR_BAD_MODEL, field);
    }
}

// A file of which every part may be wrong does no harm, whatever it makes of a text.
TEST(JsonTokenizer, SurvivesDamagedFiles) {
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    for (const std::string name :
         {"gpt2", "llama2", "odd", "splits", "bert", "t5", "unigram_ties", "clip", "affixes", "word_level"}) {
        std::ifstream file(std::string(NL_TEXT_FIXTURES) + "/" + name + "/tokenizer.json", std::ios::binary);
        std::stringstream text;
        text << file.rdbuf();
        const std::string json = text.str();
        ASSERT_FALSE(json.empty());
        int loaded = 0;
        // Most damage is refused; go on until some was not, so that encoding and decoding were reached.
        for (int round = 0; round < 60 || loaded < 3; ++round) {
            ASSERT_LT(round, 6000) << name << ": hardly any damaged file loads";
            std::string damaged = json;
            for (unsigned flips = 1 + random() % 3; flips > 0; --flips) {
                // The components stand in front of the vocabulary.
                char& byte =
                    damaged[random() % (round % 2 == 0 ? damaged.size() : std::min<size_t>(3000, json.size()))];
                byte = static_cast<char>(round % 3 == 0 ? ' ' + random() % 95
                                                        : byte ^ static_cast<char>(1U << random() % 3));
            }
            if (round == 0) damaged.resize(damaged.size() / 2);
            const auto tokenizer = parse_json_tokenizer(damaged, "tokenizer.json", {});
            if (!tokenizer.ok()) {
                EXPECT_NE(tokenizer.error().message.find("tokenizer.json"), std::string::npos);
                continue;
            }
            ++loaded;
            const auto tokens = (*tokenizer)->encode("Hello  wörld\n\n1234 <s> 漢字 👩‍🚀 e\u0301", 0);
            if (!tokens.ok()) continue;
            EXPECT_TRUE(is_valid_utf8(*(*tokenizer)->decode(*tokens)));
        }
    }
}

TEST(JsonTokenizer, WinsOverTokenizerModel) {
    const test::TempFolder folder;
    folder.write("tokenizer.model", "not read");
    folder.write("tokenizer.json", Parts().json());
    const auto tokenizer = Tokenizer::load(folder.path());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    EXPECT_EQ((*tokenizer)->vocab_size(), 5);
    // And one that is not understood is not passed over.
    folder.write("tokenizer.json", "{}");
    EXPECT_EQ(Tokenizer::load(folder.path()).error().status, NL_ERROR_BAD_MODEL);
}

TEST(JsonTokenizer, ReadsTheFoldersOtherFiles) {
    const test::TempFolder folder;
    Parts parts;
    parts.added = R"([{"content":"<s>","id":5,"special":true}])";
    folder.write("tokenizer.json", parts.json());
    folder.write("special_tokens_map.json", R"({"bos_token":{"content":"<s>"},"eos_token":"b"})");
    auto tokenizer = Tokenizer::load(folder.path());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    EXPECT_EQ((*tokenizer)->bos(), 5);
    EXPECT_EQ((*tokenizer)->eos(), 1);
    folder.write(
        "tokenizer_config.json",
        R"({"eos_token":"a","add_bos_token":true,"chat_template":[{"name":"x","template":"1"},{"name":"default","template":"2"}]})");
    tokenizer = Tokenizer::load(folder.path());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    EXPECT_EQ((*tokenizer)->bos(), 5);
    EXPECT_EQ((*tokenizer)->eos(), 0);
    EXPECT_EQ((*tokenizer)->chat_template(), "2");
    EXPECT_EQ(*(*tokenizer)->encode("a", NL_ENCODE_ADD_SPECIAL), (Tokens{5, 0}));
    folder.write("chat_template.jinja", "3");
    tokenizer = Tokenizer::load(folder.path());
    ASSERT_TRUE(tokenizer.ok());
    EXPECT_EQ((*tokenizer)->chat_template(), "3");
    for (const std::string bad : {"[", R"({"bos_token":5})", R"({"add_bos_token":"yes"})",
                                  R"({"added_tokens_decoder":{"x":{}}})", R"({"added_tokens_decoder":{"5":{}}})"}) {
        folder.write("tokenizer_config.json", bad);
        const auto refused = Tokenizer::load(folder.path());
        ASSERT_FALSE(refused.ok()) << bad;
        EXPECT_EQ(refused.error().status, NL_ERROR_BAD_MODEL);
        EXPECT_NE(refused.error().message.find("tokenizer_config.json"), std::string::npos);
    }
}

// Quadratic time would take hours.
TEST(JsonTokenizer, TakesAMegabyteOfAnything) {
    for (const std::string name : {"llama3", "llama2", "nfkd", "sp_first", "bert", "t5", "albert", "unigram_ties",
                                   "clip", "affixes", "tekken"}) {
        const auto tokenizer = Tokenizer::load(std::string(NL_TEXT_FIXTURES) + "/" + name);
        ASSERT_TRUE(tokenizer.ok());
        for (const std::string part : {"a", " ", "\xF0\x9F\x91\xA9\xE2\x80\x8D", "\xCC\x81\xCC\xA3", "<"}) {
            std::string text;
            while (text.size() < 1000000) text += part;
            const auto start = std::chrono::steady_clock::now();
            const auto tokens = (*tokenizer)->encode(text, 0);
            const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
            ASSERT_TRUE(tokens.ok()) << name << show_json(part) << tokens.error().message;
            EXPECT_LT(seconds.count(), 30) << name << show_json(part);
        }
    }
}

TEST(Pattern, RefusesWhatOnigurumaReadsDifferently) {
    for (const std::string pattern :
         {"[a[b]]",          "[a&&b]",      "\\h",   "\\X",   "\\b",   "\\1",        "\\k<x>", "(?<name>a)",
          "(?m:.)",          "(?x: a)",     "(?>a)", "^{2}+", "a{2}?", "a**",        "a{x}",   "\\p{Zanabazar}",
          "\\p{^Zanabazar}", "[[:alpha:]]", "[]a]",  "[a",    "a\\",   "\\x{110000", "\\xFF",  "\\Qa\\E",
          "(*UTF)a",         "\\u12",       "\\pL",  "[\\W]", "\\G",   "\\K",        "\\R"}) {
        const auto translated = translate_pattern(pattern, "file");
        ASSERT_FALSE(translated.ok()) << pattern;
        EXPECT_EQ(translated.error().status, NL_ERROR_UNSUPPORTED);
        EXPECT_NE(translated.error().message.find("file"), std::string::npos);
    }
    for (const std::string pattern : {"(a", "a)", "[b-a]", "*a", "\\x{110000}"}) {
        const auto compiled = Pattern::regex(pattern, "file");
        ASSERT_FALSE(compiled.ok()) << pattern;
        EXPECT_NE(compiled.error().message.find("file"), std::string::npos);
    }
}

TEST(Pattern, EndsExponentialMatching) {
    const auto pattern = Pattern::regex("(?:a+)+\\d", "file");
    ASSERT_TRUE(pattern.ok());
    const std::string text(5000, 'a');
    Pattern::Finder finder(*pattern);
    finder.start(text);
    Span match;
    const auto found = finder.next(match);
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.error().status, NL_ERROR_UNSUPPORTED);
    EXPECT_NE(found.error().message.find("file"), std::string::npos);
}

// To Oniguruma they are more than Unicode says.
// As the tokenizers package splits it: inside a class the numbers of latin-1 are no word characters.
TEST(Pattern, KnowsOnigurumasWordCharacters) {
    const std::string text = "a\u00B2\u00B3\u00B9\u00BC\u00BD\u00BE_b\u00F7";
    const auto words = [&](const char* expression) {
        const auto pattern = Pattern::regex(expression, "file");
        EXPECT_TRUE(pattern.ok());
        Pattern::Finder finder(*pattern);
        finder.start(text);
        std::vector<std::string> found;
        for (Span match; *finder.next(match);) found.push_back(text.substr(match.begin, match.end - match.begin));
        return found;
    };
    using Words = std::vector<std::string>;
    EXPECT_EQ(words("\\w+"), Words{"a\u00B2\u00B3\u00B9\u00BC\u00BD\u00BE_b"});
    EXPECT_EQ(words("\\W+"), Words{"\u00F7"});
    EXPECT_EQ(words("[\\w]+"), (Words{"a", "_b"}));
    EXPECT_EQ(words("[^\\w]+"), (Words{"\u00B2\u00B3\u00B9\u00BC\u00BD\u00BE", "\u00F7"}));
    EXPECT_EQ(words("[\\w\u00F7]+"), (Words{"a", "_b\u00F7"}));
}

TEST(Pattern, MovesOnBehindEmptyMatches) {
    const auto pattern = Pattern::regex("b*", "file");
    ASSERT_TRUE(pattern.ok());
    Pattern::Finder finder(*pattern);
    finder.start(
        "\xE6\xBC\xA2"
        "bb\xC3\xA9");
    std::vector<std::pair<size_t, size_t>> matches;
    Span match;
    while (*finder.next(match)) matches.emplace_back(match.begin, match.end);
    EXPECT_EQ(matches, (std::vector<std::pair<size_t, size_t>>{{0, 0}, {3, 5}, {5, 5}}));
}

}  // namespace
}  // namespace nanolith
