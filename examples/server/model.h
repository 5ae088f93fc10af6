// The loaded model: its engine, its tokenizer and its chat format.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config.h"
#include "handles.h"
#include "json.h"
#include "log.h"

namespace server {

// How answers are drawn where a request does not say it: what the folder's generation_config.json has, else OpenAI's
// defaults.
struct DrawingDefaults {
    double temperature = 1;
    double top_p = 1;
    int64_t top_k = 0;
};

struct RenderedChat {
    std::vector<int32_t> tokens;
    std::vector<size_t> ends;  // where each message's part of the tokens ends
};

// Made once; its functions may be called from any thread.
class Model {
  public:
    Model(const Config& config, Log& log);

    [[nodiscard]] nl_engine* engine() const { return engine_.get(); }
    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] int64_t created() const { return created_; }  // seconds since 1970
    [[nodiscard]] size_t max_context() const { return max_context_; }
    [[nodiscard]] size_t page_size() const { return page_size_; }
    [[nodiscard]] const DrawingDefaults& drawing() const { return drawing_; }
    [[nodiscard]] std::string device() const;

    [[nodiscard]] std::vector<int32_t> encode(std::string_view text, uint32_t flags, const std::string& param) const;
    [[nodiscard]] std::string decode(std::span<const int32_t> tokens) const;
    // `request` is what nl_chat_format_render_json takes, with `num_messages` messages.
    [[nodiscard]] RenderedChat render(const Json& request, size_t num_messages, bool with_prompt) const;
    // The token that is written so, or -1.
    [[nodiscard]] int32_t find(std::string_view piece) const;

  private:
    void open_tokenizer(const Config& config, Log& log);

    std::string name_;
    int64_t created_ = 0;
    Engine engine_;
    Tokenizer tokenizer_;  // null where the folder has none
    ChatFormat format_;    // null where there is none
    std::string no_chat_;  // why
    size_t max_context_ = 0;
    size_t page_size_ = 0;
    DrawingDefaults drawing_;
};

}  // namespace server
