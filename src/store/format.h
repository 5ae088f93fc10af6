// What a file of chunks holds beside its pages, as bytes. Numbers are little-endian. A file is, one after the other:
//
//   header        kHeaderBytes: sizes, the engine's mark, the digest of the first chunk, checksums
//   description   the tenant's salt, the chunks' tokens and predecessors, and a conversation's own tokens
//   zeros         up to the next multiple of kPageAlignment
//   pages         each chunk's in order, followed by the conversation's versions of those with recomputed tokens, then
//                 those of the conversation's tail; as Executor::read_pages gives them, page first, and zero where a
//                 page has no token
//   checksums     one of each page (uint64_t, page_checksum.h), and one of these
//
// nl_chunk_save writes one chunk and no conversation, nl_cache_save a conversation with its chunks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/sampling_options.h"
#include "base/result.h"
#include "store/identity.h"

namespace nanolith {

constexpr uint32_t kFormatVersion = 3;
constexpr size_t kHeaderBytes = 192;
constexpr size_t kPageAlignment = 4096;

// A chunk in a file as its conversation uses it: its first `length` tokens at the positions from `base`. Alone it is
// used whole, at 0.
struct SavedChunk {
    std::shared_ptr<const ChunkIdentity> identity;
    int32_t level = 0;
    int32_t length = 0;
    int32_t base = 0;
    // Both of these only in a blended conversation.
    bool exact = false;  // as ChunkUse::exact
    // Ascending indices of the chunk's units (store/blend_unit.h) whose tokens the conversation has recomputed.
    std::vector<int32_t> recomputed = {};
};

// How far a conversation's blend has come (BlendProgress).
struct SavedBlend {
    double share = 0;
    bool begun = false;
    int64_t chosen_tokens = 0;
    bool is_shared = false;  // the recomputed tokens may be used by others (ResidentSequence::shares_blend)
};

// What a conversation has of its own.
struct SavedTail {
    std::vector<int32_t> tokens;
    int32_t computed = 0;  // the first so many have keys and values
    int32_t composition = NL_COMPOSE_EXACT;
    std::optional<SavedBlend> blend = std::nullopt;  // where the composition is NL_COMPOSE_BLENDED
    SamplingOptions sampling;
    std::optional<int32_t> next;  // the token drawn after the last one, where it is known
};

struct Saved {
    std::shared_ptr<Tenant> tenant;  // whose it is; chunks among it may be the engine's own
    std::vector<SavedChunk> chunks;
    std::optional<SavedTail> tail;  // none: one chunk alone
};

// Ascending indices of the pages in which these units lie, which ascend too.
std::vector<int32_t> pages_of_units(std::span<const int32_t> units, int32_t page_size);

// The number of pages in a file of `saved`: those that each chunk's tokens fill, the conversation's versions of them,
// and the tail's.
int64_t pages_of(const Saved& saved, int32_t page_size);

struct Header {
    EngineMark mark;
    int32_t page_size = 0;
    int64_t page_bytes = 0;  // over all layers
    Digest chunk_digest{};   // digest_of() the chunk, in a file of one chunk; else zeros
    int64_t num_pages = 0;
    size_t description_bytes = 0;
    uint64_t description_checksum = 0;

    [[nodiscard]] size_t pages_begin() const {
        return (kHeaderBytes + description_bytes + kPageAlignment - 1) / kPageAlignment * kPageAlignment;
    }
    [[nodiscard]] size_t checksums_begin() const {
        return pages_begin() + static_cast<size_t>(num_pages) * static_cast<size_t>(page_bytes);
    }
    [[nodiscard]] size_t file_bytes() const {
        return checksums_begin() + (static_cast<size_t>(num_pages) + 1) * sizeof(uint64_t);
    }
};

// UNSUPPORTED: there are more predecessors and tokens than a description may have.
Result<std::vector<std::byte>> encode_description(const Saved& saved);
std::vector<std::byte> encode_header(const Header& header);

// `path` begins every message. BAD_FILE: it is none of ours, or damaged; UNSUPPORTED: of another version. What is given
// has sizes that add up to `file_bytes`.
Result<Header> decode_header(std::span<const std::byte> bytes, size_t file_bytes, const std::string& path);
// Identities are interned in `store`: needs the engine's mutex. Every index, length and number of pages holds; tokens
// are from 0 to vocab_size - 1.
Result<Saved> decode_description(std::span<const std::byte> bytes, const Header& header, int32_t vocab_size,
                                 ChunkStore& store, const std::string& path);

// BAD_FILE with which it is: pages of another size or format, other weights, another tokenizer, other numbers.
Result<void> check_mark(const Header& header, const EngineMark& mark, int32_t page_size, int64_t page_bytes,
                        const std::string& path);

}  // namespace nanolith
