#include "text/jinja/parser.h"

#include <algorithm>
#include <utility>

#include "files/json.h"
#include "text/jinja/expression_parser.h"
#include "text/jinja/lexer.h"
#include "text/utf8.h"

namespace nanolith::jinja {
namespace {

using StmtPtr = std::unique_ptr<Stmt>;

class Parser {
  public:
    explicit Parser(std::vector<Token> tokens) : stream_(std::move(tokens)), expressions_(stream_) {}

    Result<Block> parse() {
        NL_ASSIGN(Block block, parse_body({}));
        return block;
    }

  private:
    StmtPtr make(StmtKind kind) {
        auto stmt = std::make_unique<Stmt>();
        stmt->kind = kind;
        stmt->line = stream_.peek().line;
        return stmt;
    }

    // Statements up to a tag that begins with one of `ends`, which is left at its name; without any, up to the source's
    // end.
    Result<Block> parse_body(const std::vector<std::string_view>& ends) {
        if (++depth_ > kMaxTreeDepth) return stream_.wrong("tags inside one another, more than ", kMaxTreeDepth);
        Block block;
        while (true) {
            const Token& token = stream_.peek();
            if (token.kind == TokenKind::end) {
                if (!ends.empty()) return stream_.wrong("the template's end: expected {% ", ends.back(), " %}");
                break;
            }
            if (token.kind == TokenKind::data) {
                auto stmt = make(StmtKind::data);
                stmt->text = stream_.take().text;
                block.push_back(std::move(stmt));
            } else if (token.kind == TokenKind::variable_begin) {
                stream_.take();
                auto stmt = make(StmtKind::output);
                NL_ASSIGN(stmt->value, expressions_.parse_tuple(true));
                NL_TRY(stream_.expect(TokenKind::variable_end));
                block.push_back(std::move(stmt));
            } else {
                stream_.take();
                const std::string word = stream_.peek().text;
                if (std::find(ends.begin(), ends.end(), word) != ends.end()) break;
                NL_ASSIGN(StmtPtr stmt, parse_tag());
                block.push_back(std::move(stmt));
            }
        }
        --depth_;
        return block;
    }

    Result<StmtPtr> parse_tag() {
        const Token& token = stream_.peek();
        if (stream_.skip_name("set")) return parse_set();
        if (stream_.skip_name("if")) return parse_if();
        if (stream_.skip_name("for")) return parse_for();
        if (stream_.skip_name("macro")) return parse_macro();
        if (stream_.skip_name("generation")) return parse_generation();
        for (const auto& [word, kind] : {std::pair("break", StmtKind::end_loop), {"continue", StmtKind::next_loop}}) {
            if (!stream_.skip_name(word)) continue;
            if (loops_ == 0) return stream_.wrong("{% ", word, " %} outside of a loop");
            auto stmt = make(kind);
            NL_TRY(stream_.expect(TokenKind::block_end));
            return stmt;
        }
        return stream_.wrong("the tag ", show_json(token.text), ", which is not supported");
    }

    Result<void> end_tag(std::string_view word) {
        if (!stream_.skip_name(word)) return stream_.wrong("expected ", word);
        return stream_.expect(TokenKind::block_end);
    }

    Result<Target> parse_target() {
        Target target;
        NL_ASSIGN(target.name, stream_.take_name());
        if (stream_.skip(".")) {
            NL_ASSIGN(target.attribute, stream_.take_name());
        }
        return target;
    }

    Result<void> parse_targets(Stmt& stmt) {
        const bool in_brackets = stream_.skip("(");
        do {
            if (!stmt.targets.empty() && stream_.peek().kind != TokenKind::name) break;
            if (stmt.unpacks && stream_.is_name("in")) break;
            NL_ASSIGN(Target target, parse_target());
            stmt.targets.push_back(std::move(target));
            if (stream_.is(",")) stmt.unpacks = true;
        } while (stream_.skip(","));
        return in_brackets ? stream_.expect(")") : Result<void>();
    }

    Result<StmtPtr> parse_set() {
        auto stmt = make(StmtKind::set);
        NL_TRY(parse_targets(*stmt));
        if (stream_.skip("=")) {
            NL_ASSIGN(stmt->value, expressions_.parse_tuple(true));
            NL_TRY(stream_.expect(TokenKind::block_end));
            return stmt;
        }
        stmt->kind = StmtKind::set_block;
        if (stmt->unpacks) return stream_.wrong("expected =");
        if (stream_.is("|")) {
            NL_ASSIGN(stmt->value, expressions_.parse_filters(nullptr));
        }
        NL_TRY(stream_.expect(TokenKind::block_end));
        NL_ASSIGN(stmt->body, parse_body({"endset"}));
        NL_TRY(end_tag("endset"));
        return stmt;
    }

