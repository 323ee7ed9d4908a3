"""Logging to stderr, with anything that looks like a secret blanked out."""

from __future__ import annotations

import logging
import os
import re

SECRET_NAMES = re.compile(r"(token|secret|passw|key$|credential|authorization)", re.IGNORECASE)
SECRET_SHAPES = re.compile(
    r"(hf_[A-Za-z0-9]{8,}|gh[pousr]_[A-Za-z0-9]{8,}|(?<=bearer )[^\s\"']+|(?<=://)[^/\s@?#]+(?=@))",
    re.IGNORECASE,
)
# Parameters of signed addresses: X-Amz-Signature, sig, token, api_key and the like.
SIGNED_PARAMETERS = re.compile(
    r"([?&][\w.-]*(?:signature|sig|token|secret|credential|passw(?:or)?d|api_?key)[\w.-]*=)[^&#\s\"'<>]+", re.IGNORECASE
)
BLANK = "[secret]"
MIN_SECRET_LENGTH = 6


def scrub(text: str) -> str:
    """``text`` without tokens, logins and signatures in URLs, and values of secret-looking environment variables."""
    for name, value in os.environ.items():
        if SECRET_NAMES.search(name) and len(value) >= MIN_SECRET_LENGTH:
            text = text.replace(value, BLANK)
    return SIGNED_PARAMETERS.sub(rf"\1{BLANK}", SECRET_SHAPES.sub(BLANK, text))


class ScrubbingFormatter(logging.Formatter):
    """Formats a record, tracebacks included, and scrubs the result."""

    def format(self, record: logging.LogRecord) -> str:
        """The scrubbed line."""
        return scrub(super().format(record))


def set_up_logging(level: int = logging.INFO) -> None:
    """Send all records to stderr as ``time level message``; calling it again changes nothing."""
    root = logging.getLogger("medheb")
    if root.handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(ScrubbingFormatter("%(asctime)s %(levelname).1s %(message)s", "%H:%M:%S"))
    root.addHandler(handler)
    root.setLevel(level)
    root.propagate = False
