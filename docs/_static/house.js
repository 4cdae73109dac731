// Small comforts; the site is whole without them.

// A filter leaves the rows that hold most of what is asked, and that have all
// that is chosen. What a row links to on the page counts as its own, and comes
// and goes with it. The address keeps what is asked, except that of a file,
// which may not change.
for (const form of document.querySelectorAll(".row-filter")) {
  const rows = [...document.querySelectorAll(form.dataset.rows)];
  const sources = rows.map((row) => {
    const place = row.querySelector("a[href^='#']")?.hash.slice(1);
    return place ? document.getElementById(place) : row;
  });
  const plain = (text) => text.toLowerCase().match(/\S+/g) ?? [];
  const texts = sources.map((source) => plain(source.textContent).join(" "));
  // Most of what is asked is in a text that has many of its words in a row, as
  // only that of an error has; else in one that has many of them anywhere.
  const RUN = 4;
  const weigh = (text, words) => {
    let run = 0;
    const begins = (from) => {
      const row = words.slice(from, from + run + 1);
      return row.length > run && text.includes(row.join(" "));
    };
    for (const from of words.keys()) while (begins(from)) run += 1;
    const held = words.filter((word) => text.includes(word)).length;
    return { held, order: (run < RUN ? 0 : run * words.length) + held };
  };
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
  // Where else to look for it: on a page with more of its kind, or anywhere.
  const elsewhere = () => {
    const { more, title } = form.dataset;
    const link = (address, name, words) => {
      const element = document.createElement("a");
      const query = new URLSearchParams({ [name]: form.elements.words.value });
      element.href = `${address}?${query}`;
      element.textContent = words;
      return element;
    };
    const all = link("", "q", "the whole guide");
    return more ? [link(more, "words", title), " or in ", all] : [all];
  };
  const filter = () => {
    const words = plain(form.elements.words.value);
    const isChosen = (row) =>
      choices.every((c) => ["", chosen(row, c.name)].includes(c.value));
    const found = rows.map((row, at) =>
      isChosen(row) ? weigh(texts[at], words) : { held: 0, order: -1 },
    );
    const most = Math.max(...found.map(({ order }) => order), words.length ? 1 : 0);
    const shown = found.filter(({ order }) => order === most);
    rows.forEach((row, at) => {
      row.hidden = sources[at].hidden = found[at].order !== most;
    });
    const said = form.querySelector("output");
    said.textContent = `${shown.length} of ${rows.length} ${form.dataset.noun}`;
    const isAll = shown.some(({ held }) => held === words.length);
    if (isAll || !words.length) return;
    const lacks = shown.length ? "none has all" : "nothing here has any";
    said.append(`: ${lacks} of these words. Look for them in `, ...elsewhere());
  };
  form.addEventListener("input", filter);
  form.addEventListener("input", keep);
  // Enter looks for it where the last link leads: in the whole guide.
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    form.querySelector("output > a:last-of-type")?.click();
  });
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
