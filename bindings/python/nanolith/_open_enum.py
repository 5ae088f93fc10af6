"""Enums that take values which a newer library may know."""

from __future__ import annotations

import enum


class OpenEnum(enum.IntEnum):
    """An IntEnum that makes a member of any integer, so that no value of a newer library is an error here."""

    @classmethod
    def _missing_(cls, value: object) -> OpenEnum | None:
        if not isinstance(value, int):
            return None
        member = int.__new__(cls, value)
        member._name_ = f"UNKNOWN_{value}"
        member._value_ = value
        return member


class OpenFlag(enum.IntFlag):
    """Flags; those that are not known keep their bits."""
