// The boxes of the search: results as one types, by keyboard, mouse and touch.
// What finds them is loaded once somebody comes to a box.

{
  const root = new URL(document.documentElement.dataset.content_root, location);
  const PAGES = 8;
  const SECTIONS = 2;
  const TO_LOAD = ["_static/minisearch.min.js", "search-index.js", "_static/searching.js"];

  const made = (tag, properties, ...content) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...content);
    return element;
  };
  // Scripts, since a page that was opened from a folder can load nothing else;
  // in their order.
  const script = (name) =>
    new Promise((onload, onerror) =>
      document.head.append(
        made("script", { src: new URL(name, root), async: false, onload, onerror }),
      ),
    );
  let loading = null;
  const load = () => {
    loading ??= Promise.all(TO_LOAD.map(script)).then(() => siteSearch.ready);
    loading.catch(() => (loading = null)); // the next try loads again
    return loading;
  };

  // A search has an address, which comes back with the page; that of a file
  // may not change.
  const remember = (query) => {
    const address = new URL(location);
    if (address.protocol === "file:") return;
    if (query) address.searchParams.set("q", query);
    else address.searchParams.delete("q");
    history.replaceState(history.state, "", address);
  };

  const option = (className, words, address) => {
    const href = new URL(address, root);
    const ofList = { role: "option", ariaSelected: "false", tabIndex: -1 };
    return made("a", { className, href, ...ofList }, words);
  };
  const quote = (link, section) => {
    const { pieces, claim } = siteSearch.quoted(section);
    const shown = pieces.map(({ words, isHit }) => (isHit ? made("mark", {}, words) : words));
    link.append(made("span", { className: "search-quote" }, ...shown));
    if (!claim) return;
    const [anchor, sign] = claim;
    link.lastChild.append(" ", made("span", { className: "search-sign" }, sign));
    // Who chooses the words of a claim, and no page, gets to its panel.
    if (link.hash) link.hash = anchor;
  };
  const tell = (link, section) => {
    const said = siteSearch.told(section);
    link.append(...said.map((line) => made("span", { className: "search-said" }, line)));
  };
  const group = ({ name, title, chapter, address, sections = [], best }) => {
    const page = option("search-page", title, address);
    if (chapter) page.append(" ", made("span", { className: "search-chapter" }, chapter));
    const shown = sections.slice(0, SECTIONS).map((section) => {
      const link = option("search-section", section.heading, `${address}#${section.anchor}`);
      if (section.isError) tell(link, section);
      else quote(link, section);
      return link;
    });
    if (!shown.length && best) quote(page, best);
    const element = made("div", { role: "group", ariaLabel: title }, page, ...shown);
    element.dataset.page = name;
    return element;
  };
  // Returns the pages to show, and what to say of them. Where no page has all
  // that is asked, the last one leads to other sites.
  const answer = (query) => {
    const found = siteSearch(query);
    const lost = siteSearch.lost(query).map((word) => `“${word}”`);
    const { elsewhere } = siteSearch;
    const shown = found.slice(0, PAGES);
    if (found[0]?.isError) return [shown, "This looks like your problem:"];
    if (!lost.length && found.some(({ hasAll }) => hasAll))
      return [shown, found.length === 1 ? "1 page" : `${found.length} pages, the best first`];
    if (elsewhere && !shown.some(({ name }) => name === elsewhere.name)) shown.push(elsewhere);
    if (/\w(Error|Exception): /.test(query) && found.length)
      return [shown, "No error text of this guide is like yours. The nearest pages:"];
    const missing = lost.join(" or ") || "all of these words";
    if (found.length) return [shown, `No page has ${missing}. These are the nearest:`];
    return [shown, "Nothing found: try fewer words, or a name as it stands in code."];
  };

  const drawer = document.getElementById("__navigation");

  const attach = (form) => {
    const box = form.querySelector("input");
    const panel = form.querySelector(".search-panel");
    const list = form.querySelector("[role=listbox]");

    const options = () => [...list.querySelectorAll("[role=option]")];
    const active = () => list.querySelector("[aria-selected=true]");
    const choose = (link) => {
      active()?.setAttribute("aria-selected", "false");
      link?.setAttribute("aria-selected", "true");
      link?.scrollIntoView({ block: "nearest" });
      box.setAttribute("aria-activedescendant", link?.id ?? "");
    };
    const isOpen = () => panel.matches(":popover-open");
    const close = () => {
      panel.hidePopover();
      box.setAttribute("aria-expanded", "false");
      choose(null);
    };
    // The panel lies on top of all; it hangs on the box, and fits the window.
    const place = () => {
      const { left, bottom } = box.getBoundingClientRect();
      panel.style.top = `${bottom}px`;
      panel.style.left = `${Math.max(0, Math.min(left, innerWidth - 544))}px`;
      panel.style.maxHeight = `${innerHeight - bottom - 16}px`;
    };
    const show = (pages, words, first) => {
      list.replaceChildren(...pages.map(group));
      list.hidden = !pages.length;
      for (const [at, link] of options().entries()) link.id = `${list.id}-${at}`;
      for (const place of form.querySelectorAll(".search-status, .search-note"))
        place.textContent = words;
      place();
      panel.showPopover();
      list.scrollTop = 0;
      box.setAttribute("aria-expanded", String(pages.length > 0));
      choose(options()[first]);
    };
    const search = async () => {
      const query = box.value.trim();
      if (query.length < 2) return close();
      try {
        await load();
      } catch {
        return show([], "The search could not be loaded: try again later.");
      }
      if (query !== box.value.trim()) return; // a newer call shows its own
      const [pages, words] = answer(query);
      show(pages, words, pages[0]?.leadsInside ? 1 : 0);
    };

    // Of a pasted traceback, without what leads to its error: what is indented,
    // and what names a file.
    box.addEventListener("paste", (event) => {
      const pasted = event.clipboardData.getData("text").trim();
      if (!pasted.includes("\n")) return;
      event.preventDefault();
      const lines = pasted.split("\n").map((line) => line.replace(/^\[rank\d+\]: ?/, ""));
      const said = lines.filter((line) => !/^([ \d>-]|File |Cell |Traceback )/.test(line));
      const words = (said.length ? said : lines).join(" ");
      box.setRangeText(words, box.selectionStart, box.selectionEnd, "end");
      search();
    });
    box.addEventListener("input", search);
    box.addEventListener("change", () => remember(box.value.trim()));
    box.addEventListener("focus", () => (box.value ? search() : load()));
    box.addEventListener("blur", close);
    panel.addEventListener("mousedown", (event) => event.preventDefault());
    form.addEventListener("submit", (event) => event.preventDefault());
    addEventListener("resize", place);
    box.addEventListener("keydown", (event) => {
      const all = options();
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step && isOpen()) choose(all.at((all.indexOf(active()) + step) % all.length));
      else if (event.key === "Enter") active()?.click();
      else if (event.key !== "Escape") return;
      else if (isOpen()) close();
      else box.blur();
      event.preventDefault();
    });
    // A link within the page closes the drawer with the panel.
    list.addEventListener("click", (event) => {
      if (!event.target.closest("a")) return;
      remember(box.value.trim());
      close();
      if (drawer) drawer.checked = false;
    });
  };
  const forms = [...document.querySelectorAll(".site-search")];
  forms.forEach(attach);
  // A box of the page itself is nearer than that of the sidebar.
  const box = (forms.find((each) => each.closest("article")) ?? forms[0])?.querySelector("input");

  // Who comes back to a search, or follows a link to one, sees what it found.
  const asked = new URL(location).searchParams.get("q");
  if (asked && box) box.value = asked;
  // The theme shows what needs a script only once its own has run.
  addEventListener("load", () => {
    if (asked || box?.closest("section:target")) box.focus();
  });

  const begin = () => {
    // In a narrow window the sidebar is a drawer that is shut.
    if (drawer) drawer.checked ||= box.getBoundingClientRect().right <= 0;
    box.focus();
    box.select();
  };
  const glass = made("button", { className: "search-glass", ariaLabel: "Search" });
  glass.innerHTML = '<svg viewBox="0 0 24 24"><path d="M14 14a6 6 0 1 0-.1.1l6 6" /></svg>';
  glass.addEventListener("click", begin);
  if (box) document.querySelector(".header-right").prepend(glass);
  document.addEventListener("keydown", (event) => {
    const isWriting = event.target.closest?.("input, textarea, select, [contenteditable]");
    const isSlash = event.key === "/" && !isWriting;
    const isK = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey);
    if (!box || !(isSlash || isK)) return;
    event.preventDefault();
    begin();
  });
}
