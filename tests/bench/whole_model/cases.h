// What is measured of a whole model, case by case, through the public interface.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "bench/whole_model/floor.h"
#include "bench/whole_model/report.h"
#include "bench/whole_model/session.h"

namespace nanolith::bench {

// How much of each case is done.
struct Workload {
    std::vector<int32_t> contexts;       // batch1: tokens of context
    int32_t tokens;                      // batch1: drawn after each of them, a multiple of kWindow
    int32_t chunk;                       // shared: tokens of the chunk
    std::vector<int32_t> conversations;  // shared: behind that chunk
    int32_t shared_tokens;               // shared, sampling: drawn by each of them
    int32_t prefill;                     // prefill: tokens
    int32_t requests;                    // random
    int32_t least, most;                 // random: tokens in and out of a request
    int32_t rows;                        // sampling: conversations
};

extern const Workload kGpuWorkload;
extern const Workload kCpuWorkload;

inline constexpr const char* kCases[] = {"load", "batch1", "shared", "random", "prefill", "sampling"};

class Cases {
  public:
    Cases(Setup setup, const Ceilings& ceilings, uint32_t seed);

    // Measures one of kCases and adds its rows.
    void run(const std::string& name);
    [[nodiscard]] const std::vector<Row>& rows() const { return rows_; }
    // The device in words.
    [[nodiscard]] std::string device_name() { return session().device(); }

  private:
    using Caches = std::vector<Cache>;

    void load();
    void batch1();
    void shared();
    void random();
    void prefill();
    void sampling();

    double batch1_at(int32_t context);
    void shared_by(const nl_chunk* chunk, int32_t count);
    double random_floor(const std::vector<int32_t>& in, const std::vector<int32_t>& out) const;

    Session& session();
    double seconds_to_create();
    Tokens random_tokens(int32_t count);
    // Conversations that have computed kPrompt tokens of their own after the chunk, and drawn one token.
    Caches conversations(int32_t count, const nl_chunk* chunk);
    // Seconds until each of the caches has drawn so many tokens. They then are as they were before.
    double seconds_to_draw(const Caches& caches, int32_t count);
    void add(Row row);

    const Setup setup_;
    const Ceilings ceilings_;
    const ModelSizes sizes_;
    const Workload& work_;
    const uint32_t seed_;
    std::mt19937 random_;
    std::unique_ptr<Session> session_;
    std::vector<Row> rows_;
};

}  // namespace nanolith::bench
