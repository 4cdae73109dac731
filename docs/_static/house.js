// Small comforts; the site is whole without them.

// A filter leaves the rows that hold all words, or those that hold most of them
// if none does, and that have all that is chosen. What a row links to on
// the page counts as its own, and comes and goes with it. The address keeps what is asked, except that of a
// file, which may not change.
for (const form of document.querySelectorAll(".row-filter")) {
  const rows = [...document.querySelectorAll(form.dataset.rows)];
  const sources = rows.map((row) => {
    const place = row.querySelector("a[href^='#']")?.hash.slice(1);
    return place ? document.getElementById(place) : row;
  });
  const texts = sources.map((source) => source.textContent.toLowerCase());
  // What rows have in common may stand on what holds them.
  const chosen = (row, name) =>
    row.closest(`[data-${name}]`)?.getAttribute(`data-${name}`);
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
    const words = form.elements.words.value.toLowerCase().match(/\S+/g) ?? [];
    const isChosen = (row) =>
      choices.every((c) => ["", chosen(row, c.name)].includes(c.value));
    const held = rows.map((row, at) =>
      isChosen(row) ? words.filter((w) => texts[at].includes(w)).length : -1,
    );
    const most = Math.max(...held, words.length ? 1 : 0);
    let count = 0;
    rows.forEach((row, at) => {
      const fits = held[at] === most;
      row.hidden = sources[at].hidden = !fits;
      count += fits;
    });
    const said = form.querySelector("output");
    said.textContent = `${count} of ${rows.length} ${form.dataset.noun}`;
    if (count || !words.length) return;
    const link = document.createElement("a");
    link.href = `?${new URLSearchParams({ q: form.elements.words.value })}`;
    link.textContent = "Search the whole guide for these words";
    said.append(": nothing here has any of these words. ", link);
  };
  form.addEventListener("input", filter);
  form.addEventListener("input", keep);
  form.addEventListener("submit", (event) => event.preventDefault());
  // A link to what is filtered out puts all of it back.
  addEventListener("hashchange", () => {
    const target = document.querySelector("[hidden]:target");
    if (!sources.includes(target)) return;
    form.reset();
    filter();
    keep();
    target.scrollIntoView();
  });
  const asked = new URLSearchParams(location.search);
  for (const field of fields) {
    if (asked.has(field.name)) field.value = asked.get(field.name);
  }
  filter();
  // Who comes to paste something finds the box ready, once the browser has gone
  // to the place that the address names, which takes the focus.
  addEventListener("load", () => {
    if (form.closest("section").matches(":target")) {
      fields[0].focus();
    }
  });
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
