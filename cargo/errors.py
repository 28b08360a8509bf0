"""The one kind of error the pure rules raise about what they are given."""


class Unreadable(ValueError):
    """A registry value or a snapshot that is not what it should be; `hint` says in one sentence what would be."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(f"{message} ({hint})" if hint else message)
        self.hint = hint
