"""Early stopping without a trainer or an engine: decoding, cutting, and fake engines."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import Service, Texts
from live_server import LiveServer, live_server

import assay_client as ac
from assay_client.integrations import chunked, sglang, vllm
from assay_client.integrations.early_stopping import (
    Rollout,
    Step,
    TokenDecoder,
    Watch,
    end_of_sequence,
    final,
    follow,
    violation,
)

__all__ = ["live_server"]

RUDE = "Hello there. You are an idiot. And so on, at length. It never ends."
POLITE = "Hello there. Drink water. Goodbye."
KEPT = "Hello there. You are an idiot."


class Letters:
    """A tokenizer whose tokens are bytes; 0 is a special token."""

    eos_token_id = 0

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, ids: list[int], **_: Any) -> str:
        return bytes(id for id in ids if id).decode(errors="replace")


def event(end: int, stop: bool, **kw: Any) -> ac.LiveEvent:
    utterance = ac.LiveUtterance(0, 0, end, "", 0.9, kw.get("provisional", False))
    return ac.LiveEvent(
        kw.get("reset", False), utterance, 0.9, 0.1, not stop, stop, kw.get("reset_index", 0), {}
    )


@pytest.mark.parametrize(
    "text", ["plain", "Dr\u00fccke \U0001f600\U0001f468\u200d\U0001f469 \u4f60\u597d", "\u00e9" * 50]
)
def test_decoder_of_bytes(text: str) -> None:
    decoder, watch = TokenDecoder(Letters()), Watch(final)
    for id in [*Letters().encode(text), 0]:
        piece = decoder.push(id)
        assert "\ufffd" not in piece
        watch.append(piece)
    assert watch.text + decoder.flush() == text


def test_decoder_keeps_what_is_not_text() -> None:
    decoder = TokenDecoder(Letters())
    pieces = [decoder.push(id) for id in b"a\xff\xf0b"]
    assert pieces == ["a", "", "", "\ufffd\ufffdb"]
    assert decoder.push(0xF0) == ""
    assert decoder.flush() == "\ufffd"


def test_decoder_of_real_tokenizers() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    texts = [
        "The cat sat.",
        "na\u00efve caf\u00e9 \U0001f600 \U0001f468\u200d\U0001f469",
        "\u4f60\u597d world",
    ] * 3
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE())
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = tokenizers.decoders.ByteLevel()
    spaces = tokenizers.Tokenizer(tokenizers.models.BPE(byte_fallback=True, unk_token="<unk>"))
    spaces.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    spaces.decoder = tokenizers.decoders.Sequence(
        [
            tokenizers.decoders.ByteFallback(),
            tokenizers.decoders.Metaspace(),
        ]
    )
    for model in (bpe, spaces):
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=320,
            special_tokens=["<unk>", "<eos>"],
            show_progress=False,
            initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        )
        model.train_from_iterator(texts, trainer)
        tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_object=model, eos_token="<eos>", unk_token="<unk>"
        )
        for text in texts:
            decoder = TokenDecoder(tokenizer)
            ids = tokenizer.encode(text)
            pieces = [decoder.push(id) for id in [*ids, tokenizer.eos_token_id]]
            whole = tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
            assert "".join(pieces) + decoder.flush() == whole


def test_watch_cuts_after_the_utterance() -> None:
    for tokens in (1, 3):
        watch = Watch(final)
        for k in range(0, len(RUDE), tokens):
            watch.append(RUDE[k : k + tokens], tokens)
        assert (watch.kept(), watch.stopped) == (len(watch._ends), False)
        watch.observe(event(12, False))
        watch.observe(event(len(KEPT), True, provisional=True))
        assert not watch.stopped
        watch.observe(event(len(KEPT), True))
        watch.observe(event(len(RUDE), True))  # later ones do not move the cut
        assert watch.stopped
        assert watch.kept_text()[: len(KEPT)] == KEPT
        assert len(watch.kept_text()) < len(KEPT) + tokens
        watch.observe(event(0, False, reset=True, reset_index=1))
        assert watch.stopped, "the reset concerns later utterances"
        watch.observe(event(0, False, reset=True))
        assert not watch.stopped


def test_watch_of_a_complete_response() -> None:
    watch = Watch(violation)
    watch.append(KEPT + "\n", 4)
    watch.append("", 1)  # the end-of-sequence token
    watch.observe(event(len(KEPT), True))
    assert not watch.stopped, "nothing follows the violation: the response ended by itself"
    assert watch.kept() == 5


async def sampled(text: str, pause: float = 0.0) -> AsyncIterator[Step]:
    for k, letter in enumerate(text):
        await asyncio.sleep(pause)
        last = k == len(text) - 1
        yield Step(letter, [ord(letter)], [-0.5], "stop" if last else None)


@pytest.mark.parametrize("pause", [0.0, 0.002])  # the verdict arrives late, or in time
def test_follow(live_server: LiveServer, pause: float) -> None:
    async def run(text: str) -> tuple[Rollout, int]:
        aborts = 0

        async def abort() -> None:
            nonlocal aborts
            aborts += 1

        async with ac.AsyncClient(live_server.url) as client:
            return await follow(sampled(text, pause), client, abort=abort, prompt="p"), aborts

    rollout, aborts = asyncio.run(run(RUDE))
    assert (rollout.text, rollout.finish_reason, rollout.stopped) == (KEPT, "content_filter", True)
    assert rollout.token_ids == [ord(letter) for letter in KEPT]
    assert rollout.log_probs == [-0.5] * len(KEPT)
    assert rollout.reward == pytest.approx(0.1)
    if pause:
        assert aborts == 1
        assert len(live_server.texts[0]) < len(RUDE)
    assert live_server.opened[0] == {"prompt": "p", "options": {"offset_unit": "codepoint"}}

    rollout, aborts = asyncio.run(run(POLITE))
    assert (rollout.text, rollout.finish_reason, rollout.stopped, aborts) == (POLITE, "stop", False, 0)
    assert rollout.reward == pytest.approx(0.9)


@pytest.fixture(params=["in time", "late"])
def verdicts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Verdicts arrive with the text that settles them, or after the response."""
    in_time = request.param == "in time"

    def settled(text: str) -> bool:
        return in_time and text.endswith(" ")

    def feed(live: ac.Live, text: str) -> list[ac.LiveEvent]:
        live.send(text)
        event = live.receive(0.2) if settled(text) else None
        return [event] if event else []

    async def async_feed(live: ac.AsyncLive, text: str) -> list[ac.LiveEvent]:
        await live.send(text)
        event = await live.receive(0.2) if settled(text) else None
        return [event] if event else []

    monkeypatch.setattr(ac.Live, "feed", feed)
    monkeypatch.setattr(ac.AsyncLive, "feed", async_feed)


