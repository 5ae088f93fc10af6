#include "grammar/json_rules.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace nanolith::grammar {
namespace {

constexpr int32_t kMostIndent = 32;
constexpr int kMostDigits = 15;   // of a number: different numbers of 15 digits are different doubles
constexpr int kMostFraction = 6;  // digits behind the point, where a number has bounds
constexpr int64_t kMostMultiple = 2000;

// A decimal number that is not negative: digits before and behind the point.
struct Decimal {
    std::string whole;  // without leading zeros, "" for 0
    std::string fraction;
    [[nodiscard]] bool is_zero() const { return whole.empty() && fraction.empty(); }
};

struct SignedDecimal {
    bool negative = false;
    Decimal size;
};

// The value of a JSON number.
Result<SignedDecimal> to_decimal(const std::string& literal) {
    SignedDecimal result;
    result.negative = literal.starts_with('-');
    std::string digits;
    int64_t point = -1;
    size_t i = result.negative ? 1 : 0;
    for (; i < literal.size() && literal[i] != 'e' && literal[i] != 'E'; ++i) {
        if (literal[i] == '.') {
            point = static_cast<int64_t>(digits.size());
        } else {
            digits += literal[i];
        }
    }
    if (point < 0) point = static_cast<int64_t>(digits.size());
    if (i < literal.size()) {
        const std::string exponent = literal.substr(i + 1);
        if (exponent.size() > 4) return fail(NL_ERROR_UNSUPPORTED, literal, " has too large an exponent");
        point += std::atoi(exponent.c_str());
    }
    constexpr int64_t kLongest = 400;
    if (point > kLongest || point < -kLongest || digits.size() > kLongest)
        return fail(NL_ERROR_UNSUPPORTED, literal, " has too many digits");
    while (point < 0) {
        digits.insert(digits.begin(), '0');
        ++point;
    }
    while (point > static_cast<int64_t>(digits.size())) digits += '0';
    result.size.whole = digits.substr(0, static_cast<size_t>(point));
    result.size.fraction = digits.substr(static_cast<size_t>(point));
    result.size.whole.erase(0, std::min(result.size.whole.find_first_not_of('0'), result.size.whole.size()));
    result.size.fraction.erase(result.size.fraction.find_last_not_of('0') + 1);
    if (result.size.is_zero()) result.negative = false;
    return result;
}

// Numbers from `least` to `most`, not negative, digit by digit: while the digits so far are those of a bound, the next
// one may not pass it.
class RangeWriter {
  public:
    struct End {
        Decimal at = {};
        bool exclusive = false;
    };
    RangeWriter(Nfa& nfa, End least, std::optional<End> most, bool integers)
        : nfa_(nfa), least_(std::move(least)), most_(std::move(most)), integers_(integers) {}

    Fragment run() {
        whole_ = nfa_.never();
        const auto shortest = std::max<size_t>(1, least_.at.whole.size());
        const size_t longest = most_ ? std::max<size_t>(1, most_->at.whole.size()) : kMostDigits;
        for (length_ = shortest; length_ <= std::min<size_t>(longest, kMostDigits); ++length_) {
            states_.clear();
            low_ = padded(least_.at);
            high_ = most_ ? padded(most_->at) : "";
            const bool from_low = length_ == shortest;
            const bool to_high = most_ && length_ == longest;
            nfa_.add_empty(whole_.begin, state(0, from_low, to_high));
        }
        return whole_;
    }

  private:
    // The digits of a number with length_ ones before the point.
    std::string padded(const Decimal& number) const {
        if (number.whole.size() > length_) return std::string(length_, '0');
        return std::string(length_ - number.whole.size(), '0') + number.whole + number.fraction;
    }
    static int digit(const std::string& digits, size_t at) { return at < digits.size() ? digits[at] - '0' : 0; }

    // Whether a number may end before digit `at`; on_low and on_high: its digits so far are those of that bound.
    bool may_end(size_t at, bool on_low, bool on_high) const {
        const auto rest_is_zero = [at](const std::string& digits) {
            return at >= digits.size() || digits.find_first_not_of('0', at) == std::string::npos;
        };
        if (on_low && (!rest_is_zero(low_) || least_.exclusive)) return false;
        return !(on_high && rest_is_zero(high_) && most_->exclusive);
    }

