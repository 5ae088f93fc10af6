#include "text/jinja/expression_parser.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "files/json.h"
#include "text/jinja/parser.h"

namespace nanolith::jinja {
namespace {

// Words that are no variables.
bool is_keyword(std::string_view word) {
    static constexpr std::array<std::string_view, 9> kWords = {"and", "or",   "not",  "in", "is",
                                                               "if",  "else", "elif", "for"};
    return std::find(kWords.begin(), kWords.end(), word) != kWords.end();
}

const char* tag_end(TokenKind kind) {
    return kind == TokenKind::block_end ? "%}" : "}}";
}

}  // namespace

Result<void> TokenStream::expect(std::string_view punctuation) {
    return skip(punctuation) ? Result<void>() : wrong("expected ", punctuation);
}

Result<void> TokenStream::expect(TokenKind kind) {
    if (peek().kind != kind) return wrong("expected ", tag_end(kind));
    take();
    return {};
}

Result<std::string> TokenStream::take_name() {
    if (peek().kind != TokenKind::name) return wrong("expected a name");
    return take().text;
}

std::string TokenStream::shown() const {
    switch (peek().kind) {
        case TokenKind::end:
            return " (at the end)";
        case TokenKind::variable_end:
        case TokenKind::block_end:
            return std::string(" (at ") + tag_end(peek().kind) + ")";
        default:
            return " (at " + show_json(peek().text) + ")";
    }
}

ExpressionParser::ExprPtr ExpressionParser::make(ExprKind kind, std::string name) const {
    auto expr = std::make_unique<Expr>();
    expr->kind = kind;
    expr->line = stream_->peek().line;
    expr->name = std::move(name);
    return expr;
}

Result<void> ExpressionParser::adopt(Expr& parent, ExprPtr child) {
    if (child != nullptr) parent.depth = std::max(parent.depth, child->depth + 1);
    parent.children.push_back(std::move(child));
    if (parent.depth <= kMaxTreeDepth) return {};
    return stream_->wrong("an expression nested deeper than ", kMaxTreeDepth, " levels");
}

Result<ExpressionParser::ExprPtr> ExpressionParser::join(std::string op, ExprPtr left, ExprPtr right) {
    ExprPtr expr = make(ExprKind::binary, std::move(op));
    NL_TRY(adopt(*expr, std::move(left)));
    NL_TRY(adopt(*expr, std::move(right)));
    return expr;
}

Result<ExpressionParser::ExprPtr> ExpressionParser::parse(bool with_condition) {
    // Every way back to this function goes through a bracket.
    if (++depth_ > kMaxBrackets) return stream_->wrong("brackets inside one another, more than ", kMaxBrackets);
    NL_ASSIGN(ExprPtr value, parse_or());
    while (with_condition && stream_->skip_name("if")) {
        ExprPtr expr = make(ExprKind::condition);
        NL_ASSIGN(ExprPtr test, parse_or());
        NL_TRY(adopt(*expr, std::move(value)));
        NL_TRY(adopt(*expr, std::move(test)));
        ExprPtr other;
        if (stream_->skip_name("else")) {
            NL_ASSIGN(other, parse());
        }
        NL_TRY(adopt(*expr, std::move(other)));
        value = std::move(expr);
    }
    --depth_;
    return value;
}

Result<ExpressionParser::ExprPtr> ExpressionParser::parse_tuple(bool with_condition) {
    NL_ASSIGN(ExprPtr value, parse(with_condition));
    if (!stream_->is(",")) return value;
    ExprPtr tuple = make(ExprKind::tuple);
    NL_TRY(adopt(*tuple, std::move(value)));
    while (stream_->skip(",")) {
        const TokenKind kind = stream_->peek().kind;
        if (kind == TokenKind::variable_end || kind == TokenKind::block_end || stream_->is(")")) break;
        NL_ASSIGN(ExprPtr next, parse(with_condition));
        NL_TRY(adopt(*tuple, std::move(next)));
    }
    return tuple;
}

Result<ExpressionParser::ExprPtr> ExpressionParser::parse_chain(Level next,
                                                                std::initializer_list<std::string_view> operators) {
    NL_ASSIGN(ExprPtr left, (this->*next)());
    while (true) {
        const auto* const found = std::find_if(operators.begin(), operators.end(), [this](std::string_view op) {
            return stream_->is(op) || stream_->is_name(op);
        });
        if (found == operators.end()) return left;
        stream_->take();
        NL_ASSIGN(ExprPtr right, (this->*next)());
        NL_ASSIGN(left, join(std::string(*found), std::move(left), std::move(right)));
    }
}

Result<ExpressionParser::ExprPtr> ExpressionParser::parse_or() {
    return parse_chain(&ExpressionParser::parse_and, {"or"});
}

Result<ExpressionParser::ExprPtr> ExpressionParser::parse_and() {
    return parse_chain(&ExpressionParser::parse_not, {"and"});
}

Result<ExpressionParser::ExprPtr> ExpressionParser::parse_not() {
    size_t count = 0;
    while (stream_->skip_name("not")) ++count;
    NL_ASSIGN(ExprPtr value, parse_comparison());
    for (; count > 0; --count) {
        ExprPtr expr = make(ExprKind::unary, "not");
        NL_TRY(adopt(*expr, std::move(value)));
        value = std::move(expr);
    }
    return value;
}

// Python's a < b < c is refused: each link would need the middle one's value once.
Result<ExpressionParser::ExprPtr> ExpressionParser::parse_comparison() {
    NL_ASSIGN(ExprPtr left, parse_sum());
    bool compared = false;
    while (true) {
        std::string op;
        for (const std::string_view known : {"==", "!=", ">=", "<=", ">", "<"}) {
            if (op.empty() && stream_->skip(known)) op = known;
        }
        if (op.empty() && stream_->is_name("not") && stream_->peek_next().text == "in") {
            stream_->take();
            stream_->take();
            op = "not in";
        } else if (op.empty() && stream_->skip_name("in")) {
            op = "in";
        }
        if (op.empty()) return left;
        if (compared) return stream_->wrong("a chain of comparisons, which is not supported");
        compared = true;
        NL_ASSIGN(ExprPtr right, parse_sum());
        NL_ASSIGN(left, join(std::move(op), std::move(left), std::move(right)));
    }
}

Result<ExpressionParser::ExprPtr> ExpressionParser::parse_sum() {
    return parse_chain(&ExpressionParser::parse_concatenation, {"+", "-"});
}

Result<ExpressionParser::ExprPtr> ExpressionParser::parse_concatenation() {
    return parse_chain(&ExpressionParser::parse_product, {"~"});
}

Result<ExpressionParser::ExprPtr> ExpressionParser::parse_product() {
    return parse_chain(&ExpressionParser::parse_power, {"*", "/", "//", "%"});
}

Result<ExpressionParser::ExprPtr> ExpressionParser::parse_power() {
    NL_ASSIGN(ExprPtr left, parse_unary());
    while (stream_->skip("**")) {
        NL_ASSIGN(ExprPtr right, parse_unary());
        NL_ASSIGN(left, join("**", std::move(left), std::move(right)));
    }
    return left;
}

Result<ExpressionParser::ExprPtr> ExpressionParser::parse_unary(bool with_filters) {
    std::string signs;
    while (stream_->is("-") || stream_->is("+")) signs += stream_->take().text;
    NL_ASSIGN(ExprPtr value, parse_primary());
    NL_ASSIGN(value, parse_postfix(std::move(value)));
    for (; !signs.empty(); signs.pop_back()) {
        ExprPtr expr = make(ExprKind::unary, signs.substr(signs.size() - 1));
        NL_TRY(adopt(*expr, std::move(value)));
        value = std::move(expr);
    }
    return with_filters ? parse_behind(std::move(value)) : Result<ExprPtr>(std::move(value));
}

Result<ExpressionParser::ExprPtr> ExpressionParser::parse_primary() {
    switch (stream_->peek().kind) {
        case TokenKind::name:
            return parse_name();
        case TokenKind::string:
            return parse_string();
        case TokenKind::integer:
        case TokenKind::real:
            return parse_number();
        default:
            return parse_brackets();
    }
}

Result<ExpressionParser::ExprPtr> ExpressionParser::parse_name() {
    ExprPtr expr = make(ExprKind::constant);
    const std::string word = stream_->peek().text;
    if (is_keyword(word)) return stream_->wrong("expected a value");
    stream_->take();
    if (word == "true" || word == "True") {
        expr->value = Value(true);
    } else if (word == "false" || word == "False") {
        expr->value = Value(false);
    } else if (word != "none" && word != "None") {
        expr->kind = ExprKind::name;
        expr->name = word;
    }
    return expr;
}

Result<ExpressionParser::ExprPtr> ExpressionParser::parse_number() {
    ExprPtr expr = make(ExprKind::constant);
    const Token& token = stream_->peek();
    const char* const end = token.text.data() + token.text.size();
    int64_t integer = 0;
    double real = 0;
    const bool is_real = token.kind == TokenKind::real;
    const auto error = is_real ? std::from_chars(token.text.data(), end, real).ec
                               : std::from_chars(token.text.data(), end, integer).ec;
    if (error != std::errc()) return stream_->wrong("a number of more than 63 bits");
    expr->value = is_real ? Value(real) : Value(integer);
    stream_->take();
    return expr;
}

Result<ExpressionParser::ExprPtr> ExpressionParser::parse_string() {
    ExprPtr expr = make(ExprKind::constant);
    std::string text;
    while (stream_->peek().kind == TokenKind::string) text += stream_->take().text;
    expr->value = Value(std::make_shared<const Text>(std::move(text)));
    return expr;
}

Result<ExpressionParser::ExprPtr> ExpressionParser::parse_brackets() {
    if (stream_->is("{")) return parse_dict();
    const bool is_list = stream_->skip("[");
    if (!is_list && !stream_->skip("(")) return stream_->wrong("expected a value");
    const std::string_view closing = is_list ? "]" : ")";
    ExprPtr expr = make(is_list ? ExprKind::list : ExprKind::tuple);
    bool has_comma = false;
    while (!stream_->skip(closing)) {
        if (!expr->children.empty()) {
            NL_TRY(stream_->expect(","));
            has_comma = true;
            if (stream_->skip(closing)) break;
        }
        NL_ASSIGN(ExprPtr item, parse());
        NL_TRY(adopt(*expr, std::move(item)));
    }
    if (!is_list && expr->children.size() == 1 && !has_comma) return std::move(expr->children[0]);
    return expr;
}

Result<ExpressionParser::ExprPtr> ExpressionParser::parse_dict() {
    ExprPtr expr = make(ExprKind::dict);
    NL_TRY(stream_->expect("{"));
    while (!stream_->skip("}")) {
        if (!expr->children.empty()) {
            NL_TRY(stream_->expect(","));
            if (stream_->skip("}")) break;
        }
        NL_ASSIGN(ExprPtr key, parse());
        NL_TRY(adopt(*expr, std::move(key)));
        NL_TRY(stream_->expect(":"));
        NL_ASSIGN(ExprPtr value, parse());
        NL_TRY(adopt(*expr, std::move(value)));
    }
    return expr;
}

Result<ExpressionParser::ExprPtr> ExpressionParser::parse_postfix(ExprPtr value) {
    while (true) {
        if (stream_->skip(".")) {
            NL_ASSIGN(value, parse_attribute(std::move(value)));
        } else if (stream_->skip("[")) {
            NL_ASSIGN(value, parse_subscript(std::move(value)));
        } else if (stream_->is("(")) {
            ExprPtr call = make(ExprKind::call);
            NL_TRY(adopt(*call, std::move(value)));
            NL_TRY(parse_arguments(*call));
            value = std::move(call);
        } else {
            return value;
        }
    }
}

Result<ExpressionParser::ExprPtr> ExpressionParser::parse_attribute(ExprPtr value) {
    if (stream_->peek().kind == TokenKind::integer) {  // list.0
        ExprPtr expr = make(ExprKind::subscript);
        NL_TRY(adopt(*expr, std::move(value)));
        NL_ASSIGN(ExprPtr index, parse_number());
        NL_TRY(adopt(*expr, std::move(index)));
        return expr;
    }
    ExprPtr expr = make(ExprKind::attribute);
    NL_ASSIGN(expr->name, stream_->take_name());
    NL_TRY(adopt(*expr, std::move(value)));
    return expr;
}

Result<ExpressionParser::ExprPtr> ExpressionParser::parse_subscript(ExprPtr value) {
    ExprPtr expr = make(ExprKind::subscript);
    NL_TRY(adopt(*expr, std::move(value)));
    std::array<ExprPtr, 3> parts;
    size_t part = 0;
    while (true) {
        if (!stream_->is(":") && !stream_->is("]")) {
            NL_ASSIGN(parts[part], parse());
        }
        if (!stream_->skip(":")) break;
        if (++part == parts.size()) return stream_->wrong("a slice of more than three parts");
    }
    NL_TRY(stream_->expect("]"));
    if (part == 0 && parts[0] == nullptr) return stream_->wrong("an empty subscript");
    if (part > 0) expr->kind = ExprKind::slice;
    for (size_t i = 0; i < (part > 0 ? parts.size() : 1); ++i) NL_TRY(adopt(*expr, std::move(parts[i])));
    return expr;
}

Result<void> ExpressionParser::parse_arguments(Expr& call) {
    NL_TRY(stream_->expect("("));
    bool is_first = true;
    while (!stream_->skip(")")) {
        if (!is_first) {
            NL_TRY(stream_->expect(","));
            if (stream_->skip(")")) break;
        }
        is_first = false;
        if (stream_->is("*") || stream_->is("**")) {
            NL_TRY(parse_spread(call));
            continue;
        }
        if (stream_->peek().kind == TokenKind::name && stream_->peek_next().kind == TokenKind::punctuation &&
            stream_->peek_next().text == "=") {
            call.keywords.push_back(stream_->take().text);
            stream_->take();
        } else if (!call.keywords.empty()) {
            return stream_->wrong("an argument without a name after one that has it");
        }
        NL_ASSIGN(ExprPtr argument, parse());
        NL_TRY(adopt(call, std::move(argument)));
    }
    return {};
}

// *list or **dictionary, whose elements are arguments.
Result<void> ExpressionParser::parse_spread(Expr& call) {
    ExprPtr spread = make(ExprKind::unary, stream_->take().text);
    if (spread->name == "**") {
        call.keywords.emplace_back();
    } else if (!call.keywords.empty()) {
        return stream_->wrong("a list of arguments after one that has a name");
    }
    NL_ASSIGN(ExprPtr value, parse());
    NL_TRY(adopt(*spread, std::move(value)));
    return adopt(call, std::move(spread));
}

// Filters, tests and calls, which may stand after any value.
Result<ExpressionParser::ExprPtr> ExpressionParser::parse_behind(ExprPtr value) {
    while (true) {
        if (stream_->is("|")) {
            NL_ASSIGN(value, parse_filters(std::move(value)));
        } else if (stream_->skip_name("is")) {
            NL_ASSIGN(value, parse_test(std::move(value)));
        } else if (stream_->is("(")) {
            NL_ASSIGN(value, parse_postfix(std::move(value)));
        } else {
            return value;
        }
    }
}

Result<ExpressionParser::ExprPtr> ExpressionParser::parse_filters(ExprPtr value) {
    while (stream_->skip("|")) {
        ExprPtr expr = make(ExprKind::filter);
        NL_ASSIGN(expr->name, stream_->take_name());
        NL_TRY(adopt(*expr, std::move(value)));
        if (stream_->is("(")) NL_TRY(parse_arguments(*expr));
        value = std::move(expr);
    }
    return value;
}

Result<ExpressionParser::ExprPtr> ExpressionParser::parse_test(ExprPtr value) {
    const bool negated = stream_->skip_name("not");
    ExprPtr expr = make(ExprKind::test);
    NL_ASSIGN(expr->name, stream_->take_name());
    NL_TRY(adopt(*expr, std::move(value)));
    const Token& next = stream_->peek();
    const bool is_value = next.kind == TokenKind::name || next.kind == TokenKind::string ||
                          next.kind == TokenKind::integer || next.kind == TokenKind::real || stream_->is("[") ||
                          stream_->is("{");
    if (stream_->is("(")) {
        NL_TRY(parse_arguments(*expr));
    } else if (is_value && !(next.kind == TokenKind::name && (is_keyword(next.text)))) {
        NL_ASSIGN(ExprPtr argument, parse_primary());
        NL_ASSIGN(argument, parse_postfix(std::move(argument)));
        NL_TRY(adopt(*expr, std::move(argument)));
    }
    if (!negated) return expr;
    ExprPtr inverse = make(ExprKind::unary, "not");
    NL_TRY(adopt(*inverse, std::move(expr)));
    return inverse;
}

}  // namespace nanolith::jinja
