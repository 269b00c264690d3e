"""The colours of every picture and page, light and dark.

Scales differ in lightness from step to step, so they survive greyscale printing and colour blindness. Every pair of ink
and background has a contrast of at least 4.5:1 (WCAG AA); `tests/unit/cli/test_pictures.py` measures both. SVG files
use plain colours, because not every renderer supports CSS variables. A page, which follows the reader's light or dark
mode, uses `PAGE`: variables with the light colour as fallback.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

DARK_INK, LIGHT_INK = "#0b1016", "#ffffff"


class Shade(NamedTuple):
    """The colour of an area, and a readable ink on it."""

    fill: str
    ink: str


@dataclass(frozen=True)
class Theme:
    """Named colours, as one flat palette: wide because every picture picks its colours by name.

    `desk` is the background of a page, `paper` of its cards, and `panel` of parts on the paper. Of a tone such as
    `good`, the plain colour is for lines and bars, `_soft` for areas and `_ink` for text. `free` shades free amounts:
    nothing, less than half, at least half, all. `use` shades used amounts in quarters. `parties` are the parts of a
    gang, with enough contrast to write in them, and on them in the colour of the paper.
    """

    ink: str
    dim: str
    line: str
    frame: str
    desk: str
    paper: str
    panel: str
    track: str
    good: str
    good_soft: str
    good_ink: str
    middling: str
    middling_ink: str
    bad: str
    bad_soft: str
    bad_ink: str
    new: str
    new_soft: str
    free: tuple[Shade, ...]
    use: tuple[Shade, ...]
    parties: tuple[str, ...]


LIGHT = Theme(
    ink="#1d2433",
    dim="#566074",
    line="#d9dee8",
    frame="#8e99ad",
    desk="#f3f5f9",
    paper="#ffffff",
    panel="#f3f5f9",
    track="#e2e7f0",
    good="#1f8a5f",
    good_soft="#d9f0e5",
    good_ink="#1c7a52",
    middling="#a9760a",
    middling_ink="#8a6100",
    bad="#c4473a",
    bad_soft="#f8deda",
    bad_ink="#b23a2e",
    new="#0b5cad",
    new_soft="#e3eefa",
    free=(
        Shade("#fdeee4", DARK_INK),
        Shade("#aedbc7", DARK_INK),
        Shade("#5cae8e", DARK_INK),
        Shade("#0b6b4e", LIGHT_INK),
    ),
    use=(
        Shade("#eef1f6", DARK_INK),
        Shade("#bdd5f0", DARK_INK),
        Shade("#85b0e2", DARK_INK),
        Shade("#4a86c7", DARK_INK),
        Shade("#1f4f8a", LIGHT_INK),
    ),
    parties=("#0b5cad", "#6b3fa0", "#a3246e", "#0f6b78", "#3b4252", "#6d4c2f"),
)

DARK = Theme(
    ink="#e6e9ef",
    dim="#a3adbe",
    line="#333c4c",
    frame="#6b768a",
    desk="#0e1218",
    paper="#161c26",
    panel="#1e2531",
    track="#333c4c",
    good="#3fb883",
    good_soft="#1b3a2e",
    good_ink="#5fcf9d",
    middling="#d9a93a",
    middling_ink="#e5bd5c",
    bad="#e0675a",
    bad_soft="#43221f",
    bad_ink="#f08a7e",
    new="#7db8f5",
    new_soft="#12304f",
    free=(
        Shade("#38261f", LIGHT_INK),
        Shade("#1f5240", LIGHT_INK),
        Shade("#35936d", DARK_INK),
        Shade("#86e6bb", DARK_INK),
    ),
    use=(
        Shade("#232c39", LIGHT_INK),
        Shade("#24486d", LIGHT_INK),
        Shade("#366a9e", LIGHT_INK),
        Shade("#74a9e0", DARK_INK),
        Shade("#c3dfff", DARK_INK),
    ),
    parties=("#8cc4fa", "#cdb0f5", "#f59ccb", "#74d6e6", "#c9d1e0", "#dfbd99"),
)

THEMES = {"light": LIGHT, "dark": DARK}


def _named(theme: Theme) -> Iterator[tuple[str, str]]:
    """Every colour of a theme by the name of its CSS variable."""
    for field in fields(theme):
        value, name = getattr(theme, field.name), f"--{field.name.replace('_', '-')}"
        if isinstance(value, str):
            yield name, value
        for number, each in enumerate(value if isinstance(value, tuple) else ()):
            yield f"{name}-{number}", each.fill if isinstance(each, Shade) else each
            if isinstance(each, Shade):
                yield f"{name}-{number}-ink", each.ink


def css_variables(theme: Theme) -> str:
    """`--ink:#1d2433;--dim:...`: the theme as declarations of a style sheet."""
    return ";".join(f"{name}:{colour}" for name, colour in _named(theme))


def _as_variables(theme: Theme) -> Theme:
    """The same theme with each colour replaced by its variable, which falls back to the colour."""
    names = iter([f"var({name},{colour})" for name, colour in _named(theme)])

    def variable(value: str | Shade | tuple[str | Shade, ...]) -> Any:
        if isinstance(value, str):
            return next(names)
        if isinstance(value, Shade):
            return Shade(next(names), next(names))
        return tuple(variable(each) for each in value)

    return Theme(**{field.name: variable(getattr(theme, field.name)) for field in fields(theme)})


PAGE = _as_variables(LIGHT)
