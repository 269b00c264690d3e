"""Hears about files that are written, replaced or removed in some folders: Linux's inotify, without a library.

The kubelet writes a temporary file and renames it, so a folder has to be watched and not the file. A folder that does not exist, or no longer
(a kubelet that was installed anew), is looked for again by `look_again`; its coming counts as news of the folder itself.

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
_IGNORED = 0x8000  # the folder is gone and with it the watch
_OVERFLOW = 0x4000  # so much happened that some of it was not kept
_INTERESTING = _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _ONLY_FOLDERS
_HEAD = struct.Struct("iIII")  # watch, what happened, cookie, length of the name
_READ_AT_ONCE = 1 << 16
_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EACCES})


class CannotWatch(OSError):
    """The system does not let us watch folders, for example because too many programs do."""


class FolderWatch:
    """Watches folders from `with` to its end."""

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
        """Readable when there is news."""
        return self._file

    @property
    def missing(self) -> list[Path]:
        """Folders that are not there."""
        return [folder for folder in self._folders if folder not in self._watched.values()]

    def look_again(self) -> list[Path]:
        """Watch folders that were not there and are now; gives those."""
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
        """Files that were written, came or went since the last call, and folders that went."""
        found: set[Path] = set()
        try:
            data = os.read(self._file, _READ_AT_ONCE)
        except BlockingIOError:
            return found
        at = 0
        while at < len(data):
            number, happened, _, length = _HEAD.unpack_from(data, at)
            name = os.fsdecode(data[at + _HEAD.size : at + _HEAD.size + length].rstrip(b"\0"))
            at += _HEAD.size + length
            if happened & _OVERFLOW:
                found.update(self._watched.values())
            elif happened & _IGNORED:
                if number in self._watched:
                    found.add(self._watched.pop(number))
            elif number in self._watched:
                found.add(self._watched[number] / name)
        return found


def _cannot(what: str) -> CannotWatch:
    number = ctypes.get_errno()
    return CannotWatch(number, f"{what} cannot be watched: {os.strerror(number)}")
