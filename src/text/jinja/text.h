// Strings that remember which of their bytes somebody else wrote: a chat's messages, tools and documents. Whatever a
// template does with them, those bytes are never read as a special token.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace nanolith::jinja {

// Bytes from `begin` to before `end` of a text.
struct Range {
    size_t begin;
    size_t end;
};

// Valid UTF-8, with ranges of it that are foreign: sorted, not empty, and none touches another.
class Text {
  public:
    Text() = default;
    explicit Text(std::string bytes) : bytes_(std::move(bytes)) {}
    // All of it foreign.
    static Text foreign(std::string bytes);

    [[nodiscard]] const std::string& bytes() const { return bytes_; }
    [[nodiscard]] std::string_view view() const { return bytes_; }
    [[nodiscard]] size_t size() const { return bytes_.size(); }
    [[nodiscard]] bool empty() const { return bytes_.empty(); }
    [[nodiscard]] const std::vector<Range>& foreign() const { return foreign_; }
    // Whether a byte of the range is foreign.
    [[nodiscard]] bool has_foreign(size_t begin, size_t end) const;
    // Marked by the filter "safe": Jinja escapes for HTML what is put beside it.
    [[nodiscard]] bool is_safe() const { return is_safe_; }
    void mark_safe() { is_safe_ = true; }

    // Bytes from `begin` to before `end`.
    [[nodiscard]] Text part(size_t begin, size_t end) const;
    void append(std::string_view own) { bytes_ += own; }
    void append(const Text& other) { append_part(other, 0, other.size()); }
    void append_part(const Text& other, size_t begin, size_t end);
    // Bytes that stand for foreign ones: an escape, a letter in another case.
    void append_foreign(std::string_view bytes);

  private:
    void mark(size_t begin, size_t end);

    std::string bytes_;
    std::vector<Range> foreign_;
    bool is_safe_ = false;
};

// Python's str.strip, lstrip and rstrip: the bytes that are left. With `characters` null, white space goes, else the
// characters in it.
Range strip_range(std::string_view text, const std::string* characters, bool front, bool back);

// Where each character of `text` begins, and its end.
std::vector<size_t> character_offsets(std::string_view text);
size_t count_characters(std::string_view text);

}  // namespace nanolith::jinja
