// The methods of Python's str that templates use.
#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "text/jinja/operations.h"
#include "text/unicode.h"

namespace nanolith::jinja {
namespace {

constexpr std::array<std::string_view, 28> kMethods = {
    "strip",    "lstrip",  "rstrip",  "split",        "rsplit",       "splitlines", "startswith",
    "endswith", "upper",   "lower",   "title",        "capitalize",   "replace",    "find",
    "rfind",    "index",   "count",   "join",         "isdigit",      "isalpha",    "isalnum",
    "isspace",  "isupper", "islower", "removeprefix", "removesuffix", "format",     "zfill"};

bool is_letter(char32_t character) {
    const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(character));
    return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

// A character in the other case, as Python's full mappings have it where one becomes several.
std::string to_case(char32_t character, bool upper) {
    std::string text;
    if (upper && character == 0xDF) return "SS";
    const auto code = static_cast<utf8proc_int32_t>(character);
    append_character(text, static_cast<char32_t>(upper ? utf8proc_toupper(code) : utf8proc_tolower(code)));
    return text;
}

// Calls `visit` for each character, with its place, its length and itself.
template <typename Visit>
void for_each_character(std::string_view text, const Visit& visit) {
    for (size_t at = 0; at < text.size();) {
        size_t length = 0;
        const char32_t character = first_character(text.substr(at), length);
        visit(at, length, character);
        at += length;
    }
}

Result<Value> as_list(Run& run, const Text& text, const std::vector<Range>& parts) {
    std::vector<Value> items;
    for (const Range& part : parts) {
        NL_ASSIGN(Value item, run.text(text.part(part.begin, part.end)));
        items.push_back(std::move(item));
    }
    return run.list(std::move(items));
}

// Words between white space. After `limit` cuts the rest is one word.
std::vector<Range> split_words(std::string_view text, size_t limit, bool from_back) {
    std::vector<Range> words;
    size_t begin = 0;
    size_t end = text.size();
    while (true) {
        const Range rest = strip_range(text.substr(begin, end - begin), nullptr, true, true);
        if (rest.begin == rest.end) break;
        const std::string_view left = text.substr(begin, end - begin);
        if (words.size() == limit) {
            const Range last = strip_range(left, nullptr, !from_back, from_back);
            words.push_back({begin + last.begin, begin + last.end});
            break;
        }
        // Up to the next white space in this direction.
        size_t edge = from_back ? rest.begin : rest.end;
        for_each_character(left.substr(rest.begin, rest.end - rest.begin), [&](size_t at, size_t length, char32_t c) {
            const bool space = is_white_space(c) || (c >= 0x1C && c <= 0x1F);
            if (!space) return;
            if (from_back) edge = rest.begin + at + length;
            if (!from_back && edge == rest.end) edge = rest.begin + at;
        });
        if (from_back) {
            words.push_back({begin + edge, begin + rest.end});
            end = begin + edge;
        } else {
            words.push_back({begin + rest.begin, begin + edge});
            begin += edge;
        }
    }
    if (from_back) std::reverse(words.begin(), words.end());
    return words;
}

std::vector<Range> split_at(std::string_view text, std::string_view separator, size_t limit, bool from_back) {
    std::vector<Range> parts;
    if (from_back) {
        size_t end = text.size();
        while (parts.size() < limit && end >= separator.size()) {
            const size_t found = text.substr(0, end).rfind(separator);
            if (found == std::string_view::npos) break;
            parts.push_back({found + separator.size(), end});
            end = found;
        }
        parts.push_back({0, end});
        std::reverse(parts.begin(), parts.end());
        return parts;
    }
    size_t begin = 0;
    while (parts.size() < limit) {
        const size_t found = text.find(separator, begin);
        if (found == std::string_view::npos) break;
        parts.push_back({begin, found});
        begin = found + separator.size();
    }
    parts.push_back({begin, text.size()});
    return parts;
}

Result<Value> split(Run& run, const Text& text, const std::string& name, Arguments& arguments) {
    NL_TRY(arguments.bind(name, {"sep", "maxsplit"}));
    NL_ASSIGN(const Text* separator, arguments.text(0));
    NL_ASSIGN(const int64_t most, arguments.integer(1, -1));
    if (separator != nullptr && separator->empty()) return fail(NL_ERROR_INVALID_ARGUMENT, name, "() at an empty text");
    const size_t limit = most < 0 ? SIZE_MAX : static_cast<size_t>(most);
    const bool from_back = name == "rsplit";
    // split_words looks at what is left again for every word.
    if (separator == nullptr) {
        const auto words = static_cast<size_t>(std::count(text.bytes().begin(), text.bytes().end(), ' ')) + 1;
        NL_TRY(run.step(std::min(words, std::min(limit, size_t{1} << 20U)) * (1 + text.size() / 64)));
    }
    NL_TRY(run.check_bytes(text.size() * sizeof(Range) / (separator != nullptr ? separator->size() : 2)));
    return as_list(run, text,
                   separator == nullptr ? split_words(text.view(), limit, from_back)
                                        : split_at(text.view(), separator->view(), limit, from_back));
}

Result<Value> begins_or_ends(const Text& text, const std::string& name, Arguments& arguments) {
    NL_TRY(arguments.bind(name, {"affix"}));
    const Value* const affix = arguments.values[0];
    std::vector<Value> all;
    if (affix != nullptr && affix->text() != nullptr) all.push_back(*affix);
    if (affix != nullptr && affix->list() != nullptr) all = affix->list()->items;
    if (affix == nullptr || (affix->text() == nullptr && affix->list() == nullptr))
        return fail(NL_ERROR_INVALID_ARGUMENT, name, "() of a value of the type ",
                    affix == nullptr ? "None" : affix->type_name(), ": expected a text");
    for (const Value& one : all) {
        if (one.text() == nullptr) continue;
        const std::string_view wanted = one.text()->view();
        if (name == "startswith" ? text.view().starts_with(wanted) : text.view().ends_with(wanted)) return Value(true);
    }
    return Value(false);
}

Result<Value> find_text(Run& run, const Text& text, const std::string& name, Arguments& arguments) {
    NL_TRY(arguments.bind(name, {"sub"}));
    NL_ASSIGN(const Text* wanted, arguments.text(0));
    if (wanted == nullptr) return fail(NL_ERROR_INVALID_ARGUMENT, name, "() of no text");
    NL_TRY(run.step(text.size() / 64));
    if (name == "count") {
        if (wanted->empty()) return Value(static_cast<int64_t>(count_characters(text.view())) + 1);
        return Value(static_cast<int64_t>(split_at(text.view(), wanted->view(), SIZE_MAX, false).size()) - 1);
    }
    const size_t found = name == "rfind" ? text.bytes().rfind(wanted->bytes()) : text.bytes().find(wanted->bytes());
    if (found != std::string::npos) return Value(static_cast<int64_t>(count_characters(text.view().substr(0, found))));
    if (name == "index") return fail(NL_ERROR_INVALID_ARGUMENT, "index() of a text that is not there");
    return Value(int64_t{-1});
}

// isdigit and its like: every character is one, and there is one.
Result<Value> is_all(const Text& text, const std::string& name) {
    bool all = !text.empty();
    bool has_cased = false;
    for_each_character(text.view(), [&](size_t /*at*/, size_t /*length*/, char32_t character) {
        const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(character));
        const bool digit = category == UTF8PROC_CATEGORY_ND;
        const bool upper = category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LT;
        const bool lower = category == UTF8PROC_CATEGORY_LL;
        has_cased = has_cased || upper || lower;
        if (name == "isdigit") all = all && digit;
        if (name == "isalpha") all = all && is_letter(character);
        if (name == "isalnum") all = all && (digit || is_letter(character));
        if (name == "isspace") all = all && (is_white_space(character) || (character >= 0x1C && character <= 0x1F));
        if (name == "isupper") all = all && !lower;
        if (name == "islower") all = all && !upper;
    });
    const bool needs_cased = name == "isupper" || name == "islower";
    return Value(all && (has_cased || !needs_cased));
}

Result<Value> without_affix(Run& run, const Text& text, const std::string& name, Arguments& arguments) {
    NL_TRY(arguments.bind(name, {"affix"}));
    NL_ASSIGN(const Text* affix, arguments.text(0));
    if (affix == nullptr) return fail(NL_ERROR_INVALID_ARGUMENT, name, "() of no text");
    const bool front = name == "removeprefix";
    if (front && text.view().starts_with(affix->view())) return run.text(text.part(affix->size(), text.size()));
    if (!front && text.view().ends_with(affix->view())) return run.text(text.part(0, text.size() - affix->size()));
    return run.text(text);
}

}  // namespace

