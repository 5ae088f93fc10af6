// XXH3 (xxHash) of bytes: tells accidents, faster than memory can be read. It is no proof against forgery.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nanolith {

uint64_t checksum(std::span<const std::byte> bytes);

}  // namespace nanolith
