// Random texts for ids.
#pragma once

#include <random>
#include <string>
#include <string_view>

namespace server {

inline constexpr std::string_view kHexDigits = "0123456789abcdef";
inline constexpr std::string_view kLettersAndDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

// A number of 64 random bits, of a generator that each thread has for itself.
inline uint64_t random_bits() {
    thread_local std::mt19937_64 random{std::random_device{}()};
    return random();
}

// `prefix` and `length` characters out of `alphabet`.
inline std::string random_id(std::string_view prefix, std::string_view alphabet, size_t length) {
    std::string id(prefix);
    for (size_t i = 0; i < length; ++i) id += alphabet[random_bits() % alphabet.size()];
    return id;
}

}  // namespace server
