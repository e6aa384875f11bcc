"""Tokens by which Amazon MSK knows an identity of AWS: a presigned request for its action `kafka-cluster:Connect`.

Kafka's OAUTHBEARER carries the token. AWS' own signers make the same one: `aws-msk-iam-auth` for Java, which Spark's client calls, and
`aws-msk-iam-sasl-signer-python`, which would bring botocore for one signature.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from collections.abc import Callable
from datetime import UTC, datetime
from urllib.parse import quote

from tidegate.store.credentials import VARIABLE, Credentials, CredentialSource

_SERVICE = "kafka-cluster"
_SECONDS = 900
"""How long a token is valid: the longest that MSK accepts."""

OAuth = Callable[[str], tuple[str, float]]
"""The call-back of librdkafka: a token, and when it ends in seconds since 1970."""


def callback(region: str, credentials: str) -> OAuth:
    """Makes a token whenever librdkafka needs one.

    Args:
        region: Of the cluster.
        credentials: Where they come from, as `TIDEGATE_S3_CREDENTIALS`; empty: the first source that the environment configures.

    Raises:
        SetupError: There are none.
        MachineUnavailableError: Their source does not answer.
    """
    source = CredentialSource({**os.environ, **({VARIABLE: credentials} if credentials else {})})
    # librdkafka would report any error of the call-back as a token that is missing.
    source.get()
    return lambda _: token(source.get(), region, datetime.now(UTC))


def token(credentials: Credentials, region: str, now: datetime) -> tuple[str, float]:
    """A token, and when it ends in seconds since 1970."""
    # Signature Version 4 with the signature in the query, as in AWS' guide to signed requests.
    host, moment, day = f"kafka.{region}.amazonaws.com", f"{now:%Y%m%dT%H%M%SZ}", f"{now:%Y%m%d}"
    scope = f"{day}/{region}/{_SERVICE}/aws4_request"
    fields = {
        "Action": f"{_SERVICE}:Connect",
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{credentials.access_key}/{scope}",
        "X-Amz-Date": moment,
        "X-Amz-Expires": str(_SECONDS),
        "X-Amz-SignedHeaders": "host",
    }
    fields |= {"X-Amz-Security-Token": credentials.session_token} if credentials.session_token else {}
    query = "&".join(f"{name}={quote(value, safe='-_.~')}" for name, value in sorted(fields.items()))
    request = f"GET\n/\n{query}\nhost:{host}\n\nhost\n{hashlib.sha256(b'').hexdigest()}"
    text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{credentials.secret_key}".encode()
    for part in (day, region, _SERVICE, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.new(key, text.encode(), "sha256").hexdigest()
    url = f"https://{host}/?{query}&X-Amz-Signature={signature}&User-Agent=tidegate"
    ends = now.replace(microsecond=0).timestamp() + _SECONDS
    return base64.urlsafe_b64encode(url.encode()).decode().rstrip("="), ends
