#include "text/jinja/value.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/run.h"

namespace nanolith::jinja {

int64_t Value::integer() const {
    const bool* const truth = as<bool>();
    return truth != nullptr ? int64_t{*truth} : *as<int64_t>();
}

double Value::number() const {
    const double* const real = as<double>();
    return real != nullptr ? *real : static_cast<double>(integer());
}

const Text* Value::text() const {
    const auto* const text = as<std::shared_ptr<const Text>>();
    return text != nullptr ? text->get() : nullptr;
}

const List* Value::list() const {
    const auto* const list = as<std::shared_ptr<const List>>();
    return list != nullptr ? list->get() : nullptr;
}

const Dict* Value::dict() const {
    const auto* const dict = as<std::shared_ptr<const Dict>>();
    return dict != nullptr ? dict->get() : nullptr;
}

bool Value::truth() const {
    if (is_undefined() || is_none()) return false;
    if (is_number()) return number() != 0;
    if (const Text* string = text()) return !string->empty();
    if (const List* items = list()) return items->kind == ListKind::generator || !items->items.empty();
    if (const Dict* members = dict()) return !members->members.empty();
    return true;
}

size_t Value::depth() const {
    if (const List* items = list()) return items->depth;
    if (const Dict* members = dict()) return members->depth;
    if (const auto* bound = as<std::shared_ptr<const Bound>>()) return (*bound)->self.depth() + 1;
    return 0;
}

const char* Value::type_name() const {
    struct Names {
        const char* operator()(const Undefined&) const { return "Undefined"; }
        const char* operator()(const None&) const { return "None"; }
        const char* operator()(bool) const { return "bool"; }
        const char* operator()(int64_t) const { return "int"; }
        const char* operator()(double) const { return "float"; }
        const char* operator()(const std::shared_ptr<const Text>&) const { return "str"; }
        const char* operator()(const std::shared_ptr<const List>& list) const {
            constexpr const char* kNames[] = {"list", "tuple", "generator", "dict view"};
            return kNames[static_cast<size_t>(list->kind)];
        }
        const char* operator()(const std::shared_ptr<const Dict>&) const { return "dict"; }
        const char* operator()(const std::shared_ptr<const Bound>&) const { return "method"; }
        const char* operator()(Namespace*) const { return "Namespace"; }
        const char* operator()(Loop*) const { return "LoopContext"; }
        const char* operator()(const MacroNode*) const { return "Macro"; }
        const char* operator()(Function) const { return "function"; }
    };
    return std::visit(Names{}, data_);
}

Held::Held(std::shared_ptr<Memory> memory, size_t bytes) : memory_(std::move(memory)), bytes_(bytes) {
    memory_->take(bytes_);
}

Held::~Held() {
    memory_->give(bytes_);
}

const Value* Dict::find(std::string_view name) const {
    const auto found = std::find_if(members.begin(), members.end(), [&](const auto& member) {
        return member.first.text() != nullptr && member.first.text()->view() == name;
    });
    return found != members.end() ? &found->second : nullptr;
}

const Value* Dict::find(const Value& key) const {
    const auto found =
        std::find_if(members.begin(), members.end(), [&](const auto& member) { return same_key(member.first, key); });
    return found != members.end() ? &found->second : nullptr;
}

bool is_key(const Value& value) {
    return value.text() != nullptr || value.is_none() || (value.is_number() && !std::isnan(value.number()));
}

bool same_key(const Value& a, const Value& b) {
    if (!is_key(a) || !is_key(b)) return false;
    if (a.text() != nullptr && b.text() != nullptr) return a.text()->bytes() == b.text()->bytes();
    if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
    return a.is_none() && b.is_none();
}

int compare_numbers(const Value& a, const Value& b) {
    const auto order = [](auto x, auto y) { return x < y ? -1 : x > y ? 1 : 0; };
    if (a.is_integer() && b.is_integer()) return order(a.integer(), b.integer());
    if (!a.is_integer() && !b.is_integer()) return order(a.number(), b.number());
    if (!a.is_integer()) return -compare_numbers(b, a);
    const double real = b.number();
    constexpr double kEnd = 9223372036854775808.0;  // 2^63, one more than the greatest integer
    if (real >= kEnd || real < -kEnd) return real > 0 ? -1 : 1;
    const double whole = std::trunc(real);
    const int by_whole = order(a.integer(), static_cast<int64_t>(whole));
    return by_whole != 0 ? by_whole : order(whole, real);
}

}  // namespace nanolith::jinja
