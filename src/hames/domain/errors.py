"""Every error a client may see.

* HarnessError
  · InvalidCommand     the request was understood and makes no sense
    - UnknownMethod    nobody offers that
    - UnknownModel
  · NotFound
    - ThreadNotFound
    - TurnNotFound     no such turn, or none is running
    - ApprovalNotFound
  · NotPermitted       the role of the token does not allow it
  · TurnBusy           the thread already runs a turn
  · QueueFull          too many prompts wait
  · ThreadInUse        another process writes this thread, and cannot be asked to do it
  · ThreadReadOnly     the thread can be read and not written: its disk failed, or a newer version wrote it
  · StorageFailed      the log could not be written
    - Fenced           another node has taken over the thread; nothing more is written here
    - StoreUnreachable the database does not answer
  · Stopping           this process is stopping, and begins nothing more
  · StepLimitReached   the loop ran out of steps
  · BudgetReached      a budget is used up, and nobody allowed more
  · ReplyCutOff        the model's replies were cut off at their limit, again and again
  · EmptyReply         the model said nothing, again and again
  · RepeatedFailure    the model made the same failing call again and again
  · AnswerMismatch     the final answer does not match the output schema
  · ProviderError      the model service failed; `retryable` says whether to try again
  · SandboxUnavailable no sandbox on this machine, and none was waived
  · Misconfigured      a setting, a key or a program is missing or wrong; the sentence says what to do

Anything else that escapes is a bug, and is reported as one. Numbers are not part of an error:
the same number means different things in different protocols, so each keeps a table.
"""

from typing import Literal

ErrorInfo = Literal[
    "ContextWindowExceeded",
    "UsageLimitExceeded",
    "ServerOverloaded",
    "HttpConnectionFailed",
    "ResponseStreamDisconnected",
    "ResponseTooManyFailedAttempts",
    "Unauthorized",
    "BadRequest",
    "ModelNotFound",
    "Refusal",
    "SandboxError",
    "StepLimitReached",
    "BudgetReached",
    "ReplyCutOff",
    "EmptyReply",
    "RepeatedFailure",
    "InternalServerError",
    "Other",
]


class HarnessError(Exception):
    """A thing a client must be told, in one sentence."""

    info: ErrorInfo = "Other"


class InvalidCommand(HarnessError):
    info = "BadRequest"


class UnknownMethod(InvalidCommand):
    pass


class UnknownModel(InvalidCommand):
    info = "ModelNotFound"


class NotFound(HarnessError):
    pass


class ThreadNotFound(NotFound):
    pass


class TurnNotFound(NotFound):
    pass


class ApprovalNotFound(NotFound):
    pass


class NotPermitted(HarnessError):
    info = "Unauthorized"


class TurnBusy(HarnessError):
    pass


class QueueFull(HarnessError):
    pass


class ThreadInUse(HarnessError):
    pass


class ThreadReadOnly(HarnessError):
    pass


class StorageFailed(HarnessError):
    info = "InternalServerError"
    retryable = False
    """Whether the same write may succeed later: the disk is full or read-only, and not broken."""


class Stopping(HarnessError):
    """This process is stopping, and begins nothing more. Another one may."""


class StoreUnreachable(StorageFailed):
    """The database does not answer. The same may work when it is back."""


class Fenced(StorageFailed):
    """Another node writes the thread by now: nothing that this one sends counts any more."""

    seen = 0
    """The last record that was told here before."""


class StepLimitReached(HarnessError):
    info = "StepLimitReached"


class BudgetReached(HarnessError):
    info = "BudgetReached"


class ReplyCutOff(HarnessError):
    info = "ReplyCutOff"


class EmptyReply(HarnessError):
    info = "EmptyReply"


class RepeatedFailure(HarnessError):
    info = "RepeatedFailure"


class AnswerMismatch(HarnessError):
    pass


class SandboxUnavailable(HarnessError):
    info = "SandboxError"


class Misconfigured(HarnessError):
    pass


class ProviderError(HarnessError):
    """The model service failed.

    `retryable`: the same request may succeed later. `retry_after_s`: when the service said so.
    """

    def __init__(
        self,
        message: str,
        *,
        retryable: bool = False,
        status: int | None = None,
        info: ErrorInfo = "Other",
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.status = status
        self.info = info
        self.retry_after_s = retry_after_s
