"""The few kinds of error that every package raises. Each error carries a hint for the operator."""


class LandfallError(Exception):
    """Root of every error that this project raises on purpose.

    `hint` is one sentence about what the operator can do; it is shown next to the message. `code` names the case for programs and stays the
    same when the message changes. An error without a code of its own has the code of its class.
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
    """A valid request that can not succeed now: a full disk, a closed link, a busy peer. The same call may succeed later."""

    code = "retry_later"


class Unclear(RetryLater):
    """An operation with an unknown outcome until the disk or Kafka can be asked: either all of it was done, or nothing."""

    code = "unclear"


class Unreadable(RetryLater):
    """Stored data that the disk does not return: a bad sector, a lost right, too many open files, the log's folder gone. The bytes are not
    known to be damaged."""

    code = "unreadable"


class Corrupt(LandfallError):
    """Bytes that do not verify: a damaged frame, a torn block, a hostile message. The same bytes are never tried again."""

    code = "corrupt"


class NotAllowed(LandfallError):
    """An action that this caller may not do, whatever the data: an access, origin or link policy forbids it."""

    code = "not_allowed"


class Misuse(LandfallError):
    """A programming or configuration error: the request can never succeed."""

    code = "misuse"


class Trimmed(LandfallError):
    """A reader's Position below the floor of this copy. Older records are in another copy, or nowhere."""

    code = "trimmed"


class InvalidValue(ValueError):
    """A value that its type does not allow. It is a ValueError, so that settings and structs report it with the name of its field.

    `code` names the case, like the `code` of a LandfallError.
    """

    def __init__(self, message: str, *, code: str = "invalid") -> None:
        super().__init__(message)
        self.code = code
