"""Looks at SVG as a strict renderer would: which text is written in which colour on which background.

Nothing but plain shapes with presentation attributes is accepted, so that a picture looks the same in a browser, in
librsvg and in an editor.
"""

from __future__ import annotations

import re
import struct
import subprocess
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

SVG = "{http://www.w3.org/2000/svg}"
SHAPES = {"svg", "g", "title", "rect", "line", "path", "text"}
COLOUR = re.compile(r"#[0-9a-f]{6}")
COLOURLESS = re.compile(r"style|class|transform|opacity|filter|mask|clip")
INHERITED = ("fill", "font-size")


@dataclass(frozen=True)
class Written:
    """One text of a picture: its size, its colour and the colour below it."""

    text: str
    size: float
    ink: str
    paper: str

    @property
    def contrast(self) -> float:
        return contrast(self.ink, self.paper)


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4 for each in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """1 for equal colours, 21 for black on white."""
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def lightness(colour: str) -> float:
    """L* of CIELAB: 0 for black, 100 for white. This is all that a greyscale print keeps."""
    value = luminance(colour)
    return 116 * value ** (1 / 3) - 16 if value > 0.008856 else 903.3 * value


def written_in(picture: str) -> list[Written]:
    """Every text of a picture. Fails on anything that a strict renderer may draw differently."""
    root = ET.fromstring(picture)
    found: list[Written] = []
    areas: list[tuple[float, float, float, float, str]] = []

    def draw(element: ET.Element, inherited: dict[str, str]) -> None:
        name = element.tag.removeprefix(SVG)
        assert name in SHAPES, f"<{name}> is more than a strict renderer needs to know"
        odd = [attribute for attribute in element.attrib if COLOURLESS.search(attribute)]
        assert not odd, f"<{name}> has {odd}"
        for attribute in ("fill", "stroke"):
            value = element.get(attribute, "none")
            assert value == "none" or COLOUR.fullmatch(value), f'<{name} {attribute}="{value}"> is no plain colour'
        settings = inherited | {each: element.attrib[each] for each in INHERITED if each in element.attrib}
        if name == "rect" and settings["fill"] != "none":
            x, y, width, height = (float(element.get(each, "0")) for each in ("x", "y", "width", "height"))
            areas.append((x, y, x + width, y + height, settings["fill"]))
        if name == "text" and element.text:
            x, y = float(element.get("x", "0")), float(element.get("y", "0"))
            size = float(settings["font-size"])
            inside = {"end": -1.0, "middle": 0.0}.get(element.get("text-anchor", ""), 1.0)
            paper = _below(areas, x + inside, y - size / 3)
            found.append(Written(element.text, size, settings["fill"], paper))
        for child in element:
            draw(child, settings)

    draw(root, {})
    return found


def _below(areas: list[tuple[float, float, float, float, str]], x: float, y: float) -> str:
    """The colour that was painted last at a point."""
    return next(area[4] for area in reversed(areas) if area[0] <= x <= area[2] and area[1] <= y <= area[3])


def rendered(picture: str, folder: Path) -> Counter[str]:
    """How many pixels have which colour when librsvg draws a picture at half its size."""
    source, target = folder / "picture.svg", folder / "picture.png"
    source.write_text(picture)
    subprocess.run(["rsvg-convert", "--zoom", "0.5", source, "-o", target], check=True)
    return _pixels(target.read_bytes())


def _pixels(png: bytes) -> Counter[str]:
    """The colours of a PNG of 8-bit RGBA or RGB, by number of pixels; what is transparent is left out."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    chunks: dict[bytes, bytes] = {}
    at = 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        kind = png[at + 4 : at + 8]
        chunks[kind] = chunks.get(kind, b"") + png[at + 8 : at + 8 + length]
        at += 12 + length
    width, height, depth, colours = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert depth == 8
    size = {2: 3, 6: 4}[colours]
    raw = zlib.decompress(chunks[b"IDAT"])
    found: Counter[str] = Counter()
    above = bytearray(width * size)
    for row in range(height):
        start = row * (width * size + 1)
        line = _unfiltered(raw[start], bytearray(raw[start + 1 : start + 1 + width * size]), above, size)
        for pixel in range(0, len(line), size):
            if size == len("rgb") or line[pixel + 3] == 255:
                found[f"#{line[pixel : pixel + 3].hex()}"] += 1
        above = line
    return found


def _unfiltered(method: int, line: bytearray, above: bytearray, size: int) -> bytearray:
    """Undo one of PNG's five line filters."""
    for at in range(len(line)):
        left = line[at - size] if at >= size else 0
        corner = above[at - size] if at >= size else 0
        up = above[at]
        predicted = (0, left, up, (left + up) // 2, _paeth(left, up, corner))[method]
        line[at] = (line[at] + predicted) & 0xFF
    return line


def _paeth(left: int, up: int, corner: int) -> int:
    estimate = left + up - corner
    return min((left, up, corner), key=lambda each: abs(estimate - each))
