// The public C interface as C++ objects that free themselves. A call that fails ends the program with its message.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nanolith/nanolith.h"

namespace nanolith::bench {

template <typename T, void (*kFree)(T*)>
struct Free {
    void operator()(T* handle) const { kFree(handle); }
};
using Options = std::unique_ptr<nl_options, Free<nl_options, nl_options_free>>;
using Chunk = std::unique_ptr<nl_chunk, Free<nl_chunk, nl_chunk_free>>;
using Cache = std::unique_ptr<nl_cache, Free<nl_cache, nl_cache_free>>;
using Generation = std::unique_ptr<nl_generation, Free<nl_generation, nl_generation_free>>;
using Tokens = std::vector<int32_t>;

// Ends the program where `status` is not NL_OK. `doing` names the call.
void must(nl_status status, const char* doing);

Options make_options(int32_t kind);

// What is loaded, and how.
struct Setup {
    std::string folder;
    std::string device;
    int32_t batch_tokens = 0;  // NL_OPTION_MAX_BATCH_TOKENS; 0: its default
};

// A model folder on a device.
class Session {
  public:
    explicit Session(const Setup& setup);

    [[nodiscard]] int64_t fact(int32_t fact) const;
    [[nodiscard]] std::string device() const;

    // Computes the tokens as a chunk.
    [[nodiscard]] Chunk prefill(const Tokens& tokens) const;
    // An empty conversation, or one behind a chunk.
    [[nodiscard]] Cache conversation(const nl_chunk* chunk = nullptr) const;
    // One over several chunks; `share` is for blended composition.
    [[nodiscard]] Cache composed(const std::vector<const nl_chunk*>& chunks, int32_t composition, double share) const;
    // Starts to draw exactly `count` tokens after `prompt`, which may be empty where the cache is not.
    [[nodiscard]] Generation start(nl_cache* cache, const Tokens& prompt, int32_t count) const;

  private:
    std::unique_ptr<nl_engine, Free<nl_engine, nl_engine_free>> engine_;
};

// Waits for the generation's end and drops its tokens.
void finish(nl_generation* generation);
// Waits for the next token. False where the generation has ended.
bool next_token(nl_generation* generation);

}  // namespace nanolith::bench