    Result<StmtPtr> parse_if() {
        auto stmt = make(StmtKind::condition);
        while (true) {
            Branch branch;
            NL_ASSIGN(branch.test, expressions_.parse_tuple(false));
            NL_TRY(stream_.expect(TokenKind::block_end));
            NL_ASSIGN(branch.body, parse_body({"elif", "else", "endif"}));
            stmt->branches.push_back(std::move(branch));
            if (stream_.skip_name("elif")) continue;
            if (!stream_.skip_name("else")) break;
            NL_TRY(stream_.expect(TokenKind::block_end));
            Branch last;
            NL_ASSIGN(last.body, parse_body({"endif"}));
            stmt->branches.push_back(std::move(last));
            break;
        }
        NL_TRY(end_tag("endif"));
        return stmt;
    }

    Result<StmtPtr> parse_for() {
        auto stmt = make(StmtKind::loop);
        NL_TRY(parse_targets(*stmt));
        if (!stream_.skip_name("in")) return stream_.wrong("expected in");
        NL_ASSIGN(stmt->value, expressions_.parse_tuple(false));
        if (stream_.skip_name("if")) {
            NL_ASSIGN(stmt->test, expressions_.parse());
        }
        if (stream_.is_name("recursive")) return stream_.wrong("a recursive loop, which is not supported");
        NL_TRY(stream_.expect(TokenKind::block_end));
        ++loops_;
        NL_ASSIGN(stmt->body, parse_body({"else", "endfor"}));
        --loops_;
        if (stream_.skip_name("else")) {
            NL_TRY(stream_.expect(TokenKind::block_end));
            NL_ASSIGN(stmt->other, parse_body({"endfor"}));
        }
        NL_TRY(end_tag("endfor"));
        return stmt;
    }

    Result<StmtPtr> parse_macro() {
        // Its body would see the names around it as they were.
        if (loops_ > 0) return stream_.wrong("a macro inside a loop, which is not supported");
        auto stmt = make(StmtKind::macro);
        stmt->macro = std::make_unique<MacroNode>();
        MacroNode& macro = *stmt->macro;
        NL_ASSIGN(macro.name, stream_.take_name());
        NL_TRY(stream_.expect("("));
        while (!stream_.skip(")")) {
            if (!macro.parameters.empty()) NL_TRY(stream_.expect(","));
            NL_ASSIGN(std::string parameter, stream_.take_name());
            macro.parameters.push_back(std::move(parameter));
            if (stream_.skip("=")) {
                NL_ASSIGN(auto value, expressions_.parse());
                macro.defaults.push_back(std::move(value));
            } else if (!macro.defaults.empty()) {
                return stream_.wrong("a parameter without a default after one that has it");
            }
        }
        NL_TRY(stream_.expect(TokenKind::block_end));
        NL_ASSIGN(macro.body, parse_body({"endmacro"}));
        NL_TRY(end_tag("endmacro"));
        return stmt;
    }

    // Transformers' mark of what the model says: it changes nothing, but names that are set inside end with it.
    Result<StmtPtr> parse_generation() {
        auto stmt = make(StmtKind::scope);
        NL_TRY(stream_.expect(TokenKind::block_end));
        const size_t loops = std::exchange(loops_, 0);  // no break leaves it
        NL_ASSIGN(stmt->body, parse_body({"endgeneration"}));
        loops_ = loops;
        NL_TRY(end_tag("endgeneration"));
        return stmt;
    }

    TokenStream stream_;
    ExpressionParser expressions_;
    size_t depth_ = 0;
    size_t loops_ = 0;
};

}  // namespace

Result<Block> parse_template(std::string_view source) {
    if (source.size() > kMaxTemplateBytes)
        return fail(NL_ERROR_UNSUPPORTED, source.size(), " bytes: expected at most ", kMaxTemplateBytes);
    NL_ASSIGN(auto tokens, read_tokens(is_valid_utf8(source) ? std::string(source) : replace_invalid_utf8(source)));
    return Parser(std::move(tokens)).parse();
}

}  // namespace nanolith::jinja
