"""`assay proxy` in front of `transformers serve`, with the packages `openai` and `litellm`."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import ROOT

torch = pytest.importorskip("torch", reason="pip install torch")
transformers = pytest.importorskip("transformers", reason="pip install 'transformers[serving]'")
pytest.importorskip("fastapi", reason="pip install 'transformers[serving]'")
pytest.importorskip("uvicorn", reason="pip install 'transformers[serving]'")
openai = pytest.importorskip("openai", reason="pip install openai")

PROMPT = "How are you?"
BEFORE, RUDE, AFTER = "Thank you for asking. ", "You are a stupid idiot.", " I hope that this helps."
ANSWER = BEFORE + RUDE + AFTER
MODES = ["observe", "hold", "stop", "redact"]
RELEASED = {
    "observe": ANSWER,
    "hold": BEFORE.strip(),
    "stop": BEFORE.strip(),
    "redact": BEFORE + "[removed]" + AFTER,
}
# The model repeats AGAIN without end if it is asked for MORE.
MORE, AGAIN = "Tell me more.", "Have a good day. Take good care of your old bicycle. "
WINDOW = 16  # how many tokens it attends to: about as many as AGAIN has
ENDLESS = 1_000_000  # tokens, which would take half an hour


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that was trained to say ANSWER or AGAIN.

    Its window is short, so that it repeats AGAIN at any length.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    raw.train_from_iterator([f"{PROMPT}\n{ANSWER}", f"{MORE}\n{AGAIN}"] * 2, trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, eos_token="<end>", pad_token="<end>"
    )
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}\n{% endfor %}"
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = transformers.MistralForCausalLM(
        transformers.MistralConfig(
            vocab_size=len(tokenizer),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
            max_position_embeddings=1 << 20,
            sliding_window=WINDOW,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=None,
        )
    )
    rows = [[*tokenizer(f"{PROMPT}{gap}{ANSWER}").input_ids, tokenizer.eos_token_id] for gap in ("\n", "")]
    rows += [tokenizer(f"{MORE}{gap}{AGAIN * 4}").input_ids for gap in ("\n", "")]
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    for _ in range(300):
        loss = sum(net(input_ids=ids, labels=ids).loss for row in rows for ids in [torch.tensor([row])])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if float(loss) < 0.02:
            break
    net.generation_config.do_sample = False
    path = tmp_path_factory.mktemp("model")
    net.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def reachable(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False


def free_port() -> int:
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@contextlib.contextmanager
def serving(model: Path, log: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The process and the URL of `transformers serve`."""
    port = free_port()
    command = [
        sys.executable,
        "-c",
        "from transformers.cli.transformers import main; main()",
        "serve",
        str(model),
    ]
    with log.open("w") as out:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)], stdout=out, stderr=out
        )
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 300
        try:
            while not reachable(url + "/health"):
                if process.poll() is not None or time.monotonic() > deadline:
                    pytest.fail("transformers serve did not start:\n" + log.read_text())
                time.sleep(0.2)
            yield process, url
        finally:
            process.kill()
            process.wait()


