// Whether two conjunctions exclude each other, as oneOf requires of its branches: no value that is written for one of
// them satisfies the other. False also where this could not be decided.
#include <algorithm>

#include "grammar/schema_compiler.h"

namespace nanolith::grammar {
namespace {

constexpr size_t kMostDecided = 64;
constexpr int32_t kDeepestLook = 6;

double bound_of(const std::optional<Bound>& bound, double otherwise) {
    return bound ? to_number(bound->literal) : otherwise;
}

// Whether all numbers of `a` are below those of `b`.
bool is_below(const NumberRange& a, const NumberRange& b) {
    if (!a.most || !b.least) return false;
    const double most = bound_of(a.most, 0);
    const double least = bound_of(b.least, 0);
    return most < least || (most == least && (a.most->exclusive || b.least->exclusive));
}

}  // namespace

// Replaces `all` by the conjunctions that its anyOf and oneOf allow, one for each combination of branches, in
// `decided`. False where there are too many.
Result<bool> SchemaCompiler::decide(const Conjunction& all, std::vector<Conjunction>& decided) {
    std::vector<Conjunction> open = {all};
    while (!open.empty()) {
        Conjunction one = std::move(open.back());
        open.pop_back();
        NL_TRY(expand(one));
        if (one.never) continue;
        const auto choice = open_choice(one);
        if (!choice) {
            decided.push_back(std::move(one));
        } else {
            for (size_t i = 0; i < choice->branches->items.size(); ++i) open.push_back(with_branch(one, *choice, i));
        }
        if (open.size() + decided.size() > kMostDecided) return false;
    }
    return true;
}

Result<bool> SchemaCompiler::disjoint(const Conjunction& a, const Conjunction& b, int32_t depth) {
    if (depth > kDeepestLook) return false;
    std::vector<Conjunction> of_a;
    std::vector<Conjunction> of_b;
    NL_ASSIGN(const bool all_of_a, decide(a, of_a));
    NL_ASSIGN(const bool all_of_b, decide(b, of_b));
    if (!all_of_a || !all_of_b) return false;
    for (const Conjunction& one : of_a) {
        for (const Conjunction& other : of_b) {
            NL_ASSIGN(const bool apart, disjoint_decided(one, other, depth));
            if (!apart) return false;
        }
    }
    return true;
}

Result<bool> SchemaCompiler::disjoint_decided(const Conjunction& a, const Conjunction& b, int32_t depth) {
    NL_ASSIGN(const Facts of_a, gather(a));
    NL_ASSIGN(const Facts of_b, gather(b));
    for (const auto& [with_values, facts, other] : {std::tuple(&a, &of_a, &b), std::tuple(&b, &of_b, &a)}) {
        if (!facts->has_values) continue;
        NL_ASSIGN(const auto values, values_of(*with_values, *facts));
        for (const JsonValue* value : values) {
            NL_ASSIGN(const bool both, meets(*value, *other, 0));
            if (both) return false;
        }
        return true;
    }
    const uint32_t common = (of_a.written & of_b.allowed) | (of_a.allowed & of_b.written);
    if ((common & (types::kNull | types::kBoolean)) != 0) return false;
    if ((common & (types::kInteger | types::kFraction)) != 0) {
        NL_ASSIGN(const bool apart, disjoint_numbers(of_a, of_b));
        if (!apart) return false;
    }
    if ((common & types::kString) != 0) {
        NL_ASSIGN(const Dfa inside_a, inside_of(of_a, first_of(a)));
        NL_ASSIGN(const Dfa inside_b, inside_of(of_b, first_of(b)));
        NL_ASSIGN(const Dfa both, intersect(inside_a, inside_b));
        if (!both.is_empty()) return false;
    }
    if ((common & types::kArray) != 0) {
        NL_ASSIGN(const bool apart, disjoint_arrays(a, b, of_a, of_b, depth));
        if (!apart) return false;
    }
    if ((common & types::kObject) == 0) return true;
    return disjoint_objects(a, b, of_a, of_b, depth);
}

Result<bool> SchemaCompiler::disjoint_numbers(const Facts& a, const Facts& b) {
    if (is_below(a.range, b.range) || is_below(b.range, a.range)) return true;
    if (!a.range.integers && !b.range.integers) return false;
    // Integers have one spelling each; a common one is an integer.
    NumberRange integers_a = a.range;
    NumberRange integers_b = b.range;
    integers_a.integers = integers_b.integers = true;
    NL_ASSIGN(const Dfa of_a, json_.number(integers_a));
    NL_ASSIGN(const Dfa of_b, json_.number(integers_b));
    NL_ASSIGN(const Dfa both, intersect(of_a, of_b));
    return both.is_empty();
}

Result<bool> SchemaCompiler::disjoint_arrays(const Conjunction& a, const Conjunction& b, const Facts& of_a,
                                             const Facts& of_b, int32_t depth) {
    if (of_a.most_items >= 0 && of_a.most_items < of_b.least_items) return true;
    if (of_b.most_items >= 0 && of_b.most_items < of_a.least_items) return true;
    const auto both_have = static_cast<size_t>(std::max(of_a.least_items, of_b.least_items));
    for (size_t i = 0; i < std::min<size_t>(both_have, 8); ++i) {
        NL_ASSIGN(const bool apart, disjoint(item(a, i), item(b, i), depth + 1));
        if (apart) return true;
    }
    return false;
}

// Objects exclude each other where a property that one of them requires has values that do; or where each requires a
// property that is never written for the other.
Result<bool> SchemaCompiler::disjoint_objects(const Conjunction& a, const Conjunction& b, const Facts& of_a,
                                              const Facts& of_b, int32_t depth) {
    std::set<std::string> required = of_a.required;
    required.insert(of_b.required.begin(), of_b.required.end());
    for (const std::string& name : required) {
        NL_ASSIGN(const Conjunction value_a, property(a, name));
        NL_ASSIGN(const Conjunction value_b, property(b, name));
        NL_ASSIGN(const bool apart, disjoint(value_a, value_b, depth + 1));
        if (apart) return true;
    }
    const auto never_written = [this](const Conjunction& all, const Facts& facts,
                                      const std::set<std::string>& names) -> Result<bool> {
        NL_ASSIGN(const auto others, other_names(all, facts));
        for (const std::string& name : names) {
            if (facts.listed.contains(name)) continue;
            const std::string spelled = quoted(name);
            if (std::ranges::none_of(others, [&](const NameClass& some) {
                    return some.names.accepts(std::string_view(spelled).substr(1, spelled.size() - 2));
                }))
                return true;
        }
        return false;
    };
    NL_ASSIGN(const bool a_is_not_b, never_written(a, of_a, of_b.required));
    NL_ASSIGN(const bool b_is_not_a, never_written(b, of_b, of_a.required));
    return a_is_not_b && b_is_not_a;
}

}  // namespace nanolith::grammar
