#include "engine/blend.h"

#include <algorithm>
#include <tuple>

#include "backend/page_size.h"

namespace nanolith {
namespace {

// Rows that a probe has at least, where there are so many. More say little more, and cost as much as they do later.
constexpr int32_t kProbeRows = 64;

// Whether the chunk's first token was computed as the first of a context, and so became an attention sink (Xiao et al.,
// Efficient Streaming Language Models with Attention Sinks).
bool begins_with_sink(const ChunkUse& use) {
    return use.chunk->identity->before.empty();
}

}  // namespace

int32_t largest_window(const ModelSpec& spec) {
    int32_t largest = 0;
    for (const LayerSpec& layer : spec.layers) {
        if (layer.window == 0) return 0;
        largest = std::max(largest, layer.window);
    }
    return largest;
}

bool is_recomputed(const ChunkUse& use, int32_t page) {
    return use.blended && (*use.blended)[page] != use.chunk->pages[page];
}

BlendSize blend_size(std::span<const ChunkUse> uses, int32_t page_size) {
    BlendSize size;
    for (const ChunkUse& use : uses) {
        if (use.exact) continue;
        size.all += use.length;
        if (begins_with_sink(use)) size.first_pages += std::min(use.length, page_size);
    }
    return size;
}

int32_t Blend::tokens_of(const Context& context, const Page& page) const {
    const int32_t begin = page.index * page_size_;
    return std::min(page_size_, context.chunks()[page.chunk].length - begin);
}

// Tokens that may still be chosen, first pages that are not yet included.
int64_t Blend::budget(const Context& context) const {
    const auto all = static_cast<double>(blend_size(context.chunks(), page_size_).all);
    return static_cast<int64_t>(share_ * all) - progress_.chosen_tokens;
}

void Blend::begin(const Context& context, int32_t most_probe_rows) {
    const int32_t new_rows = context.tail_size() - context.tail_computed();
    if (progress_.begun && new_rows < 2) return;  // a token that was drawn
    if (!may_choose(context)) return;
    const int64_t left = budget(context);
    const int64_t first_pages = progress_.begun ? 0 : blend_size(context.chunks(), page_size_).first_pages;
    probe_in_flight = false;
    if (new_rows == 0 || left <= first_pages) return choose(context, {}, 0);  // nothing is asked yet, or may be chosen
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

std::vector<Blend::Page> Blend::candidates(const Context& context, std::span<const float> page_weights) const {
    const int32_t next_row = context.tail_base() + context.tail_computed();
    const int32_t first_seen = window_ > 0 ? next_row + 1 - window_ : 0;  // by the rows that follow
    std::vector<Page> pages;
    size_t next = 0;
    for (size_t chunk = 0; chunk < context.chunks().size(); ++chunk) {
        const ChunkUse& use = context.chunks()[chunk];
        for (int32_t page = 0; page < pages_for(use.length, page_size_); ++page) {
            const auto nearness = static_cast<float>(use.base + page * page_size_);
            const float weight = page_weights.empty() ? nearness : page_weights[next++];
            if (use.exact) continue;
            if (use.base + std::min(use.length, (page + 1) * page_size_) <= first_seen) continue;
            pages.push_back({chunk, page, weight, !progress_.begun && page == 0 && begins_with_sink(use),
                             is_recomputed(use, page)});
        }
    }
    return pages;
}

void Blend::choose(const Context& context, std::span<const float> page_weights, int64_t most_tokens) {
    std::vector<Page> pages = candidates(context, page_weights);
    std::ranges::stable_sort(pages, [](const Page& a, const Page& b) {
        return a.is_first != b.is_first ? a.is_first : a.weight > b.weight;
    });
    keep_chosen(context, pages, most_tokens);
    std::ranges::sort(pages, {}, [](const Page& page) { return std::tuple(page.chunk, page.index); });
    runs_.clear();
    num_rows_ = 0;
    planned_ = 0;
    computed_ = 0;
    has_pages = false;
    for (const Page& page : pages) {
        const int32_t begin = page.index * page_size_;
        const int32_t tokens = tokens_of(context, page);
        num_rows_ += tokens;
        if (!runs_.empty() && runs_.back().chunk == page.chunk && runs_.back().end == begin) {
            runs_.back().end += tokens;
        } else {
            runs_.push_back({page.chunk, begin, begin + tokens});
        }
    }
    progress_.begun = true;
    stage_ = num_rows_ > 0 ? Stage::recomputing : Stage::resting;
}

// A page that is recomputed already costs nothing, but counts among those that the first question chose: what others
// asked before does not make this conversation recompute pages that weigh less.
void Blend::keep_chosen(const Context& context, std::vector<Page>& pages, int64_t most_tokens) {
    std::erase_if(pages, [&](const Page& page) {
        if (page.is_recomputed && progress_.begun) return true;
        const int32_t tokens = tokens_of(context, page);
        if (!page.is_first && tokens > most_tokens) return true;
        most_tokens -= tokens;
        progress_.chosen_tokens += tokens;
        return page.is_recomputed;
    });
}

int32_t Blend::num_pages() const {
    int32_t pages = 0;
    for (const Run& run : runs_) pages += pages_for(run.end - run.begin, page_size_);
    return pages;
}

std::vector<Blend::Run> Blend::take_rows(int32_t rows) {
    std::vector<Run> taken;
    int32_t first = 0;  // row of the run
    for (const Run& run : runs_) {
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
