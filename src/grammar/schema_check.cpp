#include "grammar/schema_check.h"

#include <algorithm>
#include <cmath>

#include "files/json.h"
#include "grammar/grammar_limits.h"

namespace nanolith::grammar {
namespace {

enum class Use : uint8_t {
    note,        // an annotation: restricts no values
    type,        // a type's name, or an array of them
    any,         // any value
    values,      // an array of values, not empty
    number,      //
    above_zero,  // a number
    count,       // an integer from 0
    flag,        // only false is known
    pattern,     // a regular expression
    format,      //
    names,       // an array of strings
    reference,   //
    identifier,  // only at the root
    schema,      //
    schemas,     // an array of schemas, not empty
    items,       // a schema, or an array of them as older drafts have it
    by_name,     // an object of schemas
    by_pattern,  // the same, whose names are regular expressions
    draft        // which JSON Schema it is
};

struct Keyword {
    std::string_view name;
    Use use;
};

constexpr Keyword kKeywords[] = {
    {"title", Use::note},
    {"description", Use::note},
    {"default", Use::note},
    {"examples", Use::note},
    {"example", Use::note},
    {"deprecated", Use::note},
    {"readOnly", Use::note},
    {"writeOnly", Use::note},
    {"$comment", Use::note},
    {"$schema", Use::draft},
    {"$id", Use::identifier},
    {"$defs", Use::by_name},
    {"definitions", Use::by_name},
    {"$ref", Use::reference},
    {"type", Use::type},
    {"enum", Use::values},
    {"const", Use::any},
    {"allOf", Use::schemas},
    {"anyOf", Use::schemas},
    {"oneOf", Use::schemas},
    {"minimum", Use::number},
    {"maximum", Use::number},
    {"exclusiveMinimum", Use::number},
    {"exclusiveMaximum", Use::number},
    {"multipleOf", Use::above_zero},
    {"minLength", Use::count},
    {"maxLength", Use::count},
    {"pattern", Use::pattern},
    {"format", Use::format},
    {"prefixItems", Use::schemas},
    {"items", Use::items},
    {"additionalItems", Use::schema},
    {"minItems", Use::count},
    {"maxItems", Use::count},
    {"uniqueItems", Use::flag},
    {"properties", Use::by_name},
    {"patternProperties", Use::by_pattern},
    {"additionalProperties", Use::schema},
    {"propertyNames", Use::schema},
    {"required", Use::names},
    {"minProperties", Use::count},
    {"maxProperties", Use::count},
};

constexpr std::string_view kTypes[] = {"null", "boolean", "integer", "number", "string", "array", "object"};

class SchemaChecker {
  public:
    Result<void> run(const JsonValue& schema, const std::string& path, int32_t depth, bool is_root) {
        if (schema.is(JsonValue::Kind::boolean)) return {};
        if (!schema.is(JsonValue::Kind::object))
            return schema_error(NL_ERROR_INVALID_ARGUMENT, schema, path, "",
                                "it is no schema: expected an object, true or false");
        if (depth > kMaxNesting)
            return schema_error(NL_ERROR_UNSUPPORTED, schema, path, "", "schemas are nested too deep");
        for (const JsonMember& member : schema.members) {
            const auto* const known = std::ranges::find(kKeywords, member.name, &Keyword::name);
            if (known == std::end(kKeywords)) {
                if (member.name.starts_with("x-")) continue;
                return schema_error(NL_ERROR_UNSUPPORTED, member.value, path, member.name,
                                    "this keyword is not supported");
            }
            NL_TRY(check(known->use, member, path, depth, is_root));
        }
        return {};
    }

  private:
    using Kind = JsonValue::Kind;

    Result<void> check(Use use, const JsonMember& member, const std::string& path, int32_t depth, bool is_root) {
        const JsonValue& value = member.value;
        const auto wrong = [&](const std::string& expected) {
            return schema_error(NL_ERROR_INVALID_ARGUMENT, value, path, member.name, "expected " + expected);
        };
        const auto unknown = [&](const std::string& what) {
            return schema_error(NL_ERROR_UNSUPPORTED, value, path, member.name, what);
        };
        const std::string here = below(path, member.name);
        switch (use) {
            case Use::note:
            case Use::any:
                return {};
            case Use::draft:
                return value.is(Kind::string) ? Result<void>() : wrong("a string");
            case Use::type:
                return check_type(value, path);
            case Use::values:
                return value.is(Kind::array) && !value.items.empty() ? Result<void>() : wrong("an array of values");
            case Use::number:
                return value.is(Kind::number) && std::isfinite(value.number()) ? Result<void>() : wrong("a number");
            case Use::above_zero:
                if (!value.is(Kind::number) || value.number() <= 0) return wrong("a number above 0");
                if (!value.is_integer() || value.number() > 1e9)
                    return unknown("it is supported for integers up to 2000 only");
                return {};
            case Use::count:
                if (!value.is_integer() || value.number() < 0) return wrong("an integer from 0");
                return {};
            case Use::flag:
                if (!value.is(Kind::boolean)) return wrong("true or false");
                return value.truth ? unknown("true is not supported") : Result<void>();
            case Use::pattern:
                return value.is(Kind::string) ? Result<void>() : wrong("a regular expression");
            case Use::format:
                if (!value.is(Kind::string)) return wrong("a format's name");
                return expression_of(value.text).empty() ? unknown("'" + value.text + "' is not supported")
                                                         : Result<void>();
            case Use::names:
                if (!value.is(Kind::array)) return wrong("an array of names");
                for (const JsonValue& item : value.items)
                    if (!item.is(Kind::string)) return wrong("an array of names");
                return {};
            case Use::reference:
                if (!value.is(Kind::string)) return wrong("a reference");
                return value.text.starts_with('#')
                           ? Result<void>()
                           : unknown("only references within the schema, which begin with #, are supported");
            case Use::identifier:
                if (!value.is(Kind::string)) return wrong("a string");
                return is_root ? Result<void>() : unknown("it is supported at the root only");
            case Use::schema:
                return run(value, here, depth + 1, false);
            case Use::items:
                if (value.is(Kind::array)) return check_all(value, here, depth);
                return run(value, here, depth + 1, false);
            case Use::schemas:
                if (!value.is(Kind::array) || value.items.empty()) return wrong("an array of schemas");
                return check_all(value, here, depth);
            case Use::by_name:
            case Use::by_pattern:
                if (!value.is(Kind::object)) return wrong("an object of schemas");
                for (const JsonMember& inner : value.members)
                    NL_TRY(run(inner.value, below(here, inner.name), depth + 1, false));
                return {};
        }
        return {};
    }

