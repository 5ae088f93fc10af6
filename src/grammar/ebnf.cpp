#include "grammar/ebnf.h"

#include <map>

#include "grammar/regex.h"
#include "grammar/text_reader.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace nanolith::grammar {
namespace {

bool is_rule_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

class EbnfParser final : public TextReader {
  public:
    EbnfParser(RuleSet& rules, std::string_view text) : TextReader(text), rules_(rules) {}

    Result<int32_t> run() {
        if (!is_valid_utf8(text_)) return fail(NL_ERROR_INVALID_ARGUMENT, "byte 0: the grammar is no valid UTF-8");
        skip();
        while (at_ < text_.size()) NL_TRY(rule());
        for (const auto& [name, known] : known_)
            if (!known.defined)
                return fail(NL_ERROR_INVALID_ARGUMENT, "byte ", known.at, ": there is no rule '", name, "'");
        const auto root = known_.find("root");
        if (root == known_.end()) return fail(NL_ERROR_INVALID_ARGUMENT, "byte ", at_, ": there is no rule 'root'");
        return root->second.index;
    }

  private:
    struct Known {
        int32_t index = 0;
        size_t at = 0;  // where it is named first
        bool defined = false;
    };

    // White space and comments.
    void skip() override {
        while (at_ < text_.size()) {
            const char c = text_[at_];
            if (c == '#') {
                at_ = std::min(text_.find('\n', at_), text_.size());
            } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
                ++at_;
            } else {
                return;
            }
        }
    }

    std::string take_name() {
        const size_t begin = at_;
        while (is_rule_name(peek())) ++at_;
        return std::string(text_.substr(begin, at_ - begin));
    }

    Result<int32_t> rule_named(const std::string& name, size_t at) {
        const auto found = known_.find(name);
        if (found != known_.end()) return found->second.index;
        NL_ASSIGN(const int32_t index, rules_.reserve());
        known_[name] = {index, at, false};
        return index;
    }

    // Whether a rule begins here.
    bool rule_begins() {
        const size_t at = at_;
        const bool named = !take_name().empty();
        skip();
        const bool begins = named && text_.substr(at_).starts_with("::=");
        at_ = at;
        return begins;
    }

    Result<void> rule() {
        const size_t at = at_;
        inside_.clear();
        if (!rule_begins()) return error("expected a rule: a name and ::=");
        const std::string name = take_name();
        NL_ASSIGN(const int32_t index, rule_named(name, at));
        if (known_[name].defined) {
            at_ = at;
            return error("the rule '" + name + "' is there twice");
        }
        known_[name].defined = true;
        inside_ = "rule '" + name + "': ";
        skip();
        take("::=");
        Nfa nfa;
        NL_ASSIGN(const Fragment whole, either(nfa, 0));
        if (at_ < text_.size() && !rule_begins()) return error("this can't follow here");
        auto made = make_dfa(nfa, whole, work_);
        if (!made.ok()) return fail(made.error().status, "byte ", at, ": rule '", name, "': ", made.error().message);
        rules_.set(index, {.dfa = std::move(*made)});
        return {};
    }

    Result<Fragment> either(Nfa& nfa, int32_t depth) {
        if (depth > kMaxNesting)
            return fail(NL_ERROR_UNSUPPORTED, "byte ", at_, ": groups are nested deeper than ", kMaxNesting);
        std::vector<Fragment> parts;
        do {
            Fragment part = nfa.nothing();
            for (skip(); at_ < text_.size() && peek() != '|' && peek() != ')' && !rule_begins(); skip()) {
                NL_ASSIGN(const Fragment next, repeated(nfa, depth));
                part = nfa.then(part, next);
            }
            parts.push_back(part);
        } while (take("|"));
        return nfa.either(parts);
    }