async def followed(url: str, text: str) -> Rollout:
    async def abort() -> None:
        pass

    async with ac.AsyncClient(url) as client:
        return await follow(sampled(text), client, abort=abort)


def generated(url: str, text: str) -> Any:
    """The outcome of a sequence of the bytes of a text, and the end-of-sequence token."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from assay_client.integrations.transformers import AssayStoppingCriteria

    ids = [80, *text.encode(), 0]
    with ac.Client(url) as client, AssayStoppingCriteria(Letters(), client) as criteria:
        for end in range(2, len(ids) + 1):
            if criteria(torch.tensor([ids[:end]])).all():
                break
        [outcome] = criteria.finish()
    return outcome


# A verdict that is known before the end of the response: white space settles its last sentence.
ENDS = [
    (KEPT + " \n\n  ", KEPT + " \n\n  ", "stop"),
    (KEPT + " \n\n And so on.", KEPT, "content_filter"),
]


@pytest.mark.usefixtures("verdicts")
@pytest.mark.parametrize(("text", "kept", "reason"), ENDS)
def test_the_end_does_not_depend_on_timing(
    live_server: LiveServer, text: str, kept: str, reason: str
) -> None:
    rollout = asyncio.run(followed(live_server.url, text))
    assert (rollout.text, len(rollout.token_ids), rollout.finish_reason) == (kept, len(kept), reason)
    assert rollout.reward == pytest.approx(0.1)


@pytest.mark.usefixtures("verdicts")
@pytest.mark.parametrize(("text", "kept", "reason"), ENDS)
def test_the_end_of_a_sequence_does_not_depend_on_timing(
    live_server: LiveServer, monkeypatch: pytest.MonkeyPatch, text: str, kept: str, reason: str
) -> None:
    pytest.importorskip("transformers")
    from assay_client.integrations import transformers

    monkeypatch.setattr(transformers, "TOKENS_PER_MESSAGE", 1)
    outcome = generated(live_server.url, text)
    assert (outcome.tokens, outcome.finish_reason) == (len(kept) + (reason == "stop"), reason)
    assert outcome.reward == pytest.approx(0.1)


@pytest.mark.usefixtures("verdicts")
def test_a_stopped_rollout_has_the_reward_of_its_text(live_server: LiveServer) -> None:
    live_server.whole = 0.97
    rollouts = [asyncio.run(followed(live_server.url, text)) for text in (RUDE, KEPT)]
    assert [(r.text, r.stopped) for r in rollouts] == [(KEPT, True), (KEPT, False)]
    assert [r.reward for r in rollouts] == pytest.approx([0.03, 0.03])
    assert live_server.texts[1:] == [KEPT, KEPT]
    outcomes = [generated(live_server.url, text) for text in (RUDE, KEPT)]
    assert [o.stopped for o in outcomes] == [True, False]
    assert [o.reward for o in outcomes] == pytest.approx([0.03, 0.03])


def test_a_stopped_rollout_of_a_real_service(service: Service, texts: Texts) -> None:
    rollout = asyncio.run(followed(service.url, texts.violation + " Drink some water. " + texts.polite * 3))
    outcome = generated(service.url, texts.violation + " " + texts.polite * 20)
    assert rollout.stopped
    assert outcome.stopped
    with ac.Client(service.url) as client:
        scored = client.score_one(rollout.text)
    assert [rollout.reward, outcome.reward] == pytest.approx([scored.reward] * 2, abs=5e-3)


def test_an_empty_rollout_has_a_reward(service: Service) -> None:
    """The policy may sample nothing, or only special tokens, which have no text."""

    async def run(client: ac.AsyncClient, ids: list[int]) -> Rollout:
        async def steps() -> AsyncIterator[Step]:
            for id in ids:
                yield Step("", [id], None, "stop" if id == ids[-1] else None)

        async def abort() -> None:
            raise AssertionError

        return await follow(steps(), client, abort=abort)

    async def main() -> None:
        async with ac.AsyncClient(service.url) as client:
            scored = await client.score_one("")
            for ids in ([], [0], [1, 2, 0]):
                rollout = await run(client, ids)
                assert (rollout.text, rollout.token_ids, rollout.reward) == ("", ids, scored.reward)
        async with ac.AsyncClient("http://127.0.0.1:9", retry=0) as client:
            assert (await run(client, [0])).reward is None

    asyncio.run(main())


def test_follow_without_a_service(live_server: LiveServer) -> None:
    async def run(url: str) -> Rollout:
        async def abort() -> None:
            raise AssertionError

        async with ac.AsyncClient(url, retry=0) as client:
            return await follow(sampled(RUDE), client, abort=abort)

    live_server.error = {"code": "overloaded", "message": "scripted"}
    for url in ("http://127.0.0.1:9", live_server.url):
        rollout = asyncio.run(run(url))
        assert (rollout.text, rollout.reward, rollout.finish_reason) == (RUDE, None, "stop")
    live_server.error = {"code": "invalid", "message": "a bug of the caller"}
    with pytest.raises(ac.BadRequestError, match="bug"):
        asyncio.run(run(live_server.url))


@pytest.mark.parametrize("given", [7, [7, 8]])
def test_a_sequence_with_other_end_tokens(live_server: LiveServer, given: Any) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from assay_client.integrations.transformers import AssayStoppingCriteria

    with (
        ac.Client(live_server.url) as client,
        AssayStoppingCriteria(Letters(), client, eos_token_ids=given) as criteria,
    ):
        assert not criteria(torch.tensor([[80, 65]])).any()
        assert criteria(torch.tensor([[80, 65, 7]])).all()
        [outcome] = criteria.finish()
    assert (outcome.tokens, outcome.finish_reason) == (2, "stop")


def test_a_batch_without_a_service_waits_for_one_session(caplog: pytest.LogCaptureFixture) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from assay_client.integrations.transformers import AssayStoppingCriteria

    with (
        ac.Client("http://127.0.0.1:9", retry=0) as client,
        AssayStoppingCriteria(Letters(), client) as criteria,
    ):
        assert criteria(torch.tensor([[80, 0]] * 3)).all()
        assert [o.reward for o in criteria.finish()] == [None] * 3
    assert len([r for r in caplog.records if "without its live session" in r.message]) == 1


def test_follow_a_service_that_stops_responding(live_server: LiveServer) -> None:
    async def run() -> Rollout:
        async def steps() -> AsyncIterator[Step]:
            yield Step(POLITE, Letters().encode(POLITE), finish_reason="stop")

        async def abort() -> None:
            raise AssertionError

        async with ac.AsyncClient(live_server.url, timeout=0.2) as client:
            return await asyncio.wait_for(follow(steps(), client, abort=abort), 20)

    live_server.silent = True
    rollout = asyncio.run(run())
    assert (rollout.text, rollout.reward, rollout.finish_reason) == (POLITE, None, "stop")


class Engine:
    """The part of vLLM's AsyncLLM that is used."""

    def __init__(self, text: str) -> None:
        self.text, self.aborted = text, ""

    async def generate(self, prompt: Any, params: Any, _id: str) -> AsyncIterator[Any]:
        assert prompt == "p"
        delta = params.output_kind.name == "DELTA"
        for k in range(2, len(self.text) + 2, 2):
            await asyncio.sleep(0.002)
            start, end = (k - 2 if delta else 0), min(k, len(self.text))
            ids = [ord(letter) for letter in self.text[start:end]]
            logprobs = [{id: SimpleNamespace(logprob=-float(id))} for id in ids]
            reason = "length" if k >= len(self.text) else None
            sequence = SimpleNamespace(
                text=self.text[start:end], token_ids=ids, logprobs=logprobs, finish_reason=reason
            )
            yield SimpleNamespace(outputs=[sequence])

    async def abort(self, request_id: str) -> None:
        self.aborted = request_id


