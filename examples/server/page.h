// The files of the page at /, as they are in the folder page.
#pragma once

#include <string_view>

namespace server {

struct PageFile {
    std::string_view path;  // of the URL
    std::string_view type;
    std::string_view text;
};

extern const PageFile kPageFiles[4];

}  // namespace server
