// Blended composition of one conversation: which tokens of its chunks are recomputed with the whole context in view,
// and how far that has come. They are those to which the conversation's own tokens attend most, up to a share of all:
// among them are a chunk's first tokens where these have become attention sinks (Xiao et al., Efficient Streaming
// Language Models with Attention Sinks). All other tokens are used as they were prefilled. A page with a recomputed
// token is copied for the conversation; all other pages stay shared.
//
// Tokens are chosen in two steps, so that most pages stay shared: the pages of the highest weight, as many as the share
// fills, or a few where it fills less; and in these the units (kBlendUnit) of the highest weight, up to the share.
//
// A request upon the sequence first has the rows of its new tokens, or the last of them, compute once over the chunks
// as they are (probing), then the rows of the chosen tokens (recomputing), and then its tokens. The engine's mutex
// guards all of it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/model_spec.h"
#include "kv/context.h"

namespace nanolith {

// What a probe is given: rows [first_row, first_row + num_rows) of the sequence's tail, the last ones. Their keys and
// values lie meanwhile where the rows from `place` on will have theirs: right after the computed rows where the probe
// has all rows that follow these, else from the beginning of a page on.
struct ProbeRows {
    int32_t first_row = 0;
    int32_t num_rows = 0;
    int32_t place = 0;
};

// What a blend has chosen since the conversation was made.
struct BlendProgress {
    bool begun = false;         // the first tokens have been chosen
    int64_t chosen_tokens = 0;  // so far
};

class Blend {
  public:
    enum class Stage : uint8_t { resting, probing, recomputing };
    // `window`: see largest_window(). `progress`: that of the conversation, where it is loaded from a file.
    Blend(double share, int32_t page_size, int32_t window, BlendProgress progress = {})
        : share_(share), page_size_(page_size), window_(window), progress_(progress) {}

    [[nodiscard]] double share() const { return share_; }
    [[nodiscard]] const BlendProgress& progress() const { return progress_; }

    [[nodiscard]] Stage stage() const { return stage_; }
    [[nodiscard]] bool resting() const { return stage_ == Stage::resting; }

    // Begins a request whose sequence has tokens that are not computed. `most_probe_rows`: 0 where there is nothing to
    // probe with.
    void begin(const Context& context, int32_t most_probe_rows);
    // Whether a later request may choose tokens: its probe then has every row that is not computed.
    [[nodiscard]] bool may_choose(const Context& context) const {
        return !progress_.begun || budget(context) >= page_size_;
    }

    // ---- Probing
    [[nodiscard]] const ProbeRows& probe_rows() const { return probe_; }
    bool probe_in_flight = false;
    // Chooses what to recompute by the token weights of the chunks (backend/batch.h), each chunk's in order.
    void choose(const Context& context, std::span<const float> token_weights) {
        choose(context, token_weights, budget(context));
    }

    // ---- Recomputing: the rows are the tokens of the runs, in order
    [[nodiscard]] const std::vector<ChunkRun>& runs() const { return runs_; }
    // Pages in which the rows lie.
    [[nodiscard]] int32_t num_pages() const;
    [[nodiscard]] int32_t rows_left() const { return num_rows_ - planned_; }
    // The next `rows` rows, as runs. They then count as planned; after the last one the stage is resting.
    std::vector<ChunkRun> take_rows(int32_t rows);
    // So many more rows are computed. True: the last of them is.
    bool computed(int32_t rows) {
        computed_ += rows;
        return computed_ == num_rows_;
    }
    bool has_pages = false;  // the runs have pages of the conversation's own

  private:
    // Tokens [begin, end) of a chunk that may be recomputed: a page, or a unit.
    struct Part {
        size_t chunk;
        int32_t begin;
        int32_t end;
        double weight;
    };
    [[nodiscard]] bool find_probe(const Context& context, int32_t most_probe_rows);
    // `token_weights` is empty where there was no probe: tokens nearest to the tail are taken first.
    void choose(const Context& context, std::span<const float> token_weights, int64_t most_tokens);
    [[nodiscard]] std::vector<Part> candidates(const Context& context, std::span<const float> token_weights) const;
    // The units of the pages, the heaviest first, that are chosen and not recomputed yet.
    std::vector<Part> choose_units(const Context& context, std::span<const Part> pages,
                                   std::span<const float> token_weights, int64_t most_tokens);
    // How much is attended to tokens [begin, end) of a chunk.
    [[nodiscard]] double weight_of(const Context& context, size_t chunk, int32_t begin, int32_t end,
                                   std::span<const float> token_weights) const;
    // The first token that a row which follows sees, by its position.
    [[nodiscard]] int32_t first_seen(const Context& context) const;
    [[nodiscard]] int64_t budget(const Context& context) const;

    const double share_;
    const int32_t page_size_;
    const int32_t window_;
    Stage stage_ = Stage::resting;
    BlendProgress progress_;
    ProbeRows probe_;
    std::vector<ChunkRun> runs_;
    int32_t num_rows_ = 0;  // of the runs
    int32_t planned_ = 0;
    int32_t computed_ = 0;
};

// The largest attention window of the model's layers, in tokens; 0 where a layer attends to the whole context.
int32_t largest_window(const ModelSpec& spec);
// Whether tokens of this unit of the conversation's chunk are recomputed already.
bool is_recomputed(const ChunkUse& use, int32_t unit);
// Tokens of chunks used at these places that a blend may recompute.
int64_t blendable_tokens(std::span<const ChunkUse> uses);
// Whether exact composition, whose chunks later caches share, is better than a blend of these chunks: where the share
// is above a half, and where the tokens are few and the share of them is less than a unit.
bool is_better_exact(std::span<const ChunkUse> uses, double share);

}  // namespace nanolith
