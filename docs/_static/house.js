// Small comforts; the site is whole without them.

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

// The sidebar begins where the page stands in it.
{
  const here = document.querySelector(".sidebar-tree .current-page");
  const list = here?.closest(".sidebar-scroll");
  if (list) {
    const below = here.getBoundingClientRect().bottom - list.clientHeight;
    if (below > 0) list.scrollTop = below + list.clientHeight / 2;
  }
}

// Furo leaves both of its side columns without a name.
document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "Site");
document.querySelector(".toc-drawer")?.setAttribute("aria-label", "Page");
