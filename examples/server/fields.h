// Reads the members of a request's JSON object one by one, and refuses what nobody asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "json.h"

namespace server {

// Each call names a field; null counts as absent. A value of the wrong kind or out of bounds is an ApiError that names
// the field. `finish` refuses fields that no call has named, so that nothing is ignored silently.
class Fields {
  public:
    // `object` must live as long as this. `where` stands before names in errors, as "stream_options.".
    explicit Fields(const Json& object, std::string where = "");

    // The value whatever it is; null where it is absent.
    const Json& any(const std::string& name);
    std::optional<std::string> text(const std::string& name);
    std::optional<bool> boolean(const std::string& name);
    std::optional<int64_t> integer(const std::string& name, int64_t least, int64_t most);
    std::optional<double> number(const std::string& name, double least, double most);
    // A text, or a list of at most `most` of them; `is_text` is whether it was one alone.
    std::vector<std::string> texts(const std::string& name, size_t most, bool* is_text = nullptr);
    // A list of whole numbers, at most `most` of them.
    std::vector<int32_t> integers(const std::string& name, size_t most);
    // A list; null where it is absent.
    const Json& list(const std::string& name, size_t most);
    // An object; null where it is absent.
    const Json& object(const std::string& name);

    // A field that is refused unless its value is one of `harmless`, which ask for nothing.
    void refuse(const std::string& name, std::initializer_list<Json> harmless, const std::string& why);

    [[nodiscard]] std::string path(const std::string& name) const { return where_ + name; }
    void finish() const;

  private:
    const Json* object_;
    std::string where_;
    std::set<std::string> named_;
};

}  // namespace server
