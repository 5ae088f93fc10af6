// What the server is told when it starts: by flags, or by a file with the same names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace server {

struct Config {
    std::string model;                  // folder
    std::string model_name;             // that clients write; empty: the folder's name
    std::string chat_template;          // a Jinja file in place of the folder's; empty: the folder's
    std::string documents;              // a folder of text files that are put at the start; empty: none
    std::string document_role;          // of the messages that documents become
    std::string page_prompt;            // system prompt that the page begins with
    std::string pooling;                // of embeddings: "last" or "mean"
    std::string rerank_yes, rerank_no;  // what a model says of documents
    std::string rerank_ending;          // what follows the chat's generation prompt when it is asked
    std::string composition;            // "exact", "independent" or "blended"
    std::string device;
    std::vector<std::string> engine_options;  // "NUM_PAGES=4096"

    std::string host;
    int port = 0;  // 0: any that is free
    int connections = 0;
    int write_seconds = 0;  // how long a client may not take what is sent
    int drain_seconds = 0;  // how long answers may go on after SIGTERM

    std::vector<std::string> api_keys;
    std::string api_key_file;

    int64_t max_body_bytes = 0;
    int64_t max_requests = 0;  // answered at a time; one more is 429
    int64_t max_messages = 0;
    int64_t max_n = 0;
    int64_t max_tokens = 0;     // of an answer; 0: what the context has room for
    int64_t max_documents = 0;  // of a request
    int64_t max_stored = 0;     // documents that a key may put

    bool log_json = false;
    std::string log_level;
};

// Reads flags and the file that --config names. Ends the process after --help, and with a message where something is
// wrong.
Config read_config(int argc, char** argv);

}  // namespace server
