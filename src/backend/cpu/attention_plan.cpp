#include "backend/cpu/attention_plan.h"

#include <algorithm>
#include <span>
#include <utility>

namespace nanolith::cpu {
namespace {

constexpr int32_t kBlockQueries = 64;
// A thread gets about so many blocks, so that none waits long for the last.
constexpr int64_t kBlocksPerThread = 4;
// Fewer tokens are not worth a block's partial results.
constexpr int64_t kPartTokens = 4 * kKeyTile;

bool same_tokens(const Segment& a, const Segment& b) {
    return a.first_page == b.first_page && a.length == b.length;
}
bool tokens_before(const Segment& a, const Segment& b) {
    return a.first_page != b.first_page ? a.first_page < b.first_page : a.length < b.length;
}

class Planner {
  public:
    Planner(const AttentionStep& step, const AttentionPlanOptions& options)
        : step_(step), options_(options), most_rows_(block_rows(options.group)) {}

    AttentionPlan make() {
        std::vector<Member> decodes;
        for (const Sequence& sequence : step_.sequences) {
            if (sequence.num_rows == 1 && !options_.batch_invariant)
                decodes.push_back({sequence.first_row, &sequence});
            else
                add_sequence(sequence);
        }
        add_decodes(decodes);
        for (const Unit& unit : units_) plan_.cost += unit.cost * options_.num_kv_heads;
        for (const Unit& unit : units_) add_blocks(unit);
        std::stable_sort(plan_.blocks.begin(), plan_.blocks.end(),
                         [](const AttentionBlock& a, const AttentionBlock& b) { return a.cost > b.cost; });
        return std::move(plan_);
    }

  private:
    // A row of the step and the sequence that it belongs to.
    struct Member {
        int32_t row = 0;
        const Sequence* sequence = nullptr;
    };
    // Rows of a block, with all that they walk through.
    struct Unit {
        int32_t first_row = 0;  // in plan_.rows
        int32_t num_rows = 0;
        std::vector<AttentionWalk> walks;
        int64_t cost = 0;  // for a KV head
    };

    [[nodiscard]] std::span<const Segment> segments_of(const Member& member) const {
        return step_.segments.subspan(member.sequence->first_segment, member.sequence->num_segments);
    }

    void add_sequence(const Sequence& sequence) {
        for (int32_t first = 0; first < sequence.num_rows; first += most_rows_) {
            std::vector<Member> members;
            for (int32_t i = first; i < std::min(first + most_rows_, sequence.num_rows); ++i)
                members.push_back({sequence.first_row + i, &sequence});
            add_unit(members);
        }
    }

    // Rows whose contexts begin alike are neighbours then.
    void add_decodes(std::vector<Member>& decodes) {
        std::stable_sort(decodes.begin(), decodes.end(), [this](const Member& a, const Member& b) {
            return std::ranges::lexicographical_compare(segments_of(a), segments_of(b), tokens_before);
        });
        for (size_t first = 0; first < decodes.size();) {
            const auto begin = segments_of(decodes[first]);
            size_t end = first + 1;
            while (end < decodes.size() && end - first < static_cast<size_t>(most_rows_) && !begin.empty() &&
                   same_tokens(segments_of(decodes[end]).front(), begin.front()))
                ++end;
            add_unit(std::span(decodes).subspan(first, end - first));
            first = end;
        }
    }

    void add_unit(std::span<const Member> members) {
        Unit unit{static_cast<int32_t>(plan_.rows.size()), static_cast<int32_t>(members.size()), {}, 0};
        size_t most_segments = 0;
        for (const Member& member : members) {
            plan_.rows.push_back(member.row);
            most_segments = std::max(most_segments, segments_of(member).size());
        }
        for (size_t place = 0; place < most_segments; ++place) {
            for (size_t first = 0; first < members.size();) first = add_walk(members, first, place, unit);
        }
        for (const AttentionWalk& walk : unit.walks) unit.cost += int64_t{walk.num_rows} * causal_end(unit, walk);
        units_.push_back(std::move(unit));
    }

