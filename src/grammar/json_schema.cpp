#include "grammar/json_schema.h"

#include <algorithm>

#include "grammar/schema_check.h"
#include "grammar/schema_compiler.h"

namespace nanolith::grammar {
namespace {

constexpr size_t kMostPatterns = 6;    // patternProperties of an object: each combination of them is a class of names
constexpr int32_t kMostCounted = 256;  // properties or items that are counted in states of their own
constexpr int32_t kMostBranches = 256;

}  // namespace

Result<int32_t> add_schema(RuleSet& rules, std::string_view schema) {
    NL_ASSIGN(const JsonValue root, parse_json(schema));
    return SchemaCompiler(rules, root).run();
}

Result<int32_t> SchemaCompiler::run() {
    NL_TRY(check_schema(root_, "", true));
    Conjunction all;
    add_to(all, root_, "");
    NL_ASSIGN(const int32_t root, rule_of(std::move(all)));
    while (!reserved_.empty()) {
        const auto [next, rule] = std::move(reserved_.back());
        reserved_.pop_back();
        NL_TRY(make_rule(next, rule));
    }
    return root;
}

Result<int32_t> SchemaCompiler::rule_of(Conjunction all) {
    NL_TRY(expand(all));
    if (all.schemas.empty() && !all.never) return json_.any_value();
    const auto found = made_.find(all);
    if (found != made_.end()) return found->second;
    NL_ASSIGN(const int32_t rule, rules_.reserve());
    made_[all] = rule;
    reserved_.emplace_back(std::move(all), rule);
    return rule;
}

Result<void> SchemaCompiler::make_rule(const Conjunction& all, int32_t rule) {
    Nfa nfa;
    NL_ASSIGN(const Fragment whole, add(nfa, all));
    const auto made = json_.set(rule, nfa, whole);
    if (!made.ok()) return error_at(first_of(all), "", made.error());
    return {};
}

Result<Fragment> SchemaCompiler::add(Nfa& nfa, const Conjunction& all) {
    if (all.never) return nfa.never();
    if (const auto choice = open_choice(all)) return add_choice(nfa, all, *choice);
    NL_ASSIGN(const Facts facts, gather(all));
    if (!facts.has_values) return add_types(nfa, all, facts);
    NL_ASSIGN(const auto values, values_of(all, facts));
    std::vector<Fragment> parts;
    for (const JsonValue* value : values) {
        NL_ASSIGN(const Fragment part, json_.add_value(nfa, *value));
        parts.push_back(part);
    }
    return nfa.either(parts);
}

Result<Fragment> SchemaCompiler::add_choice(Nfa& nfa, const Conjunction& all, const Choice& choice) {
    const char* const keyword = choice.which == 0 ? "anyOf" : "oneOf";
    const size_t size = choice.branches->items.size();
    const auto refuse = [&](const std::string& what) {
        return schema_error(NL_ERROR_UNSUPPORTED, *choice.branches, places_[choice.schema].path, keyword, what);
    };
    if (size > kMostBranches) return refuse("more than 256 branches are not supported");
    std::vector<Conjunction> branches;
    for (size_t i = 0; i < size; ++i) branches.push_back(with_branch(all, choice, i));
    for (size_t i = 0; i < size && choice.which == 1; ++i) {
        for (size_t j = i + 1; j < size; ++j) {
            NL_ASSIGN(const bool apart, disjoint(branches[i], branches[j], 0));
            if (!apart)
                return refuse("branches " + std::to_string(i) + " and " + std::to_string(j) +
                              " may hold at once: expected branches that exclude each other, or anyOf");
        }
    }
    std::vector<Fragment> parts;
    for (Conjunction& branch : branches) {
        NL_ASSIGN(const int32_t rule, rule_of(std::move(branch)));
        parts.push_back(nfa.call(rule));
    }
    return nfa.either(parts);
}

Result<Fragment> SchemaCompiler::add_types(Nfa& nfa, const Conjunction& all, const Facts& facts) {
    std::vector<Fragment> parts;
    if ((facts.written & types::kNull) != 0) parts.push_back(nfa.text("null"));
    if ((facts.written & types::kBoolean) != 0) {
        parts.push_back(nfa.text("true"));
        parts.push_back(nfa.text("false"));
    }
    if ((facts.written & (types::kInteger | types::kFraction)) != 0) {
        auto numbers = json_.number(facts.range);
        if (!numbers.ok())
            return error_at(first_of(all), facts.range.multiples.empty() ? "" : "multipleOf", numbers.error());
        NL_ASSIGN(const int32_t rule, rules_.add({.dfa = std::move(*numbers)}));
        parts.push_back(nfa.call(rule));
    }
    if ((facts.written & types::kString) != 0) {
        NL_ASSIGN(const Fragment part, add_string(nfa, facts, first_of(all)));
        parts.push_back(part);
    }
    if ((facts.written & types::kArray) != 0) {
        NL_ASSIGN(const Fragment part, add_array(nfa, all, facts));
        parts.push_back(part);
    }
    if ((facts.written & types::kObject) != 0) {
        NL_ASSIGN(const Fragment part, add_object(nfa, all, facts));
        parts.push_back(part);
    }
    return nfa.either(parts);
}

Result<Fragment> SchemaCompiler::add_string(Nfa& nfa, const Facts& facts, int32_t number) {
    if (facts.most_length >= 0 && facts.most_length < facts.least_length) return nfa.never();
    if (facts.patterns.empty()) return json_.add_string(nfa, facts.least_length, facts.most_length);
    NL_ASSIGN(const Dfa inside, inside_of(facts, number));
    return json_.add_string(nfa, inside);
}

// ---- Arrays

Result<Fragment> SchemaCompiler::add_array(Nfa& nfa, const Conjunction& all, const Facts& facts) {
    int32_t most = facts.most_items;
    const auto prefix = static_cast<int32_t>(facts.prefix_items);
    if (prefix > kMostCounted)
        return schema_error(NL_ERROR_UNSUPPORTED, schema(first_of(all)), places_[first_of(all)].path, "prefixItems",
                            "more than 256 are not supported");
    NL_ASSIGN(const Fragment front, json_.add_spaces(nfa));
    Fragment whole = nfa.then(nfa.text("["), front);
    const int32_t end = nfa.add_state();
    const auto may_end_after = [&](int32_t items) {
        if (items >= facts.least_items && (most < 0 || items <= most)) nfa.add_empty(whole.end, end);
    };
    may_end_after(0);
    bool goes_on = true;
    for (int32_t i = 0; i < prefix && goes_on; ++i) {
        Conjunction value = item(all, static_cast<size_t>(i));
        goes_on = !value.never && (most < 0 || i < most);
        if (!goes_on) break;
        if (i > 0) {
            NL_ASSIGN(const Fragment spaces, json_.add_spaces(nfa));
            whole = nfa.then(whole, nfa.then(nfa.text(","), spaces));
        }
        NL_ASSIGN(const int32_t rule, rule_of(std::move(value)));
        whole = nfa.then(whole, nfa.call(rule));
        may_end_after(i + 1);
    }
    Conjunction rest = item(all, static_cast<size_t>(prefix));
    if (goes_on && !rest.never && (most < 0 || most > prefix)) {
        const int32_t least_rest = std::max(1, facts.least_items - prefix);
        NL_ASSIGN(const Fragment items, add_items(nfa, rest, least_rest, most < 0 ? -1 : most - prefix, prefix == 0));
        nfa.add_empty(whole.end, items.begin);
        nfa.add_empty(items.end, end);
    }
    NL_ASSIGN(const Fragment back, json_.add_spaces(nfa));
    return nfa.then({whole.begin, end}, nfa.then(back, nfa.text("]")));
}

// From `least` (at least one) to `most` items; `first`: nothing stands before the first of them.
Result<Fragment> SchemaCompiler::add_items(Nfa& nfa, const Conjunction& rest, int32_t least, int32_t most, bool first) {
    if (most >= 0 && most < least) return nfa.never();
    NL_ASSIGN(const int32_t rule, rule_of(rest));
    const auto unit = [&](Nfa& own) -> Result<Fragment> {
        NL_ASSIGN(const Fragment spaces, json_.add_spaces(own));
        return own.then(own.text(","), own.then(spaces, own.call(rule)));
    };
    Fragment whole = nfa.call(rule);
    if (!first) {
        NL_ASSIGN(whole, unit(nfa));
    }
    if (most == 1) return whole;
    if (least == 1 && most < 0) {
        NL_ASSIGN(const Fragment more, unit(nfa));
        return nfa.then(whole, nfa.star(more));
    }
    Nfa own;
    NL_ASSIGN(const Fragment one, unit(own));
    NL_ASSIGN(const Dfa dfa, json_.dfa(own, one));
    NL_ASSIGN(Rule counted, counted_rule(dfa, least - 1, most < 0 ? INT32_MAX : most - 1, {}));
    NL_ASSIGN(const int32_t more, rules_.add(std::move(counted)));
    return nfa.then(whole, nfa.call(more));
}

// ---- Objects

// The names that are not listed, in classes by the patterns that they match.
Result<std::vector<SchemaCompiler::NameClass>> SchemaCompiler::other_names(const Conjunction& all, const Facts& facts) {
    std::vector<NameClass> result;
    bool asked_for = false;
    bool lists = false;
    std::vector<std::pair<std::string, int32_t>> patterns;
    for (const int32_t number : all.schemas) {
        const JsonValue& one = schema(number);
        lists = lists || one.find("properties") != nullptr;
        const JsonValue* const others = one.find("additionalProperties");
        asked_for = asked_for || (others != nullptr && !(others->is(JsonValue::Kind::boolean) && !others->truth));
        if (const JsonValue* const by_pattern = one.find("patternProperties"))
            for (const JsonMember& member : by_pattern->members) patterns.emplace_back(member.name, number);
    }
    if (lists && !asked_for && patterns.empty()) return result;
    if (patterns.size() > kMostPatterns)
        return schema_error(NL_ERROR_UNSUPPORTED, schema(patterns[0].second), places_[patterns[0].second].path,
                            "patternProperties", "more than 6 patterns are not supported");
    // All names but those that are listed.
    NL_ASSIGN(Dfa names, json_.any_inside());
    Nfa nfa;
    std::vector<Fragment> listed;
    for (const std::string& name : facts.names) {
        const std::string spelled = quoted(name);
        listed.push_back(nfa.text(std::string_view(spelled).substr(1, spelled.size() - 2)));
    }
    NL_ASSIGN(const Dfa known, json_.dfa(nfa, nfa.either(listed)));
    NL_ASSIGN(names, subtract(names, known));
    for (const int32_t number : all.schemas) {
        const JsonValue* const rule = schema(number).find("propertyNames");
        if (rule == nullptr) continue;
        NL_ASSIGN(const Dfa good, names_by(*rule, places_[number].path + "/propertyNames"));
        NL_ASSIGN(names, intersect(names, good));
    }
    for (uint32_t part = 0; part < 1U << patterns.size(); ++part) {
        Dfa own = names;
        for (size_t p = 0; p < patterns.size() && !own.is_empty(); ++p) {
            NL_ASSIGN(const Dfa* const dfa, pattern(patterns[p].first, patterns[p].second, "patternProperties"));
            NL_ASSIGN(own, (part >> p & 1U) != 0 ? intersect(own, *dfa) : subtract(own, *dfa));
        }
        if (own.is_empty()) continue;
        if (part == 0 && lists && !asked_for) continue;
        NL_ASSIGN(Conjunction value, value_of_others(all, patterns, part));
        if (!value.never) result.push_back({std::move(own), std::move(value)});
    }
    return result;
}

// What the values of names must satisfy that match exactly the patterns whose bits are set in `part`.
Result<Conjunction> SchemaCompiler::value_of_others(const Conjunction& all,
                                                    const std::vector<std::pair<std::string, int32_t>>& patterns,
                                                    uint32_t part) {
    Conjunction value;
    for (const int32_t number : all.schemas) {
        const JsonValue& one = schema(number);
        const std::string path = places_[number].path;
        bool matched = false;
        for (size_t p = 0; p < patterns.size(); ++p) {
            if (patterns[p].second != number || (part >> p & 1U) == 0) continue;
            add_to(value, *one.find("patternProperties")->find(patterns[p].first),
                   below(path + "/patternProperties", patterns[p].first));
            matched = true;
        }
        const JsonValue* const others = one.find("additionalProperties");
        if (!matched && others != nullptr) add_to(value, *others, path + "/additionalProperties");
    }
    NL_TRY(expand(value));
    return value;
}

// Names that satisfy a schema.
Result<Dfa> SchemaCompiler::names_by(const JsonValue& rule, const std::string& path) {
    Conjunction all;
    add_to(all, rule, path);
    std::vector<Conjunction> decided;
    NL_ASSIGN(const bool is_all, decide(all, decided));
    if (!is_all || decided.size() > 1)
        return schema_error(NL_ERROR_UNSUPPORTED, rule, path, "", "a choice is not supported for names");
    Nfa nfa;
    if (decided.empty()) return json_.dfa(nfa, nfa.never());
    NL_ASSIGN(const Facts facts, gather(decided[0]));
    if ((facts.allowed & types::kString) == 0) return json_.dfa(nfa, nfa.never());
    if (!facts.has_values) return inside_of(facts, first_of(decided[0]));
    NL_ASSIGN(const auto values, values_of(decided[0], facts));
    std::vector<Fragment> parts;
    for (const JsonValue* value : values) {
        if (!value->is(JsonValue::Kind::string)) continue;
        const std::string spelled = quoted(value->text);
        parts.push_back(nfa.text(std::string_view(spelled).substr(1, spelled.size() - 2)));
    }
    return json_.dfa(nfa, nfa.either(parts));
}

Result<Fragment> SchemaCompiler::add_member(Nfa& nfa, Fragment name, const Conjunction& value) {
    NL_ASSIGN(const Fragment spaces, json_.add_spaces(nfa));
    NL_ASSIGN(const int32_t rule, rule_of(value));
    return nfa.then(nfa.then(name, nfa.text(":")), nfa.then(spaces, nfa.call(rule)));
}

// A state for each listed property that may come next, and for each number of properties so far where the schema limits
// it.
Result<Fragment> SchemaCompiler::add_object(Nfa& nfa, const Conjunction& all, const Facts& facts) {
    NL_ASSIGN(const auto others, other_names(all, facts));
    const auto names = static_cast<int32_t>(facts.names.size());
    const auto refuse = [&](const char* keyword, const char* what) {
        return error_at(first_of(all), keyword, fail(NL_ERROR_UNSUPPORTED, what));
    };
    int32_t most = facts.most_properties;
    if (facts.least_properties > kMostCounted) return refuse("minProperties", "more than 256 are not supported");
    if (!others.empty() && facts.least_properties > names + 1)
        return refuse("minProperties", "more than one property whose name is not listed can't be granted");
    if (most > kMostCounted) {
        if (!others.empty() || names > most) return refuse("maxProperties", "more than 256 are not supported");
        most = -1;
    }
    // Numbers of properties are told apart up to the highest limit.
    const int32_t levels = std::max({1, facts.least_properties, most}) + 1;

    NL_ASSIGN(const Fragment front, json_.add_spaces(nfa));
    NL_ASSIGN(const Fragment back, json_.add_spaces(nfa));
    const Fragment open = nfa.then(nfa.text("{"), front);
    const Fragment close = nfa.then(back, nfa.text("}"));
    std::vector<int32_t> now(levels, kNoState);
    now[0] = open.end;
    const auto state = [&nfa](std::vector<int32_t>& states, int32_t count) {
        if (states[count] == kNoState) states[count] = nfa.add_state();
        return states[count];
    };
    // A member after `count` others, from one state to another.
    const auto add_at = [&](int32_t from, int32_t to, int32_t count, Fragment name,
                            const Conjunction& value) -> Result<void> {
        NL_ASSIGN(Fragment part, add_member(nfa, name, value));
        if (count > 0) {
            NL_ASSIGN(const Fragment spaces, json_.add_spaces(nfa));
            part = nfa.then(nfa.then(nfa.text(","), spaces), part);
        }
        nfa.add_empty(from, part.begin);
        nfa.add_empty(part.end, to);
        return {};
    };
    for (const std::string& name : facts.names) {
        if (nfa.too_large()) break;  // which set() refuses
        NL_ASSIGN(Conjunction value, property(all, name));
        NL_TRY(expand(value));
        const bool required = facts.required.contains(name);
        std::vector<int32_t> next(levels, kNoState);
        for (int32_t count = 0; count < levels && !nfa.too_large(); ++count) {
            if (now[count] == kNoState) continue;
            if (!required) nfa.add_empty(now[count], state(next, count));
            if (value.never || (most >= 0 && count >= most)) continue;
            NL_TRY(
                add_at(now[count], state(next, std::min(count + 1, levels - 1)), count, nfa.text(quoted(name)), value));
        }
        now = std::move(next);
    }
    for (int32_t count = 0; count < levels; ++count)
        if (now[count] != kNoState && count >= facts.least_properties) nfa.add_empty(now[count], close.begin);
    NL_TRY(add_others(nfa, others, facts, now, close.begin));
    return Fragment{open.begin, close.end};
}

// Members whose names are not listed, behind all others.
Result<void> SchemaCompiler::add_others(Nfa& nfa, const std::vector<NameClass>& others, const Facts& facts,
                                        const std::vector<int32_t>& after_listed, int32_t close) {
    std::vector<int32_t> name_rules;
    for (const NameClass& some : others) {
        Nfa own;
        const Fragment inside = insert(own, some.names);
        NL_ASSIGN(const int32_t rule, json_.add(own, own.then(inside, own.text("\""))));
        name_rules.push_back(rule);
    }
    if (others.empty()) return {};
    const int32_t most = facts.most_properties;
    const auto add_one = [&](int32_t from, int32_t to, bool comma) -> Result<void> {
        for (size_t i = 0; i < others.size(); ++i) {
            const Fragment name = nfa.then(nfa.text("\""), nfa.call(name_rules[i]));
            NL_ASSIGN(Fragment part, add_member(nfa, name, others[i].value));
            if (comma) {
                NL_ASSIGN(const Fragment spaces, json_.add_spaces(nfa));
                part = nfa.then(nfa.then(nfa.text(","), spaces), part);
            }
            nfa.add_empty(from, part.begin);
            nfa.add_empty(part.end, to);
        }
        return {};
    };
    for (size_t count = 0; count < after_listed.size(); ++count) {
        if (after_listed[count] == kNoState) continue;
        // At most one more may be required of them: a second one could have the name of the first again.
        if (static_cast<int32_t>(count) + 1 < facts.least_properties) continue;
        const int32_t room = most < 0 ? -1 : most - static_cast<int32_t>(count);
        if (room == 0) continue;
        int32_t at = nfa.add_state();
        NL_TRY(add_one(after_listed[count], at, count > 0));
        nfa.add_empty(at, close);
        if (room < 0) {
            NL_TRY(add_one(at, at, true));
            continue;
        }
        for (int32_t i = 1; i < room && !nfa.too_large(); ++i) {
            const int32_t next = nfa.add_state();
            NL_TRY(add_one(at, next, true));
            nfa.add_empty(next, close);
            at = next;
        }
    }
    return {};
}

}  // namespace nanolith::grammar
