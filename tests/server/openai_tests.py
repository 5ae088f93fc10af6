"""The server as the openai package sees it."""

import json
import math
import re
import typing

from harness import SYSTEM, Server, Skipped, in_parallel, read_demo

try:
    import openai
    from prometheus_client.parser import text_string_to_metric_families
except ImportError:
    openai = None

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
TIME = {"type": "function", "function": {"name": "get_time", "parameters": {"type": "object", "properties": {}}}}

PLACE = {"type": "object", "properties": {"city": {"enum": ["Paris", "Bonn"]}}, "required": ["city"]}
FORECAST = {
    "type": "function",
    "function": {
        "name": "get_forecast",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {
                "places": {"type": "array", "items": {"$ref": "#/$defs/place"}, "minItems": 1, "maxItems": 2},
                "days": {"type": "integer", "minimum": 1, "maximum": 9},
            },
            "required": ["places", "days"],
            "additionalProperties": False,
            "$defs": {"place": PLACE},
        },
    },
}

# Names and values that look like keywords and references, and a reference to the whole schema.
TREE = {
    "type": "function",
    "function": {
        "name": 'a/b~c "q"',
        "parameters": {
            "type": "object",
            "properties": {
                "$ref": {"enum": [{"$ref": "#/x"}, "a"]},
                "enum": {"$ref": "#/$defs/leaf"},
                "definitions": {"type": "integer", "minimum": 1, "maximum": 3},
                "children": {"type": "array", "items": {"$ref": "#"}, "maxItems": 1},
            },
            "required": ["$ref", "enum", "definitions"],
            "additionalProperties": False,
            "$defs": {"leaf": {"type": "boolean"}},
        },
    },
}


def client_of(server, key="none"):
    if openai is None:
        raise Skipped("the openai package is not there")
    return openai.OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0, timeout=60)


def ask(client, question, documents, **fields):
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    extra = {"documents": [{"text": text} for text in documents]}
    return client.chat.completions.create(model="records", messages=messages, extra_body=extra, **fields)


def raises(kind, param, call, **fields):
    try:
        call(**fields)
    except kind as error:
        assert error.param == param, (error.param, error)
        return error
    raise AssertionError(f"no {kind.__name__}")


def test_prometheus_reads_the_metrics():
    if openai is None:
        raise Skipped("prometheus-client is not installed")
    with Server() as server:
        server.chat(max_tokens=5)
        _, _, text = server.request("GET", "/metrics")
        families = {family.name: family for family in text_string_to_metric_families(text.decode())}
        counts = {name: family.type for name, family in families.items()}
        assert counts["nanolith_step_seconds"] == counts["nanolith_step_rows"] == "histogram", counts
        assert counts["nanolith_generations_ended"] == "counter" and counts["nanolith_pages"] == "gauge", counts
        ended = {sample.labels["reason"]: sample.value for sample in families["nanolith_generations_ended"].samples}
        assert sum(ended.values()) == 1, ended
        rows = {sample.name: sample.value for sample in families["nanolith_step_rows"].samples}
        assert rows["nanolith_step_rows_sum"] >= 5 and rows["nanolith_step_rows_count"] >= 5, rows


def test_answers_from_documents():
    documents, questions = read_demo()
    with Server(model="records") as server:
        client = client_of(server)
        for numbers, question, answer, _ in questions:
            reply = ask(client, question, [documents[number] for number in numbers])
            assert reply.choices[0].message.content.strip() == answer, (question, answer, reply)
            assert reply.choices[0].finish_reason == "stop"
            assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens


