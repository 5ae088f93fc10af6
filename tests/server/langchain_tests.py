"""The server as LangChain sees it, which speaks OpenAI's interface in its own way."""

import asyncio
import typing

from harness import Server, Skipped

try:
    import pydantic
    from langchain_openai import ChatOpenAI, OpenAIEmbeddings
except ImportError:
    pydantic = None


def connect(kind, server, **fields):
    if pydantic is None:
        raise Skipped("the package langchain-openai is not there")
    return kind(base_url=f"{server.url}/v1", api_key="none", model="chain", **fields)


def chat_model(server, max_tokens=40, **fields):
    return connect(ChatOpenAI, server, max_tokens=max_tokens, temperature=0, **fields)


def test_answers_whole_and_in_pieces():
    with Server() as server:
        model = chat_model(server, stream_usage=True)
        expected = server.chat("hi", max_tokens=40, temperature=0)
        text = expected["choices"][0]["message"]["content"]
        whole = model.invoke("hi")
        assert whole.content == text and len(text) > 20, (whole.content, text)
        assert whole.usage_metadata["output_tokens"] == expected["usage"]["completion_tokens"]
        assert whole.response_metadata["finish_reason"] == expected["choices"][0]["finish_reason"]
        pieces = list(model.stream("hi"))
        assert len(pieces) > 1  # tokens that are there at once come together
        assert "".join(piece.content for piece in pieces) == text
        usage = [piece.usage_metadata for piece in pieces if piece.usage_metadata]
        assert [(each["input_tokens"], each["output_tokens"]) for each in usage] == [
            (expected["usage"]["prompt_tokens"], expected["usage"]["completion_tokens"])
        ]

        async def stream():
            return "".join([piece.content async for piece in model.astream("hi")])

        assert asyncio.run(stream()) == text
        assert [each.content for each in model.batch(["hi"] * 5)] == [text] * 5


def test_tools_are_called():
    with Server() as server:

        def weather(city: typing.Literal["Bonn", "Paris"], days: typing.Literal[1, 2]) -> str:
            """The weather in a city."""
            return f"{city} {days}"

        (call,) = chat_model(server, 400).bind_tools([weather], tool_choice="any").invoke("hi").tool_calls
        assert call["name"] == "weather" and call["args"]["city"] in ("Bonn", "Paris"), call
        assert call["args"]["days"] in (1, 2), call
        answer = chat_model(server).invoke(
            [("human", "hi"), ("ai", ""), ("human", "and then?"), ("system", "Answer in few words.")]
        )
        assert answer.content


def test_answers_have_the_wanted_shape():
    with Server() as server:
        model = chat_model(server, 400)

        class Trip(pydantic.BaseModel):
            city: typing.Literal["Bonn", "Paris"]
            days: typing.Annotated[int, pydantic.Field(ge=1, le=9)]

        for method in ("json_schema", "function_calling"):
            trip = model.with_structured_output(Trip, method=method).invoke("hi")
            assert isinstance(trip, Trip) and 1 <= trip.days <= 9, (method, trip)
        logprobs = chat_model(server).bind(logprobs=True, top_logprobs=2).invoke("hi").response_metadata["logprobs"]["content"]
        assert len(logprobs) == 40 and all(len(each["top_logprobs"]) == 2 for each in logprobs)


def test_texts_are_embedded():
    with Server() as server:
        # Else it would send tokens of OpenAI's own tokenizer.
        embeddings = connect(OpenAIEmbeddings, server, check_embedding_ctx_length=False)
        texts = ["sun", "moon and stars"]
        expected = server.post("/v1/embeddings", {"input": texts})["data"]
        found = embeddings.embed_documents(texts)
        for vector, entry in zip(found, expected, strict=True):
            assert max(abs(a - b) for a, b in zip(vector, entry["embedding"], strict=True)) < 1e-6
