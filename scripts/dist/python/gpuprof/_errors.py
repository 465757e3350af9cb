"""The exceptions of the package."""

from __future__ import annotations

from typing import Any, Dict, Optional


class GpuprofError(Exception):
    """A request failed. The text is the program's own sentence.

    message, cause and fix are its parts, "" where one is missing. exit_code is that of the command
    line: 2 the request cannot work, 3 the data cannot tell, 4 the input failed, 130 interrupted.
    """

    def __init__(self, message: str, fix: str = "", cause: str = "", exit_code: int = 2) -> None:
        text = message
        if fix:
            text += "; " + fix
        super().__init__(text)
        self.message, self.fix, self.cause, self.exit_code = message, fix, cause, exit_code

    @classmethod
    def of(cls, document: Dict[str, Any], exit_code: int) -> "GpuprofError":
        """The error of one line that the program wrote with --format json."""
        e = document.get("error") or {}
        code: Optional[int] = e.get("exit_code")
        return cls(str(e.get("message", "")), str(e.get("fix", "")), str(e.get("cause", "")), exit_code if code is None else int(code))


class BinaryNotFound(GpuprofError):
    """No gpuprof program was found, or only another project's."""


class GpuprofWarning(UserWarning):
    """A recording has no analysis. The program that was recorded is not disturbed by it."""
