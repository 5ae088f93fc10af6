#include "text/chat_marks.h"

#include <utility>

#include "files/json.h"

namespace nanolith {
namespace {

using System = ChatMarks::System;

ChatMarks chatml() {
    ChatMarks marks;
    marks.name = "chatml";
    marks.required_tokens = {"<|im_start|>", "<|im_end|>"};
    marks.system_before = "<|im_start|>system\n";
    marks.user_before = "<|im_start|>user\n";
    marks.assistant_before = marks.generation = "<|im_start|>assistant\n";
    marks.system_after = marks.user_after = marks.assistant_after = "<|im_end|>\n";
    return marks;
}

ChatMarks llama2() {
    ChatMarks marks;
    marks.name = "llama-2";
    marks.optional_tokens = {"[INST]", "[/INST]", "<<SYS>>", "<</SYS>>"};
    marks.system = System::first_user;
    marks.system_before = "<<SYS>>\n";
    marks.system_after = "\n<</SYS>>\n\n";
    marks.user_before = "{bos}[INST] ";
    marks.user_after = " [/INST]";
    marks.assistant_before = " ";
    marks.assistant_after = " {eos}";
    marks.alternates = true;
    marks.trims = true;
    marks.keeps_space_behind_system = true;
    return marks;
}

ChatMarks llama3() {
    ChatMarks marks;
    marks.name = "llama-3";
    marks.required_tokens = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"};
    marks.begin = "{bos}";
    marks.system_before = "<|start_header_id|>system<|end_header_id|>\n\n";
    marks.user_before = "<|start_header_id|>user<|end_header_id|>\n\n";
    marks.assistant_before = marks.generation = "<|start_header_id|>assistant<|end_header_id|>\n\n";
    marks.system_after = marks.user_after = marks.assistant_after = "<|eot_id|>";
    marks.trims = marks.trims_system = true;
    return marks;
}

// Llama 3.1 and later were trained with dates in the system message. The template's own default date stands here, not
// the day's, so that a prompt stays the same.
ChatMarks llama31() {
    ChatMarks marks = llama3();
    marks.name = "llama-3.1";
    marks.later_system_before = marks.system_before;
    marks.system_before += "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n";
    marks.always_system = true;
    return marks;
}

ChatMarks mistral(const char* name) {
    ChatMarks marks;
    marks.name = name;
    marks.optional_tokens = {"[INST]", "[/INST]"};
    marks.system = System::first_user;
    marks.system_after = "\n\n";
    marks.begin = "{bos}";
    marks.user_before = "[INST]{space}";
    marks.user_after = " [/INST]";
    marks.assistant_after = "{eos}";
    marks.alternates = true;
    return marks;
}

ChatMarks mistral_v3() {
    ChatMarks marks = mistral("mistral-v3");
    marks.system = System::last_user;
    marks.user_after = "[/INST]";
    marks.assistant_before = "{space}";
    return marks;
}

ChatMarks mistral_v7() {
    ChatMarks marks = mistral("mistral-v7");
    marks.required_tokens = {"[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"};
    marks.optional_tokens.clear();
    marks.system = System::own_message;
    marks.system_before = "[SYSTEM_PROMPT]{space}";
    marks.system_after = "[/SYSTEM_PROMPT]";
    marks.user_before = "[INST]{space}";
    marks.user_after = "[/INST]";
    marks.assistant_before = "{space}";
    return marks;
}

ChatMarks ernie() {
    ChatMarks marks;
    marks.name = "ernie";
    marks.required_tokens = {"<|begin_of_sentence|>", "<|end_of_sentence|>"};
    marks.begin = "<|begin_of_sentence|>";
    marks.user_before = "User: ";
    marks.assistant_before = marks.generation = "Assistant: ";
    marks.system_after = marks.user_after = "\n";
    marks.assistant_after = "<|end_of_sentence|>";
    return marks;
}

ChatMarks gemma() {
    ChatMarks marks;
    marks.name = "gemma";
    marks.required_tokens = {"<start_of_turn>", "<end_of_turn>"};
    marks.begin = "{bos}";
    marks.system = System::first_user;
    marks.system_after = "\n\n";
    marks.user_before = "<start_of_turn>user\n";
    marks.assistant_before = marks.generation = "<start_of_turn>model\n";
    marks.user_after = marks.assistant_after = "<end_of_turn>\n";
    marks.alternates = true;
    marks.trims = true;
    return marks;
}

// Phi-3 and Phi-4-mini, which leaves the line breaks out.
ChatMarks phi3(const char* name, const std::string& line) {
    ChatMarks marks;
    marks.name = name;
    marks.required_tokens = {"<|system|>", "<|user|>", "<|assistant|>", "<|end|>"};
    marks.system_before = "<|system|>" + line;
    marks.user_before = "<|user|>" + line;
    marks.assistant_before = marks.generation = "<|assistant|>" + line;
    marks.system_after = marks.user_after = marks.assistant_after = "<|end|>" + line;
    marks.no_generation = "{eos}";
    return marks;
}

ChatMarks phi4() {
    ChatMarks marks;
    marks.name = "phi-4";
    marks.required_tokens = {"<|im_start|>", "<|im_sep|>", "<|im_end|>"};
    marks.system_before = "<|im_start|>system<|im_sep|>";
    marks.user_before = "<|im_start|>user<|im_sep|>";
    marks.assistant_before = marks.generation = "<|im_start|>assistant<|im_sep|>";
    marks.system_after = marks.user_after = marks.assistant_after = "<|im_end|>";
    return marks;
}

// For models that know no roles: the messages as they are.
ChatMarks plain() {
    ChatMarks marks;
    marks.name = "plain";
    marks.begins_as_text = true;
    return marks;
}

std::vector<ChatMarks> all_formats() {
    return {chatml(),     llama2(), llama3(), llama31(),           mistral("mistral-v1"),  mistral_v3(),
            mistral_v7(), ernie(),  gemma(),  phi3("phi-3", "\n"), phi3("phi-4-mini", ""), phi4(),
            plain()};
}

// Questions about a template.
class Template {
  public:
    explicit Template(std::string_view text) : text_(text) {}
    [[nodiscard]] bool has(std::string_view what) const { return text_.find(what) != std::string_view::npos; }
    // A literal that begins so, in either kind of quotes.
    [[nodiscard]] bool has_literal(const std::string& beginning) const {
        return has("'" + beginning) || has("\"" + beginning);
    }
    // Whether `mark` ends a line: the line break is itself in the literal, or escaped.
    [[nodiscard]] bool has_line(const std::string& mark) const { return has(mark + "\n") || has(mark + "\\n"); }
    [[nodiscard]] bool trims() const { return has("| trim") || has("|trim") || has(".strip()"); }

