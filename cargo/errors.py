"""The errors that the pure rules raise about what they are given. `code` names the case and stays the same when the words change."""


class CargoError(ValueError):
    """A value or a request that the rules of the trade do not allow. A ValueError, so that structs report it with the field that has it."""

    def __init__(self, message: str, *, code: str = "invalid") -> None:
        super().__init__(message)
        self.code = code


class BadEntry(CargoError):
    """A registry value or a snapshot that is not what it should be; `hint` says in one sentence what would be."""

    def __init__(self, message: str, *, hint: str = "", code: str = "unreadable") -> None:
        super().__init__(f"{message} ({hint})" if hint else message, code=code)
        self.hint = hint
