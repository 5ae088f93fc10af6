#include "store/format.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/checksum.h"

namespace nanolith {
namespace {

using Tokens = std::vector<int32_t>;

constexpr int32_t kSavedVocabulary = 100;

class FormatTest : public ::testing::Test {
  protected:
    // Two chunks, the second after the first and used in part, and a tail.
    Saved conversation() {
        const auto first = store.intern(Tokens(20, 7), {});
        const auto second = store.intern(Tokens(17, 8), {first});
        Saved saved;
        saved.chunks = {{.identity = first, .level = 0, .length = 20, .base = 0},
                        {.identity = second, .level = 2, .length = 5, .base = 20}};
        saved.tail =
            SavedTail{.tokens = {1, 2, 3},
                      .computed = 2,
                      .sampling = {.temperature = 0.5F, .top_k = 3, .top_p = 0.9F, .min_p = 0.1F, .seed = 1ULL << 63U},
                      .next = 42};
        return saved;
    }

    // The same, used whole, of whose second chunk nine tokens are recomputed, in both pages.
    Saved blend() {
        Saved saved = conversation();
        saved.chunks[0].exact = true;
        saved.chunks[1].length = 17;
        saved.chunks[1].recomputed = {2, 3, 4};
        saved.tail->composition = NL_COMPOSE_BLENDED;
        saved.tail->blend = SavedBlend{.share = 0.25, .begun = true, .chosen_tokens = 17, .is_shared = true};
        return saved;
    }

    static Header header_for(const std::vector<std::byte>& description, int64_t num_pages) {
        Header header;
        header.page_size = 16;
        header.page_bytes = 64;
        header.num_pages = num_pages;
        header.description_bytes = description.size();
        header.description_checksum = checksum(description);
        return header;
    }

