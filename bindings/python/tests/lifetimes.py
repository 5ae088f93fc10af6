#!/usr/bin/env python3
"""Values that are closed in any order, used afterwards, shared between threads and tasks, and made many times.

    lifetimes.py MODEL_FOLDER [rounds | query]

Prints "test NAME ok" for each. With "rounds" it looks at the memory of many rounds instead, and with "query" at what a
call costs that does nothing. NumPy is optional: what needs it is left out where it is not installed.
"""

from __future__ import annotations

import asyncio
import copy
import ctypes
import gc
import importlib.util
import json
import math
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import timeit
import traceback
import weakref
from array import array
from typing import Any, Callable

import nanolith
from nanolith import (
    LLM,
    Cache,
    Chunk,
    ClosedError,
    EncodeFlags,
    EndReason,
    Engine,
    EngineFact,
    Generation,
    Level,
    NanolithError,
    Pooling,
    Role,
    SamplingParams,
    StructuredOutputsParams,
    Status,
    TokenizerFact,
    decode_step,
)

MODEL = sys.argv[1]
QUESTION = "<|doc|> Boso Polm left on 7 July. Boso Polm worked in Jewick.<|user|> Name the place where Boso Polm worked."


def raises(kind: type[BaseException], call: Callable[[], Any], what: str = "it") -> Any:
    try:
        call()
    except kind as problem:
        return problem
    raise AssertionError(f"{what} raised nothing")


def failure(call: Callable[[], Any]) -> NanolithError:
    problem = raises(NanolithError, call)
    assert isinstance(problem, NanolithError)
    return problem


def load(**options: Any) -> Engine:
    return Engine(MODEL, **{"device": "cpu", "threads": 2, "page_size": 16, "num_pages": 256, **options})


def greedy(cache: Cache, count: int) -> list[int]:
    return [decode_step([cache])[0] for _ in range(count)]


def prompted(engine: Engine) -> Cache:
    """A cache with a few tokens, so that tokens can be drawn."""
    cache = engine.cache()
    cache.extend(engine.tokenizer().encode("<|doc|> Boso Polm", EncodeFlags.ADD_BOS))
    return cache


def endless(cache: Cache) -> Generation:
    """A generation that ends only when it is cancelled: it pauses whenever two tokens wait to be read."""
    return cache.generate(end_tokens=False, buffer_tokens=2)


def exactly(cache: Cache, count: int) -> Generation:
    return cache.generate(end_tokens=False, max_tokens=count)


def busy() -> tuple[Engine, list[Generation]]:
    """An engine that has seconds of work before the last of these generations has its first token."""
    engine = load(num_pages=2048, max_batch_tokens=4, share_prefixes=False)
    prompts = [[7 + number] * 900 for number in range(20)]
    return engine, [engine.cache().generate(prompt, max_tokens=1) for prompt in prompts]


def truncate(cache: Cache, length: int) -> None:
    """Waits until the cache is free: a generation that was closed ends with its step."""
    while True:
        try:
            return cache.truncate(length)
        except NanolithError as problem:
            assert problem.status == Status.BUSY, problem
            time.sleep(0.001)


def test_use_after_close() -> None:
    engine = load()
    tokenizer = engine.tokenizer()
    stream = tokenizer.text_stream()
    format = tokenizer.chat_format("plain")
    chunk = engine.prefill([1, 7, 9], Level.SYSTEM)
    cache = engine.cache([chunk])
    kept = cache.fork()
    generation = cache.fork().generate()
    values = (engine, tokenizer, stream, format, chunk, cache, generation)
    for value in values + values:
        value.close()
        assert value.closed
    calls: list[Callable[[], Any]] = [
        lambda: engine.query(EngineFact.NUM_LAYERS), lambda: engine.device, lambda: engine.is_end_token(2),
        lambda: engine.tokenizer(), lambda: engine.prefill([1]), lambda: engine.cache(), lambda: engine.cancel(),
        lambda: engine.describe(), lambda: engine.tenant("a"), lambda: engine.load_chunk("x"),
        lambda: engine.load_cache("x"), lambda: tokenizer.encode("x"), lambda: tokenizer.decode([7]),
        lambda: tokenizer.query(TokenizerFact.BOS), lambda: tokenizer.find("x"), lambda: tokenizer.piece(7),
        lambda: tokenizer.text_stream(), lambda: tokenizer.chat_format("plain"), lambda: format.name,
        lambda: format.render([(Role.USER, "x")]), lambda: format.render_json("{}"), lambda: stream.push(7),
        lambda: stream.finish(), lambda: chunk.query(1), lambda: chunk.retain(), lambda: chunk.set_priority(1),
        lambda: chunk.save("x"), lambda: cache.extend([7]), lambda: cache.fork(), lambda: cache.truncate(1),
        lambda: cache.tokens(), lambda: cache.logits_into(array("f")), lambda: cache.query(1),
        lambda: cache.describe(), lambda: cache.set_sampling(), lambda: cache.save("x"), lambda: cache.cancel(),
        lambda: decode_step([kept, cache]), lambda: cache.generate(), lambda: generation.next(),
        lambda: generation.read_text(), lambda: generation.query(1), lambda: generation.cancel(),
        lambda: cache.score([7]), lambda: cache.score_next([7], [8]), lambda: cache.embed([7]), lambda: generation.logprobs(), lambda: generation.top_logprobs(),
        lambda: generation.descriptor, lambda: asyncio.run(generation.read_text_async()), lambda: cache.__enter__(),
    ]  # fmt: skip
    for number, call in enumerate(calls):
        raises(ClosedError, call, f"call {number}")
    assert len(kept.tokens()) == 3, "the open cache lost its tokens"


