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

// A table shows the rows that hold the words and have all that is chosen. The
// address keeps both, except that of a file, which may not change.
for (const form of document.querySelectorAll(".ledger-filter")) {
  const rows = [...document.querySelectorAll("tr[data-verdict]")];
  const choices = [...form.querySelectorAll("select")];
  const fields = [form.elements.words, ...choices];
  const keep = () => {
    const said = fields.filter((field) => field.value);
    const pairs = said.map((field) => [field.name, field.value]);
    const query = pairs.length ? `?${new URLSearchParams(pairs)}` : "";
    if (location.protocol === "file:") return;
    const place = location.pathname + query + location.hash;
    history.replaceState(null, "", place);
  };
  const filter = () => {
    const words = form.elements.words.value.toLowerCase().trim();
    let count = 0;
    for (const row of rows) {
      const fits =
        row.textContent.toLowerCase().includes(words) &&
        choices.every((c) => ["", row.dataset[c.name]].includes(c.value));
      row.hidden = !fits;
      count += fits;
    }
    form.querySelector("output").textContent =
      `${count} of ${rows.length} ${form.dataset.noun}`;
  };
  form.addEventListener("input", filter);
  form.addEventListener("input", keep);
  form.addEventListener("submit", (event) => event.preventDefault());
  const asked = new URLSearchParams(location.search);
  for (const field of fields) {
    if (asked.has(field.name)) field.value = asked.get(field.name);
  }
  filter();
}

// What scrolls sideways can be reached, and scrolled, with the keyboard. Each
// box is looked at once it is laid out: to ask for the size of one that stands
// in a fold would lay out the fold.
const reach = new ResizeObserver((seen) => {
  const boxes = seen.map(({ target }) => target);
  const wide = boxes.filter((box) => box.scrollWidth > box.clientWidth);
  for (const box of boxes) box.removeAttribute("tabindex");
  for (const box of wide) box.tabIndex = 0;
});
for (const box of document.querySelectorAll("pre, .cell-output")) {
  reach.observe(box);
}

// Furo leaves both of its side columns without a name.
document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "Site");
document.querySelector(".toc-drawer")?.setAttribute("aria-label", "Page");
