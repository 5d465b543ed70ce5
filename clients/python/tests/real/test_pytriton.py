"""The `nvidia-pytriton` package: ModelClient, as NeMo-Aligner uses it."""

from __future__ import annotations

import pytest
from conftest import Service, Texts


def test_model_client(service: Service, texts: Texts) -> None:
    pytriton = pytest.importorskip("pytriton.client", reason="pip install nvidia-pytriton")
    import numpy as np
    from pytriton.client.exceptions import PyTritonClientInferenceServerError

    both = np.array([[texts.polite.encode()], [texts.rude.encode()]])
    with pytriton.ModelClient(service.url, "assay", init_timeout_s=20) as client:
        found = client.infer_batch(text=both)
        assert found["reward"].ravel().tolist() == pytest.approx(texts.rewards(service), abs=5e-3)
        named = client.infer_batch(sentences=both)
        assert named["reward"].ravel().tolist() == pytest.approx(texts.rewards(service), abs=5e-3)
        with pytest.raises(PyTritonClientInferenceServerError):
            client.infer_batch(tokens=np.array([[1, 2]], dtype=np.int64))
