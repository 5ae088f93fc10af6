#include "text/jinja/run.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

namespace nanolith::jinja {
namespace {

// What a value of any kind takes beside the bytes of its text, roughly.
constexpr size_t kValueBytes = 64;

// A value and the count of its bytes in one allocation.
template <typename T>
struct Counted {
    Counted(T made, const std::shared_ptr<Memory>& memory, size_t bytes)
        : value(std::move(made)), held(memory, bytes) {}
    T value;
    Held held;
};

template <typename T>
Value share(T value, const std::shared_ptr<Memory>& memory, size_t bytes) {
    auto counted = std::make_shared<Counted<T>>(std::move(value), memory, bytes);
    return Value(std::shared_ptr<const T>(counted, &counted->value));
}

// Keys that are the same have the same number.
struct HashKey {
    size_t operator()(const Value* key) const {
        if (const Text* text = key->text()) return std::hash<std::string>()(text->bytes());
        return key->is_number() ? std::hash<double>()(key->number()) : 0;
    }
};
struct SameKey {
    bool operator()(const Value* a, const Value* b) const { return same_key(*a, *b); }
};

Error too_deep() {
    return fail(NL_ERROR_UNSUPPORTED, "lists and dictionaries nested deeper than ", kMaxValueDepth, " levels");
}

}  // namespace

Result<void> Run::step(uint64_t count) {
    steps_ += count;
    if (steps_ <= limits_.steps) return {};
    return fail(NL_ERROR_UNSUPPORTED, "the template takes more than ", limits_.steps, " steps");
}

Result<void> Run::check_bytes(size_t bytes) {
    NL_TRY(step(1 + bytes / 64));
    if (memory_->has(bytes)) return {};
    return fail(NL_ERROR_UNSUPPORTED, "the template's values take more than ", memory_->limit(), " bytes");
}

Result<Value> Run::text(Text text) {
    const size_t bytes = kValueBytes + text.size() + text.foreign().size() * sizeof(Range);
    NL_TRY(check_bytes(bytes));
    return share(std::move(text), memory_, bytes);
}

Result<Value> Run::list(std::vector<Value> items, ListKind kind) {
    const size_t bytes = kValueBytes + items.size() * sizeof(Value);
    NL_TRY(check_bytes(bytes));
    List list{std::move(items), kind, 1, false};
    for (const Value& item : list.items) list.depth = std::max(list.depth, item.depth() + 1);
    if (list.depth > kMaxValueDepth) return too_deep();
    return share(std::move(list), memory_, bytes);
}

Result<Value> Run::dict(std::vector<std::pair<Value, Value>> members, int32_t message) {
    Dict dict;
    dict.message = message;
    const size_t bytes = kValueBytes + members.size() * 2 * kValueBytes;
    for (const auto& [key, value] : members) {
        if (!is_key(key))
            return fail(NL_ERROR_UNSUPPORTED, "a dictionary's key of the type ", key.type_name(),
                        ", which is not supported: expected a text, a number, a bool or none");
        dict.depth = std::max(dict.depth, value.depth() + 1);
    }
    if (dict.depth > kMaxValueDepth) return too_deep();
    NL_TRY(check_bytes(bytes));
    std::unordered_map<const Value*, size_t, HashKey, SameKey> places;
    for (std::pair<Value, Value>& member : members) {
        const auto [place, is_new] = places.emplace(&member.first, dict.members.size());
        if (is_new) {
            dict.members.emplace_back(member.first, std::move(member.second));
        } else {
            dict.members[place->second].second = std::move(member.second);
        }
    }
    return share(std::move(dict), memory_, bytes);
}

Result<Value> Run::bound(const Value& self, std::string name) {
    NL_TRY(check_bytes(2 * kValueBytes));
    return share(Bound{self, std::move(name)}, memory_, 2 * kValueBytes);
}

// Namespaces and loops stay until the rendering's end: they can hold one another, in rings too.
Result<Namespace*> Run::make_namespace() {
    NL_TRY(check_bytes(4 * kValueBytes));
    held_.push_back(std::make_unique<Held>(memory_, 4 * kValueBytes));
    namespaces_.push_back(std::make_unique<Namespace>());
    return namespaces_.back().get();
}

Result<Loop*> Run::make_loop(std::vector<Value> items) {
    const size_t bytes = 2 * kValueBytes + items.size() * sizeof(Value);
    NL_TRY(check_bytes(bytes));
    held_.push_back(std::make_unique<Held>(memory_, bytes));
    loops_.push_back(std::make_unique<Loop>());
    loops_.back()->items = std::move(items);
    return loops_.back().get();
}

Result<bool> equal(Run& run, const Value& a, const Value& b) {
    NL_TRY(run.step());
    if (a.is_number() && b.is_number())
        return !std::isnan(a.number()) && !std::isnan(b.number()) && compare_numbers(a, b) == 0;
    if (a.data().index() != b.data().index()) return false;
    if (const Text* text = a.text()) {
        NL_TRY(run.step(std::min(text->size(), b.text()->size()) / 64));
        return text->bytes() == b.text()->bytes();
    }
    if (const List* list = a.list()) {
        const auto& others = b.list()->items;
        if (!list->has_places() && list != b.list())
            return fail(NL_ERROR_UNSUPPORTED, "a comparison of generators or views of dictionaries");
        if (list->items.size() != others.size() || list->kind != b.list()->kind) return false;
        for (size_t i = 0; i < others.size(); ++i) {
            NL_ASSIGN(const bool same, equal(run, list->items[i], others[i]));
            if (!same) return false;
        }
        return true;
    }
    if (const Dict* dict = a.dict()) {
        if (dict->members.size() != b.dict()->members.size()) return false;
        for (const auto& [key, value] : dict->members) {
            NL_TRY(run.step(dict->members.size() / 8));
            const Value* const other = b.dict()->find(key);
            if (other == nullptr) return false;
            NL_ASSIGN(const bool same, equal(run, value, *other));
            if (!same) return false;
        }
        return true;
    }
    if (const auto* bound = a.as<std::shared_ptr<const Bound>>()) {
        const Bound& other = **b.as<std::shared_ptr<const Bound>>();
        if ((*bound)->name != other.name) return false;
        return equal(run, (*bound)->self, other.self);
    }
    if (const auto* ns = a.as<Namespace*>()) return *ns == *b.as<Namespace*>();
    if (const auto* loop = a.as<Loop*>()) return *loop == *b.as<Loop*>();
    if (const auto* macro = a.as<const MacroNode*>()) return *macro == *b.as<const MacroNode*>();
    if (const auto* function = a.as<Function>()) return *function == *b.as<Function>();
    return true;  // both undefined, or none
}

Result<int> compare(Run& run, const Value& a, const Value& b) {
    NL_TRY(run.step());
    if (a.is_number() && b.is_number())
        return std::isnan(a.number()) || std::isnan(b.number()) ? 0 : compare_numbers(a, b);
    if (a.text() != nullptr && b.text() != nullptr) {
        NL_TRY(run.step(std::min(a.text()->size(), b.text()->size()) / 64));
        const int order = a.text()->bytes().compare(b.text()->bytes());  // UTF-8 sorts as its characters do
        return order < 0 ? -1 : order > 0 ? 1 : 0;
    }
    if (a.list() != nullptr && b.list() != nullptr && a.list()->has_places() && b.list()->has_places()) {
        const auto& left = a.list()->items;
        const auto& right = b.list()->items;
        for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
            NL_ASSIGN(const bool same, equal(run, left[i], right[i]));
            if (!same) return compare(run, left[i], right[i]);
        }
        return left.size() < right.size() ? -1 : left.size() > right.size() ? 1 : 0;
    }
    return fail(NL_ERROR_INVALID_ARGUMENT, "a value of the type ", a.type_name(),
                " can't be compared with one of the type ", b.type_name());
}

Result<std::vector<Value>> to_items(Run& run, const Value& value) {
    if (const List* list = value.list()) {
        NL_TRY(run.check_bytes(list->items.size() * sizeof(Value)));
        if (list->kind == ListKind::generator && std::exchange(list->is_spent, true)) return std::vector<Value>();
        return list->items;
    }
    std::vector<Value> items;
    if (value.is_undefined()) return items;
    if (const Dict* dict = value.dict()) {
        NL_TRY(run.check_bytes(dict->members.size() * sizeof(Value)));
        for (const auto& [key, unused] : dict->members) items.push_back(key);
        return items;
    }
    if (const Text* text = value.text()) {
        NL_TRY(run.check_bytes(text->size() * (kValueBytes + sizeof(Value))));
        const std::vector<size_t> offsets = character_offsets(text->view());
        for (size_t i = 0; i + 1 < offsets.size(); ++i) {
            NL_ASSIGN(Value character, run.text(text->part(offsets[i], offsets[i + 1])));
            items.push_back(std::move(character));
        }
        return items;
    }
    return fail(NL_ERROR_INVALID_ARGUMENT, "a value of the type ", value.type_name(), " can't be iterated over");
}

}  // namespace nanolith::jinja
