// What chat models put around messages: a table of the known formats, and which of them a model folder's chat template
// may be.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace nanolith {

// Marks are text with special tokens in it, written as in the vocabulary; {bos} and {eos} stand for the tokenizer's,
// {space} for the space that belongs to the first word after a mark, where the tokenizer does not put it itself.
struct ChatMarks {
    std::string name;
    // The tokens in the marks. A tokenizer that lacks a required one does not fit; an optional one that it lacks is
    // text, which then must not occur in a message.
    std::vector<std::string> required_tokens;
    std::vector<std::string> optional_tokens;

    std::string begin;            // in front of all messages
    bool begins_as_text = false;  // with the tokens that the tokenizer puts in front of any text
    std::string system_before;
    std::string system_after;
    std::string user_before;
    std::string user_after;
    std::string assistant_before;
    std::string assistant_after;
    std::string generation;     // where the answer begins
    std::string no_generation;  // what stands last where none is asked for

    // Where the system text stands: in a message of its own, or inside the first or the last message of the user,
    // between system_before and system_after.
    enum class System { own_message, first_user, last_user } system = System::own_message;
    // A system message that is there even where the caller gives none, as far as system_before goes; else only where
    // default_system is not empty.
    bool always_system = false;
    std::string default_system;
    // What stands before later system messages where that is not system_before.
    std::string later_system_before;

    bool alternates = false;                 // user and assistant take turns; messages of one role in a row are one
    bool trims = false;                      // white space around a message is dropped
    bool trims_assistant = false;            // around the model's alone
    bool trims_system = false;               // and around the system text
    bool keeps_space_behind_system = false;  // but between the system text and the user's
    // In the model's earlier answers only what stands after </think> counts.
    bool drops_thoughts = false;
};

// The format of that name (one of chat_format_names), or INVALID_ARGUMENT.
Result<ChatMarks> find_chat_marks(std::string_view name);
// The names, as a sentence lists them.
std::string chat_format_names();

// The format whose marks `chat_template` (Jinja) seems to have. Whether it does must be tried.
std::optional<ChatMarks> recognise_chat_template(std::string_view chat_template);

}  // namespace nanolith
