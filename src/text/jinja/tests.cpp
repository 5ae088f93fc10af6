// Jinja's tests: value is name(arguments).
#include <algorithm>

#include "files/json.h"
#include "text/jinja/operations.h"

namespace nanolith::jinja {
namespace {

Result<bool> divides(const Value& value, const Value& by) {
    if (!value.is_integer() || !by.is_integer() || by.integer() == 0)
        return fail(NL_ERROR_INVALID_ARGUMENT, "a division of values that are no integers, or by zero");
    return by.integer() == -1 || value.integer() % by.integer() == 0;
}

// The operator that a test's name stands for; empty where it is none.
std::string_view operator_of(std::string_view name) {
    if (name == "==" || name == "eq" || name == "equalto") return "==";
    if (name == "!=" || name == "ne") return "!=";
    if (name == "<" || name == "lt" || name == "lessthan") return "<";
    if (name == "<=" || name == "le") return "<=";
    if (name == ">" || name == "gt" || name == "greaterthan") return ">";
    if (name == ">=" || name == "ge") return ">=";
    if (name == "in") return "in";
    return {};
}

bool is_iterable(const Value& value) {
    return value.is_undefined() || value.text() != nullptr || value.list() != nullptr || value.dict() != nullptr;
}

Result<bool> is_in_case(const Value& value, LetterCase letter_case) {
    if (value.text() == nullptr) return false;
    const Text changed = with_case(*value.text(), letter_case);
    const Text other =
        with_case(*value.text(), letter_case == LetterCase::upper ? LetterCase::lower : LetterCase::upper);
    return changed.bytes() == value.text()->bytes() && changed.bytes() != other.bytes();
}

}  // namespace

Result<bool> apply_test(Run& run, const std::string& name, const Value& value, const Arguments& arguments) {
    NL_TRY(run.step());
    const std::string_view op = operator_of(name);
    const bool takes_one = !op.empty() || name == "divisibleby" || name == "sameas";
    if (!arguments.named.empty() || arguments.positional.size() != (takes_one ? 1U : 0U))
        return fail(NL_ERROR_INVALID_ARGUMENT, "the test ", show_json(name), " has ", arguments.positional.size(),
                    " arguments: expected ", takes_one ? 1 : 0);
    if (!op.empty()) {
        NL_ASSIGN(const Value result, apply_operator(run, op, value, arguments.positional[0]));
        return result.truth();
    }
    if (name == "divisibleby") return divides(value, arguments.positional[0]);
    if (name == "sameas") {
        if (value.data().index() != arguments.positional[0].data().index()) return false;
        return equal(run, value, arguments.positional[0]);
    }
    if (name == "defined") return !value.is_undefined();
    if (name == "undefined") return value.is_undefined();
    if (name == "none") return value.is_none();
    if (name == "string") return value.text() != nullptr;
    if (name == "mapping") return value.dict() != nullptr;
    if (name == "iterable") return is_iterable(value);
    // Whatever has a length and elements is a sequence to Jinja, undefined values among them.
    if (name == "sequence") return is_iterable(value) && (value.list() == nullptr || value.list()->has_places());
    if (name == "number") return value.is_number();
    if (name == "integer") return value.as<int64_t>() != nullptr;
    if (name == "float") return value.as<double>() != nullptr;
    if (name == "boolean") return value.as<bool>() != nullptr;
    if (name == "true") return value.as<bool>() != nullptr && value.truth();
    if (name == "false") return value.as<bool>() != nullptr && !value.truth();
    if (name == "callable")
        return value.as<std::shared_ptr<const Bound>>() != nullptr || value.as<const MacroNode*>() != nullptr ||
               value.as<Function>() != nullptr;
    if (name == "odd" || name == "even") {
        NL_ASSIGN(const bool even, divides(value, Value(int64_t{2})));
        return even == (name == "even");
    }
    if (name == "upper") return is_in_case(value, LetterCase::upper);
    if (name == "lower") return is_in_case(value, LetterCase::lower);
    return fail(NL_ERROR_UNSUPPORTED, "the test ", show_json(name), ", which is not supported");
}

}  // namespace nanolith::jinja
