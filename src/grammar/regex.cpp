#include "grammar/regex.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>

#include "grammar/text_reader.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace nanolith::grammar {

// ---- Sets of characters

CharacterSet normalised(CharacterSet set) {
    std::ranges::sort(set);
    CharacterSet result;
    for (const auto& [first, last] : set) {
        if (!result.empty() && first <= result.back().second + 1) {
            result.back().second = std::max(result.back().second, last);
        } else {
            result.emplace_back(first, last);
        }
    }
    return result;
}

CharacterSet complement(const CharacterSet& set) {
    CharacterSet result;
    uint32_t next = 0;
    for (const auto& [first, last] : normalised(set)) {
        if (first > next) result.emplace_back(next, first - 1);
        next = last + 1;
    }
    if (next <= kLastCharacter) result.emplace_back(next, kLastCharacter);
    return result;
}

CharacterSet without(const CharacterSet& set, const CharacterSet& removed) {
    CharacterSet outside = complement(set);
    outside.insert(outside.end(), removed.begin(), removed.end());
    return complement(outside);
}

Fragment add_characters(Nfa& nfa, const CharacterSet& set, Spelling spelling) {
    const Fragment whole = nfa.never();
    const auto add = [&](Fragment part) {
        nfa.add_empty(whole.begin, part.begin);
        nfa.add_empty(part.end, whole.end);
    };
    const CharacterSet sorted = normalised(set);
    static const CharacterSet escaped = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
    const CharacterSet raw = spelling == Spelling::plain ? sorted : without(sorted, escaped);
    for (const auto& [first, last] : raw) add(nfa.characters(first, last));
    if (spelling == Spelling::plain) return whole;
    static constexpr std::string_view kDigits = "0123456789abcdef";
    for (const auto& [first, last] : sorted) {
        for (uint32_t c = first; c <= std::min<uint32_t>(last, '\\'); ++c) {
            if (c >= 0x20 && c != '"' && c != '\\') continue;
            std::string spelled = "\\";
            switch (c) {
                case '"':
                case '\\':
                    spelled += static_cast<char>(c);
                    break;
                case '\b':
                    spelled += 'b';
                    break;
                case '\f':
                    spelled += 'f';
                    break;
                case '\n':
                    spelled += 'n';
                    break;
                case '\r':
                    spelled += 'r';
                    break;
                case '\t':
                    spelled += 't';
                    break;
                default:
                    spelled.append("u00").append({kDigits[c / 16], kDigits[c % 16]});
            }
            add(nfa.text(spelled));
        }
    }
    return whole;
}

Fragment add_text(Nfa& nfa, std::string_view text, Spelling spelling) {
    Fragment whole = nfa.nothing();
    while (!text.empty()) {
        size_t length = next_utf8(text).length;
        const bool well_formed = next_utf8(text).kind == Utf8Kind::well_formed;
        if (spelling == Spelling::plain || !well_formed) {
            whole = nfa.then(whole, nfa.text(text.substr(0, length)));
        } else {
            const uint32_t c = first_character(text, length);
            whole = nfa.then(whole, add_characters(nfa, {{c, c}}, spelling));
        }
        text.remove_prefix(length);
    }
    return whole;
}

// ---- Expressions

