#include "store/sha256.h"

#include <array>
#include <bit>

namespace nanolith {

void Sha256::add(std::span<const std::byte> bytes) {
    sha256_update(&state_, bytes.size(), reinterpret_cast<const uint8_t*>(bytes.data()));
}

void Sha256::add(uint64_t number) {
    static_assert(std::endian::native == std::endian::little);
    add(std::as_bytes(std::span(&number, 1)));
}

void Sha256::add_text(std::string_view text) {
    add(uint64_t{text.size()});
    add(std::as_bytes(std::span(text)));
}

Digest Sha256::finish() {
    Digest digest;
    sha256_digest(&state_, digest.size(), reinterpret_cast<uint8_t*>(digest.data()));
    return digest;
}

}  // namespace nanolith
