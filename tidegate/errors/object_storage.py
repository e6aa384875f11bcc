"""Every answer of an object store that has a meaning of its own: what it means, whether it may go away, and the next step."""

from __future__ import annotations

import errno
import os
import re

from tidegate.advice import OutsideAct
from tidegate.errors.causes import Cause, MachineError, MachineUnavailableError

_AGAIN = "then run again: what was committed stays"
_EXPIRED = ("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired")
INVALID_NAME = "InvalidName"
"""The code, which no server sends, for a listing with a name that obstore cannot read."""
NO_CREDENTIALS = "NoCredentials"
"""The code, which no server sends, for a source that gives S3A no credentials."""
CREDENTIALS_UNAVAILABLE = "CredentialsUnavailable"
"""The same, where the source does not answer."""
S3A_CLASSES = {
    "environment": "EnvironmentVariable",
    "web-identity": "WebIdentityTokenFile",
    "profile": "Profile",
    "container": "Container",
    "instance": "InstanceProfile",
}
"""By source of credentials: how the class of AWS' SDK begins by which S3A reads it."""
_OF_S3A = re.compile(r"\(Service: S3, Status Code: (\d{3}),[^)]*\)(?: \(SDK Attempt Count: \d+\))?(?::(\w+))?")
"""Status and code of an answer in a text of Java."""
_OF_DELTA_RS = re.compile(
    r"Error performing [A-Z]+ https?://([^/\s]+)(/\S*) in [\d.]+\w*s.*?(?:Server returned\b(.*)|HTTP error)", re.DOTALL
)
"""Server and path of a request of delta-rs, and what was answered to it."""
_NO_CREDENTIALS = re.compile(r"No AWS Credentials provided by (\w+?)CredentialsProvider")
_UNREACHABLE = re.compile(
    r"ConnectException|UnknownHost|NoRouteToHost|[Tt]imed? ?[Oo]ut|Status Code: (?:429|5\d\d)|Too Many Requests"
    r"|Internal Server Error|Service Unavailable|Bad Gateway"
)
_BROKEN_OFF = re.compile(r"ConnectionClosedException: Premature end of \S+ delimited message body")
"""What Java says of an answer whose content ends too early. S3A asks again for some, not for all."""
_OF_OBJECT = {"404", "NoSuchKey", "PreconditionFailed", "412", "InvalidRange", "416"}
"""Codes that say something about one object: whether it is there, and as which."""
_PERMISSIONS = "s3:GetObject, s3:PutObject and s3:DeleteObject on the prefix, s3:ListBucket on the bucket"


class ObjectStorageRefusal(OSError):  # noqa: N818  # the error that a person sees is made of it
    """An object store refused something, or did not answer.

    Args:
        uri: The address.
        operation: What was to be done: ``read``, ``write``, …
        server: Who was asked, for messages.
        status: Its HTTP status; 0 without an answer.
        code: Its own name of the error, for example ``SlowDown``; empty if it said none.
    """

    def __init__(self, uri: str, operation: str, server: str, status: int, code: str) -> None:
        self.cause = _cause(status, code)
        number = getattr(errno, self.cause.errors[0])
        super().__init__(number, os.strerror(number), uri)
        self.operation = operation
        self.server = server
        self.status = status
        self.code = code

    @property
    def may_pass(self) -> bool:
        """Whether another attempt may succeed."""
        return self.cause.kind.transient

    @property
    def is_expiry(self) -> bool:
        """Whether new credentials may help."""
        return self.code in _EXPIRED

    def __str__(self) -> str:
        answer = f"{self.status or ''} {self.code}".strip() or "no answer"
        return f"cannot {self.operation} {self.filename}: {self.cause.meaning} ({answer} of {self.server})"

    def described(self, what: str = "") -> MachineError:
        """As an error of the platform, with the next step."""
        problem = f"{what + ': ' if what else ''}{self}."
        path, name = str(self.filename), self.cause.errors[0]
        return self.cause.kind(problem, self.cause.next_step, path=path, operation=self.operation, error=name)


