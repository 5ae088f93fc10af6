#include "text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "files/json.h"
#include "text/pattern_syntax.h"
#include "text/utf8.h"

namespace nanolith {
namespace {

// Steps of PCRE2's matcher for one match. A run of n spaces before a letter takes some n of them; a pattern that needs
// more is exponential.
constexpr uint32_t kStepsPerByte = 64;
constexpr uint32_t kMinSteps = 1000000;
constexpr uint32_t kHeapLimitKib = 4U << 20U;

struct Freer {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
    void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
    void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
template <typename T>
using Owned = std::unique_ptr<T, Freer>;

template <typename T>
Owned<T> own(T* made) {
    if (made == nullptr) throw std::bad_alloc();
    return Owned<T>(made);
}

std::string message_of(int error) {
    std::array<PCRE2_UCHAR, 256> buffer{};
    pcre2_get_error_message(error, buffer.data(), buffer.size());
    return reinterpret_cast<const char*>(buffer.data());
}

void find_literal(std::string_view text, const std::string& literal, std::vector<Span>& matches) {
    if (literal.empty()) return;
    for (size_t at = text.find(literal); at != std::string_view::npos; at = text.find(literal, at + literal.size()))
        matches.push_back({at, at + literal.size()});
}

}  // namespace

struct Pattern::Code {
    Owned<pcre2_code> compiled;
    std::string where;
};

Pattern Pattern::literal(std::string_view text) {
    Pattern pattern;
    pattern.literal_ = text;
    return pattern;
}

Result<Pattern> Pattern::regex(std::string_view pattern, const std::string& where) {
    NL_ASSIGN(const std::string translated, translate_pattern(pattern, where));
    const auto context = own(pcre2_compile_context_create(nullptr));
    pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
    pcre2_set_parens_nest_limit(context.get(), 64);
    int error = 0;
    PCRE2_SIZE offset = 0;
    Owned<pcre2_code> compiled(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                             PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error,
                                             &offset, context.get()));
    if (compiled == nullptr && (error == PCRE2_ERROR_NOMEMORY || error == PCRE2_ERROR_HEAP_FAILED))
        throw std::bad_alloc();
    if (compiled == nullptr)
        return fail(NL_ERROR_BAD_MODEL, where, ": the pattern ", show_json(pattern), ": ", message_of(error));
    // Where machine code may not be made, matching goes on without.
    pcre2_jit_compile(compiled.get(), PCRE2_JIT_COMPLETE);
    Pattern made;
    made.code_ = std::make_shared<const Code>(Code{std::move(compiled), where});
    return made;
}

Result<void> Pattern::find_all(std::string_view text, std::vector<Span>& matches) const {
    matches.clear();
    if (code_ == nullptr) {
        find_literal(text, literal_, matches);
        return {};
    }
    const auto data = own(pcre2_match_data_create(1, nullptr));
    const auto context = own(pcre2_match_context_create(nullptr));
    const size_t steps = std::max<size_t>(kMinSteps, text.size() * kStepsPerByte);
    pcre2_set_match_limit(context.get(), static_cast<uint32_t>(std::min<size_t>(steps, UINT32_MAX)));
    pcre2_set_heap_limit(context.get(), kHeapLimitKib);
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    for (size_t at = 0; at < text.size();) {
        int found =
            pcre2_match(code_->compiled.get(), subject, text.size(), at, PCRE2_NO_UTF_CHECK, data.get(), context.get());
        // The machine code keeps its state on a small stack, the interpreter on the heap.
        if (found == PCRE2_ERROR_JIT_STACKLIMIT)
            found = pcre2_match(code_->compiled.get(), subject, text.size(), at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                                data.get(), context.get());
        if (found == PCRE2_ERROR_NOMATCH) break;
        if (found == PCRE2_ERROR_NOMEMORY) throw std::bad_alloc();
        if (found < 0)
            return fail(NL_ERROR_UNSUPPORTED, code_->where, ": its pattern can't be matched in a text of ", text.size(),
                        " bytes: ", message_of(found));
        const PCRE2_SIZE* const ends = pcre2_get_ovector_pointer(data.get());
        matches.push_back({ends[0], ends[1]});
        // An empty match moves on by one character.
        at = ends[1] > ends[0] ? ends[1]
                               : ends[1] + (ends[1] < text.size() ? next_utf8(text.substr(ends[1])).length : 1);
    }
    return {};
}

}  // namespace nanolith
