"""Watch folders for files that are written, replaced or removed, with Linux's inotify.

The kubelet writes a temporary file and renames it, so folders are watched instead of files. `look_again` finds folders
that were missing.

    with FolderWatch([Path("/var/lib/kubelet")]) as watch:
        loop.add_reader(watch.fileno(), lambda: print(watch.changed()))
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Self

_NONBLOCK, _CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC
_CLOSE_WRITE, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x8, 0x40, 0x80, 0x100, 0x200
_ONLY_FOLDERS = 0x0100_0000
_IGNORED = 0x8000  # the folder is gone
_OVERFLOW = 0x4000  # the kernel dropped events
_INTERESTING = _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _ONLY_FOLDERS
_HEAD = struct.Struct("iIII")  # watch, events, cookie, length of the name
_READ_AT_ONCE = 1 << 16
_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EACCES})


class CannotWatch(OSError):
    """The system refuses to watch a folder, for example because of its limits."""


class FolderWatch:
    """Watches folders inside a `with` block."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = tuple(folders)
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._file = -1
        self._watched: dict[int, Path] = {}

    def __enter__(self) -> Self:
        self._file = self._libc.inotify_init1(_NONBLOCK | _CLOEXEC)
        if self._file < 0:
            raise _cannot("inotify")
        try:
            self.look_again()
        except CannotWatch:
            os.close(self._file)
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._file)

    def fileno(self) -> int:
        """A file descriptor that is readable after a change."""
        return self._file

    @property
    def missing(self) -> list[Path]:
        """Folders that do not exist."""
        return [folder for folder in self._folders if folder not in self._watched.values()]

    def look_again(self) -> list[Path]:
        """Watch folders that exist now; returns those."""
        found = []
        for folder in self.missing:
            number = self._libc.inotify_add_watch(self._file, os.fsencode(folder), _INTERESTING)
            if number >= 0:
                self._watched[number] = folder
                found.append(folder)
            elif ctypes.get_errno() not in _NOT_THERE:
                raise _cannot(str(folder))
        return found

    def changed(self) -> set[Path]:
        """Files that changed since the last call, and folders that went."""
        found: set[Path] = set()
        try:
            data = os.read(self._file, _READ_AT_ONCE)
        except BlockingIOError:
            return found
        at = 0
        while at < len(data):
            number, events, _, length = _HEAD.unpack_from(data, at)
            name = os.fsdecode(data[at + _HEAD.size : at + _HEAD.size + length].rstrip(b"\0"))
            at += _HEAD.size + length
            if events & _OVERFLOW:
                found.update(self._watched.values())
            elif events & _IGNORED:
                if number in self._watched:
                    found.add(self._watched.pop(number))
            elif number in self._watched:
                found.add(self._watched[number] / name)
        return found


def _cannot(what: str) -> CannotWatch:
    number = ctypes.get_errno()
    return CannotWatch(number, f"{what} cannot be watched: {os.strerror(number)}")