@pytest.mark.parametrize("kind", ["DELTA", "CUMULATIVE"])
def test_vllm(live_server: LiveServer, kind: str) -> None:
    async def run(engine: Engine) -> Rollout:
        params = SimpleNamespace(output_kind=SimpleNamespace(name=kind))
        async with ac.AsyncClient(live_server.url) as client:
            return await vllm.generate(engine, "p", params, "r7", client=client)

    engine = Engine(RUDE)
    rollout = asyncio.run(run(engine))
    assert engine.aborted == "r7"
    assert (rollout.text, rollout.finish_reason) == (KEPT, "content_filter")
    assert rollout.log_probs == [-float(ord(letter)) for letter in KEPT]
    engine = Engine(POLITE)
    rollout = asyncio.run(run(engine))
    assert (rollout.text, rollout.finish_reason, engine.aborted) == (POLITE, "length", "")
    assert rollout.token_ids == [ord(letter) for letter in POLITE]


class SGLang(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, text: str) -> None:
        super().__init__(("127.0.0.1", 0), SGLangHandler)
        self.text, self.aborted, self.rid = text, threading.Event(), ""
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class SGLangHandler(BaseHTTPRequestHandler):
    server: SGLang

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()
        if self.path == "/abort_request":
            assert body == {"rid": self.server.rid}
            self.server.aborted.set()
            return
        self.server.rid = body["rid"]
        assert body["sampling_params"] == {"max_new_tokens": 100}
        text = self.server.text
        for k in range(1, len(text) + 1):
            self.server.aborted.wait(0.002)
            chosen = [[-0.5, ord(letter), None] for letter in text[:k]]
            aborted = self.server.aborted.is_set()
            reason = {"type": "abort" if aborted else "stop"} if aborted or k == len(text) else None
            output = {
                "text": text[:k],
                "output_ids": [ord(letter) for letter in text[:k]],
                "meta_info": {"finish_reason": reason, "output_token_logprobs": chosen},
            }
            self.wfile.write(f"data: {json.dumps(output)}\n\n".encode())
            if aborted:
                break
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def engines() -> Iterator[list[SGLang]]:
    made = [SGLang(RUDE), SGLang(POLITE)]
    for server in made:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield made
    for server in made:
        server.shutdown()
        server.server_close()


