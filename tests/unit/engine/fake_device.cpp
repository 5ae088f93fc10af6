#include "unit/engine/fake_device.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <new>
#include <optional>
#include <thread>

#include "backend/check_batch.h"

namespace nanolith::testing {
namespace {

uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
    return hash ^ (hash >> 29);
}

int32_t finish(uint64_t hash, double uniform, int32_t vocab_size) {
    hash = mix(hash, static_cast<uint64_t>(uniform * 0x1p53));
    return static_cast<int32_t>((hash >> 20) % static_cast<uint64_t>(vocab_size));
}

constexpr int32_t kNothing = -1;

class FakeExecutor final : public Executor {
  public:
    FakeExecutor(const ModelSpec& spec, const ExecutorOptions& options, std::shared_ptr<FakeRecord> record,
                 int32_t depth)
        : spec_(spec),
          options_(options),
          record_(std::move(record)),
          depth_(depth),
          cells_(static_cast<size_t>(options.num_pages) * static_cast<size_t>(options.page_size), kNothing) {}

    [[nodiscard]] int32_t max_in_flight() const override { return depth_; }

    Result<void> submit(const Batch& batch) override {
        if (record_->throw_submit > 0 || record_->fail_submit > 0) copies_.clear();  // whose pages are given back
        if (record_->throw_submit > 0 && record_->throw_submit-- > 0) throw std::bad_alloc();
        if (record_->fail_submit > 0 && record_->fail_submit-- > 0) return fail(NL_ERROR_DEVICE, "submit failed");
        if (static_cast<int32_t>(in_flight_.size()) >= depth_) fault("more steps in flight than there may be");
        if (undrawn_) fault("a step without its draws before another one");
        check(batch);
        InFlight step;
        step.batch = batch;
        step.copies = std::move(copies_);
        copies_.clear();
        // The device's own table hears of changes alone, with the values of this moment.
        for (const TableRange& range : batch.changed_entries)
            for (int32_t i = range.first; i < range.first + range.count; ++i)
                step.entries.emplace_back(i, batch.page_table[i]);
        step.table_size = batch.page_table.size();
        const auto in_flight = static_cast<int32_t>(in_flight_.size()) + 1;
        record_->most_in_flight = std::max<int32_t>(record_->most_in_flight, in_flight);
        if (batch.draws_late) {
            undrawn_ = std::move(step);
        } else {
            in_flight_.push_back(std::move(step));
        }
        {
            const std::lock_guard lock(record_->mutex);
            record_->rows.push_back(batch.tokens.size());
            record_->outputs.push_back(batch.output_rows.size());
            size_t changed = 0;
            for (const TableRange& range : batch.changed_entries) changed += static_cast<size_t>(range.count);
            record_->changed_entries.push_back(changed);
        }
        return {};
    }

    Result<void> submit_draws(const Batch& batch) override {
        if (!undrawn_) {
            fault("draws of no step");
            return fail(NL_ERROR_INTERNAL, "draws of no step");
        }
        InFlight step = std::move(*undrawn_);
        undrawn_.reset();
        if (record_->fail_draws > 0 && record_->fail_draws-- > 0) return fail(NL_ERROR_DEVICE, "submit_draws failed");
        // A batch without draws says that they could not be made.
        if (batch.sampling.size() != batch.output_rows.size()) return fail(NL_ERROR_INTERNAL, "no draws");
        step.batch.sampling = batch.sampling;
        step.batch.edits = batch.edits;
        step.batch.masks = batch.masks;
        in_flight_.push_back(std::move(step));
        ++record_->late_draws;
        return {};
    }

    // All logits are 0, and draws do not look at what replaces them.
    Result<void> read_undrawn(int32_t output_row, std::span<float> logits) override {
        check_undrawn(output_row);
        if (record_->fail_undrawn > 0 && record_->fail_undrawn-- > 0)
            return fail(NL_ERROR_DEVICE, "read_undrawn failed");
        std::ranges::fill(logits, 0.0F);
        return {};
    }
    Result<void> write_undrawn(int32_t output_row, std::span<const float>) override {
        check_undrawn(output_row);
        return {};
    }