bool is_text_method(std::string_view name) {
    return std::find(kMethods.begin(), kMethods.end(), name) != kMethods.end();
}

Result<Value> call_text_method(Run& run, const Text& text, const std::string& name, Arguments arguments) {
    NL_TRY(run.check_bytes(text.size()));
    if (text.is_safe()) return fail(NL_ERROR_UNSUPPORTED, name, "() of a text that is marked as safe");
    if (name.ends_with("strip")) {
        NL_TRY(arguments.bind(name, {"chars"}));
        NL_ASSIGN(const Text* characters, arguments.text(0));
        return run.text(strip(text, characters, name != "rstrip", name != "lstrip"));
    }
    if (name == "split" || name == "rsplit") return split(run, text, name, arguments);
    if (name == "startswith" || name == "endswith") return begins_or_ends(text, name, arguments);
    if (name == "find" || name == "rfind" || name == "index" || name == "count")
        return find_text(run, text, name, arguments);
    if (name == "removeprefix" || name == "removesuffix") return without_affix(run, text, name, arguments);
    if (name.starts_with("is")) return is_all(text, name);
    if (name == "upper") return run.text(with_case(text, LetterCase::upper));
    if (name == "lower") return run.text(with_case(text, LetterCase::lower));
    if (name == "capitalize") return run.text(with_case(text, LetterCase::capitalize));
    if (name == "title") return run.text(with_case(text, LetterCase::title));
    if (name == "splitlines") {
        NL_TRY(arguments.bind(name, {"keepends"}));
        return as_list(run, text, split_lines(text.view(), arguments.truth(0, false)));
    }
    if (name == "replace") {
        NL_TRY(arguments.bind(name, {"old", "new", "count"}));
        NL_ASSIGN(const Text* from, arguments.text(0));
        NL_ASSIGN(const Text* to, arguments.text(1));
        NL_ASSIGN(const int64_t count, arguments.integer(2, -1));
        if (from == nullptr || to == nullptr) return fail(NL_ERROR_INVALID_ARGUMENT, "replace() without two texts");
        NL_ASSIGN(Text replaced, replace(run, text, *from, *to, count));
        return run.text(std::move(replaced));
    }
    if (name == "join") {
        NL_TRY(arguments.bind(name, {"iterable"}));
        if (arguments.values[0] == nullptr) return fail(NL_ERROR_INVALID_ARGUMENT, "join() without a list");
        NL_ASSIGN(const std::vector<Value> items, to_items(run, *arguments.values[0]));
        NL_ASSIGN(Text joined, join(run, items, text));
        return run.text(std::move(joined));
    }
    return fail(NL_ERROR_UNSUPPORTED, "the method ", name, "() of a text, which is not supported");
}

