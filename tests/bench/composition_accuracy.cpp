// How often the shipped model answers right with each way of composing chunks, through the library.
//
//   python3 examples/model/generate.py --seed 7 --count 2000 > eval.jsonl
//   composition_accuracy examples/model eval.jsonl [auto|cpu|cuda [f32|f16|bf16]]
//
// "full" computes the whole prompt in one cache without chunks; "exact" and "independent" begin with the system
// text and each document as a chunk, and compute the question.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "nanolith/nanolith.h"

namespace {

using Tokens = std::vector<int32_t>;

template <typename T, void (*kFree)(T*)>
struct Deleter {
    void operator()(T* handle) const { kFree(handle); }
};
using Chunk = std::unique_ptr<nl_chunk, Deleter<nl_chunk, nl_chunk_free>>;
using Cache = std::unique_ptr<nl_cache, Deleter<nl_cache, nl_cache_free>>;

void check(nl_status status, const char* doing) {
    if (status == NL_OK) return;
    std::fprintf(stderr, "%s: %s: %s\n", doing, nl_status_name(status), nl_last_error());
    std::exit(EXIT_FAILURE);
}

enum class Mode { full, exact, independent };
constexpr Mode kModes[] = {Mode::full, Mode::exact, Mode::independent};
constexpr const char* kModeNames[] = {"full prefill", "exact chunks", "independent"};

class Evaluator {
  public:
    Evaluator(const std::string& model, const std::string& device, int32_t dtype) {
        nl_options* options = nullptr;
        check(nl_options_create(NL_OPTIONS_ENGINE, &options), "options");
        check(nl_options_set_text(options, NL_OPTION_DEVICE, device.data(), device.size()), "device");
        check(nl_options_set_int(options, NL_OPTION_DTYPE, dtype), "dtype");
        check(nl_engine_create(model.data(), model.size(), options, &engine_), "engine");
        nl_options_free(options);
        check(nl_engine_tokenizer(engine_, &tokenizer_), "tokenizer");
        check(nl_options_create(NL_OPTIONS_CACHE, &independent_), "options");
        check(nl_options_set_int(independent_, NL_OPTION_COMPOSITION, NL_COMPOSE_INDEPENDENT), "composition");
    }
    ~Evaluator() {
        nl_options_free(independent_);
        nl_tokenizer_free(tokenizer_);
        nl_engine_free(engine_);
    }
    Evaluator(const Evaluator&) = delete;
    Evaluator& operator=(const Evaluator&) = delete;

    std::string device() {
        char text[256];
        size_t length = 0;
        check(nl_engine_device(engine_, text, sizeof text, &length), "device");
        return std::string(text, length);
    }

    // The answer to one item: its texts as the model's prompt has them, then greedy tokens up to the end.
    std::string answer(const nlohmann::json& item, Mode mode) {
        std::vector<Tokens> texts = {encode("<|system|> " + item["system"].get<std::string>(), NL_ENCODE_ADD_BOS)};
        for (const auto& document : item["documents"])
            texts.push_back(encode("<|doc|> " + document.get<std::string>(), 0));
        const Tokens question = encode("<|user|> " + item["question"].get<std::string>() + "<|assistant|>", 0);
        const Cache cache = mode == Mode::full ? whole(texts) : composed(texts, mode);
        check(nl_cache_extend(cache.get(), question.data(), question.size()), "question");
        return draw(cache.get());
    }

  private:
    Tokens encode(const std::string& text, uint32_t flags) {
        size_t count = 0;
        nl_tokenizer_encode(tokenizer_, text.data(), text.size(), flags, nullptr, 0, &count);
        Tokens tokens(count);
        check(nl_tokenizer_encode(tokenizer_, text.data(), text.size(), flags, tokens.data(), count, &count), "encode");
        return tokens;
    }

    Cache whole(const std::vector<Tokens>& texts) {
        Tokens all;
        for (const Tokens& text : texts) all.insert(all.end(), text.begin(), text.end());
        nl_cache* cache = nullptr;
        check(nl_cache_create(engine_, nullptr, nullptr, 0, &cache), "cache");
        check(nl_cache_extend(cache, all.data(), all.size()), "prefill");
        return Cache(cache);
    }

