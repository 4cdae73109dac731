"""Compare two builds of the site: ``python tools/compare_sites.py OLD NEW``.

What is compared is what a reader gets: the text of each page, as HTML and as
Markdown, the verdict of each claim in ``claims.json``, and the files with
their weight. Ends with 1 if texts, claims or names of files differ; a weight
alone changes with each release of a theme.

Meant for every change of the machinery that should leave the pages as they
are, and for upgrades of Sphinx and Furo.
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path

# What says when, or from which bytes, a file was made, and not what it says.
_STAMP = re.compile(r"\?v=[0-9a-f]{8}|(?<=-)[0-9a-f]{32,64}(?=\.)")
_MOST = 12  # lines of each change that are shown
_NO_TEXT = {"script", "style", "template"}
_VOID = {"area", "br", "col", "hr", "img", "input", "link", "meta", "wbr"}
_INLINE = {
    *("a", "abbr", "b", "code", "em", "i", "kbd", "label", "mark", "small"),
    *("span", "strong", "sub", "sup", "time"),
}


class _Text(HTMLParser):
    """The lines that a page shows, and where its links and pictures lead."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = [""]
        self._silent = 0
        self._in_pre = 0

    def handle_starttag(
        self, tag: str, attrs: list[tuple[str, str | None]]
    ) -> None:
        self._silent += tag in _NO_TEXT
        self._in_pre += tag == "pre"
        if tag not in _INLINE and not self._in_pre:
            self.lines.append("")
        values = dict(attrs)
        for name in ("href", "src", "alt", "title", "aria-label"):
            value = values.get(name)
            if value and tag not in _VOID - {"img"}:
                self.lines[-1] += f"⟨{_STAMP.sub('', value)}⟩"

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in _NO_TEXT
        self._in_pre -= tag == "pre"
        if tag not in _INLINE and not self._in_pre:
            self.lines.append("")

    def handle_data(self, data: str) -> None:
        if self._silent:
            return
        if self._in_pre:
            first, *more = data.split("\n")
            self.lines[-1] += first
            self.lines += more
        else:
            self.lines[-1] += re.sub(r"\s+", " ", data)


def text_of(page: Path) -> list[str]:
    """Return the lines of a page that are not empty."""
    text = page.read_text("utf-8")
    if page.suffix == ".html":
        parser = _Text()
        parser.feed(text)
        lines = parser.lines
    else:
        lines = text.splitlines()
    return [line.strip() for line in lines if line.strip()]


def files_of(site: Path) -> dict[str, Path]:
    """Return the files of a site by name, without the hash in some names."""
    return {
        _STAMP.sub("", path.relative_to(site).as_posix()): path
        for path in sorted(site.rglob("*"))
        if path.is_file()
    }


def claims_of(site: Path) -> dict[str, str]:
    """Return the verdict of each claim, by the address of the claim."""
    path = site / "claims.json"
    if not path.exists():
        return {}
    claims = json.loads(path.read_text("utf-8"))["claims"]
    return {
        f"{each['topic']}#{each['id']}": each["verdict"] for each in claims
    }


def differences(
    old: Mapping[str, object], new: Mapping[str, object], kind: str
) -> Iterator[str]:
    """Yield what one of two has, and what has another value in the other."""
    for name in sorted(old.keys() | new.keys()):
        if name not in new:
            yield f"- {kind} {name}"
        elif name not in old:
            yield f"+ {kind} {name}"
        elif old[name] != new[name]:
            yield f"~ {kind} {name}: {old[name]} → {new[name]}"


def same_changes(
    pages: Mapping[str, tuple[Sequence[str], Sequence[str]]],
) -> dict[tuple[str, ...], list[str]]:
    """Return the pages by how they differ: a footer changes on all at once."""
    found = defaultdict(list)
    for name, (old, new) in pages.items():
        lines = difflib.unified_diff(old, new, lineterm="", n=0)
        change = tuple(
            line for line in lines if not line.startswith(("---", "+++", "@@"))
        )
        if change:
            found[change].append(name)
    return found


def compare(old: Path, new: Path) -> bool:
    """Print how two sites differ; return whether they do."""
    before, after = files_of(old), files_of(new)
    said = [
        *differences(dict.fromkeys(before), dict.fromkeys(after), "file"),
        *differences(claims_of(old), claims_of(new), "claim"),
    ]
    pages = {
        name: (text_of(before[name]), text_of(after[name]))
        for name in before.keys() & after.keys()
        if name.endswith((".html", ".md", ".txt"))
    }
    changes = same_changes(pages)
    for change, names in sorted(changes.items(), key=lambda each: each[1]):
        more = f" and {len(names) - 1} more" if names[1:] else ""
        said.append(f"~ text of {min(names)}{more}:")
        said += [f"    {line}" for line in change[:_MOST]]
        if change[_MOST:]:
            said.append(f"    … {len(change) - _MOST} more lines")
    for line in said:
        print(line)
    sizes = [
        sum(path.stat().st_size for path in files.values())
        for files in (before, after)
    ]
    print(
        f"{len(pages)} pages of text compared;",
        f"{len(before)} → {len(after)} files,",
        f"{sizes[0] / 1e6:.1f} → {sizes[1] / 1e6:.1f} MB",
    )
    return bool(said)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path, help="folder of one built site")
    parser.add_argument("new", type=Path, help="folder of the other")
    options = parser.parse_args()
    raise SystemExit(compare(options.old, options.new))
