#include "text/jinja/evaluator.h"

#include <algorithm>

namespace nanolith::jinja {

void Scope::set(const std::string& name, Value value) {
    const auto found = std::find_if(names.begin(), names.end(), [&](const auto& entry) { return entry.first == name; });
    if (found != names.end()) {
        found->second = std::move(value);
    } else {
        names.emplace_back(name, std::move(value));
    }
}

const Value* Scope::find(const std::string& name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent) {
        for (const auto& [known, value] : scope->names) {
            if (known == name) return &value;
        }
    }
    return nullptr;
}

Result<Text> Evaluator::render(const Block& block) {
    Text text;
    output_ = &text;
    main_ = &text;
    NL_TRY(execute(block, *globals_));
    return text;
}

Result<Evaluator::Flow> Evaluator::execute(const Block& block, Scope& scope) {
    for (const auto& stmt : block) {
        auto flow = execute(*stmt, scope);
        if (!flow.ok() && !placed_) {
            placed_ = true;
            flow.error().message.insert(0, "line " + std::to_string(stmt->line) + ": ");
        }
        if (!flow.ok() || *flow != Flow::on) return flow;
    }
    return Flow::on;
}

Result<Evaluator::Flow> Evaluator::execute(const Stmt& stmt, Scope& scope) {
    NL_TRY(run_->step());
    if (depth_ >= run_->limits().depth)
        return fail(NL_ERROR_UNSUPPORTED, "expressions and macros inside one another, more than ",
                    run_->limits().depth);
    ++depth_;
    Result<Flow> flow = Flow::on;
    Result<void> done;
    switch (stmt.kind) {
        case StmtKind::data:
            done = write(Text(stmt.text));
            break;
        case StmtKind::output: {
            NL_ASSIGN(const Value value, evaluate(*stmt.value, scope));
            NL_ASSIGN(const Text text, to_text(*run_, value));
            done = write(text);
            break;
        }
        case StmtKind::set:
            done = set(stmt, scope);
            break;
        case StmtKind::set_block:
            done = set_block(stmt, scope);
            break;
        case StmtKind::condition:
            flow = execute_condition(stmt, scope);
            break;
        case StmtKind::loop:
            flow = execute_loop(stmt, scope);
            break;
        case StmtKind::macro:
            scope.set(stmt.macro->name, Value(static_cast<const MacroNode*>(stmt.macro.get())));
            break;
        case StmtKind::scope: {
            Scope inner{&scope, {}};
            flow = execute(stmt.body, inner);
            break;
        }
        case StmtKind::end_loop:
            flow = Flow::end_loop;
            break;
        case StmtKind::next_loop:
            flow = Flow::next_loop;
            break;
    }
    --depth_;
    if (!done.ok()) return std::move(done.error());
    return flow;
}

Result<Evaluator::Flow> Evaluator::execute_condition(const Stmt& stmt, Scope& scope) {
    for (const Branch& branch : stmt.branches) {
        if (branch.test != nullptr) {
            NL_ASSIGN(const Value value, evaluate(*branch.test, scope));
            if (!value.truth()) continue;
        }
        return execute(branch.body, scope);
    }
    return Flow::on;
}

// The items of a loop, without those that its test leaves out.
Result<Value> Evaluator::loop_items(const Stmt& stmt, Scope& scope) {
    NL_ASSIGN(const Value value, evaluate(*stmt.value, scope));
    NL_ASSIGN(std::vector<Value> items, to_items(*run_, value));
    if (stmt.test != nullptr) {
        std::vector<Value> kept;
        for (Value& item : items) {
            Scope inner{&scope, {}};
            NL_TRY(assign(stmt, item, inner));
            NL_ASSIGN(const Value test, evaluate(*stmt.test, inner));
            if (test.truth()) kept.push_back(std::move(item));
        }
        items = std::move(kept);
    }
    NL_ASSIGN(Loop* const loop, run_->make_loop(std::move(items)));
    return Value(loop);
}

