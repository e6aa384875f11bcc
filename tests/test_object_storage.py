"""An answer of an object store means the same whichever client got it, and nothing else of the client's text is shown."""

from __future__ import annotations

import pytest

from tidegate.errors import MachineError, MachineUnavailableError, classify
from tidegate.errors.classification import cause_in, raise_machine
from tidegate.errors.object_storage import ANSWERS, CREDENTIALS_UNAVAILABLE, NO_CREDENTIALS, S3A_CLASSES, refusal_in

OF_SERVERS = [
    (code, cause)
    for codes, cause in ANSWERS
    for code in codes
    if not code.isdigit() and code not in (NO_CREDENTIALS, CREDENTIALS_UNAVAILABLE, "InvalidName", "PreconditionFailed")
]


def delta_rs_says(code: str, status: int = 400) -> str:
    """Its text, with the colours of a terminal, and the answer with what AWS quotes in it."""
    arrow = "\x1b[31m↳\x1b[0m"
    answer = f"<Error><Code>{code}</Code><Message>No.</Message><Token-0>canary</Token-0></Error>"
    return (
        f"Kernel error -> Generic S3 error\n   {arrow} Error performing GET http://s3:9000/bucket/t/_delta_log/_last_checkpoint in "
        f"6.21464ms - Server returned non-2xx status code\n    {arrow} {status} Bad Request\n     {arrow} {answer}\n"
    )


def s3a_says(code: str, status: int = 400) -> str:
    answer = (
        f"(Service: S3, Status Code: {status}, Request ID: canary, Extended Request ID: 1/2+3=) (SDK Attempt Count: 1)"
    )
    return (
        "org.apache.hadoop.fs.s3a.AWSBadRequestException: getFileStatus on s3a://bucket/t/x: "
        f"software.amazon.awssdk.services.s3.model.S3Exception: No. {answer}:{code}: No. {answer}"
    )


def test_an_answer_that_breaks_off_is_transient() -> None:
    says = "ConnectionClosedException: Premature end of Content-Length delimited message body (expected: 916; received: 458)"
    error = cause_in(f"Encountered error while reading file s3://b/lake/x.json\norg.apache.http.{says}", "flow 'a'")
    assert error is not None and error.transient
    assert "s3://b/lake/x.json" in error.message
    nameless = cause_in(f"org.apache.http.{says}", "flow 'a'")
    assert nameless is not None and nameless.transient


@pytest.mark.parametrize(("code", "cause"), OF_SERVERS)
def test_every_code_has_its_meaning_in_the_texts_of_delta_rs_and_of_s3a(code: str, cause: object) -> None:
    of_delta_rs, of_s3a = classify(OSError(delta_rs_says(code)), "flow 'a'"), cause_in(s3a_says(code), "flow 'a'")
    for error, path in ((of_delta_rs, "s3://bucket/t/_delta_log/_last_checkpoint"), (of_s3a, "s3://bucket/t/x")):
        assert isinstance(error, MachineError)
        refusal = refusal_in(delta_rs_says(code))
        assert refusal is not None and refusal.cause is cause
        assert error.message.startswith(f"flow 'a': cannot access {path}: {refusal.cause.meaning} (400 {code} of ")
        assert error.transient is refusal.may_pass
        assert "canary" not in f"{error}{error.__cause__}"


def test_an_answer_of_s3a_without_a_code_may_be_an_expiry() -> None:
    error = cause_in(s3a_says("null"), "flow 'a'")
    assert isinstance(error, MachineUnavailableError)
    assert "as it does where credentials have expired (400 of " in error.message


def test_an_answer_about_one_object_is_left_to_who_knows_the_object() -> None:
    for code, status in (("NoSuchKey", 404), ("", 404), ("PreconditionFailed", 412)):
        assert refusal_in(delta_rs_says(code, status)) is refusal_in(s3a_says(code, status)) is None


def test_a_server_that_does_not_answer_delta_rs_is_transient() -> None:
    text = (
        "Generic S3 error ↳ Error performing GET http://s3:9000/bucket/x in 1.2s, after 10 retries, max_retries 10, retry_timeout\n"
        "↳ 180s  - HTTP error ↳ error sending request ↳ client error (Connect) ↳ Connection refused (os error 111)"
    )
    with pytest.raises(MachineUnavailableError, match="the object store does not answer") as raised:
        raise_machine(OSError(text))
    assert raised.value.__suppress_context__


@pytest.mark.parametrize("source", S3A_CLASSES)
@pytest.mark.parametrize(
    ("reason", "transient"),
    [
        ("SdkClientException: Failed to load credentials. | java.net.ConnectException: Connection refused", True),
        ("SdkClientException: Unable to execute HTTP request: sts (SDK Attempt Count: 4) | java.net.UnknownHostException: sts", True),
        ("SdkClientException: Failed to load credentials. | SdkServiceException: Service Unavailable", True),
        ("StsException: No. (Service: Sts, Status Code: 503, Request ID: null) (SDK Attempt Count: 4)", True),
        ("InvalidIdentityTokenException: canary (Service: Sts, Status Code: 400, Request ID: null) (SDK Attempt Count: 1)", False),
        ("SdkClientException: Profile file contained no credentials for profile 'canary'", False),
        ("IllegalArgumentException: Illegal character(s) in message header value: canary", False),
    ],
)  # fmt: skip
def test_spark_without_credentials_is_an_error_that_names_the_source(source: str, reason: str, transient: bool) -> None:
    provider = f"{S3A_CLASSES[source]}CredentialsProvider"
    text = (
        "java.nio.file.AccessDeniedException: s3a://bucket/t/x: org.apache.hadoop.fs.s3a.auth.NoAuthWithAWSException: "
        f"No AWS Credentials provided by {provider} : software.amazon.awssdk.core.exception.{reason}"
    )
    error = cause_in(text, "flow 'a'")
    assert isinstance(error, MachineError)
    assert error.transient is transient
    assert f"of the source {source!r}" in error.message
    assert "canary" not in error.message
