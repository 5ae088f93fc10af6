// Turns a checked JSON schema into rules. What is compiled is a conjunction: schemas that a value must satisfy all at
// once, since allOf, $ref and properties that several schemas name put schemas together. Each conjunction becomes one
// rule, which a schema that refers to itself calls. Rules are reserved when they are first called and made one after
// the other, so that long chains of references take no deep recursion.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "grammar/json_rules.h"
#include "grammar/json_value.h"

namespace nanolith::grammar {

// The types of JSON values as bits. A number's type is integer | fraction.
namespace types {
constexpr uint32_t kNull = 1;
constexpr uint32_t kBoolean = 2;
constexpr uint32_t kInteger = 4;
constexpr uint32_t kFraction = 8;
constexpr uint32_t kString = 16;
constexpr uint32_t kArray = 32;
constexpr uint32_t kObject = 64;
constexpr uint32_t kAll = 127;
}  // namespace types

// Schemas by their numbers (SchemaCompiler::number_of), and for each anyOf or oneOf of them that is decided already,
// (schema, 0 or 1): the chosen branch is one of the schemas.
struct Conjunction {
    std::set<int32_t> schemas;
    std::set<std::pair<int32_t, int32_t>> chosen;
    bool never = false;  // a schema is `false`
    bool operator<(const Conjunction& other) const {
        return std::tie(schemas, chosen, never) < std::tie(other.schemas, other.chosen, other.never);
    }
};

// What the keywords of a conjunction say together.
struct Facts {
    uint32_t allowed = types::kAll;        // types of values that satisfy it
    uint32_t written = types::kAll;        // those that the rules let a model write
    std::vector<const JsonValue*> values;  // of the first enum or const
    bool has_values = false;
    NumberRange range;
    int32_t least_length = 0;
    int32_t most_length = -1;                               // -1: no limit
    std::vector<std::pair<std::string, int32_t>> patterns;  // and the schema that has it
    int32_t least_items = 0;
    int32_t most_items = -1;
    size_t prefix_items = 0;
    std::vector<std::string> names;  // of properties that are listed or required, in order
    std::set<std::string> listed;    // the same
    std::set<std::string> required;
    int32_t least_properties = 0;
    int32_t most_properties = -1;
};

class SchemaCompiler {
  public:
    SchemaCompiler(RuleSet& rules, const JsonValue& root) : rules_(rules), json_(rules), root_(root) {}
    Result<int32_t> run();

  private:
    struct Place {
        const JsonValue* schema;
        std::string path;
    };
    struct Choice {
        int32_t schema;
        int32_t which;  // 0: anyOf, 1: oneOf
        const JsonValue* branches;
    };
    struct NameClass {  // names of properties that no schema lists, which have the same schemas
        Dfa names;
        Conjunction value;
    };

    // ---- Conjunctions and what they say (schema_facts.cpp)
    int32_t number_of(const JsonValue& schema, std::string path);
    [[nodiscard]] const JsonValue& schema(int32_t number) const { return *places_[number].schema; }
    void add_to(Conjunction& all, const JsonValue& schema, const std::string& path);
    Result<void> expand(Conjunction& all);
    [[nodiscard]] std::optional<Choice> open_choice(const Conjunction& all) const;
    [[nodiscard]] Conjunction with_branch(const Conjunction& all, const Choice& choice, size_t branch);
    Result<Facts> gather(const Conjunction& all);
    Result<void> gather_one(int32_t number, Facts& facts);
    Result<Conjunction> property(const Conjunction& all, const std::string& name);
    Conjunction item(const Conjunction& all, size_t index);
    Result<const Dfa*> pattern(const std::string& expression, int32_t number, const char* keyword);
    Result<Dfa> inside_of(const Facts& facts, int32_t number);
    Result<bool> satisfies(const JsonValue& value, const JsonValue& schema, const std::string& path, bool with_choices,
                           int32_t depth);
    Result<bool> satisfies_array(const JsonValue& value, const JsonValue& schema, const std::string& path,
                                 int32_t depth);
    Result<bool> satisfies_object(const JsonValue& value, const JsonValue& schema, const std::string& path,
                                  int32_t depth);
    Result<std::vector<const JsonValue*>> values_of(const Conjunction& all, const Facts& facts);
    Result<bool> meets(const JsonValue& value, const Conjunction& all, int32_t depth);
    [[nodiscard]] Error error_at(int32_t number, const std::string& keyword, const Error& error) const;
    [[nodiscard]] int32_t first_of(const Conjunction& all) const {
        return all.schemas.empty() ? 0 : *all.schemas.begin();
    }

    // ---- Whether two conjunctions exclude each other (schema_disjoint.cpp)
    Result<bool> disjoint(const Conjunction& a, const Conjunction& b, int32_t depth);
    Result<bool> disjoint_decided(const Conjunction& a, const Conjunction& b, int32_t depth);
    Result<bool> disjoint_numbers(const Facts& a, const Facts& b);
    Result<bool> disjoint_objects(const Conjunction& a, const Conjunction& b, const Facts& of_a, const Facts& of_b,
                                  int32_t depth);
    Result<bool> disjoint_arrays(const Conjunction& a, const Conjunction& b, const Facts& of_a, const Facts& of_b,
                                 int32_t depth);
    Result<bool> decide(const Conjunction& all, std::vector<Conjunction>& decided);

    // ---- Rules (json_schema.cpp)
    Result<int32_t> rule_of(Conjunction all);
    Result<void> make_rule(const Conjunction& all, int32_t rule);
    Result<Fragment> add(Nfa& nfa, const Conjunction& all);
    Result<Fragment> add_choice(Nfa& nfa, const Conjunction& all, const Choice& choice);
    Result<Fragment> add_types(Nfa& nfa, const Conjunction& all, const Facts& facts);
    Result<Fragment> add_string(Nfa& nfa, const Facts& facts, int32_t number);
    Result<Fragment> add_array(Nfa& nfa, const Conjunction& all, const Facts& facts);
    Result<Fragment> add_items(Nfa& nfa, const Conjunction& rest, int32_t least, int32_t most, bool first);
    Result<Fragment> add_object(Nfa& nfa, const Conjunction& all, const Facts& facts);
    Result<std::vector<NameClass>> other_names(const Conjunction& all, const Facts& facts);
    Result<Conjunction> value_of_others(const Conjunction& all,
                                        const std::vector<std::pair<std::string, int32_t>>& patterns, uint32_t part);
    Result<Dfa> names_by(const JsonValue& rule, const std::string& path);
    Result<void> add_others(Nfa& nfa, const std::vector<NameClass>& others, const Facts& facts,
                            const std::vector<int32_t>& after_listed, int32_t close);
    Result<Fragment> add_member(Nfa& nfa, Fragment name, const Conjunction& value);

    RuleSet& rules_;
    JsonRules json_;
    const JsonValue& root_;
    std::deque<Place> places_;  // by number; references to them stay valid
    std::map<const JsonValue*, int32_t> numbers_;
    std::map<Conjunction, int32_t> made_;                    // rules that are reserved or made
    std::vector<std::pair<Conjunction, int32_t>> reserved_;  // those of them that are not made yet
    std::map<std::string, Dfa> patterns_;
    std::set<const JsonValue*> checked_;  // schemas that references name and that were checked
    int64_t steps_ = 0;                   // of satisfies(), disjoint() and gather()
};

}  // namespace nanolith::grammar