    // The state before digit `at`, counted from the first, the point left out.
    int32_t state(size_t at, bool on_low, bool on_high) {
        const auto key = std::tuple(at, on_low, on_high);
        if (const auto found = states_.find(key); found != states_.end()) return found->second;
        const int32_t here = nfa_.add_state();
        states_[key] = here;
        if (nfa_.too_large()) return here;
        int32_t from = here;
        if (at >= length_) {
            if (may_end(at, on_low, on_high)) nfa_.add_empty(here, whole_.end);
            const size_t most = integers_ ? length_ : std::min<size_t>(length_ + kMostFraction, kMostDigits);
            if (at >= most) return here;
            if (at == length_) {
                from = nfa_.add_state();
                nfa_.add_edge(here, '.', '.', from);
            }
        }
        const int low = on_low ? digit(low_, at) : 0;
        const int high = on_high ? digit(high_, at) : 9;
        const bool leads = at == 0 && length_ > 1;  // no zero in front
        for (int d = std::max(low, leads ? 1 : 0); d <= high; ++d) {
            const int32_t to = state(at + 1, on_low && d == low, on_high && d == high);
            nfa_.add_edge(from, static_cast<uint8_t>('0' + d), static_cast<uint8_t>('0' + d), to);
        }
        return here;
    }

    Nfa& nfa_;
    const End least_;
    const std::optional<End> most_;
    const bool integers_;
    Fragment whole_;
    size_t length_ = 1;  // digits before the point
    std::string low_;
    std::string high_;
    std::map<std::tuple<size_t, bool, bool>, int32_t> states_;
};

// Integers, with a sign perhaps, that are multiples of `number`: a state for each remainder of the digits so far.
Dfa multiples_of(int64_t number) {
    Dfa dfa;
    dfa.num_classes = 12;
    dfa.class_of.fill(11);
    dfa.class_of['-'] = 10;
    for (int d = 0; d < 10; ++d) dfa.class_of['0' + d] = static_cast<uint8_t>(d);
    const auto add = [&](int64_t remainder, bool signs, bool final) {
        for (int64_t d = 0; d < 10; ++d) dfa.next.push_back(static_cast<int32_t>((remainder * 10 + d) % number) + 2);
        dfa.next.push_back(signs ? 1 : kNoState);
        dfa.next.push_back(kNoState);
        dfa.final.push_back(final ? 1 : 0);
        dfa.calls.emplace_back();
    };
    add(0, true, false);   // the beginning
    add(0, false, false);  // after a sign
    for (int64_t remainder = 0; remainder < number; ++remainder) add(remainder, false, remainder == 0);
    return minimise(dfa);
}

}  // namespace

Result<int32_t> JsonRules::add(const Nfa& nfa, Fragment whole) {
    NL_ASSIGN(Dfa made, make_dfa(nfa, whole, work_));
    return rules_.add({.dfa = std::move(made)});
}

Result<void> JsonRules::set(int32_t rule, const Nfa& nfa, Fragment whole) {
    NL_ASSIGN(Dfa made, make_dfa(nfa, whole, work_));
    rules_.set(rule, {.dfa = std::move(made)});
    return {};
}

Result<Fragment> JsonRules::add_spaces(Nfa& nfa) {
    if (spaces_ == kNoState) {
        Nfa own;
        Fragment line = own.range('\n', '\n');
        for (int32_t i = 0; i < kMostIndent; ++i) line = own.then(line, own.optional(own.range(' ', ' ')));
        NL_ASSIGN(spaces_, add(own, own.either({own.range(' ', ' '), line})));
    }
    return nfa.optional(nfa.call(spaces_));
}

// A character of a string in any of the ways that JSON has to spell it.
Fragment JsonRules::add_string_character(Nfa& nfa) {
    const auto hex = [&nfa](std::string_view first) {
        Fragment digit = nfa.never();
        for (const char c : first)
            nfa.add_edge(digit.begin, static_cast<uint8_t>(c), static_cast<uint8_t>(c), digit.end);
        return digit;
    };
    static constexpr std::string_view kAny = "0123456789abcdefABCDEF";
    const auto unit = [&](Fragment first, Fragment second) {
        return nfa.then(nfa.then(nfa.text("\\u"), first), nfa.then(second, nfa.then(hex(kAny), hex(kAny))));
    };
    const Fragment high = unit(hex("dD"), hex("89abAB"));
    const Fragment low = unit(hex("dD"), hex("cdefCDEF"));
    return nfa.either({add_characters(nfa, {{0, kLastCharacter}}, Spelling::json_string), nfa.text("\\/"),
                       unit(hex("0123456789abcefABCEF"), hex(kAny)), unit(hex("dD"), hex("01234567")),
                       nfa.then(high, low)});
}

Result<Fragment> JsonRules::add_string(Nfa& nfa, int32_t least, int32_t most) {
    Nfa own;
    if (least == 0 && most < 0) {
        if (string_ == kNoState) {
            NL_ASSIGN(string_, add(own, own.then(own.star(add_string_character(own)), own.text("\""))));
        }
        return nfa.then(nfa.text("\""), nfa.call(string_));
    }
    NL_ASSIGN(const Dfa unit, make_dfa(own, add_string_character(own), work_));
    NL_ASSIGN(Rule counted, counted_rule(unit, least, most < 0 ? INT32_MAX : most, static_cast<uint8_t>('"')));
    NL_ASSIGN(const int32_t rule, rules_.add(std::move(counted)));
    return nfa.then(nfa.text("\""), nfa.call(rule));
}

