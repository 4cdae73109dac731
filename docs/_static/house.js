// Small comforts; the site is whole without them.

// The sign of a claim opens its panel: by click and tap, by Enter, and where
// the keyboard reaches it. The panel stays until it is closed, by its sign, its
// cross or Escape, or until another one opens.
let opened = null;
let byFocus = false;
let isComingBack = false;
const panelOf = (sign) => document.querySelector(sign.getAttribute("href"));
const close = () => {
  if (opened === null) return;
  opened.classList.remove("is-open");
  opened.setAttribute("aria-expanded", "false");
  panelOf(opened).classList.remove("is-open");
  opened = null;
};
const comeBack = (sign) => {
  isComingBack = true;
  sign.focus();
  isComingBack = false;
};
const open = (sign) => {
  close();
  opened = sign;
  sign.classList.add("is-open");
  sign.setAttribute("aria-expanded", "true");
  panelOf(sign).classList.add("is-open");
};
for (const sign of document.querySelectorAll("a.claim-sign")) {
  const panel = panelOf(sign);
  sign.setAttribute("role", "button");
  sign.setAttribute("aria-expanded", "false");
  sign.addEventListener("focus", () => {
    if (isComingBack || sign === opened) return;
    if (!sign.matches(":focus-visible")) return; // a click does the rest
    open(sign);
    byFocus = true;
  });
  sign.addEventListener("click", (event) => {
    event.preventDefault();
    // Enter on a panel that the focus has opened goes into it.
    if (sign === opened && byFocus) panel.focus();
    else if (sign === opened) close();
    else open(sign);
    byFocus = false;
  });
  panel.querySelector(".claim-close").addEventListener("click", (event) => {
    event.preventDefault();
    close();
    comeBack(sign);
  });
  const link = panel.querySelector(".claim-link");
  link.addEventListener("click", async (event) => {
    if (!navigator.clipboard) return;
    event.preventDefault();
    await navigator.clipboard.writeText(link.href);
    link.textContent = "Copied";
  });
}
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || opened === null) return;
  const sign = opened;
  const inside = panelOf(sign).contains(document.activeElement);
  close();
  if (inside) comeBack(sign);
});

// The ledger shows the rows that hold the words and have the result.
for (const form of document.querySelectorAll(".ledger-filter")) {
  const rows = [...document.querySelectorAll(".ledger-table tbody tr")];
  const filter = () => {
    const words = form.elements.words.value.toLowerCase().trim();
    const verdict = form.elements.verdict.value;
    let count = 0;
    for (const row of rows) {
      const fits =
        row.textContent.toLowerCase().includes(words) &&
        (verdict === "" || row.dataset.verdict === verdict);
      row.hidden = !fits;
      count += fits;
    }
    for (const chapter of document.querySelectorAll(".ledger-chapter")) {
      chapter.hidden = !chapter.querySelector("tbody tr:not([hidden])");
    }
    form.querySelector("output").textContent =
      `${count} of ${rows.length} claims`;
  };
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
}

// What scrolls sideways can be reached, and scrolled, with the keyboard.
const reach = () => {
  for (const box of document.querySelectorAll("pre, .cell-output")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
};
addEventListener("resize", reach);
reach();

// Furo leaves both of its side columns without a name.
document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "Site");
document.querySelector(".toc-drawer")?.setAttribute("aria-label", "Page");
