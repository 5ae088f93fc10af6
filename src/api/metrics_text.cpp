#include "api/metrics_text.h"

#include <array>
#include <charconv>
#include <sstream>
#include <utility>

namespace nanolith::api {

namespace {

// Whatever the program's locale is.
std::string number(double value) {
    constexpr int kDigits = 9;
    std::array<char, 32> text{};
    char* const end = text.data() + text.size();
    return {text.data(), std::to_chars(text.data(), end, value, std::chars_format::general, kDigits).ptr};
}

// Writes metrics one after the other.
class Writer {
  public:
    // A metric's first two lines; its values follow.
    void begin(const std::string& name, const char* type, const char* help) {
        name_ = "nanolith_" + name;
        text_ += "# HELP " + name_ + " " + help + "\n# TYPE " + name_ + " " + type + "\n";
    }
    void value(const char* label, const std::string& of_label, int64_t value) {
        text_ += name_ + "{" + label + "=\"" + of_label + "\"} " + std::to_string(value) + "\n";
    }
    // One without labels.
    void metric(const std::string& name, const char* type, const char* help, int64_t value) {
        begin(name, type, help);
        text_ += name_ + " " + std::to_string(value) + "\n";
    }
    template <size_t kSize>
    void histogram(const std::string& name, const char* help, const Histogram<kSize>& counted) {
        begin(name, "histogram", help);
        const std::string base = std::exchange(name_, name_ + "_bucket");
        int64_t all = 0;
        for (size_t i = 0; i <= kSize; ++i) {
            all += counted.count(i);
            value("le", i < kSize ? number(counted.bounds()[i]) : "+Inf", all);
        }
        text_ += base + "_sum " + number(counted.sum()) + "\n" + base + "_count " + std::to_string(all) + "\n";
    }
    [[nodiscard]] std::string take() { return std::move(text_); }

  private:
    std::string text_;
    std::string name_;
};

struct TierNumbers {
    const char* name;
    bool there;
    int64_t chunks, bytes, hits, moves;  // -1: not known, of a server's chunks and bytes
};

void write_tiers(Writer& to, const Engine::StoreReport& report, int64_t page_bytes) {
    const StoreNumbers& counted = report.counted;
    const std::array<TierNumbers, 4> tiers = {{
        {"device", true, report.chunks, total(report.device_levels).pages * page_bytes, counted.hits,
         counted.device_moves},
        {"host", report.has_host, report.host_chunks, report.host_bytes, counted.host_hits, counted.host_moves},
        {"files", report.has_files, report.file_chunks, report.file_bytes, counted.file_hits, counted.file_moves},
        {"server", report.has_server, -1, -1, counted.server_hits, counted.server_moves},
    }};
    const auto by_tier = [&](const char* name, const char* type, const char* help, int64_t TierNumbers::*member) {
        to.begin(name, type, help);
        for (const TierNumbers& tier : tiers) {
            if (tier.there && tier.*member >= 0) to.value("tier", tier.name, tier.*member);
        }
    };
    by_tier("chunks", "gauge", "Chunks in the tier.", &TierNumbers::chunks);
    by_tier("chunk_bytes", "gauge", "Bytes of the tier's chunks.", &TierNumbers::bytes);
    by_tier("chunk_hits_total", "counter", "Requests for chunks found there.", &TierNumbers::hits);
    by_tier("chunk_moves_total", "counter", "Chunks copied there.", &TierNumbers::moves);
    to.metric("chunk_misses_total", "counter", "Requests for chunks that were computed.", counted.misses);
    to.metric("chunk_evictions_total", "counter", "Chunks evicted from the device.", counted.evictions);
    to.metric("chunk_tokens_reused_total", "counter", "Tokens of chunks that did not have to be computed.",
              counted.tokens_reused);
    to.metric("chunk_tokens_computed_total", "counter", "Tokens of chunks that had to be computed.",
              counted.tokens_computed);
    to.metric("store_saved_milliseconds", "gauge", "Time that the store has saved, an estimate.", report.saved_ms);
}

void write_loop(Writer& to, const Scheduler::Report& report) {
    const LoopMetrics& counted = report.counted;
    to.metric("requests_waiting", "gauge", "Requests that wait for their first step.", report.waiting);
    to.metric("requests_running", "gauge", "Requests that have had rows in steps.", report.running);
    to.histogram("step_seconds", "Time of a step on the device.", counted.step_seconds);
    to.histogram("step_rows", "Rows of a step.", counted.step_rows);
    to.begin("step_rows_by_kind_total", "counter", "Rows of all steps, of prefills and of conversations.");
    to.value("kind", "prefill", counted.prefill_rows);
    to.value("kind", "decode", counted.decode_rows);
    to.histogram("generation_first_token_seconds", "From a generation's start to its first token.",
                 counted.first_token_seconds);
    to.histogram("generation_token_gap_seconds", "Between tokens of a generation.", counted.token_gap_seconds);
    to.begin("generations_ended_total", "counter", "Generations by why they ended.");
    std::istringstream reasons("token text length context_full cancelled deadline error complete");
    std::string reason;
    for (size_t i = NL_END_TOKEN; i < counted.ended.size() && reasons >> reason; ++i)
        to.value("reason", reason, counted.ended[i]);
}

}  // namespace

std::string metrics_text(Engine& engine) {
    Writer writer;
    const Engine::PageCounts pages = engine.page_counts();
    writer.metric("pages", "gauge", "Pages of keys and values in the pool.", pages.total);
    writer.metric("pages_free", "gauge", "Pages on the free list.", pages.free);
    writer.metric("pages_evictable", "gauge", "Pages of chunks that nobody uses.", pages.evictable);
    writer.metric("page_bytes", "gauge", "Bytes of a page over all layers.", engine.page_bytes());
    write_tiers(writer, engine.store_report(nullptr, true), engine.page_bytes());
    write_loop(writer, engine.loop_report());
    return writer.take();
}

}  // namespace nanolith::api
