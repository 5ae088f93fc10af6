// What requests for answers have in common: how to draw, when to end, how many answers, and how to send them.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "config.h"
#include "fields.h"
#include "handles.h"
#include "model.h"
#include "option_values.h"

namespace server {

struct Settings {
    Options sampling;    // all but the seed
    Options generation;  // when to end
    int64_t seed = 0;    // of the first answer; each further one has the next
    int64_t n = 1;
    bool stream = false;
    bool include_usage = false;  // of streams: the last chunk tells the usage
    int32_t composition = NL_COMPOSE_EXACT;
    bool logprobs = false;       // of the tokens drawn
    int64_t top_logprobs = 0;    // and of so many others in the place of each
    bool biased = false;         // it has logit_bias
    std::string constrained_by;  // the field that says what an answer must be; empty: it may be anything
};

// Makes the answer follow a constraint, one of the generation's options `key`, because of the field `param`. An
// ApiError that names the field where it can't, or where another field asks for a constraint.
void constrain(Settings& settings, const std::string& param, int32_t key, const std::string& text);

// Reads settings out of requests. Made once; may be used from any thread.
class SettingsReader {
  public:
    SettingsReader(const Config& config, const Model& model);

    // `standard_tokens` is how long an answer may get where the request does not say it; 0: to the end of the context.
    Settings read(Fields& fields, int64_t standard_tokens) const;

  private:
    void read_sampling(Fields& fields, Settings& settings) const;
    void read_bias(Fields& fields, Settings& settings) const;
    static void read_constraint(Fields& fields, Settings& settings);
    void read_end(Fields& fields, int64_t standard_tokens, nl_options* generation) const;

    const Config* config_;
    const Model* model_;
    std::map<std::string, OptionFacts> sampling_;  // the engine's options of drawing, which are fields of requests
};

// An NL_COMPOSE_* by its name, or an ApiError that blames `param`.
int32_t composition_named(const std::string& name, const std::string& param);
std::string composition_name(int64_t composition);

}  // namespace server
