#include <algorithm>
#include <cmath>

#include "text/jinja/operations.h"

namespace nanolith::jinja {
namespace {

Error bad_operands(std::string_view op, const Value& a, const Value& b) {
    return fail(NL_ERROR_INVALID_ARGUMENT, "the operator ", op, " between values of the types ", a.type_name(), " and ",
                b.type_name());
}

Error overflow(std::string_view op) {
    return fail(NL_ERROR_UNSUPPORTED, "the operator ", op, " gives an integer of more than 63 bits");
}

Result<Value> divide_floor(std::string_view op, int64_t a, int64_t b) {
    if (b == 0) return fail(NL_ERROR_INVALID_ARGUMENT, "a division by zero");
    if (a == INT64_MIN && b == -1) return op == "%" ? Result<Value>(Value(int64_t{0})) : overflow(op);
    int64_t quotient = a / b;
    int64_t rest = a % b;
    if (rest != 0 && (rest < 0) != (b < 0)) {
        rest += b;
        --quotient;
    }
    return Value(op == "%" ? rest : quotient);
}

Result<Value> power(int64_t base, int64_t exponent) {
    int64_t result = 1;
    while (exponent > 0) {
        if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return overflow("**");
        exponent >>= 1;
        if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return overflow("**");
    }
    return Value(result);
}

Result<Value> on_integers(std::string_view op, int64_t a, int64_t b) {
    int64_t result = 0;
    if (op == "+") return __builtin_add_overflow(a, b, &result) ? Result<Value>(overflow(op)) : Value(result);
    if (op == "-") return __builtin_sub_overflow(a, b, &result) ? Result<Value>(overflow(op)) : Value(result);
    if (op == "*") return __builtin_mul_overflow(a, b, &result) ? Result<Value>(overflow(op)) : Value(result);
    if (op == "**" && b >= 0) return power(a, b);
    return divide_floor(op, a, b);
}

Result<Value> on_floats(std::string_view op, double a, double b) {
    if (op == "+") return Value(a + b);
    if (op == "-") return Value(a - b);
    if (op == "*") return Value(a * b);
    if (op == "**") return Value(std::pow(a, b));
    if (b == 0) return fail(NL_ERROR_INVALID_ARGUMENT, "a division by zero");
    if (op == "/") return Value(a / b);
    if (op == "//") return Value(std::floor(a / b));
    const double rest = std::fmod(a, b);
    return Value(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
}

Result<Value> repeat(Run& run, const Value& value, int64_t count) {
    const auto times = static_cast<size_t>(std::max<int64_t>(count, 0));
    const size_t length = value.text() != nullptr ? value.text()->size() : value.list()->items.size() * sizeof(Value);
    if (length > 0 && times > run.limits().memory / length)
        return fail(NL_ERROR_UNSUPPORTED, "a value repeated ", count, " times");
    NL_TRY(run.check_bytes(length * times));
    if (const Text* text = value.text()) {
        Text result;
        for (size_t i = 0; length > 0 && i < times; ++i) result.append(*text);
        return run.text(std::move(result));
    }
    std::vector<Value> items;
    const auto& all = value.list()->items;
    for (size_t i = 0; length > 0 && i < times; ++i) items.insert(items.end(), all.begin(), all.end());
    return run.list(std::move(items), value.list()->kind);
}

// With +, what is put beside a text that is marked as safe is escaped for HTML.
Result<Value> join_two(Run& run, const Text& a, const Text& b) {
    NL_TRY(run.check_bytes(a.size() + b.size()));
    const bool safe = a.is_safe() || b.is_safe();
    Text text = safe && !a.is_safe() ? escape_html(a) : a;
    text.append(safe && !b.is_safe() ? escape_html(b) : b);
    if (safe) text.mark_safe();
    return run.text(std::move(text));
}

Result<Value> add(Run& run, const Value& a, const Value& b) {
    if (a.text() != nullptr && b.text() != nullptr) return join_two(run, *a.text(), *b.text());
    if (a.list() != nullptr && b.list() != nullptr && a.list()->kind == b.list()->kind && a.list()->has_places()) {
        NL_TRY(run.check_bytes((a.list()->items.size() + b.list()->items.size()) * sizeof(Value)));
        std::vector<Value> items = a.list()->items;
        items.insert(items.end(), b.list()->items.begin(), b.list()->items.end());
        return run.list(std::move(items), a.list()->kind);
    }
    return bad_operands("+", a, b);
}

Result<Value> concatenate(Run& run, const Value& a, const Value& b) {
    NL_ASSIGN(const Text left, to_text(run, a));
    NL_ASSIGN(const Text right, to_text(run, b));
    NL_TRY(run.check_bytes(left.size() + right.size()));
    Text text;
    text.append(left);
    text.append(right);
    return run.text(std::move(text));
}

Result<Value> apply_comparison(Run& run, std::string_view op, const Value& a, const Value& b) {
    if (op == "==" || op == "!=") {
        NL_ASSIGN(const bool same, equal(run, a, b));
        return Value(same == (op == "=="));
    }
    // No number is more, less or the same as what is no number.
    if (a.is_number() && b.is_number() && (std::isnan(a.number()) || std::isnan(b.number()))) return Value(false);
    NL_ASSIGN(const int order, compare(run, a, b));
    return Value(op == "<" ? order < 0 : op == ">" ? order > 0 : op == "<=" ? order <= 0 : order >= 0);
}

Error undefined_operand(const Value& value) {
    const std::string* const name = value.as<Undefined>()->name;
    return fail(NL_ERROR_INVALID_ARGUMENT, name != nullptr ? *name : "a value", " is undefined");
}

}  // namespace

Result<Value> apply_operator(Run& run, std::string_view op, const Value& a, const Value& b) {
    if (op == "~") return concatenate(run, a, b);
    if (op == "in" || op == "not in") {
        NL_ASSIGN(const bool found, contains(run, b, a));
        return Value(found == (op == "in"));
    }
    if (op == "==" || op == "!=") return apply_comparison(run, op, a, b);
    if (a.is_undefined()) return undefined_operand(a);
    if (b.is_undefined()) return undefined_operand(b);
    if (op[0] == '<' || op[0] == '>') return apply_comparison(run, op, a, b);
    if (a.is_number() && b.is_number()) {
        const bool integers = a.is_integer() && b.is_integer() && op != "/" && !(op == "**" && b.integer() < 0);
        return integers ? on_integers(op, a.integer(), b.integer()) : on_floats(op, a.number(), b.number());
    }
    const auto is_sequence = [](const Value& value) {
        return value.text() != nullptr || (value.list() != nullptr && value.list()->has_places());
    };
    if (op == "*" && is_sequence(a) && b.is_integer()) return repeat(run, a, b.integer());
    if (op == "*" && is_sequence(b) && a.is_integer()) return repeat(run, b, a.integer());
    if (op == "+") return add(run, a, b);
    if (op == "%" && a.text() != nullptr)
        return fail(NL_ERROR_UNSUPPORTED, "formatting a text with the operator %, which is not supported");
    return bad_operands(op, a, b);
}

Result<Value> apply_sign(std::string_view sign, const Value& value) {
    if (!value.is_number())
        return fail(NL_ERROR_INVALID_ARGUMENT, "the sign ", sign, " before a value of the type ", value.type_name());
    if (sign == "+") return value.is_integer() ? Value(value.integer()) : value;
    if (!value.is_integer()) return Value(-value.number());
    return on_integers("-", 0, value.integer());
}

Result<bool> contains(Run& run, const Value& value, const Value& element) {
    if (const Text* text = value.text()) {
        if (element.text() == nullptr)
            return fail(NL_ERROR_INVALID_ARGUMENT, "a value of the type ", element.type_name(),
                        " is looked for in a text: expected a text");
        NL_TRY(run.step(text->size() / 64));
        return text->bytes().find(element.text()->bytes()) != std::string::npos;
    }
    if (const Dict* dict = value.dict()) {
        NL_TRY(check_key(element));
        NL_TRY(run.step(dict->members.size() / 8));
        return dict->find(element) != nullptr;
    }
    if (const List* list = value.list()) {
        if (list->kind == ListKind::view) NL_TRY(check_key(element));
        for (const Value& item : list->items) {
            NL_ASSIGN(const bool same, equal(run, item, element));
            if (same) return true;
        }
        return false;
    }
    if (value.is_undefined()) return false;
    return fail(NL_ERROR_INVALID_ARGUMENT, "\"in\" a value of the type ", value.type_name(),
                ": expected a text, a list or a dictionary");
}

}  // namespace nanolith::jinja
