// JSON to values. Not by way of files/json.h: names keep their order here, which templates print.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "files/json.h"
#include "text/jinja/run.h"

namespace nanolith::jinja {
namespace {

// Builds values out of nlohmann's parser events. An event that returns false ends the parse.
class ValueBuilder final : public nlohmann::json_sax<nlohmann::json> {
  public:
    explicit ValueBuilder(Run& run) : run_(&run) {}

    bool null() override { return add(Value()); }
    bool boolean(bool value) override { return add(Value(value)); }
    bool number_integer(int64_t value) override { return add(Value(value)); }
    bool number_unsigned(uint64_t value) override {
        if (value > INT64_MAX) return refuse("a number of more than 63 bits");
        return add(Value(static_cast<int64_t>(value)));
    }
    bool number_float(double value, const std::string& text) override {
        if (text.find_first_of(".eE") == std::string::npos) return refuse("a number of more than 63 bits");
        return add(Value(value));
    }
    bool string(std::string& value) override { return add(run_->text(Text::foreign(std::move(value)))); }
    bool binary(binary_t& /*value*/) override { return false; }  // JSON text has none
    bool start_object(size_t /*size*/) override { return open(false); }
    bool start_array(size_t /*size*/) override { return open(true); }
    bool key(std::string& name) override {
        Result<Value> text = run_->text(Text::foreign(std::move(name)));
        if (!text.ok()) return refuse_with(std::move(text.error()));
        open_.back().names.push_back(std::move(*text));
        return true;
    }
    bool end_object() override {
        Open top = std::move(open_.back());
        open_.pop_back();
        std::vector<std::pair<Value, Value>> members;
        for (size_t i = 0; i < top.names.size(); ++i) {
            if (in_messages() && top.names[i].text()->bytes() == "role" && !own_role(top.values[i])) return false;
            members.emplace_back(std::move(top.names[i]), std::move(top.values[i]));
        }
        return add(run_->dict(std::move(members), in_messages() ? static_cast<int32_t>(open_[1].values.size()) : -1));
    }
    bool end_array() override {
        std::vector<Value> items = std::move(open_.back().values);
        open_.pop_back();
        return add(run_->list(std::move(items)));
    }
    bool parse_error(size_t position, const std::string& /*token*/,
                     const nlohmann::detail::exception& /*error*/) override {
        return refuse("not well-formed JSON at byte " + std::to_string(position));
    }

    [[nodiscard]] const Error& problem() const { return problem_; }
    Value finish() { return std::move(root_); }

  private:
    // An array or an object that has begun.
    struct Open {
        bool is_array = false;
        std::vector<Value> names;  // texts
        std::vector<Value> values;
    };

    // Whether what ends now is an element of the root's "messages".
    [[nodiscard]] bool in_messages() const {
        return open_.size() == 2 && open_[1].is_array && !open_[0].names.empty() &&
               open_[0].names.back().text()->bytes() == "messages";
    }
    // A role is a word of the program that asks, not of those who wrote the messages: some templates make a token of
    // it.
    bool own_role(Value& role) {
        const auto is_plain = [](char c) {
            return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
        };
        const Text* const text = role.text();
        if (text == nullptr || !std::all_of(text->bytes().begin(), text->bytes().end(), is_plain)) return true;
        Result<Value> own = run_->text(text->bytes());
        if (!own.ok()) return refuse_with(std::move(own.error()));
        role = std::move(*own);
        return true;
    }
    bool refuse(const std::string& problem) {
        problem_ = fail(NL_ERROR_INVALID_ARGUMENT, problem);
        return false;
    }
    bool refuse_with(Error problem) {
        problem_ = std::move(problem);
        return false;
    }
    bool open(bool is_array) {
        if (open_.size() == static_cast<size_t>(kMaxJsonDepth))
            return refuse("JSON nested deeper than " + std::to_string(kMaxJsonDepth) + " levels");
        open_.push_back({is_array, {}, {}});
        return true;
    }
    bool add(Result<Value> value) {
        if (!value.ok()) return refuse_with(std::move(value.error()));
        if (open_.empty()) {
            root_ = std::move(*value);
        } else {
            open_.back().values.push_back(std::move(*value));
        }
        return true;
    }

    Run* run_;
    std::vector<Open> open_;
    Value root_;
    Error problem_;
};

}  // namespace

Result<Value> parse_json(Run& run, std::string_view json, const std::string& where) {
    // The parser would take a zero byte for the end of the text and let anything follow.
    if (const size_t zero = json.find('\0'); zero != std::string_view::npos)
        return fail(NL_ERROR_INVALID_ARGUMENT, where, ": not well-formed JSON: a zero byte at ", zero);
    ValueBuilder builder(run);
    if (!nlohmann::json::sax_parse(json.begin(), json.end(), &builder))
        return fail(builder.problem().status, where, ": ", builder.problem().message);
    return builder.finish();
}

}  // namespace nanolith::jinja
