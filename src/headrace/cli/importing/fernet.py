"""Values that were stored encrypted: `ENC::FERNET::` and a token. They are read with the key that they were written
with, where the `cryptography` package is installed; else the import is refused, because what would be stored would be
cipher text that nobody can read."""

from __future__ import annotations

from collections.abc import Callable

from headrace.cli.exits import Refusal

MARK = "ENC::FERNET::"

Open = Callable[[str], str]
"""The text of a token; ValueError when the key is not the one that it was written with."""


def opener(key: str | None) -> Open:
    if key is None:
        return _refuse
    try:
        from cryptography.fernet import Fernet, InvalidToken
    except ImportError:
        raise Refusal(
            "the values are to be decrypted, and the package `cryptography` is not installed",
            "pip install cryptography",
        ) from None
    try:
        fernet = Fernet(key.encode())
    except ValueError as error:
        raise Refusal("the key is no Fernet key: 32 bytes in URL-safe base64", "name the right --key-file") from error

    def opened(token: str) -> str:
        try:
            return str(fernet.decrypt(token.encode()).decode())
        except InvalidToken:
            raise ValueError("it was encrypted with another key") from None

    return opened


def _refuse(_: str) -> str:
    raise Refusal(
        "values are stored encrypted (ENC::FERNET::), and without their key they cannot be read",
        "--key-file FILE names a file with the key that was in PUBSUB_STORAGE_KEY",
    )