def test_sglang(live_server: LiveServer, engines: list[SGLang]) -> None:
    async def run(url: str) -> Rollout:
        async with ac.AsyncClient(live_server.url) as client:
            return await sglang.generate(url, "p", {"max_new_tokens": 100}, client=client)

    rude, polite = (asyncio.run(run(server.url)) for server in engines)
    assert (rude.text, rude.finish_reason) == (KEPT, "content_filter")
    assert rude.reward == pytest.approx(0.1)
    assert rude.log_probs == [-0.5] * len(KEPT)
    assert engines[0].aborted.is_set()
    assert (polite.text, polite.finish_reason) == (POLITE, "stop")
    assert polite.reward == pytest.approx(0.9)
    assert not engines[1].aborted.is_set()


class Output:
    """verl's TokenOutput, without pydantic."""

    def __init__(self, token_ids: list[int], stop_reason: str) -> None:
        self.token_ids, self.stop_reason = token_ids, stop_reason
        self.log_probs = [-float(id) for id in token_ids]
        self.extra_fields: dict[str, Any] = {"min_global_steps": 3}
        self.routed_experts = None

    def model_copy(self) -> Output:
        return Output(self.token_ids, self.stop_reason)


class Manager:
    """verl's LLMServerClient, which samples the bytes of a text and then the end-of-sequence token."""

    def __init__(self, text: str) -> None:
        self.ids, self.requests = [*text.encode(), 0], 0

    async def generate(
        self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any], **kwargs: Any
    ) -> Output:
        assert (request_id, kwargs) == ("r", {"image_data": None})
        assert prompt_ids[:2] == [80, 58]
        await asyncio.sleep(0.01)
        self.requests += 1
        done = len(prompt_ids) - 2
        assert prompt_ids[2:] == self.ids[:done]
        ids = self.ids[done : done + sampling_params["max_tokens"]]
        return Output(ids, "completed")


