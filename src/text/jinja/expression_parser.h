// Expressions inside a template's tags.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace nanolith::jinja {

// Tokens one after the other. After the last one comes the last one again.
class TokenStream {
  public:
    explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

    [[nodiscard]] const Token& peek() const { return tokens_[at_]; }
    [[nodiscard]] const Token& peek_next() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
    const Token& take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
    [[nodiscard]] bool is(std::string_view punctuation) const {
        return peek().kind == TokenKind::punctuation && peek().text == punctuation;
    }
    [[nodiscard]] bool is_name(std::string_view name) const {
        return peek().kind == TokenKind::name && peek().text == name;
    }
    bool skip(std::string_view punctuation) { return is(punctuation) && (take(), true); }
    bool skip_name(std::string_view name) { return is_name(name) && (take(), true); }
    Result<void> expect(std::string_view punctuation);
    Result<void> expect(TokenKind kind);
    Result<std::string> take_name();

    // An error at the token that comes.
    template <typename... Parts>
    Error wrong(const Parts&... parts) const {
        return fail(NL_ERROR_UNSUPPORTED, "line ", peek().line, ": ", parts..., shown());
    }

  private:
    [[nodiscard]] std::string shown() const;

    std::vector<Token> tokens_;
    size_t at_ = 0;
};

// By recursive descent, a function for each level of precedence. Every tree that it gives is at most kMaxTreeDepth
// deep.
class ExpressionParser {
  public:
    using ExprPtr = std::unique_ptr<Expr>;

    explicit ExpressionParser(TokenStream& stream) : stream_(&stream) {}

    // `with_condition`: it may be "a if b else c".
    Result<ExprPtr> parse(bool with_condition = true);
    // One expression, or several with commas between them, which are a tuple.
    Result<ExprPtr> parse_tuple(bool with_condition);
    // "| filter | filter" upon `value`, which is null where the filters are given their value later.
    Result<ExprPtr> parse_filters(ExprPtr value);

  private:
    using Level = Result<ExprPtr> (ExpressionParser::*)();

    Result<ExprPtr> parse_or();
    Result<ExprPtr> parse_and();
    Result<ExprPtr> parse_not();
    Result<ExprPtr> parse_comparison();
    Result<ExprPtr> parse_sum();
    Result<ExprPtr> parse_concatenation();
    Result<ExprPtr> parse_product();
    Result<ExprPtr> parse_power();
    Result<ExprPtr> parse_unary(bool with_filters = true);
    Result<ExprPtr> parse_primary();
    Result<ExprPtr> parse_name();
    Result<ExprPtr> parse_number();
    Result<ExprPtr> parse_string();
    Result<ExprPtr> parse_brackets();
    Result<ExprPtr> parse_dict();
    Result<ExprPtr> parse_postfix(ExprPtr value);
    Result<ExprPtr> parse_attribute(ExprPtr value);
    Result<ExprPtr> parse_subscript(ExprPtr value);
    Result<ExprPtr> parse_behind(ExprPtr value);
    Result<ExprPtr> parse_test(ExprPtr value);
    Result<void> parse_arguments(Expr& call);
    Result<void> parse_spread(Expr& call);
    Result<ExprPtr> parse_chain(Level next, std::initializer_list<std::string_view> operators);

    [[nodiscard]] ExprPtr make(ExprKind kind, std::string name = {}) const;
    // Puts `child` under `parent`.
    Result<void> adopt(Expr& parent, ExprPtr child);
    Result<ExprPtr> join(std::string op, ExprPtr left, ExprPtr right);

    TokenStream* stream_;
    size_t depth_ = 0;
};

}  // namespace nanolith::jinja