    Result<void> collect(std::span<int32_t> sampled) override {
        if (in_flight_.empty()) {
            fault("nothing to collect");
            return fail(NL_ERROR_INTERNAL, "nothing to collect");
        }
        while (record_->hold != 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
        InFlight step = std::move(in_flight_.front());
        in_flight_.pop_front();
        const auto rows = static_cast<int32_t>(step.batch.tokens.size());
        const int32_t took = record_->step_microseconds + rows * record_->row_microseconds;
        if (took > 0) std::this_thread::sleep_for(std::chrono::microseconds(took));
        run(step);
        kept_ = step.batch.kept_logits;
        logprobs_.clear();
        for (const LogprobQuery& query : step.batch.logprobs) {
            const int32_t token = query.token < 0 ? step.drawn[query.output_row] : query.token;
            logprobs_.push_back({token, fake_logprob(token)});
            for (int32_t i = 0; i < query.top; ++i) logprobs_.push_back({token + i, fake_logprob(token + i)});
        }
        collected_ = step.drawn;
        states_ = step.states;
        if (sampled.size() != collected_.size()) fault("collect has another size than the step's outputs");
        std::copy(collected_.begin(), collected_.end(), sampled.begin());
        if (record_->fail_collect > 0 && record_->fail_collect-- > 0) return fail(NL_ERROR_DEVICE, "collect failed");
        return {};
    }

    Result<void> read_logits(int32_t index, std::span<float> logits) override {
        if (std::ranges::find(kept_, index) == kept_.end()) fault("logits that were not kept");
        std::ranges::fill(logits, 0.0F);
        logits[collected_[index]] = 1;
        return {};
    }

    Result<void> read_state(int32_t index, std::span<float> state) override {
        if (index < 0 || static_cast<size_t>(index) >= states_.size()) fault("a state of no state row");
        std::ranges::fill(state, static_cast<float>(states_[index]));
        return {};
    }

    // fake_logprob() of each token, so that a test knows which token a log-probability is of.
    Result<void> read_logprobs(std::span<TokenLogprob> logprobs) override {
        if (logprobs.size() != logprobs_.size()) fault("log-probabilities of another size than the step's");
        std::ranges::copy(logprobs_, logprobs.begin());
        return {};
    }
    Result<void> read_surprises(std::span<float> surprises) override {
        if (surprises.size() != collected_.size()) fault("surprises of another size than the step's outputs");
        for (size_t i = 0; i < surprises.size(); ++i) surprises[i] = fake_surprise(collected_[i]);
        return {};
    }

    Result<void> read_token_weights(std::span<float> weights) override {
        if (weights.size() != token_weights_.size()) fault("token weights of another size than the step's probes");
        std::ranges::copy(token_weights_, weights.begin());
        return {};
    }

    Result<void> copy_pages(std::span<const PageCopy> copies) override {
        copies_.insert(copies_.end(), copies.begin(), copies.end());
        return {};
    }

    Result<HostMemory> allocate_host(size_t bytes) override {
        auto owner = std::make_shared<std::vector<std::byte>>(bytes);
        return HostMemory(owner->data(), bytes, [owner](std::byte*) {});
    }

    // A token's cell stands where its key of the first head would begin.
    Result<void> read_pages(std::span<const int32_t> pages, std::span<std::byte> to) override {
        NL_TRY(check_moves(spec_, options_, pages, to.size()));
        finish_steps();
        std::ranges::fill(to, std::byte{0});
        for_cells(pages, to.data(), [](int32_t cell, std::byte* at) { std::memcpy(at, &cell, sizeof(cell)); });
        return {};
    }
    Result<void> write_pages(std::span<const int32_t> pages, std::span<const std::byte> from) override {
        NL_TRY(check_moves(spec_, options_, pages, from.size()));
        finish_steps();
        std::this_thread::sleep_for(std::chrono::microseconds(record_->write_microseconds));
        for_cells(pages, from.data(), [](int32_t& cell, const std::byte* at) { std::memcpy(&cell, at, sizeof(cell)); });
        return {};
    }

  private:
    struct InFlight {
        bool ran = false;
        std::vector<int32_t> drawn = {};
        std::vector<int32_t> states = {};
        Batch batch;
        std::vector<PageCopy> copies;
        std::vector<std::pair<int32_t, int32_t>> entries;  // of the page table: where, what
        size_t table_size = 0;
    };

    void fault(const std::string& what) {
        const std::lock_guard lock(record_->mutex);
        record_->faults.push_back(what);
    }

    void check_undrawn(int32_t output_row) {
        if (!undrawn_) return fault("logits of no step");
        if (output_row < 0 || static_cast<size_t>(output_row) >= undrawn_->batch.output_rows.size())
            fault("logits of no output row");
    }

    void check(const Batch& batch) {
        const size_t rows = batch.tokens.size();
        if (rows == 0 || rows > static_cast<size_t>(options_.max_rows)) fault("a step of no or too many rows");
        if (batch.positions.size() != rows || batch.slots.size() != rows || batch.key_positions.size() != rows)
            fault("arrays of different sizes");
        if (batch.output_rows.size() > static_cast<size_t>(options_.max_output_rows)) fault("too many output rows");
        if (batch.kept_logits.size() > static_cast<size_t>(options_.max_kept_logits)) fault("too many kept logits");
        if (!batch.draws_late && batch.sampling.size() != batch.output_rows.size()) fault("sampling of another size");
        std::vector<int32_t> slots;
        for (const int32_t slot : batch.slots)
            if (slot != kNoSlot) slots.push_back(slot);
        std::ranges::sort(slots);
        if (std::ranges::adjacent_find(slots) != slots.end()) fault("a slot twice");
    }

    template <typename Byte, typename Copy>
    void for_cells(std::span<const int32_t> pages, Byte* bytes, const Copy& copy) {
        const size_t row = static_cast<size_t>(spec_.head_dim) * dtype_bytes(options_.page_dtype());
        const auto size = static_cast<size_t>(options_.page_size);
        const size_t page_bytes = row * size * 2 * static_cast<size_t>(spec_.num_layers * spec_.num_kv_heads);
        for (size_t i = 0; i < pages.size(); ++i)
            for (size_t t = 0; t < size; ++t)
                copy(cells_[static_cast<size_t>(pages[i]) * size + t], bytes + i * page_bytes + t * row);
    }

    void finish_steps() {
        for (InFlight& step : in_flight_) run(step);
    }

    void run(InFlight& step) {
        if (step.ran) return;
        step.ran = true;
        for (const PageCopy& copy : step.copies) {
            const auto size = static_cast<size_t>(options_.page_size);
            std::copy_n(cells_.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(copy.from) * size), size,
                        cells_.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(copy.to) * size));
        }
        table_.resize(std::max(table_.size(), step.table_size), kNothing);
        for (const auto& [where, what] : step.entries) table_[where] = what;
        const Batch& batch = step.batch;
        const std::vector<int32_t> before = drawn_;
        std::vector<int32_t> tokens = batch.tokens;
        for (int32_t& token : tokens) {
            if (token >= 0) continue;
            const auto row = static_cast<size_t>(-1 - token);
            if (row >= before.size()) {
                fault("a token that no row drew");
                token = 0;
            } else {
                token = before[row];
            }
        }
        for (size_t row = 0; row < tokens.size(); ++row)
            if (batch.slots[row] != kNoSlot) cells_[batch.slots[row]] = tokens[row];
        drawn_.clear();
        for (size_t i = 0; i < batch.output_rows.size(); ++i)
            drawn_.push_back(allowed(batch, i, draw(batch, batch.output_rows[i], batch.sampling[i].uniform)));
        step.drawn = drawn_;
        for (const int32_t row : batch.state_rows) step.states.push_back(draw(batch, row, 0));
        if (record_->edits_newest) check_edits_of_newest(batch, tokens);
        token_weights_.clear();
        for (const Probe& probe : batch.probes) weigh_tokens(batch, batch.sequences[probe.sequence]);
    }

