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
  const wordsOf = (text) => text.toLowerCase().match(/\S+/g) ?? [];
  const texts = sources.map(({ textContent }) => wordsOf(textContent).join(" "));
  const fields = [form.elements.words, ...form.querySelectorAll("select")];
  const said = form.querySelector("output");

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
  const isChosen = (row) =>
    fields.slice(1).every(({ name, value }) => {
      const own = row.closest(`[data-${name}]`)?.getAttribute(`data-${name}`);
      return value === "" || value === own;
    });
  const filter = () => {
    const words = wordsOf(fields[0].value);
    const found = rows.map((row, at) =>
      isChosen(row) ? weigh(texts[at], words) : { held: 0, order: -1 },
    );
    const most = Math.max(...found.map(({ order }) => order), words.length ? 1 : 0);
    const shown = found.filter(({ order }) => order === most);
    rows.forEach((row, at) => {
      row.hidden = sources[at].hidden = found[at].order !== most;
    });
    said.textContent = `${shown.length} of ${rows.length} ${form.dataset.noun}`;
    const isAll = shown.some(({ held }) => held === words.length);
    if (isAll || !words.length) return;
    const lacks = shown.length ? "none has all" : "nothing here has any";
    const all = document.createElement("a");
    all.href = `?${new URLSearchParams({ q: fields[0].value })}`;
    all.textContent = "the whole guide";
    said.append(`: ${lacks} of these words. Look for them in `, all);
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
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    said.querySelector("a")?.click();
  });
  // A link to what is filtered out puts all of it back.
  addEventListener("hashchange", () => {
    const target = document.querySelector("[hidden]:target");
    if (!sources.includes(target)) return;
    form.reset();
    show();
    target.scrollIntoView();
  });
  const asked = new URLSearchParams(location.search);
  for (const field of fields) field.value = asked.get(field.name) ?? field.value;
  filter();
  // Who comes to paste something finds the box ready, once the browser has gone
  // to the place that the address names, which takes the focus.
  addEventListener("load", () => {
    if (form.closest("section").matches(":target")) fields[0].focus();
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