def test_close_engine_first() -> None:
    engine = load()
    tokenizer = engine.tokenizer()
    stream = tokenizer.text_stream()
    chunk = engine.prefill(tokenizer.encode("<|user|> Name the place.", EncodeFlags.ADD_BOS), Level.SYSTEM)
    cache = engine.cache([chunk])
    fork = cache.fork()
    format = tokenizer.chat_format("plain")
    messages = [("system", "<|system|> Be brief."), ("user", "<|user|> Who?")]
    chat = format.render(messages)
    engine.close()
    tokenizer.close()
    assert format.name == "plain" and format.render(messages) == chat
    assert stream.push(5) + stream.finish() == "<|user|>"
    assert chunk.query(nanolith.ChunkFact.USERS) == 3
    chunk.close()
    tokens = greedy(cache, 4)
    cache.close()
    assert greedy(fork, 4) == tokens


def test_wrong_arguments() -> None:
    with load() as engine, engine.tokenizer() as tokenizer, engine.cache() as cache:
        none: Any = None
        wrong: list[Callable[[], Any]] = [
            lambda: Engine(none), lambda: nanolith.describe_model(none), lambda: nanolith.Tokenizer(none),
            lambda: engine.prefill(none), lambda: tokenizer.encode(none), lambda: tokenizer.decode(none),
            lambda: cache.extend(none), lambda: cache.generate(none), lambda: decode_step(none),
            lambda: tokenizer.chat_format(none), lambda: tokenizer.chat_format("plain").render(none),
            lambda: tokenizer.decode(["x"]), lambda: cache.extend(b"abcd"),  # type: ignore[list-item]
            lambda: Engine(MODEL, no_such=1), lambda: cache.generate(stop_texts="x"),  # type: ignore[call-arg]
            lambda: cache.logits_into(array("d", [0.0])), lambda: Engine(MODEL, log=1),  # type: ignore[arg-type]
        ]  # fmt: skip
        for number, call in enumerate(wrong):
            raises(TypeError, call, f"call {number}")
        # Integers that the library can't take are refused, not cut to fewer bits.
        for call in (
            lambda: tokenizer.piece((1 << 32) + 7), lambda: tokenizer.decode([1 << 32]), lambda: cache.truncate(-1),
            lambda: tokenizer.encode("x", 1 << 32), lambda: cache.set_sampling(seed=1 << 63),
            lambda: engine.query((1 << 32) + EngineFact.NUM_LAYERS),
        ):  # fmt: skip
            raises(OverflowError, call)
        assert "chunks[0]" in str(failure(lambda: engine.cache([None])))
        assert cache.generate([1, 7], max_tokens=1, deadline_ms=None).next() is not None


def test_errors() -> None:
    problem = failure(lambda: Engine("/nowhere"))
    assert problem.status == Status.NOT_FOUND and problem.status_name == "NL_ERROR_NOT_FOUND", problem.status_name
    assert "/nowhere" in str(problem) and problem.index is None
    assert nanolith.EndReason(99).name == "UNKNOWN_99" and EndReason(99) == 99
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        raises(TypeError, lambda: copied(nanolith.Tokenizer(MODEL)))
    raises(ValueError, lambda: EndReason("x"))  # type: ignore[arg-type]


def test_rendered_messages() -> None:
    with nanolith.Tokenizer(MODEL) as tokenizer, tokenizer.chat_format("plain") as format:
        long = "Boso Polm " * 2000  # more tokens than are guessed at first
        texts = ["<|system|> Be brief.", long, "", "<|user|> Who?"]
        chat = format.render([nanolith.Message(Role.USER, text) for text in texts])
        assert len(chat.ends) == 4
        assert [token for index in range(4) for token in chat.message(index)] == chat.tokens
        assert chat.message(2) == [] and chat.after(4) == [] and chat.after(3) == chat.message(3)
        assert tokenizer.decode(chat.tokens) == "".join(texts)
        raises(IndexError, lambda: chat.after(-1))
        # Half of a surrogate pair that stands alone becomes one U+FFFD.
        assert tokenizer.encode("a\ud83d\ude00\ud800b") == tokenizer.encode("a\U0001f600\ufffdb")


def test_wrong_chats() -> None:
    with nanolith.Tokenizer(MODEL) as tokenizer, tokenizer.chat_format("plain") as format:
        for name, status in (("", Status.NOT_FOUND), ("no-such", Status.INVALID_ARGUMENT), ("chatml", Status.UNSUPPORTED)):
            assert failure(lambda: tokenizer.chat_format(name)).status == status
        for messages in ([], [(3, "x")], [(-1, "x")]):
            assert failure(lambda: format.render(messages)).status == Status.INVALID_ARGUMENT
        raises(ValueError, lambda: format.render([("nobody", "x")]))
        assert "flags" in str(failure(lambda: format.render([("user", "x")], 1 << 30)))
        chat = format.render_json({"messages": [{"role": "user", "content": "Zürich?"}]}, 1)
        assert chat == format.render([("user", "Zürich?")]), chat


def test_generation_goes_on() -> None:
    engine = load()
    cache = prompted(engine)
    expected = greedy(cache.fork(), 6)
    with exactly(cache, 6) as generation:
        engine.close()
        cache.close()
        assert [token for piece in generation for token in piece.tokens] == expected
        assert generation.end == EndReason.LENGTH and generation.next() is None
        statistics = generation.statistics
        assert statistics.tokens == 6 and statistics.first_token is not None, statistics
        assert 0 <= statistics.queued <= statistics.first_token <= statistics.total < 60, statistics


def test_cancel_wakes_who_waits() -> None:
    with load() as engine, prompted(engine) as cache:
        for cancel in ("generation", "cache", "engine", "close"):
            generation = cache.generate(end_tokens=False)
            ends: list[Any] = []

            def read() -> None:
                try:
                    generation.read_text()
                    ends.append(generation.end)
                except ClosedError:
                    ends.append(ClosedError)

            thread = threading.Thread(target=read)
            thread.start()
            time.sleep(0.005)
            if cancel == "close":
                generation.close()
            else:
                {"generation": generation.cancel, "cache": cache.cancel, "engine": engine.cancel}[cancel]()
            thread.join(60)
            # A reader that was waiting when it was closed gets the end; one that asks afterwards, an error.
            assert ends in ([EndReason.CANCELLED], [ClosedError] if cancel == "close" else []), (cancel, ends)
            generation.close()
            truncate(cache, 4)


