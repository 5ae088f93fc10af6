// The facts of the ABI: their names and units, for nl_fact_describe and for sentences about facts that there are not.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace nanolith::api {

struct Fact {
    int32_t kind;  // NL_FACTS_*
    int32_t key;   // NL_ENGINE_* and so on
    const char* name;
    const char* unit;
    const char* doc;
};

// All facts of a kind in the order of their keys; none of an unknown one.
std::span<const Fact> facts_of(int32_t kind);

// What the fact is called in JSON: its name in lower case.
std::string key_in_json(const Fact& fact);

// What a query of a fact that the kind does not have gives; its facts are called NL_`prefix`_*.
Error unknown_fact(int32_t kind, int32_t fact, const char* prefix);

}  // namespace nanolith::api