def test_documents_are_reused():
    documents, questions = read_demo()
    numbers, question, answer, _ = questions[0]
    texts = [documents[number] for number in numbers]
    with Server(model="records") as server:
        client = client_of(server)
        first, second = ask(client, question, texts), ask(client, question, texts)
        assert first.choices[0].message.content == second.choices[0].message.content
        assert first.usage.prompt_tokens_details.cached_tokens == 0
        last = second.usage.prompt_tokens - second.usage.prompt_tokens_details.cached_tokens
        assert 0 < last < 20, second.usage  # the question alone
        used = second.nanolith["documents"]
        assert [use["computed"] for use in used] == [0] * len(texts)
        assert second.nanolith["tokens_reused"] == second.usage.prompt_tokens_details.cached_tokens
        # In another order exact composition computes what has other documents before it.
        moved = ask(client, question, texts[::-1])
        assert moved.usage.prompt_tokens_details.cached_tokens < second.usage.prompt_tokens_details.cached_tokens


def test_independent_documents_need_no_order():
    documents, questions = read_demo()
    with Server("--composition", "independent", model="records") as server:
        client = client_of(server)
        for numbers, question, answer, mode in questions:
            texts = [documents[number] for number in numbers]
            reply = ask(client, question, texts)
            if mode == "independent":
                assert reply.choices[0].message.content.strip() == answer, (question, answer)
            moved = ask(client, question, texts[::-1])
            assert all(use["computed"] == 0 for use in moved.nanolith["documents"]), moved.nanolith
            assert moved.nanolith["composition"] == "independent"


def test_streams_give_the_same():
    documents, questions = read_demo()
    numbers, question, answer, _ = questions[0]
    with Server(model="records") as server:
        client = client_of(server)
        texts = [documents[number] for number in numbers]
        events = list(ask(client, question, texts, stream=True, stream_options={"include_usage": True}))
        text = "".join(event.choices[0].delta.content or "" for event in events if event.choices)
        assert text.strip() == answer
        assert events[0].choices[0].delta.role == "assistant"
        assert [event.choices[0].finish_reason for event in events if event.choices][-1] == "stop"
        assert events[-1].choices == [] and events[-1].usage.completion_tokens > 0
        assert all(event.usage is None for event in events[:-1])
        assert len({event.id for event in events}) == 1
        without = list(ask(client, question, texts, stream=True))
        assert all(event.choices for event in without)


def test_ends():
    with Server() as server:
        client = client_of(server)
        create, messages = client.chat.completions.create, [{"role": "user", "content": "hi"}]
        cut = create(model="chain", messages=messages, max_completion_tokens=4).choices[0]
        assert (cut.message.content, cut.finish_reason) == ("la li lu\nla ", "length")
        stopped = create(model="chain", messages=messages, stop=["lu", "zz"]).choices[0]
        assert (stopped.message.content, stopped.finish_reason) == ("la li ", "stop")
        several = create(model="chain", messages=messages, max_tokens=2, n=3)
        assert [choice.index for choice in several.choices] == [0, 1, 2]
        assert [choice.message.content for choice in several.choices] == ["la li "] * 3
        assert several.usage.completion_tokens == 6
        streamed = create(model="chain", messages=messages, max_tokens=2, n=3, stream=True)
        texts = ["", "", ""]
        for event in streamed:
            texts[event.choices[0].index] += event.choices[0].delta.content or ""
        assert texts == ["la li "] * 3


def test_seeds():
    with Server() as server:
        client = client_of(server)

        def draw(**fields):
            # Behind a letter every token is as likely as any other, with this model.
            reply = client.completions.create(
                model="chain", prompt="a", max_tokens=8, extra_body={"ignore_eos": True}, **fields
            )
            return [choice.text for choice in reply.choices]

        assert draw(seed=7) == draw(seed=7)
        assert len({draw(seed=seed)[0] for seed in range(5)}) > 1
        assert draw(seed=7, n=3)[0] == draw(seed=7)[0] and len(set(draw(seed=7, n=3))) == 3
        assert len({draw()[0] for _ in range(5)}) > 1, "without a seed answers differ"
        assert draw(temperature=0) == draw(temperature=0, seed=1)