    void check_edits_of_newest(const Batch& batch, const std::vector<int32_t>& tokens) {
        for (size_t i = 0; i < batch.output_rows.size(); ++i) {
            const int32_t newest = tokens[batch.output_rows[i]];
            if (std::ranges::none_of(draw_rule(batch, i, spec_.vocab_size).edits,
                                     [newest](const LogitEdit& edit) { return edit.token == newest; }))
                fault("a draw that does not know the token before it");
        }
    }

    // A token's weight is a hash of it.
    void weigh_tokens(const Batch& batch, const Sequence& sequence) {
        for (int32_t i = 0; i < sequence.num_segments; ++i) {
            const Segment& segment = batch.segments[sequence.first_segment + i];
            for (int32_t t = 0; t < segment.length; ++t) {
                const int32_t page = table_[segment.first_page + t / options_.page_size];
                const int32_t cell = cells_[page * options_.page_size + t % options_.page_size];
                if (cell == kNothing) fault("a token to be weighed was never written");
                token_weights_.push_back(static_cast<float>(mix(7, static_cast<uint64_t>(cell)) % 1000));
            }
        }
    }

    // The token, or the next one above it that is neither banned nor masked.
    int32_t allowed(const Batch& batch, size_t output_row, int32_t token) {
        const DrawRule rule = draw_rule(batch, output_row, spec_.vocab_size);
        const auto banned = [&](int32_t t) {
            const auto bans = [t](const LogitEdit& edit) { return edit.token == t && std::isinf(edit.add); };
            const bool masked = !rule.mask.empty() && ((rule.mask[t / 32] >> (t % 32)) & 1U) == 0;
            return masked || std::ranges::any_of(rule.edits, bans);
        };
        while (banned(token)) token = (token + 1) % spec_.vocab_size;
        return token;
    }