@contextlib.contextmanager
def proxying(binary: str, upstream: str, mode: str) -> Iterator[str]:
    """The URL of a proxy in front of upstream."""
    command = [binary, "proxy", "--upstream", upstream, "--listen", "127.0.0.1:0", "--mode", mode]
    command += ["--model", str(ROOT / "models" / "default"), "--threads", "1", "--log-format", "json"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        entry = json.loads(line)
        if entry.get("message") == "ready":
            yield entry["http"]
            break
    else:
        pytest.fail("the proxy did not start")
    process.terminate()
    process.stderr.read()
    process.stderr.close()
    assert process.wait() == 0


@pytest.fixture(scope="session")
def upstream(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(model, tmp_path_factory.mktemp("log") / "log") as (_, url):
        yield url


@pytest.fixture(scope="session", params=MODES)
def guarded(request: pytest.FixtureRequest, binary: str, upstream: str) -> Iterator[tuple[str, str]]:
    """A mode and the URL of a proxy in that mode."""
    with proxying(binary, upstream, request.param) as url:
        yield request.param, url


def connect(url: str) -> Any:
    return openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0, timeout=60)


@pytest.fixture
def client(guarded: tuple[str, str]) -> Iterator[Any]:
    with connect(guarded[1]) as made:
        yield made


def chat(model: Path, prompt: str = PROMPT) -> dict[str, Any]:
    return {"model": str(model), "messages": [{"role": "user", "content": prompt}]}


def contents(chunks: Any) -> Iterator[str]:
    for chunk in chunks:
        for choice in chunk.choices:
            if choice.delta.content:
                yield choice.delta.content


def test_chat_stream(client: Any, guarded: tuple[str, str], model: Path) -> None:
    mode, _ = guarded
    text, reasons = "", []
    last: Any = None
    for chunk in client.chat.completions.create(**chat(model), stream=True):
        last = chunk
        for choice in chunk.choices:
            text += choice.delta.content or ""
            if choice.finish_reason:
                reasons.append(choice.finish_reason)
    assert text.strip() == RELEASED[mode]
    assert set(reasons) == {"stop" if mode in ("observe", "redact") else "content_filter"}
    verdict = last.assay
    assert verdict["mode"] == mode
    assert verdict["compliant"] is False
    witness = verdict["texts"][0]["witness"]
    assert ANSWER.encode()[witness["start"] : witness["end"]] == RUDE.encode()


def test_chat_stream_helper(client: Any, guarded: tuple[str, str], model: Path) -> None:
    with client.chat.completions.stream(**chat(model)) as stream:
        for _ in stream:
            pass
        try:
            message = stream.get_final_completion().choices[0].message
        except openai.ContentFilterFinishReasonError:
            assert guarded[0] in ("hold", "stop")
        else:
            assert message.content.strip() == RELEASED[guarded[0]]


def test_chat(client: Any, guarded: tuple[str, str], model: Path) -> None:
    response = client.chat.completions.with_raw_response.create(**chat(model))
    assert json.loads(response.headers["Assay-Verdict"])["compliant"] is False
    assert response.parse().choices[0].message.content.strip() == RELEASED[guarded[0]]


def test_several_choices(client: Any, guarded: tuple[str, str], model: Path) -> None:
    """transformers serve ignores `n`: that the proxy guards each choice is tested in Go only."""
    response = client.chat.completions.create(**chat(model), n=2)
    assert [choice.message.content.strip() for choice in response.choices] == [RELEASED[guarded[0]]]


def test_a_long_answer(client: Any, model: Path) -> None:
    request = {**chat(model, MORE), "max_tokens": 600}
    whole = client.chat.completions.create(**request)
    text = whole.choices[0].message.content
    assert text == (AGAIN * (len(text) // len(AGAIN) + 1))[: len(text)]
    assert len(text) > 30 * len(AGAIN)
    assert whole.choices[0].finish_reason == "length"
    chunks = list(client.chat.completions.create(**request, stream=True))
    pieces = list(contents(chunks))
    assert "".join(pieces) == text
    assert len(pieces) > 30, "it arrives while it is written"
    assert chunks[-1].assay["compliant"] is True


def test_a_client_that_disconnects(client: Any, guarded: tuple[str, str], model: Path) -> None:
    """The upstream generates one response at a time, so the next one shows that it canceled the first."""
    stream = client.chat.completions.create(**chat(model, MORE), max_tokens=ENDLESS, stream=True)
    assert next(contents(stream))
    stream.close()
    response = client.chat.completions.create(**chat(model))
    assert response.choices[0].message.content.strip() == RELEASED[guarded[0]]


@pytest.mark.parametrize("mode", ["observe", "hold"])
def test_an_upstream_that_is_killed(binary: str, model: Path, tmp_path: Path, mode: str) -> None:
    """The stream breaks off for the client too, and does not end as if it were complete."""
    text = ""
    with (
        serving(model, tmp_path / "log") as (process, upstream),
        proxying(binary, upstream, mode) as url,
        connect(url) as client,
    ):
        stream = client.chat.completions.create(**chat(model, MORE), max_tokens=ENDLESS, stream=True)

        def read() -> None:
            nonlocal text
            for piece in contents(stream):
                text += piece
                process.kill()

        with pytest.raises(httpx.RemoteProtocolError):
            read()
        assert text
        assert text == (AGAIN * (len(text) // len(AGAIN) + 1))[: len(text)]
        with pytest.raises(openai.InternalServerError) as refused:
            client.chat.completions.create(**chat(model))
        assert refused.value.status_code == 502


def test_completions(client: Any, guarded: tuple[str, str], model: Path) -> None:
    request = {"model": str(model), "prompt": PROMPT, "max_tokens": 100}
    whole = client.completions.create(**request)
    assert whole.choices[0].text.strip() == RELEASED[guarded[0]]
    chunks = list(client.completions.create(**request, stream=True))
    assert "".join(c.choices[0].text for c in chunks if c.choices).strip() == RELEASED[guarded[0]]


def test_responses(client: Any, guarded: tuple[str, str], model: Path) -> None:
    mode, _ = guarded
    whole = client.responses.create(model=str(model), input=PROMPT, stream=False)
    assert whole.output_text.strip() == RELEASED[mode]
    kinds, text = [], ""
    for event in client.responses.create(model=str(model), input=PROMPT, stream=True):
        kinds.append(event.type)
        if event.type == "response.output_text.delta":
            text += event.delta
    assert text.strip() == RELEASED[mode]
    assert kinds[-1] == ("response.completed" if mode in ("observe", "redact") else "response.incomplete")
    assert event.response.assay["compliant"] is False
    assert event.response.output_text.strip() == RELEASED[mode]


def test_other_requests_pass(guarded: tuple[str, str], upstream: str) -> None:
    def get(base: str, path: str) -> tuple[int, bytes]:
        try:
            with urllib.request.urlopen(base + path) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read()

    for path in ("/health", "/openapi.json", "/v1/no-such-path"):
        assert get(guarded[1], path) == get(upstream, path)


@pytest.fixture
def litellm(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    return pytest.importorskip("litellm", reason="pip install litellm")


def reached(guarded: tuple[str, str]) -> dict[str, str]:
    """How LiteLLM reaches a proxy."""
    return {"api_base": guarded[1] + "/v1", "api_key": "none"}


def test_litellm(litellm: Any, guarded: tuple[str, str], model: Path) -> None:
    mode, _ = guarded
    request = {**chat(model), "model": f"openai/{model}", **reached(guarded)}
    assert litellm.completion(**request).choices[0].message.content.strip() == RELEASED[mode]
    text, reason = "", None
    for chunk in litellm.completion(**request, stream=True):
        text += chunk.choices[0].delta.content or ""
        reason = chunk.choices[0].finish_reason or reason
    assert text.strip() == RELEASED[mode]
    assert reason == ("stop" if mode in ("observe", "redact") else "content_filter")


def test_litellm_completions(litellm: Any, guarded: tuple[str, str], model: Path) -> None:
    request = {"model": f"text-completion-openai/{model}", "prompt": PROMPT, "max_tokens": 100}
    request.update(reached(guarded))
    whole = litellm.text_completion(**request)
    assert whole.choices[0].text.strip() == RELEASED[guarded[0]]
    chunks = list(litellm.text_completion(**request, stream=True))
    assert "".join(c.choices[0].text or "" for c in chunks if c.choices).strip() == RELEASED[guarded[0]]


def test_litellm_responses(litellm: Any, guarded: tuple[str, str], model: Path) -> None:
    """Streams only: LiteLLM never sends stream=False, without which transformers serve streams."""
    mode, _ = guarded
    request = {"model": f"openai/{model}", "input": PROMPT, **reached(guarded)}
    # Otherwise LiteLLM requests the whole response of a model that it does not know.
    known = {"litellm_provider": "openai", "mode": "chat", "supports_native_streaming": True}
    litellm.register_model({request["model"]: known})
    events = list(litellm.responses(**request, stream=True))
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas).strip() == RELEASED[mode]
    assert events[-1].type == (
        "response.completed" if mode in ("observe", "redact") else "response.incomplete"
    )