Result<Evaluator::Flow> Evaluator::execute_loop(const Stmt& stmt, Scope& scope) {
    NL_ASSIGN(const Value loop_value, loop_items(stmt, scope));
    Loop& loop = **loop_value.as<Loop*>();
    if (loop.items.empty()) {
        Scope inner{&scope, {}};
        return execute(stmt.other, inner);
    }
    const bool tracks = output_ == main_ && !in_message_;
    const size_t begin = main_->size();
    const size_t num_places = places_.size();
    for (loop.index = 0; loop.index < loop.items.size(); ++loop.index) {
        const Value item = loop.items[loop.index];
        const Dict* const dict = item.dict();
        const bool is_message = tracks && dict != nullptr && dict->message >= 0;
        const size_t item_begin = main_->size();
        in_message_ = in_message_ || is_message;
        NL_ASSIGN(const bool goes_on, run_body(stmt, item, loop_value, scope));
        if (is_message) {
            in_message_ = false;
            places_.push_back({static_cast<size_t>(dict->message), item_begin, main_->size()});
        }
        if (!goes_on) break;
    }
    // A loop that wrote nothing only looked.
    if (tracks && main_->size() == begin) places_.resize(num_places);
    return Flow::on;
}

Result<bool> Evaluator::run_body(const Stmt& stmt, const Value& item, const Value& loop, Scope& scope) {
    Scope inner{&scope, {}};
    inner.set("loop", loop);
    NL_TRY(assign(stmt, item, inner));
    NL_ASSIGN(const Flow flow, execute(stmt.body, inner));
    return flow != Flow::end_loop;
}

Result<void> Evaluator::set(const Stmt& stmt, Scope& scope) {
    NL_ASSIGN(const Value value, evaluate(*stmt.value, scope));
    return assign(stmt, value, scope);
}

Result<void> Evaluator::set_block(const Stmt& stmt, Scope& scope) {
    NL_ASSIGN(Text text, capture(stmt.body, scope));
    Value value;
    if (stmt.value != nullptr) {
        const Text* const outer = std::exchange(captured_, &text);
        NL_ASSIGN(value, evaluate(*stmt.value, scope));
        captured_ = outer;
    } else {
        NL_ASSIGN(value, run_->text(std::move(text)));
    }
    return assign(stmt, value, scope);
}

Result<void> Evaluator::assign(const Stmt& stmt, const Value& value, Scope& scope) {
    if (!stmt.unpacks) return assign_one(stmt.targets[0], value, scope);
    NL_ASSIGN(const std::vector<Value> items, to_items(*run_, value));
    if (items.size() != stmt.targets.size())
        return fail(NL_ERROR_INVALID_ARGUMENT, items.size(), " values for ", stmt.targets.size(), " names");
    for (size_t i = 0; i < items.size(); ++i) NL_TRY(assign_one(stmt.targets[i], items[i], scope));
    return {};
}

Result<void> Evaluator::assign_one(const Target& target, const Value& value, Scope& scope) {
    if (target.attribute.empty()) {
        scope.set(target.name, value);
        return {};
    }
    const Value* const found = scope.find(target.name);
    const auto* const space = found != nullptr ? found->as<Namespace*>() : nullptr;
    if (space == nullptr)
        return fail(NL_ERROR_INVALID_ARGUMENT, "a member of ", target.name, " is set, which is no namespace");
    auto& members = (*space)->members;
    const auto place = std::find_if(members.begin(), members.end(),
                                    [&](const auto& member) { return member.first == target.attribute; });
    if (place != members.end()) {
        place->second = value;
    } else {
        NL_TRY(run_->check_bytes(sizeof(members[0])));
        members.emplace_back(target.attribute, value);
    }
    return {};
}

Result<void> Evaluator::write(const Text& text) {
    NL_TRY(run_->step(text.size() / 64));
    if (output_->size() + text.size() > run_->limits().output)
        return fail(NL_ERROR_UNSUPPORTED, "a text of more than ", run_->limits().output, " bytes is written");
    output_->append(text);
    return {};
}

Result<Text> Evaluator::capture(const Block& block, Scope& parent) {
    Text text;
    Text* const outer = std::exchange(output_, &text);
    Scope inner{&parent, {}};
    const auto flow = execute(block, inner);
    output_ = outer;
    if (!flow.ok()) return flow.error();
    return text;
}

}  // namespace nanolith::jinja
