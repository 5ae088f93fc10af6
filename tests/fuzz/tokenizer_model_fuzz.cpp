// Fuzzes tokenizer.model: the input is the file, and the texts are fixed, since a text has no structure that a file's
// bytes could tell libFuzzer about.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "text/sentencepiece_tokenizer.h"
#include "text/utf8.h"

namespace {

constexpr std::string_view kTexts[] = {
    "",
    "Hello  world\n\n1234 <s></s>",
    "w\xC3\xB6rld \xE6\xBC\xA2\xE5\xAD\x97 \xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x9A\x80 e\xCC\x81\xFF \xE2\x96\x81",
};

void use(const nanolith::Tokenizer& tokenizer) {
    for (const std::string_view text : kTexts) {
        for (const uint32_t flags : {0U, uint32_t{NL_ENCODE_ADD_SPECIAL}, uint32_t{NL_ENCODE_SPECIAL_AS_TEXT}}) {
            const auto tokens = tokenizer.encode(text, flags);
            if (!tokens.ok()) continue;
            for (const int32_t token : *tokens) {
                if (token < 0 || token >= tokenizer.vocab_size()) abort();
            }
            const auto decoded = tokenizer.decode(*tokens);
            if (decoded.ok() && !nanolith::is_valid_utf8(*decoded)) abort();
        }
    }
    for (int32_t token = -1; token < tokenizer.vocab_size() && token < 500; ++token) {
        const auto piece = tokenizer.piece(token);
        if (piece.ok() != (token >= 0)) abort();
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const int file = memfd_create("tokenizer.model", 0);
    if (file < 0 || write(file, data, size) != static_cast<ssize_t>(size)) abort();
    const auto tokenizer = nanolith::load_sentencepiece("/proc/self/fd/" + std::to_string(file), {});
    close(file);
    if (tokenizer.ok()) use(**tokenizer);
    return 0;
}
