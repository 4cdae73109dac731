// The sign of a claim, or its words, open its panel. It stays until its sign,
// its words, its cross, Escape or a click on the text closes it, or another one
// opens. Without this script, a sign is a link to its panel, which shows as a
// target.
let opened = null;
const panelOf = (sign) => document.querySelector(sign.getAttribute("href"));
const wordsOf = (sign) =>
  document.getElementById(sign.id.replace(/^sign-/, ""));
const show = (sign, isOpen) => {
  sign.setAttribute("aria-expanded", String(isOpen));
  for (const each of [sign, panelOf(sign), wordsOf(sign)])
    each.classList.toggle("is-open", isOpen);
};
// Open the panel of a sign, or with null none. What was clicked keeps its
// place, whatever closes above it. The address names the claim whose panel is
// open, so that whoever comes back to the page finds it open.
const change = (sign, clicked) => {
  const before = clicked.getBoundingClientRect().top;
  if (opened) show(opened, false);
  if (sign) show(sign, true);
  opened = sign;
  const place = sign ? `#${wordsOf(sign).id}` : "";
  const address = location.pathname + location.search + place;
  history.replaceState(history.state, "", address);
  const moved = clicked.getBoundingClientRect().top - before;
  scrollBy({ top: moved, behavior: "instant" });
};
// Of a panel that would open out of sight, such as below a long paragraph, the
// head sticks out at the lower edge.
const HEAD = 96;
const toggle = (sign, byKey) => {
  if (sign === opened) return change(null, sign);
  change(sign, sign);
  const panel = panelOf(sign);
  const room = innerHeight - sign.getBoundingClientRect().bottom;
  panel.style.bottom = `${Math.min(HEAD, room) - panel.offsetHeight}px`;
  if (byKey) panel.focus({ preventScroll: true });
};
const close = () => {
  const sign = opened;
  change(null, sign);
  sign.focus({ preventScroll: true });
};
for (const sign of document.querySelectorAll("a.claim-sign")) {
  sign.setAttribute("role", "button");
  sign.setAttribute("aria-expanded", "false");
  sign.addEventListener("click", (event) => {
    event.preventDefault();
    event.stopPropagation(); // in a recipe, the sign stands in the words
    toggle(sign, event.detail === 0);
  });
  wordsOf(sign).addEventListener("click", ({ target }) => {
    const isLink = target.closest("a") !== null;
    if (!isLink && getSelection().isCollapsed) toggle(sign, false);
  });
  const cross = panelOf(sign).querySelector(".claim-close");
  cross.addEventListener("click", (event) => {
    event.preventDefault();
    close();
  });
}
document.addEventListener("keydown", (event) => {
  const { key, target } = event;
  if (key === "Escape" && opened) close();
  if (key !== " " || !target.matches("a.claim-sign")) return;
  event.preventDefault();
  target.click(); // a button answers the space bar as well
});
const USED = ".claim, .claim-panel, a, button, input, label, summary";
document.addEventListener("click", ({ target }) => {
  const isUsed = target.closest(USED) !== null;
  if (opened && !isUsed && getSelection().isCollapsed) change(null, target);
});
// Who follows the address of a claim, or of its panel, sees the words and the
// panel.
const openTarget = () => {
  const name = location.hash.slice(1).replace(/^proof-/, "");
  const sign = document.getElementById(`sign-${name}`);
  if (sign === null) return;
  if (location.hash !== `#${name}`) location.replace(`#${name}`);
  else if (sign !== opened) change(sign, sign);
};
addEventListener("hashchange", openTarget);
openTarget();
