// How long masks of constraints take, each in the processor time of its thread, with nothing remembered from before for
// the first text of each constraint.
//
//     bench_constraints MODEL_FOLDER [TEXTS]      a folder with a tokenizer; else a made-up vocabulary of 131,072
//     tokens
//
// Constraints are read from standard input, a JSON schema a line (tests/grammar/schemas.py --print writes some); tokens
// are drawn evenly from those that are allowed.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "grammar/constraint.h"
#include "grammar/matcher.h"

namespace {

using namespace nanolith;
using namespace nanolith::grammar;

double now_us() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
}

// All bytes, and words of letters, digits and signs as a code-aware vocabulary has them.
std::shared_ptr<const TokenTable> made_up_table() {
    constexpr size_t kTokens = 131072;
    std::mt19937 random(1);
    static constexpr std::string_view kLetters = "etaoinshrdlucmfwypvbgkjqxz";
    static constexpr std::string_view kSigns = "\"{}[]():;,.-_=/\\<>!?*+#'\n";
    std::vector<std::string> bytes;
    for (int byte = 0; byte < 256; ++byte) bytes.emplace_back(1, static_cast<char>(byte));
    bytes.emplace_back();  // the end
    while (bytes.size() < kTokens) {
        std::string word = random() % 2 == 0 ? " " : "";
        const uint32_t kind = random() % 20;
        for (uint32_t left = random() % 9 + 2; left > 0; --left) {
            if (kind == 0) {
                word += kSigns[random() % kSigns.size()];
            } else if (kind == 1) {
                word += static_cast<char>('0' + random() % 10);
            } else if (kind == 2) {
                word += std::string("\xE4\xB8") + static_cast<char>(0x80 + random() % 64);
            } else {
                word += kLetters[std::min(random() % 26, random() % 26)];
            }
        }
        if (kind > 17) word += kSigns[random() % kSigns.size()];
        bytes.push_back(std::move(word));
    }
    return TokenTable::make(std::move(bytes), {});
}

void print(const char* name, std::vector<double>& times) {
    if (times.empty()) return;
    std::ranges::sort(times);
    const auto at = [&times](double share) { return times[static_cast<size_t>(share * (times.size() - 1))]; };
    std::printf("%s: %zu, median %.1f us, p90 %.1f, p99 %.1f, p99.9 %.1f, most %.1f\n", name, times.size(), at(0.5),
                at(0.9), at(0.99), at(0.999), times.back());
}

}  // namespace

int main(int argc, char** argv) {
    std::shared_ptr<const TokenTable> table;
    int32_t end = 256;
    if (argc > 1) {
        const auto tokenizer = Tokenizer::load(argv[1]);
        if (!tokenizer.ok()) return std::fprintf(stderr, "%s\n", tokenizer.error().message.c_str()), 1;
        const auto made = TokenTable::of(**tokenizer, (*tokenizer)->vocab_size());
        if (!made.ok()) return std::fprintf(stderr, "%s\n", made.error().message.c_str()), 1;
        table = *made;
        end = (*tokenizer)->eos();
    } else {
        table = made_up_table();
    }
    const int texts = argc > 2 ? std::atoi(argv[2]) : 3;
    std::printf("%d tokens, %d nodes\n", table->vocab_size(), table->trie->size());
    std::mt19937 random(7);
    std::vector<double> compiling;
    std::vector<double> masking;
    std::vector<uint32_t> mask((static_cast<size_t>(table->vocab_size()) + 31) / 32);
    for (std::string line; std::getline(std::cin, line);) {
        double begin = now_us();
        const auto grammar = compile({.kind = ConstraintKind::json_schema, .text = line}, table);
        compiling.push_back(now_us() - begin);
        if (!grammar.ok()) return std::fprintf(stderr, "%s\n", grammar.error().message.c_str()), 1;
        for (int text = 0; text < texts; ++text) {
            Matcher matcher(*grammar, {end});
            for (int64_t room = 200; room > 0 && !matcher.over(); --room) {
                begin = now_us();
                const bool any = matcher.fill_mask(mask, room);
                masking.push_back(now_us() - begin);
                if (!any) break;
                std::vector<int32_t> allowed;
                for (int32_t token = 0; token < table->vocab_size(); ++token)
                    if ((mask[token / 32] >> (token % 32) & 1U) != 0) allowed.push_back(token);
                matcher.accept(allowed[random() % allowed.size()]);
            }
        }
    }
    print("compile", compiling);
    print("mask", masking);
    return 0;
}
