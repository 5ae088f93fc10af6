// What the keywords of schemas say together, and whether a given value satisfies them.
#include <algorithm>
#include <cmath>

#include "grammar/regex.h"
#include "grammar/schema_check.h"
#include "grammar/schema_compiler.h"
#include "text/unicode.h"

namespace nanolith::grammar {

using Kind = JsonValue::Kind;

namespace {

constexpr int64_t kMostSteps = 200000;
const char* const kChoices[] = {"anyOf", "oneOf"};

uint32_t type_bits(const JsonValue& name) {
    if (name.text == "null") return types::kNull;
    if (name.text == "boolean") return types::kBoolean;
    if (name.text == "integer") return types::kInteger;
    if (name.text == "number") return types::kInteger | types::kFraction;
    if (name.text == "string") return types::kString;
    return name.text == "array" ? types::kArray : types::kObject;
}

uint32_t types_in(const JsonValue& type) {
    if (!type.is(Kind::array)) return type_bits(type);
    uint32_t all = 0;
    for (const JsonValue& name : type.items) all |= type_bits(name);
    return all;
}

uint32_t type_of(const JsonValue& value) {
    switch (value.kind) {
        case Kind::null:
            return types::kNull;
        case Kind::boolean:
            return types::kBoolean;
        case Kind::number:
            return value.is_integer() ? types::kInteger : types::kFraction;
        case Kind::string:
            return types::kString;
        case Kind::array:
            return types::kArray;
        case Kind::object:
            return types::kObject;
    }
    return 0;
}

// The type that a keyword is about, 0 for those about any.
uint32_t type_about(const std::string& keyword) {
    static const std::map<std::string, uint32_t> about = {{"minimum", types::kInteger | types::kFraction},
                                                          {"maximum", types::kInteger | types::kFraction},
                                                          {"exclusiveMinimum", types::kInteger | types::kFraction},
                                                          {"exclusiveMaximum", types::kInteger | types::kFraction},
                                                          {"multipleOf", types::kInteger | types::kFraction},
                                                          {"minLength", types::kString},
                                                          {"maxLength", types::kString},
                                                          {"pattern", types::kString},
                                                          {"format", types::kString},
                                                          {"prefixItems", types::kArray},
                                                          {"items", types::kArray},
                                                          {"additionalItems", types::kArray},
                                                          {"minItems", types::kArray},
                                                          {"maxItems", types::kArray},
                                                          {"properties", types::kObject},
                                                          {"patternProperties", types::kObject},
                                                          {"additionalProperties", types::kObject},
                                                          {"propertyNames", types::kObject},
                                                          {"required", types::kObject},
                                                          {"minProperties", types::kObject},
                                                          {"maxProperties", types::kObject}};
    const auto found = about.find(keyword);
    return found == about.end() ? 0 : found->second;
}

int32_t to_count(const JsonValue& value) {
    return static_cast<int32_t>(std::min(value.number(), 1e9));
}

void take_most(int32_t& most, int32_t other) {
    most = most < 0 ? other : std::min(most, other);
}

// The tighter of two bounds.
void tighten(std::optional<Bound>& bound, const JsonValue& value, bool exclusive, bool is_least) {
    if (bound) {
        const double old = to_number(bound->literal);
        const double now = value.number();
        if (is_least ? now < old : now > old) return;
        if (now == old) exclusive = exclusive || bound->exclusive;
    }
    bound = Bound{value.text, exclusive};
}

// prefixItems, or the array that older drafts have in `items`; null where there is neither.
const JsonValue* prefix_of(const JsonValue& schema) {
    if (const JsonValue* const prefix = schema.find("prefixItems")) return prefix;
    const JsonValue* const items = schema.find("items");
    return items != nullptr && items->is(Kind::array) ? items : nullptr;
}

// The keyword for the items behind those of prefix_of().
const char* rest_keyword(const JsonValue& schema) {
    const JsonValue* const items = schema.find("items");
    return items != nullptr && items->is(Kind::array) ? "additionalItems" : "items";
}

}  // namespace

Error SchemaCompiler::error_at(int32_t number, const std::string& keyword, const Error& error) const {
    const JsonValue* const value = schema(number).find(keyword);
    return schema_error(error.status, value == nullptr ? schema(number) : *value, places_[number].path, keyword,
                        error.message);
}

int32_t SchemaCompiler::number_of(const JsonValue& schema, std::string path) {
    const auto [found, is_new] = numbers_.try_emplace(&schema, static_cast<int32_t>(places_.size()));
    if (is_new) places_.push_back({&schema, std::move(path)});
    return found->second;
}

void SchemaCompiler::add_to(Conjunction& all, const JsonValue& schema, const std::string& path) {
    if (schema.is(Kind::boolean)) {
        all.never = all.never || !schema.truth;
    } else {
        all.schemas.insert(number_of(schema, path));
    }
}

// Adds what $ref and allOf name, until nothing new comes.
Result<void> SchemaCompiler::expand(Conjunction& all) {
    std::vector<int32_t> open(all.schemas.begin(), all.schemas.end());
    for (size_t i = 0; i < open.size(); ++i) {
        const int32_t number = open[i];
        const std::string path = places_[number].path;
        const auto add_part = [&](const JsonValue& part, const std::string& where) {
            const size_t before = all.schemas.size();
            add_to(all, part, where);
            if (all.schemas.size() > before) open.push_back(number_of(part, where));
        };
        if (const JsonValue* const reference = schema(number).find("$ref")) {
            const JsonValue* const target = find_reference(root_, reference->text);
            if (target == nullptr)
                return schema_error(NL_ERROR_INVALID_ARGUMENT, *reference, path, "$ref",
                                    "there is no " + reference->text + " in the schema");
            const std::string where = reference->text.substr(1);
            if (checked_.insert(target).second) NL_TRY(check_schema(*target, where, target == &root_));
            add_part(*target, where);
        }
        if (const JsonValue* const parts = schema(number).find("allOf")) {
            for (size_t p = 0; p < parts->items.size(); ++p)
                add_part(parts->items[p], path + "/allOf/" + std::to_string(p));
        }
    }
    return {};
}

std::optional<SchemaCompiler::Choice> SchemaCompiler::open_choice(const Conjunction& all) const {
    for (const int32_t number : all.schemas) {
        for (int32_t which = 0; which < 2; ++which) {
            const JsonValue* const branches = schema(number).find(kChoices[which]);
            if (branches != nullptr && !all.chosen.contains({number, which})) return Choice{number, which, branches};
        }
    }
    return {};
}

Conjunction SchemaCompiler::with_branch(const Conjunction& all, const Choice& choice, size_t branch) {
    Conjunction result = all;
    result.chosen.insert({choice.schema, choice.which});
    add_to(result, choice.branches->items[branch],
           places_[choice.schema].path + "/" + kChoices[choice.which] + "/" + std::to_string(branch));
    return result;
}

// What an expanded conjunction says, apart from its anyOf and oneOf.
Result<Facts> SchemaCompiler::gather(const Conjunction& all) {
    Facts facts;
    if (++steps_ > kMostSteps)
        return fail(NL_ERROR_UNSUPPORTED,
                    "byte 0, the root: the schema takes too long to prepare: expected a simpler one");
    bool has_type = false;
    uint32_t about = 0;
    for (const int32_t number : all.schemas) {
        const JsonValue& one = schema(number);
        for (const JsonMember& member : one.members) about |= type_about(member.name);
        if (const JsonValue* const type = one.find("type")) {
            facts.allowed &= types_in(*type);
            has_type = true;
        }
        NL_TRY(gather_one(number, facts));
    }
    if (all.never) facts.allowed = 0;
    facts.written = facts.allowed & (has_type || about == 0 ? types::kAll : about);
    if ((facts.allowed & types::kFraction) == 0) facts.range.integers = true;
    return facts;
}

Result<void> SchemaCompiler::gather_one(int32_t number, Facts& facts) {
    const JsonValue& one = schema(number);
    const auto if_there = [&one](const char* name, const auto& use) {
        if (const JsonValue* const value = one.find(name)) use(*value);
    };
    if (!facts.has_values) {
        if_there("enum", [&](const JsonValue& values) {
            for (const JsonValue& value : values.items) facts.values.push_back(&value);
            facts.has_values = true;
        });
    }
    if (!facts.has_values) {
        if_there("const", [&](const JsonValue& value) {
            facts.values.push_back(&value);
            facts.has_values = true;
        });
    }
    if_there("minimum", [&](const JsonValue& value) { tighten(facts.range.least, value, false, true); });
    if_there("exclusiveMinimum", [&](const JsonValue& value) { tighten(facts.range.least, value, true, true); });
    if_there("maximum", [&](const JsonValue& value) { tighten(facts.range.most, value, false, false); });
    if_there("exclusiveMaximum", [&](const JsonValue& value) { tighten(facts.range.most, value, true, false); });
    if_there("multipleOf",
             [&](const JsonValue& value) { facts.range.multiples.push_back(static_cast<int64_t>(value.number())); });
    if_there("minLength",
             [&](const JsonValue& value) { facts.least_length = std::max(facts.least_length, to_count(value)); });
    if_there("maxLength", [&](const JsonValue& value) { take_most(facts.most_length, to_count(value)); });
    if_there("minItems",
             [&](const JsonValue& value) { facts.least_items = std::max(facts.least_items, to_count(value)); });
    if_there("maxItems", [&](const JsonValue& value) { take_most(facts.most_items, to_count(value)); });
    if_there("minProperties", [&](const JsonValue& value) {
        facts.least_properties = std::max(facts.least_properties, to_count(value));
    });
    if_there("maxProperties", [&](const JsonValue& value) { take_most(facts.most_properties, to_count(value)); });
    if_there("pattern", [&](const JsonValue& value) { facts.patterns.emplace_back(value.text, number); });
    if_there("format", [&](const JsonValue& value) { facts.patterns.emplace_back(expression_of(value.text), number); });
    if (const JsonValue* const prefix = prefix_of(one))
        facts.prefix_items = std::max(facts.prefix_items, prefix->items.size());
    const auto add_name = [&facts](const std::string& name) {
        if (facts.listed.insert(name).second) facts.names.push_back(name);
    };
    if_there("properties", [&](const JsonValue& value) {
        for (const JsonMember& member : value.members) add_name(member.name);
    });
    if_there("required", [&](const JsonValue& value) {
        for (const JsonValue& name : value.items) {
            add_name(name.text);
            facts.required.insert(name.text);
        }
    });
    return {};
}

// What a property of that name must satisfy.
Result<Conjunction> SchemaCompiler::property(const Conjunction& all, const std::string& name) {
    Conjunction value;
    const std::string spelled = quoted(name);
    for (const int32_t number : all.schemas) {
        const JsonValue& one = schema(number);
        const std::string path = places_[number].path;
        bool listed = false;
        if (const JsonValue* const properties = one.find("properties")) {
            if (const JsonValue* const found = properties->find(name)) {
                add_to(value, *found, below(path + "/properties", name));
                listed = true;
            }
        }
        if (const JsonValue* const by_pattern = one.find("patternProperties")) {
            for (const JsonMember& member : by_pattern->members) {
                NL_ASSIGN(const Dfa* const dfa, pattern(member.name, number, "patternProperties"));
                if (!dfa->accepts(std::string_view(spelled).substr(1, spelled.size() - 2))) continue;
                add_to(value, member.value, below(path + "/patternProperties", member.name));
                listed = true;
            }
        }
        const JsonValue* const others = one.find("additionalProperties");
        if (!listed && others != nullptr) add_to(value, *others, path + "/additionalProperties");
        if (const JsonValue* const names = one.find("propertyNames")) {
            JsonValue text;
            text.kind = Kind::string;
            text.text = name;
            NL_ASSIGN(const bool good, satisfies(text, *names, path + "/propertyNames", true, 0));
            value.never = value.never || !good;
        }
    }
    return value;
}

Conjunction SchemaCompiler::item(const Conjunction& all, size_t index) {
    Conjunction value;
    for (const int32_t number : all.schemas) {
        const JsonValue& one = schema(number);
        const std::string path = places_[number].path;
        const JsonValue* const prefix = prefix_of(one);
        const char* const rest = rest_keyword(one);
        if (prefix != nullptr && index < prefix->items.size()) {
            add_to(value, prefix->items[index], path + "/prefixItems/" + std::to_string(index));
        } else if (const JsonValue* const others = one.find(rest)) {
            add_to(value, *others, path + "/" + rest);
        }
    }
    return value;
}

// The insides of strings in which an expression has a match.
Result<const Dfa*> SchemaCompiler::pattern(const std::string& expression, int32_t number, const char* keyword) {
    const auto found = patterns_.find(expression);
    if (found != patterns_.end()) return &found->second;
    Nfa nfa;
    auto whole = add_regex(nfa, expression, Match::anywhere, Spelling::json_string);
    if (!whole.ok()) return error_at(number, keyword, whole.error());
    auto dfa = json_.dfa(nfa, *whole);
    if (!dfa.ok()) return error_at(number, keyword, dfa.error());
    return &patterns_.emplace(expression, std::move(*dfa)).first->second;
}

Result<Dfa> SchemaCompiler::inside_of(const Facts& facts, int32_t number) {
    NL_ASSIGN(Dfa inside, json_.any_inside());
    for (const auto& [expression, owner] : facts.patterns) {
        NL_ASSIGN(const Dfa* const one, pattern(expression, owner, "pattern"));
        auto both = intersect(inside, *one);
        if (!both.ok()) return error_at(owner, "pattern", both.error());
        inside = std::move(*both);
    }
    if (facts.least_length == 0 && facts.most_length < 0) return inside;
    const char* const keyword = facts.most_length < 0 ? "minLength" : "maxLength";
    auto lengths = json_.inside_of_length(facts.least_length, facts.most_length);
    if (!lengths.ok()) return error_at(number, keyword, lengths.error());
    auto both = intersect(inside, *lengths);
    if (!both.ok()) return error_at(number, keyword, both.error());
    return std::move(*both);
}

// ---- Given values

Result<bool> SchemaCompiler::satisfies(const JsonValue& value, const JsonValue& one, const std::string& path,
                                       bool with_choices, int32_t depth) {
    if (one.is(Kind::boolean)) return one.truth;
    constexpr int32_t kDeepest = 100;
    if (++steps_ > kMostSteps || depth > kDeepest)
        return schema_error(NL_ERROR_UNSUPPORTED, one, path, "",
                            "the schema takes too long to prepare: expected a simpler one");
    const int32_t number = number_of(one, path);
    Facts facts;
    NL_TRY(gather_one(number, facts));
    if (const JsonValue* const type = one.find("type"); type != nullptr && (types_in(*type) & type_of(value)) == 0)
        return false;
    const auto same = [&value](const JsonValue& other) { return equal(value, other); };
    if (const JsonValue* const values = one.find("enum");
        values != nullptr && std::ranges::none_of(values->items, same))
        return false;
    if (const JsonValue* const only = one.find("const"); only != nullptr && !same(*only)) return false;
    if (value.is(Kind::number)) {
        const double x = value.number();
        const auto bound = [](const Bound& b) { return to_number(b.literal); };
        if (facts.range.least &&
            (x < bound(*facts.range.least) || (x == bound(*facts.range.least) && facts.range.least->exclusive)))
            return false;
        if (facts.range.most &&
            (x > bound(*facts.range.most) || (x == bound(*facts.range.most) && facts.range.most->exclusive)))
            return false;
        for (const int64_t multiple : facts.range.multiples)
            if (std::fmod(x, static_cast<double>(multiple)) != 0) return false;
    }
    if (value.is(Kind::string)) {
        const int64_t length = count_characters(value.text);
        if (length < facts.least_length || (facts.most_length >= 0 && length > facts.most_length)) return false;
        const std::string spelled = quoted(value.text);
        for (const auto& [expression, owner] : facts.patterns) {
            NL_ASSIGN(const Dfa* const dfa, pattern(expression, owner, "pattern"));
            if (!dfa->accepts(std::string_view(spelled).substr(1, spelled.size() - 2))) return false;
        }
    }
    if (value.is(Kind::array)) {
        NL_ASSIGN(const bool good, satisfies_array(value, one, path, depth));
        if (!good) return false;
    }
    if (value.is(Kind::object)) {
        NL_ASSIGN(const bool good, satisfies_object(value, one, path, depth));
        if (!good) return false;
    }
    Conjunction referred;
    referred.schemas.insert(number);
    NL_TRY(expand(referred));
    if (referred.never) return false;
    for (const int32_t other : referred.schemas) {
        if (other == number) continue;
        NL_ASSIGN(const bool good, satisfies(value, schema(other), places_[other].path, true, depth + 1));
        if (!good) return false;
    }
    for (int32_t which = 0; which < 2 && with_choices; ++which) {
        const JsonValue* const branches = one.find(kChoices[which]);
        if (branches == nullptr) continue;
        int32_t holds = 0;
        for (size_t i = 0; i < branches->items.size(); ++i) {
            const std::string where = path + "/" + kChoices[which] + "/" + std::to_string(i);
            NL_ASSIGN(const bool good, satisfies(value, branches->items[i], where, true, depth + 1));
            holds += good ? 1 : 0;
        }
        if (holds == 0 || (which == 1 && holds > 1)) return false;
    }
    return true;
}

Result<bool> SchemaCompiler::satisfies_array(const JsonValue& value, const JsonValue& one, const std::string& path,
                                             int32_t depth) {
    Conjunction all;
    all.schemas.insert(number_of(one, path));
    Facts facts;
    NL_TRY(gather_one(number_of(one, path), facts));
    const auto size = static_cast<int64_t>(value.items.size());
    if (size < facts.least_items || (facts.most_items >= 0 && size > facts.most_items)) return false;
    for (size_t i = 0; i < value.items.size(); ++i) {
        NL_ASSIGN(const bool good, meets(value.items[i], item(all, i), depth + 1));
        if (!good) return false;
    }
    return true;
}

Result<bool> SchemaCompiler::satisfies_object(const JsonValue& value, const JsonValue& one, const std::string& path,
                                              int32_t depth) {
    Conjunction all;
    all.schemas.insert(number_of(one, path));
    Facts facts;
    NL_TRY(gather_one(number_of(one, path), facts));
    const auto size = static_cast<int64_t>(value.members.size());
    if (size < facts.least_properties || (facts.most_properties >= 0 && size > facts.most_properties)) return false;
    for (const std::string& name : facts.required)
        if (value.find(name) == nullptr) return false;
    for (const JsonMember& member : value.members) {
        NL_ASSIGN(const Conjunction of_member, property(all, member.name));
        NL_ASSIGN(const bool good, meets(member.value, of_member, depth + 1));
        if (!good) return false;
    }
    return true;
}

// Whether a value satisfies every schema of a conjunction. Of a schema whose anyOf or oneOf is decided, the branch that
// was chosen is one of these.
Result<bool> SchemaCompiler::meets(const JsonValue& value, const Conjunction& all, int32_t depth) {
    if (all.never) return false;
    for (const int32_t number : all.schemas) {
        const bool decided = all.chosen.contains({number, 0}) || all.chosen.contains({number, 1});
        NL_ASSIGN(const bool good, satisfies(value, schema(number), places_[number].path, !decided, depth));
        if (!good) return false;
    }
    return true;
}

Result<std::vector<const JsonValue*>> SchemaCompiler::values_of(const Conjunction& all, const Facts& facts) {
    std::vector<const JsonValue*> result;
    for (const JsonValue* value : facts.values) {
        NL_ASSIGN(const bool good, meets(*value, all, 0));
        if (good) result.push_back(value);
    }
    return result;
}

}  // namespace nanolith::grammar
