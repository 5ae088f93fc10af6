#include "bench/whole_model/report.h"

#include <cstdio>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "nanolith/nanolith.h"

namespace nanolith::bench {
namespace {

bool more_is_better(const std::string& unit) {
    return unit.size() > 2 && unit.compare(unit.size() - 2, 2, "/s") == 0;
}

// As many decimals as four digits need.
std::string number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.*f", value >= 1000 ? 0 : value >= 10 ? 1 : 3, value);
    return text;
}

std::string today() {
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    char text[16];
    std::strftime(text, sizeof text, "%Y-%m-%d", gmtime_r(&now, &utc));
    return text;
}

}  // namespace

void print(const Report& report) {
    std::printf("\n%s on %s, nanolith %s\n", report.model.c_str(), report.device.c_str(), nl_version());
    if (!report.ceilings.empty()) std::printf("floors: %s\n", report.ceilings.c_str());
    std::printf("%-52s %10s %10s %10s  %s\n", "", "measured", "floor", "of it", "unit");
    for (const Row& row : report.rows) {
        std::string floor;
        std::string share;
        if (row.floor > 0) {
            floor = number(row.floor);
            const double part = more_is_better(row.unit) ? row.value / row.floor : row.floor / row.value;
            share = number(100 * part) + "%";
        }
        std::printf("%-52s %10s %10s %10s  %s\n", row.what.c_str(), number(row.value).c_str(), floor.c_str(),
                    share.c_str(), row.unit.c_str());
    }
}

bool write_json(const Report& report, const std::string& path) {
    nlohmann::ordered_json json = {{"program", "nanolith"},
                                   {"version", nl_version()},
                                   {"model", report.model},
                                   {"device", report.device},
                                   {"date", today()},
                                   {"ceilings", report.ceilings},
                                   {"rows", nlohmann::ordered_json::array()}};
    for (const Row& row : report.rows) {
        nlohmann::ordered_json entry = {{"key", row.key}, {"value", row.value}, {"unit", row.unit}};
        if (row.floor > 0) entry["floor"] = row.floor;
        json["rows"].push_back(entry);
    }
    std::ofstream file(path);
    file << json.dump(2) << "\n";
    return static_cast<bool>(file.flush());
}

}  // namespace nanolith::bench