def test_completions():
    documents, questions = read_demo()
    with Server(model="records") as server:
        client = client_of(server)
        numbers, question, answer, _ = questions[1]
        # The whole prompt as text, and as the token ids that /tokenize gives.
        prompt = "<|system|> " + SYSTEM + "".join("<|doc|> " + documents[n] for n in numbers)
        prompt += f"<|user|> {question}<|assistant|>"
        tokens = server.post("/tokenize", {"prompt": prompt})["tokens"]
        begin = server.post("/tokenize", {"prompt": "<s>", "add_special_tokens": False})["tokens"]
        for form in (begin + tokens, [begin + tokens]):
            reply = client.completions.create(model="records", prompt=form)
            assert reply.choices[0].text.strip() == answer, reply
        both = client.completions.create(model="records", prompt=[prompt, "x"], max_tokens=2, n=2)
        assert [choice.index for choice in both.choices] == [0, 1, 2, 3]
        streamed = client.completions.create(model="records", prompt=begin + tokens, stream=True)
        assert "".join(event.choices[0].text for event in streamed).strip() == answer


def test_tools():
    messages = [{"role": "user", "content": "How is it in Paris?"}]
    wanted = {
        "hermes": [("get_weather", {"city": "Paris"})],
        "hermes2": [("get_weather", {"city": "Bonn"}), ("get_time", {})],
        "llama": [("get_weather", {"city": "Rome"})],
        "mistral": [("get_weather", {"city": "Oslo"})],
    }
    with Server() as server:
        create = client_of(server).chat.completions.create
        for style, calls in wanted.items():
            fields = {"model": "chain", "messages": messages, "tools": [WEATHER, TIME]}
            fields["extra_body"] = {"chat_template_kwargs": {"style": style}}
            choice = create(**fields).choices[0]
            assert choice.finish_reason == "tool_calls", choice
            got = [(call.function.name, json.loads(call.function.arguments)) for call in choice.message.tool_calls]
            assert got == calls, (style, got)
            assert len({call.id for call in choice.message.tool_calls}) == len(calls)
            assert choice.message.content == ("Let me look.\n" if style == "hermes" else None)
            events = [event.choices[0] for event in create(stream=True, **fields)]
            deltas = [call for event in events for call in event.delta.tool_calls or []]
            assert [delta.index for delta in deltas] == list(range(len(calls)))
            got = [(delta.function.name, json.loads(delta.function.arguments)) for delta in deltas]
            assert got == calls, (style, got)
            assert events[-1].finish_reason == "tool_calls"
            text = "".join(event.delta.content or "" for event in events)
            assert text == ("Let me look.\n" if style == "hermes" else ""), text


def test_structured_answers():
    with Server() as server:
        client = client_of(server)
        import pydantic

        class Weather(pydantic.BaseModel):
            city: typing.Literal["Paris", "Rome"]
            hot: bool

        messages = [{"role": "user", "content": "?"}]
        for seed in range(6):
            parsed = client.chat.completions.parse(model="chain", messages=messages, response_format=Weather, seed=seed)
            assert isinstance(parsed.choices[0].message.parsed, Weather), parsed
        schema = {"type": "json_schema", "json_schema": {"name": "weather", "schema": Weather.model_json_schema()}}
        create = client.chat.completions.create
        events = create(model="chain", messages=messages, response_format=schema, stream=True)
        Weather.model_validate_json("".join(event.choices[0].delta.content or "" for event in events))
        for extra, wanted in (({"regex": "[ab]{3}c"}, "[ab]{3}c"), ({"choice": ["yes", "no"]}, "yes|no")):
            text = create(model="chain", messages=messages, extra_body=extra).choices[0].message.content
            assert re.fullmatch(wanted, text), text
        schema["json_schema"]["schema"] = {"type": "object", "properties": {"a": {"type": "nothing"}}}
        error = raises(
            openai.BadRequestError, "response_format", create, model="chain", messages=messages, response_format=schema
        )
        assert "nothing" in str(error), error


