"""Errors that the pure rules raise for wrong input. `code` identifies the case and stays the same when the text changes."""


class CargoError(ValueError):
    """A value or a request that the rules of the trade do not allow.

    It is a ValueError, so that structs report it with the field that has it."""

    def __init__(self, message: str, *, code: str = "invalid") -> None:
        super().__init__(message)
        self.code = code


class BadEntry(CargoError):
    """A wrong registry value or snapshot; `hint` gives the right form in one sentence."""

    def __init__(self, message: str, *, hint: str = "", code: str = "unreadable") -> None:
        super().__init__(f"{message} ({hint})" if hint else message, code=code)
        self.hint = hint
