// A template as a tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "text/jinja/value.h"

namespace nanolith::jinja {

enum class ExprKind : uint8_t {
    constant,   // `value`
    name,       // `name`
    list,       // children
    tuple,      // children
    dict,       // children: key, value, key, value ...
    attribute,  // children[0].name
    subscript,  // children[0][children[1]]
    slice,      // children[0][children[1]:children[2]:children[3]]; null where one is left out
    call,       // children[0](children[1], ...)
    filter,     // children[0] | name(children[1], ...)
    test,       // children[0] is name(children[1], ...)
    unary,      // name: "-", "+" or "not"; among arguments also "*" and "**"
    binary,     // name: the operator, "and" and "or" among them
    condition   // children[0] if children[1] else children[2], which may be null
};

struct Expr {
    ExprKind kind = ExprKind::constant;
    size_t line = 0;
    size_t depth = 1;  // of the tree below it, itself included
    std::string name;
    Value value;
    std::vector<std::unique_ptr<Expr>> children;
    // For calls, filters and tests: the names of the last arguments; of those without one there are more in front.
    // Empty for **dictionary.
    std::vector<std::string> keywords;
};

enum class StmtKind : uint8_t {
    data,       // `text`
    output,     // `value`
    set,        // targets = value
    set_block,  // targets[0] = what the body writes, through `value` (filters upon it) where there is one
    condition,  // branches; the last one without a test is the else
    loop,       // for targets in value if test: body, else other
    macro,
    scope,     // the body with names of its own: {% generation %}, and {% with %} with its settings in front
    end_loop,  // break
    next_loop  // continue
};

struct Stmt;
using Block = std::vector<std::unique_ptr<Stmt>>;

struct Branch {
    std::unique_ptr<Expr> test;
    Block body;
};

struct MacroNode {
    std::string name;
    std::vector<std::string> parameters;
    std::vector<std::unique_ptr<Expr>> defaults;  // of the last parameters
    Block body;
};

// What is assigned to: a name, or a namespace's member where `attribute` is not empty.
struct Target {
    std::string name;
    std::string attribute;
};

struct Stmt {
    StmtKind kind = StmtKind::data;
    size_t line = 0;
    std::string text;
    std::unique_ptr<Expr> value;
    std::unique_ptr<Expr> test;
    std::vector<Target> targets;
    bool unpacks = false;  // several targets, or one with a comma
    std::vector<Branch> branches;
    Block body;
    Block other;
    std::unique_ptr<MacroNode> macro;
};

}  // namespace nanolith::jinja
