#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>

#include "files/json.h"
#include "text/jinja/operations.h"

namespace nanolith::jinja {
namespace {

using Filter = Result<Value> (*)(Run& run, const Value& value, Arguments& arguments);

Result<Value> trim(Run& run, const Value& value, Arguments& arguments) {
    NL_TRY(arguments.bind("trim", {"chars"}));
    NL_ASSIGN(const Text* characters, arguments.text(0));
    NL_ASSIGN(const Text text, to_text(run, value));
    return run.text(strip(text, characters, true, true));
}

template <LetterCase letter_case>
Result<Value> change_case(Run& run, const Value& value, Arguments& /*arguments*/) {
    NL_ASSIGN(const Text text, to_text(run, value));
    return run.text(with_case(text, letter_case));
}

// Jinja's title begins a word after white space, hyphens and opening brackets alone.
Result<Value> title(Run& run, const Value& value, Arguments& /*arguments*/) {
    NL_ASSIGN(const Text text, to_text(run, value));
    Text result;
    size_t begin = 0;
    for (size_t at = 0; at <= text.size(); ++at) {
        const bool splits =
            at == text.size() || std::string_view(" \t\n\r\f\v-({[<").find(text.bytes()[at]) != std::string_view::npos;
        if (!splits) continue;
        result.append(with_case(text.part(begin, at), LetterCase::capitalize));
        if (at < text.size()) result.append_part(text, at, at + 1);
        begin = at + 1;
    }
    return run.text(std::move(result));
}

Result<Value> length(Run& /*run*/, const Value& value, Arguments& /*arguments*/) {
    if (value.is_undefined()) return Value(int64_t{0});
    if (const Text* text = value.text()) return Value(static_cast<int64_t>(count_characters(text->view())));
    if (const List* list = value.list(); list != nullptr && list->kind != ListKind::generator)
        return Value(static_cast<int64_t>(list->items.size()));
    if (const Dict* dict = value.dict()) return Value(static_cast<int64_t>(dict->members.size()));
    return fail(NL_ERROR_INVALID_ARGUMENT, "the length of a value of the type ", value.type_name());
}

Result<Value> make_list(Run& run, const Value& value, Arguments& /*arguments*/) {
    NL_ASSIGN(std::vector<Value> items, to_items(run, value));
    return run.list(std::move(items));
}

Result<Value> make_string(Run& run, const Value& value, Arguments& /*arguments*/) {
    if (value.text() != nullptr) return value;
    NL_ASSIGN(Text text, to_text(run, value));
    return run.text(std::move(text));
}

// The number that a text spells, as Python reads it; none where it spells none.
template <typename T>
bool parse_number(const Text& text, T& number) {
    const Text stripped = strip(text, nullptr, true, true);
    std::string_view digits = stripped.view();
    if (digits.starts_with('+')) digits.remove_prefix(1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    return error == std::errc() && end == digits.data() + digits.size() && !digits.empty();
}

Result<Value> make_int(Run& /*run*/, const Value& value, Arguments& arguments) {
    NL_TRY(arguments.bind("int", {"default", "base"}));
    const Value otherwise = arguments.values[0] != nullptr ? *arguments.values[0] : Value(int64_t{0});
    if (arguments.values[1] != nullptr) return fail(NL_ERROR_UNSUPPORTED, "int() with a base, which is not supported");
    if (value.is_integer()) return Value(value.integer());
    double real = NAN;
    if (value.as<double>() != nullptr) real = value.number();
    if (const Text* text = value.text()) {
        int64_t integer = 0;
        if (parse_number(*text, integer)) return Value(integer);
        parse_number(*text, real);
    }
    return std::abs(real) < 9e18 ? Value(static_cast<int64_t>(real)) : otherwise;
}

Result<Value> make_float(Run& /*run*/, const Value& value, Arguments& arguments) {
    NL_TRY(arguments.bind("float", {"default"}));
    if (value.is_number()) return Value(value.number());
    double real = 0;
    if (value.text() != nullptr && parse_number(*value.text(), real)) return Value(real);
    return arguments.values[0] != nullptr ? *arguments.values[0] : Value(0.0);
}

Result<Value> absolute(Run& /*run*/, const Value& value, Arguments& /*arguments*/) {
    if (!value.is_number()) return fail(NL_ERROR_INVALID_ARGUMENT, "abs of a value of the type ", value.type_name());
    if (value.is_integer() && value.integer() < 0) return apply_sign("-", value);
    return value.is_integer() ? Value(value.integer()) : Value(std::abs(value.number()));
}

Result<Value> round_number(Run& /*run*/, const Value& value, Arguments& arguments) {
    NL_TRY(arguments.bind("round", {"precision", "method"}));
    NL_ASSIGN(const int64_t precision, arguments.integer(0, 0));
    NL_ASSIGN(const Text* method, arguments.text(1));
    if (!value.is_number()) return fail(NL_ERROR_INVALID_ARGUMENT, "round of a value of the type ", value.type_name());
    const double scale = std::pow(10.0, static_cast<double>(precision));
    const double scaled = value.number() * scale;
    const std::string_view how = method != nullptr ? method->view() : "common";
    return Value((how == "ceil"    ? std::ceil(scaled)
                  : how == "floor" ? std::floor(scaled)
                                   : std::nearbyint(scaled)) /
                 scale);
}

Result<Value> otherwise(Run& run, const Value& value, Arguments& arguments) {
    NL_TRY(arguments.bind("default", {"default_value", "boolean"}));
    const bool keeps = arguments.truth(1, false) ? value.truth() : !value.is_undefined();
    if (keeps) return value;
    return arguments.values[0] != nullptr ? Result<Value>(*arguments.values[0]) : run.text("");
}

Result<Value> join_items(Run& run, const Value& value, Arguments& arguments) {
    NL_TRY(arguments.bind("join", {"d", "attribute"}));
    NL_ASSIGN(const Text* between, arguments.text(0));
    NL_ASSIGN(const Text* attribute, arguments.text(1));
    NL_ASSIGN(std::vector<Value> items, to_items(run, value));
    for (Value& item : items) {
        if (attribute == nullptr) break;
        NL_ASSIGN(item, get_path(run, item, attribute->bytes()));
    }
    NL_ASSIGN(Text joined, join(run, items, between != nullptr ? *between : Text()));
    return run.text(std::move(joined));
}

template <bool first>
Result<Value> end_item(Run& run, const Value& value, Arguments& /*arguments*/) {
    NL_ASSIGN(const std::vector<Value> items, to_items(run, value));
    if (items.empty()) return Value(Undefined{});
    return first ? items.front() : items.back();
}

Result<Value> reverse(Run& run, const Value& value, Arguments& /*arguments*/) {
    NL_ASSIGN(std::vector<Value> items, to_items(run, value));
    std::reverse(items.begin(), items.end());
    if (value.text() == nullptr) return run.list(std::move(items), ListKind::generator);
    NL_ASSIGN(Text text, join(run, items, Text()));
    return run.text(std::move(text));
}

Result<Value> replace_text(Run& run, const Value& value, Arguments& arguments) {
    NL_TRY(arguments.bind("replace", {"old", "new", "count"}));
    NL_ASSIGN(const Text* from, arguments.text(0));
    NL_ASSIGN(const Text* to, arguments.text(1));
    NL_ASSIGN(const int64_t count, arguments.integer(2, -1));
    if (from == nullptr || to == nullptr) return fail(NL_ERROR_INVALID_ARGUMENT, "replace without two texts");
    NL_ASSIGN(const Text text, to_text(run, value));
    NL_ASSIGN(Text replaced, replace(run, text, *from, *to, count));
    return run.text(std::move(replaced));
}

Result<Value> tojson(Run& run, const Value& value, Arguments& arguments) {
    NL_TRY(arguments.bind("tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}));
    JsonStyle style;
    style.ascii = arguments.truth(0, false);
    NL_ASSIGN(style.indent, arguments.integer(1, -1));
    if (style.indent > 64)
        return fail(NL_ERROR_UNSUPPORTED, "tojson's indent is ", style.indent, ": expected at most 64");
    if (style.indent >= 0) style.item_separator = std::string(1, ',');
    if (const Value* separators = arguments.values[2]; separators != nullptr && !separators->is_none()) {
        const List* const pair = separators->list();
        if (pair == nullptr || pair->items.size() != 2 || pair->items[0].text() == nullptr ||
            pair->items[1].text() == nullptr)
            return fail(NL_ERROR_INVALID_ARGUMENT, "tojson's separators: expected two texts");
        style.item_separator = pair->items[0].text()->bytes();
        style.key_separator = pair->items[1].text()->bytes();
    }
    style.sort_keys = arguments.truth(3, false);
    NL_ASSIGN(Text json, to_json(run, value, style));
    return run.text(std::move(json));
}

Result<Value> indent(Run& run, const Value& value, Arguments& arguments) {
    NL_TRY(arguments.bind("indent", {"width", "first", "blank"}));
    NL_ASSIGN(const Text text, to_text(run, value));
    Text indention;
    if (arguments.values[0] != nullptr && arguments.values[0]->text() != nullptr) {
        indention = *arguments.values[0]->text();
    } else {
        NL_ASSIGN(const int64_t width, arguments.integer(0, 4));
        if (width > 1024) return fail(NL_ERROR_UNSUPPORTED, "indent's width is ", width, ": expected at most 1024");
        indention = Text(std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' '));
    }
    Text with_end = text;
    with_end.append("\n");
    const std::vector<Range> lines = split_lines(with_end.view(), false);
    NL_TRY(run.check_bytes(with_end.size() + lines.size() * (indention.size() + sizeof(Range))));
    Text result;
    for (size_t i = 0; i < lines.size(); ++i) {
        if (i > 0) result.append("\n");
        const bool is_blank = lines[i].begin == lines[i].end;
        if (i == 0 ? arguments.truth(1, false) : !is_blank || arguments.truth(2, false)) result.append(indention);
        result.append_part(with_end, lines[i].begin, lines[i].end);
    }
    return run.text(std::move(result));
}

Result<Value> items_of(Run& run, const Value& value, Arguments& /*arguments*/) {
    if (value.is_undefined()) return run.list({}, ListKind::generator);
    if (value.dict() == nullptr)
        return fail(NL_ERROR_INVALID_ARGUMENT, "items of a value of the type ", value.type_name());
    return call_method(run, Bound{value, "items"}, {});
}

// What values are sorted by: themselves or an attribute, texts without regard to case unless that is asked for.
Result<std::vector<Value>> sort_keys(Run& run, const std::vector<Value>& items, const Text* attribute, bool cased) {
    std::vector<Value> keys = items;
    for (Value& key : keys) {
        if (attribute != nullptr) {
            NL_ASSIGN(key, get_path(run, key, attribute->bytes()));
        }
        if (!cased && key.text() != nullptr) {
            NL_ASSIGN(key, run.text(with_case(*key.text(), LetterCase::lower)));
        }
    }
    return keys;
}

Result<Value> sort(Run& run, const Value& value, Arguments& arguments) {
    NL_TRY(arguments.bind("sort", {"reverse", "case_sensitive", "attribute"}));
    NL_ASSIGN(const Text* attribute, arguments.text(2));
    NL_ASSIGN(const std::vector<Value> items, to_items(run, value));
    NL_ASSIGN(const std::vector<Value> keys, sort_keys(run, items, attribute, arguments.truth(1, false)));
    NL_ASSIGN(std::vector<Value> sorted, sort_by(run, items, keys, arguments.truth(0, false)));
    return run.list(std::move(sorted));
}

Result<Value> dictsort(Run& run, const Value& value, Arguments& arguments) {
    NL_TRY(arguments.bind("dictsort", {"case_sensitive", "by", "reverse"}));
    NL_ASSIGN(const Text* by, arguments.text(1));
    if (value.dict() == nullptr)
        return fail(NL_ERROR_INVALID_ARGUMENT, "dictsort of a value of the type ", value.type_name());
    if (by != nullptr && by->view() != "key" && by->view() != "value")
        return fail(NL_ERROR_INVALID_ARGUMENT, "dictsort by ", show_json(by->view()),
                    ": expected \"key\" or \"value\"");
    NL_ASSIGN(const Value pairs, call_method(run, Bound{value, "items"}, {}));
    const Text index(std::string(1, by != nullptr && by->view() == "value" ? '1' : '0'));
    NL_ASSIGN(const std::vector<Value> keys, sort_keys(run, pairs.list()->items, &index, arguments.truth(0, false)));
    NL_ASSIGN(std::vector<Value> sorted, sort_by(run, pairs.list()->items, keys, arguments.truth(2, false)));
    return run.list(std::move(sorted));
}

Result<Value> unique(Run& run, const Value& value, Arguments& arguments) {
    NL_TRY(arguments.bind("unique", {"case_sensitive", "attribute"}));
    NL_ASSIGN(const Text* attribute, arguments.text(1));
    NL_ASSIGN(const std::vector<Value> items, to_items(run, value));
    NL_ASSIGN(const std::vector<Value> keys, sort_keys(run, items, attribute, arguments.truth(0, false)));
    std::vector<Value> kept;
    std::vector<size_t> places;
    for (size_t i = 0; i < items.size(); ++i) {
        NL_TRY(check_key(keys[i]));
        bool is_new = true;
        for (const size_t place : places) {
            NL_ASSIGN(const bool same, equal(run, keys[place], keys[i]));
            is_new = is_new && !same;
        }
        if (!is_new) continue;
        places.push_back(i);
        kept.push_back(items[i]);
    }
    return run.list(std::move(kept), ListKind::generator);
}

template <bool largest>
Result<Value> extreme(Run& run, const Value& value, Arguments& arguments) {
    NL_TRY(arguments.bind(largest ? "max" : "min", {"case_sensitive", "attribute"}));
    NL_ASSIGN(const Text* attribute, arguments.text(1));
    NL_ASSIGN(const std::vector<Value> items, to_items(run, value));
    NL_ASSIGN(const std::vector<Value> keys, sort_keys(run, items, attribute, arguments.truth(0, false)));
    if (items.empty()) return Value(Undefined{});
    size_t best = 0;
    for (size_t i = 1; i < items.size(); ++i) {
        NL_ASSIGN(const int order, compare(run, keys[i], keys[best]));
        if (largest ? order > 0 : order < 0) best = i;
    }
    return items[best];
}

Result<Value> sum(Run& run, const Value& value, Arguments& arguments) {
    NL_TRY(arguments.bind("sum", {"attribute", "start"}));
    NL_ASSIGN(const Text* attribute, arguments.text(0));
    NL_ASSIGN(const std::vector<Value> items, to_items(run, value));
    Value total = arguments.values[1] != nullptr ? *arguments.values[1] : Value(int64_t{0});
    for (Value item : items) {
        if (attribute != nullptr) {
            NL_ASSIGN(item, get_path(run, item, attribute->bytes()));
        }
        NL_ASSIGN(total, apply_operator(run, "+", total, item));
    }
    return total;
}

// Arguments after the first `count`.
Arguments rest_of(const Arguments& arguments, size_t count) {
    Arguments rest;
    if (arguments.positional.size() > count)
        rest.positional.assign(arguments.positional.begin() + static_cast<ptrdiff_t>(count),
                               arguments.positional.end());
    rest.named = arguments.named;
    return rest;
}

Result<Value> map(Run& run, const Value& value, Arguments& arguments) {
    if (!value.truth()) return run.list({}, ListKind::generator);  // none too
    NL_ASSIGN(std::vector<Value> items, to_items(run, value));
    const bool by_attribute = arguments.positional.empty();
    if (by_attribute) NL_TRY(arguments.bind("map", {"attribute", "default"}));
    const Value* const what = by_attribute ? arguments.values[0] : &arguments.positional[0];
    if (what == nullptr || what->text() == nullptr)
        return fail(NL_ERROR_INVALID_ARGUMENT, "map without the name of a filter or an attribute");
    for (Value& item : items) {
        if (by_attribute) {
            NL_ASSIGN(item, get_path(run, item, what->text()->bytes()));
            if (item.is_undefined() && arguments.values[1] != nullptr) item = *arguments.values[1];
        } else {
            NL_ASSIGN(item, apply_filter(run, what->text()->bytes(), item, rest_of(arguments, 1)));
        }
    }
    return run.list(std::move(items), ListKind::generator);
}

// select, reject, selectattr, rejectattr: by truth, or by a test and its arguments.
template <bool by_attribute, bool keeps>
Result<Value> select(Run& run, const Value& value, Arguments& arguments) {
    if (!value.truth()) return run.list({}, ListKind::generator);  // none too
    const size_t num_names = by_attribute ? 1 : 0;
    if (arguments.positional.size() < num_names)
        return fail(NL_ERROR_INVALID_ARGUMENT, "a selection without the name of an attribute");
    const auto name = [&](size_t i) {
        return i < arguments.positional.size() ? arguments.positional[i].text() : nullptr;
    };
    if ((by_attribute && name(0) == nullptr) || (arguments.positional.size() > num_names && name(num_names) == nullptr))
        return fail(NL_ERROR_INVALID_ARGUMENT, "a selection by a value that is no name");
    NL_ASSIGN(const std::vector<Value> items, to_items(run, value));
    std::vector<Value> kept;
    for (const Value& item : items) {
        Value tested = item;
        if (by_attribute) {
            NL_ASSIGN(tested, get_path(run, item, name(0)->bytes()));
        }
        bool is_true = tested.truth();
        if (const Text* test = name(num_names)) {
            NL_ASSIGN(is_true, apply_test(run, test->bytes(), tested, rest_of(arguments, num_names + 1)));
        }
        if (is_true == keeps) kept.push_back(item);
    }
    return run.list(std::move(kept), ListKind::generator);
}

// Nothing is escaped where Transformers renders a template, but for what is put beside a text that was marked so.
Result<Value> safe(Run& run, const Value& value, Arguments& /*arguments*/) {
    NL_ASSIGN(Text text, to_text(run, value));
    text.mark_safe();
    return run.text(std::move(text));
}

struct NamedFilter {
    std::string_view name;
    Filter filter;
};

constexpr std::array<NamedFilter, 35> kFilters = {{
    {"trim", trim},
    {"upper", change_case<LetterCase::upper>},
    {"lower", change_case<LetterCase::lower>},
    {"capitalize", change_case<LetterCase::capitalize>},
    {"title", title},
    {"length", length},
    {"count", length},
    {"list", make_list},
    {"string", make_string},
    {"int", make_int},
    {"float", make_float},
    {"abs", absolute},
    {"round", round_number},
    {"default", otherwise},
    {"d", otherwise},
    {"join", join_items},
    {"first", end_item<true>},
    {"last", end_item<false>},
    {"reverse", reverse},
    {"replace", replace_text},
    {"tojson", tojson},
    {"indent", indent},
    {"items", items_of},
    {"sort", sort},
    {"dictsort", dictsort},
    {"unique", unique},
    {"min", extreme<false>},
    {"max", extreme<true>},
    {"sum", sum},
    {"map", map},
    {"select", select<false, true>},
    {"reject", select<false, false>},
    {"selectattr", select<true, true>},
    {"rejectattr", select<true, false>},
    {"safe", safe},
}};

}  // namespace

Result<Value> apply_filter(Run& run, const std::string& name, const Value& value, Arguments arguments) {
    const auto* const found =
        std::find_if(kFilters.begin(), kFilters.end(), [&](const NamedFilter& filter) { return filter.name == name; });
    if (found == kFilters.end() || name.empty())
        return fail(NL_ERROR_UNSUPPORTED, "the filter ", show_json(name), ", which is not supported");
    NL_TRY(run.step());
    if (const Text* text = value.text()) {
        NL_TRY(run.check_bytes(text->size()));
        if (text->is_safe() && name != "safe")
            return fail(NL_ERROR_UNSUPPORTED, "the filter ", show_json(name), " upon a text that is marked as safe");
    }
    return found->filter(run, value, arguments);
}

Result<std::vector<Value>> sort_by(Run& run, const std::vector<Value>& items, const std::vector<Value>& keys,
                                   bool reverse) {
    NL_TRY(run.check_bytes(items.size() * sizeof(Value)));
    std::vector<size_t> order(items.size());
    std::iota(order.begin(), order.end(), size_t{0});
    // By merging, which asks only about pairs that an error can stop: std::sort must not be lied to.
    std::vector<size_t> merged(order.size());
    for (size_t width = 1; width < order.size(); width *= 2) {
        for (size_t begin = 0; begin < order.size(); begin += 2 * width) {
            const size_t middle = std::min(begin + width, order.size());
            const size_t end = std::min(begin + 2 * width, order.size());
            size_t left = begin;
            size_t right = middle;
            for (size_t at = begin; at < end; ++at) {
                bool takes_right = left == middle;
                if (!takes_right && right < end) {
                    NL_ASSIGN(const int sign, compare(run, keys[order[right]], keys[order[left]]));
                    takes_right = reverse ? sign > 0 : sign < 0;
                }
                merged[at] = order[takes_right ? right++ : left++];
            }
        }
        order.swap(merged);
    }
    std::vector<Value> sorted;
    sorted.reserve(items.size());
    for (const size_t place : order) sorted.push_back(items[place]);
    return sorted;
}

}  // namespace nanolith::jinja
