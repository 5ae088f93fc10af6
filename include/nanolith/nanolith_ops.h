/*
 * Nanolith's kernels on raw pointers: attention over a paged key-value cache, and the norm and rotary pieces around
 * it, for programs that bring their own tensors and need no engine. The conventions of nanolith.h hold here too.
 *
 * EXPERIMENTAL: names, arguments and meanings in this header may change with any version. The handles and their options
 * are here since 0.1, the structs and the functions that take them, in this form, since 0.2.
 *
 *   nl_ops_create            the kernels of a device
 *   nl_attention_plan_set    what a step attends to: page table, segments, sequences, positions
 *   nl_kv_append             writes new keys and values to their pages
 *   nl_attention_run         decode, prefill with history and cascade attention over the pages
 *   nl_attention_with_cache  the same on plain [batch, heads, tokens, head_dim] tensors; pages are kept inside
 *
 * Tensors
 * - A tensor is a pointer to the memory of the handle's device: host memory for "cpu", memory that the GPU can read
 *   and write for "cuda". Arrays called host arrays are in host memory for every device; they are copied before the
 *   call returns.
 * - Strides count elements, not bytes, and may be any number of 0 or more: the last dimension (head_dim, size) alone is
 *   always contiguous. Addresses are aligned to the element; on CUDA addresses and strides are multiples of 16 bytes.
 * - Tensors that a call writes must not overlap those that it reads, except where a comment allows it.
 * - Sums are float32 whatever the tensors are.
 *
 * Structs
 * - A call that needs many values takes a struct, which the caller fills by name:
 *
 *       const nl_attention_capacity capacity = {.struct_size = sizeof capacity,
 *                                               .max_rows = 8,
 *                                               .max_sequences = 8,
 *                                               .max_segments = 32,
 *                                               .max_page_table = 512};
 *       nl_attention_plan_create(ops, options, &capacity, &plan);
 *
 *   The struct is read before the call returns. A member that is not named is 0 or NULL; where that is allowed, the
 *   member's comment says what it stands for, and all other members must be given.
 * - struct_size, the first member, is the sizeof of the struct that the caller was compiled with. Later versions add
 *   members at the end alone, and 0 or NULL in these means what was before: a size of before stays valid, and what it
 *   lacks counts as zero. Any other size is refused.
 * - nl_rows, nl_const_rows, nl_tensor and nl_const_tensor say where a tensor lies. They have no struct_size and stay as
 *   they are.
 * - A pointer to a struct is never NULL. Errors name the member as the caller sees it through the argument, for example
 *   "step.segment_lengths[3] is -1: expected 0 to 1024".
 *
 * Streams: on CUDA a call queues its work on the handle's stream (see nl_ops_set_stream) and returns; tensors must
 * live until that work is done, and a failure of the device itself may only be told by a later call as
 * NL_ERROR_DEVICE. Freeing a handle waits for the work that still needs it. On the CPU the work is done when the call
 * returns.
 *
 * Threads: calls on one nl_ops, and on plans and caches made from it, take turns. Threads that want to run at once
 * take an nl_ops each.
 */
#ifndef NANOLITH_NANOLITH_OPS_H
#define NANOLITH_NANOLITH_OPS_H

#include "nanolith/nanolith.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nl_ops nl_ops;                             /* the kernels of a device */
typedef struct nl_attention_options nl_attention_options; /* the shape and kind of an attention */
typedef struct nl_attention_plan nl_attention_plan;       /* what one step attends to */
typedef struct nl_kv_cache nl_kv_cache;                   /* keys and values of nl_attention_with_cache */

/* ---- Tensors --------------------------------------------------------------------------------- */

/* Rows of heads that a call reads: element i of head h of row r is data[r * row_stride + h * head_stride + i]. */
typedef struct nl_const_rows {
    const void *data;    /* row 0, head 0; NULL only where there are no rows */
    int64_t row_stride;  /* elements, 0 or more (0: all rows are row 0); not used with a single row */
    int64_t head_stride; /* elements, 0 or more (0: all heads are head 0); not used with a single head */
} nl_const_rows;

