"""ClickHouse's errors, and the HTTP status that its server gives them."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Final, Self

_STATUS: Final = {
    **dict.fromkeys(
        # what the client wrote cannot be parsed or does not fit
        (6, 8, 15, 25, 26, 27, 36, 37, 38, 41, 44, 53, 62, 72, 117, 123, 167, 168, 223, 321, 376, 427, 441, 675, 676),
        HTTPStatus.BAD_REQUEST,
    ),
    **dict.fromkeys((46, 47, 50, 56, 60, 63, 73, 78, 81, 115, 152, 336, 511), HTTPStatus.NOT_FOUND),
    **dict.fromkeys((192, 193, 497, 512, 516), HTTPStatus.FORBIDDEN),
    194: HTTPStatus.UNAUTHORIZED,
    48: HTTPStatus.NOT_IMPLEMENTED,
    159: HTTPStatus.REQUEST_TIMEOUT,
    **dict.fromkeys((76, 209, 439), HTTPStatus.SERVICE_UNAVAILABLE),
    229: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    381: HTTPStatus.LENGTH_REQUIRED,
    779: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
}
_CODE: Final = re.compile(r"Code: (\d+)\. ")


class ClickHouseError(Exception):
    """An error with a code of ClickHouse and the text that clients see."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text

    @classmethod
    def of(cls, code: int, name: str, message: str) -> Self:
        """Return one that this server raises itself, in the engine's wording."""
        return cls(code, f"Code: {code}. DB::Exception: {message} ({name})")

    @classmethod
    def from_engine(cls, error: Exception) -> Self:
        text = str(error)
        found = _CODE.search(text)
        return cls(int(found[1]), text[found.start() :]) if found else cls(1002, f"Code: 1002. DB::Exception: {text}")

    @property
    def status(self) -> HTTPStatus:
        return _STATUS.get(self.code, HTTPStatus.INTERNAL_SERVER_ERROR)
