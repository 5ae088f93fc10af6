// What nanolith.h says, read as text: constants, and the marks after the keys of options.
#pragma once

#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <string>

namespace nanolith::test {

struct HeaderConstant {
    int64_t value = 0;
    std::string mark;  // "NL_TAKES_INT"; empty where there is none
};

// The constants of enums whose names begin with `prefix`, by what follows it.
inline std::map<std::string, HeaderConstant> header_constants(const std::string& prefix) {
    std::ifstream file(NL_HEADER);
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    const std::regex pattern("\\b" + prefix + R"(([A-Z0-9_]+) = (\d+)(?: (NL_TAKES_[A-Z_]+))?)");
    std::map<std::string, HeaderConstant> found;
    for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match)
        found[(*match)[1]] = {std::stoll((*match)[2]), (*match)[3]};
    return found;
}

}  // namespace nanolith::test
