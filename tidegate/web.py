"""Requests to addresses that a person configured: answered there, or not at all."""

from __future__ import annotations

import base64
import urllib.request
from http.client import HTTPResponse
from typing import Any


def ask(request: urllib.request.Request, seconds: float) -> HTTPResponse:
    """What the address itself answers, to be read or not, and to be closed.

    Nobody is followed: user and password would go on to wherever the answer leads, and a POST would go on as a GET,
    without its content, and be taken for done.

    Args:
        request: For whom.
        seconds: How long each step of the answer may take.

    Raises:
        urllib.error.HTTPError: Any code but one of success, a redirect's too.
        OSError: Nobody answers.
        http.client.HTTPException: What answers does not speak HTTP.
    """
    answer: HTTPResponse = urllib.request.build_opener(_StayHere).open(request, timeout=seconds)
    return answer


def basic(user: str, password: str) -> str:
    """The header ``Authorization`` of somebody (RFC 7617)."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


class _StayHere(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None