@pytest.mark.parametrize("chunk", [4, 7, 1000])
def test_chunked(live_server: LiveServer, chunk: int) -> None:
    async def run(manager: Manager, limit: int = 1000) -> Any:
        async with ac.AsyncClient(live_server.url) as client:
            server = chunked.EarlyStoppingServer(manager, Letters(), limit, chunk=chunk, client=client)
            return await server.generate("r", prompt_ids=[80, 58], sampling_params={}, image_data=None)

    manager = Manager(RUDE * 10)
    output = asyncio.run(run(manager))
    assert bytes(output.token_ids).decode() == KEPT
    assert output.log_probs == [-float(id) for id in KEPT.encode()]
    assert output.extra_fields["finish_reason"] == "content_filter"
    assert output.extra_fields["assay_reward"] == pytest.approx(0.1)
    assert output.extra_fields["min_global_steps"] == 3
    assert manager.requests < len(RUDE) * 10 / chunk + 1
    assert live_server.opened[0]["prompt"] == "P:"

    output = asyncio.run(run(Manager(POLITE)))
    assert bytes(output.token_ids) == POLITE.encode() + b"\0"
    assert output.extra_fields["finish_reason"] == "completed"
    assert len(asyncio.run(run(Manager(POLITE), limit=5)).token_ids) == 5


@pytest.mark.parametrize(
    ("given", "sampling_params"),
    [(7, {}), ([7, 8], {}), (None, {"stop_token_ids": [7]})],
)
def test_chunked_with_other_end_tokens(
    live_server: LiveServer, given: Any, sampling_params: dict[str, Any]
) -> None:
    """The end is the last token of a piece, so that only its id says that the response is complete."""

    async def run() -> Any:
        async with ac.AsyncClient(live_server.url) as client:
            server = chunked.EarlyStoppingServer(
                Manager(POLITE + "\7 And more."),
                Letters(),
                1000,
                chunk=len(POLITE) + 1,
                client=client,
                eos_token_ids=given,
            )
            params = {"stop_token_ids": None, **sampling_params}
            return await server.generate("r", prompt_ids=[80, 58], sampling_params=params, image_data=None)

    assert bytes(asyncio.run(run()).token_ids) == POLITE.encode() + b"\7"


def test_end_of_sequence() -> None:
    found = [end_of_sequence(Letters(), given) for given in (None, 5, [5, 6])]
    assert found == [{0}, {5}, {5, 6}]


def test_watch_with_random_tokens() -> None:
    """Whatever the tokens, the kept ones are the fewest that have the text up to the cut."""
    source = random.Random(7)
    for _ in range(500):
        watch, text, sizes = Watch(final), RUDE, []
        while text:
            size = min(source.randrange(0, 6), len(text))
            watch.append(text[:size])
            sizes.append(size)
            text = text[size:]
        end = source.randrange(1, len(RUDE) - 1)
        watch.observe(event(end, True))
        kept = watch.kept()
        assert sum(sizes[: kept - 1]) < end <= sum(sizes[:kept])