/* The same for rows that a call writes: the elements of two heads must not overlap. */
typedef struct nl_rows {
    void *data;          /* row 0, head 0; NULL only where there are no rows */
    int64_t row_stride;  /* elements, at least a head's; not used with a single row */
    int64_t head_stride; /* elements, at least a head's; not used with a single head */
} nl_rows;

/* A tensor [batch, heads, tokens, head_dim] that a call reads. */
typedef struct nl_const_tensor {
    const void *data;       /* its first element */
    const int64_t *strides; /* host array [3]: strides of batch, heads and tokens in elements; NULL: contiguous */
} nl_const_tensor;

/* The same for a tensor that a call writes: the elements of two heads must not overlap. */
typedef struct nl_tensor {
    void *data;             /* its first element */
    const int64_t *strides; /* host array [3]: strides of batch, heads and tokens in elements; NULL: contiguous */
} nl_tensor;

/* ---- Device --------------------------------------------------------------------------------- */

/*
 * The kernels of `device`: "cpu", "cuda" (the first GPU) or "cuda:N".
 * Errors: INVALID_ARGUMENT, NOT_FOUND (the device, or its backend library), UNSUPPORTED, OUT_OF_MEMORY, DEVICE.
 */
NL_API nl_status nl_ops_create(const char *device, size_t device_length, nl_ops **ops);
/* Drops the handle; plans and caches made from it live on. */
NL_API void nl_ops_free(nl_ops *ops);
/*
 * Work from now on goes to `stream`, a cudaStream_t of the same device; NULL (default) is CUDA's default stream. The
 * stream must outlive its use here. The CPU ignores it.
 */
NL_API nl_status nl_ops_set_stream(nl_ops *ops, void *stream);
/* CPU threads, 1 to 1024; 0 (default) takes the cores that the process may use. Nothing else depends on it. */
NL_API nl_status nl_ops_set_threads(nl_ops *ops, int32_t num_threads);
/* Waits until all that this handle has queued on its stream is done. */
NL_API nl_status nl_ops_synchronize(nl_ops *ops);
/* The device in words, for example "cpu (2 threads)" or "cuda:0 NVIDIA H200". */
NL_API nl_status nl_ops_device(const nl_ops *ops, char *buffer, size_t capacity, size_t *length);

/* ---- Attention options ---------------------------------------------------------------------- */

/*
 * What an attention is: heads, head dim and the rest. Heads and head dim must be set; all else has a default.
 * Not thread-safe against its own setters. Functions that take options copy them.
 */
NL_API nl_status nl_attention_options_create(nl_attention_options **options);
NL_API void nl_attention_options_free(nl_attention_options *options);

/*
 * Query heads and KV heads, 1 to 65536. The first must be a multiple of the second: query head h reads KV head
 * h / (num_heads / num_kv_heads).
 */
NL_API nl_status nl_attention_options_set_heads(nl_attention_options *options, int32_t num_heads, int32_t num_kv_heads);
/* Elements of a head: an even number from 2 to 256. CUDA takes multiples of 8, and of 16 with F8_E4M3. */
NL_API nl_status nl_attention_options_set_head_dim(nl_attention_options *options, int32_t head_dim);
/* Tokens a page: a power of two from 16 to 256. Default 64. */
NL_API nl_status nl_attention_options_set_page_size(nl_attention_options *options, int32_t page_size);
/* Format of queries, of new keys and values and of outputs: NL_DTYPE_F32, F16 or BF16. Default BF16. */
NL_API nl_status nl_attention_options_set_dtype(nl_attention_options *options, int32_t dtype);
/*
 * Format of the pages: NL_DTYPE_AUTO (default: as the queries), F32, F16, BF16 or F8_E4M3. CUDA takes the queries'
 * format, or on compute capability 9.x F8_E4M3 with F16 or BF16 queries; the CPU any pair.
 */
