// /v1/rerank, in the way of Jina's and Cohere's interfaces: how well documents answer a query. The model is asked of
// each document whether it does, and what counts is how probable yes is beside no.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "connection.h"
#include "service.h"
#include "texts.h"

namespace server {
namespace {

// As Qwen3-Reranker was trained; others follow it as well as they can.
constexpr const char* kSystem =
    "Judge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the "
    "answer can only be \"yes\" or \"no\".";
constexpr const char* kInstruction = "Given a web search query, retrieve relevant passages that answer the query";

struct Question {
    std::vector<std::string> documents;
    std::vector<std::vector<int32_t>> prompts;  // tokens, of each document
    std::vector<int32_t> answers;               // the first tokens of yes and no
    size_t top_n = 0;
    bool return_documents = false;
};

// Texts, or objects with a text.
std::vector<std::string> read_texts(Fields& fields) {
    std::vector<std::string> texts;
    for (const Json& element : fields.list("documents", 1000)) {
        if (element.is_object()) {
            Fields inside(element, "documents[" + std::to_string(texts.size()) + "].");
            texts.push_back(inside.text("text").value_or(""));
            inside.finish();
        } else if (element.is_string()) {
            texts.push_back(element.get<std::string>());
        } else {
            throw bad_request("documents", R"(documents has an element that is neither a text nor {"text": ...}.)");
        }
    }
    if (texts.empty()) throw bad_request("documents", "documents is missing or empty.");
    return texts;
}

int32_t first_token(const std::string& word, const Model& model) {
    const auto tokens = model.encode(word, 0, "model");
    if (tokens.empty()) throw unsupported("model", "The model's tokenizer has no token for " + word + ".");
    return tokens.front();
}

std::vector<int32_t> make_prompt(const std::string& instruction, const std::string& query, const std::string& document,
                                 const Service& service) {
    const Json system = {{"role", "system"}, {"content", kSystem}};
    const Json user = {{"role", "user"},
                       {"content", "<Instruct>: " + instruction + "\n<Query>: " + query + "\n<Document>: " + document}};
    auto tokens = service.model.render({{"messages", {system, user}}}, 2, true).tokens;
    const auto ending = service.model.encode(service.config.rerank_ending, 0, "model");
    tokens.insert(tokens.end(), ending.begin(), ending.end());
    if (tokens.size() > service.model.max_context())
        throw bad_request("documents",
                          "A document has " + std::to_string(tokens.size()) +
                              " tokens with the query, and the context has room for " +
                              std::to_string(service.model.max_context()) + ".",
                          "context_length_exceeded");
    return tokens;
}

Question read_question(const Json& body, const Service& service) {
    Fields fields(body);
    check_model(fields, service.model);
    Question question;
    const auto query = fields.text("query");
    if (!query || query->empty()) throw bad_request("query", "query is missing or empty.");
    const std::string instruction = fields.text("instruction").value_or(kInstruction);
    question.documents = read_texts(fields);
    const auto count = static_cast<int64_t>(question.documents.size());
    question.top_n = static_cast<size_t>(std::min(fields.integer("top_n", 1, INT32_MAX).value_or(count), count));
    question.return_documents = fields.boolean("return_documents").value_or(false);
    fields.finish();
    for (const std::string& word : {service.config.rerank_yes, service.config.rerank_no})
        question.answers.push_back(first_token(word, service.model));
    if (question.answers[0] == question.answers[1])
        throw unsupported("model", "In this model " + service.config.rerank_yes + " and " + service.config.rerank_no +
                                       " begin with the same token: --rerank-yes and --rerank-no change them.");
    for (const std::string& document : question.documents)
        question.prompts.push_back(make_prompt(instruction, *query, document, service));
    return question;
}

double relevance(const std::vector<int32_t>& prompt, const std::vector<int32_t>& answers, const Tenant& tenant) {
    const Cache cache =
        made<Cache>([&](nl_cache** out) { return nl_cache_create(tenant.engine, nullptr, nullptr, 0, out); });
    float logprobs[2] = {0, 0};
    size_t count = 0;
    must(nl_cache_score_next(cache.get(), prompt.data(), prompt.size(), answers.data(), answers.size(), logprobs, 2,
                             &count),
         "documents");
    return 1 / (1 + std::exp(static_cast<double>(logprobs[1]) - static_cast<double>(logprobs[0])));
}

Json reply_of(const Question& question, const std::vector<double>& scores, const Service& service) {
    std::vector<size_t> order(scores.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
    order.resize(question.top_n);
    Json results = Json::array();
    for (const size_t index : order) {
        Json result = {{"index", index}, {"relevance_score", scores[index]}};
        if (question.return_documents) result["document"] = {{"text", question.documents[index]}};
        results.push_back(std::move(result));
    }
    size_t tokens = 0;
    for (const auto& prompt : question.prompts) tokens += prompt.size();
    return {{"model", service.model.name()},
            {"results", std::move(results)},
            {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}};
}

Json rerank(Service& service, const httplib::Request& request, Tenant& tenant, const std::string& body,
            Ticket& ticket) {
    const Question question = read_question(parse_body(body), service);
    std::vector<double> scores(question.prompts.size());
    const auto score = [&](size_t i) { scores[i] = relevance(question.prompts[i], question.answers, tenant); };
    const Connection connection(request);
    score(0);  // the others take over its beginning, which is theirs too
    const bool is_there = work_on_texts(
        scores.size() - 1, [&](size_t i) { score(i + 1); }, [&] { return connection.is_open(); });
    if (!is_there) return {};  // nobody reads what is sent
    Json reply = reply_of(question, scores, service);
    const auto tokens = reply["usage"]["total_tokens"].get<uint64_t>();
    service.metrics.prompt_tokens.fetch_add(tokens);
    ticket.fields()["prompt_tokens"] = tokens;
    ticket.end_with(Outcome::answered);
    return reply;
}

}  // namespace

void add_rerank_route(httplib::Server& http, Service& service) {
    http.Post("/v1/rerank", with_ticket(service, rerank));
}

}  // namespace server
