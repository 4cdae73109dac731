"""Tables that a program made as HTML, as Markdown."""

from __future__ import annotations

from html.parser import HTMLParser


class _Rows(HTMLParser):
    """Collects the words of each cell of a table."""

    def __init__(self) -> None:
        """Begin without a row."""
        super().__init__()
        self.rows: list[list[str]] = []
        self.is_inside = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        """Begin a row, or a cell."""
        if tag == "tr":
            self.rows.append([])
        elif tag in {"th", "td"}:
            self.rows[-1].append("")
            self.is_inside = True

    def handle_endtag(self, tag: str) -> None:
        """End a cell."""
        if tag in {"th", "td"}:
            self.is_inside = False

    def handle_data(self, data: str) -> None:
        """Keep what stands in a cell."""
        if self.is_inside:
            self.rows[-1][-1] += data


def table_in(html: str) -> str:
    """Return the table of some HTML as Markdown; "" if there is none."""
    found = _Rows()
    found.feed(html)
    rows = [row for row in found.rows if row]
    if not rows:
        return ""
    width = max(map(len, rows))
    lines = [
        [cell.strip().replace("|", "\\|") for cell in row]
        + [""] * (width - len(row))
        for row in rows
    ]
    lines.insert(1, ["---"] * width)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
