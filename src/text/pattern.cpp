#include "text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "files/json.h"
#include "text/utf8.h"

namespace nanolith {
namespace {

// Steps of PCRE2's matcher for one match. A run of n spaces before a letter takes some n of them; a pattern that needs
// more is exponential.
constexpr uint32_t kStepsPerByte = 64;
constexpr uint32_t kMinSteps = 1000000;
// Memory that PCRE2's matcher may take where machine code is not enough, in KiB: the published patterns need hardly
// any.
constexpr uint32_t kHeapLimitKib = 32U << 10U;

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

Result<Pattern> Pattern::regex(std::string_view pattern, const std::string& where, PatternSyntax syntax) {
    NL_ASSIGN(const std::string translated, translate_pattern(pattern, where, syntax));
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

struct Pattern::Finder::Work {
    Owned<pcre2_match_data> data = own(pcre2_match_data_create(1, nullptr));
    Owned<pcre2_match_context> context = own(pcre2_match_context_create(nullptr));
};

Pattern::Finder::Finder(Pattern pattern)
    : pattern_(std::move(pattern)), work_(pattern_.code_ != nullptr ? std::make_unique<Work>() : nullptr) {}

Pattern::Finder::Finder(Finder&&) noexcept = default;

Pattern::Finder::~Finder() = default;

void Pattern::Finder::start(std::string_view text) {
    text_ = text;
    at_ = 0;
    if (work_ == nullptr) return;
    const size_t steps = std::max<size_t>(kMinSteps, text.size() * kStepsPerByte);
    pcre2_set_match_limit(work_->context.get(), static_cast<uint32_t>(std::min<size_t>(steps, UINT32_MAX)));
    pcre2_set_heap_limit(work_->context.get(), kHeapLimitKib);
}

Result<bool> Pattern::Finder::next(Span& match) {
    if (at_ >= text_.size()) return false;
    if (work_ != nullptr) return match_code(match);
    const std::string& literal = pattern_.literal_;
    const size_t found = literal.empty() ? std::string_view::npos : text_.find(literal, at_);
    at_ = found == std::string_view::npos ? text_.size() : found + literal.size();
    match = {found, at_};
    return found != std::string_view::npos;
}

Result<bool> Pattern::Finder::match_code(Span& match) {
    const Code& code = *pattern_.code_;
    const auto run = [&](uint32_t options) {
        return pcre2_match(code.compiled.get(), reinterpret_cast<PCRE2_SPTR>(text_.data()), text_.size(), at_,
                           PCRE2_NO_UTF_CHECK | options, work_->data.get(), work_->context.get());
    };
    int found = run(0);
    // The machine code keeps its state on a small stack, the interpreter on the heap.
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = run(PCRE2_NO_JIT);
    if (found == PCRE2_ERROR_NOMEMORY) throw std::bad_alloc();
    if (found < 0) {
        const size_t bytes = text_.size();
        at_ = bytes;
        if (found == PCRE2_ERROR_NOMATCH) return false;
        return fail(NL_ERROR_UNSUPPORTED, code.where, ": its pattern can't be matched in a text of ", bytes,
                    " bytes: ", message_of(found));
    }
    const PCRE2_SIZE* const ends = pcre2_get_ovector_pointer(work_->data.get());
    match = {ends[0], ends[1]};
    // An empty match moves on by one character.
    at_ = match.end > match.begin
              ? match.end
              : match.end + (match.end < text_.size() ? next_utf8(text_.substr(match.end)).length : 1);
    return true;
}

Result<std::string> replace_all(std::string_view text, const Pattern& pattern, std::string_view content) {
    constexpr size_t kMaxBytes = size_t{1} << 30U;
    std::string replaced;
    replaced.reserve(text.size());
    Pattern::Finder finder(pattern);
    finder.start(text);
    size_t done = 0;
    Span match;
    while (true) {
        NL_ASSIGN(const bool found, finder.next(match));
        if (!found) break;
        if (replaced.size() + content.size() > kMaxBytes)
            return fail(NL_ERROR_INVALID_ARGUMENT, "the text becomes longer than ", kMaxBytes,
                        " bytes when it is normalised: ", content.size(), " bytes take a match's place");
        replaced.append(text.substr(done, match.begin - done)).append(content);
        done = match.end;
    }
    return std::move(replaced.append(text.substr(done)));
}

}  // namespace nanolith