    Cache composed(const std::vector<Tokens>& texts, Mode mode) {
        std::vector<Chunk> chunks;
        std::vector<const nl_chunk*> list;
        for (size_t i = 0; i < texts.size(); ++i) {
            nl_chunk* chunk = nullptr;
            check(nl_chunk_prefill(engine_, texts[i].data(), texts[i].size(), i == 0 ? 0 : 1, nullptr, 0, &chunk),
                  "chunk");
            chunks.emplace_back(chunk);
            list.push_back(chunk);
        }
        nl_cache* cache = nullptr;
        const nl_options* options = mode == Mode::independent ? independent_ : nullptr;
        check(nl_cache_create(engine_, options, list.data(), list.size(), &cache), "cache");
        return Cache(cache);
    }

    std::string draw(nl_cache* cache) {
        constexpr int kLongest = 32;
        Tokens tokens;
        for (int i = 0; i < kLongest; ++i) {
            int32_t token = 0;
            int32_t is_end = 0;
            check(nl_decode_step(&cache, 1, &token), "decode");
            check(nl_engine_is_end_token(engine_, token, &is_end), "end");
            if (is_end != 0) break;
            tokens.push_back(token);
        }
        char text[1024];
        size_t length = 0;
        check(nl_tokenizer_decode(tokenizer_, tokens.data(), tokens.size(), text, sizeof text, &length), "text");
        std::string answer(text, length);
        answer.erase(0, answer.find_first_not_of(' '));
        answer.erase(answer.find_last_not_of(' ') + 1);
        return answer;
    }

    nl_engine* engine_ = nullptr;
    nl_tokenizer* tokenizer_ = nullptr;
    nl_options* independent_ = nullptr;
};

struct Score {
    int right = 0;
    int asked = 0;
    [[nodiscard]] double percent() const { return asked > 0 ? 100.0 * right / asked : 0.0; }
};

int32_t dtype_of(const char* name) {
    if (std::strcmp(name, "f32") == 0) return NL_DTYPE_F32;
    if (std::strcmp(name, "f16") == 0) return NL_DTYPE_F16;
    return std::strcmp(name, "bf16") == 0 ? NL_DTYPE_BF16 : NL_DTYPE_AUTO;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) {
        std::fprintf(stderr, "usage: composition_accuracy MODEL_DIR ITEMS.jsonl [auto|cpu|cuda [f32|f16|bf16]]\n");
        return EXIT_FAILURE;
    }
    Evaluator evaluator(argv[1], argc > 3 ? argv[3] : "auto", argc > 4 ? dtype_of(argv[4]) : NL_DTYPE_AUTO);
    std::ifstream file(argv[2]);
    std::map<std::string, Score> scores[std::size(kModes)];
    for (std::string line; std::getline(file, line);) {
        const nlohmann::json item = nlohmann::json::parse(line);
        for (size_t mode = 0; mode < std::size(kModes); ++mode) {
            const bool right = evaluator.answer(item, kModes[mode]) == item["answer"].get<std::string>();
            for (const std::string& kind : {item["kind"].get<std::string>(), std::string("all")}) {
                scores[mode][kind].right += right ? 1 : 0;
                scores[mode][kind].asked += 1;
            }
        }
    }
    std::printf("exact match in %% on %s\n%-14s", evaluator.device().c_str(), "");
    for (const auto& [kind, score] : scores[0]) std::printf("%18s", kind.c_str());
    std::printf("\n");
    for (size_t mode = 0; mode < std::size(kModes); ++mode) {
        std::printf("%-14s", kModeNames[mode]);
        for (const auto& [kind, score] : scores[mode]) std::printf("%10.2f (%5d)", score.percent(), score.asked);
        std::printf("\n");
    }
    return scores[0].empty() ? EXIT_FAILURE : EXIT_SUCCESS;
}
