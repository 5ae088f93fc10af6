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

// A generator is what map, select and their like give: it can be walked through once.
enum class ListKind : uint8_t { list, tuple, generator };

struct List {
    std::vector<Value> items;
    ListKind kind = ListKind::list;
    size_t depth = 1;
    mutable bool is_spent = false;  // of a generator: somebody has walked through it
};

struct Dict {
    std::vector<std::pair<Text, Value>> members;  // in the order in which they were put in
    size_t depth = 1;
    int32_t message = -1;  // which of the chat's messages it is

    [[nodiscard]] const Value* find(std::string_view name) const;
};

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
