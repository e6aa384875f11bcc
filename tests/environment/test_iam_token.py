"""Tokens of AWS for a cluster of Kafka, against those of AWS' own signer."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest

from tidegate.environment.iam_token import token
from tidegate.store.credentials import Credentials

MOMENT = datetime(2026, 1, 5, 10, 20, 30, 700_000, tzinfo=UTC)
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
SIGNATURES = {
    "": "8d1d2d0bc3977b318d02f16a065080e3111ce72f342398b408c5b4ba02afba28",
    "FwoG/se+ss=ion": "95cf4704202884d467ea9c74a15635efecf451c39ca3e1412be52273faabec8b",
}
"""By session token: what aws-msk-iam-sasl-signer-python 1.0.2 signs with this key at this second."""


@pytest.mark.parametrize("session_token", SIGNATURES)
def test_a_token_has_the_signature_of_the_signer_of_aws(session_token: str) -> None:
    made, ends = token(Credentials("AKIDEXAMPLE", SECRET, session_token), "eu-west-1", MOMENT)

    url = base64.urlsafe_b64decode(made + "=" * (-len(made) % 4)).decode()
    session = f"&X-Amz-Security-Token={session_token.replace('/', '%2F').replace('+', '%2B').replace('=', '%3D')}"
    assert url == (
        "https://kafka.eu-west-1.amazonaws.com/?Action=kafka-cluster%3AConnect&X-Amz-Algorithm=AWS4-HMAC-SHA256"
        "&X-Amz-Credential=AKIDEXAMPLE%2F20260105%2Feu-west-1%2Fkafka-cluster%2Faws4_request&X-Amz-Date=20260105T102030Z"
        f"&X-Amz-Expires=900{session if session_token else ''}&X-Amz-SignedHeaders=host"
        f"&X-Amz-Signature={SIGNATURES[session_token]}&User-Agent=tidegate"
    )
    assert ends == MOMENT.replace(microsecond=0).timestamp() + 900
    assert "=" not in made
