#include "engine/blend.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>

#include "backend/page_size.h"

namespace nanolith {
namespace {

// Rows that a probe has at least, where there are so many. More say little more, and cost as much as they do later.
constexpr int32_t kProbeRows = 64;

// Pages that a blend may have of its own where its share fills fewer: then some units of each are recomputed. They take
// little memory, and what a question asks for is often in several places.
constexpr int32_t kLeastPages = 8;

// Of at most so many tokens all are recomputed as cheaply as a probe computes its rows.
constexpr int64_t kFewTokens = kProbeRows;

}  // namespace

int32_t largest_window(const ModelSpec& spec) {
    int32_t largest = 0;
    for (const LayerSpec& layer : spec.layers) {
        if (layer.window == 0) return 0;
        largest = std::max(largest, layer.window);
    }
    return largest;
}

bool is_recomputed(const ChunkUse& use, int32_t unit) {
    return use.blended && use.blended->recomputed[unit];
}

int64_t blendable_tokens(std::span<const ChunkUse> uses) {
    int64_t tokens = 0;
    for (const ChunkUse& use : uses) tokens += use.exact ? 0 : use.length;
    return tokens;
}

bool is_better_exact(std::span<const ChunkUse> uses, double share) {
    const int64_t tokens = blendable_tokens(uses);
    return share > 0.5 || (tokens <= kFewTokens && share * static_cast<double>(tokens) < kBlendUnit);
}

// Tokens that may still be chosen.
int64_t Blend::budget(const Context& context) const {
    const auto all = static_cast<double>(blendable_tokens(context.chunks()));
    return static_cast<int64_t>(share_ * all) - progress_.chosen_tokens;
}

void Blend::begin(const Context& context, int32_t most_probe_rows) {
    const int32_t new_rows = context.tail_size() - context.tail_computed();
    if (progress_.begun && new_rows < 2) return;  // a token that was drawn
    if (!may_choose(context)) return;
    const int64_t left = budget(context);
    probe_in_flight = false;
    if (new_rows == 0 || left <= 0) return choose(context, {}, 0);  // nothing is asked yet, or may be chosen
    if (!find_probe(context, most_probe_rows)) return choose(context, {}, left);
    stage_ = Stage::probing;
}

bool Blend::find_probe(const Context& context, int32_t most_probe_rows) {
    const int32_t computed = context.tail_computed();
    const int32_t new_rows = context.tail_size() - computed;
    const int32_t wanted = std::min(kProbeRows, most_probe_rows);
    probe_ = {computed, new_rows, computed};
    if (new_rows <= wanted) return true;
    probe_.place = pages_for(computed, page_size_) * page_size_;
    probe_.num_rows = std::min(wanted, context.tail_size() - probe_.place);
    probe_.first_row = context.tail_size() - probe_.num_rows;
    return probe_.num_rows > 0;
}

int32_t Blend::first_seen(const Context& context) const {
    return window_ > 0 ? context.tail_base() + context.tail_computed() + 1 - window_ : 0;
}

double Blend::weight_of(const Context& context, size_t chunk, int32_t begin, int32_t end,
                        std::span<const float> token_weights) const {
    const int32_t base = context.chunks()[chunk].base;  // so many tokens are before it in all segments
    if (token_weights.empty()) return base + begin;
    const std::span<const float> of_part = token_weights.subspan(base + begin, end - begin);
    return std::accumulate(of_part.begin(), of_part.end(), 0.0);
}

// The pages with tokens that may be chosen.
std::vector<Blend::Part> Blend::candidates(const Context& context, std::span<const float> token_weights) const {
    std::vector<Part> pages;
    for (size_t chunk = 0; chunk < context.chunks().size(); ++chunk) {
        const ChunkUse& use = context.chunks()[chunk];
        if (use.exact) continue;
        for (int32_t begin = 0; begin < use.length; begin += page_size_) {
            const int32_t end = std::min(begin + page_size_, use.length);
            if (use.base + end <= first_seen(context)) continue;
            pages.push_back({chunk, begin, end, weight_of(context, chunk, begin, end, token_weights)});
        }
    }
    return pages;
}

// A unit that is recomputed already costs nothing, but counts among those that the first question chose: what others
// asked before does not make this conversation recompute units that weigh less.
std::vector<Blend::Part> Blend::choose_units(const Context& context, std::span<const Part> pages,
                                             std::span<const float> token_weights, int64_t most_tokens) {
    std::vector<Part> units;
    for (const Part& page : pages) {
        const ChunkUse& use = context.chunks()[page.chunk];
        for (int32_t begin = page.begin; begin < page.end; begin += kBlendUnit) {
            const int32_t end = std::min(begin + kBlendUnit, page.end);
            if (use.base + end <= first_seen(context)) continue;
            if (progress_.begun && is_recomputed(use, begin / kBlendUnit)) continue;
            units.push_back({page.chunk, begin, end, weight_of(context, page.chunk, begin, end, token_weights)});
        }
    }
    std::ranges::stable_sort(units, std::greater(), &Part::weight);
    std::erase_if(units, [&](const Part& unit) {
        const int32_t tokens = unit.end - unit.begin;
        if (tokens > most_tokens) return true;
        most_tokens -= tokens;
        progress_.chosen_tokens += tokens;
        return is_recomputed(context.chunks()[unit.chunk], unit.begin / kBlendUnit);
    });
    return units;
}

void Blend::choose(const Context& context, std::span<const float> token_weights, int64_t most_tokens) {
    std::vector<Part> pages = candidates(context, token_weights);
    std::ranges::stable_sort(pages, std::greater(), &Part::weight);
    int64_t count = 0;
    int64_t tokens = 0;
    std::erase_if(pages, [&](const Part& page) {
        const int32_t of_page = page.end - page.begin;
        if (count >= kLeastPages && tokens + of_page > most_tokens) return true;
        tokens += of_page;
        ++count;
        return false;
    });
    std::vector<Part> units = choose_units(context, pages, token_weights, most_tokens);
    std::ranges::sort(units, {}, [](const Part& unit) { return std::tuple(unit.chunk, unit.begin); });
    runs_.clear();
    num_rows_ = 0;
    planned_ = 0;
    computed_ = 0;
    has_pages = false;
    for (const Part& unit : units) {
        num_rows_ += unit.end - unit.begin;
        if (!runs_.empty() && runs_.back().chunk == unit.chunk && runs_.back().end == unit.begin) {
            runs_.back().end = unit.end;
        } else {
            runs_.push_back({unit.chunk, unit.begin, unit.end});
        }
    }
    progress_.begun = true;
    stage_ = num_rows_ > 0 ? Stage::recomputing : Stage::resting;
}

int32_t Blend::num_pages() const {
    int32_t pages = 0;
    const ChunkRun* before = nullptr;
    for (const ChunkRun& run : runs_) {
        const int32_t first = run.begin / page_size_;
        const bool is_counted =
            before != nullptr && before->chunk == run.chunk && (before->end - 1) / page_size_ == first;
        pages += pages_for(run.end, page_size_) - first - (is_counted ? 1 : 0);
        before = &run;
    }
    return pages;
}

std::vector<ChunkRun> Blend::take_rows(int32_t rows) {
    std::vector<ChunkRun> taken;
    int32_t first = 0;  // row of the run
    for (const ChunkRun& run : runs_) {
        const int32_t length = run.end - run.begin;
        const int32_t from = std::max(planned_, first);
        const int32_t to = std::min(planned_ + rows, first + length);
        if (from < to) taken.push_back({run.chunk, run.begin + from - first, run.begin + to - first});
        first += length;
    }
    planned_ += rows;
    if (rows_left() == 0) stage_ = Stage::resting;
    return taken;
}

}  // namespace nanolith
