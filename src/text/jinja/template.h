// A chat template: Jinja, as far as published templates use it, with the settings and functions that Transformers gives
// it. It renders within limits, and what it can't do is an error that names the line.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/run.h"

namespace nanolith::jinja {

struct Rendered {
    Text text;
    std::vector<MessagePlace> places;  // in the order in which the template wrote them
};

// Immutable, so every member may be called from any thread.
class Template {
  public:
    // UNSUPPORTED where the source is no template, or has a tag that is not supported.
    static Result<Template> parse(std::string_view source);

    // `variables` were made in `run`. INVALID_ARGUMENT where the template refuses them, UNSUPPORTED where it needs what
    // is not supported or goes beyond a limit.
    [[nodiscard]] Result<Rendered> render(Run& run, std::vector<std::pair<std::string, Value>> variables,
                                          const std::tm& date) const;

  private:
    explicit Template(Block block) : block_(std::make_shared<const Block>(std::move(block))) {}

    std::shared_ptr<const Block> block_;
};

}  // namespace nanolith::jinja
