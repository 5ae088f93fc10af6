// SHA-256 (FIPS 180-4) of numbers, texts and bytes in a row. It is nettle's, which takes a processor's own instructions
// where it has them, allocates nothing, and is on every Debian and Ubuntu already, since apt needs it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <nettle/sha2.h>

#include "base/digest.h"

namespace nanolith {

class Sha256 {
  public:
    Sha256() { sha256_init(&state_); }

    void add(std::span<const std::byte> bytes);
    void add(const Digest& digest) { add(std::span<const std::byte>(digest)); }
    void add(uint64_t number);             // 8 bytes, the lowest first
    void add_text(std::string_view text);  // its length, then its bytes: no two lists of texts look the same

    // The digest of all that was added. The object is then as new.
    Digest finish();

  private:
    sha256_ctx state_;
};

}  // namespace nanolith
