"""A JSON Feed in the Atom format, which most feed readers know."""

from __future__ import annotations

import uuid
from typing import Any
from urllib.parse import urljoin
from xml.etree import ElementTree

_ATOM = "http://www.w3.org/2005/Atom"  # the name of the format, not an address
_NO_DAY = "1970-01-01T00:00:00Z"  # of a feed without items


def as_atom(feed: dict[str, Any], author: str, name: str) -> str:
    """Return a JSON Feed as an Atom feed, in a file of some name beside it."""
    root = ElementTree.Element("feed", xmlns=_ATOM)
    items = feed["items"]
    updated = _updated(items[0]) if items else _NO_DAY
    _add(root, id=_id(feed["title"]), title=feed["title"], updated=updated)
    _add(ElementTree.SubElement(root, "author"), name=author)
    if "feed_url" in feed:
        address = urljoin(feed["feed_url"], name)
        ElementTree.SubElement(root, "link", href=feed["home_page_url"])
        ElementTree.SubElement(root, "link", rel="self", href=address)
    for item in items:
        entry = ElementTree.SubElement(root, "entry")
        _add(
            entry,
            id=_id(item["id"]),
            title=item["title"],
            updated=_updated(item),
            content=item["content_text"],
        )
        if "url" in item:
            ElementTree.SubElement(entry, "link", href=item["url"])
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _add(parent: ElementTree.Element, **texts: str) -> None:
    for name, text in texts.items():
        ElementTree.SubElement(parent, name).text = text


def _id(words: str) -> str:
    """Return an identity that stays: Atom wants an address for it."""
    return uuid.uuid5(uuid.NAMESPACE_URL, words).urn


def _updated(item: dict[str, Any]) -> str:
    return str(item.get("date_published", item.get("date_modified")))
