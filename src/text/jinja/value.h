// What a template computes with: Python's values, as far as chat templates use them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "text/jinja/text.h"

namespace nanolith::jinja {

class Run;
class Memory;
struct List;
struct Dict;
struct Bound;
struct Namespace;
struct Loop;
struct MacroNode;

// Functions that every template may call.
enum class Function : uint8_t { range, make_dict, make_namespace, raise_exception, strftime_now };

// What is not there. `name` is what was looked for, in the template's own tree; null where that has no name.
struct Undefined {
    const std::string* name = nullptr;
};
struct None {};

// A value. Copies share what is inside, which never changes, but for namespaces and loops: those belong to the Run.
class Value {
  public:
    using Data = std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const Text>,
                              std::shared_ptr<const List>, std::shared_ptr<const Dict>, std::shared_ptr<const Bound>,
                              Namespace*, Loop*, const MacroNode*, Function>;

    Value() : data_(None{}) {}
    Value(Data data) : data_(std::move(data)) {}  // NOLINT: implicit on purpose

    template <typename T>
    [[nodiscard]] const T* as() const {
        return std::get_if<T>(&data_);
    }
    [[nodiscard]] const Data& data() const { return data_; }
    [[nodiscard]] bool is_undefined() const { return as<Undefined>() != nullptr; }
    [[nodiscard]] bool is_none() const { return as<None>() != nullptr; }
    // A number that is no float: an integer, or a bool, which Python counts as one.
    [[nodiscard]] bool is_integer() const { return as<bool>() != nullptr || as<int64_t>() != nullptr; }
    [[nodiscard]] int64_t integer() const;
    [[nodiscard]] bool is_number() const { return is_integer() || as<double>() != nullptr; }
    [[nodiscard]] double number() const;
    // Null where it is something else.
    [[nodiscard]] const Text* text() const;
    [[nodiscard]] const List* list() const;
    [[nodiscard]] const Dict* dict() const;

    [[nodiscard]] bool truth() const;
    // How deep lists and dictionaries are nested in it.
    [[nodiscard]] size_t depth() const;
    // As Python names its type: "str".
    [[nodiscard]] const char* type_name() const;

  private:
    Data data_;
};

// Memory that a value holds, counted while it lives.
class Held {
  public:
    Held(std::shared_ptr<Memory> memory, size_t bytes);
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held();

  private:
    std::shared_ptr<Memory> memory_;
    size_t bytes_;
};

// A generator is what map, select and their like give: it can be walked through once. A view is what a dictionary's
// keys, values and items are: it has a length but no elements with an index.
enum class ListKind : uint8_t { list, tuple, generator, view };

struct List {
    std::vector<Value> items;
    ListKind kind = ListKind::list;
    size_t depth = 1;
    mutable bool is_spent = false;  // of a generator: somebody has walked through it

    // Whether it can be asked for an element by its index.
    [[nodiscard]] bool has_places() const { return kind == ListKind::list || kind == ListKind::tuple; }
};

struct Dict {
    std::vector<std::pair<Value, Value>> members;  // keys and values, in the order in which they were put in
    size_t depth = 1;
    int32_t message = -1;  // which of the chat's messages it is

    // The value of a key, or null.
    [[nodiscard]] const Value* find(std::string_view name) const;
    [[nodiscard]] const Value* find(const Value& key) const;
};

// What a dictionary may have for keys here: texts, numbers, True, False and None.
[[nodiscard]] bool is_key(const Value& value);
// Whether two keys are one to Python: 1, 1.0 and True are. A value that is no key is none's.
[[nodiscard]] bool same_key(const Value& a, const Value& b);
// -1, 0 or 1 as one number is less than another, the same or more. Neither may be NaN. Exact, as in Python, also where
// an integer has more digits than a float.
[[nodiscard]] int compare_numbers(const Value& a, const Value& b);

// A method with what it is of: `text.strip`.
struct Bound {
    Value self;
    std::string name;
};

// namespace(): the one thing that a template can change from within a loop.
struct Namespace {
    std::vector<std::pair<std::string, Value>> members;
};

// `loop` inside a for.
struct Loop {
    std::vector<Value> items;
    size_t index = 0;
    std::vector<Value> changed;  // what loop.changed was called with last
};

}  // namespace nanolith::jinja