NL_API nl_status nl_attention_options_set_kv_dtype(nl_attention_options *options, int32_t kv_dtype);
/*
 * What stored keys and values are multiplied by when they are read, and divided by when they are written (rounded to
 * nearest, beyond the format's range to its largest number). Finite and positive; default 1 and 1.
 */
NL_API nl_status nl_attention_options_set_kv_scales(nl_attention_options *options, float k_scale, float v_scale);
/* Scores are the products of query and key times this, a finite number; 0 (default) stands for 1 / sqrt(head_dim). */
NL_API nl_status nl_attention_options_set_scale(nl_attention_options *options, float scale);
/* 1 (default): a query sees the keys at its own position and before. 0: it sees all of its keys. */
NL_API nl_status nl_attention_options_set_causal(nl_attention_options *options, int32_t causal);
/*
 * Sliding window: of the keys that it sees, a query at position p attends to those at positions above p - window.
 * 0 (default): to all. Needs causal attention.
 */
NL_API nl_status nl_attention_options_set_window(nl_attention_options *options, int32_t window);
/* Scores become softcap * tanh(score / softcap) before the softmax; 0 (default): they stay. Finite, not negative. */
NL_API nl_status nl_attention_options_set_softcap(nl_attention_options *options, float softcap);
/*
 * Rotary position embedding (Su et al., RoFormer): at position x, the elements i and i + head_dim/2 of a head turn by
 * the angle x * frequencies[i]. `frequencies` is a host array of head_dim/2 finite numbers, context scaling included;
 * positions that anything is rotated for are below `max_position`, 1 to 2^24. NULL, 0 and 0 (default): no rotation;
 * queries and keys come rotated or need none.
 */
NL_API nl_status nl_attention_options_set_rope(nl_attention_options *options, const float *frequencies, size_t count,
                                               int32_t max_position);

/* ---- Paged attention ------------------------------------------------------------------------ */

/*
 * Pages: a pool of one layer is one tensor [num_pages, 2, num_kv_heads, page_size, head_dim] of the KV format, 2 =
 * keys, values, contiguous. The caller owns it. Slot s of a pool is token s % page_size of page s / page_size.
 *
 * A plan describes one step for all layers of a model: it is set once and then used by every layer's nl_kv_append and
 * nl_attention_run. Memory for its capacities is reserved when it is made, and what nl_attention_run makes of a plan
 * depends on the capacities alone: a CUDA graph that has captured nl_kv_append and nl_attention_run may be replayed
 * after the plan was set again, and then does what the plan says now.
 */

/* The most that later calls of nl_attention_plan_set and nl_attention_plan_set_slots may bring, each 1 to 2^24. */
typedef struct nl_attention_capacity {
    size_t struct_size;     /* sizeof(nl_attention_capacity) */
    int64_t max_rows;       /* rows of a step: query tokens, or new keys, of all sequences together */
    int64_t max_sequences;  /* sequences of a step */
    int64_t max_segments;   /* segments of a step, of all sequences together */
    int64_t max_page_table; /* entries of a step's page table */
} nl_attention_capacity;

/* A plan without rows and slots yet. Errors: INVALID_ARGUMENT, UNSUPPORTED, OUT_OF_MEMORY, DEVICE. */
NL_API nl_status nl_attention_plan_create(nl_ops *ops, const nl_attention_options *options,
                                          const nl_attention_capacity *capacity, nl_attention_plan **plan);
NL_API void nl_attention_plan_free(nl_attention_plan *plan);

/*
 * One step: what its queries attend to. All arrays are host arrays; one may be NULL where it has no elements, and any
 * of the counts may be 0.
 *
 * Segment i is a run of tokens: token t lies in page page_table[segment_first_entries[i] + t / page_size] at
 * t % page_size. Keys are stored rotated for position t, counted from the segment's own beginning. A query at position
 * p is rotated by p - segment_bases[i] for it, and causally sees the tokens t <= p - segment_bases[i]. Sequences that
 * share tokens name the same first entry, each at a base of its own; such tokens are read once for all of them where
 * that is faster (cascade attention).
 *
 * Sequence j has the next sequence_rows[j] rows of the queries and attends to the next sequence_segments[j] segments,
 * so that both arrays sum to num_rows and num_segments.
 */
