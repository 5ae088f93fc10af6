#include "text/stop_texts.h"

#include <algorithm>

namespace nanolith {

// Where in held_ the longest end begins that is the beginning of a stop text; its size where there is none.
size_t StopTexts::first_possible() const {
    size_t first = held_.size();
    for (const std::string& text : texts_) {
        const size_t longest = std::min(text.size() - 1, held_.size());
        for (size_t length = longest; length > held_.size() - first; --length) {
            if (held_.compare(held_.size() - length, length, text, 0, length) == 0) first = held_.size() - length;
        }
    }
    return first;
}

bool StopTexts::push(std::string_view piece, std::string& text) {
    if (texts_.empty()) {
        text += piece;
        return false;
    }
    held_ += piece;
    size_t found = std::string::npos;
    for (const std::string& stop : texts_) found = std::min(found, held_.find(stop));
    const size_t safe = found == std::string::npos ? first_possible() : found;
    text.append(held_, 0, safe);
    held_.erase(0, safe);
    if (found == std::string::npos) return false;
    held_.clear();
    return true;
}

void StopTexts::finish(std::string& text) {
    text += held_;
    held_.clear();
}

}  // namespace nanolith
