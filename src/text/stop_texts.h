// Finds the texts that end an answer in text that comes in pieces, and holds back what may become one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nanolith {

class StopTexts {
  public:
    // None of them is empty.
    explicit StopTexts(std::vector<std::string> texts) : texts_(std::move(texts)) {}

    // Takes the next piece and appends to `text` what can no longer be part of a stop text. True where one is complete:
    // `text` then ends in front of it, and what follows it is dropped.
    bool push(std::string_view piece, std::string& text);
    // Appends what is held back: nothing more comes.
    void finish(std::string& text);

  private:
    [[nodiscard]] size_t first_possible() const;

    std::vector<std::string> texts_;
    std::string held_;
};

}  // namespace nanolith
