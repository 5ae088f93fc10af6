// Segments that several sequences share: every pattern of sharing, each sequence at bases of its own.
#include "ops/paged_case.h"

namespace nanolith::test {
namespace {

class Cascade : public OnDevice {
  protected:
    void expect_right(PagedCase& batch) {
        batch.finish();
        batch.expect_right(ops(), device());
    }
};
NL_ON_EVERY_DEVICE(Cascade);

AttentionKind rotated_kind(Format format, int32_t num_heads = 8) {
    AttentionKind kind;
    kind.num_heads = num_heads;
    kind.dtype = kind.kv_dtype = format;
    kind.rotated = true;
    return kind;
}

// Chunks in order, then the sequence's own tail whose last tokens are its rows.
void add_conversation(PagedCase& batch, int32_t num_rows, int32_t tail,
                      const std::vector<std::pair<size_t, int32_t>>& shared) {
    std::vector<ChunkUse> uses;
    int32_t position = 0;
    for (const auto& [chunk, length] : shared) {
        uses.push_back({chunk, length, position});
        position += length;
    }
    uses.push_back({batch.add_chunk(tail), tail, position});
    batch.add_sequence(num_rows, position + tail - num_rows, uses);
}

TEST_P(Cascade, OneChunkForAll) {
    Random random;
    for (const Format format : {Format::f32, Format::f16, Format::bf16}) {
        for (const int32_t sequences : {2, 3, 17}) {
            PagedCase batch(rotated_kind(format), random);
            const size_t chunk = batch.add_chunk(150);
            for (int32_t i = 0; i < sequences; ++i) add_conversation(batch, 1, random.integer(1, 40), {{chunk, 150}});
            expect_right(batch);
            if (HasFatalFailure()) return;
        }
    }
}

// System prompt, document, and tail: documents of several groups, so that levels nest.
TEST_P(Cascade, SeveralLevels) {
    Random random;
    PagedCase batch(rotated_kind(Format::f16), random);
    const size_t system = batch.add_chunk(64);
    const std::vector<size_t> documents{batch.add_chunk(97), batch.add_chunk(16), batch.add_chunk(200)};
    const std::vector<int32_t> lengths{97, 16, 200};
    for (size_t i = 0; i < 12; ++i)
        add_conversation(batch, 1, random.integer(1, 20), {{system, 64}, {documents[i % 3], lengths[i % 3]}});
    expect_right(batch);
}

// The same chunks in every order: each sequence has them at other bases.
TEST_P(Cascade, DifferentBases) {
    Random random;
    for (const Format format : {Format::f32, Format::f16, Format::bf16}) {
        PagedCase batch(rotated_kind(format), random);
        const size_t a = batch.add_chunk(33);
        const size_t b = batch.add_chunk(128);
        const size_t c = batch.add_chunk(5);
        add_conversation(batch, 1, 3, {{a, 33}, {b, 128}, {c, 5}});
        add_conversation(batch, 2, 9, {{b, 128}, {a, 33}, {c, 5}});
        add_conversation(batch, 1, 1, {{c, 5}, {b, 128}, {a, 33}});
        add_conversation(batch, 1, 17, {{b, 128}});
        add_conversation(batch, 1, 2, {{a, 33}, {c, 5}});
        // The same chunk twice in one context.
        add_conversation(batch, 1, 4, {{a, 33}, {b, 128}, {a, 33}});
        expect_right(batch);
        if (HasFatalFailure()) return;
    }
}

// Random sets of chunks, shortened at random as forked conversations share the beginning of a tail; rows of 1 to 8.
TEST_P(Cascade, RandomSharing) {
    Random random;
    for (int round = 0; round < 6; ++round) {
        PagedCase batch(rotated_kind(round % 2 == 0 ? Format::f16 : Format::bf16, round % 3 == 0 ? 2 : 14), random);
        std::vector<size_t> chunks;
        std::vector<int32_t> lengths;
        for (int i = 0; i < 5; ++i) {
            lengths.push_back(random.integer(1, 120));
            chunks.push_back(batch.add_chunk(lengths.back()));
        }
        for (int i = random.integer(2, 10); i > 0; --i) {
            std::vector<std::pair<size_t, int32_t>> shared;
            for (int n = random.integer(0, 4); n > 0; --n) {
                const auto which = static_cast<size_t>(random.integer(0, 4));
                shared.emplace_back(chunks[which], random.integer(1, lengths[which]));
            }
            const int32_t rows = random.integer(1, 8);
            add_conversation(batch, rows, rows + random.integer(0, 50), shared);
        }
        expect_right(batch);
        if (HasFatalFailure()) return;
    }
}

// Tails so long that several blocks share each: who merges one must wait for what the long chunk leaves.
TEST_P(Cascade, LongTailsBehindALongChunk) {
    Random random;
    for (int round = 0; round < 3; ++round) {
        PagedCase batch(rotated_kind(Format::f16), random);
        const size_t chunk = batch.add_chunk(6000);
        for (int32_t i = 0; i < 12; ++i) {
            add_conversation(batch, 1, i < 2 ? random.integer(700, 900) : 10, {{chunk, 6000}});
        }
        expect_right(batch);
        if (HasFatalFailure()) return;
    }
}

// Prefills of several conversations after one document, beside conversations that decode after it.
TEST_P(Cascade, PrefillBehindASharedChunk) {
    Random random;
    PagedCase batch(rotated_kind(Format::f16), random);
    const size_t document = batch.add_chunk(180);
    add_conversation(batch, 40, 40, {{document, 180}});
    add_conversation(batch, 1, 11, {{document, 180}});
    add_conversation(batch, 70, 90, {{document, 180}});
    add_conversation(batch, 1, 1, {{document, 180}});
    expect_right(batch);
}

// A window may end in the middle of a shared chunk, at another token for each sequence.
TEST_P(Cascade, WindowAcrossChunks) {
    Random random;
    AttentionKind kind = rotated_kind(Format::f16);
    kind.window = 100;
    PagedCase batch(kind, random);
    const size_t a = batch.add_chunk(80);
    const size_t b = batch.add_chunk(60);
    add_conversation(batch, 1, 30, {{a, 80}, {b, 60}});
    add_conversation(batch, 3, 50, {{b, 60}, {a, 80}});
    add_conversation(batch, 1, 101, {{a, 80}});
    expect_right(batch);
}

// Segments without tokens, sequences without segments, segments that lie wholly ahead.
TEST_P(Cascade, NothingToSee) {
    Random random;
    PagedCase batch(rotated_kind(Format::f32), random);
    const size_t chunk = batch.add_chunk(20);
    batch.add_sequence(1, 0, {});
    batch.add_sequence(3, 5, {{chunk, 0, 0}, {chunk, 20, 0}});
    batch.add_sequence(2, 5, {{chunk, 20, 100}});
    batch.add_sequence(4, 98, {{chunk, 20, 100}});  // its last rows see the first tokens
    expect_right(batch);
}

}  // namespace
}  // namespace nanolith::test
