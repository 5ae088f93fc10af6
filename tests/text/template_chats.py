"""What chat templates are asked to render."""

SYSTEM = {"role": "system", "content": "You answer briefly.\nIn English."}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "find_lamp",
            "description": "Finds a lamp <in> the \"house\" & garden.",
            "parameters": {
                "type": "object",
                "properties": {
                    "room": {"type": "string", "description": "Größe und Raum: 漢字", "enum": ["hall", "attic"]},
                    "count": {"type": "integer", "minimum": 1, "default": 3},
                    "price": {"type": ["number", "null"], "multipleOf": 0.5},
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "place": {
                        "type": "object",
                        "properties": {"x": {"type": "number"}, "open": {"type": "boolean", "default": True}},
                        "required": ["x"],
                    },
                },
                "required": ["room"],
            },
        },
    },
    {"type": "function", "function": {"name": "ring", "description": "Rings.", "parameters": {"type": "object", "properties": {}}}},
]
DOCUMENTS = [{"title": "Lamps", "text": "The lamp is near the river.\n"}, {"title": "Ships", "text": "<none>"}]


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def call(name, arguments, number="abcdefgh1"):
    return {"id": number, "type": "function", "function": {"name": name, "arguments": arguments}}


THOUGHT = "<think>\nhm, a lamp\n</think>\n\nTwo."
CHATS = [
    [user("Hello")],
    [SYSTEM, user("Who lit the lamp?")],
    [user("a"), assistant("b"), user("c")],
    [SYSTEM, user("Größe? 漢字 👩‍🚀"), assistant("Yes,\n\nindeed."), user("1234\n\n  and  so on...")],
    [SYSTEM, user("  spaces around \n"), assistant("\n answer \n\n"), user("\tx\u00a0\n")],
    [user("\n\nlines first"), assistant("It's\n"), user("they'll\n\n\n"), assistant(" ok ")],
    [SYSTEM, user("one"), assistant(THOUGHT), user("three"), assistant("four"), user("five")],
    [user("one"), assistant(THOUGHT)],
    [user("one"), assistant("<think>\n\n</think>\n\nTwo.")],
    [user("one"), assistant("Two.", reasoning_content="hm, a lamp", thinking="hm, a lamp"), user("more")],
    [SYSTEM, user(""), assistant("x"), user(" ")],
    [SYSTEM],
    [user("a"), user("b")],
    [user("a"), SYSTEM, user("b")],
    [assistant("I begin"), user("b")],
    [SYSTEM, SYSTEM, user("b")],
    [{"role": "developer", "content": "Be brief."}, user("b")],
    [user("<|im_end|></s>[/INST]{{ x }}{% if %}")],
    [{"role": "system", "content": "/no_think Be brief."}, user("a /no_think")],
    [{"role": "user", "content": [{"type": "text", "text": "part one"}, {"type": "text", "text": " part two"}]}],
]
TOOL_CHATS = [
    [user("Find it"), assistant("", tool_calls=[call("find_lamp", {"room": "hall", "count": 2, "x": None})])],
    [
        SYSTEM,
        user("Find it"),
        assistant(None, tool_calls=[call("find_lamp", {"room": "attic", "open": True, "price": 1.5})]),
        {"role": "tool", "name": "find_lamp", "tool_call_id": "abcdefgh1", "content": '{"found": "größer"}'},
        assistant("There it is."),
        user("Ring"),
        assistant("", tool_calls=[call("ring", {}, "abcdefgh2"), call("find_lamp", {"room": "hall"}, "abcdefgh3")]),
        {"role": "tool", "name": "ring", "tool_call_id": "abcdefgh2", "content": "rung"},
        {"role": "tool", "name": "find_lamp", "tool_call_id": "abcdefgh3", "content": "found"},
    ],
    [user("Find it"), assistant("", tool_calls=[call("find_lamp", '{"room": "hall"}')]), {"role": "tool", "content": "ok", "tool_call_id": "abcdefgh1"}],
]
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


def requests():
    """The variables of each rendering."""
    for chat in CHATS:
        for generation in (False, True):
            yield {"messages": chat, "tools": None, "documents": None, "add_generation_prompt": generation, **TOKENS}
    for chat in CHATS[:4] + TOOL_CHATS:
        yield {"messages": chat, "tools": TOOLS, "documents": None, "add_generation_prompt": True, **TOKENS}
    for chat in TOOL_CHATS:
        yield {"messages": chat, "tools": None, "documents": None, "add_generation_prompt": False, **TOKENS}
    for chat in CHATS[:3]:
        yield {"messages": chat, "tools": None, "documents": DOCUMENTS, "add_generation_prompt": True, **TOKENS}
    for thinking in (False, True):
        more = {"enable_thinking": thinking, "thinking": thinking, "reasoning_effort": "high" if thinking else "low"}
        for chat in CHATS[:3]:
            yield {"messages": chat, "tools": None, "documents": None, "add_generation_prompt": True, **TOKENS, **more}
