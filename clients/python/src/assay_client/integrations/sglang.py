"""SGLang: a rollout of a server that is aborted when it violates the policy.

    from assay_client.integrations.sglang import generate

    rollout = await generate("http://127.0.0.1:30000", prompt, {"max_new_tokens": 512})

Follows the HTTP API of SGLang 0.5: `POST /generate` with `stream` sends cumulative
`text`, `output_ids` and `meta_info` as server-sent events (the server must run
without `--stream-output`, which sends only new ones), and `POST /abort_request`
with the `rid` of a request ends it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx

from .. import AsyncClient, Options
from ._base import shared_async_client
from .early_stopping import Rollout, Step, When, follow, violation


async def generate(
    url: str,
    prompt: str | list[int],
    sampling_params: Mapping[str, Any],
    *,
    http: httpx.AsyncClient | None = None,
    client: AsyncClient | None = None,
    context: str | None = None,
    options: Options | None = None,
    model: str | None = None,
    when: When = violation,
) -> Rollout:
    """Samples one response. `context` is the prompt as text, for models trained with it."""
    if http is None:
        async with httpx.AsyncClient(timeout=None) as own:
            return await generate(
                url,
                prompt,
                sampling_params,
                http=own,
                client=client,
                context=context,
                options=options,
                model=model,
                when=when,
            )
    rid = uuid.uuid4().hex

    async def abort() -> None:
        (await http.post(f"{url}/abort_request", json={"rid": rid})).raise_for_status()

    body: dict[str, Any] = {
        "rid": rid,
        "sampling_params": dict(sampling_params),
        "stream": True,
        "return_logprob": True,
        "text" if isinstance(prompt, str) else "input_ids": prompt,
    }
    async with http.stream("POST", f"{url}/generate", json=body) as response:
        response.raise_for_status()
        return await follow(
            _steps(response),
            client or shared_async_client(),
            abort=abort,
            prompt=context,
            options=options,
            model=model,
            when=when,
        )


async def _steps(response: httpx.Response) -> AsyncIterator[Step]:
    characters = tokens = 0
    async for line in response.aiter_lines():
        data = line[len("data:") :].strip() if line.startswith("data:") else ""
        if not data or data == "[DONE]":
            continue
        output = json.loads(data)
        info = output["meta_info"]
        chosen = info.get("output_token_logprobs") or []  # (log probability, id, text)
        ids = output.get("output_ids") or [token[1] for token in chosen]
        new = ids[tokens:]
        logprobs = [token[0] for token in chosen[tokens : tokens + len(new)]]
        text = output["text"][characters:]
        characters, tokens = characters + len(text), tokens + len(new)
        reason = info.get("finish_reason")
        yield Step(text, new, logprobs or None, reason["type"] if reason else None)