    // An element and its repetitions, each of which is read from the text again.
    Result<Fragment> repeated(Nfa& nfa, int32_t depth) {
        const size_t begin = at_;
        NL_ASSIGN(const Fragment one, element(nfa, depth));
        // Not left to make_dfa(): with every level of nested repetitions the elements read would double.
        if (nfa.too_large()) return too_large(nfa);
        const size_t end = at_;
        skip();
        if (take("*")) return nfa.star(one);
        if (take("?")) return nfa.optional(one);
        int32_t least = 1;
        int32_t most = -1;
        if (peek() == '{') {
            NL_TRY(counts(least, most));
        } else if (!take("+")) {
            at_ = end;
            return one;
        }
        const size_t behind = at_;
        const auto copy = [&]() -> Result<Fragment> {
            copied_ += static_cast<int64_t>(end - begin);
            if (nfa.too_large() || copied_ > kMaxCopiedBytes) return too_large(nfa);
            at_ = begin;
            NL_ASSIGN(const Fragment next, element(nfa, depth));
            at_ = behind;
            return next;
        };
        Fragment whole = nfa.nothing();
        for (int32_t i = 0; i < least; ++i) {
            NL_ASSIGN(const Fragment next, copy());
            whole = nfa.then(whole, next);
        }
        if (most < 0) {
            NL_ASSIGN(const Fragment next, copy());
            return nfa.then(whole, nfa.star(next));
        }
        const int32_t last = nfa.add_state();
        for (int32_t i = least; i < most; ++i) {
            nfa.add_empty(whole.end, last);
            NL_ASSIGN(const Fragment next, copy());
            whole = nfa.then(whole, next);
        }
        nfa.add_empty(whole.end, last);
        return Fragment{whole.begin, last};
    }

    [[nodiscard]] Error too_large(const Nfa& nfa) const {
        return fail(NL_ERROR_UNSUPPORTED, "byte ", at_, ": ", inside_, "its repetitions need more than ",
                    nfa.too_large() ? int64_t{kMaxNfaStates} : kMaxCopiedBytes, nfa.too_large() ? " states" : " bytes",
                    ": expected a simpler rule");
    }

    Result<Fragment> element(Nfa& nfa, int32_t depth) {
        if (take("(")) {
            NL_ASSIGN(const Fragment inside, either(nfa, depth + 1));
            if (!take(")")) return error("a group is not closed: expected ')'");
            return inside;
        }
        if (peek() == '"') return text(nfa);
        if (peek() == '[') return set(nfa);
        if (take(".")) return add_characters(nfa, {{0, kLastCharacter}}, Spelling::plain);
        const size_t at = at_;
        const std::string name = take_name();
        if (name.empty()) return error("expected a text in quotes, a set of characters, a rule's name or '('");
        NL_ASSIGN(const int32_t index, rule_named(name, at));
        return nfa.call(index);
    }

    Result<Fragment> text(Nfa& nfa) {
        take("\"");
        std::string bytes;
        while (!take("\"")) {
            if (at_ >= text_.size() || peek() == '\n') return error("a text has no end: expected '\"'");
            if (!take("\\")) {
                bytes += text_[at_++];
                continue;
            }
            static constexpr std::string_view kLetters = "nrt\"\\[]'";
            static constexpr std::string_view kMeant = "\n\r\t\"\\[]'";
            const char c = peek();
            if (const size_t which = kLetters.find(c); at_ < text_.size() && which != std::string_view::npos) {
                bytes += kMeant[which];
                ++at_;
                continue;
            }
            const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
            if (digits == 0) return error("this escape is not known");
            ++at_;
            NL_ASSIGN(const uint32_t code, character(digits));
            append_character(bytes, code);
        }
        return nfa.text(bytes);
    }

    Result<uint32_t> character(size_t digits) {
        NL_ASSIGN(const uint32_t value, hex(digits));
        if (value > kLastCharacter || (value >= 0xD800 && value <= 0xDFFF))
            return error("this is no Unicode character");
        return value;
    }

    Result<Fragment> set(Nfa& nfa) {
        const size_t begin = at_;
        ++at_;
        while (peek() != ']') {
            if (at_ >= text_.size()) {
                at_ = begin;
                return error("a set of characters is not closed: expected ']'");
            }
            at_ += peek() == '\\' && at_ + 1 < text_.size() ? 2 : 1;
        }
        ++at_;
        auto made = add_regex(nfa, text_.substr(begin, at_ - begin), Match::whole, Spelling::plain);
        if (made.ok()) return made;
        return fail(made.error().status, "byte ", begin, ": ", inside_, "in the set of characters, ",
                    made.error().message);
    }

    RuleSet& rules_;
    std::map<std::string, Known> known_;
    int64_t work_ = kMaxSubsetWork;
    int64_t copied_ = 0;  // bytes that were read again
};

}  // namespace

Result<int32_t> add_ebnf(RuleSet& rules, std::string_view text) {
    return EbnfParser(rules, text).run();
}

}  // namespace nanolith::grammar
