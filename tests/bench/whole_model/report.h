// What was measured: one row for each figure, as a table for people and as JSON for draw_table.py.
#pragma once

#include <string>
#include <vector>

namespace nanolith::bench {

// One figure. In the units that end in "/s" more is better, in the others less.
struct Row {
    std::string key;   // the same for every program that measures this, "shared/64" say: see peers/README.md
    std::string what;  // in words
    std::string unit;
    double value = 0;
    double floor = 0;  // the best that the ceilings allow, in the same unit; 0: not known
};

struct Report {
    std::string model;
    std::string device;
    std::string ceilings;  // in words
    std::vector<Row> rows;
};

void print(const Report& report);
// False where the file could not be written.
bool write_json(const Report& report, const std::string& path);

}  // namespace nanolith::bench
