// strftime in English, whatever the process's locale.
#include <array>

#include "text/jinja/run.h"

namespace nanolith::jinja {
namespace {

constexpr std::array<const char*, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                              "Thursday", "Friday", "Saturday"};
constexpr std::array<const char*, 12> kMonths = {"January", "February", "March",     "April",   "May",      "June",
                                                 "July",    "August",   "September", "October", "November", "December"};

std::string padded(int number, size_t width, char pad = '0') {
    std::string text = std::to_string(number);
    return text.size() < width ? std::string(width - text.size(), pad) + text : text;
}

std::string name_of(const auto& names, int index, size_t length = std::string::npos) {
    return std::string(names.at(static_cast<size_t>(index))).substr(0, length);
}

int hour_of_12(const std::tm& date) {
    return date.tm_hour % 12 == 0 ? 12 : date.tm_hour % 12;
}

// What stands after the per cent sign; empty where that is not known. `bare`: without zeros in front, for "%-d".
std::string directive(const std::tm& date, char letter, bool bare) {
    const size_t two = bare ? 1 : 2;
    switch (letter) {
        case 'a':
            return name_of(kDays, date.tm_wday, 3);
        case 'A':
            return name_of(kDays, date.tm_wday);
        case 'b':
        case 'h':
            return name_of(kMonths, date.tm_mon, 3);
        case 'B':
            return name_of(kMonths, date.tm_mon);
        case 'd':
            return padded(date.tm_mday, two);
        case 'e':
            return padded(date.tm_mday, two, ' ');
        case 'm':
            return padded(date.tm_mon + 1, two);
        case 'y':
            return padded((date.tm_year + 1900) % 100, two);
        case 'Y':
            return std::to_string(date.tm_year + 1900);
        case 'H':
            return padded(date.tm_hour, two);
        case 'I':
            return padded(hour_of_12(date), two);
        case 'M':
            return padded(date.tm_min, two);
        case 'S':
            return padded(date.tm_sec, two);
        case 'p':
            return date.tm_hour < 12 ? "AM" : "PM";
        case 'j':
            return padded(date.tm_yday + 1, bare ? 1 : 3);
        case 'F':
            return std::to_string(date.tm_year + 1900) + "-" + padded(date.tm_mon + 1, 2) + "-" +
                   padded(date.tm_mday, 2);
        case 'T':
            return padded(date.tm_hour, 2) + ":" + padded(date.tm_min, 2) + ":" + padded(date.tm_sec, 2);
        case 'R':
            return padded(date.tm_hour, 2) + ":" + padded(date.tm_min, 2);
        case '%':
            return "%";
        default:
            return {};
    }
}

}  // namespace

Result<std::string> format_date(const std::tm& date, std::string_view format) {
    std::string text;
    for (size_t i = 0; i < format.size(); ++i) {
        if (format[i] != '%') {
            text += format[i];
            continue;
        }
        const bool bare = i + 1 < format.size() && format[i + 1] == '-';
        if (bare) ++i;
        const char letter = ++i < format.size() ? format[i] : '\0';
        const std::string part = directive(date, letter, bare);
        // %Z and %z are empty to Python: its now() knows no zone.
        if (part.empty() && letter != 'Z' && letter != 'z')
            return fail(NL_ERROR_UNSUPPORTED, "strftime_now has a directive that is not supported: ", format);
        text += part;
    }
    return text;
}

}  // namespace nanolith::jinja
