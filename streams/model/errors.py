"""The few kinds of error every floor raises: each carries a hint that says what the operator can do."""


class LandfallError(Exception):
    """Root of every error this project raises on purpose.

    `hint` is one sentence that says what the operator can do; it is shown next to the message. `code` names the case for programs and
    stays the same when the words change; without one of its own an error has that of its class.
    """

    code = "failed"

    def __init__(self, message: str, *, hint: str = "", code: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        if code:
            self.code = code

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message} ({self.hint})" if self.hint else message


class RetryLater(LandfallError):
    """Nothing is wrong with the request: a full disk, a closed link, a busy peer. The same call may succeed later."""

    code = "retry_later"


class Unclear(RetryLater):
    """Whether it was done shows later, when disk or Kafka can be asked: all of it was, or nothing."""

    code = "unclear"


class Unreadable(RetryLater):
    """The disk does not give what was kept: a bad sector, a lost right, too many files open, the log's folder gone. Nothing says that the
    bytes are damaged.
    """

    code = "unreadable"


class Corrupt(LandfallError):
    """Bytes that do not verify: a damaged frame, a torn block, a hostile message. Never retried as it is."""

    code = "corrupt"


class NotAllowed(LandfallError):
    """The caller may not do this, whatever the data: access, origin or link policy forbids it."""

    code = "not_allowed"


class Misuse(LandfallError):
    """A programming or configuration error: the request can never succeed."""

    code = "misuse"


class Trimmed(LandfallError):
    """A reader's Position lies below the floor of this copy: older records are elsewhere, or nowhere."""

    code = "trimmed"


class InvalidValue(ValueError):
    """A value that its type does not allow. A ValueError, so that settings and structs report it with the field that has it.

    `code` names the case, as that of a LandfallError does.
    """

    def __init__(self, message: str, *, code: str = "invalid") -> None:
        super().__init__(message)
        self.code = code