    ChunkStore store;
};

TEST_F(FormatTest, ADescriptionComesBack) {
    const Saved saved = conversation();
    EXPECT_EQ(pages_of(saved, 16), 2 + 2 + 1);
    const auto bytes = encode_description(saved);
    ASSERT_TRUE(bytes.ok());
    ChunkStore other;  // as in another process
    const auto read = decode_description(*bytes, header_for(*bytes, 5), kSavedVocabulary, other, "file");
    ASSERT_TRUE(read.ok()) << read.error().message;
    ASSERT_EQ(read->chunks.size(), 2U);
    EXPECT_EQ(read->chunks[0].identity->tokens, Tokens(20, 7));
    EXPECT_EQ(read->chunks[1].identity->tokens, Tokens(17, 8));
    EXPECT_EQ(read->chunks[1].identity->before, ChunkStore::Identities{read->chunks[0].identity});
    EXPECT_EQ(read->chunks[1].level, 2);
    EXPECT_EQ(read->chunks[1].length, 5);
    EXPECT_EQ(read->chunks[1].base, 20);
    EXPECT_EQ(read->tail->tokens, (Tokens{1, 2, 3}));
    EXPECT_EQ(read->tail->computed, 2);
    EXPECT_EQ(read->tail->sampling, saved.tail->sampling);
    EXPECT_EQ(read->tail->next, 42);
    EXPECT_EQ(read->chunks[0].identity, other.intern(Tokens(20, 7), {})) << "equal identities are one object";
}

TEST_F(FormatTest, FurtherSamplingOptionsComeBack) {
    Saved saved = conversation();
    const size_t plain = encode_description(saved)->size();
    SamplingOptions& options = saved.tail->sampling;
    options.repetition_penalty = 1.1F;
    options.penalty_window = 1000;
    options.biases = {{3, -2.5F}, {99, 100}};
    options.banned = {1, 2};
    options.allowed = {4, 5, 6};
    options.dry_multiplier = 0.8F;
    options.dry_breakers = {"\n", ""};
    options.typical_p = 0.9F;
    options.mirostat_tau = 5;
    options.order = {Filter::top_k, Filter::temperature};
    const auto bytes = encode_description(saved);
    ASSERT_TRUE(bytes.ok());
    EXPECT_GT(bytes->size(), plain) << "what is at its default takes no bytes";
    ChunkStore other;
    const auto read = decode_description(*bytes, header_for(*bytes, 5), kSavedVocabulary, other, "file");
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(read->tail->sampling, options);
    options.banned = {kSavedVocabulary};
    const auto beyond = encode_description(saved);
    EXPECT_FALSE(decode_description(*beyond, header_for(*beyond, 5), kSavedVocabulary, other, "file").ok());
    // More than an option takes would cost whoever loads the file time and memory without bounds.
    for (const auto& breakers :
         {std::vector<std::string>(1025, "x"), std::vector<std::string>(1, std::string(41, 'x'))}) {
        Saved excessive = conversation();
        excessive.tail->sampling.dry_breakers = breakers;
        const auto encoded = encode_description(excessive);
        ASSERT_TRUE(encoded.ok());
        EXPECT_FALSE(decode_description(*encoded, header_for(*encoded, 5), kSavedVocabulary, other, "file").ok());
    }
    for (size_t length = plain + 1; length < bytes->size(); ++length) {
        const auto cut = std::span(*bytes).first(length);
        EXPECT_FALSE(decode_description(cut, header_for(*bytes, 5), kSavedVocabulary, other, "file").ok()) << length;
    }
}

TEST_F(FormatTest, PagesOfUnits) {
    EXPECT_EQ(pages_of_units({}, 16), std::vector<int32_t>{});
    const std::vector<int32_t> units{0, 3, 4, 5, 20};
    EXPECT_EQ(pages_of_units(units, 16), (std::vector<int32_t>{0, 1, 5}));
    EXPECT_EQ(pages_of_units(units, 64), (std::vector<int32_t>{0, 1}));
}

TEST_F(FormatTest, ABlendComesBack) {
    Saved saved = blend();
    EXPECT_EQ(pages_of(saved, 16), 2 + 2 + 2 + 1);
    const auto bytes = encode_description(saved);
    ASSERT_TRUE(bytes.ok());
    const auto read = decode_description(*bytes, header_for(*bytes, 7), kSavedVocabulary, store, "file");
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_TRUE(read->chunks[0].exact);
    EXPECT_FALSE(read->chunks[1].exact);
    EXPECT_EQ(read->chunks[1].recomputed, (std::vector<int32_t>{2, 3, 4}));
    EXPECT_EQ(read->tail->composition, NL_COMPOSE_BLENDED);
    ASSERT_TRUE(read->tail->blend.has_value());
    EXPECT_EQ(read->tail->blend->share, 0.25);
    EXPECT_TRUE(read->tail->blend->begun);
    EXPECT_EQ(read->tail->blend->chosen_tokens, 17);
    EXPECT_TRUE(read->tail->blend->is_shared);
}

// Each of these is well-formed but for one thing.
TEST_F(FormatTest, BlendsThatContradictThemselvesAreRefused) {
    const auto refused = [&](const Saved& saved, int64_t pages) {
        const auto bytes = encode_description(saved);
        ASSERT_TRUE(bytes.ok());
        const auto read = decode_description(*bytes, header_for(*bytes, pages), kSavedVocabulary, store, "file");
        ASSERT_FALSE(read.ok());
        EXPECT_EQ(read.error().status, NL_ERROR_BAD_FILE) << read.error().message;
    };
    refused(blend(), 5);  // without the conversation's versions of pages
    for (const std::vector<int32_t>& units : {std::vector<int32_t>{5}, {-1}, {1, 1}, {4, 3}}) {
        Saved saved = blend();
        saved.chunks[1].recomputed = units;
        refused(saved, 5 + std::ssize(pages_of_units(units, 16)));
    }
    for (const double share : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()}) {
        Saved saved = blend();
        saved.tail->blend->share = share;
        refused(saved, 7);
    }
    Saved saved = blend();
    saved.tail->blend->chosen_tokens = -1;
    refused(saved, 7);
    saved = blend();
    saved.chunks[1].length = 16;
    saved.chunks[1].recomputed = {0};
    refused(saved, 6);  // others would find a page that has not all of its tokens
    saved = blend();
    saved.tail->composition = NL_COMPOSE_INDEPENDENT;
    saved.tail->blend.reset();
    refused(saved, 7);
}

// Each of these is well-formed but for one thing.
TEST_F(FormatTest, ContradictionsAreRefused) {
    const auto refused = [&](const Saved& saved, int64_t pages, int32_t vocabulary = kSavedVocabulary) {
        const auto bytes = encode_description(saved);
        ASSERT_TRUE(bytes.ok());
        const auto read = decode_description(*bytes, header_for(*bytes, pages), vocabulary, store, "file");
        ASSERT_FALSE(read.ok());
        EXPECT_EQ(read.error().status, NL_ERROR_BAD_FILE) << read.error().message;
    };
    refused(conversation(), 4);
    refused(conversation(), 5, 42);  // the next token is 42
    Saved saved = conversation();
    saved.chunks[0].level = 3;
    refused(saved, 5);
    saved = conversation();
    saved.chunks[1].length = 18;
    refused(saved, 5);
    saved = conversation();
    saved.chunks[1].length = 0;
    refused(saved, 5);
    saved = conversation();
    saved.tail->computed = 4;
    refused(saved, 5);
    saved = conversation();
    saved.tail->sampling.top_p = 0;
    refused(saved, 5);
    saved = conversation();
    saved.tail->composition = 3;
    refused(saved, 5);
    saved = conversation();
    saved.tail.reset();  // two chunks and no conversation
    refused(saved, 4);
    auto bytes = encode_description(conversation());
    bytes->push_back(std::byte{0});
    EXPECT_FALSE(decode_description(*bytes, header_for(*bytes, 5), kSavedVocabulary, store, "file").ok());
    for (size_t size = 0; size + 1 < bytes->size(); ++size) {
        const std::vector<std::byte> cut(bytes->begin(), bytes->begin() + static_cast<std::ptrdiff_t>(size));
        EXPECT_FALSE(decode_description(cut, header_for(cut, 5), kSavedVocabulary, store, "file").ok()) << size;
    }
}

TEST_F(FormatTest, AHeaderComesBack) {
    Header header = header_for(std::vector<std::byte>(1000), 3);
    header.mark.weights.fill(std::byte{1});
    header.mark.tokenizer.fill(std::byte{2});
    header.mark.numbers.fill(std::byte{3});
    header.chunk_digest.fill(std::byte{4});
    // Description after 192 bytes, pages at the next multiple of 4,096, then three checksums and one of these.
    EXPECT_EQ(header.pages_begin(), 4096U);
    EXPECT_EQ(header.file_bytes(), 4096U + 3 * 64 + 4 * 8);
    const auto bytes = encode_header(header);
    ASSERT_EQ(bytes.size(), kHeaderBytes);
    const auto read = decode_header(bytes, header.file_bytes(), "file");
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(read->mark, header.mark);
    EXPECT_EQ(read->chunk_digest, header.chunk_digest);
    EXPECT_EQ(read->num_pages, 3);
    EXPECT_TRUE(check_mark(*read, header.mark, 16, 64, "file").ok());
    EngineMark other = header.mark;
    other.tokenizer[0] = std::byte{9};
    EXPECT_NE(check_mark(*read, other, 16, 64, "file").error().message.find("another tokenizer"), std::string::npos);
    EXPECT_FALSE(decode_header(bytes, header.file_bytes() - 1, "file").ok());
    EXPECT_FALSE(decode_header(std::span(bytes).first(100), 100, "file").ok());
    Header huge = header;  // sizes that would overflow
    huge.page_bytes = INT64_MAX;
    EXPECT_FALSE(decode_header(encode_header(huge), huge.file_bytes(), "file").ok());
    huge = header;
    huge.num_pages = -1;
    EXPECT_FALSE(decode_header(encode_header(huge), huge.file_bytes(), "file").ok());
}

}  // namespace
}  // namespace nanolith
