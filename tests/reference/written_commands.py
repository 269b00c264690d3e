"""The commands that documents tell readers to type, and what the documents say that they print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (*sorted((ROOT / "docs").glob("*.md")), *(ROOT / name for name in ("README.md", "deploy/README.md")))
_PROGRAM = r"(?:\.venv/bin/)?(?:bayplan [a-z]|kubectl |make |helm |python -m |pip |curl |kustomize |kind |minikube )"
_COMMAND = re.compile(rf"(?=(?:\.venv/bin/)?{_PROGRAM})(.*)")
_PROMPT = "$ "
# A block in one of these languages is no dialogue with a shell.
_OTHER_LANGUAGES = {"yaml", "json", "python", "ini", "toml"}


@dataclass(frozen=True, slots=True)
class Written:
    """A command, where it stands, and the lines that follow it behind a prompt."""

    page: str
    line: int
    command: str
    output: str = ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line} {self.command}"


def written_commands() -> list[Written]:
    """All of them, in the order of pages and lines. Comments behind a command are left out."""
    return [each for page in PAGES for each in _of_page(page)]


def _of_page(page: Path) -> Iterator[Written]:
    name = str(page.relative_to(ROOT))
    for first, language, lines in _blocks(page.read_text()):
        if language in _OTHER_LANGUAGES:
            continue
        has_prompts = any(line.startswith(_PROMPT) for line in lines)
        for offset, line in enumerate(lines):
            text = line.removeprefix(_PROMPT) if has_prompts else line
            if (has_prompts and not line.startswith(_PROMPT)) or not _COMMAND.match(text) or "[OPTIONS]" in text:
                continue
            output = []
            for following in lines[offset + 1 :] if has_prompts else ():
                if following.startswith(_PROMPT):
                    break
                output.append(following)
            yield Written(name, first + offset, _without_comment(text), "\n".join(output).strip("\n"))


def _without_comment(text: str) -> str:
    return re.sub(r"\s+#\s.*$", "", text).removeprefix(".venv/bin/").strip()


def _blocks(text: str) -> Iterator[tuple[int, str, list[str]]]:
    """Fenced and indented blocks: number of the first line, language, lines without their indent.

    Continued lines are joined to the first one; empty ones in their place keep the numbers right.
    """
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    number = 0
    while number < len(lines):
        fence = re.match(r"\s*```(\w*)", lines[number])
        begin = number
        if fence:
            end = next((at for at in range(number + 1, len(lines)) if lines[at].lstrip().startswith("```")), len(lines))
            yield (
                begin + 2,
                fence[1],
                [line.strip() if not line.startswith(" ") else line for line in lines[begin + 1 : end]],
            )
            number = end + 1
        elif lines[number].startswith("    ") and (not number or not lines[number - 1].strip()):
            while number < len(lines) and (lines[number].startswith("    ") or not lines[number].strip()):
                number += 1
            yield begin + 1, "", [line.strip() for line in lines[begin:number]]
        else:
            number += 1