Result<Fragment> JsonRules::add_string(Nfa& nfa, const Dfa& inside) {
    Nfa own;
    const Fragment text = insert(own, inside);
    NL_ASSIGN(const int32_t rule, add(own, own.then(text, own.text("\""))));
    return nfa.then(nfa.text("\""), nfa.call(rule));
}

Result<Dfa> JsonRules::any_inside() {
    Nfa own;
    return dfa(own, own.star(add_characters(own, {{0, kLastCharacter}}, Spelling::json_string)));
}

Result<Dfa> JsonRules::inside_of_length(int32_t least, int32_t most) {
    Nfa own;
    Fragment whole = own.nothing();
    const auto character = [&own] { return add_characters(own, {{0, kLastCharacter}}, Spelling::json_string); };
    for (int32_t i = 0; i < least && !own.too_large(); ++i) whole = own.then(whole, character());
    if (most < 0) return dfa(own, own.then(whole, own.star(character())));
    const int32_t end = own.add_state();
    for (int32_t i = least; i < most && !own.too_large(); ++i) {
        own.add_empty(whole.end, end);
        whole = own.then(whole, character());
    }
    own.add_empty(whole.end, end);
    return dfa(own, {whole.begin, end});
}

Result<Dfa> JsonRules::number(const NumberRange& range) {
    const bool integers = range.integers || !range.multiples.empty();
    Nfa nfa;
    std::vector<Fragment> parts;
    if (!range.least && !range.most) {
        const Fragment digits = RangeWriter(nfa, {}, {}, true).run();
        parts.push_back(digits);
        parts.push_back(nfa.then(nfa.text("-"), RangeWriter(nfa, {.exclusive = true}, {}, true).run()));
        Fragment whole = nfa.either(parts);
        if (!integers) {
            // The fraction and the exponent, as JSON has them.
            const auto some_digits = [&nfa](int most) {
                Fragment all = nfa.range('0', '9');
                for (int i = 1; i < most; ++i) all = nfa.then(all, nfa.optional(nfa.range('0', '9')));
                return all;
            };
            const Fragment zero = nfa.text("-0");
            const Fragment sign = nfa.optional(nfa.either({nfa.text("+"), nfa.text("-")}));
            const Fragment exponent =
                nfa.then(nfa.either({nfa.text("e"), nfa.text("E")}), nfa.then(sign, some_digits(2)));
            const Fragment fraction = nfa.then(nfa.text("."), some_digits(kMostDigits));
            whole = nfa.then(nfa.either({whole, zero}), nfa.then(nfa.optional(fraction), nfa.optional(exponent)));
        }
        NL_ASSIGN(Dfa all, dfa(nfa, whole));
        return with_multiples(std::move(all), range.multiples);
    }
    return bounded_number(range, integers);
}

Result<Dfa> JsonRules::bounded_number(const NumberRange& range, bool integers) {
    using End = RangeWriter::End;
    Nfa nfa;
    std::vector<Fragment> parts;
    std::optional<SignedDecimal> least;
    std::optional<SignedDecimal> most;
    if (range.least) {
        NL_ASSIGN(least, to_decimal(range.least->literal));
    }
    if (range.most) {
        NL_ASSIGN(most, to_decimal(range.most->literal));
    }
    for (const auto& bound : {least, most}) {
        if (!bound) continue;
        const bool outside = bound->size.whole.size() > kMostDigits;
        if (!outside && bound->size.whole.size() + bound->size.fraction.size() > kMostDigits)
            return fail(NL_ERROR_UNSUPPORTED, "a bound of more than ", kMostDigits, " digits is not supported");
    }
    const bool too_far = (least && !least->negative && least->size.whole.size() > kMostDigits) ||
                         (most && most->negative && most->size.whole.size() > kMostDigits);
    if (too_far) return fail(NL_ERROR_UNSUPPORTED, "numbers of more than ", kMostDigits, " digits are not supported");
    // From 0 up.
    if (!most || !most->negative) {
        const End from = least && !least->negative ? End{least->size, range.least->exclusive} : End{};
        std::optional<End> to;
        if (most) to = End{most->size, range.most->exclusive};
        parts.push_back(RangeWriter(nfa, from, to, integers).run());
    }
    // Below 0.
    if (!least || least->negative) {
        const End from = most && most->negative ? End{most->size, range.most->exclusive} : End{.exclusive = true};
        std::optional<End> to;
        if (least) to = End{least->size, range.least->exclusive};
        parts.push_back(nfa.then(nfa.text("-"), RangeWriter(nfa, from, to, integers).run()));
    }
    NL_ASSIGN(Dfa all, dfa(nfa, nfa.either(parts)));
    return with_multiples(std::move(all), range.multiples);
}

