// Runs a template's tree.
#pragma once

#include <cstddef>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja/ast.h"
#include "text/jinja/operations.h"
#include "text/jinja/run.h"

namespace nanolith::jinja {

// Names and their values. Those of `parent` can be seen and not changed.
struct Scope {
    Scope* parent = nullptr;
    std::vector<std::pair<std::string, Value>> names;

    void set(const std::string& name, Value value);
    [[nodiscard]] const Value* find(const std::string& name) const;
};

// Where in the output a message of the chat stands: what the template wrote while it had its turn in a loop.
struct MessagePlace {
    size_t message;
    size_t begin;
    size_t end;
};

// For one rendering.
class Evaluator {
  public:
    // `date` is what strftime_now tells.
    Evaluator(Run& run, Scope& globals, const std::tm& date) : run_(&run), globals_(&globals), date_(&date) {}

    Result<Text> render(const Block& block);
    [[nodiscard]] const std::vector<MessagePlace>& places() const { return places_; }

  private:
    enum class Flow : uint8_t { on, end_loop, next_loop };

    Result<Flow> execute(const Block& block, Scope& scope);
    Result<Flow> execute(const Stmt& stmt, Scope& scope);
    Result<Flow> execute_condition(const Stmt& stmt, Scope& scope);
    Result<Flow> execute_loop(const Stmt& stmt, Scope& scope);
    Result<Value> loop_items(const Stmt& stmt, Scope& scope);
    Result<bool> run_body(const Stmt& stmt, const Value& item, const Value& loop, Scope& scope);
    Result<void> set(const Stmt& stmt, Scope& scope);
    Result<void> set_block(const Stmt& stmt, Scope& scope);
    Result<void> assign(const Stmt& stmt, const Value& value, Scope& scope);
    Result<void> assign_one(const Target& target, const Value& value, Scope& scope);
    Result<void> write(const Text& text);
    // What the block writes, in a scope of its own.
    Result<Text> capture(const Block& block, Scope& parent);

    Result<Value> evaluate(const Expr& expr, Scope& scope);
    Result<Value> evaluate_inner(const Expr& expr, Scope& scope);
    Result<std::vector<Value>> evaluate_all(const Expr& expr, Scope& scope);
    Result<Value> evaluate_dict(const Expr& expr, Scope& scope);
    Result<Value> evaluate_slice(const Expr& expr, Scope& scope);
    Result<Value> evaluate_binary(const Expr& expr, Scope& scope);
    Result<Value> evaluate_condition(const Expr& expr, Scope& scope);
    Result<Value> evaluate_unary(const Expr& expr, Scope& scope);
    Result<Value> evaluate_filter(const Expr& expr, Scope& scope);
    Result<Value> evaluate_call(const Expr& expr, Scope& scope);
    Result<Arguments> evaluate_arguments(const Expr& expr, Scope& scope);
    Result<void> spread(const std::string& stars, const Value& value, Arguments& arguments);
    Result<Value> call_macro(const MacroNode& macro, Arguments arguments);
    Result<Value> call_function(Function function, Arguments arguments);
    Result<Value> make_range(Arguments arguments);
    Result<Value> make_dict(const Arguments& arguments);

    Run* run_;
    Scope* globals_;
    const std::tm* date_;
    Text* output_ = nullptr;
    const Text* main_ = nullptr;      // the whole template's output
    const Text* captured_ = nullptr;  // what the filters of a {% set %} block are upon
    size_t depth_ = 0;
    bool in_message_ = false;  // inside a loop's turn of one
    bool placed_ = false;      // an error says its line already
    std::vector<MessagePlace> places_;
};

}  // namespace nanolith::jinja