def test_log_probabilities():
    with Server() as server:
        client = client_of(server)
        fields = {"model": "chain", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3, "logprobs": True}
        entries = client.chat.completions.create(top_logprobs=2, **fields).choices[0].logprobs.content
        assert [entry.token for entry in entries] == ["la ", "li ", "lu\n"]
        for entry in entries:  # each token has one successor
            assert abs(entry.logprob) < 1e-6 and bytes(entry.bytes).decode() == entry.token
            assert entry.top_logprobs[0].token == entry.token and entry.top_logprobs[1].logprob < -50
        streamed = [event.choices[0] for event in client.chat.completions.create(stream=True, **fields)]
        streamed = [entry for choice in streamed if choice.logprobs for entry in choice.logprobs.content]
        assert [entry.token for entry in streamed] == ["la ", "li ", "lu\n"]
        assert client.chat.completions.create(**{**fields, "logprobs": False}).choices[0].logprobs is None
        # Behind a letter each of the 320 tokens is as likely as any other.
        reply = (
            client.completions.create(model="chain", prompt="a", max_tokens=1, logprobs=3, seed=1).choices[0].logprobs
        )
        assert abs(reply.token_logprobs[0] + math.log(320)) < 1e-4, reply
        assert reply.text_offset == [0] and all(abs(v + math.log(320)) < 1e-4 for v in reply.top_logprobs[0].values())


def test_biases_and_penalties():
    with Server() as server:
        create = client_of(server).completions.create
        fields = {"model": "chain", "prompt": "a", "max_tokens": 2, "temperature": 0}
        assert create(logit_bias={"65": 100}, **fields).choices[0].text == "AA"
        # The second A costs more than the bias of B is less.
        both = {"65": 100, "66": 99}
        assert create(logit_bias=both, frequency_penalty=2, **fields).choices[0].text == "AB"


def test_what_is_no_call_stays_text():
    messages = [{"role": "user", "content": "?"}]
    texts = {"json": '{"temperature": 21}', "unknown": '<tool_call>{"name": "rm", "arguments": {}}</tool_call>.'}
    with Server() as server:
        create = client_of(server).chat.completions.create
        for style, text in texts.items():
            fields = {"model": "chain", "messages": messages, "tools": [WEATHER]}
            fields["extra_body"] = {"chat_template_kwargs": {"style": style}}
            choice = create(**fields).choices[0]
            assert (choice.message.content, choice.message.tool_calls, choice.finish_reason) == (text, None, "stop")
            events = [event.choices[0] for event in create(stream=True, **fields)]
            assert "".join(event.delta.content or "" for event in events) == text
        # Where the request has no tools, or wants none called, nothing is a call.
        for more in ({}, {"tools": [WEATHER], "tool_choice": "none"}):
            choice = create(
                model="chain", messages=messages, extra_body={"chat_template_kwargs": {"style": "llama"}}, **more
            ).choices[0]
            assert choice.message.content.startswith('{"name"') and choice.finish_reason == "stop"


def check_tree(tree):
    assert tree["$ref"] in ({"$ref": "#/x"}, "a") and isinstance(tree["enum"], bool), tree
    assert 1 <= tree["definitions"] <= 3, tree
    for child in tree.get("children", []):
        check_tree(child)


def check_call(call):
    arguments = json.loads(call.function.arguments)
    if call.function.name == "get_time":
        assert isinstance(arguments, dict), arguments
    elif call.function.name == TREE["function"]["name"]:
        check_tree(arguments)
    elif call.function.name == "get_weather":
        assert isinstance(arguments["city"], str), arguments
    else:
        assert call.function.name == "get_forecast" and set(arguments) == {"places", "days"}, call
        assert 1 <= len(arguments["places"]) <= 2 and 1 <= arguments["days"] <= 9, arguments
        assert all(place["city"] in ("Paris", "Bonn") for place in arguments["places"]), arguments


