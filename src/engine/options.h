// What the options of the ABI say, for the engine. Names, bounds and defaults for callers are in
// src/api/option_table.cpp; the defaults here are the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/sampling_options.h"
#include "backend/weight_form.h"
#include "grammar/constraint_text.h"
#include "nanolith/nanolith.h"

namespace nanolith {

struct EngineOptions {
    std::string device = "auto";
    int32_t dtype = NL_DTYPE_AUTO;
    int32_t kv_dtype = NL_DTYPE_AUTO;         // AUTO: as the activations
    WeightForm weights = WeightForm::source;  // its values are those of NL_WEIGHTS_*
    int32_t page_size = 64;
    int64_t num_pages = 0;    // 0: sized from the model and the free memory
    int64_t max_context = 0;  // 0: the model's
    int32_t max_batch_tokens = 2048;
    int32_t max_output_rows = 256;     // most sequences that get a token in one step
    double step_ms = 0;                // what a step that prefills beside running conversations may take; 0: see Pacer
    int32_t queue_limit = 4096;        // most requests waiting
    int32_t num_threads = 0;           // 0: all that the process may use
    bool map_weights = true;           // the CPU uses weights where they lie in their files
    bool allow_not_finite = false;     // weights that are NaN or infinite are no error
    bool warm_up = true;               // everything is made ready while the engine is created
    bool batch_invariant = false;      // a row's arithmetic does not depend on the rows beside it
    bool share_prefixes = true;        // conversations take pages that others with the same beginning have filled
    std::string store_folder = {};     // where chunks are kept in files; empty: nowhere
    int64_t store_bytes = 0;           // most bytes of these; 0: no limit
    std::string store_server = {};     // the address of a server where chunks are kept; empty: none
    int64_t store_deadline_ms = 1000;  // what it may take for one chunk
    int64_t host_bytes = 0;            // of the host's memory for chunks that are evicted from the device
    bool profile = false;              // phases of steps are timed, and logged when the engine goes
    nl_log_callback log = nullptr;
    void* log_user_data = nullptr;
    nl_progress_callback progress = nullptr;  // a result other than 0 cancels creation
    void* progress_user_data = nullptr;
};

struct CacheOptions {
    int32_t composition = NL_COMPOSE_EXACT;
    double blend_share = 0.1;      // of the chunks' tokens, the most that a blend recomputes
    bool blend_falls_back = true;  // to exact composition, where that computes little more; not an option of the ABI
};

struct GenerationOptions {
    int64_t max_tokens = 0;  // 0: until the context is full
    int64_t min_tokens = 0;  // until so many are drawn, end and stop tokens can't be drawn, and stop texts do not count
    std::vector<int32_t> stop_tokens = {};
    bool end_tokens = true;  // the model's own end tokens end it
    std::vector<std::string> stop_texts = {};
    int64_t deadline_ms = 0;              // since its start; 0: none
    int32_t priority = 0;                 // higher ones first
    int32_t buffer_tokens = 1024;         // tokens that wait for the reader before it pauses
    bool text = true;                     // tokens are turned into text
    bool logprobs = false;                // the log-probability of each token drawn is kept for the reader
    int32_t top_logprobs = 0;             // how many most probable tokens are kept with theirs, for each token drawn
    grammar::Constraint constraint = {};  // what the text must be
    int32_t constrained_tokens = 0;       // of the cache's last tokens, those that the text begins with
    bool jump_ahead = false;              // tokens of a text that the constraint forces are not drawn
    nl_logits_callback change_logits = nullptr;
    void* change_logits_user_data = nullptr;
};

}  // namespace nanolith
