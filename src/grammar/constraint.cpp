#include "grammar/constraint.h"

#include <algorithm>

#include "grammar/ebnf.h"
#include "grammar/json_rules.h"
#include "grammar/json_schema.h"
#include "grammar/regex.h"
#include "grammar/state_mask.h"
#include "text/utf8.h"

namespace nanolith::grammar {
namespace {

constexpr int64_t kPrepareMs = 30;  // for masks that are found when the constraint comes, not while a step waits
constexpr size_t kRemembered = 64;  // grammars

Result<int32_t> add_choices(RuleSet& rules, const std::vector<std::string>& choices) {
    Nfa nfa;
    std::vector<Fragment> parts;
    size_t bytes = 0;
    for (size_t i = 0; i < choices.size(); ++i) {
        if (!is_valid_utf8(choices[i])) return fail(NL_ERROR_INVALID_ARGUMENT, "choice ", i, " is no valid UTF-8");
        bytes += choices[i].size();
        parts.push_back(nfa.text(choices[i]));
    }
    if (bytes > kMaxConstraintBytes)
        return fail(NL_ERROR_UNSUPPORTED, "they have ", bytes, " bytes: expected at most ", kMaxConstraintBytes);
    int64_t work = kMaxSubsetWork;
    NL_ASSIGN(Dfa dfa, make_dfa(nfa, nfa.either(parts), work));
    return rules.add({.dfa = std::move(dfa)});
}

Result<int32_t> add_expression(RuleSet& rules, const std::string& text) {
    Nfa nfa;
    NL_ASSIGN(const Fragment whole, add_regex(nfa, text, Match::whole, Spelling::plain));
    int64_t work = kMaxSubsetWork;
    NL_ASSIGN(Dfa dfa, make_dfa(nfa, whole, work));
    return rules.add({.dfa = std::move(dfa)});
}

Result<int32_t> add_rules(RuleSet& rules, const Constraint& constraint) {
    switch (constraint.kind) {
        case ConstraintKind::choices:
            return add_choices(rules, constraint.choices);
        case ConstraintKind::regex:
            return add_expression(rules, constraint.text);
        case ConstraintKind::json_schema:
            return add_schema(rules, constraint.text);
        case ConstraintKind::json_object:
            return JsonRules(rules).any_object();
        case ConstraintKind::ebnf:
            return add_ebnf(rules, constraint.text);
        case ConstraintKind::none:
            break;
    }
    return fail(NL_ERROR_INTERNAL, "there is no constraint");
}

const char* name_of(ConstraintKind kind) {
    switch (kind) {
        case ConstraintKind::choices:
            return "choices";
        case ConstraintKind::regex:
            return "regular expression";
        case ConstraintKind::json_schema:
            return "JSON schema";
        case ConstraintKind::ebnf:
            return "grammar";
        default:
            return "JSON object";
    }
}

std::string key_of(const Constraint& constraint) {
    std::string key(1, static_cast<char>('0' + static_cast<int>(constraint.kind)));
    key += constraint.text;
    for (const std::string& choice : constraint.choices) key += std::to_string(choice.size()) + ":" + choice;
    return key;
}

}  // namespace

Result<std::shared_ptr<const Grammar>> compile(const Constraint& constraint, std::shared_ptr<const TokenTable> tokens) {
    const auto in_words = [&](const Error& error) {
        return fail(error.status, name_of(constraint.kind), ": ", error.message);
    };
    if (constraint.text.size() > kMaxConstraintBytes)
        return in_words(fail(NL_ERROR_UNSUPPORTED, "it has ", constraint.text.size(), " bytes: expected at most ",
                             kMaxConstraintBytes));
    RuleSet rules;
    const Result<int32_t> root = add_rules(rules, constraint);
    if (!root.ok()) return in_words(root.error());
    auto grammar = Grammar::link(rules.take(), *root, std::move(tokens));
    if (!grammar.ok()) return in_words(grammar.error());
    prepare_masks(**grammar, kPrepareMs);
    return grammar;
}

Result<std::shared_ptr<const Grammar>> Compiler::compile(const Constraint& constraint) {
    std::string key = key_of(constraint);
    {
        const std::lock_guard lock(mutex_);
        const auto found = std::ranges::find(made_, key, &Made::key);
        if (found != made_.end()) {
            std::rotate(found, found + 1, made_.end());
            return made_.back().grammar;
        }
    }
    NL_ASSIGN(std::shared_ptr<const Grammar> grammar, grammar::compile(constraint, tokens_));
    const std::lock_guard lock(mutex_);
    if (made_.size() >= kRemembered) made_.erase(made_.begin());
    made_.push_back({std::move(key), grammar});
    return grammar;
}

}  // namespace nanolith::grammar
