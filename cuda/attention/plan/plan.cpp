#include "attention/plan/plan.h"

#include <algorithm>
#include <cmath>

namespace nanolith::cuda {

namespace {

constexpr int kNarrowVectors = 16;
constexpr int kPageTokens = 16;     // of each entry of NarrowItem::pages
constexpr int kMiddleVectors = 64;  // of the portable kernel's items whose warps share the tokens
constexpr int kFewParts = 4;        // results of others that an item merges in one go
// Microseconds until partial results are merged.
constexpr double kMergeCost = 2.0;

int32_t tiles_of(const Span& span) {
    return static_cast<int32_t>(divide_up(span.end_token - span.first_token, kNarrowTokens));
}

// Of a narrow item.
int most_vectors(const PlanShape& shape) {
    return shape.kernel == NarrowKernel::portable ? kMiddleVectors : kNarrowVectors;
}

}  // namespace

int narrow_blocks(const PlanShape& shape) {
    const int on_each = shape.kernel == NarrowKernel::hopper ? 1 : 2;
    return std::max(1, on_each * shape.multiprocessors / shape.num_kv_heads);
}

HeadGroups head_groups(const PlanShape& shape) {
    const int heads = std::min(shape.heads_per_kv(), std::max(most_vectors(shape), shape.wide_vectors));
    return {heads, static_cast<int32_t>(divide_up(shape.heads_per_kv(), heads))};
}

namespace {

// Partial vectors that cascades may bring beside those of cut lines.
int64_t cascade_allowance(const PlanShape& shape, int64_t max_rows) {
    return 2 * std::min<int64_t>(max_rows, 512) * shape.heads_per_kv();
}

}  // namespace

PartialBounds partial_bounds(const PlanShape& shape, int64_t max_rows) {
    // A line is cut where a block's share ends, so the pieces of cut lines are at most twice the blocks.
    const int64_t cascades = cascade_allowance(shape, max_rows);
    PartialBounds bounds;
    bounds.narrow = int64_t{2} * narrow_blocks(shape) * most_vectors(shape) + cascades;
    if (shape.wide_vectors > 0)
        bounds.wide = 2 * (shape.multiprocessors / shape.num_kv_heads + 1) * shape.wide_vectors + cascades;
    return bounds;
}

PlanBounds plan_bounds(const PlanShape& shape, int64_t rows, int64_t sequences, int64_t segments) {
    const int64_t cascade_rows = cascade_allowance(shape, rows) / 2 / shape.heads_per_kv();
    const int64_t rows_a_line = std::max(1, most_vectors(shape) / shape.heads_per_kv());
    const int64_t units = head_groups(shape).count;
    const int64_t flat_lines = (std::min(rows, sequences) + rows / rows_a_line) * units;
    const int64_t cascade_lines = (segments / 2 + cascade_rows / rows_a_line) * units;
    const int64_t cuts = int64_t{2} * narrow_blocks(shape);
    const int64_t wide_cuts = 2 * (shape.multiprocessors / shape.num_kv_heads + 1);
    PlanBounds bounds;
    bounds.queries = rows + cascade_rows;
    // The pieces of a cut line have spans of their own.
    bounds.spans = 2 * (flat_lines * segments + cascade_lines) + cuts + wide_cuts;
    bounds.narrow = flat_lines + cascade_lines + cuts;
    if (shape.wide_vectors > 0) {
        const int64_t lines = (rows + cascade_rows) / std::max(1, shape.wide_vectors / shape.heads_per_kv()) * units;
        bounds.wide = lines + (sequences + segments / 2) * units + wide_cuts;
    }
    return bounds;
}

AttentionPlanner::AttentionPlanner(const PlanShape& shape, int64_t max_rows)
    : shape_(shape),
      units_(head_groups(shape)),
      max_cascade_partials_(cascade_allowance(shape, max_rows)),
      max_partials_(partial_bounds(shape, max_rows)) {}

const AttentionPlan& AttentionPlanner::plan(const AttentionStep& input) {
    // Lines that end before others do, and cascades, bring partial results: there may be no room for all of them.
    constexpr struct {
        bool cascades;
        bool overlap;
    } kAttempts[] = {{true, true}, {true, false}, {false, false}};
    for (const auto& attempt : kAttempts) {
        if (shape_.batch_invariant && (attempt.cascades || attempt.overlap)) continue;
        build(input, attempt.cascades, attempt.overlap);
        if (place_partials(input.positions.size())) break;
    }
    emit(input);
    return plan_;
}

void AttentionPlanner::build(const AttentionStep& input, bool with_cascades, bool with_overlap) {
    plan_.queries.clear();
    plan_.spans.clear();
    plan_.narrow.clear();
    plan_.wide.clear();
    plan_.partials.clear();
    lines_.clear();
    cuts_.clear();
    cascaded_.assign(input.segments.size(), 0);
    cascade_partials_ = 0;
    if (with_cascades) find_cascades(input);
    for (const Sequence& sequence : input.sequences) add_sequence(input, sequence);
    choose_overlap(with_overlap);
    cut_narrow();
    cut_wide();
}

// ---- Lines ----------------------------------------------------------------------------------------------

void AttentionPlanner::find_cascades(const AttentionStep& input) {
    if (input.sequences.size() < 2) return;
    uses_.clear();
    for (size_t i = 0; i < input.sequences.size(); ++i) {
        const Sequence& sequence = input.sequences[i];
        for (int32_t j = 0; j < sequence.num_segments; ++j) {
            uses_.push_back({sequence.first_segment + j, static_cast<int32_t>(i)});
        }
    }
    const auto key = [&](const Use& use) {
        const Segment& segment = input.segments[static_cast<size_t>(use.segment)];
        return std::pair(segment.first_page, segment.length);
    };
    std::sort(uses_.begin(), uses_.end(),
              [&](const Use& a, const Use& b) { return std::pair(key(a), a.segment) < std::pair(key(b), b.segment); });
    for (size_t first = 0; first < uses_.size();) {
        size_t end = first + 1;
        while (end < uses_.size() && key(uses_[end]) == key(uses_[first])) ++end;
        const std::span<const Use> uses(&uses_[first], end - first);
        if (uses.size() > 1 && worth_cascading(input, uses)) add_cascade(input, uses);
        first = end;
    }
}

bool AttentionPlanner::worth_cascading(const AttentionStep& input, std::span<const Use> uses) const {
    const Segment& segment = input.segments[static_cast<size_t>(uses.front().segment)];
    const double tiles = static_cast<double>(divide_up(segment.length, kNarrowTokens));
    int64_t rows = 0;
    int64_t flat_lines = 0;
    for (const Use& use : uses) {
        const int32_t own = input.sequences[static_cast<size_t>(use.sequence)].num_rows;
        rows += own;
        flat_lines += count_lines(own);
    }
    const int64_t vectors = rows * shape_.heads_per_kv();
    if (cascade_partials_ + 2 * vectors > max_cascade_partials_) return false;
    const double unit = static_cast<double>(shape_.tile_bytes) * shape_.num_kv_heads / kMemoryRate;
    const double saved = static_cast<double>(flat_lines - count_lines(rows)) * tiles * unit;
    // Of each vector two partial results are written and read: 4 head_dims of float32, a sixteenth of a tile.
    const double spent = kMergeCost + static_cast<double>(vectors) * unit / 16;
    return saved > spent;
}

int AttentionPlanner::tile_vectors(int64_t vectors) const {
    if (vectors <= kNarrowVectors || shape_.batch_invariant) return kNarrowVectors;
    return shape_.wide_vectors > 0 ? shape_.wide_vectors : most_vectors(shape_);
}

int32_t AttentionPlanner::rows_per_line(int64_t rows) const {
    // Where a line begins follows from the window of its first row.
    if (shape_.batch_invariant && shape_.window > 0) return 1;
    return std::max(1, tile_vectors(rows * shape_.heads_per_kv()) / shape_.heads_per_kv());
}

int64_t AttentionPlanner::count_lines(int64_t rows) const {
    return divide_up(rows, rows_per_line(rows)) * units_.count;
}

void AttentionPlanner::add_cascade(const AttentionStep& input, std::span<const Use> uses) {
    const Segment& segment = input.segments[static_cast<size_t>(uses.front().segment)];
    const auto first_query = static_cast<int32_t>(plan_.queries.size());
    for (const Use& use : uses) {
        cascaded_[static_cast<size_t>(use.segment)] = 1;
        const Sequence& sequence = input.sequences[static_cast<size_t>(use.sequence)];
        const int32_t base = input.segments[static_cast<size_t>(use.segment)].base;
        for (int32_t i = 0; i < sequence.num_rows; ++i) {
            const int32_t row = sequence.first_row + i;
            plan_.queries.push_back({row, input.positions[static_cast<size_t>(row)] - base});
        }
    }
    const auto num_rows = static_cast<int32_t>(plan_.queries.size()) - first_query;
    cascade_partials_ += int64_t{2} * num_rows * shape_.heads_per_kv();
    const auto span = static_cast<int32_t>(plan_.spans.size());
    plan_.spans.push_back({segment.first_page, 0, segment.length, 0});
    const int32_t step = rows_per_line(num_rows);
    for (int32_t first = 0; first < num_rows; first += step) {
        add_line(first_query + first, std::min(step, num_rows - first), num_rows, span, 1);
    }
}

void AttentionPlanner::add_sequence(const AttentionStep& input, const Sequence& sequence) {
    const auto first_query = static_cast<int32_t>(plan_.queries.size());
    for (int32_t i = 0; i < sequence.num_rows; ++i) {
        const int32_t row = sequence.first_row + i;
        plan_.queries.push_back({row, input.positions[static_cast<size_t>(row)]});
    }
    bool cascades = false;
    for (int32_t i = 0; i < sequence.num_segments; ++i) {
        cascades = cascades || cascaded_[static_cast<size_t>(sequence.first_segment + i)] != 0;
    }
    const int32_t step = rows_per_line(sequence.num_rows);
    for (int32_t first = 0; first < sequence.num_rows; first += step) {
        const int32_t rows = std::min(step, sequence.num_rows - first);
        const auto span = static_cast<int32_t>(plan_.spans.size());
        const int32_t spans = add_spans(input, sequence, first, first + rows - 1);
        // Rows that see nothing here and nothing elsewhere still need an output.
        if (spans > 0 || !cascades) add_line(first_query + first, rows, sequence.num_rows, span, spans);
    }
}

int32_t AttentionPlanner::add_spans(const AttentionStep& input, const Sequence& sequence, int32_t first_row,
                                    int32_t last_row) {
    const int32_t first_position = input.positions[static_cast<size_t>(sequence.first_row + first_row)];
    const int32_t last_position = input.positions[static_cast<size_t>(sequence.first_row + last_row)];
    int32_t spans = 0;
    for (int32_t i = 0; i < sequence.num_segments; ++i) {
        const auto index = static_cast<size_t>(sequence.first_segment + i);
        if (cascaded_[index] != 0) continue;
        const Segment& segment = input.segments[index];
        Span span{segment.first_page, 0, segment.length, segment.base};
        if (shape_.causal) {
            span.end_token = std::min(span.end_token, last_position - segment.base + 1);
            if (shape_.window > 0) {
                const int32_t seen = first_position - segment.base - shape_.window + 1;
                span.first_token = std::max(0, seen) / kNarrowTokens * kNarrowTokens;
            }
        }
        if (span.first_token >= span.end_token) continue;
        plan_.spans.push_back(span);
        ++spans;
    }
    return spans;
}

void AttentionPlanner::add_line(int32_t first_query, int32_t num_rows, int32_t all_rows, int32_t first_span,
                                int32_t num_spans) {
    const int vectors = tile_vectors(int64_t{all_rows} * shape_.heads_per_kv());
    for (int32_t unit = 0; unit < units_.count; ++unit) {
        Line line{};
        line.item.first_query = first_query;
        line.item.first_vector = unit * units_.heads;
        line.item.num_vectors = num_rows * std::min(units_.heads, shape_.heads_per_kv() - line.item.first_vector);
        line.item.first_span = first_span;
        line.item.num_spans = num_spans;
        line.item.partial = -1;
        line.wide = vectors > most_vectors(shape_);
        for (int32_t i = 0; i < num_spans; ++i)
            line.tiles += tiles_of(plan_.spans[static_cast<size_t>(first_span + i)]);
        lines_.push_back(line);
    }
}

// ---- Cuts -----------------------------------------------------------------------------------------------

// Microseconds that the narrow lines take, predicted.
double AttentionPlanner::narrow_cost(int64_t lines, int64_t tiles, int64_t longest, int blocks) const {
    const int64_t share = divide_up(tiles, blocks);
    const double rate = std::min(kBlockRate, kMemoryRate / (static_cast<double>(blocks) * shape_.num_kv_heads));
    const bool cuts = share < longest || (lines > blocks && share % longest != 0);
    const double together = std::max(1.0, static_cast<double>(blocks) * shape_.num_kv_heads / shape_.multiprocessors);
    return static_cast<double>(share) * shape_.tile_bytes / rate + (cuts ? kMergeCost : 0.0) +
           kItemCost * static_cast<double>(divide_up(lines, blocks) - 1) / together;
}

int AttentionPlanner::choose_blocks(int64_t lines, int64_t tiles, int64_t longest) const {
    const int most = narrow_blocks(shape_);
    const int one_each = std::max(1, shape_.multiprocessors / shape_.num_kv_heads);
    int best = most;
    double best_cost = narrow_cost(lines, tiles, longest, most);
    const auto consider = [&](int64_t blocks) {
        if (blocks < 1 || blocks > most) return;
        const double cost = narrow_cost(lines, tiles, longest, static_cast<int>(blocks));
        if (cost >= best_cost) return;
        best_cost = cost;
        best = static_cast<int>(blocks);
    };
    for (const int64_t limit : {int64_t{one_each}, int64_t{most}}) {
        consider(limit);
        consider(limit / lines * lines);                      // as many blocks for each line
        consider(divide_up(lines, divide_up(lines, limit)));  // as many lines for each block
    }
    for (int64_t pieces = 1; pieces * lines <= one_each; pieces *= 2) consider(pieces * lines);
    return best;
}

void AttentionPlanner::choose_overlap(bool allowed) {
    wide_tiles_.clear();
    OverlapWork work;
    int32_t span = -1;  // of the latest wide line
    for (const Line& line : lines_) {
        if (line.wide) {
            wide_tiles_.push_back(line.tiles);
            if (line.item.first_span != span) work.read_tiles += line.tiles;
            span = line.item.first_span;
        } else if (allowed) {
            ++work.narrow_lines;
            work.narrow_tiles += line.tiles;
        }
    }
    work.wide_tiles = wide_tiles_;
    overlap_ = cuda::choose_overlap(shape_, work);
}

AttentionPlanner::Shares AttentionPlanner::choose_shares(int64_t lines, int64_t tiles, int64_t longest) const {
    if (overlap_.early == 0) return {choose_blocks(lines, tiles, longest), 0, 0, 0, 1};
    // Who waits for wide items that take longer than predicted loses more than who doesn't wait.
    const double ahead = 1.25 * overlap_.ahead;
    const int blocks = overlap_.late_share > 0 ? narrow_blocks(shape_) : overlap_.early;
    return {blocks, overlap_.early, ahead, overlap_.share, overlap_.late_share};
}

void AttentionPlanner::cut_narrow() {
    int64_t lines = 0;
    int64_t tiles = 0;
    int64_t longest = 1;
    for (const Line& line : lines_) {
        if (line.wide) continue;
        ++lines;
        tiles += line.tiles;
        longest = std::max<int64_t>(longest, line.tiles);
    }
    if (lines == 0) return;
    const Shares shares = choose_shares(lines, tiles, longest);
    const auto worth_a_cut = static_cast<int32_t>((kMergeCost + kItemCost) * kBlockRate / shape_.tile_bytes);
    int32_t block = -1;
    int32_t share = 0;
    int32_t room = 0;
    const auto begin_block = [&] {
        ++block;
        // What blocks in front have left goes to all that follow.
        const int early = std::max(0, shares.early - block);
        const int late = shares.blocks - block - early;
        const double mine = block < shares.early ? shares.early_share : shares.share;
        const double all = early * shares.early_share + late * shares.share;
        share = std::max(1, static_cast<int32_t>(std::ceil(static_cast<double>(tiles) * mine / all)));
        room = share;
    };
    begin_block();
    for (size_t i = 0; i < lines_.size(); ++i) {
        Line& line = lines_[i];
        if (line.wide) continue;
        int32_t done = 0;
        do {
            const int32_t left = line.tiles - done;
            // A block may take a little more so that a line is not cut for it, if that takes no longer than merging.
            const int32_t slack = shares.early > 0 ? worth_a_cut : std::min(share / 16, worth_a_cut);
            if (room <= slack && left > room && block + 1 < shares.blocks) begin_block();
            const bool last = block + 1 == shares.blocks;
            const int32_t take = shape_.batch_invariant || last || left <= room + slack ? left : room;
            line.last_cut = static_cast<int32_t>(cuts_.size());
            cuts_.push_back({static_cast<int32_t>(i), done, take, block});
            ++line.pieces;
            const bool waits = block < shares.early && share - room <= shares.ahead;
            line.early = block < shares.early && (waits || line.early);
            done += take;
            room -= take;
            tiles -= take;
        } while (done < line.tiles);
    }
}

void AttentionPlanner::cut_wide() {
    int64_t tiles = 0;
    for (const int32_t line : wide_tiles_) tiles += line;
    for (size_t i = 0; i < lines_.size(); ++i) {
        Line& line = lines_[i];
        if (!line.wide) continue;
        const int32_t step = wide_step(line.tiles, tiles, overlap_.places);
        int32_t done = 0;
        do {
            const int32_t take = std::min(step, line.tiles - done);
            cuts_.push_back({static_cast<int32_t>(i), done, take, -1});
            ++line.pieces;
            done += take;
        } while (done < line.tiles);
    }
}

// ---- Items ----------------------------------------------------------------------------------------------

template <typename Visit>
void AttentionPlanner::for_each_unit(const Line& line, const Visit& visit) const {
    const int32_t heads = std::min(units_.heads, shape_.heads_per_kv() - line.item.first_vector);
    const int32_t unit = line.item.first_vector / units_.heads;
    for (int32_t i = 0; i * heads < line.item.num_vectors; ++i) {
        const int32_t row = plan_.queries[static_cast<size_t>(line.item.first_query + i)].row;
        visit(static_cast<size_t>(row) * static_cast<size_t>(units_.count) + static_cast<size_t>(unit), i * heads);
    }
}

void AttentionPlanner::count_pieces(size_t num_rows) {
    const size_t units = num_rows * static_cast<size_t>(units_.count);
    plan_.row_partials.assign(units, RowPartials{0, 0});
    narrow_pieces_.assign(units, 0);
    last_block_.assign(units, -1);
    for (const Line& line : lines_) {
        for_each_unit(line, [&](size_t unit, int32_t) {
            plan_.row_partials[unit].num_partials += line.pieces;
            if (line.wide) return;
            narrow_pieces_[unit] += line.pieces;
            last_block_[unit] = std::max(last_block_[unit], cuts_[static_cast<size_t>(line.last_cut)].block);
        });
    }
}

// Whether the line's last piece merges the rest: what wide items bring, which have ended by then, or a few pieces that
// may come as late as this one, if its block has nothing else to do.
bool AttentionPlanner::can_merge(const Line& line) const {
    if (line.wide || line.early || shape_.kernel != NarrowKernel::hopper) return false;
    const auto cut = static_cast<size_t>(line.last_cut);
    const int32_t block = cuts_[cut].block;
    const bool ends_block = cut + 1 == cuts_.size() || cuts_[cut + 1].block != block;
    bool can = true;
    for_each_unit(line, [&](size_t unit, int32_t) {
        const bool waits =
            ends_block && last_block_[unit] == block && plan_.row_partials[unit].num_partials <= 1 + kFewParts;
        can = can && (narrow_pieces_[unit] == 1 || waits);
    });
    return can;
}

// False: there is no room for all.
bool AttentionPlanner::place_partials(size_t num_rows) {
    count_pieces(num_rows);
    merged_.assign(plan_.row_partials.size(), 0);
    int64_t narrow_places = 0;
    int64_t wide_places = max_partials_.narrow;
    for (Line& line : lines_) {
        bool alone = true;
        for_each_unit(line, [&](size_t unit, int32_t) { alone = alone && plan_.row_partials[unit].num_partials == 1; });
        line.merges = !alone && can_merge(line);
        int64_t& places = line.wide ? wide_places : narrow_places;
        line.item.partial = alone ? kWritesOutput : static_cast<int32_t>(places);
        const int32_t left = alone ? 0 : line.pieces - (line.merges ? 1 : 0);  // for others
        places += int64_t{left} * line.item.num_vectors;
        if (left < line.pieces) for_each_unit(line, [&](size_t unit, int32_t) { merged_[unit] = 1; });
    }
    int32_t listed = 0;
    for (size_t unit = 0; unit < plan_.row_partials.size(); ++unit) {
        RowPartials& partials = plan_.row_partials[unit];
        partials.first_partial = listed;
        listed += partials.num_partials - (merged_[unit] != 0 ? 1 : 0);
        partials.num_partials = 0;
    }
    plan_.partials.resize(static_cast<size_t>(listed));
    for (const Line& line : lines_) {
        if (line.item.partial < 0) continue;
        for_each_unit(line, [&](size_t unit, int32_t vector) {
            RowPartials& place = plan_.row_partials[unit];
            for (int32_t piece = 0; piece < line.pieces - (line.merges ? 1 : 0); ++piece) {
                plan_.partials[static_cast<size_t>(place.first_partial + place.num_partials++)] =
                    line.item.partial + piece * line.item.num_vectors + vector;
            }
        });
    }
    return narrow_places <= max_partials_.narrow && wide_places <= max_partials_.narrow + max_partials_.wide;
}

// Tiles [first_tile, first_tile + num_tiles) of a line, with spans of their own where that is not all of it.
AttentionItem AttentionPlanner::cut_item(const Line& line, int32_t first_tile, int32_t num_tiles) {
    AttentionItem item = line.item;
    if (num_tiles == line.tiles) return item;
    item.first_span = static_cast<int32_t>(plan_.spans.size());
    item.num_spans = 0;
    for (int32_t i = 0; i < line.item.num_spans && num_tiles > 0; ++i) {
        Span span = plan_.spans[static_cast<size_t>(line.item.first_span + i)];
        const int32_t tiles = tiles_of(span);
        if (first_tile >= tiles) {
            first_tile -= tiles;
            continue;
        }
        const int32_t take = std::min(num_tiles, tiles - first_tile);
        span.first_token += first_tile * kNarrowTokens;
        span.end_token = std::min(span.end_token, span.first_token + take * kNarrowTokens);
        plan_.spans.push_back(span);
        ++item.num_spans;
        num_tiles -= take;
        first_tile = 0;
    }
    return item;
}

WideItem AttentionPlanner::wide_item(const AttentionItem& item) const {
    const int32_t rows = (item.first_vector + item.num_vectors + shape_.heads_per_kv() - 1) / shape_.heads_per_kv();
    WideItem wide{item, INT32_MAX, INT32_MIN, {}, 0};
    for (int32_t i = 0; i < rows; ++i) {
        const int32_t position = plan_.queries[static_cast<size_t>(item.first_query + i)].position;
        wide.lowest = std::min(wide.lowest, position);
        wide.highest = std::max(wide.highest, position);
    }
    if (item.num_spans > 0) wide.span = plan_.spans[static_cast<size_t>(item.first_span)];
    return wide;
}

NarrowItem AttentionPlanner::narrow_item(const AttentionStep& input, const AttentionItem& item) const {
    NarrowItem narrow{};
    narrow.item = item;
    narrow.next = -1;
    const QueryRow first = plan_.queries[static_cast<size_t>(item.first_query)];
    narrow.row = first.row;
    narrow.position = first.position;
    if (item.num_spans == 0) return narrow;
    narrow.span = plan_.spans[static_cast<size_t>(item.first_span)];
    int32_t token = narrow.span.first_token;
    for (int32_t& page : narrow.pages) {
        if (token >= narrow.span.end_token) break;
        page = input.page_table[static_cast<size_t>(narrow.span.first_page + token / shape_.page_size)];
        token += kPageTokens;
    }
    return narrow;
}

// Units that no item merges, to the block of the last of their narrow pieces, whose results may come as late as its
// own; but of what early blocks bring no block gets more than others, and what is left goes to blocks behind all early
// ones.
void AttentionPlanner::share_merges() {
    waiting_.clear();
    for (size_t unit = 0; unit < plan_.row_partials.size(); ++unit) {
        if (plan_.row_partials[unit].num_partials > 0 && merged_[unit] == 0)
            waiting_.push_back({last_block_[unit], static_cast<int32_t>(unit)});
    }
    if (waiting_.empty()) return;
    const int32_t blocks = narrow_blocks(shape_);
    const int64_t each = divide_up(static_cast<int64_t>(waiting_.size()), blocks);
    merges_of_.assign(static_cast<size_t>(blocks), 0);
    int64_t left = 0;
    for (Waiting& waiting : waiting_) {
        int32_t& there = merges_of_[static_cast<size_t>(std::max(waiting.block, 0))];
        if (waiting.block < 0 || (waiting.block < overlap_.early && there >= each)) {
            waiting.block = -1;
            ++left;
        } else {
            ++there;
        }
    }
    const int64_t late = blocks - overlap_.early;
    int64_t given = 0;
    for (Waiting& waiting : waiting_) {
        if (waiting.block < 0) waiting.block = overlap_.early + static_cast<int32_t>(given++ * late / left);
    }
    std::sort(waiting_.begin(), waiting_.end());
    for (const Waiting& waiting : waiting_) {
        NarrowItem& begin = plan_.narrow[static_cast<size_t>(waiting.block)];
        if (begin.num_merges++ == 0) begin.first_merge = static_cast<int32_t>(plan_.merges.size());
        const RowPartials& partials = plan_.row_partials[static_cast<size_t>(waiting.unit)];
        plan_.merges.push_back(
            {waiting.unit / units_.count, waiting.unit % units_.count, partials.first_partial, partials.num_partials});
    }
}

int32_t AttentionPlanner::tokens_of(const AttentionItem& item) const {
    int32_t tokens = 0;
    for (int32_t i = 0; i < item.num_spans; ++i) {
        const Span& span = plan_.spans[static_cast<size_t>(item.first_span + i)];
        tokens += span.end_token - span.first_token;
    }
    return tokens;
}

// Costliest items first, in groups that read no more keys and values than the L2 cache holds: what is read again and
// again from memory costs time and power. Sequences go together, and where one of them is too long, not all KV heads of
// them at once. Little work is one group: it would not be shared as evenly.
void AttentionPlanner::order_wide() {
    constexpr int64_t kCached = 24 << 20;  // bytes, about half of the cache
    constexpr int64_t kRounds = 4;
    const int heads = shape_.num_kv_heads;
    const int64_t fit = std::max<int64_t>(1, kCached * kNarrowTokens / shape_.tile_bytes);  // tokens of a head
    // Items that read the same tokens follow each other, and a later one sees more of them.
    const auto ends_sequence = [&](size_t i) {
        if (i + 1 == plan_.wide.size()) return true;
        const WideItem& next = plan_.wide[i + 1];
        return next.span.first_page != plan_.wide[i].span.first_page ||
               tokens_of(next.item) < tokens_of(plan_.wide[i].item);
    };
    int64_t all_tokens = 0;
    for (size_t i = 0; i < plan_.wide.size(); ++i) {
        if (ends_sequence(i)) all_tokens += tokens_of(plan_.wide[i].item);
    }
    const bool little = static_cast<int64_t>(plan_.wide.size()) * heads < kRounds * shape_.multiprocessors;
    const int64_t groups = little ? 1 : divide_up(all_tokens * heads, fit);
    const int64_t share = divide_up(all_tokens, std::max<int64_t>(1, groups));  // of a group
    int64_t most = 0;
    size_t first = 0;
    int64_t tokens = 0;
    for (size_t i = 0; i < plan_.wide.size(); ++i) {
        if (!ends_sequence(i)) continue;
        tokens += tokens_of(plan_.wide[i].item);
        if (tokens < share && i + 1 < plan_.wide.size()) continue;
        std::stable_sort(plan_.wide.begin() + static_cast<ptrdiff_t>(first),
                         plan_.wide.begin() + static_cast<ptrdiff_t>(i + 1),
                         [&](const WideItem& a, const WideItem& b) { return tokens_of(a.item) > tokens_of(b.item); });
        most = std::max(most, tokens);
        first = i + 1;
        tokens = 0;
    }
    const int64_t heads_fit = std::max<int64_t>(1, fit / std::max<int64_t>(1, most));
    const bool all_heads = little || heads_fit >= heads;
    for (WideItem& item : plan_.wide) {
        item.kv_heads_at_once = all_heads ? 0 : static_cast<int>(divide_up(heads, divide_up(heads, heads_fit)));
    }
}

void AttentionPlanner::emit(const AttentionStep& input) {
    const bool narrow_lines = std::any_of(lines_.begin(), lines_.end(), [](const Line& line) { return !line.wide; });
    const bool parts = !plan_.partials.empty();
    if (narrow_lines || parts) plan_.narrow.assign(static_cast<size_t>(narrow_blocks(shape_)), NarrowItem{});
    plan_.merges.clear();
    if (parts) share_merges();
    int32_t line_index = -1;
    int32_t piece = 0;
    int32_t block = -1;
    size_t tail = 0;  // the block's latest item
    for (const Cut& cut : cuts_) {
        piece = cut.line == line_index ? piece + 1 : 0;
        line_index = cut.line;
        const Line& line = lines_[static_cast<size_t>(cut.line)];
        AttentionItem item = cut_item(line, cut.first_tile, cut.num_tiles);
        if (line.merges && piece == line.pieces - 1) {
            item.partial = kMergesOthers;
        } else if (item.partial >= 0) {
            item.partial += piece * item.num_vectors;
        }
        if (line.wide) {
            plan_.wide.push_back(wide_item(item));
            continue;
        }
        NarrowItem narrow = narrow_item(input, item);
        if (cut.block != block) {
            block = cut.block;
            tail = static_cast<size_t>(block);
            narrow.first_merge = plan_.narrow[tail].first_merge;
            narrow.num_merges = plan_.narrow[tail].num_merges;
            plan_.narrow[tail] = narrow;
        } else {
            plan_.narrow[tail].next = static_cast<int32_t>(plan_.narrow.size());
            tail = plan_.narrow.size();
            plan_.narrow.push_back(narrow);
        }
    }
    order_wide();
}

}  // namespace nanolith::cuda
