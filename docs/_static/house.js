// Small comforts; the site is whole without them.

// A filter leaves the rows that have all that is asked and chosen. The address
// keeps it, except that of a file, which may not change.
for (const form of document.querySelectorAll(".row-filter")) {
  const rows = [...document.querySelectorAll(form.dataset.rows)];
  const texts = rows.map(({ textContent }) => textContent.toLowerCase());
  const fields = [form.elements.words, ...form.querySelectorAll("select")];
  // What rows have in common may stand on what holds them.
  const isChosen = (row) =>
    fields.slice(1).every(({ name, value }) => {
      const own = row.closest(`[data-${name}]`)?.getAttribute(`data-${name}`);
      return value === "" || value === own;
    });
  const filter = () => {
    const words = fields[0].value.toLowerCase().match(/\S+/g) ?? [];
    rows.forEach((row, at) => {
      row.hidden = !isChosen(row) || !words.every((word) => texts[at].includes(word));
    });
    const shown = rows.filter(({ hidden }) => !hidden).length;
    form.querySelector("output").textContent = `${shown} of ${rows.length} ${form.dataset.noun}`;
  };
  const show = () => {
    filter();
    if (location.protocol === "file:") return;
    const asked = fields.filter(({ value }) => value);
    const query = new URLSearchParams(asked.map(({ name, value }) => [name, value]));
    const place = location.pathname + (asked.length ? `?${query}` : "");
    history.replaceState(null, "", place + location.hash);
  };
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  const asked = new URLSearchParams(location.search);
  for (const field of fields) field.value = asked.get(field.name) ?? field.value;
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

// Who does not see that code is copied hears it.
{
  const said = document.createElement("p");
  said.className = "visually-hidden";
  said.setAttribute("role", "status");
  document.body.append(said);
  document.addEventListener("click", (event) => {
    const button = event.composedPath().find((each) => each.matches?.(".copybtn"));
    if (!button) return;
    said.textContent = button.dataset.tooltip;
    setTimeout(() => (said.textContent = ""), 2000);
  });
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
