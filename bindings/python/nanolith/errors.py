"""What calls raise."""

from __future__ import annotations

from ._native import nl_status_name
from .enums import Status


class NanolithError(Exception):
    """A call of the library failed. `str()` gives its sentence.

    The numbers are None where the error does not have them.
    """

    def __init__(
        self,
        status: Status,
        message: str,
        index: int | None = None,
        needed: int | None = None,
        available: int | None = None,
    ) -> None:
        super().__init__(status, message, index, needed, available)
        self.status = status
        self.message = message
        #: Which element of a list the error is about, from 0.
        self.index = index
        #: How much the call needed: pages, tokens, elements or bytes, by the status.
        self.needed = needed
        #: How much there was of it.
        self.available = available

    def __str__(self) -> str:
        return self.message

    @property
    def status_name(self) -> str:
        """The status as the header writes it, for example "NL_ERROR_OUT_OF_PAGES"."""
        name: bytes = nl_status_name(self.status)
        return name.decode()


class ClosedError(ValueError):
    """The value that was used had been closed before."""
