// What encoding a long text takes of memory, by the process's own peak.
#include <gtest/gtest.h>
#include <malloc.h>

#include <fstream>

#include "text/tokenizer.h"
#include "text/utf8.h"

namespace nanolith {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMemoryIsOurs = false;  // a sanitizer takes its own for each byte
#else
constexpr bool kMemoryIsOurs = true;
#endif

constexpr size_t kTextBytes = size_t{2} << 20U;
// What may be taken whatever the text: 64 MiB are promised, of which such a text must not need most.
constexpr size_t kConstantBytes = size_t{12} << 20U;

// The most memory that was in use since the last call of reset_peak, in bytes.
size_t peak() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6)) * 1024;
    }
    return 0;
}
bool reset_peak() {
    std::ofstream file("/proc/self/clear_refs");
    file << "5";
    file.close();
    return !file.fail();
}

std::string repeated(const std::string& part) {
    std::string text;
    text.reserve(kTextBytes);
    while (text.size() + part.size() <= kTextBytes) text += part;
    return text;
}

class TokenizerMemory : public ::testing::TestWithParam<const char*> {};

TEST_P(TokenizerMemory, IsSixteenBytesAByteOfText) {
    if (!kMemoryIsOurs) GTEST_SKIP() << "the sanitizer's memory counts too";
    const auto tokenizer = Tokenizer::load(std::string(NL_TEXT_FIXTURES) + "/" + GetParam());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    if (!reset_peak()) GTEST_SKIP() << "/proc/self/clear_refs can't be written here";
    for (const std::string part :
         {"The lamp near the river burns all night. Who lit it?\n", "a", " ", "x ", "abcdefghij",
          "\xE6\xBC\xA2\xE5\xAD\x97", "e\xCC\x81\xCC\xA3", "\x80", "<s>", "\n", "1."}) {
        const std::string text = repeated(part);
        malloc_trim(0);  // or what texts before left behind would be used again and not counted
        ASSERT_TRUE(reset_peak());
        const size_t before = peak();
        const auto tokens = (*tokenizer)->encode(text, NL_ENCODE_PARALLEL);
        const size_t most = peak();
        const size_t taken = most > before ? most - before : 0;  // the kernel's counts are off by some pages
        ASSERT_TRUE(tokens.ok()) << tokens.error().message;
        // Invalid UTF-8 counts as what it is read as.
        const size_t bytes = replace_invalid_utf8(text).size();
        EXPECT_LE(taken, 16 * bytes + kConstantBytes) << part << ": " << taken / bytes << " a byte";
    }
}

INSTANTIATE_TEST_SUITE_P(, TokenizerMemory,
                         ::testing::Values("llama3", "llama2", "odd", "sp_unigram", "sp_first", "bert", "t5",
                                           "unigram_ties", "clip", "affixes", "tekken"),
                         [](const auto& kind) { return std::string(kind.param); });

}  // namespace
}  // namespace nanolith
