// How often the shipped model answers right with each way of composing chunks, through the library.
//
//   python3 examples/model/generate.py --seed 7 --count 2000 > eval.jsonl
//   composition_accuracy examples/model eval.jsonl [auto|cpu|cuda [f32|f16|bf16 [PAGE_SIZE]]]
//
// Another model gets the same items as plain text behind an example, and answers up to the end of the line:
//
//   composition_accuracy gemma-3-270m.gguf eval.jsonl cuda bf16 64 plain
//
// "full" computes the whole prompt in one cache without chunks; the others begin with the system text and each document
// as a chunk, and compute the question. "behind": documents are prefilled behind the system text. "blended 10" blends
// with a share of 10%. The last columns are answers that are full prefill's in %, what was recomputed of the documents'
// tokens in %, and milliseconds from the question to the first token.
#include <chrono>
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

constexpr int32_t kWhole = -1;  // in place of a composition: no chunks

struct Way {
    const char* name;
    int32_t composition = kWhole;
    double share = 0;
    bool behind = false;  // documents are prefilled behind the system text
};
constexpr Way kWays[] = {
    {"full prefill"},
    {"exact chunks", NL_COMPOSE_EXACT},
    {"independent", NL_COMPOSE_INDEPENDENT},
    {"blended 5", NL_COMPOSE_BLENDED, 0.05},
    {"blended 10", NL_COMPOSE_BLENDED, 0.10},
    {"independent, behind", NL_COMPOSE_INDEPENDENT, 0, true},
    {"blended 2, behind", NL_COMPOSE_BLENDED, 0.02, true},
    {"blended 5, behind", NL_COMPOSE_BLENDED, 0.05, true},
    {"blended 10, behind", NL_COMPOSE_BLENDED, 0.10, true},
    {"blended 20, behind", NL_COMPOSE_BLENDED, 0.20, true},
    {"blended 40, behind", NL_COMPOSE_BLENDED, 0.40, true},
};

// What stands before and after the texts of an item.
struct Prompt {
    const char* before_system;
    const char* after_system;
    const char* before_document;
    const char* after_document;
    const char* before_question;
    const char* after_question;
    bool ends_with_line;
};
constexpr Prompt kShipped = {"<|system|> ", "", "<|doc|> ", "", "<|user|> ", "<|assistant|>", false};
constexpr Prompt kPlain = {"",
                           "\n\nRecord: Ann Lee stayed in Oxford. She paid exactly 12 coins.\nQuestion: Name the "
                           "place where Ann Lee stayed.\nAnswer: Oxford\n\n",
                           "Record: ",
                           "\n",
                           "Question: ",
                           "\nAnswer:",
                           true};

// One answer, and what it took.
struct Answer {
    std::string text;
    int64_t recomputed = 0;  // tokens of documents
    double first_token_ms = 0;
};