typedef struct nl_attention_step {
    size_t struct_size;                   /* sizeof(nl_attention_step) */
    int64_t num_pages;                    /* pages of each pool that the plan is used with, 0 or more */
    const int32_t *page_table;            /* [num_entries] pages of the pools, each 0 to num_pages - 1 */
    size_t num_entries;                   /* at most the plan's max_page_table */
    const int32_t *segment_first_entries; /* [num_segments] where in the page table a segment begins */
    const int32_t *segment_lengths;       /* [num_segments] tokens, 0 or more, within the page table */
    const int32_t *segment_bases;         /* [num_segments] where token 0 stands in the context of the sequence that
                                             uses the segment: a position, 0 or more, below 2^30 */
    size_t num_segments;                  /* at most the plan's max_segments */
    const int32_t *sequence_rows;         /* [num_sequences] rows, 1 or more */
    const int32_t *sequence_segments;     /* [num_sequences] segments, 0 or more */
    size_t num_sequences;                 /* at most the plan's max_sequences */
    const int32_t *positions;             /* [num_rows] where each query stands in its sequence's context: 0 or more,
                                             below 2^30, and consecutive within a sequence. With rotation,
                                             p - base is below max_position wherever the query sees a key */
    size_t num_rows;                      /* at most the plan's max_rows */
} nl_attention_step;

/*
 * What the next runs attend to; the cost is in the order of the arrays' sizes. A sequence's own new tokens are part of
 * its segments: append them first. The plan's slots (nl_attention_plan_set_slots) stay as they are. On CUDA the new
 * contents reach the device on the handle's stream, in order with the calls around it; do not call this while the
 * stream is being captured.
 * Errors: INVALID_ARGUMENT; the plan is then as before.
 */
NL_API nl_status nl_attention_plan_set(nl_attention_plan *plan, const nl_attention_step *step);

/* Where the rows of one step's new keys and values go. Host arrays; NULL where they have no elements. */
typedef struct nl_append_step {
    size_t struct_size;           /* sizeof(nl_append_step) */
    int64_t num_pages;            /* pages of each pool that is appended to, 0 or more */
    const int32_t *slots;         /* [num_rows] row i goes to slots[i], below num_pages * page_size, each slot at most
                                     once; -1 drops the row */
    const int32_t *key_positions; /* [num_rows] the position that a row's key is rotated for, counted from the beginning
                                     of its segment and below max_position; NULL where the options have no rotation */
    size_t num_rows;              /* at most the plan's max_rows */
} nl_append_step;

/* Where the next calls of nl_kv_append write. Otherwise as nl_attention_plan_set. */
NL_API nl_status nl_attention_plan_set_slots(nl_attention_plan *plan, const nl_append_step *step);

/* Other scales than the options' for the calls of nl_kv_append and nl_attention_run that follow, as layers with scales
   of their own need them. See nl_attention_options_set_kv_scales. */
NL_API nl_status nl_attention_plan_set_kv_scales(nl_attention_plan *plan, float k_scale, float v_scale);

/*
 * Writes the rows of k and v, both [rows of the slots, num_kv_heads, head_dim] in the queries' format, to their slots
 * of the pool `pages` (num_pages of them, as the slots were checked for). Keys are rotated on the way where the options
 * say so. Nothing else of the pool is read or written.
 */
NL_API nl_status nl_kv_append(nl_attention_plan *plan, const nl_const_rows *k, const nl_const_rows *v, void *pages);

