#include "metrics.h"

#include <cmath>
#include <cstdio>

namespace server {
namespace {

constexpr std::array<const char*, kNumOutcomes> kOutcomes = {"answered", "refused", "rejected", "cancelled", "failed"};

void head(std::string& out, const std::string& name, const char* type, const std::string& help) {
    out += "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
}

std::string number(double value) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.9g", value);
    return text.data();
}

void simple(std::string& out, const std::string& name, const char* type, const std::string& help, int64_t value) {
    head(out, name, type, help);
    out += name + " " + std::to_string(value) + "\n";
}

// A label's value: quotes, backslashes and line ends are escaped.
std::string label(const std::string& text) {
    std::string out;
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        out += c == '\n' ? ' ' : c;
    }
    return out;
}

}  // namespace

void Histogram::add(double value, uint64_t count) {
    size_t i = 0;
    while (i < bounds_.size() && value > bounds_[i]) ++i;
    counts_[i].fetch_add(count, std::memory_order_relaxed);
    sum_micros_.fetch_add(static_cast<uint64_t>(std::llround(value * 1e6 * static_cast<double>(count))),
                          std::memory_order_relaxed);
}

void Histogram::write(std::string& out, const std::string& name, const std::string& help) const {
    head(out, name, "histogram", help);
    uint64_t all = 0;
    for (size_t i = 0; i < counts_.size(); ++i) {
        all += counts_[i].load(std::memory_order_relaxed);
        const std::string bound = i < bounds_.size() ? number(bounds_[i]) : "+Inf";
        out.append(name).append("_bucket{le=\"").append(bound).append("\"} ");
        out.append(std::to_string(all)).append("\n");
    }
    out += name + "_sum " + number(static_cast<double>(sum_micros_.load(std::memory_order_relaxed)) * 1e-6) + "\n";
    out += name + "_count " + std::to_string(all) + "\n";
}

std::string Metrics::text(const nl_engine* engine, const std::string& model) const {
    std::string out;
    head(out, "nanolith_info", "gauge", "The library's version and the model.");
    out += std::string("nanolith_info{version=\"") + nl_version() + "\",model=\"" + label(model) + "\"} 1\n";
    head(out, "nanolith_requests_total", "counter", "Requests for answers by what became of them.");
    for (size_t i = 0; i < kNumOutcomes; ++i)
        out += std::string("nanolith_requests_total{outcome=\"") + kOutcomes[i] + "\"} " +
               std::to_string(outcomes_[i].load(std::memory_order_relaxed)) + "\n";
    simple(out, "nanolith_queue_depth", "gauge", "Answers that wait for their first token.", waiting);
    simple(out, "nanolith_answers_running", "gauge", "Answers that have their first token.", running);
    simple(out, "nanolith_connections", "gauge", "Connections that are open.", connections);
    simple(out, "nanolith_prompt_tokens_total", "counter", "Tokens of prompts.", static_cast<int64_t>(prompt_tokens));
    simple(out, "nanolith_prompt_tokens_cached_total", "counter", "Tokens of prompts that were not computed.",
           static_cast<int64_t>(cached_tokens));
    simple(out, "nanolith_answer_tokens_total", "counter", "Tokens of answers.", static_cast<int64_t>(answer_tokens));
    first_token.write(out, "nanolith_first_token_seconds", "From a request's arrival to its first token.");
    token_gap.write(out, "nanolith_token_gap_seconds", "Between tokens of an answer.");
    total.write(out, "nanolith_answer_seconds", "From a request's arrival to the end of its answer.");
    out += text_of([&](char* buffer, size_t capacity, size_t* length) {
        return nl_engine_metrics(engine, buffer, capacity, length);
    });
    return out;
}

}  // namespace server
