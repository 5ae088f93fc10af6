// Attributes, subscripts and slices; the methods of dictionaries, lists and loops; arguments.
#include <algorithm>
#include <array>

#include "text/jinja/operations.h"

namespace nanolith::jinja {
namespace {

template <size_t n>
bool is_one_of(std::string_view name, const std::array<std::string_view, n>& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr std::array<std::string_view, 5> kDictMethods = {"get", "items", "keys", "values", "copy"};
constexpr std::array<std::string_view, 3> kListMethods = {"index", "count", "copy"};
// What would change a value: Transformers renders with a sandbox that refuses these.
constexpr std::array<std::string_view, 11> kChanging = {"append", "extend", "insert",     "pop",    "remove", "reverse",
                                                        "sort",   "clear",  "setdefault", "update", "popitem"};

bool is_list_method(ListKind kind, std::string_view name) {
    if (kind == ListKind::tuple) return name == "index" || name == "count";
    return kind == ListKind::list && (is_one_of(name, kListMethods) || is_one_of(name, kChanging));
}

Error undefined_base(const Value& value, const std::string& name) {
    const std::string* const base = value.as<Undefined>()->name;
    return fail(NL_ERROR_INVALID_ARGUMENT, base != nullptr ? *base : "a value", " is undefined, and ", name,
                " of it was asked for");
}

Result<Value> loop_attribute(Run& run, const Value& value, const Loop& loop, const std::string& name) {
    const auto size = static_cast<int64_t>(loop.items.size());
    const auto index = static_cast<int64_t>(loop.index);
    if (name == "index") return Value(index + 1);
    if (name == "index0") return Value(index);
    if (name == "revindex") return Value(size - index);
    if (name == "revindex0") return Value(size - index - 1);
    if (name == "first") return Value(index == 0);
    if (name == "last") return Value(index + 1 == size);
    if (name == "length") return Value(size);
    if (name == "depth") return Value(int64_t{1});
    if (name == "depth0") return Value(int64_t{0});
    if (name == "previtem") return index > 0 ? loop.items[loop.index - 1] : Value(Undefined{&name});
    if (name == "nextitem") return index + 1 < size ? loop.items[loop.index + 1] : Value(Undefined{&name});
    if (name == "cycle" || name == "changed") return run.bound(value, name);
    return Value(Undefined{&name});
}

// An index from the front, or size where it is out of bounds.
size_t index_from_front(int64_t index, size_t size) {
    const auto length = static_cast<int64_t>(size);
    if (index < 0) index += length;
    return index < 0 || index >= length ? size : static_cast<size_t>(index);
}

Result<Value> dict_method(Run& run, const Dict& dict, const std::string& name, Arguments arguments) {
    NL_TRY(run.step(1 + dict.members.size() / 8));
    if (name == "get") {
        NL_TRY(arguments.bind(name, {"key", "default"}));
        if (arguments.values[0] == nullptr) return fail(NL_ERROR_INVALID_ARGUMENT, "get() without a key");
        NL_TRY(check_key(*arguments.values[0]));
        const Value* const found = dict.find(*arguments.values[0]);
        if (found != nullptr) return *found;
        return arguments.values[1] != nullptr ? *arguments.values[1] : Value();
    }
    NL_TRY(arguments.bind(name, {}));
    if (name == "copy") return run.dict(dict.members, dict.message);
    std::vector<Value> items;
    for (const auto& [key, value] : dict.members) {
        if (name == "items") {
            NL_ASSIGN(Value pair, run.list({key, value}, ListKind::tuple));
            items.push_back(std::move(pair));
        } else {
            items.push_back(name == "keys" ? key : value);
        }
    }
    return run.list(std::move(items), ListKind::view);
}

Result<Value> list_method(Run& run, const List& list, const std::string& name, Arguments arguments) {
    if (name == "copy") return run.list(list.items);
    NL_TRY(arguments.bind(name, {"value"}));
    if (arguments.values[0] == nullptr) return fail(NL_ERROR_INVALID_ARGUMENT, name, "() without a value");
    int64_t count = 0;
    for (size_t i = 0; i < list.items.size(); ++i) {
        NL_ASSIGN(const bool same, equal(run, list.items[i], *arguments.values[0]));
        if (same && name == "index") return Value(static_cast<int64_t>(i));
        count += same ? 1 : 0;
    }
    if (name == "count") return Value(count);
    return fail(NL_ERROR_INVALID_ARGUMENT, "index() of a value that is not in the list");
}

Result<Value> loop_method(Run& run, Loop& loop, const std::string& name, Arguments arguments) {
    if (name == "cycle") {
        if (arguments.positional.empty()) return fail(NL_ERROR_INVALID_ARGUMENT, "loop.cycle() without values");
        return arguments.positional[loop.index % arguments.positional.size()];
    }
    bool same = loop.changed.size() == arguments.positional.size();
    for (size_t i = 0; same && i < loop.changed.size(); ++i) {
        NL_ASSIGN(same, equal(run, loop.changed[i], arguments.positional[i]));
    }
    loop.changed = std::move(arguments.positional);
    return Value(!same);
}

}  // namespace

Result<void> check_key(const Value& value) {
    const bool is_list = value.list() != nullptr && value.list()->kind == ListKind::list;
    if (is_list || value.dict() != nullptr)
        return fail(NL_ERROR_INVALID_ARGUMENT, "a value of the type ", value.type_name(),
                    " is looked for in a dictionary: expected one that can be a key");
    if (value.list() != nullptr && value.list()->kind == ListKind::tuple) {
        for (const Value& item : value.list()->items) NL_TRY(check_key(item));
    }
    return {};
}

Result<void> Arguments::bind(std::string_view what, std::initializer_list<std::string_view> parameters) {
    if (positional.size() > parameters.size())
        return fail(NL_ERROR_INVALID_ARGUMENT, what, "() has ", positional.size(), " arguments: expected at most ",
                    parameters.size());
    values.assign(parameters.size(), nullptr);
    for (size_t i = 0; i < positional.size(); ++i) values[i] = &positional[i];
    for (const auto& [name, value] : named) {
        const auto* const place = std::find(parameters.begin(), parameters.end(), name);
        if (place == parameters.end() || values[static_cast<size_t>(place - parameters.begin())] != nullptr)
            return fail(NL_ERROR_INVALID_ARGUMENT, what, "() has an argument ", name, ": expected none, or one");
        values[static_cast<size_t>(place - parameters.begin())] = &value;
    }
    return {};
}

Result<int64_t> Arguments::integer(size_t i, int64_t otherwise) const {
    if (values[i] == nullptr || values[i]->is_none()) return otherwise;
    if (values[i]->is_integer()) return values[i]->integer();
    return fail(NL_ERROR_INVALID_ARGUMENT, "an argument of the type ", values[i]->type_name(), ": expected an integer");
}

Result<const Text*> Arguments::text(size_t i) const {
    if (values[i] == nullptr || values[i]->is_none()) return static_cast<const Text*>(nullptr);
    if (values[i]->text() != nullptr) return values[i]->text();
    return fail(NL_ERROR_INVALID_ARGUMENT, "an argument of the type ", values[i]->type_name(), ": expected a text");
}

bool Arguments::truth(size_t i, bool otherwise) const {
    return values[i] != nullptr ? values[i]->truth() : otherwise;
}

Result<Value> get_attribute(Run& run, const Value& value, const std::string& name) {
    if (value.is_undefined()) return undefined_base(value, name);
    if (const Dict* dict = value.dict()) {
        // As in Python a method hides a member of its name.
        if (is_one_of(name, kDictMethods) || is_one_of(name, kChanging)) return run.bound(value, name);
        NL_TRY(run.step(dict->members.size() / 8));
        const Value* const found = dict->find(name);
        return found != nullptr ? *found : Value(Undefined{&name});
    }
    if (value.text() != nullptr && is_text_method(name)) return run.bound(value, name);
    if (value.list() != nullptr && is_list_method(value.list()->kind, name)) return run.bound(value, name);
    if (const auto* ns = value.as<Namespace*>()) {
        for (const auto& [member, inner] : (*ns)->members) {
            if (member == name) return inner;
        }
    }
    if (const auto* loop = value.as<Loop*>()) return loop_attribute(run, value, **loop, name);
    return Value(Undefined{&name});
}

Result<Value> get_item(Run& run, const Value& value, const Value& key) {
    if (const Text* name = key.text()) {
        if (value.is_undefined()) return undefined_base(value, name->bytes());
        if (const Dict* dict = value.dict()) {
            NL_TRY(run.step(dict->members.size() / 8));
            const Value* const found = dict->find(name->view());
            if (found != nullptr) return *found;
        }
        NL_ASSIGN(Value attribute, get_attribute(run, value, name->bytes()));
        return attribute.is_undefined() ? Value(Undefined{}) : std::move(attribute);
    }
    if (value.is_undefined()) return undefined_base(value, "an element");
    if (const Dict* dict = value.dict()) {
        NL_TRY(run.step(dict->members.size() / 8));
        const Value* const found = dict->find(key);
        return found != nullptr ? *found : Value(Undefined{});
    }
    if (!key.is_integer()) return Value(Undefined{});
    if (const List* list = value.list(); list != nullptr && list->has_places()) {
        const size_t index = index_from_front(key.integer(), list->items.size());
        return index < list->items.size() ? list->items[index] : Value(Undefined{});
    }
    if (const Text* text = value.text()) {
        NL_TRY(run.step(text->size() / 16));
        const std::vector<size_t> offsets = character_offsets(text->view());
        const size_t index = index_from_front(key.integer(), offsets.size() - 1);
        if (index + 1 < offsets.size()) return run.text(text->part(offsets[index], offsets[index + 1]));
    }
    return Value(Undefined{});
}

Result<Value> get_slice(Run& run, const Value& value, const Value& begin, const Value& end, const Value& step) {
    if (value.text() == nullptr && (value.list() == nullptr || !value.list()->has_places())) {
        if (value.is_undefined()) return undefined_base(value, "a slice");
        return fail(NL_ERROR_INVALID_ARGUMENT, "a slice of a value of the type ", value.type_name());
    }
    for (const Value* bound : {&begin, &end, &step}) {
        if (!bound->is_none() && !bound->is_integer())
            return fail(NL_ERROR_INVALID_ARGUMENT, "a slice's bound of the type ", bound->type_name(),
                        ": expected an integer");
    }
    const int64_t stride = step.is_none() ? 1 : step.integer();
    if (stride == 0 || stride == INT64_MIN) return fail(NL_ERROR_INVALID_ARGUMENT, "a slice's step is ", stride);
    std::vector<size_t> offsets;
    if (const Text* text = value.text()) {
        NL_TRY(run.check_bytes(text->size() * sizeof(size_t)));
        offsets = character_offsets(text->view());
    }
    const auto size = static_cast<int64_t>(value.text() != nullptr ? offsets.size() - 1 : value.list()->items.size());
    const auto place = [&](const Value& bound, int64_t otherwise) {
        if (bound.is_none()) return otherwise;
        const int64_t index = bound.integer() < 0 ? bound.integer() + size : bound.integer();
        return std::clamp(index, stride < 0 ? int64_t{-1} : int64_t{0}, stride < 0 ? size - 1 : size);
    };
    const int64_t first = place(begin, stride < 0 ? size - 1 : 0);
    const int64_t last = place(end, stride < 0 ? -1 : size);
    if (value.text() != nullptr && stride == 1) {
        const auto from = static_cast<size_t>(std::min(first, last));
        return run.text(value.text()->part(offsets[from], offsets[static_cast<size_t>(last)]));
    }
    std::vector<Value> items;
    Text text;
    for (int64_t i = first; stride > 0 ? i < last : i > last;) {
        const auto at = static_cast<size_t>(i);
        NL_TRY(run.step());
        if (value.text() != nullptr) {
            text.append_part(*value.text(), offsets[at], offsets[at + 1]);
        } else {
            items.push_back(value.list()->items[at]);
        }
        if (__builtin_add_overflow(i, stride, &i)) break;
    }
    return value.text() != nullptr ? run.text(std::move(text)) : run.list(std::move(items), value.list()->kind);
}

Result<Value> get_path(Run& run, const Value& value, const std::string& path) {
    Value at = value;
    for (size_t begin = 0; begin <= path.size();) {
        const size_t end = std::min(path.find('.', begin), path.size());
        const std::string name = path.substr(begin, end - begin);
        const bool is_number =
            !name.empty() && name.size() < 10 && name.find_first_not_of("0123456789") == std::string::npos;
        const Value key = is_number ? Value(int64_t{std::stoll(name)}) : Value(std::make_shared<const Text>(name));
        NL_ASSIGN(at, get_item(run, at, key));
        begin = end + 1;
    }
    return at;
}

Result<Value> call_method(Run& run, const Bound& method, Arguments arguments) {
    if (const auto* loop = method.self.as<Loop*>()) return loop_method(run, **loop, method.name, std::move(arguments));
    if (const Text* text = method.self.text()) return call_text_method(run, *text, method.name, std::move(arguments));
    if (is_one_of(method.name, kChanging))
        return fail(NL_ERROR_INVALID_ARGUMENT, method.name, "() would change a value, which templates may not");
    if (const Dict* dict = method.self.dict()) return dict_method(run, *dict, method.name, std::move(arguments));
    return list_method(run, *method.self.list(), method.name, std::move(arguments));
}

}  // namespace nanolith::jinja