def test_tasks() -> None:
    """Many tasks read generations at once, two of them one; one is cancelled; one is closed while it is awaited."""

    async def draw(cache: Cache) -> list[int]:
        async with exactly(cache.fork(), 12) as generation:
            return [token async for piece in generation for token in piece.tokens]

    async def share(cache: Cache) -> list[int]:
        generation = exactly(cache.fork(), 12)
        drawn: list[int] = []

        async def read() -> None:
            async for piece in generation:
                drawn.extend(piece.tokens)

        await asyncio.gather(read(), read(), read())
        return sorted(drawn)

    async def leave(engine: Engine) -> None:
        cache = prompted(engine)
        generation = cache.generate([7] * 900, max_tokens=1)
        task = asyncio.ensure_future(generation.next_async())
        await asyncio.sleep(0)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            pass
        assert await generation.next_async() is not None, "a cancelled task ended the generation"
        other, generations = busy()
        waiting = asyncio.ensure_future(generations[-1].read_text_async())
        await asyncio.sleep(0.01)
        generations[-1].close()
        try:
            await asyncio.wait_for(waiting, 60)
            raise AssertionError("a closed generation gave its text")
        except ClosedError:
            pass
        assert generations[-2].query(nanolith.GenerationFact.TOKENS) == 0, "it waited for its token"
        other.cancel()

    async def main() -> None:
        with load(num_pages=512) as engine, prompted(engine) as cache:
            expected = greedy(cache.fork(), 12)
            for drawn in await asyncio.gather(*(draw(cache) for _ in range(24))):
                assert drawn == expected, drawn
            assert await share(cache) == sorted(expected)
            await leave(engine)

    asyncio.run(main())
    # In two loops of two threads at once.
    with load() as engine, prompted(engine) as cache:
        expected = greedy(cache.fork(), 12)
        in_threads(2, lambda number: expect(asyncio.run(draw(cache)) == expected, "other tokens"))


def test_waiting_has_a_limit() -> None:
    with load() as engine, prompted(engine) as cache:
        with cache.generate([7] * 900, end_tokens=False, max_tokens=1) as generation:
            problem = failure(lambda: generation.next(0))
            assert problem.status == Status.TIMEOUT and generation.end == EndReason.NONE, problem
            assert failure(lambda: cache.extend([7])).status == Status.BUSY
            while generation.next(60) is not None:
                pass
            assert int(generation.end) == EndReason.LENGTH and generation.descriptor >= 0


