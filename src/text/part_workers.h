// A text's parts become tokens on several threads, and are put together in the text's order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace nanolith {

// Most threads that one text is encoded by. Whatever their number, no more than kMaxBytesUnderWay are encoded at once.
constexpr int32_t kMaxEncodingThreads = 16;

// What a text is cut into: text to encode, or a token that stands there.
struct EncodedPart {
    std::string text;
    int32_t token = -1;      // where it is 0 or more there is no text
    bool continues = false;  // the text was cut from that of the part before
    bool too_long = false;   // the text has no place to be cut at, which is an error
};

// One text that is to be encoded: gives its parts, encodes one, and collects the tokens.
class PartWork {
  public:
    PartWork() = default;
    PartWork(const PartWork&) = delete;
    PartWork& operator=(const PartWork&) = delete;
    virtual ~PartWork() = default;
    // Writes the next part of the text to `part`, which is default-constructed; false, with nothing written, at the end
    // of the text. Only one thread calls it at a time.
    [[nodiscard]] virtual bool next(EncodedPart& part) = 0;
    // Writes the tokens of the part's text to `tokens`. Several threads call it at the same time.
    [[nodiscard]] virtual Result<void> encode(const EncodedPart& part, std::vector<int32_t>& tokens) const = 0;
    // Adds a part's tokens to the result; called for the parts in the text's order. Only one thread calls it at a time.
    [[nodiscard]] virtual Result<void> take(const EncodedPart& part, const std::vector<int32_t>& tokens) = 0;
};

// Works on all parts with `num_threads` threads, the caller's among them; with fewer where the system makes no more.
// They have ended when this returns. Of several errors the one that is first in the text comes back.
[[nodiscard]] Result<void> work_on_parts(PartWork& work, int32_t num_threads);

}  // namespace nanolith