    // The system text that a ChatML template puts itself: a literal between its marks. False where there is one with
    // an escape that is not known here.
    bool find_default_system(std::string& found) const {
        constexpr std::string_view kBefore = "<|im_start|>system";
        for (size_t at = text_.find(kBefore); at != std::string_view::npos; at = text_.find(kBefore, at + 1)) {
            const size_t begin = at + kBefore.size();
            const size_t end = text_.find("<|im_end|>", begin);
            if (end == std::string_view::npos) break;
            const std::string_view literal = text_.substr(begin, end - begin);
            // Where the text is the caller's, the literal ends in between.
            if (literal.find_first_of("{}") != std::string_view::npos || literal.find(" + ") != std::string_view::npos)
                continue;
            return unescape(literal, found) && found.starts_with('\n') && (found.erase(0, 1), !found.empty());
        }
        return true;
    }

  private:
    static bool unescape(std::string_view literal, std::string& text) {
        text.clear();
        while (!literal.empty()) {
            const bool escaped = literal[0] == '\\';
            if (escaped) literal.remove_prefix(1);
            if (literal.empty() || (escaped && std::string_view("n'\"\\").find(literal[0]) == std::string_view::npos))
                return false;
            text += escaped && literal[0] == 'n' ? '\n' : literal[0];
            literal.remove_prefix(1);
        }
        return true;
    }