class Evaluator {
  public:
    Evaluator(const std::string& model, const std::string& device, int32_t dtype, int64_t page_size,
              const Prompt& prompt)
        : prompt_(prompt) {
        nl_options* options = nullptr;
        check(nl_options_create(NL_OPTIONS_ENGINE, &options), "options");
        check(nl_options_set_text(options, NL_OPTION_DEVICE, device.data(), device.size()), "device");
        check(nl_options_set_int(options, NL_OPTION_DTYPE, dtype), "dtype");
        check(nl_options_set_int(options, NL_OPTION_PAGE_SIZE, page_size), "page size");
        // Otherwise each way would begin with what the ways before it had recomputed of the same documents.
        check(nl_options_set_int(options, NL_OPTION_BATCH_INVARIANT, 1), "batch invariant");
        check(nl_engine_create(model.data(), model.size(), options, &engine_), "engine");
        nl_options_free(options);
        check(nl_engine_tokenizer(engine_, &tokenizer_), "tokenizer");
        check(nl_options_create(NL_OPTIONS_CACHE, &options_), "options");
    }
    ~Evaluator() {
        nl_options_free(options_);
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
    Answer answer(const nlohmann::json& item, const Way& way) {
        const auto between = [](const char* before, const nlohmann::json& text, const char* after) {
            return before + text.get<std::string>() + after;
        };
        std::vector<Tokens> texts = {
            encode(between(prompt_.before_system, item["system"], prompt_.after_system), NL_ENCODE_ADD_BOS)};
        for (const auto& document : item["documents"])
            texts.push_back(encode(between(prompt_.before_document, document, prompt_.after_document), 0));
        const Tokens question = encode(between(prompt_.before_question, item["question"], prompt_.after_question), 0);
        Answer answer;
        std::vector<Chunk> chunks;
        if (way.composition != kWhole) chunks = prefilled(texts, way);
        if (way.composition == NL_COMPOSE_EXACT) static_cast<void>(composed(chunks, way));  // its chunks are there then
        const auto begin = std::chrono::steady_clock::now();
        const Cache cache = way.composition == kWhole ? whole(texts) : composed(chunks, way);
        check(nl_cache_extend(cache.get(), question.data(), question.size()), "question");
        const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
        answer.first_token_ms = took.count();
        check(nl_cache_query(cache.get(), NL_CACHE_TOKENS_BLENDED, &answer.recomputed), "fact");
        int64_t composition = 0;
        check(nl_cache_query(cache.get(), NL_CACHE_COMPOSITION, &composition), "fact");
        if (way.composition == NL_COMPOSE_BLENDED && composition == NL_COMPOSE_EXACT)
            answer.recomputed = document_tokens(texts);
        documents_ += document_tokens(texts);
        answer.text = draw(cache.get());
        return answer;
    }

    // Tokens of documents in all prompts so far.
    [[nodiscard]] int64_t documents() const { return documents_; }

  private:
    static int64_t document_tokens(const std::vector<Tokens>& texts) {
        int64_t tokens = 0;
        for (size_t i = 1; i < texts.size(); ++i) tokens += static_cast<int64_t>(texts[i].size());
        return tokens;
    }

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

    std::vector<Chunk> prefilled(const std::vector<Tokens>& texts, const Way& way) {
        std::vector<Chunk> chunks;
        for (size_t i = 0; i < texts.size(); ++i) {
            nl_chunk* chunk = nullptr;
            const nl_chunk* system = i > 0 && way.behind ? chunks.front().get() : nullptr;
            check(nl_chunk_prefill(engine_, texts[i].data(), texts[i].size(), i == 0 ? 0 : 1, &system,
                                   system != nullptr ? 1 : 0, &chunk),
                  "chunk");
            chunks.emplace_back(chunk);
        }
        return chunks;
    }

    Cache composed(const std::vector<Chunk>& chunks, const Way& way) {
        std::vector<const nl_chunk*> list;
        for (const Chunk& chunk : chunks) list.push_back(chunk.get());
        check(nl_options_set_int(options_, NL_OPTION_COMPOSITION, way.composition), "composition");
        check(nl_options_set_float(options_, NL_OPTION_BLEND_SHARE, way.share), "share");
        nl_cache* cache = nullptr;
        check(nl_cache_create(engine_, options_, list.data(), list.size(), &cache), "cache");
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
        if (prompt_.ends_with_line) answer = answer.substr(0, answer.find('\n'));
        answer.erase(0, answer.find_first_not_of(' '));
        answer.erase(answer.find_last_not_of(' ') + 1);
        return answer;
    }

    Prompt prompt_;
    nl_engine* engine_ = nullptr;
    nl_tokenizer* tokenizer_ = nullptr;
    nl_options* options_ = nullptr;
    int64_t documents_ = 0;
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
        std::fprintf(stderr,
                     "usage: composition_accuracy MODEL_DIR ITEMS.jsonl "
                     "[auto|cpu|cuda [f32|f16|bf16 [PAGE_SIZE [plain]]]]\n");
        return EXIT_FAILURE;
    }
    Evaluator evaluator(argv[1], argc > 3 ? argv[3] : "auto", argc > 4 ? dtype_of(argv[4]) : NL_DTYPE_AUTO,
                        argc > 5 ? std::atoll(argv[5]) : 64,
                        argc > 6 && std::strcmp(argv[6], "plain") == 0 ? kPlain : kShipped);
    std::ifstream file(argv[2]);
    std::map<std::string, Score> scores[std::size(kWays)];
    int64_t recomputed[std::size(kWays)] = {};
    int same[std::size(kWays)] = {};  // answers as full prefill's
    double first_token_ms[std::size(kWays)] = {};
    for (std::string line; std::getline(file, line);) {
        const nlohmann::json item = nlohmann::json::parse(line);
        std::string full;
        for (size_t way = 0; way < std::size(kWays); ++way) {
            const Answer answer = evaluator.answer(item, kWays[way]);
            const bool right = answer.text == item["answer"].get<std::string>();
            if (way == 0) full = answer.text;
            same[way] += answer.text == full ? 1 : 0;
            recomputed[way] += answer.recomputed;
            first_token_ms[way] += answer.first_token_ms;
            for (const std::string& kind : {item["kind"].get<std::string>(), std::string("all")}) {
                scores[way][kind].right += right ? 1 : 0;
                scores[way][kind].asked += 1;
            }
        }
    }
    std::printf("exact match in %% on %s\n%-20s", evaluator.device().c_str(), "");
    for (const auto& [kind, score] : scores[0]) std::printf("%18s", kind.c_str());
    std::printf("%14s%14s%10s\n", "as full", "recomputed", "ms");
    const double asked = scores[0].empty() ? 1 : scores[0]["all"].asked;
    const double documents = static_cast<double>(evaluator.documents()) / static_cast<double>(std::size(kWays));
    for (size_t way = 0; way < std::size(kWays); ++way) {
        std::printf("%-20s", kWays[way].name);
        for (const auto& [kind, score] : scores[way]) std::printf("%10.2f (%5d)", score.percent(), score.asked);
        std::printf("%14.2f%14.2f%10.3f\n", 100.0 * same[way] / asked,
                    100.0 * static_cast<double>(recomputed[way]) / std::max(documents, 1.0),
                    first_token_ms[way] / asked);
    }
    return scores[0].empty() ? EXIT_FAILURE : EXIT_SUCCESS;
}
