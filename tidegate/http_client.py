"""HTTP requests to configured addresses. Redirects are not followed."""

from __future__ import annotations

import base64
import urllib.request
from http.client import HTTPResponse
from typing import Any


def send(request: urllib.request.Request, seconds: float) -> HTTPResponse:
    """Send a request and return the response, which the caller closes.

    Do not follow redirects: user and password would be sent to the target of the redirect, and a POST would be repeated as
    a GET without its body and then count as successful.

    Args:
        seconds: Timeout of each socket operation.

    Raises:
        urllib.error.HTTPError: The status is not 2xx; a redirect is such a status.
        OSError: The server cannot be reached.
        http.client.HTTPException: The server does not speak HTTP.
    """
    response: HTTPResponse = urllib.request.build_opener(_NoRedirects).open(request, timeout=seconds)
    return response


def basic_auth(user: str, password: str) -> str:
    """The value of the header ``Authorization`` for basic authentication (RFC 7617)."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None
