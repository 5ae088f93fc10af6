// Puts marks and texts together and encodes them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/chat_message.h"
#include "text/mark_tokens.h"

namespace nanolith {

// All text between two special tokens of the marks is encoded as one, as it would be in the whole rendered text. For
// one thread and one chat.
class ChatWriter {
  public:
    explicit ChatWriter(const MarkTokens& tokens) : tokens_(&tokens) {}

    // Text with the format's tokens in it.
    Result<void> mark(std::string_view mark);
    // Text that holds no tokens, whatever it spells.
    Result<void> text(std::string_view text) {
        run_ += text;
        return {};
    }
    Result<void> token(int32_t token);
    // Drops the white space that was written last.
    void strip_back();
    // The next message's part ends here. Where the tokens on both sides are of one text, it ends after the last token
    // that is the same without what follows.
    void end_message();
    Result<RenderedChat> finish();

  private:
    // Encodes the text since the last token. `next` comes after it; -1 at the end.
    Result<void> flush(int32_t next);
    void strip_run(int32_t next);

    const MarkTokens* tokens_;
    RenderedChat chat_;
    int32_t last_token_ = -1;          // the special token before the run
    std::string run_;                  // text since then
    std::vector<size_t> ends_in_run_;  // where in it messages end
};

}  // namespace nanolith