def test_signals_reach_who_waits() -> None:
    """Ctrl-C ends a thread's waiting within a part of a second, though the generation goes on."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, interrupt)
    try:
        engine, generations = busy()
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        raises(KeyboardInterrupt, generations[-1].read_text, "a signal")
        assert generations[-1].query(nanolith.GenerationFact.TOKENS) == 0, "the token came first"
        engine.cancel()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def test_generation_ends_by_error() -> None:
    with load(num_pages=1) as engine, prompted(engine) as cache, engine.cache() as empty:
        with cache.generate(end_tokens=False) as generation:
            problem = failure(generation.read_text)
            found = (problem.status, problem.index, problem.needed, problem.available)
            assert found == (Status.OUT_OF_PAGES, None, 1, 0), found
            assert generation.end == EndReason.ERROR and generation.next() is None
        with cache.generate(end_tokens=False) as generation:
            problem = failure(lambda: asyncio.run(generation.read_text_async()))
            assert problem.status == Status.OUT_OF_PAGES
        assert failure(lambda: decode_step([cache, empty])).index == 1


def test_progress() -> None:
    heard: list[float] = []
    load(progress=heard.append).close()
    assert heard[-1] == 1 and heard == sorted(heard), heard

    def stop(done: float) -> None:
        raise KeyError(done)

    raises(KeyError, lambda: load(progress=stop))


def has_numpy() -> bool:
    return importlib.util.find_spec("numpy") is not None


def forcing(token: int) -> nanolith.Logits:
    """Leaves one token that can be drawn."""

    def force(tokens: Any, logits: Any) -> None:
        logits[:] = -math.inf
        logits[token] = 0

    return force


def ending(cache: Cache, how: Callable[[Any], Any]) -> Generation:
    """Draws 500 twice, and then ends in some way."""
    calls: list[int] = []

    def function(tokens: Any, logits: Any) -> Any:
        forcing(500)(tokens, logits)
        calls.append(len(tokens))
        return how(logits) if len(calls) > 2 else None

    return cache.generate(end_tokens=False, logits=function)


def test_logits_are_changed() -> None:
    if not has_numpy():
        return
    import numpy

    with load() as engine, prompted(engine) as cache, cache.fork() as fork:
        prompt = cache.tokens()
        size = engine.query(EngineFact.VOCAB_SIZE)
        seen: list[list[int]] = []
        kept: list[Any] = []

        def change(tokens: Any, logits: Any) -> None:
            assert (tokens.dtype, logits.dtype, logits.shape) == (numpy.int32, numpy.float32, (size,))
            seen.append(tokens.tolist())
            kept.append((tokens, logits))
            forcing(7 + len(tokens))(tokens, logits)

        # Two with the same function at once.
        options: Any = {"max_tokens": 4, "end_tokens": False, "logits": change}
        generations = [cache.generate(**options), fork.generate(**options)]
        expected = list(range(7 + len(prompt), 11 + len(prompt)))
        for generation in generations:
            assert [token for piece in generation for token in piece.tokens] == expected
            assert generation.end == EndReason.LENGTH
            generation.close()
        assert sorted(seen) == sorted(2 * [prompt + expected[:count] for count in range(4)]), seen
        # Arrays that were kept do no harm.
        assert all(tokens.tolist() in seen and logits.sum() < 0 for tokens, logits in kept)
        # Each has its own function.
        with cache.generate(max_tokens=3, logits=forcing(500)) as one, fork.generate(
            max_tokens=3, logits=forcing(600)
        ) as other:
            assert [token for piece in other for token in piece.tokens] == [600] * 3
            assert [token for piece in one for token in piece.tokens] == [500] * 3
        truncate(cache, 4)
        # The logits that are there to be changed are those that the cache tells.
        told = cache.logits()
        with cache.generate(max_tokens=1, logits=lambda _, logits: kept.append(logits.copy())) as generation:
            drawn = generation.next()
        assert drawn is not None and drawn.tokens == [told.argmax()] and numpy.abs(kept[-1] - told).max() < 0.05


def test_logits_function_ends_its_generation() -> None:
    if not has_numpy():
        return

    def spoil(value: float) -> Callable[[Any], Any]:
        def spoiled(logits: Any) -> None:
            logits[500] = value

        return spoiled

    def fails(kind: BaseException) -> Callable[[Any], Any]:
        def failing(logits: Any) -> None:
            raise kind

        return failing

    async def read(generation: Generation, tokens: list[int]) -> None:
        async for piece in generation:
            tokens += piece.tokens

    with load() as engine, prompted(engine) as cache:
        with ending(cache, lambda logits: False) as generation:
            assert [token for piece in generation for token in piece.tokens] == [500] * 2
            assert generation.end == EndReason.CANCELLED and generation.next() is None
        truncate(cache, 4)
        for value in (math.nan, math.inf, -math.inf):
            with ending(cache, spoil(value)) as generation:
                tokens: list[int] = []

                def drain() -> None:
                    for piece in generation:
                        tokens.extend(piece.tokens)

                problem = failure(drain)
                assert (problem.status, tokens, generation.end) == (Status.INVALID_ARGUMENT, [500] * 2, EndReason.ERROR)
            truncate(cache, 4)
        for raised in (KeyError("enough"), KeyboardInterrupt(), SystemExit(3)):
            for is_async in (False, True):
                with ending(cache, fails(raised)) as generation:
                    tokens = []
                    try:
                        if is_async:
                            asyncio.run(read(generation, tokens))
                        else:
                            tokens.extend(token for piece in generation for token in piece.tokens)
                        raise AssertionError("it ended well")
                    except BaseException as caught:
                        assert caught is raised, traceback.format_exc()
                    assert not is_async or tokens == [500] * 2, tokens
                    # It is raised once.
                    assert generation.next() is None and generation.end == EndReason.CANCELLED
                truncate(cache, 4)
        raises(TypeError, lambda: cache.generate(logits=1))  # type: ignore[arg-type]


def test_logits_function_is_left() -> None:
    """Closing waits for a call that is under way, and then the function is free."""
    if not has_numpy():
        return
    running: list[int] = []
    calls: list[int] = []

    class Function:
        generation: Any = None

        def __call__(self, tokens: Any, logits: Any) -> None:
            running.append(1)
            calls.append(1)
            time.sleep(0.003)
            running.pop()

    with load() as engine, prompted(engine) as cache:
        for turn in range(20):
            function = Function()
            generation = cache.generate(end_tokens=False, buffer_tokens=2, logits=function)
            freed = weakref.ref(function)
            time.sleep(turn / 1000)
            if turn % 2 == 0:
                generation.close()
                assert not running, turn
            else:
                function.generation = generation  # a cycle
            del function, generation
            for _ in range(1000):  # what is being called is no garbage
                gc.collect()
                if freed() is None:
                    break
                time.sleep(0.001)
            assert not running and freed() is None, turn
            truncate(cache, 4)
    assert calls, "it never ran: nothing is tested here"


def test_signals_reach_who_closes() -> None:
    """Ctrl-C arrives, also while a generation waits for its logits function."""
    if not has_numpy():
        return

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    under_way = threading.Event()

    def slow(tokens: Any, logits: Any) -> None:
        under_way.set()
        time.sleep(0.2)

    caught: list[Any] = []
    hook, sys.unraisablehook = sys.unraisablehook, caught.append
    old = signal.signal(signal.SIGALRM, interrupt)
    try:
        with load() as engine, prompted(engine) as cache:
            generation = cache.generate(end_tokens=False, buffer_tokens=2, logits=slow)
            assert under_way.wait(60)
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            raises(KeyboardInterrupt, generation.close, "a signal")
            assert generation.closed and not caught
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
        sys.unraisablehook = hook


def test_log() -> None:
    lines: list[str] = []
    caught: list[Any] = []

    def log(severity: nanolith.Severity, message: str) -> None:
        lines.append(message)
        raise ValueError("an exception of the log function")

    hook, sys.unraisablehook = sys.unraisablehook, caught.append
    try:
        with load(device="auto", log=log) as engine:
            engine.prefill([1, 2, 3])
    finally:
        sys.unraisablehook = hook
    assert lines and len(caught) == len(lines), "without a GPU the library says that it took the CPU"


def test_garbage_in_a_log_function() -> None:
    """A handle that is found unreachable while the library waits for a log function is freed afterwards."""
    garbage: list[Any] = []
    waiting: list[int] = []

    class Node:
        handle: Any = None
        itself: Any = None

    def log(severity: nanolith.Severity, message: str) -> None:
        garbage.clear()
        gc.collect()
        waiting.append(len(nanolith._handle._waiting))

    other = load()
    pages = other.query(EngineFact.PAGES_FREE)
    node = Node()
    node.handle = prompted(other)
    node.itself = node
    garbage.append(node)
    del node
    with load(device="auto", log=log):
        pass
    assert not garbage and waiting[0] > 0, "it was freed in the log function"
    other.cache().close()  # a new handle: those that wait to be freed are freed
    assert other.query(EngineFact.PAGES_FREE) == pages


def test_garbage() -> None:
    """Values that nobody closes are freed, at once or by the collector, in whatever order it finds them."""

    def leave(number: int) -> None:
        other = load(num_pages=8)
        other.tokenizer().text_stream()
        other.tokenizer().chat_format("plain")
        other.cache([other.prefill([1, 2, number])]).fork()
        cycle: list[Any] = [engine.cache(), endless(prompted(engine)), other, other.cache()]
        cycle[0].extend([1, 2, 3])
        cycle.append(cycle)

    with load() as engine:
        before = engine.query(EngineFact.PAGES_FREE)
        for number in range(20):
            leave(number)
        gc.collect()
        for _ in range(1000):
            if engine.query(EngineFact.PAGES_FREE) == before:
                break
            time.sleep(0.01)  # generations end with their step
        assert engine.query(EngineFact.PAGES_FREE) == before


def in_threads(count: int, body: Callable[[int], None]) -> None:
    problems: list[str] = []

    def run(number: int) -> None:
        try:
            body(number)
        except Exception:
            problems.append(traceback.format_exc())

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, problems[0]


def expect(condition: bool, what: str) -> None:
    assert condition, what


def test_sixteen_threads() -> None:
    engine = load()
    tokenizer = engine.tokenizer()
    stream = tokenizer.text_stream()
    format = tokenizer.chat_format("plain")
    chunk = engine.prefill(tokenizer.encode("<|user|> Name the place.<|assistant|>", EncodeFlags.ADD_BOS), Level.SYSTEM)
    cache = engine.cache([chunk])
    expected = greedy(cache.fork(), 4)
    messages = [("user", "<|user|> Name the place."), ("assistant", "Jewick")]
    rendered = format.render(messages)

    def work(number: int) -> None:
        for turn in range(3):
            with cache.fork() if number % 2 == 0 else engine.cache([chunk]) as mine:
                expect(greedy(mine, 4) == expected, "other tokens")
            with cache.fork() as mine, exactly(mine, 4) as generation:
                drawn = [token for piece in generation for token in piece.tokens]
                expect(drawn == expected, "a generation's other tokens")
            stream.push(7)
            expect(format.render(messages) == rendered, "another chat")
            bad = 5000 + 1000 * number + turn
            expect(str(bad) in str(failure(lambda: engine.prefill([bad]))), "another thread's error")

    in_threads(16, work)


def test_close_during_calls() -> None:
    """Each call either works or says that its value was closed."""
    for _ in range(5):
        engine = load()
        tokenizer = engine.tokenizer()
        format = tokenizer.chat_format("plain")
        chunk = engine.prefill([1, 7, 9], Level.SYSTEM)
        cache = engine.cache([chunk])

        def work(number: int) -> None:
            if number == 16:
                time.sleep(0.02)
                for value in (engine, chunk, tokenizer, format, cache):
                    value.close()
                return
            try:
                while True:
                    decode_step([cache])
                    engine.cache([chunk]).close()
                    tokenizer.encode("x")
                    format.render([("user", "x")])
            except ClosedError:
                pass

        in_threads(17, work)


def test_files(folder: str = os.environ.get("TMPDIR", "/tmp")) -> None:
    chunk_file = os.path.join(folder, f"nanolith-python-{os.getpid()}.chunk")
    cache_file = os.path.join(folder, f"nanolith-python-{os.getpid()}.cache")
    try:
        with load() as engine:
            chunk = engine.prefill([1, 7, 9])
            chunk.save(chunk_file)
            cache = engine.cache([chunk])
            cache.extend([5, 273])
            cache.save(cache_file.encode())
            tokens, expected = cache.tokens(), greedy(cache, 3)
        with load() as engine:
            loaded = engine.load_chunk(chunk_file)
            assert loaded.query(nanolith.ChunkFact.ORIGIN) == nanolith.Origin.FILE
            again = engine.load_cache(cache_file)
            assert again.tokens() == tokens and greedy(again, 3) == expected
            assert failure(lambda: engine.load_chunk(cache_file)).status == Status.BAD_FILE
    finally:
        for file in (chunk_file, cache_file):
            if os.path.exists(file):
                os.remove(file)


def test_logits() -> None:
    with load() as engine, prompted(engine) as cache:
        size = engine.query(EngineFact.VOCAB_SIZE)
        logits = array("f", bytes(4 * size))
        assert cache.logits_into(logits) == size
        best = max(range(size), key=logits.__getitem__)
        assert [best] == greedy(cache.fork(), 1)
        problem = failure(lambda: cache.logits_into(array("f", bytes(4))))
        assert (problem.status, problem.needed, problem.available) == (Status.BUFFER_TOO_SMALL, size, 1), problem
        try:
            import numpy
        except ImportError:
            return
        found = cache.logits()
        assert found.dtype == numpy.float32 and found.tolist() == logits.tolist()
        room = numpy.empty(size + 3, numpy.float32)
        assert cache.logits_into(room) == size and (room[:size] == found).all()
        raises(TypeError, lambda: cache.logits_into(numpy.empty(2 * size, numpy.float32)[::2]))
        for tokens in (numpy.array([5, 273], numpy.int32), numpy.array([5, 273], numpy.int64)):
            with cache.fork() as fork:
                fork.extend(tokens)
                assert fork.tokens()[-2:] == [5, 273]


def test_scores() -> None:
    """By the definition: the logits' logarithm of softmax."""
    with load() as engine, prompted(engine) as cache:

        def log_softmax() -> list[float]:
            logits = array("f", bytes(4 * engine.query(EngineFact.VOCAB_SIZE)))
            fork.logits_into(logits)
            total = math.log(sum(math.exp(logit - max(logits)) for logit in logits)) + max(logits)
            return [logit - total for logit in logits]

        with cache.fork() as fork:
            expected = []
            for token in (5, 273, 270):
                expected.append(log_softmax()[token])
                fork.extend([token])
        with cache.fork() as fork:
            found = fork.score([5, 273, 270])
            assert all(abs(a - b) < 0.02 for a, b in zip(found, expected)) and len(found) == 3, (found, expected)
        with cache.fork() as fork:
            wanted = log_softmax()
            with fork.generate(max_tokens=1, logprobs=True, top_logprobs=3) as generation:
                piece = generation.next()
                assert piece is not None
                assert abs(generation.logprobs()[0] - wanted[piece.tokens[0]]) < 0.02
                top = generation.top_logprobs()
                assert [token for token, _ in top] == sorted(range(len(wanted)), key=lambda token: -wanted[token])[:3]
        assert math.isnan(engine.cache().score([7])[0])


