#include "text/bpe_encoder.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "text/space_symbol.h"
#include "text/token_list.h"

namespace nanolith {
namespace {

// How vocabularies with byte fallback write a space: U+2581.
// Working space of words up to this many symbols is kept for the next one.
constexpr size_t kKeptSymbols = 1U << 16U;

size_t hash_of(std::string_view word) {
    uint64_t hash = 0xCBF29CE484222325U;
    for (; word.size() >= 8; word.remove_prefix(8)) {
        uint64_t part = 0;
        std::memcpy(&part, word.data(), 8);
        hash = (hash ^ part) * 0x9E3779B97F4A7C15U;
        hash ^= hash >> 29U;
    }
    uint64_t part = word.size() << 56U;
    std::memcpy(&part, word.data(), word.size());
    hash = (hash ^ part) * 0x9E3779B97F4A7C15U;
    return hash ^ hash >> 32U;
}

}  // namespace

void SymbolRow::start() {
    begins_.assign(symbols_.size() / 64 + 1, 0);
    std::fill_n(begins_.begin(), symbols_.size() / 64, ~uint64_t{0});
    begins_.back() = (uint64_t{1} << symbols_.size() % 64) - 1;
}

int32_t SymbolRow::next(int32_t place) const {
    size_t word = word_of(place + 1);
    uint64_t bits = begins_[word] & ~uint64_t{0} << bit_of(place + 1);
    while (bits == 0) {
        if (++word == begins_.size()) return -1;
        bits = begins_[word];
    }
    return static_cast<int32_t>(word * 64) + std::countr_zero(bits);
}

int32_t SymbolRow::previous(int32_t place) const {
    size_t word = word_of(place);
    uint64_t bits = begins_[word] & ((uint64_t{1} << bit_of(place)) - 1);
    while (bits == 0) {
        if (word-- == 0) return -1;
        bits = begins_[word];
    }
    return static_cast<int32_t>(word * 64) + 63 - std::countl_zero(bits);
}

void SymbolRow::shrink() {
    if (symbols_.size() > kKeptSymbols) *this = SymbolRow();
}

Bpe::Encoder::Encoder(const Bpe& bpe, size_t text_bytes) : bpe_(&bpe) {
    size_t size = 16;
    while (size < 4096 && size * 16 < text_bytes) size *= 2;
    known_.resize(size);
}

Result<void> Bpe::Encoder::encode(std::string_view word, std::vector<int32_t>& tokens) {
    size_t begin = 0;
    for (size_t at = 0; bpe_->cuts_at_spaces_ && at < word.size();) {
        // Spaces stay with each other and with what follows them.
        while (word.substr(at).starts_with(kSpaceSymbol)) at += kSpaceSymbol.size();
        at = std::min(word.find(kSpaceSymbol, at), word.size());
        encode_part(word.substr(begin, at - begin), tokens);
        begin = at;
    }
    if (begin < word.size()) encode_part(word.substr(begin), tokens);
    return {};
}

void Bpe::Encoder::encode_part(std::string_view word, std::vector<int32_t>& tokens) {
    if (word.size() > kMaxWordBytes) return merge(word, tokens);
    Known& known = known_[hash_of(word) & (known_.size() - 1)];
    if (known.length == word.size() && std::memcmp(known.word.data(), word.data(), word.size()) == 0) {
        make_room(tokens, known.count);
        tokens.insert(tokens.end(), known.tokens.begin(), known.tokens.begin() + known.count);
        return;
    }
    const size_t before = tokens.size();
    merge(word, tokens);
    const size_t count = tokens.size() - before;
    if (count > kMaxTokens) return;
    known.length = static_cast<uint8_t>(word.size());
    known.count = static_cast<uint8_t>(count);
    std::memcpy(known.word.data(), word.data(), word.size());
    std::copy_n(tokens.begin() + static_cast<ptrdiff_t>(before), count, known.tokens.begin());
}

const MergeTable::Merge* Bpe::Encoder::merge_at(int32_t place) const {
    const int32_t next = row_.next(place);
    return next < 0 ? nullptr : bpe_->merges_.find(row_.at(place), row_.at(next));
}

bool Bpe::Encoder::holds(const Candidate& candidate) const {
    if (!row_.begins(candidate.place)) return false;
    const auto* const now = merge_at(candidate.place);
    // As in the reference, another pair that makes the same token counts.
    return now != nullptr && now->merged == bpe_->merges_.merged(candidate.rank);
}

void Bpe::Encoder::fill_heap() {
    heap_.clear();
    // The heap of a long row is not left to grow by doubling.
    if (static_cast<size_t>(row_.size()) > kKeptSymbols) {
        size_t count = 0;
        for (int32_t place = 0; place < row_.size(); ++place) count += merge_at(place) != nullptr ? 1U : 0U;
        heap_.reserve(count + count / 8);
    }
    for (int32_t place = 0; place < row_.size(); ++place) {
        if (const auto* merge = merge_at(place)) heap_.push_back({merge->rank, place});
    }
    std::make_heap(heap_.begin(), heap_.end());
}

// Candidates that hold no more go before the heap grows: those that hold are no more than the symbols.
void Bpe::Encoder::make_room_in_heap() {
    if (heap_.size() < heap_.capacity()) return;
    if (heap_.size() > kKeptSymbols) {
        const auto stale = [this](const Candidate& candidate) { return !holds(candidate); };
        heap_.erase(std::remove_if(heap_.begin(), heap_.end(), stale), heap_.end());
        std::make_heap(heap_.begin(), heap_.end());
        if (heap_.size() < heap_.capacity() / 8 * 7) return;
    }
    heap_.reserve(heap_.capacity() + heap_.capacity() / 4 + 16);
}

void Bpe::Encoder::push(int32_t place) {
    const auto* const merge = place < 0 ? nullptr : merge_at(place);
    if (merge == nullptr) return;
    make_room_in_heap();
    heap_.push_back({merge->rank, place});
    std::push_heap(heap_.begin(), heap_.end());
}

void Bpe::Encoder::apply(int32_t place) {
    const int32_t next = row_.next(place);
    row_.merge(place, next, bpe_->merges_.find(row_.at(place), row_.at(next))->merged);
    push(row_.previous(place));
    push(place);
}

void Bpe::Encoder::merge(std::string_view word, std::vector<int32_t>& tokens) {
    if (bpe_->ignore_merges_) {
        if (const int32_t token = bpe_->whole_word(word); token >= 0) {
            make_room(tokens, 1);
            tokens.push_back(token);
            return;
        }
    }
    bpe_->first_symbols(word, row_.symbols());
    row_.start();
    fill_heap();
    while (!heap_.empty()) {
        std::pop_heap(heap_.begin(), heap_.end());
        const Candidate candidate = heap_.back();
        heap_.pop_back();
        if (holds(candidate)) apply(candidate.place);
    }
    if (heap_.capacity() > kKeptSymbols) heap_ = {};
    size_t count = 0;
    for (int32_t place = 0; place < row_.size(); ++place) count += row_.begins(place) ? 1U : 0U;
    make_room(tokens, count);
    for (int32_t place = 0; place < row_.size(); ++place) {
        if (row_.begins(place)) tokens.push_back(row_.at(place));
    }
    row_.shrink();
}

}  // namespace nanolith