def test_tools_that_must_be_called():
    with Server() as server:
        create = client_of(server).chat.completions.create
        fields = {"model": "chain", "messages": [{"role": "user", "content": "?"}], "temperature": 1.5}
        fields["tools"] = [WEATHER, TIME, FORECAST, TREE]
        named = {"type": "function", "function": {"name": "get_forecast"}}
        tree = {"type": "function", "function": {"name": TREE["function"]["name"]}}
        for seed in range(8):
            for choice in ("required", named, tree):
                answer = create(tool_choice=choice, seed=seed, parallel_tool_calls=False, **fields).choices[0]
                assert answer.finish_reason == "tool_calls" and not answer.message.content, answer
                (call,) = answer.message.tool_calls
                check_call(call)
                assert choice == "required" or call.function.name == choice["function"]["name"], call
        events = [event.choices[0] for event in create(tool_choice=named, stream=True, **fields)]
        (call,) = [call for event in events for call in event.delta.tool_calls or []]
        check_call(call)
        assert events[-1].finish_reason == "tool_calls"

        def refused(param, tools, **more):
            raises(openai.BadRequestError, param, create, **{**fields, "tools": tools}, **more)

        refused("tool_choice", [WEATHER], tool_choice=named)
        refused("tool_choice", [], tool_choice="required")
        refused("tool_choice", [WEATHER], tool_choice="required", response_format={"type": "json_object"})
        refused("tools", [FORECAST])
        refused("parallel_tool_calls", [WEATHER], parallel_tool_calls=False)
        wrong = {"type": "function", "function": {"name": "f", "parameters": {"type": "nothing"}}}
        refused("tool_choice", [wrong], tool_choice="required")


def test_results_of_tools():
    with Server() as server:
        create = client_of(server).chat.completions.create
        messages = [{"role": "user", "content": "How is it in Paris?"}]
        answer = create(model="chain", messages=messages, tools=[WEATHER]).choices[0].message
        messages += [answer, {"role": "tool", "tool_call_id": answer.tool_calls[0].id, "content": "sun"}]
        final = create(model="chain", messages=messages, tools=[WEATHER]).choices[0]
        assert (final.message.content, final.finish_reason) == ("It is sunny.", "stop")


def test_errors():
    with Server("--api-key", "secret", "--max-n", "4") as server:
        create = client_of(server, "secret").chat.completions.create
        fields = {"model": "chain", "messages": [{"role": "user", "content": "hi"}]}
        raises(openai.NotFoundError, "model", create, **{**fields, "model": "gpt-4"})
        raises(openai.BadRequestError, "n", create, n=5, **fields)
        raises(openai.BadRequestError, "temperature", create, temperature=-1, **fields)
        raises(openai.BadRequestError, "messages[0].content", create, **{**fields, "messages": [{"role": "user"}]})
        raises(openai.BadRequestError, "tool_choice", create, tools=[WEATHER], tool_choice="always", **fields)
        too_long = [{"role": "user", "content": "a" * 140000}]
        error = raises(openai.BadRequestError, "messages", create, **{**fields, "messages": too_long})
        assert error.code == "context_length_exceeded"
        wrong = client_of(server, "guess")
        raises(openai.AuthenticationError, None, wrong.chat.completions.create, **fields)
        raises(openai.AuthenticationError, None, wrong.models.list)


def test_models():
    with Server() as server:
        client = client_of(server)
        assert [model.id for model in client.models.list()] == ["chain"]
        assert client.models.retrieve("chain").id == "chain"
        raises(openai.NotFoundError, "model", client.models.retrieve, model="other")


def test_64_clients():
    documents, questions = read_demo()
    with Server(model="records") as server:

        def work(index):
            client = client_of(server)
            for turn in range(3):
                numbers, question, answer, _ = questions[(index + turn) % len(questions)]
                reply = ask(client, question, [documents[number] for number in numbers])
                assert reply.choices[0].message.content.strip() == answer, (question, reply)

        in_parallel(64, work)
        numbers = server.metrics()
        assert numbers['nanolith_requests_total{outcome="answered"}'] == 192
        assert numbers["nanolith_answers_running"] == numbers["nanolith_queue_depth"] == 0
