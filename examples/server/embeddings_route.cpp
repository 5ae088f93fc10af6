// /v1/embeddings, in the way of OpenAI's interface.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "connection.h"
#include "service.h"
#include "texts.h"

namespace server {
namespace {

constexpr size_t kMostInputs = 2048;  // OpenAI's

struct Wanted {
    std::vector<std::vector<int32_t>> inputs;  // tokens
    int32_t pooling = NL_POOLING_LAST;
    bool normalized = true;
    size_t dimensions = 0;  // the first so many numbers of each vector
    bool base64 = false;
};

std::vector<int32_t> read_input(const Json& input, const Model& model) {
    if (!input.is_string() && !input.is_array())
        throw bad_request("input", "input has an element that is neither a text nor a list of token ids.");
    const Json object = {{"input", input}};
    auto tokens = input.is_string() ? model.encode(input.get<std::string>(), NL_ENCODE_ADD_SPECIAL, "input")
                                    : Fields(object).integers("input", input.size());
    if (tokens.empty()) throw bad_request("input", "input has a text without tokens.");
    if (tokens.size() > model.max_context())
        throw bad_request("input",
                          "A text has " + std::to_string(tokens.size()) + " tokens, and the context has room for " +
                              std::to_string(model.max_context()) + ".",
                          "context_length_exceeded");
    return tokens;
}

// The field is a text, a list of texts, a list of token ids, or a list of such lists.
std::vector<std::vector<int32_t>> read_inputs(Fields& fields, const Model& model) {
    const Json& field = fields.any("input");
    if (field.is_string()) return {read_input(field, model)};
    if (!field.is_array() || field.empty())
        throw bad_request("input", "input is neither a text nor a list of texts or token ids.");
    if (field.front().is_number()) return {read_input(field, model)};
    std::vector<std::vector<int32_t>> inputs;
    for (const Json& element : fields.list("input", kMostInputs)) inputs.push_back(read_input(element, model));
    return inputs;
}

int32_t pooling_named(const std::string& name) {
    if (name == "last") return NL_POOLING_LAST;
    if (name == "mean") return NL_POOLING_MEAN;
    throw bad_request("pooling", "pooling is " + name + ": expected last or mean.");
}

Wanted read_wanted(const Json& body, const Service& service) {
    Fields fields(body);
    check_model(fields, service.model);
    Wanted wanted;
    const auto hidden = static_cast<size_t>(fact(service.model.engine(), NL_ENGINE_HIDDEN_SIZE));
    const std::string format = fields.text("encoding_format").value_or("float");
    if (format != "float" && format != "base64")
        throw bad_request("encoding_format", "encoding_format is " + format + ": expected float or base64.");
    wanted.base64 = format == "base64";
    wanted.pooling = pooling_named(fields.text("pooling").value_or(service.config.pooling));
    wanted.normalized = fields.boolean("normalize").value_or(true);
    wanted.dimensions =
        static_cast<size_t>(fields.integer("dimensions", 1, static_cast<int64_t>(hidden)).value_or(hidden));
    fields.text("user");
    wanted.inputs = read_inputs(fields, service.model);
    fields.finish();
    return wanted;
}

void normalize(std::vector<float>& vector) {
    double squares = 0;
    for (const float number : vector) squares += static_cast<double>(number) * static_cast<double>(number);
    if (squares == 0) return;
    for (float& number : vector) number = static_cast<float>(static_cast<double>(number) / std::sqrt(squares));
}

std::vector<float> embed(const std::vector<int32_t>& tokens, const Wanted& wanted, const Service& service,
                         const Tenant& tenant) {
    const Cache cache =
        made<Cache>([&](nl_cache** out) { return nl_cache_create(tenant.engine, nullptr, nullptr, 0, out); });
    std::vector<float> vector(static_cast<size_t>(fact(service.model.engine(), NL_ENGINE_HIDDEN_SIZE)));
    size_t count = 0;
    must(nl_cache_embed(cache.get(), tokens.data(), tokens.size(), wanted.pooling, 0, vector.data(), vector.size(),
                        &count),
         "input");
    vector.resize(wanted.dimensions);
    if (wanted.normalized) normalize(vector);
    return vector;
}

// The numbers' bytes, little-endian float32.
std::string in_base64(const std::vector<float>& vector) {
    constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::vector<unsigned char> bytes(vector.size() * sizeof(float));
    std::memcpy(bytes.data(), vector.data(), bytes.size());
    std::string text;
    text.reserve((bytes.size() + 2) / 3 * 4);
    for (size_t at = 0; at < bytes.size(); at += 3) {
        const size_t count = std::min<size_t>(3, bytes.size() - at);
        uint32_t bits = 0;
        for (size_t i = 0; i < 3; ++i) bits = bits << 8 | (i < count ? bytes[at + i] : 0U);
        for (size_t i = 0; i < 4; ++i) text += i <= count ? kDigits[bits >> (18 - 6 * i) & 63] : '=';
    }
    return text;
}

Json reply_of(const std::vector<std::vector<float>>& vectors, const Wanted& wanted, const Service& service) {
    Json data = Json::array();
    size_t tokens = 0;
    for (const auto& input : wanted.inputs) tokens += input.size();
    for (const auto& vector : vectors) {
        const Json embedding = wanted.base64 ? Json(in_base64(vector)) : Json(vector);
        data.push_back({{"object", "embedding"}, {"index", data.size()}, {"embedding", embedding}});
    }
    return {{"object", "list"},
            {"data", std::move(data)},
            {"model", service.model.name()},
            {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}};
}

Json embeddings(Service& service, const httplib::Request& request, Tenant& tenant, const std::string& body,
                Ticket& ticket) {
    const Wanted wanted = read_wanted(parse_body(body), service);
    std::vector<std::vector<float>> vectors(wanted.inputs.size());
    const Connection connection(request);
    const bool is_there = work_on_texts(
        vectors.size(), [&](size_t i) { vectors[i] = embed(wanted.inputs[i], wanted, service, tenant); },
        [&] { return connection.is_open(); });
    if (!is_there) return {};  // nobody reads what is sent
    Json reply = reply_of(vectors, wanted, service);
    const auto tokens = reply["usage"]["total_tokens"].get<uint64_t>();
    service.metrics.prompt_tokens.fetch_add(tokens);
    ticket.fields()["prompt_tokens"] = tokens;
    ticket.end_with(Outcome::answered);
    return reply;
}

}  // namespace

void add_embeddings_route(httplib::Server& http, Service& service) {
    http.Post("/v1/embeddings", with_ticket(service, embeddings));
}

}  // namespace server