    Result<void> check_all(const JsonValue& schemas, const std::string& path, int32_t depth) {
        for (size_t i = 0; i < schemas.items.size(); ++i)
            NL_TRY(run(schemas.items[i], below(path, std::to_string(i)), depth + 1, false));
        return {};
    }

    static Result<void> check_type(const JsonValue& value, const std::string& path) {
        const auto is_type = [](const JsonValue& name) {
            return name.is(Kind::string) && std::ranges::find(kTypes, name.text) != std::end(kTypes);
        };
        const bool good =
            value.is(Kind::array) ? !value.items.empty() && std::ranges::all_of(value.items, is_type) : is_type(value);
        if (good) return {};
        const std::string shown = value.is(Kind::string) ? show_json(value.text) : "no type";
        return schema_error(
            NL_ERROR_INVALID_ARGUMENT, value, path, "type",
            "it is " + shown +
                ": expected null, boolean, integer, number, string, array or object, or an array of these");
    }
};

struct Format {
    std::string_view name, expression;
};

// Each matches texts that every validator accepts, not all texts of the format: no leap seconds, no days that only some
// months have.
constexpr Format kFormats[] = {
    {"date", "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])$"},
    {"time", "^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"},
    {"date-time",
     "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?(Z|[+-]"
     "([01][0-9]|2[0-3]):[0-5][0-9])$"},
    {"duration", "^P([0-9]{1,4}W|([0-9]{1,4}D)(T[0-9]{1,4}H)?|T([0-9]{1,4}H|[0-9]{1,4}M|[0-9]{1,4}S))$"},
    {"email",
     "^[A-Za-z0-9]([A-Za-z0-9_+-]{0,30}[A-Za-z0-9])?@[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?(\\.[A-Za-z]{2,10}){1,"
     "2}$"},
    {"hostname", "^[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?(\\.[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?){0,3}$"},
    {"ipv4", "^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])\\.){3}(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])$"},
    {"ipv6", "^([0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}$"},
    {"uuid", "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"},
    {"uri",
     "^https?://[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?(\\.[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?){0,3}(/"
     "[A-Za-z0-9_.~-]{0,60}){0,4}$"},
};

}  // namespace

std::string_view expression_of(std::string_view format) {
    const auto* const found = std::ranges::find(kFormats, format, &Format::name);
    return found == std::end(kFormats) ? std::string_view() : found->expression;
}

Error schema_error(nl_status status, const JsonValue& at, const std::string& path, const std::string& keyword,
                   const std::string& what) {
    const std::string colon = keyword.empty() ? "" : keyword + ": ";
    return fail(status, "byte ", at.at, ", ", path.empty() ? "the root" : path, ": ", colon, what);
}

std::string below(const std::string& path, std::string_view name) {
    std::string result = path + "/";
    for (const char c : name) result += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
    return result;
}

Result<void> check_schema(const JsonValue& schema, const std::string& path, bool is_root) {
    return SchemaChecker().run(schema, path, 0, is_root);
}

const JsonValue* find_reference(const JsonValue& root, std::string_view reference) {
    reference.remove_prefix(1);
    std::string pointer;
    for (size_t i = 0; i < reference.size(); ++i) {
        const auto hex = [](char c) { return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10; };
        const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f'); };
        const bool escaped =
            reference[i] == '%' && i + 2 < reference.size() && is_hex(reference[i + 1]) && is_hex(reference[i + 2]);
        pointer += escaped ? static_cast<char>(hex(reference[i + 1]) * 16 + hex(reference[i + 2])) : reference[i];
        if (escaped) i += 2;
    }
    const JsonValue* at = &root;
    if (!pointer.empty() && pointer[0] != '/') return nullptr;
    for (size_t begin = 1; begin <= pointer.size() && !pointer.empty() && at != nullptr;) {
        const size_t end = std::min(pointer.find('/', begin), pointer.size());
        std::string name;
        for (size_t i = begin; i < end; ++i) {
            const bool escaped = pointer[i] == '~' && i + 1 < end;
            name += escaped ? (pointer[i + 1] == '0' ? '~' : '/') : pointer[i];
            if (escaped) ++i;
        }
        if (at->is(JsonValue::Kind::array)) {
            const bool index = !name.empty() && name.size() < 7 &&
                               std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
            const size_t i = index ? std::stoul(name) : at->items.size();
            at = i < at->items.size() ? &at->items[i] : nullptr;
        } else {
            at = at->find(name);
        }
        begin = end + 1;
    }
    return at;
}

}  // namespace nanolith::grammar