/*
 * out = softmax(scores) V for every row and query head of the plan, over the keys that the row sees.
 * q and out are [rows, num_heads, head_dim]; queries are rotated here where the options have rotation. Tokens outside
 * the plan's segments are never used, whatever the pages hold there.
 * lse, NULL or float32 [rows, num_heads] contiguous, receives the natural logarithm of the sum of e^score over the keys
 * (scores scaled and capped), as nl_attention_merge takes it. A row that sees no key has out 0 and lse -infinity.
 * The same plan and inputs give the same bits.
 */
NL_API nl_status nl_attention_run(nl_attention_plan *plan, const nl_const_rows *q, const void *pages,
                                  const nl_rows *out, float *lse);

/* Parts of a result, and where they are merged to: the arguments of nl_attention_merge. */
typedef struct nl_merge_arguments {
    size_t struct_size;      /* sizeof(nl_merge_arguments) */
    int32_t dtype;           /* of outputs and out: NL_DTYPE_F32, F16 or BF16 */
    int32_t num_heads;       /* 1 to 65536 */
    int32_t head_dim;        /* 1 to 256 */
    int64_t num_parts;       /* 1 to 65536 */
    int64_t num_rows;        /* 0: nothing is read or written */
    nl_const_rows outputs;   /* [num_rows, num_heads, head_dim] of part 0 */
    int64_t part_stride;     /* from the outputs of a part to the next one's, in elements, 0 or more */
    const float *lse;        /* [num_rows, num_heads] of part 0, contiguous */
    int64_t lse_part_stride; /* from the lse of a part to the next one's, in elements, 0 or more */
    nl_rows out;             /* [num_rows, num_heads, head_dim]; may be one of the parts' outputs */
    float *out_lse;          /* [num_rows, num_heads] contiguous, may be one of the parts' lse; NULL: not wanted */
} nl_merge_arguments;

/*
 * Merges partial results over disjoint sets of keys into the result over all of them. A part whose lse is -infinity is
 * empty, and its outputs are not used. Where all parts are empty out is 0 and out_lse -infinity.
 */
NL_API nl_status nl_attention_merge(nl_ops *ops, const nl_merge_arguments *merge);

/* ---- Attention with a cache, on plain tensors ----------------------------------------------- */

/* The arguments of nl_attention_with_cache. */
typedef struct nl_with_cache_arguments {
    size_t struct_size;    /* sizeof(nl_with_cache_arguments) */
    int64_t batch;         /* sequences, 1 or more */
    int64_t num_tokens;    /* new tokens of each sequence, 1 or more; batch * num_tokens is at most 2^24 */
    const int64_t *counts; /* host array [batch]: how many of a sequence's new tokens there are, 0 to num_tokens, the
                              first ones. The rest is padding, whose inputs are not used and whose outputs become 0.
                              NULL: all of them */
    nl_const_tensor q;     /* [batch, num_heads, num_tokens, head_dim] */
    nl_const_tensor k;     /* [batch, num_kv_heads, num_tokens, head_dim]. With k.data and v.data both NULL the queries
                              bring no keys: they are the last num_tokens positions of what the cache holds */
    nl_const_tensor v;     /* [batch, num_kv_heads, num_tokens, head_dim], or without data, as k */
    nl_tensor out;         /* [batch, num_heads, num_tokens, head_dim] */
    int32_t update;        /* 1: the new keys and values stay in the cache; 0: it is afterwards as it was before */
    int64_t max_length;    /* tokens that a sequence of the cache may hold, the same in every call, 1 to 2^30; not used
                              without a cache */
} nl_with_cache_arguments;

/*
 * Attention of new tokens of each of a batch of sequences over what the cache holds of that sequence and over
 * themselves.
 *
 * `cache` points to the caller's handle. Where that is NULL and update is 1, the call makes an empty cache of `batch`
 * sequences with room for max_length tokens each, in pages and for KV heads alone, all of it reserved at once; with
 * update 0 none is made. cache itself may be NULL: attention of the new tokens among themselves.
 *
 * Token i of a sequence that holds n tokens stands at position n + i (at n - counts + i where the queries bring no
 * keys: n is then at least counts). With rotation keys are turned for that position, and so are the queries. Heads,
 * head dim, page size, formats, KV scales and rotation of the options must be those that the cache was made with;
 * scale, causality, window and soft-cap may change with every call.
 *
 * A call plans its step on the host, so it can't be recorded in a CUDA graph: a plan's nl_kv_append and
 * nl_attention_run can.
 * Errors: INVALID_ARGUMENT; CONTEXT_FULL where a sequence would have more than max_length tokens (the message names
 * it); OUT_OF_MEMORY; UNSUPPORTED; DEVICE. After an error the cache is as before and out holds anything.
 */
