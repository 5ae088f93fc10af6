// The evaluator's part for expressions.
#include <algorithm>
#include <utility>

#include "text/jinja/evaluator.h"

namespace nanolith::jinja {

Result<Value> Evaluator::evaluate(const Expr& expr, Scope& scope) {
    NL_TRY(run_->step());
    if (depth_ >= run_->limits().depth)
        return fail(NL_ERROR_UNSUPPORTED, "expressions and macros inside one another, more than ",
                    run_->limits().depth);
    ++depth_;
    auto value = evaluate_inner(expr, scope);
    --depth_;
    return value;
}

Result<Value> Evaluator::evaluate_inner(const Expr& expr, Scope& scope) {
    switch (expr.kind) {
        case ExprKind::constant:
            return expr.value;
        case ExprKind::name: {
            const Value* const found = scope.find(expr.name);
            return found != nullptr ? *found : Value(Undefined{&expr.name});
        }
        case ExprKind::list:
        case ExprKind::tuple: {
            NL_ASSIGN(std::vector<Value> items, evaluate_all(expr, scope));
            return run_->list(std::move(items), expr.kind == ExprKind::tuple ? ListKind::tuple : ListKind::list);
        }
        case ExprKind::dict:
            return evaluate_dict(expr, scope);
        case ExprKind::attribute: {
            NL_ASSIGN(const Value value, evaluate(*expr.children[0], scope));
            return get_attribute(*run_, value, expr.name);
        }
        case ExprKind::subscript: {
            NL_ASSIGN(const Value value, evaluate(*expr.children[0], scope));
            NL_ASSIGN(const Value key, evaluate(*expr.children[1], scope));
            return get_item(*run_, value, key);
        }
        case ExprKind::slice:
            return evaluate_slice(expr, scope);
        case ExprKind::call:
            return evaluate_call(expr, scope);
        case ExprKind::filter:
            return evaluate_filter(expr, scope);
        case ExprKind::test: {
            NL_ASSIGN(const Value value, evaluate(*expr.children[0], scope));
            NL_ASSIGN(const Arguments arguments, evaluate_arguments(expr, scope));
            NL_ASSIGN(const bool is_true, apply_test(*run_, expr.name, value, arguments));
            return Value(is_true);
        }
        case ExprKind::unary:
            return evaluate_unary(expr, scope);
        case ExprKind::binary:
            return evaluate_binary(expr, scope);
        case ExprKind::condition:
            return evaluate_condition(expr, scope);
    }
    return fail(NL_ERROR_INTERNAL, "an expression of no kind");
}

Result<std::vector<Value>> Evaluator::evaluate_all(const Expr& expr, Scope& scope) {
    std::vector<Value> values;
    for (const auto& child : expr.children) {
        NL_ASSIGN(Value value, evaluate(*child, scope));
        values.push_back(std::move(value));
    }
    return values;
}

Result<Value> Evaluator::evaluate_dict(const Expr& expr, Scope& scope) {
    NL_ASSIGN(std::vector<Value> values, evaluate_all(expr, scope));
    std::vector<std::pair<Value, Value>> members;
    for (size_t i = 0; i + 1 < values.size(); i += 2) {
        NL_TRY(check_key(values[i]));
        members.emplace_back(std::move(values[i]), std::move(values[i + 1]));
    }
    return run_->dict(std::move(members));
}

Result<Value> Evaluator::evaluate_slice(const Expr& expr, Scope& scope) {
    std::vector<Value> values;
    for (const auto& child : expr.children) {
        Value value;
        if (child != nullptr) {
            NL_ASSIGN(value, evaluate(*child, scope));
        }
        values.push_back(std::move(value));
    }
    return get_slice(*run_, values[0], values[1], values[2], values[3]);
}

Result<Value> Evaluator::evaluate_unary(const Expr& expr, Scope& scope) {
    NL_ASSIGN(const Value value, evaluate(*expr.children[0], scope));
    return expr.name == "not" ? Result<Value>(Value(!value.truth())) : apply_sign(expr.name, value);
}

Result<Value> Evaluator::evaluate_binary(const Expr& expr, Scope& scope) {
    NL_ASSIGN(Value left, evaluate(*expr.children[0], scope));
    if (expr.name == "and" && !left.truth()) return left;
    if (expr.name == "or" && left.truth()) return left;
    NL_ASSIGN(Value right, evaluate(*expr.children[1], scope));
    if (expr.name == "and" || expr.name == "or") return right;
    return apply_operator(*run_, expr.name, left, right);
}

Result<Value> Evaluator::evaluate_condition(const Expr& expr, Scope& scope) {
    NL_ASSIGN(const Value test, evaluate(*expr.children[1], scope));
    if (test.truth()) return evaluate(*expr.children[0], scope);
    if (expr.children[2] == nullptr) return Value(Undefined{});
    return evaluate(*expr.children[2], scope);
}

Result<Value> Evaluator::evaluate_filter(const Expr& expr, Scope& scope) {
    Value value;
    if (expr.children[0] != nullptr) {
        NL_ASSIGN(value, evaluate(*expr.children[0], scope));
    } else {
        NL_ASSIGN(value, run_->text(*captured_));
    }
    NL_ASSIGN(Arguments arguments, evaluate_arguments(expr, scope));
    return apply_filter(*run_, expr.name, value, std::move(arguments));
}

Result<void> Evaluator::spread(const std::string& stars, const Value& value, Arguments& arguments) {
    if (stars == "*") {
        NL_ASSIGN(const std::vector<Value> items, to_items(*run_, value));
        arguments.positional.insert(arguments.positional.end(), items.begin(), items.end());
        return {};
    }
    if (value.dict() == nullptr)
        return fail(NL_ERROR_INVALID_ARGUMENT, "** before a value of the type ", value.type_name(),
                    ": expected a dictionary");
    for (const auto& [key, inner] : value.dict()->members) {
        if (key.text() == nullptr)
            return fail(NL_ERROR_INVALID_ARGUMENT, "** before a dictionary with a key of the type ", key.type_name(),
                        ": expected texts");
        NL_TRY(run_->check_bytes(key.text()->size() + sizeof(Value)));
        arguments.named.emplace_back(key.text()->bytes(), inner);
    }
    return {};
}

Result<Arguments> Evaluator::evaluate_arguments(const Expr& expr, Scope& scope) {
    Arguments arguments;
    const size_t first_named = expr.children.size() - expr.keywords.size();
    for (size_t i = 1; i < expr.children.size(); ++i) {
        const Expr& argument = *expr.children[i];
        if (argument.kind == ExprKind::unary && argument.name[0] == '*') {
            NL_ASSIGN(const Value value, evaluate(*argument.children[0], scope));
            NL_TRY(spread(argument.name, value, arguments));
            continue;
        }
        NL_ASSIGN(Value value, evaluate(argument, scope));
        if (i < first_named) {
            arguments.positional.push_back(std::move(value));
        } else {
            arguments.named.emplace_back(expr.keywords[i - first_named], std::move(value));
        }
    }
    return arguments;
}

Result<Value> Evaluator::evaluate_call(const Expr& expr, Scope& scope) {
    NL_ASSIGN(const Value callee, evaluate(*expr.children[0], scope));
    NL_ASSIGN(Arguments arguments, evaluate_arguments(expr, scope));
    if (const auto* method = callee.as<std::shared_ptr<const Bound>>())
        return call_method(*run_, **method, std::move(arguments));
    if (const auto* macro = callee.as<const MacroNode*>()) return call_macro(**macro, std::move(arguments));
    if (const auto* function = callee.as<Function>()) return call_function(*function, std::move(arguments));
    const Expr& what = *expr.children[0];
    return fail(NL_ERROR_INVALID_ARGUMENT, what.name.empty() ? "a value" : what.name, " is called, which is ",
                callee.is_undefined() ? "undefined" : "no function");
}

Result<Value> Evaluator::call_macro(const MacroNode& macro, Arguments arguments) {
    Scope scope{globals_, {}};
    if (arguments.positional.size() > macro.parameters.size())
        return fail(NL_ERROR_INVALID_ARGUMENT, macro.name, "() has ", arguments.positional.size(),
                    " arguments: expected at most ", macro.parameters.size());
    for (const auto& [name, value] : arguments.named) {
        const auto place = std::find(macro.parameters.begin(), macro.parameters.end(), name);
        if (place == macro.parameters.end() ||
            static_cast<size_t>(place - macro.parameters.begin()) < arguments.positional.size())
            return fail(NL_ERROR_INVALID_ARGUMENT, macro.name, "() has an argument ", name, ": expected none, or one");
        scope.set(name, value);
    }
    const size_t first_default = macro.parameters.size() - macro.defaults.size();
    for (size_t i = 0; i < macro.parameters.size(); ++i) {
        const std::string& name = macro.parameters[i];
        if (i < arguments.positional.size()) {
            scope.set(name, arguments.positional[i]);
        } else if (std::none_of(scope.names.begin(), scope.names.end(),
                                [&](const auto& e) { return e.first == name; })) {
            Value value(Undefined{&name});
            if (i >= first_default) {
                NL_ASSIGN(value, evaluate(*macro.defaults[i - first_default], scope));
            }
            scope.set(name, std::move(value));
        }
    }
    NL_ASSIGN(Text text, capture(macro.body, scope));
    return run_->text(std::move(text));
}

Result<Value> Evaluator::call_function(Function function, Arguments arguments) {
    switch (function) {
        case Function::range:
            return make_range(std::move(arguments));
        case Function::make_dict:
            return make_dict(arguments);
        case Function::make_namespace: {
            NL_ASSIGN(const Value dict, make_dict(arguments));
            NL_ASSIGN(Namespace* const space, run_->make_namespace());
            for (const auto& [key, value] : dict.dict()->members) {
                if (key.text() != nullptr) space->members.emplace_back(key.text()->bytes(), value);
            }
            return Value(space);
        }
        case Function::raise_exception: {
            NL_TRY(arguments.bind("raise_exception", {"message"}));
            NL_ASSIGN(const Text text, to_text(*run_, arguments.values[0] != nullptr ? *arguments.values[0] : Value()));
            return fail(NL_ERROR_INVALID_ARGUMENT, "the template refuses the messages: ", text.bytes());
        }
        case Function::strftime_now: {
            NL_TRY(arguments.bind("strftime_now", {"format"}));
            NL_ASSIGN(const Text* format, arguments.text(0));
            NL_ASSIGN(std::string date, format_date(*date_, format != nullptr ? format->view() : std::string_view()));
            return run_->text(std::move(date));
        }
    }
    return fail(NL_ERROR_INTERNAL, "a function of no kind");
}

// Of a dictionary or of pairs of a key and a value, and of what has a name.
Result<Value> Evaluator::make_dict(const Arguments& arguments) {
    if (arguments.positional.size() > 1)
        return fail(NL_ERROR_INVALID_ARGUMENT, "dict() has ", arguments.positional.size(),
                    " arguments without a name: expected at most 1");
    std::vector<std::pair<Value, Value>> members;
    for (const Value& from : arguments.positional) {
        if (const Dict* dict = from.dict()) {
            members = dict->members;
            continue;
        }
        NL_ASSIGN(const std::vector<Value> pairs, to_items(*run_, from));
        for (const Value& pair : pairs) {
            NL_ASSIGN(const std::vector<Value> two, to_items(*run_, pair));
            if (two.size() != 2)
                return fail(NL_ERROR_INVALID_ARGUMENT, "dict() of elements of ", two.size(),
                            " values: expected a key and a value");
            NL_TRY(check_key(two[0]));
            members.emplace_back(two[0], two[1]);
        }
    }
    for (const auto& [name, value] : arguments.named) {
        NL_ASSIGN(Value key, run_->text(name));
        members.emplace_back(std::move(key), value);
    }
    return run_->dict(std::move(members));
}

Result<Value> Evaluator::make_range(Arguments arguments) {
    NL_TRY(arguments.bind("range", {"start", "stop", "step"}));
    NL_ASSIGN(int64_t begin, arguments.integer(0, 0));
    NL_ASSIGN(int64_t end, arguments.integer(1, 0));
    NL_ASSIGN(const int64_t step, arguments.integer(2, 1));
    if (arguments.values[1] == nullptr) end = std::exchange(begin, 0);
    if (step == 0) return fail(NL_ERROR_INVALID_ARGUMENT, "range() has the step 0");
    std::vector<Value> items;
    for (int64_t i = begin; step > 0 ? i < end : i > end;) {
        // Jinja's sandbox has the same limit.
        if (items.size() == 100'000) return fail(NL_ERROR_UNSUPPORTED, "range() of more than 100000 numbers");
        items.emplace_back(i);
        if (__builtin_add_overflow(i, step, &i)) break;
    }
    return run_->list(std::move(items));
}

}  // namespace nanolith::jinja