def test_embeds() -> None:
    """By the definition: the head's rows times the last hidden state are the logits; a mean is one of all tokens' states."""
    with load() as engine, prompted(engine) as cache:
        hidden = engine.query(EngineFact.HIDDEN_SIZE)
        with cache.fork() as fork:
            each = fork.embed([5, 273, 270], Pooling.NONE)
            assert each.typecode == "f" and len(each) == 3 * hidden and len(fork.tokens()) == len(cache.tokens()) + 3
            last = fork.embed([])
            logprobs = fork.score_next([], [7, 5, 270])
        vectors = [each[at : at + hidden] for at in range(0, 3 * hidden, hidden)]
        assert max(abs(a - b) for a, b in zip(last, vectors[2])) < 0.05
        with cache.fork() as fork:
            mean = fork.embed([5, 273, 270], Pooling.MEAN)
        assert max(abs(found - sum(numbers) / 3) for found, *numbers in zip(mean, *vectors)) < 0.05
        with cache.fork() as fork:
            normalized = fork.embed([5, 273, 270], normalized=True)
        length = math.sqrt(sum(number * number for number in last))
        assert max(abs(found - number / length) for found, number in zip(normalized, last)) < 0.01
        for token, logprob in zip((7, 5, 270), logprobs):
            with cache.fork() as fork:
                fork.extend([5, 273, 270])
                assert abs(fork.score([token])[0] - logprob) < 0.05
        raises(NanolithError, lambda: cache.embed([], Pooling.MEAN))
        raises(NanolithError, lambda: cache.embed([7], 9))