Text strip(const Text& text, const Text* characters, bool front, bool back) {
    const Range left = strip_range(text.view(), characters != nullptr ? &characters->bytes() : nullptr, front, back);
    return text.part(left.begin, left.end);
}

Text escape_html(const Text& text) {
    Text result;
    size_t done = 0;
    static constexpr std::string_view kCharacters = "&<>\"'";
    static constexpr std::array<std::string_view, 5> kEscapes = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};
    for (size_t at = 0; at < text.size(); ++at) {
        const size_t found = kCharacters.find(text.bytes()[at]);
        if (found == std::string_view::npos) continue;
        result.append_part(text, done, at);
        if (text.has_foreign(at, at + 1)) {
            result.append_foreign(kEscapes[found]);
        } else {
            result.append(kEscapes[found]);
        }
        done = at + 1;
    }
    result.append_part(text, done, text.size());
    return result;
}

Text with_case(const Text& text, LetterCase to) {
    Text result;
    bool is_inside = false;  // of a word, or after the first character
    for_each_character(text.view(), [&](size_t at, size_t length, char32_t character) {
        const bool upper = to == LetterCase::upper || (to != LetterCase::lower && !is_inside);
        const std::string changed = to_case(character, upper);
        if (text.has_foreign(at, at + length)) {
            result.append_foreign(changed);
        } else {
            result.append(changed);
        }
        is_inside = to != LetterCase::title || is_letter(character);
    });
    return result;
}

Result<Text> replace(Run& run, const Text& text, const Text& from, const Text& to, int64_t count) {
    std::vector<size_t> places;  // where `from` begins
    const size_t limit = count < 0 ? SIZE_MAX : static_cast<size_t>(count);
    NL_TRY(run.check_bytes(text.size()));
    if (from.empty()) {
        places = character_offsets(text.view());
        places.resize(std::min(places.size(), limit));
    } else {
        for (size_t at = text.bytes().find(from.bytes()); at != std::string::npos && places.size() < limit;
             at = text.bytes().find(from.bytes(), at + from.size()))
            places.push_back(at);
    }
    NL_TRY(run.check_bytes(text.size() + places.size() * to.size()));
    Text result;
    size_t done = 0;
    for (const size_t place : places) {
        result.append_part(text, done, place);
        result.append(to);
        done = place + from.size();
    }
    result.append_part(text, done, text.size());
    return result;
}

Result<Text> join(Run& run, const std::vector<Value>& items, const Text& between) {
    Text result;
    size_t checked = 0;
    for (size_t i = 0; i < items.size(); ++i) {
        if (i > 0) result.append(between);
        NL_ASSIGN(const Text item, to_text(run, items[i]));
        NL_TRY(run.check_bytes(item.size() + between.size()));
        result.append(item);
        if (result.size() > checked + 65536) {
            checked = result.size();
            NL_TRY(run.check_bytes(checked));
        }
    }
    return result;
}

std::vector<Range> split_lines(std::string_view text, bool keeps_ends) {
    std::vector<Range> lines;
    size_t begin = 0;
    for (size_t at = 0; at < text.size();) {
        size_t length = 0;
        const char32_t c = first_character(text.substr(at), length);
        const bool ends =
            (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
        if (ends && c == '\r' && at + 1 < text.size() && text[at + 1] == '\n') ++length;
        if (ends) {
            lines.push_back({begin, keeps_ends ? at + length : at});
            begin = at + length;
        }
        at += length;
    }
    if (begin < text.size()) lines.push_back({begin, text.size()});
    return lines;
}

}  // namespace nanolith::jinja
