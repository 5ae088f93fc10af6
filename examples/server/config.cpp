#include "config.h"

#include <CLI/CLI.hpp>
#include <cstdlib>

namespace server {
namespace {

void add_model(CLI::App& app, Config& config) {
    app.add_option("--model,model", config.model, "Folder of the model (Hugging Face)")
        ->required()
        ->check(CLI::ExistingDirectory);
    app.add_option("--model-name", config.model_name, "Its name for clients [the folder's name]");
    app.add_option("--chat-template", config.chat_template, "A Jinja file in place of the model's chat template")
        ->check(CLI::ExistingFile);
    app.add_option("--documents", config.documents, "A folder of text files, which are put as documents at the start")
        ->check(CLI::ExistingDirectory);
    app.add_option("--document-role", config.document_role, "Role of the messages that documents become")
        ->default_val("user");
    app.add_option("--page-prompt", config.page_prompt, "System prompt that the page at / begins with");
    app.add_option("--composition", config.composition, "How documents are composed unless a request says it")
        ->default_val("exact")
        ->check(CLI::IsMember({"exact", "independent", "blended"}));
    app.add_option("--pooling", config.pooling, "What embeddings are made of unless a request says it")
        ->default_val("last")
        ->check(CLI::IsMember({"last", "mean"}));
    app.add_option("--rerank-yes", config.rerank_yes, "What the model says of documents that answer a query")
        ->default_val("yes");
    app.add_option("--rerank-no", config.rerank_no, "What it says of others")->default_val("no");
    app.add_option("--rerank-ending", config.rerank_ending,
                   "What stands before its answer, as \"<think>\\n\\n</think>\\n\\n\"");
    app.add_option("--device", config.device, "auto, cpu, cuda or cuda:1")->default_val("auto");
    app.add_option("--engine", config.engine_options,
                   "NAME=VALUE, an option of the engine, as NUM_PAGES=4096 (nl_option_describe names them); may be "
                   "given several times");
}

void add_connections(CLI::App& app, Config& config) {
    app.add_option("--host", config.host, "Address to listen on")->default_val("127.0.0.1");
    app.add_option("--port", config.port, "Port; 0 takes a free one")->default_val(8080)->check(CLI::Range(0, 65535));
    app.add_option("--connections", config.connections, "Most connections at a time; each has a thread")
        ->default_val(512)
        ->check(CLI::Range(8, 900));
    app.add_option("--write-seconds", config.write_seconds, "How long a client may not read before it is dropped")
        ->default_val(30)
        ->check(CLI::Range(1, 3600));
    app.add_option("--drain-seconds", config.drain_seconds, "How long answers may go on after SIGTERM")
        ->default_val(30)
        ->check(CLI::Range(0, 3600));
    app.add_option("--api-key", config.api_keys,
                   "A key that clients must send, may be given several times; each is a tenant of its own");
    app.add_option("--api-key-file", config.api_key_file, "A file with one such key a line")->check(CLI::ExistingFile);
}

void add_limits(CLI::App& app, Config& config) {
    const CLI::Range counts(int64_t{1}, int64_t{1} << 31);
    app.add_option("--max-body-bytes", config.max_body_bytes, "Longest body of a request")
        ->default_val(int64_t{16} << 20)
        ->check(CLI::Range(int64_t{1024}, int64_t{1} << 30));
    app.add_option("--max-requests", config.max_requests,
                   "Most requests that are answered at a time; one more is 429 [connections less 8]");
    app.add_option("--max-messages", config.max_messages, "Most messages of a chat")->default_val(1024)->check(counts);
    app.add_option("--max-n", config.max_n, "Most answers to one prompt")->default_val(16)->check(counts);
    app.add_option("--max-tokens", config.max_tokens, "Longest answer in tokens; 0: to the end of the context")
        ->default_val(0)
        ->check(CLI::NonNegativeNumber);
    app.add_option("--max-documents", config.max_documents, "Most documents of a request")
        ->default_val(64)
        ->check(counts);
    app.add_option("--max-stored", config.max_stored, "Most documents that a key may put")
        ->default_val(4096)
        ->check(counts);
}

}  // namespace

Config read_config(int argc, char** argv) {
    Config config;
    CLI::App app("Serves a model over HTTP, as OpenAI's interface has it, with documents that are computed once.");
    app.set_config("--config", "", "A file with these flags, as `port = 8080`", false);
    add_model(app, config);
    add_connections(app, config);
    add_limits(app, config);
    app.add_flag("--log-json", config.log_json, "Log lines are JSON");
    app.add_option("--log-level", config.log_level, "Least severity of log lines")
        ->default_val("info")
        ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        std::exit(app.exit(error));
    }
    if (config.max_requests <= 0) config.max_requests = config.connections - 8;
    return config;
}

}  // namespace server
