"""A file store that refuses old fencing tokens, without a lock of its own.

A value is a file named after the token that it was written under, and the file with the highest token
is the value. So a write under an older token changes nothing, however late it comes.
"""

import contextlib
import os
import tempfile


class OldToken(Exception):
    """The store has seen a higher token than that of this write."""


class FencedStore:
    def __init__(self, folder):
        self._folder = folder
        os.makedirs(folder, exist_ok=True)

    def read(self):
        """(token, text) of the newest value; (0, "") of an empty store."""
        while True:
            token = self._newest()
            if token == 0:
                return 0, ""
            try:
                with open(self._path(token), encoding="utf-8") as file:
                    return token, file.read()
            except FileNotFoundError:
                continue  # a newer one came, and this one was tidied away

    def write(self, token, text):
        """Durable when it returns. Raises OldToken and changes nothing if the token is too old."""
        if self._newest() > token:
            raise OldToken(f"token {token}, the store has seen {self._newest()}")
        with tempfile.NamedTemporaryFile("w", dir=self._folder, prefix="new-", delete=False,
                                         encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.rename(file.name, self._path(token))
        folder = os.open(self._folder, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        newest = self._newest()
        for old in self._tokens():
            if old < newest:
                with contextlib.suppress(FileNotFoundError):  # somebody else tidies up as well
                    os.unlink(self._path(old))
        if newest > token:
            raise OldToken(f"token {token}, the store has seen {newest}")

    def _newest(self):
        return max(self._tokens(), default=0)

    def _tokens(self):
        return [int(name) for name in os.listdir(self._folder) if name.isdigit()]

    def _path(self, token):
        return os.path.join(self._folder, f"{token:016d}")
