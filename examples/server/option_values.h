// The library's options by their names, as nl_option_describe tells them: what a later version adds needs no change
// here.
#pragma once

#include <map>
#include <string>

#include "handles.h"
#include "json.h"

namespace server {

struct OptionFacts {
    int32_t key = 0;
    std::string type;  // "int", "float", "text", "int list" or "text list"
    double least = 0;  // of floats
    double most = 0;
    int64_t least_int = 0;  // of ints
    int64_t most_int = 0;
};

// The options of a kind (NL_OPTIONS_*) by their names in lower case, as "top_k".
std::map<std::string, OptionFacts> options_of_kind(int32_t kind);

// Sets options of an engine from texts as "NUM_PAGES=4096".
void set_from_texts(nl_options* options, const std::vector<std::string>& texts);

}  // namespace server
