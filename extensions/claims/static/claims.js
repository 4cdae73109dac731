// The sign of a claim, or its words, open its panel, by mouse, tap and key. It
// stays until its sign, its cross, Escape or a click on the text closes it, or
// another one opens.
// Without this script, a sign is a link to its panel, which shows as a target.
let opened = null;
const panelOf = (sign) => document.querySelector(sign.getAttribute("href"));
const wordsOf = (panel) =>
  document.getElementById(panel.id.replace(/^proof-/, ""));
const addressOf = (sign) => `#${wordsOf(panelOf(sign)).id}`;
const show = (sign, isOpen) => {
  const panel = panelOf(sign);
  sign.classList.toggle("is-open", isOpen);
  sign.setAttribute("aria-expanded", String(isOpen));
  panel.classList.toggle("is-open", isOpen);
  wordsOf(panel).classList.toggle("is-shown", isOpen);
};
const close = () => {
  if (opened === null) return;
  show(opened, false);
  if (location.hash === addressOf(opened)) remember("");
  opened = null;
};
// A panel that closes above must not move what was clicked.
const inPlace = (sign, change) => {
  const before = sign.getBoundingClientRect().top;
  change();
  const moved = sign.getBoundingClientRect().top - before;
  if (moved) scrollBy({ top: moved, behavior: "instant" });
};
// What was clicked stays where it is: of a panel that would open out of sight,
// such as below a long paragraph, the head sticks out at the lower edge.
const HEAD = 96;
const showHead = (sign) => {
  const panel = panelOf(sign);
  const room = innerHeight - sign.getBoundingClientRect().bottom;
  panel.style.bottom = `${Math.min(HEAD, room) - panel.offsetHeight}px`;
};
// The address names the claim whose panel is open, so that whoever comes back
// to the page finds it open. The page does not move, as it would for a link.
const remember = (place) => {
  const address = location.pathname + location.search + place;
  history.replaceState(history.state, "", address);
};
const open = (sign) =>
  inPlace(sign, () => {
    close();
    opened = sign;
    show(sign, true);
    remember(addressOf(sign));
  });
const toggle = (sign, byKey) => {
  if (sign === opened) return inPlace(sign, close);
  open(sign);
  showHead(sign);
  if (byKey) panelOf(sign).focus({ preventScroll: true });
};
for (const sign of document.querySelectorAll("a.claim-sign")) {
  const panel = panelOf(sign);
  const words = wordsOf(panel);
  sign.setAttribute("role", "button");
  sign.setAttribute("aria-expanded", "false");
  sign.addEventListener("click", (event) => {
    event.preventDefault();
    event.stopPropagation(); // in a recipe, the sign stands in the words
    toggle(sign, event.detail === 0);
  });
  sign.addEventListener("keydown", (event) => {
    if (event.key !== " ") return;
    event.preventDefault();
    toggle(sign, true);
  });
  sign.addEventListener("focus", () => words.classList.add("is-shown"));
  sign.addEventListener("blur", () =>
    words.classList.toggle("is-shown", sign === opened),
  );
  words.classList.add("has-panel");
  words.addEventListener("click", (event) => {
    const isLink = event.target.closest("a") !== null;
    if (isLink || !getSelection().isCollapsed) return;
    toggle(sign, false);
  });
  const cross = panel.querySelector(".claim-close");
  cross.setAttribute("role", "button");
  cross.addEventListener("click", (event) => {
    event.preventDefault();
    close();
    sign.focus();
  });
  cross.addEventListener("keydown", (event) => {
    if (event.key !== " ") return;
    event.preventDefault();
    cross.click();
  });
  const link = panel.querySelector(".claim-link");
  link.setAttribute("aria-live", "polite");
  link.addEventListener("click", async (event) => {
    if (!navigator.clipboard) return;
    event.preventDefault();
    await navigator.clipboard.writeText(link.href);
    const said = link.textContent;
    link.textContent = "Copied";
    setTimeout(() => (link.textContent = said), 2000);
  });
}
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || opened === null) return;
  const sign = opened;
  const inside = panelOf(sign).contains(document.activeElement);
  inPlace(sign, close);
  if (inside) sign.focus({ preventScroll: true });
});
// So does a click on the text elsewhere, unless it would move what is clicked.
const USED = ".claim, .claim-panel, a, button, input, label, summary";
document.addEventListener("click", ({ target }) => {
  if (opened === null || target.closest(USED) !== null) return;
  const panel = panelOf(opened);
  const isText = target.closest("article") !== null && !target.contains(panel);
  if (!isText || !getSelection().isCollapsed) return;
  const { bottom, height } = panel.getBoundingClientRect();
  const isAbove = bottom <= target.getBoundingClientRect().top;
  if (!isAbove || scrollY >= height) inPlace(target, close);
});

// Who follows the address of a claim, or of its panel, sees the words and the
// panel.
const openTarget = () => {
  const name = location.hash.slice(1).replace(/^proof-/, "");
  const sign = document.getElementById(`sign-${name}`);
  if (sign === null) return;
  if (location.hash !== `#${name}`) location.replace(`#${name}`);
  else if (sign !== opened) open(sign);
};
addEventListener("hashchange", openTarget);
openTarget();
