"""What axe says of a page, by the rules of WCAG 2.2 AA and its own practice.

Most of axe's time goes into the contrast of each bit of code. Bits of one
colour on one ground have one contrast, so it is asked of one of each.
"""

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

RULES = [
    "wcag2a",
    "wcag2aa",
    "wcag21a",
    "wcag21aa",
    "wcag22aa",
    "best-practice",
]
CONTRAST = "color-contrast"
# One of each: what holds text, by all that its contrast depends on.
MARK_ONE_OF_EACH = """() => {
  const grounds = new Map();
  const ground = (node) => {
    if (node === null) return "";
    if (!grounds.has(node)) {
      const { backgroundColor, backgroundImage, opacity } =
        getComputedStyle(node);
      const own = `${backgroundColor} ${backgroundImage} ${opacity} `;
      const isPaper = /^rgb\\(/.test(backgroundColor) && opacity === "1";
      const paper = isPaper ? own : own + ground(node.parentElement);
      grounds.set(node, paper);
    }
    return grounds.get(node);
  };
  const seen = new Set();
  for (const node of document.querySelectorAll("body *")) {
    delete node.dataset.asked;
    const said = [...node.childNodes].some(
      (child) => child.nodeType === Node.TEXT_NODE && child.data.trim(),
    );
    if (!said && !node.matches("input, select, textarea")) continue;
    if (!node.checkVisibility()) continue;
    const { color, fontSize, fontWeight } = getComputedStyle(node);
    const kind = [color, fontSize, fontWeight, ground(node)].join();
    if (!seen.has(kind)) node.dataset.asked = "";
    seen.add(kind);
  }
  axe.configure({
    rules: [{ id: "color-contrast", selector: "[data-asked]" }],
  });
}"""

# Axe believes the height that stands for what is not laid out yet.
LAY_OUT_ALL = """
document.querySelectorAll(".ledger-topic").forEach(
  (topic) => { topic.style.contentVisibility = "visible"; }
)"""

axe = Axe()


def violations(page: Page, *rules: str) -> list[str]:
    """Return what breaks some rules of axe, or any rule, on a page."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe.axe_script)
        page.evaluate(LAY_OUT_ALL)
    page.evaluate(MARK_ONE_OF_EACH)
    only: Any = {"type": "rule", "values": rules} if rules else RULES
    found = page.evaluate(
        "options => axe.run(document, options)",
        {
            "runOnly": only,
            "resultTypes": ["violations"],
            "preload": False,
            "selectors": False,
        },
    )
    return [
        f"{each['id']}: {node['html'][:120]} {node['failureSummary']}"
        for each in found["violations"]
        for node in each["nodes"]
    ]
