"""Token-level rewards, against a fake and a real service."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from conftest import Caller, Faulty, Service, dense_results
from test_service import POLITE, RUDE, command

import assay_client as ac
from assay_client.integrations.skyrl_dense import token_rewards


class Letters:
    """A tokenizer with one token per character; 0 is a special token."""

    all_special_ids = [0]  # noqa: RUF012

    def decode(self, ids: list[int], skip_special_tokens: bool = False) -> str:
        assert skip_special_tokens
        return "".join(chr(i) for i in ids if i)

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [chr(i) for i in ids]

    def encode(self, text: str) -> list[int]:
        return [ord(c) for c in text]


def letters(text: str) -> ac.Item:
    return ac.dense.item(Letters(), [*Letters().encode(text), 0])


def test_request_and_response(faulty: Faulty, call: Caller) -> None:
    faulty.default = lambda h: h.send(200, dense_results(h.body))
    options = ac.Options(dense="shaped", gamma=0.99)
    found = call(
        faulty.url,
        "score_one",
        ac.Item(response="ab", token_offsets=[(0, 1), (1, 2), (2, 2)]),
        options=options,
    )
    assert found.token_rewards == (0.25, 0.25, 0.0)
    assert found.token_offsets is None
    asked = json.loads(faulty.requests[0][2])
    assert asked["responses"] == [{"response": "ab", "token_offsets": [[0, 1], [1, 2], [2, 2]]}]
    assert asked["options"] == {"dense": "shaped", "gamma": 0.99}
    assert call(faulty.url, "score_one", {"response": "a", "token_offsets": []}).token_rewards == ()


@pytest.mark.parametrize(
    ("name", "value"), [("token_rewards", [None]), ("token_rewards", 1), ("token_offsets", [[1]])]
)
def test_invalid_responses(faulty: Faulty, call: Caller, name: str, value: Any) -> None:
    def reply(h: Any) -> None:
        body = dense_results(h.body)
        body["results"][0][name] = value
        h.send(200, body)

    faulty.default = reply
    with pytest.raises(ac.InvalidResponseError, match=name):
        call(faulty.url, "score_one", {"response": "a", "token_offsets": []}, settings={"retry": 0})


@pytest.mark.parametrize("kind", ["last", "instance", "witness", "shaped"])
@pytest.mark.parametrize("reward", ["compliance", "logit", "raw"])
def test_the_sum_is_the_reward(service: Service, call: Caller, kind: Any, reward: Any) -> None:
    items = [letters(RUDE), letters(POLITE), letters(""), ac.Item(response=RUDE, token_offsets=[])]
    found = call(service.url, "score", items, options=ac.Options(dense=kind, reward=reward))
    rude, polite, empty, none = found
    for item, r in zip(items, found):
        assert len(r.token_rewards) == len(item.token_offsets or ())
        if r.token_rewards:
            assert sum(r.token_rewards) == pytest.approx(r.reward, abs=1e-9)
    assert none.token_rewards == ()
    assert (rude.compliant, polite.compliant, empty.empty) == (False, True, True)
    falls = [k for k, v in enumerate(rude.token_rewards) if v]
    w = rude.witness
    if kind == "witness":
        assert falls == list(range(w.start, w.end))
    if kind == "instance":
        assert set(falls) <= {i.end - 1 for i in rude.instances}
    if kind == "last":
        assert falls == [len(RUDE) - 1]


def test_service_tokenizer(service: Service, call: Caller) -> None:
    name = call(service.url, "models")[0].name
    r = call(service.url, "score_one", RUDE, options=ac.Options(dense="last", tokenizer=name))
    assert len(r.token_offsets) == len(r.token_rewards) > 5
    assert sum(r.token_rewards) == pytest.approx(r.reward, abs=1e-9)
    assert all(RUDE[a:b] for a, b in r.token_offsets)


def test_invalid_requests(service: Service, call: Caller) -> None:
    wrong: list[tuple[Any, Any]] = [
        (POLITE, ac.Options(dense="last")),
        (ac.Item(response=POLITE, token_offsets=[(0, 1)]), None),
        (ac.Item(response=POLITE, token_offsets=[(0, 999)]), ac.Options(dense="last")),
        (ac.Item(instances=[POLITE], token_offsets=[(0, 1)]), ac.Options(dense="last")),
        (POLITE, ac.Options(dense="last", tokenizer="unknown")),
    ]
    for item, options in wrong:
        with pytest.raises((ac.BadRequestError, ac.NotFoundError)):
            call(service.url, "score_one", item, options=options)


def test_command(service: Service) -> None:
    line = json.dumps({"response": "ab", "token_offsets": [[0, 1], [1, 2]]})
    done = command("score", "--url", service.url, "--dense", "last", data=line)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["token_rewards"] == [0, found["reward"]]


def test_skyrl(faulty: Faulty) -> None:
    faulty.default = lambda h: h.send(200, dense_results(h.body))
    t = Letters()
    ids = [t.encode("Ab.") + t.encode("tool") + [*t.encode("C."), 0], t.encode("x"), t.encode("tool")]
    masks = [[1] * 3 + [0] * 4 + [1] * 3, [1], [0] * 4]

    async def run() -> tuple[list[list[float]], list[list[float]]]:
        async with ac.AsyncClient(faulty.url) as client:
            whole = await token_rewards(t, ids, client=client)
            return await token_rewards(t, ids, masks, client=client, options=ac.Options(dense="last")), whole

    found, whole = asyncio.run(run())
    assert [len(r) for r in found] == [len(r) for r in whole] == [10, 1, 4]
    assert found == [[0.1] * 3 + [0.0] * 4 + [0.1] * 2 + [0.0], [0.5], [0.0, 0.0, 0.0, 0.5]]
    asked = [json.loads(body) for _, _, body in faulty.requests]
    assert [a["options"]["dense"] for a in asked] == ["instance", "last"]
    assert [r["response"] for r in asked[1]["responses"]] == ["Ab.\n\nC.", "x", ""]
