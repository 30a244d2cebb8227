"""Definitions without secrets."""

from __future__ import annotations

import pytest

from streamling.redaction import MASK, add_secrets
from streamling.serve.control import masked_text, masked_values


@pytest.mark.parametrize(
    "text",
    [
        "url: http://127.0.0.1/?token=${secret:API_KEY}&page=1",
        "url: http://user:${secret:PASSWORD}@host/",
        "dsn: host=db password=${secret:PASSWORD}",
        "headers: {Authorization: Bearer ${secret:TOKEN_2}}",
        "a: ${A} ${B:-x}",
    ],
)
def test_references_stay(text):
    assert masked_text(text) == text


def test_secrets_beside_references_are_masked():
    add_secrets(["masking-test-4711"])
    assert masked_text("a: ${secret:A} masking-test-4711") == f"a: ${{secret:A}} {MASK}"
    assert masked_text("u: http://x/?token=abc123&key=${K}") == f"u: http://x/?token={MASK}&key=${{K}}"
    assert masked_values({"a": ["masking-test-4711", 1]}) == {"a": [MASK, 1]}
