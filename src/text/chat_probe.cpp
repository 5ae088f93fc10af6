#include "text/chat_probe.h"

#include <vector>

namespace nanolith {
namespace {

using Chat = std::vector<ChatMessage>;

ChatMessage system(std::string_view text) {
    return {NL_ROLE_SYSTEM, text};
}
ChatMessage user(std::string_view text) {
    return {NL_ROLE_USER, text};
}
ChatMessage assistant(std::string_view text) {
    return {NL_ROLE_ASSISTANT, text};
}

constexpr std::string_view kThought = "<think>\nhm\n</think>\n\ntwo";

// User and assistant take turns in these.
std::vector<Chat> turns() {
    return {
        {user("Hello")},
        {system("You answer briefly.\nIn English."), user("Who lit the lamp?")},
        {user("a"), assistant("b"), user("c")},
        {user("a"), assistant("b")},
        {system("s"), user("one"), assistant("two"), user("three"), assistant("four"), user("five")},
        {system("s"), user("one"), assistant("two"), user("three"), assistant("four")},
        {system("  spaces around \n"), user("\n lines\n\n"), assistant("\n answer \n\n"), user("\tx\xC2\xA0\n")},
        {user("  x"), assistant(" ok "), user("y  ")},
        {system("s"), user("one"), assistant(kThought), user("three"), assistant("four"), user("five")},
        {user("one"), assistant(kThought), user("three")},
        {user("one"), assistant(kThought)},
        {user("one"), assistant("<think>\n\n</think>\n\ntwo")},
        {system(""), user(""), assistant(""), user("")},
        {user(""), assistant("x"), user(" ")},
        {system(" "), user("x")},
        {user("<think> a </think> b"), assistant("b"), user("/no_think")},
        {system("1\n\n2"),
         user("Gr\xC3\xB6\xC3\x9F"
              "e? \xE6\xBC\xA2\xE5\xAD\x97"),
         assistant("Yes,\n\nindeed.")},
    };
}

// And these are for formats that take messages in any order.
std::vector<Chat> free_orders() {
    return {
        {user("a"), user("b")},
        {user("a"), system("s"), user("b")},
        {system("s"), system("t"), user("b")},
        {assistant("a"), user("b")},
        {user("a"), assistant("b"), assistant("c"), user("d")},
        {system("s"), assistant("a"), user("b")},
    };
}

}  // namespace

bool is_same_format(const ChatMarks& marks, const RenderChat& with_marks, const RenderChat& with_template) {
    std::vector<Chat> chats = turns();
    if (!marks.alternates) {
        for (Chat& chat : free_orders()) chats.push_back(std::move(chat));
    }
    size_t num_same = 0;
    for (const Chat& chat : chats) {
        for (const bool generation : {false, true}) {
            const auto wanted = with_template(chat, generation);
            if (!wanted.ok() && wanted.error().status == NL_ERROR_INVALID_ARGUMENT) continue;
            const auto got = wanted.ok() ? with_marks(chat, generation) : wanted;
            if (!wanted.ok() || !got.ok() || wanted->tokens != got->tokens) return false;
            ++num_same;
        }
    }
    return num_same >= chats.size() / 2;
}

}  // namespace nanolith