namespace {

const CharacterSet kDigitSet = {{'0', '9'}};
const CharacterSet kWordSet = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const CharacterSet kAsciiSpaces = {{9, 13}, {' ', ' '}};
const CharacterSet kSpaceSet = {{9, 13},          {0x1C, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
                                {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
                                {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const CharacterSet kLineEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x85, 0x85}, {0x2028, 0x2029}};
const CharacterSet kAsciiSet = {{0, 0x7F}};
const CharacterSet kBeyondAscii = {{0x80, kLastCharacter}};
const CharacterSet kAnySet = {{0, kLastCharacter}};

CharacterSet joined(CharacterSet a, const CharacterSet& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

struct RegexNode {
    enum class Kind : uint8_t { set, sequence, either, repeat, begin, end } kind = Kind::sequence;
    CharacterSet set = {};
    std::vector<RegexNode> parts = {};
    int32_t least = 0;
    int32_t most = 0;  // -1: no limit
    size_t at = 0;
};

class RegexParser final : public TextReader {
  public:
    explicit RegexParser(std::string_view text) : TextReader(text) {}

    Result<RegexNode> run() {
        if (!is_valid_utf8(text_)) return fail(NL_ERROR_INVALID_ARGUMENT, "byte 0: the expression is no valid UTF-8");
        NL_ASSIGN(RegexNode node, either(0));
        if (at_ < text_.size()) return error("')' closes no group");
        return node;
    }

  private:
    uint32_t take_character() {
        size_t length = 0;
        const uint32_t c = first_character(rest(), length);
        at_ += length;
        return c;
    }

    Result<RegexNode> either(int32_t depth) {
        if (depth > kMaxNesting)
            return fail(NL_ERROR_UNSUPPORTED, "byte ", at_, ": groups are nested deeper than ", kMaxNesting);
        RegexNode whole{.kind = RegexNode::Kind::either, .at = at_};
        do {
            NL_ASSIGN(RegexNode part, sequence(depth));
            whole.parts.push_back(std::move(part));
        } while (take("|"));
        if (whole.parts.size() == 1) return std::move(whole.parts[0]);
        return whole;
    }

    Result<RegexNode> sequence(int32_t depth) {
        RegexNode whole{.kind = RegexNode::Kind::sequence, .at = at_};
        while (!done() && peek() != '|' && peek() != ')') {
            NL_ASSIGN(RegexNode part, atom(depth));
            NL_TRY(quantify(part));
            whole.parts.push_back(std::move(part));
        }
        return whole;
    }

    Result<RegexNode> atom(int32_t depth) {
        const size_t at = at_;
        if (take("^")) return RegexNode{.kind = RegexNode::Kind::begin, .at = at};
        if (take("$")) return RegexNode{.kind = RegexNode::Kind::end, .at = at};
        if (take(".")) return RegexNode{.kind = RegexNode::Kind::set, .set = complement(kLineEnds), .at = at};
        if (peek() == '(') return group(depth);
        if (peek() == '[') return bracket();
        if (peek() == '*' || peek() == '+' || peek() == '?') return error("there is nothing to repeat");
        if (peek() == '{') return error("'{' repeats nothing: expected \\{ for the sign itself");
        if (peek() == '\\') {
            NL_ASSIGN(CharacterSet set, escape(false, false));
            return RegexNode{.kind = RegexNode::Kind::set, .set = std::move(set), .at = at};
        }
        const uint32_t c = take_character();
        return RegexNode{.kind = RegexNode::Kind::set, .set = {{c, c}}, .at = at};
    }

    Result<RegexNode> group(int32_t depth) {
        if (take("(?:")) return close(depth);
        if (!rest().starts_with("(?")) {
            take("(");
            return close(depth);
        }
        for (const std::string_view named : {"(?<", "(?P<"}) {
            const std::string_view left = rest();
            if (!left.starts_with(named) || left.size() <= named.size()) continue;
            if (left[named.size()] == '=' || left[named.size()] == '!') continue;
            const size_t end = left.find('>');
            if (end == std::string_view::npos) return error("the group's name has no end");
            at_ += end + 1;
            return close(depth);
        }
        const size_t length = rest().starts_with("(?<") ? 4 : 3;
        return unsupported("'" + std::string(text_.substr(at_, length)) + "'");
    }

    Result<RegexNode> close(int32_t depth) {
        NL_ASSIGN(RegexNode inside, either(depth + 1));
        if (!take(")")) return error("a group is not closed: expected ')'");
        return inside;
    }

    Result<void> quantify(RegexNode& part) {
        const size_t at = at_;
        int32_t least = 0;
        int32_t most = -1;
        if (take("*")) {
        } else if (take("+")) {
            least = 1;
        } else if (take("?")) {
            most = 1;
        } else if (peek() == '{') {
            NL_TRY(counts(least, most));
        } else {
            return {};
        }
        if (part.kind == RegexNode::Kind::begin || part.kind == RegexNode::Kind::end) {
            at_ = at;
            return error("an anchor can't be repeated");
        }
        if (peek() == '+') return unsupported("a possessive repetition");
        take("?");  // as few as possible: the same texts
        if (peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{')
            return error("a repetition is repeated: expected a group around it");
        RegexNode repeat{.kind = RegexNode::Kind::repeat, .least = least, .most = most, .at = at};
        repeat.parts.push_back(std::move(part));
        part = std::move(repeat);
        return {};
    }

    Result<uint32_t> unicode_escape() {
        uint32_t c = 0;
        if (take("{")) {
            size_t digits = 0;
            while (digits < 7 && at_ + digits < text_.size() && text_[at_ + digits] != '}') ++digits;
            if (digits == 0 || digits > 6) return error("expected from 1 to 6 hexadecimal digits");
            NL_ASSIGN(c, hex(digits));
            if (!take("}")) return error("expected '}'");
        } else {
            NL_ASSIGN(c, hex(4));
            if (c >= 0xD800 && c < 0xDC00 && take("\\u")) {
                NL_ASSIGN(const uint32_t low, hex(4));
                if (low < 0xDC00 || low > 0xDFFF) return error("a surrogate has no partner");
                c = 0x10000 + ((c - 0xD800) << 10U) + (low - 0xDC00);
            }
        }
        if (c > kLastCharacter || (c >= 0xD800 && c <= 0xDFFF)) return error("this is no Unicode character");
        return c;
    }

    // What a backslash begins. One character, or a set.
    Result<CharacterSet> escape(bool in_bracket, bool negated) {
        const size_t begin = at_;
        take("\\");
        if (done()) return error("a backslash stands at the end");
        const uint32_t c = take_character();
        uint32_t one = c;
        switch (c) {
            // Readers differ in what these are beyond ASCII. A set has what all agree on, a negated one leaves out what
            // some have.
            case 'd':
                return negated ? joined(kDigitSet, kBeyondAscii) : kDigitSet;
            case 'w':
                return negated ? joined(kWordSet, kBeyondAscii) : kWordSet;
            case 's':
                return negated ? kSpaceSet : kAsciiSpaces;
            case 'D':
                return without(negated ? kAnySet : kAsciiSet, kDigitSet);
            case 'W':
                return without(negated ? kAnySet : kAsciiSet, kWordSet);
            case 'S':
                return complement(negated ? kAsciiSpaces : kSpaceSet);
            case 't':
                one = '\t';
                break;
            case 'n':
                one = '\n';
                break;
            case 'r':
                one = '\r';
                break;
            case 'f':
                one = '\f';
                break;
            case 'v':
                one = '\v';
                break;
            case 'x': {
                NL_ASSIGN(one, hex(2));
                break;
            }
            case 'u': {
                NL_ASSIGN(one, unicode_escape());
                break;
            }
            case '0':
                if (peek() < '0' || peek() > '9') {
                    one = 0;
                    break;
                }
                [[fallthrough]];
            default: {
                const bool word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
                if (!word) break;
                if (in_bracket && c == 'b') {
                    one = '\b';
                    break;
                }
                at_ = begin;
                return unsupported("'\\" + std::string(1, static_cast<char>(c)) + "'");
            }
        }
        return CharacterSet{{one, one}};
    }

    Result<RegexNode> bracket() {
        RegexNode node{.kind = RegexNode::Kind::set, .at = at_};
        take("[");
        const bool negated = take("^");
        while (peek() != ']') {
            if (done()) return error("a set of characters is not closed: expected ']'");
            NL_ASSIGN(CharacterSet first, member(negated));
            const std::string_view left = rest();
            if (left.starts_with("-") && left.size() > 1 && left[1] != ']') {
                const size_t at = at_;
                take("-");
                NL_ASSIGN(const CharacterSet last, member(negated));
                const bool ends_are_characters = first.size() == 1 && last.size() == 1 &&
                                                 first[0].first == first[0].second && last[0].first == last[0].second;
                if (!ends_are_characters || last[0].first < first[0].first) {
                    at_ = at;
                    return error("a range of characters goes from a lower to a higher one");
                }
                first[0].second = last[0].first;
            }
            node.set.insert(node.set.end(), first.begin(), first.end());
        }
        take("]");
        node.set = negated ? complement(node.set) : normalised(node.set);
        return node;
    }

    Result<CharacterSet> member(bool negated) {
        if (peek() == '\\') return escape(true, negated);
        if (rest().starts_with("[:")) return unsupported("'[:'");
        const uint32_t c = take_character();
        return CharacterSet{{c, c}};
    }
};

class RegexWriter {
  public:
    RegexWriter(Nfa& nfa, Spelling spelling) : nfa_(nfa), spelling_(spelling) {}

    Result<Fragment> run(const RegexNode& node, Match match) {
        const bool several = node.kind == RegexNode::Kind::either;
        std::vector<Fragment> parts;
        for (size_t i = 0; i < (several ? node.parts.size() : 1); ++i) {
            NL_ASSIGN(const Fragment part, alternative(several ? node.parts[i] : node, match));
            parts.push_back(part);
        }
        return nfa_.either(parts);
    }

  private:
    Fragment anything() { return nfa_.star(add_characters(nfa_, {{0, kLastCharacter}}, spelling_)); }

    // Anchors stand at the ends of an alternative of the whole expression.
    Result<Fragment> alternative(const RegexNode& node, Match match) {
        std::span<const RegexNode> parts(&node, 1);
        if (node.kind == RegexNode::Kind::sequence) parts = node.parts;
        bool begins = match == Match::whole;
        bool ends = begins;
        if (!parts.empty() && parts.front().kind == RegexNode::Kind::begin) {
            begins = true;
            parts = parts.subspan(1);
        }
        if (!parts.empty() && parts.back().kind == RegexNode::Kind::end) {
            ends = true;
            parts = parts.first(parts.size() - 1);
        }
        Fragment whole = begins ? nfa_.nothing() : anything();
        for (const RegexNode& part : parts) {
            NL_ASSIGN(const Fragment next, emit(part));
            whole = nfa_.then(whole, next);
        }
        return ends ? whole : nfa_.then(whole, anything());
    }

    Result<Fragment> emit(const RegexNode& node) {
        switch (node.kind) {
            case RegexNode::Kind::set:
                return add_characters(nfa_, node.set, spelling_);
            case RegexNode::Kind::begin:
            case RegexNode::Kind::end:
                return fail(NL_ERROR_UNSUPPORTED, "byte ", node.at, ": '",
                            node.kind == RegexNode::Kind::begin ? '^' : '$',
                            "' is not supported but at the ends of the expression or of its alternatives");
            case RegexNode::Kind::sequence: {
                Fragment whole = nfa_.nothing();
                for (const RegexNode& part : node.parts) {
                    NL_ASSIGN(const Fragment next, emit(part));
                    whole = nfa_.then(whole, next);
                }
                return whole;
            }
            case RegexNode::Kind::either: {
                std::vector<Fragment> parts;
                for (const RegexNode& part : node.parts) {
                    NL_ASSIGN(const Fragment next, emit(part));
                    parts.push_back(next);
                }
                return nfa_.either(parts);
            }
            case RegexNode::Kind::repeat:
                return repeat(node);
        }
        return nfa_.never();
    }

    Result<Fragment> repeat(const RegexNode& node) {
        const RegexNode& part = node.parts[0];
        Fragment whole = nfa_.nothing();
        for (int32_t i = 0; i < node.least && !nfa_.too_large(); ++i) {
            NL_ASSIGN(const Fragment next, emit(part));
            whole = nfa_.then(whole, next);
        }
        if (node.most < 0) {
            NL_ASSIGN(const Fragment next, emit(part));
            return nfa_.then(whole, nfa_.star(next));
        }
        // Each optional one may go straight to the end.
        const int32_t end = nfa_.add_state();
        for (int32_t i = node.least; i < node.most && !nfa_.too_large(); ++i) {
            nfa_.add_empty(whole.end, end);
            NL_ASSIGN(const Fragment next, emit(part));
            whole = nfa_.then(whole, next);
        }
        nfa_.add_empty(whole.end, end);
        return Fragment{whole.begin, end};
    }

    Nfa& nfa_;
    Spelling spelling_;
};

}  // namespace

Result<Fragment> add_regex(Nfa& nfa, std::string_view pattern, Match match, Spelling spelling) {
    NL_ASSIGN(const RegexNode node, RegexParser(pattern).run());
    return RegexWriter(nfa, spelling).run(node, match);
}

}  // namespace nanolith::grammar