    std::string_view text_;
};

ChatMarks mistral_of(const Template& text) {
    if (text.has("[SYSTEM_PROMPT]")) {
        ChatMarks marks = mistral_v7();
        marks.system_before = text.has("[SYSTEM_PROMPT] ") ? "[SYSTEM_PROMPT] " : "[SYSTEM_PROMPT]";
        marks.user_before = text.has("[INST] ") ? "[INST] " : "[INST]";
        const bool spaced = text.has_literal(" \" + message") || text.has_literal(" ' + message");
        marks.assistant_before = spaced ? " " : "";
        return marks;
    }
    const bool space_before_answer = text.has("\" \" + message") || text.has("' ' + message");
    if (!text.has(" [/INST]")) {
        ChatMarks marks = mistral_v3();
        marks.user_before = text.has("[INST] ") ? "[INST] " : "[INST]";
        if (!text.has("loop.last and system_message")) marks.system = System::first_user;
        marks.assistant_before = space_before_answer ? " " : "";
        marks.trims_assistant = text.has("message[\"content\"]|trim") || text.has("message['content']|trim");
        return marks;
    }
    ChatMarks marks = mistral("mistral-v1");
    marks.user_before = text.has_literal(" [INST]") ? " [INST] " : "[INST] ";
    if (space_before_answer) marks.assistant_before = " ";
    if (text.has("eos_token + ' '") || text.has("eos_token + \" \"")) marks.assistant_after += " ";
    return marks;
}

ChatMarks chatml_of(const Template& text) {
    ChatMarks marks = chatml();
    if (!text.find_default_system(marks.default_system)) return {};
    marks.drops_thoughts = text.has("</think>");
    return marks;
}

ChatMarks llama3_of(const Template& text) {
    if (text.has("Cutting Knowledge Date: December 2023")) return llama31();
    ChatMarks marks = llama3();
    marks.trims = marks.trims_system = text.trims();
    if (!text.has("bos_token") && !text.has("<|begin_of_text|>")) marks.begin.clear();
    return marks;
}

// The format of a template, with an empty name where it is not known.
ChatMarks marks_of(const Template& text) {
    if (text.has("<|im_sep|>")) return phi4();
    if (text.has("<|im_start|>") && text.has("<|im_end|>")) return chatml_of(text);
    if (text.has("<|start_header_id|>") && text.has("<|eot_id|>")) return llama3_of(text);
    if (text.has("<start_of_turn>") && text.has("<end_of_turn>")) {
        ChatMarks marks = gemma();
        marks.trims = text.trims();
        return marks;
    }
    if (text.has("<<SYS>>") && text.has("[/INST]")) return llama2();
    if (text.has("[INST]") && text.has("[/INST]")) return mistral_of(text);
    if (text.has("<|end|>") && (text.has("<|user|>") || text.has("'<|' + message['role'] + '|>'"))) {
        ChatMarks marks =
            text.has_line("<|end|>") || text.has_line("<|user|>") ? phi3("phi-3", "\n") : phi3("phi-4-mini", "");
        if (!text.has("eos_token")) marks.no_generation.clear();
        return marks;
    }
    if (text.has("<|begin_of_sentence|>") && text.has("User: ") && text.has("Assistant: ") && text.has("sep_token"))
        return ernie();
    return {};
}

}  // namespace

Result<ChatMarks> find_chat_marks(std::string_view name) {
    for (ChatMarks& marks : all_formats()) {
        if (marks.name == name) return std::move(marks);
    }
    return fail(NL_ERROR_INVALID_ARGUMENT, "name is ", show_json(name), ": expected one of ", chat_format_names());
}

std::string chat_format_names() {
    std::string names;
    for (const ChatMarks& marks : all_formats()) names += (names.empty() ? "" : ", ") + marks.name;
    return names;
}

std::optional<ChatMarks> recognise_chat_template(std::string_view chat_template) {
    const Template text(chat_template);
    ChatMarks marks = marks_of(text);
    if (marks.name.empty()) return std::nullopt;
    // Templates of one format differ in whether they begin with bos.
    const bool has_bos = text.has("bos_token") && !text.has("cls_token");
    if (marks.user_before.starts_with("{bos}") || marks.name == "ernie") return marks;
    if (marks.name == "llama-3.1" || marks.name == "llama-3") return marks;
    marks.begin = has_bos ? "{bos}" : "";
    return marks;
}

}  // namespace nanolith
