#include "store/fingerprint.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "store/sha256.h"
#include "support/temp_folder.h"

namespace nanolith {
namespace {

using test::TempFolder;

Digest hash_of(const std::string& text) {
    Sha256 hash;
    hash.add(std::as_bytes(std::span(text)));
    return hash.finish();
}

Model model_of(const std::vector<std::string>& paths) {
    Model model;
    for (const std::string& path : paths) {
        const auto file = OpenFile::open(path);
        EXPECT_TRUE(file.ok());
        model.weight_files.push_back(file->facts());
    }
    return model;
}

// As the definition says, for files of one block each.
TEST(Fingerprint, WeightsAreATreeOfDigests) {
    const TempFolder folder;
    folder.write("a", "first");
    folder.write("b", std::string(3000000, 'x'));
    Sha256 all;
    for (const std::string& text : {std::string("first"), std::string(3000000, 'x')}) {
        Sha256 file;
        file.add(uint64_t{text.size()});
        file.add(hash_of(text));
        all.add(file.finish());
    }
    const auto digest = digest_of_weights(model_of({folder.file("b"), folder.file("a")}), "");
    ASSERT_TRUE(digest.ok()) << digest.error().message;
    EXPECT_EQ(*digest, all.finish());
}

TEST(Fingerprint, DigestsAreRememberedForFilesThatStay) {
    const TempFolder folder;
    folder.write("a", "first");
    const std::string kept = folder.file("digests");
    const auto first = digest_of_weights(model_of({folder.file("a")}), kept);
    ASSERT_TRUE(first.ok() && std::filesystem::exists(kept));
    // What is remembered is taken: a line of the same file with another digest shows it.
    auto lines = read_file(kept, 1000);
    ASSERT_TRUE(lines.ok());
    const size_t last = lines->size() - 2;
    (*lines)[last] = (*lines)[last] == '0' ? '1' : '0';
    folder.write("digests", *lines);
    const auto taken = digest_of_weights(model_of({folder.file("a")}), kept);
    ASSERT_TRUE(taken.ok());
    EXPECT_NE(*taken, *first);
    // Rubbish is not, and another file under the name is computed.
    folder.write("digests", "1 2 3\n\nx");
    EXPECT_EQ(*digest_of_weights(model_of({folder.file("a")}), kept), *first);
    folder.write("other", "other");
    std::filesystem::rename(folder.file("other"), folder.file("a"));
    const auto other = digest_of_weights(model_of({folder.file("a")}), kept);
    ASSERT_TRUE(other.ok());
    EXPECT_NE(*other, *first);
}

TEST(Fingerprint, FilesThatChangedAreAnError) {
    const TempFolder folder;
    folder.write("a", "first");
    const Model model = model_of({folder.file("a")});
    folder.write("a", "longer than before");
    EXPECT_EQ(digest_of_weights(model, "").error().status, NL_ERROR_IO);
    EXPECT_EQ(digest_of_weights(Model(), "").error().status, NL_ERROR_UNSUPPORTED);
}

TEST(Fingerprint, NumbersThatDecideKeysCount) {
    ModelSpec spec;
    spec.ropes = {{.frequencies = {1, 0.5F}, .magnitudes = {}}};
    spec.layers = {{.rope = 0, .window = 0}};
    ExecutorOptions options;
    const Digest digest = digest_of_numbers(spec, options, "cpu");
    EXPECT_EQ(digest, digest_of_numbers(spec, options, "cuda:0")) << "devices share chunks";
    ModelSpec other = spec;
    other.ropes[0].frequencies[1] = 0.25F;
    EXPECT_NE(digest, digest_of_numbers(other, options, "cpu"));
    other = spec;
    other.layers[0].window = 7;
    EXPECT_NE(digest, digest_of_numbers(other, options, "cpu"));
    ExecutorOptions larger = options;
    larger.page_size = 32;
    EXPECT_NE(digest, digest_of_numbers(spec, larger, "cpu"));
    ExecutorOptions half = options;
    half.kv_dtype = DType::bf16;
    EXPECT_NE(digest, digest_of_numbers(spec, half, "cpu"));
    ExecutorOptions invariant = options;
    invariant.batch_invariant = true;
    EXPECT_NE(digest_of_numbers(spec, invariant, "cpu"), digest_of_numbers(spec, invariant, "cuda:0"));
}

}  // namespace
}  // namespace nanolith
