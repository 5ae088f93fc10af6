// One rendering: its limits, and the making of values under them.
#pragma once

#include <algorithm>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/jinja/value.h"

namespace nanolith::jinja {

// How much a rendering may take. A template comes with a model and nobody vouches for it.
struct Limits {
    uint64_t steps = 20'000'000;         // nodes evaluated, and 64 bytes copied or compared each
    size_t memory = size_t{256} << 20U;  // bytes of all values at once
    size_t output = size_t{64} << 20U;   // bytes of the text
    size_t depth = 150;                  // of expressions, statements and macros inside one another
};

// Deepest nesting of lists and dictionaries.
constexpr size_t kMaxValueDepth = 80;

// Counts bytes. It lives as long as the last value that is counted.
class Memory {
  public:
    explicit Memory(size_t limit) : limit_(limit) {}
    [[nodiscard]] bool has(size_t bytes) const { return bytes <= limit_ - std::min(limit_, used_); }
    void take(size_t bytes) { used_ += bytes; }
    void give(size_t bytes) { used_ -= bytes; }
    [[nodiscard]] size_t limit() const { return limit_; }

  private:
    size_t limit_;
    size_t used_ = 0;
};

class Run {
  public:
    explicit Run(const Limits& limits) : limits_(limits), memory_(std::make_shared<Memory>(limits.memory)) {}
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

    [[nodiscard]] const Limits& limits() const { return limits_; }

    // A template that takes longer than its limit is refused.
    [[nodiscard]] Result<void> step(uint64_t count = 1);
    // Asks before something is made: its bytes count as work, and must fit the memory.
    [[nodiscard]] Result<void> check_bytes(size_t bytes);

    [[nodiscard]] Result<Value> text(Text text);
    [[nodiscard]] Result<Value> text(std::string own) { return this->text(Text(std::move(own))); }
    [[nodiscard]] Result<Value> list(std::vector<Value> items, ListKind kind = ListKind::list);
    // Where `members` has a key more than once, the dictionary has it where it came first, with the value that came
    // last, as in Python. `message`: see Dict.
    [[nodiscard]] Result<Value> dict(std::vector<std::pair<Value, Value>> members, int32_t message = -1);
    [[nodiscard]] Result<Value> bound(const Value& self, std::string name);
    [[nodiscard]] Result<Namespace*> make_namespace();
    [[nodiscard]] Result<Loop*> make_loop(std::vector<Value> items);

  private:
    Limits limits_;
    uint64_t steps_ = 0;
    std::shared_ptr<Memory> memory_;
    std::vector<std::unique_ptr<Namespace>> namespaces_;
    std::vector<std::unique_ptr<Loop>> loops_;
    std::vector<std::unique_ptr<Held>> held_;
};

// Whether two values are the same to Python's ==.
Result<bool> equal(Run& run, const Value& a, const Value& b);
// -1, 0 or 1 for two numbers, two texts or two lists; an error for others.
Result<int> compare(Run& run, const Value& a, const Value& b);
// What str() gives: a text as it is.
Result<Text> to_text(Run& run, const Value& value);
// What iterating over it gives: a list's items, a dictionary's keys, a text's characters.
Result<std::vector<Value>> to_items(Run& run, const Value& value);
// Transformers' tojson: json.dumps with ensure_ascii as asked for; `indent` below 0: on one line.
struct JsonStyle {
    bool ascii = false;
    int64_t indent = -1;
    bool sort_keys = false;
    std::string item_separator = ", ";
    std::string key_separator = ": ";
};
Result<Text> to_json(Run& run, const Value& value, const JsonStyle& style);
// A float as Python prints it.
std::string python_float(double number);
// What the JSON text stands for; its strings are foreign. INVALID_ARGUMENT begins with `where`. Elements of the array
// under the root's member `messages` know that they are messages.
Result<Value> parse_json(Run& run, std::string_view json, const std::string& where);

// `date` in a format of C's strftime, in English. Directives that are not known are an error.
Result<std::string> format_date(const std::tm& date, std::string_view format);

}  // namespace nanolith::jinja