def refusal_in(text: str, within: str = "") -> ObjectStorageRefusal | None:
    """The refusal that a text of delta-rs or Java tells of; None if it tells of none, or of one that concerns a single object.

    Nothing else of such a text may be shown: servers quote access keys and session tokens in their answers.

    Args:
        text: The text.
        within: Where the object is if the text does not name it.
    """
    named = re.search(r"s3a?://[^\s'\"`:;,|]+", text)
    uri = named[0].replace("s3a://", "s3://", 1) if named else within or "an object"
    if nothing := _NO_CREDENTIALS.search(text):
        code = CREDENTIALS_UNAVAILABLE if _UNREACHABLE.search(text) else NO_CREDENTIALS
        source = next((name for name, begins in S3A_CLASSES.items() if begins == nothing[1]), nothing[1])
        return ObjectStorageRefusal(uri, "access", f"the source {source!r}", 0, code)
    if answer := _OF_S3A.search(text):
        status, code = int(answer[1]), (answer[2] or "").replace("null", "")
        if (code or str(status)) in _OF_OBJECT:
            return None
        return ObjectStorageRefusal(uri, "access", "the object store", status, code)
    if _BROKEN_OFF.search(text):
        return ObjectStorageRefusal(uri, "read", "the object store", 0, "")
    if request := _OF_DELTA_RS.search(text):
        server, path, answered = request.groups()
        number = re.search(r"\b(\d{3}) [A-Z]", answered or "")
        code_in_answer = re.search(r"<Code>\s*(\w+)\s*</Code>", answered or "")
        status, code = int(number[1]) if number else 500 if answered else 0, code_in_answer[1] if code_in_answer else ""
        if (code or str(status)) in _OF_OBJECT:
            return None
        return ObjectStorageRefusal(f"s3:/{path.partition('?')[0]}", "access", server, status, code)
    return None


def _cause(status: int, code: str) -> Cause:
    known = BY_CODE.get(code) or BY_CODE.get(str(status))
    if known is not None:
        return known
    return BY_CODE["500"] if status >= 500 else OTHER_ANSWER


def _answer(
    codes: tuple[str, ...], error: str, meaning: str, kind: type[MachineError], next_step: OutsideAct
) -> tuple[tuple[str, ...], Cause]:
    return codes, Cause((error,), meaning, kind, next_step)