    // Of the rows from `first` on that have the same segment at this place. Gives the row after them.
    size_t add_walk(std::span<const Member> members, size_t first, size_t place, Unit& unit) {
        const auto has_place = [&](size_t i) { return i < members.size() && place < segments_of(members[i]).size(); };
        if (!has_place(first)) return first + 1;
        const Segment& segment = segments_of(members[first])[place];
        const auto first_base = static_cast<int32_t>(plan_.bases.size());
        size_t end = first;
        for (; has_place(end) && same_tokens(segments_of(members[end])[place], segment); ++end)
            plan_.bases.push_back(segments_of(members[end])[place].base);
        unit.walks.push_back({segment.first_page, segment.length, 0, segment.length, static_cast<int32_t>(first),
                              static_cast<int32_t>(end - first), first_base});
        return end;
    }

    // Tokens of the walk's segment that its rows see where attention is causal.
    [[nodiscard]] int64_t causal_end(const Unit& unit, const AttentionWalk& walk) const {
        int64_t end = 0;
        for (int32_t i = 0; i < walk.num_rows; ++i) {
            const int64_t position = step_.positions[plan_.rows[unit.first_row + walk.first_row + i]];
            end = std::max(end, position - plan_.bases[walk.first_base + i] + 1);
        }
        return std::min<int64_t>(end, walk.length);
    }

    [[nodiscard]] int64_t parts_of(const Unit& unit) const {
        if (options_.batch_invariant || options_.num_threads == 1) return 1;
        const int64_t share = std::max<int64_t>(plan_.cost / (options_.num_threads * kBlocksPerThread), 1);
        return std::clamp<int64_t>(unit.cost / share, 1, 1 + unit.cost / (unit.num_rows * kPartTokens));
    }

    // The unit's walks in parts of about the same cost.
    [[nodiscard]] std::vector<std::vector<AttentionWalk>> divide(const Unit& unit) const {
        const int64_t parts = parts_of(unit);
        const int64_t target = unit.cost / parts;
        std::vector<std::vector<AttentionWalk>> divided(1);
        int64_t left = target;  // of the last part
        const auto begin_part = [&] {
            divided.emplace_back();
            left = target;
        };
        for (AttentionWalk walk : unit.walks) {
            const int64_t end = causal_end(unit, walk);
            while (true) {
                const bool last = static_cast<int64_t>(divided.size()) >= parts;
                if (left <= 0 && !last) begin_part();
                const int64_t tokens = (left / walk.num_rows + kKeyTile - 1) / kKeyTile * kKeyTile;
                if (last || end - walk.begin <= tokens) break;
                divided.back().push_back(walk);
                divided.back().back().end = walk.begin + static_cast<int32_t>(tokens);
                walk.begin += static_cast<int32_t>(tokens);
                begin_part();
            }
            divided.back().push_back(walk);
            left -= (end - walk.begin) * walk.num_rows;
        }
        return divided;
    }

    void add_blocks(const Unit& unit) {
        const auto parts = divide(unit);
        const int64_t num_queries = int64_t{unit.num_rows} * options_.group;
        const int64_t first_partial = plan_.num_partials;
        const auto num_parts = static_cast<int64_t>(parts.size());
        for (int64_t part = 0; part < num_parts; ++part) {
            AttentionBlock block{unit.first_row, unit.num_rows, static_cast<int32_t>(plan_.walks.size()),
                                 static_cast<int32_t>(parts[part].size())};
            block.cost = unit.cost / num_parts;
            plan_.walks.insert(plan_.walks.end(), parts[part].begin(), parts[part].end());
            for (block.kv_head = 0; block.kv_head < options_.num_kv_heads; ++block.kv_head) {
                if (num_parts > 1)
                    block.first_partial = first_partial + (block.kv_head * num_parts + part) * num_queries;
                plan_.blocks.push_back(block);
            }
        }
        if (num_parts == 1) return;
        for (int32_t head = 0; head < options_.num_kv_heads; ++head)
            plan_.merges.push_back({unit.first_row, unit.num_rows, head, static_cast<int32_t>(num_parts),
                                    first_partial + head * num_parts * num_queries});
        plan_.num_partials += options_.num_kv_heads * num_parts * num_queries;
    }

    const AttentionStep& step_;
    const AttentionPlanOptions& options_;
    const int32_t most_rows_;
    AttentionPlan plan_;
    std::vector<Unit> units_;
};

}  // namespace

int32_t block_rows(int32_t group) {
    return std::max(1, kBlockQueries / group);
}

AttentionPlan plan_attention(const AttentionStep& step, const AttentionPlanOptions& options) {
    return Planner(step, options).make();
}

}  // namespace nanolith::cpu