    int32_t draw(const Batch& batch, int32_t row, double uniform) {
        const auto sequence = std::ranges::find_if(
            batch.sequences, [row](const Sequence& s) { return row >= s.first_row && row < s.first_row + s.num_rows; });
        const int32_t position = batch.positions[row];
        uint64_t hash = 1;
        int32_t expected = 0;  // position of the next key
        for (int32_t i = 0; i < sequence->num_segments; ++i) {
            const Segment& segment = batch.segments[sequence->first_segment + i];
            if (segment.base != expected) fault("a segment does not begin where the one before ends");
            const int32_t end = std::min(segment.length, position - segment.base + 1);
            for (int32_t t = 0; t < end; ++t, ++expected) {
                const auto entry = static_cast<size_t>(segment.first_page + t / options_.page_size);
                const int32_t page = entry < table_.size() ? table_[entry] : kNothing;
                if (page == kNothing) {
                    fault("a page table entry that was never sent");
                    return 0;
                }
                const int32_t cell = cells_[page * options_.page_size + t % options_.page_size];
                if (cell == kNothing) fault("a cell that was never written");
                hash = mix(hash, static_cast<uint64_t>(cell));
            }
        }
        if (expected != position + 1) fault("a row sees another number of keys than stand before it");
        return finish(hash, uniform, spec_.vocab_size);
    }

    const ModelSpec spec_;
    const ExecutorOptions options_;
    const std::shared_ptr<FakeRecord> record_;
    const int32_t depth_;
    std::vector<int32_t> cells_;
    std::vector<int32_t> table_;
    std::deque<InFlight> in_flight_;
    std::optional<InFlight> undrawn_;  // waits for submit_draws()
    std::vector<PageCopy> copies_;
    std::vector<int32_t> drawn_;      // by the step that ran last
    std::vector<int32_t> collected_;  // by the step collected last
    std::vector<int32_t> kept_;
    std::vector<int32_t> states_;
    std::vector<TokenLogprob> logprobs_;
    std::vector<float> token_weights_;
};

class FakeBackend final : public Backend {
  public:
    FakeBackend(std::shared_ptr<FakeRecord> record, int32_t depth) : record_(std::move(record)), depth_(depth) {}
    [[nodiscard]] std::string device_name() const override { return "fake"; }
    [[nodiscard]] bool supports(DType) const override { return true; }
    [[nodiscard]] bool keeps_compact() const override { return false; }
    [[nodiscard]] Result<uint64_t> available_memory() const override { return uint64_t{1} << 40; }
    Result<std::unique_ptr<Executor>> create_executor(const ModelSpec& spec, const ModelWeights&,
                                                      const ExecutorOptions& options, const Progress&) override {
        return std::unique_ptr<Executor>(std::make_unique<FakeExecutor>(spec, options, record_, depth_));
    }

  private:
    std::shared_ptr<FakeRecord> record_;
    int32_t depth_;
};

}  // namespace

int32_t fake_draw(const std::vector<int32_t>& tokens, double uniform, int32_t vocab_size) {
    uint64_t hash = 1;
    for (const int32_t token : tokens) hash = mix(hash, static_cast<uint64_t>(token));
    return finish(hash, uniform, vocab_size);
}

float fake_logprob(int32_t token) {
    return -static_cast<float>(token) / 8;
}
float fake_surprise(int32_t token) {
    return static_cast<float>(token % 16);
}

std::unique_ptr<Backend> make_fake_backend(std::shared_ptr<FakeRecord> record, int32_t depth) {
    return std::make_unique<FakeBackend>(std::move(record), depth);
}

ModelSpec fake_spec(int32_t vocab_size, int32_t max_context) {
    ModelSpec spec;
    spec.num_layers = 1;
    spec.hidden_size = 8;
    spec.num_heads = 1;
    spec.num_kv_heads = 1;
    spec.head_dim = 8;
    spec.vocab_size = vocab_size;
    spec.max_context = max_context;
    return spec;
}

}  // namespace nanolith::testing