def test_batches() -> None:
    greedy_params = SamplingParams(temperature=0, max_tokens=8)
    prompt = QUESTION + "<|assistant|>"
    with LLM(MODEL, device="cpu", threads=2, queue_limit=4, batch_invariant=True) as llm:
        assert llm.tokenizer is not None
        tokens = llm.tokenizer.encode(prompt, EncodeFlags.ADD_SPECIAL)
        prompts: list[Any] = [prompt, tokens, {"prompt": prompt}, {"prompt_token_ids": tokens}] * 8  # more than the queue takes
        outputs = llm.generate(prompts, greedy_params)
        assert len(outputs) == 32 and outputs[0].prompt == prompt and outputs[1].prompt is None
        for output in outputs:
            answer = output.outputs[0]
            assert (answer.text, answer.finish_reason) == (" Jewick", "stop"), answer
            assert output.prompt_token_ids == tokens and llm.tokenizer.decode(answer.token_ids) == answer.text
        for one in (prompt, tokens):
            assert llm.generate(one, greedy_params)[0].outputs == outputs[0].outputs
        answer = llm.generate(tokens, SamplingParams(temperature=0, max_tokens=5, ignore_eos=True, detokenize=False))[0].outputs[0]
        assert (len(answer.token_ids), answer.text, answer.finish_reason) == (5, "", "length"), answer
        # More tokens than a generation can buffer may be asked for.
        stopped = llm.generate(prompt, SamplingParams(temperature=0, stop="wick", max_tokens=1 << 21))[0].outputs[0]
        assert (stopped.text, stopped.finish_reason) == (" Je", "stop"), stopped
        for how in (
            SamplingParams(allowed_token_ids=[912], max_tokens=3), SamplingParams(logit_bias={912: 1e5, 7: -0.5}, max_tokens=3)
        ):  # fmt: skip
            assert llm.generate(tokens, how)[0].outputs[0].token_ids == [912] * 3
        # A seed draws the same in any batch; without one, every prompt draws its own.
        seeded = SamplingParams(temperature=3, seed=7, max_tokens=12, ignore_eos=True)
        first = llm.generate([tokens], seeded)[0].outputs[0].token_ids
        free = SamplingParams(temperature=3, max_tokens=12, ignore_eos=True)
        drawn = llm.generate([tokens] * 6, [free, free, seeded, free, free, seeded])
        assert drawn[2].outputs[0].token_ids == first == drawn[5].outputs[0].token_ids
        assert len({tuple(output.outputs[0].token_ids) for output in drawn}) == 5
        raises(ValueError, lambda: llm.generate([tokens] * 2, [free]))
        # An error ends the batch, and leaves the engine ready for the next.
        assert failure(lambda: llm.generate([tokens, [], tokens], greedy_params)).status == Status.INVALID_ARGUMENT
        assert failure(lambda: llm.chat([("user", "x")])).status == Status.NOT_FOUND
        assert llm.generate([], greedy_params) == []


