#include "files/json.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "files/open_file.h"
#include "files/serde_number.h"

namespace nanolith {
namespace {

bool before(const JsonMember& a, const JsonMember& b) {
    return a.name < b.name;
}

// Builds the tree out of nlohmann's parser events. nlohmann's own tree is not used, since its destructor allocates and
// so ends the program where memory has run out. An event that returns false ends the parse.
class TreeBuilder final : public nlohmann::json_sax<nlohmann::json> {
  public:
    explicit TreeBuilder(bool like_serde) : like_serde_(like_serde) {}
    bool null() override { return add(Json()); }
    bool boolean(bool value) override { return add(Json(Json::Value(value))); }
    bool number_integer(int64_t value) override { return add(Json(Json::Value(value))); }
    bool number_unsigned(uint64_t value) override { return add(Json(Json::Value(value))); }
    bool number_float(double value, const std::string& text) override {
        return add(Json(Json::Value(like_serde_ ? serde_number(text) : value)));
    }
    bool string(std::string& value) override { return add(Json(Json::Value(std::move(value)))); }
    bool binary(binary_t& /*value*/) override { return false; }  // JSON text has none
    bool start_object(size_t /*size*/) override { return open(Json(Json::Value(Json::Object()))); }
    bool start_array(size_t /*size*/) override { return open(Json(Json::Value(Json::Array()))); }
    bool end_array() override { return close(); }
    bool key(std::string& name) override {
        // A reader that takes the first of two and one that takes the last would see two different files: end_object
        // looks for both, once they are sorted.
        open_[depth_ - 1]->as<Json::Object>()->push_back({std::move(name), Json()});
        return true;
    }
    bool end_object() override {
        Json::Object& members = *open_[depth_ - 1]->as<Json::Object>();
        std::sort(members.begin(), members.end(), before);
        const auto twice = std::adjacent_find(members.begin(), members.end(),
                                              [](const auto& a, const auto& b) { return a.name == b.name; });
        if (twice == members.end()) return close();
        problem_ = "the key " + show_json(twice->name) + " occurs twice in one object";
        return false;
    }
    bool parse_error(size_t position, const std::string& /*token*/,
                     const nlohmann::detail::exception& /*error*/) override {
        problem_ = "not well-formed JSON at byte " + std::to_string(position);
        return false;
    }

    // What ended the parse.
    [[nodiscard]] const std::string& problem() const { return problem_; }
    Json finish() { return std::move(root_); }

  private:
    // Puts a value where it belongs: the root, the last member's value, or the end of an array.
    Json& place(Json value) {
        if (depth_ == 0) return root_ = std::move(value);
        Json& parent = *open_[depth_ - 1];
        if (auto* members = parent.as<Json::Object>()) return members->back().value = std::move(value);
        return parent.as<Json::Array>()->emplace_back(std::move(value));
    }
    bool add(Json value) {
        place(std::move(value));
        return true;
    }
    bool open(Json value) {
        if (depth_ == open_.size()) {
            problem_ = "JSON nested deeper than " + std::to_string(kMaxJsonDepth) + " levels";
            return false;
        }
        Json& placed = place(std::move(value));
        open_[depth_++] = &placed;
        return true;
    }
    bool close() {
        --depth_;
        return true;
    }

    bool like_serde_;
    Json root_;
    // The objects and arrays that the parser is inside of, the root first. None of them moves: what holds one grows
    // only after it has been closed.
    std::array<Json*, kMaxJsonDepth> open_{};
    size_t depth_ = 0;
    std::string problem_;
};

}  // namespace

// Out of line, since the header's Json::Object is a vector of a type that is not complete there yet.
Json::Json() = default;
Json::Json(Value value) : value_(std::move(value)) {}
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(Json&& other) noexcept = default;
Json::~Json() = default;

const Json* Json::find(std::string_view name) const {
    const auto* members = as<Object>();
    if (members == nullptr) return nullptr;
    const auto found =
        std::lower_bound(members->begin(), members->end(), name,
                         [](const JsonMember& member, std::string_view key) { return member.name < key; });
    return found == members->end() || found->name != name ? nullptr : &found->value;
}

namespace {

Result<Json> parse(std::string_view text, const std::string& where, size_t max_bytes, bool like_serde) {
    if (text.size() > max_bytes) {
        return fail(NL_ERROR_BAD_MODEL, where, ": ", text.size(), " bytes of JSON: expected at most ", max_bytes);
    }
    // JSON has no zero bytes; the parser would take one for the end of the text and let anything follow.
    if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
        return fail(NL_ERROR_BAD_MODEL, where, ": not well-formed JSON: a zero byte at ", zero);
    }
    TreeBuilder builder(like_serde);
    if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) {
        return fail(NL_ERROR_BAD_MODEL, where, ": ", builder.problem());
    }
    Json json = builder.finish();
    if (json.as<Json::Object>() == nullptr) {
        return fail(NL_ERROR_BAD_MODEL, where, ": the JSON is ", show_json(json), ": expected an object");
    }
    return json;
}

}  // namespace

Result<Json> parse_json_object(std::string_view text, const std::string& where, size_t max_bytes) {
    return parse(text, where, max_bytes, false);
}

Result<Json> parse_json_like_serde(std::string_view text, const std::string& where, size_t max_bytes) {
    return parse(text, where, max_bytes, true);
}

Result<Json> read_json_object(const std::string& path) {
    NL_ASSIGN(const std::string text, read_file(path, kMaxJsonBytes));
    return parse_json_object(text, path);
}

}  // namespace nanolith
