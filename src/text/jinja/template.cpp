#include "text/jinja/template.h"

#include "text/jinja/parser.h"

namespace nanolith::jinja {

Result<Template> Template::parse(std::string_view source) {
    auto block = parse_template(source);
    if (!block.ok()) return fail(block.error().status, "the chat template, ", block.error().message);
    return Template(std::move(*block));
}

Result<Rendered> Template::render(Run& run, std::vector<std::pair<std::string, Value>> variables,
                                  const std::tm& date) const {
    Scope builtins;
    builtins.names = {{"range", Value(Function::range)},
                      {"dict", Value(Function::make_dict)},
                      {"namespace", Value(Function::make_namespace)},
                      {"raise_exception", Value(Function::raise_exception)},
                      {"strftime_now", Value(Function::strftime_now)}};
    Scope globals{&builtins, std::move(variables)};
    Evaluator evaluator(run, globals, date);
    auto text = evaluator.render(*block_);
    if (!text.ok()) return fail(text.error().status, "the chat template, ", text.error().message);
    return Rendered{std::move(*text), evaluator.places()};
}

}  // namespace nanolith::jinja