def test_answers_of_batches() -> None:
    """Several answers to a prompt, log-probabilities, penalties, structured outputs and functions for logits."""
    prompt = QUESTION + "<|assistant|>"
    with LLM(MODEL, device="cpu", threads=2, queue_limit=4, batch_invariant=True) as llm:
        assert llm.tokenizer is not None
        tokens = llm.tokenizer.encode(prompt, EncodeFlags.ADD_SPECIAL)
        free: dict[str, Any] = {"temperature": 3, "max_tokens": 12, "ignore_eos": True}
        three, other = llm.generate([tokens] * 2, [SamplingParams(n=3, seed=7, **free), SamplingParams(n=5, **free)])
        assert [answer.index for answer in three.outputs] == [0, 1, 2]
        for answer in three.outputs:
            alone = llm.generate(tokens, SamplingParams(seed=7 + answer.index, **free))[0].outputs[0]
            assert answer.token_ids == alone.token_ids and (answer.logprobs, answer.cumulative_logprob) == (None, None)
        assert len({tuple(answer.token_ids) for answer in other.outputs}) == 5
        raises(ValueError, lambda: llm.generate(tokens, SamplingParams(n=0)))

        for count in (0, 3):
            answer = llm.generate(prompt, SamplingParams(temperature=0, logprobs=count))[0].outputs[0]
            assert answer.logprobs is not None and len(answer.logprobs) == len(answer.token_ids) > 1
            with llm.engine.cache() as cache:
                cache.extend(tokens)
                scores = cache.score(answer.token_ids)
            for token, score, found in zip(answer.token_ids, scores, answer.logprobs):
                assert len(found) == max(count, 1) and abs(found[token].logprob - score) < 0.05
                assert found[token].rank == (1 if count > 0 else None)
                assert found[token].decoded_token == llm.tokenizer.decode([token])
                values = [each.logprob for each in found.values()]
                assert values == sorted(values, reverse=True)
            assert math.isclose(answer.cumulative_logprob or 0, sum(scores), abs_tol=0.05)
        assert failure(lambda: llm.generate(prompt, SamplingParams(logprobs=21))).status == Status.INVALID_ARGUMENT

        # No token comes twice, and none of the prompt's.
        penalised = SamplingParams(temperature=0, repetition_penalty=1000, max_tokens=12, ignore_eos=True)
        drawn = llm.generate(prompt, penalised)[0].outputs[0].token_ids
        assert len(set(drawn) - set(tokens)) == 12, drawn

        def structured(**how: Any) -> str:
            params = SamplingParams(temperature=1, seed=3, max_tokens=400, structured_outputs=StructuredOutputsParams(**how))
            return llm.generate(prompt, params)[0].outputs[0].text

        assert structured(choice=["one", "two"]) in ("one", "two")
        assert re.fullmatch("[ab]{5}c", structured(regex="[ab]{5}c"))
        assert structured(grammar='root ::= "x" "y"') == "xy"
        schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False}
        for given in (schema, json.dumps(schema)):
            assert json.loads(structured(json=given))["a"] in (1, 2)
        assert failure(lambda: structured(json={"type": 3})).status == Status.INVALID_ARGUMENT
        assert failure(lambda: structured(regex="a", choice=["a"])).status == Status.INVALID_ARGUMENT

        if not has_numpy():
            return

        def only_912(context: Any, logits: Any) -> None:
            assert list(context[: len(tokens)]) == tokens
            logits[:912] = logits[913:] = -math.inf

        answers = llm.generate([tokens] * 2, SamplingParams(n=2, max_tokens=3, logits=only_912))
        assert [answer.token_ids for output in answers for answer in output.outputs] == [[912] * 3] * 4
        raises(ZeroDivisionError, lambda: llm.generate([tokens] * 3, SamplingParams(logits=lambda *_: 1 // 0)))
        assert llm.generate(prompt, SamplingParams(temperature=0))[0].outputs[0].text == " Jewick"


def test_chats_in_batches() -> None:
    """With a template of the model's own marks, which its folder lacks."""
    template = (
        "{%- for message in messages %}<|{{ message.role }}|> {{ message.content }}{%- endfor %}"
        "{%- if add_generation_prompt %}<|assistant|>{%- endif %}"
    )
    with tempfile.TemporaryDirectory() as folder:
        for file in os.listdir(MODEL):
            os.symlink(os.path.realpath(os.path.join(MODEL, file)), os.path.join(folder, file))
        config = os.path.join(folder, "tokenizer_config.json")
        if os.path.exists(config):
            os.remove(config)
        with open(config, "w") as file_of_config:
            json.dump({"chat_template": template}, file_of_config)
        with LLM(folder, device="cpu", threads=2, num_pages=64) as llm:
            record, question = QUESTION.split("<|user|> ")
            system = ("system", record.replace("<|doc|> ", ""))
            params = SamplingParams(temperature=0)
            pairs = llm.chat([system, ("user", question)], params)
            named = [{"role": system[0], "content": system[1]}, {"role": "user", "content": question}]
            assert llm.chat([named, named], params) == pairs * 2
            assert llm.tokenizer is not None
            assert llm.tokenizer.decode(pairs[0].prompt_token_ids).endswith(question + "<|assistant|>"), pairs
            assert pairs[0].outputs[0].text == " Jewick", pairs


def test_about_the_library() -> None:
    assert nanolith.version_number() >= 200 and nanolith.version() == nanolith.__version__
    assert tuple(nanolith.int_bounds(nanolith.EngineOption.PAGE_SIZE)) == (16, 256, 64)
    assert tuple(nanolith.float_bounds(nanolith.SamplingOption.TOP_P)) == (1e-30, 1, 1)
    assert "STOP_TEXT" in [option["name"] for option in nanolith.describe_options(nanolith.OptionsKind.GENERATION)]
    assert "PRIVATE_PAGES" in [fact["name"] for fact in nanolith.describe_facts(nanolith.FactsKind.CACHE)]
    assert nanolith.describe_model(MODEL, nanolith.DescribeFormat.JSON).startswith("{")
    with load() as engine, engine.cache() as cache:
        assert engine.describe()["tiers"][0]["tier"] == "device" and cache.describe()["tokens"] == 0


def test_options_are_the_librarys() -> None:
    """The table of each kind has the names and keys that the library tells, and its types."""
    kinds = nanolith.OptionsKind
    for kind, table in (
        (kinds.ENGINE, nanolith.options.ENGINE_KEYS), (kinds.CACHE, nanolith.options.CACHE_KEYS),
        (kinds.SAMPLING, nanolith.options.SAMPLING_KEYS), (kinds.GENERATION, nanolith.options.GENERATION_KEYS),
    ):  # fmt: skip
        told = {}
        for option in nanolith.describe_options(kind):
            is_list = option["type"].endswith(" list")
            told[option["name"].lower() + ("s" if is_list else "")] = (option["key"], option["type"].replace(" ", "_"))
        assert table == told, (kind, table, told)


EXIT = """
import ctypes, importlib.util, sys, threading, nanolith
engine = nanolith.Engine(sys.argv[1], device="auto", log=lambda severity, line: print(line), profile=True)
ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine))  # nothing but the end of the interpreter frees it
cache = engine.cache()
cache.extend([1, 7, 9])
generation = cache.generate(end_tokens=False, buffer_tokens=2)
if importlib.util.find_spec("numpy") is not None:
    changed = engine.cache()
    changing = changed.generate([1, 7, 9], end_tokens=False, logits=lambda tokens, logits: None)
    changing_reader = threading.Thread(target=changing.read_text, daemon=True)
    changing_reader.start()
reader = threading.Thread(target=generation.read_text, daemon=True)
reader.start()
generation.next()
"""


def test_end_of_the_interpreter() -> None:
    """A program may end with everything open, log functions and a thread that waits among it."""
    for _ in range(3):
        ended = subprocess.run([sys.executable, "-c", EXIT, MODEL], timeout=60, capture_output=True, text=True)
        assert ended.returncode == 0 and "Fatal" not in ended.stderr, (ended.returncode, ended.stderr)
        assert "GB/s" in ended.stdout, "the engine was not freed: its table is missing"


FORK = """
import os, sys, nanolith
engine = nanolith.Engine(sys.argv[1], device="cpu", log=lambda severity, line: None)
tokenizer = engine.tokenizer()
generation = engine.cache().generate([1, 7, 9], end_tokens=False, buffer_tokens=2)
child = os.fork()
if child == 0:
    assert tokenizer.encode("Name")
    try:
        engine.cache()
    except nanolith.NanolithError:
        generation.close()
        sys.exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), generation.next() is not None)
"""


def test_fork() -> None:
    """A child has no engine of its parent's, but its tokenizers, and ends as if nothing were open."""
    command = [sys.executable, "-W", "ignore", "-c", FORK, MODEL]
    ended = subprocess.run(command, timeout=60, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "7 True\n", ""), ended


class HeapInfo(ctypes.Structure):
    """What glibc's mallinfo2 tells."""

    _fields_ = [(name, ctypes.c_size_t) for name in "arena free_blocks fast_blocks mapped_blocks mapped most fast given free top".split()]


def heap_bytes() -> int:
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = HeapInfo
    info = mallinfo2()
    return int(info.given + info.mapped)


def resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


def grows(what: str, count: int, turn: Callable[[], Any]) -> bool:
    """Whether so many rounds, after as many to warm up, leave memory behind every time.

    What the heaps have given out tells nearly exactly; Python's own small objects are in blocks that it maps, so they
    are counted too. What is resident also shows what is mapped, but varies with holes and threads.
    """
    for _ in range(count):
        turn()
    for _ in range(3):
        gc.collect()
        blocks, resident, heap = sys.getallocatedblocks(), resident_bytes(), heap_bytes()
        for _ in range(count):
            turn()
        gc.collect()
        blocks, heap = sys.getallocatedblocks() - blocks, heap_bytes() - heap
        resident = resident_bytes() - resident
        print(f"{count} {what}: {blocks} blocks of Python's, C's heap {heap} bytes more, resident {resident // 1024} KiB more")
        if blocks < max(100, count // 10) and heap < 64 << 10 and resident < 32 << 20:
            return False
    return True


def rounds() -> None:
    """3,000 rounds of everything but engines, which load a model, and 50 of these."""
    with load() as engine, engine.prefill([1, 7, 9], Level.SYSTEM) as chunk:

        def everything() -> None:
            tokenizer = engine.tokenizer()
            tokenizer.text_stream().push(273)
            assert len(tokenizer.chat_format("plain").render([("user", "Name")]).ends) == 1
            again: Chunk = engine.prefill([1, 7, 9], Level.SYSTEM)
            cache = engine.cache([chunk, again], composition=nanolith.Composition.INDEPENDENT)
            cache.set_sampling(temperature=1)
            fork = cache.fork()
            generation = endless(fork)
            assert generation.descriptor >= 0
            generation.close()
            if has_numpy():
                cache.generate([7], end_tokens=False, logits=lambda tokens, logits: None).close()
            try:
                tokenizer.find("no such piece")
            except NanolithError:
                pass

        assert not grows("rounds", 3000, everything), "memory grows"

        async def awaited() -> None:
            with engine.cache([chunk]) as cache:
                await exactly(cache, 2).read_text_async()

        loop = asyncio.new_event_loop()
        assert not grows("awaited generations", 500, lambda: loop.run_until_complete(awaited())), "memory grows"
        loop.close()
    assert not grows("engines", 50, lambda: load().close()), "memory grows"
    # What does leak is noticed, on either heap.
    forgotten: list[Any] = []
    with nanolith.Tokenizer(MODEL) as tokenizer:
        assert grows("forgotten streams", 3000, lambda: forgotten.append(tokenizer.text_stream())), "unnoticed"
        assert grows("forgotten texts", 3000, lambda: forgotten.append("x" * 200 + str(len(forgotten)))), "unnoticed"
    print("test rounds ok")


def query() -> None:
    with load() as engine:
        best = min(timeit.repeat(lambda: engine.query(2), number=1000, repeat=500))
        print(f"query: {best / 1000 * 1e9:.0f} ns")


def main() -> int:
    failed = 0
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            try:
                test()
                print(f"test {name[5:]} ok", flush=True)
            except Exception:
                failed += 1
                print(f"test {name[5:]} FAILED: {traceback.format_exc()}", flush=True)
    return failed


if __name__ == "__main__":
    modes = {"rounds": rounds, "query": query}
    sys.exit(modes[sys.argv[2]]() if sys.argv[2:] else main())