NL_API nl_status nl_attention_with_cache(nl_ops *ops, const nl_attention_options *options,
                                         const nl_with_cache_arguments *call, nl_kv_cache **cache);
NL_API void nl_kv_cache_free(nl_kv_cache *cache);

/* Facts about a cache, for nl_kv_cache_query. */
enum {
    NL_KV_CACHE_BATCH = 1,      /* sequences */
    NL_KV_CACHE_MAX_LENGTH = 2, /* tokens that a sequence may hold */
    NL_KV_CACHE_PAGE_SIZE = 3,
    NL_KV_CACHE_PAGES = 4,
    NL_KV_CACHE_BYTES = 5 /* of all pages; it never changes */
};
NL_API nl_status nl_kv_cache_query(const nl_kv_cache *cache, int32_t fact, int64_t *value);
/* Tokens that each sequence holds, [batch]. */
NL_API nl_status nl_kv_cache_lengths(const nl_kv_cache *cache, int64_t *lengths, size_t capacity, size_t *count);
/* Keeps the first `length` tokens of a sequence, at most what it holds, and forgets the rest. */
NL_API nl_status nl_kv_cache_truncate(nl_kv_cache *cache, int64_t sequence, int64_t length);

/* ---- Norm and rotation ---------------------------------------------------------------------- */

/* The arguments of nl_rms_norm. */
typedef struct nl_rms_norm_arguments {
    size_t struct_size; /* sizeof(nl_rms_norm_arguments) */
    int32_t dtype;      /* of x, weight and y: NL_DTYPE_F32, F16 or BF16 */
    int32_t num_heads;  /* 1 to 65536; 1 for a norm of whole rows */
    int32_t size;       /* elements that a norm is taken over, 1 to 65536 */
    float epsilon;      /* finite, 0 or more */
    int64_t num_rows;   /* 0: nothing is read or written */
    nl_const_rows x;    /* [num_rows, num_heads, size] */
    const void *weight; /* [size] */
    nl_rows y;          /* [num_rows, num_heads, size]; may be x */
} nl_rms_norm_arguments;

/*
 * y = x / sqrt(mean(x^2) + epsilon) * weight over the last dimension (Zhang and Sennrich, Root Mean Square Layer
 * Normalization).
 */
NL_API nl_status nl_rms_norm(nl_ops *ops, const nl_rms_norm_arguments *norm);

/* The arguments of nl_rope. All tensors are in the device's memory. */
typedef struct nl_rope_arguments {
    size_t struct_size;       /* sizeof(nl_rope_arguments) */
    int32_t dtype;            /* of x and y: NL_DTYPE_F32, F16 or BF16 */
    int32_t num_heads;        /* 1 to 65536 */
    int32_t head_dim;         /* even, 2 to 256 */
    int64_t num_rows;         /* 0: nothing is read or written */
    nl_const_rows x;          /* [num_rows, num_heads, head_dim] */
    const int32_t *positions; /* [num_rows] */
    const float *frequencies; /* [head_dim / 2] */
    nl_rows y;                /* [num_rows, num_heads, head_dim]; may be x */
} nl_rope_arguments;

/*
 * Rotary position embedding as nl_attention_options_set_rope describes it: heads of row r turn by
 * positions[r] * frequencies[i].
 */
NL_API nl_status nl_rope(nl_ops *ops, const nl_rope_arguments *rope);

#ifdef __cplusplus
}
#endif
#endif