ANSWERS: tuple[tuple[tuple[str, ...], Cause], ...] = (
    _answer(
        ("0",),
        "ETIMEDOUT",
        "the object store does not answer",
        MachineUnavailableError,
        OutsideAct(f"check the network, the server, and AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, {_AGAIN}"),
    ),
    _answer(
        ("SlowDown", "ServiceUnavailable", "TooManyRequests", "RequestLimitExceeded", "429", "503"),
        "EBUSY",
        "the object store asks for fewer requests",
        MachineUnavailableError,
        OutsideAct(f"wait, or run less at the same time, {_AGAIN}"),
    ),
    _answer(
        ("InternalError", "RequestTimeout", "408", "500"),
        "EREMOTEIO",
        "the object store failed",
        MachineUnavailableError,
        OutsideAct(f"look at its state and its log, {_AGAIN}"),
    ),
    _answer(
        ("ConditionalRequestConflict", "OperationAborted", "409"),
        "EBUSY",
        "another writer of the object is at work",
        MachineUnavailableError,
        OutsideAct(f"wait for the other process or end it, {_AGAIN}"),
    ),
    _answer(
        ("ExistingObjectIsDirectory", "ObjectParentIsFile", "XMinioObjectExistsAsDirectory", "XMinioParentIsObject"),
        "EEXIST",
        "the server keeps objects in folders, and there is something else of that name",
        MachineError,
        OutsideAct("move away what does not belong there, then run again"),
    ),
    _answer(
        ("PreconditionFailed", "412"),
        "ESTALE",
        "the object was changed meanwhile",
        MachineUnavailableError,
        OutsideAct("run again"),
    ),
    _answer(
        _EXPIRED,
        "EAGAIN",
        "the credentials have expired",
        MachineUnavailableError,
        OutsideAct(f"renew them where the platform gets them from, {_AGAIN}"),
    ),
    _answer(
        ("400",),
        "EAGAIN",
        "the object store refused it without a reason, as it does where credentials have expired",
        MachineUnavailableError,
        OutsideAct("run again; if it goes on, look at what `tidegate plan` says, and into the log of the server"),
    ),
    _answer(
        ("AccessDenied", "AllAccessDisabled", "AccountProblem", "403"),
        "EACCES",
        "permission is denied",
        MachineError,
        OutsideAct(f"permit the identity of this process {_PERMISSIONS}, then run again"),
    ),
    _answer(
        (
            "InvalidAccessKeyId",
            "SignatureDoesNotMatch",
            "InvalidToken",
            "InvalidClientTokenId",
            "XAdminUserNotFound",
            "401",
        ),
        "EPERM",
        "the object store does not accept the credentials",
        MachineError,
        OutsideAct("correct the credentials of this process (TIDEGATE_S3_CREDENTIALS says where from), then run again"),
    ),
    _answer(
        (NO_CREDENTIALS,),
        "EPERM",
        "Spark gets no credentials",
        MachineError,
        OutsideAct("correct the source that TIDEGATE_S3_CREDENTIALS names where Spark runs, then run again"),
    ),
    _answer(
        (CREDENTIALS_UNAVAILABLE,),
        "EAGAIN",
        "Spark gets no credentials, because their endpoint does not answer",
        MachineUnavailableError,
        OutsideAct(f"check that the endpoint can be reached where Spark runs, {_AGAIN}"),
    ),
    _answer(
        ("RequestTimeTooSkewed",),
        "EINVAL",
        "this machine's clock is wrong",
        MachineError,
        OutsideAct("set the clock, then run again"),
    ),
    _answer(
        ("NoSuchBucket", "InvalidBucketName"),
        "ENODEV",
        "the bucket does not exist",
        MachineError,
        OutsideAct("create the bucket, or correct TIDEGATE_LAKE or TIDEGATE_LANDING, then run again"),
    ),
    _answer(
        ("404",),
        "ENODEV",
        "what answers at this address is no object store, or does not know the bucket",
        MachineError,
        OutsideAct(
            "correct AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, and TIDEGATE_LAKE or TIDEGATE_LANDING, then run again"
        ),
    ),
    _answer(
        ("PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed", "307", "301"),
        "ENXIO",
        "the bucket is in another region",
        MachineError,
        OutsideAct("set AWS_REGION to the region of the bucket, then run again"),
    ),
    _answer(
        (INVALID_NAME,),
        "EILSEQ",
        "an object below has a name with control characters or an empty part",
        MachineError,
        OutsideAct("rename or remove the object, then run again"),
    ),
    _answer(
        ("KeyTooLongError",),
        "ENAMETOOLONG",
        "the name is too long",
        MachineError,
        OutsideAct("shorten the prefix of TIDEGATE_LAKE or TIDEGATE_LANDING, or the file's name, then run again"),
    ),
    _answer(
        ("QuotaExceeded", "XMinioStorageFull", "InsufficientCapacity", "507"),
        "ENOSPC",
        "the object store is full",
        MachineUnavailableError,
        OutsideAct(f"free space there, {_AGAIN}"),
    ),
    _answer(
        ("NotImplemented", "MethodNotAllowed", "501", "405"),
        "ENOSYS",
        "the object store does not offer this",
        MachineError,
        OutsideAct("use a server that offers it, then run again"),
    ),
)
"""Codes and HTTP statuses, with what they mean; ``0`` is no answer. A cause has the system's error that is like it."""
BY_CODE = {code: cause for codes, cause in ANSWERS for code in codes}
OTHER_ANSWER = Cause(
    ("EPROTO",),
    "the object store refused it",
    MachineError,
    OutsideAct("look into its log; if it says nothing, report it"),
)