Result<Dfa> JsonRules::with_multiples(Dfa numbers, const std::vector<int64_t>& multiples) {
    for (const int64_t multiple : multiples) {
        if (multiple > kMostMultiple)
            return fail(NL_ERROR_UNSUPPORTED, "multiples of more than ", kMostMultiple, " are not supported");
        NL_ASSIGN(numbers, intersect(numbers, multiples_of(multiple)));
    }
    return numbers;
}

Result<Fragment> JsonRules::add_value(Nfa& nfa, const JsonValue& value) {
    switch (value.kind) {
        case JsonValue::Kind::null:
            return nfa.text("null");
        case JsonValue::Kind::boolean:
            return nfa.text(value.truth ? "true" : "false");
        case JsonValue::Kind::number:
            return nfa.text(value.text);
        case JsonValue::Kind::string:
            return nfa.text(quoted(value.text));
        case JsonValue::Kind::array:
        case JsonValue::Kind::object:
            break;
    }
    const bool array = value.kind == JsonValue::Kind::array;
    NL_ASSIGN(const Fragment front, add_spaces(nfa));
    Fragment whole = nfa.then(nfa.text(array ? "[" : "{"), front);
    for (size_t i = 0; i < (array ? value.items.size() : value.members.size()); ++i) {
        if (i > 0) {
            NL_ASSIGN(const Fragment spaces, add_spaces(nfa));
            whole = nfa.then(whole, nfa.then(nfa.text(","), spaces));
        }
        if (!array) {
            NL_ASSIGN(const Fragment spaces, add_spaces(nfa));
            whole = nfa.then(whole, nfa.then(nfa.text(quoted(value.members[i].name) + ":"), spaces));
        }
        NL_ASSIGN(const Fragment item, add_value(nfa, array ? value.items[i] : value.members[i].value));
        whole = nfa.then(whole, item);
    }
    NL_ASSIGN(const Fragment back, add_spaces(nfa));
    return nfa.then(whole, nfa.then(back, nfa.text(array ? "]" : "}")));
}

Result<int32_t> JsonRules::any_value() {
    NL_TRY(make_any());
    return value_;
}

Result<int32_t> JsonRules::any_object() {
    NL_TRY(make_any());
    return object_;
}

Result<void> JsonRules::make_any() {
    if (value_ != kNoState) return {};
    NL_ASSIGN(value_, rules_.reserve());
    NL_ASSIGN(object_, rules_.reserve());
    NL_ASSIGN(const Dfa numbers, number({}));
    NL_ASSIGN(const int32_t number_rule, rules_.add({.dfa = numbers}));
    // `open`, items with commas between them or none, `close`.
    const auto list = [this](Nfa& nfa, const char* open, const char* close, const auto& item) -> Result<Fragment> {
        NL_ASSIGN(const Fragment front, add_spaces(nfa));
        NL_ASSIGN(const Fragment first, item());
        NL_ASSIGN(const Fragment between, add_spaces(nfa));
        NL_ASSIGN(const Fragment next, item());
        NL_ASSIGN(const Fragment back, add_spaces(nfa));
        const Fragment more = nfa.star(nfa.then(nfa.then(nfa.text(","), between), next));
        const Fragment inside = nfa.optional(nfa.then(first, more));
        return nfa.then(nfa.then(nfa.text(open), front), nfa.then(inside, nfa.then(back, nfa.text(close))));
    };
    Nfa of_object;
    NL_ASSIGN(const Fragment object, list(of_object, "{", "}", [&]() -> Result<Fragment> {
                  NL_ASSIGN(const Fragment name, add_string(of_object, 0, -1));
                  NL_ASSIGN(const Fragment spaces, add_spaces(of_object));
                  return of_object.then(of_object.then(name, of_object.text(":")),
                                        of_object.then(spaces, of_object.call(value_)));
              }));
    NL_TRY(set(object_, of_object, object));
    Nfa nfa;
    NL_ASSIGN(const Fragment array, list(nfa, "[", "]", [&]() -> Result<Fragment> { return nfa.call(value_); }));
    NL_ASSIGN(const Fragment string, add_string(nfa, 0, -1));
    return set(value_, nfa,
               nfa.either({nfa.call(object_), array, string, nfa.call(number_rule), nfa.text("true"), nfa.text("false"),
                           nfa.text("null")}));
}

}  // namespace nanolith::grammar
