// The boxes of the search: results as one types, by keyboard, mouse and touch.
// What finds them is loaded once somebody comes near a box.

{
  const root = new URL(document.documentElement.dataset.content_root, location);
  const PAGES = 8;
  const SECTIONS = 2;
  const TO_LOAD = ["_static/minisearch.min.js", "search-index.js", "_static/searching.js"];

  // Scripts, since a page that was opened from a folder can load nothing else.
  const script = (name) =>
    new Promise((loaded, failed) => {
      const element = document.createElement("script");
      element.src = new URL(name, root);
      element.async = false; // in their order
      element.onload = loaded;
      element.onerror = () => failed(new Error(name));
      document.head.append(element);
    });
  let loading = null;
  const load = () => {
    loading ??= Promise.all(TO_LOAD.map(script))
      .then(() => siteSearch.ready)
      .catch((error) => {
        loading = null; // the next try loads again
        throw error;
      });
    return loading;
  };

  // A search has an address, which comes back with the page.
  const ASKED = "q";
  const remember = (query) => {
    const address = new URL(location);
    if (query) address.searchParams.set(ASKED, query);
    else address.searchParams.delete(ASKED);
    try {
      history.replaceState(history.state, "", address);
    } catch {} // a page that was opened from a folder has no other address
  };

  const drawer = document.getElementById("__navigation");

  const attach = (form) => {
    const box = form.querySelector("input");
    const status = form.querySelector(".search-status");
    const panel = form.querySelector(".search-panel");
    const note = form.querySelector(".search-note");
    const list = form.querySelector("[role=listbox]");

    const options = () => [...list.querySelectorAll("[role=option]")];
    const active = () => list.querySelector("[aria-selected=true]");
    const choose = (option) => {
      active()?.setAttribute("aria-selected", "false");
      option?.setAttribute("aria-selected", "true");
      option?.scrollIntoView({ block: "nearest" });
      if (option) box.setAttribute("aria-activedescendant", option.id);
      else box.removeAttribute("aria-activedescendant");
    };
    const isOpen = () => panel.matches(":popover-open");
    const close = () => {
      if (isOpen()) panel.hidePopover();
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
    const open = () => {
      place();
      if (!isOpen()) panel.showPopover();
      box.setAttribute("aria-expanded", String(list.childElementCount > 0));
    };

    const link = (className, words, address) => {
      const element = document.createElement("a");
      element.className = className;
      element.textContent = words;
      element.href = new URL(address, root);
      element.setAttribute("role", "option");
      element.setAttribute("aria-selected", "false");
      element.tabIndex = -1;
      return element;
    };
    const written = (className, words) => {
      const element = document.createElement("span");
      element.className = className;
      element.append(words);
      return element;
    };
    const quote = (option, place) => {
      const { pieces, claim } = siteSearch.quoted(place);
      const shown = pieces.map(({ words, isHit }) => {
        if (!isHit) return words;
        const mark = document.createElement("mark");
        mark.textContent = words;
        return mark;
      });
      const element = written("search-quote", "");
      element.append(...shown);
      option.append(element);
      if (!claim) return;
      const [anchor, sign, scope] = claim;
      const shownSign = written("search-sign", sign);
      shownSign.dataset.sign = sign;
      element.append(" ", shownSign);
      if (scope) option.append(written("search-scope", scope));
      // Who chooses the words of a claim, and no page, gets to its panel.
      if (option.hash) option.hash = anchor;
    };
    const group = (found) => {
      const { name, title, chapter, address, sections = [], best } = found;
      const element = document.createElement("div");
      element.setAttribute("role", "group");
      element.setAttribute("aria-label", title);
      element.dataset.page = name;
      const page = link("search-page", title, address);
      if (chapter) page.append(" ", written("search-chapter", chapter));
      const shown = sections.slice(0, SECTIONS);
      element.append(page);
      for (const section of shown) {
        const { anchor, heading } = section;
        const option = link("search-section", heading, `${address}#${anchor}`);
        quote(option, section);
        element.append(option);
      }
      if (!shown.length && best) quote(page, best);
      return element;
    };
    const say = (words) => {
      status.textContent = words;
      note.textContent = words;
    };
    // Where no page has all that is asked, the last one leads to other sites.
    const show = (query) => {
      const found = siteSearch(query);
      const lost = siteSearch.lost(query).map((word) => `“${word}”`);
      const isMissing = lost.length || !found.some(({ hasAll }) => hasAll);
      const { elsewhere } = siteSearch;
      const shown = found.slice(0, PAGES);
      const isThere = shown.some(({ name }) => name === elsewhere?.name);
      if (isMissing && elsewhere && !isThere) shown.push(elsewhere);
      list.replaceChildren(...shown.map(group));
      list.hidden = shown.length === 0;
      options().forEach((option, at) => {
        option.id = `${list.id}-${at}`;
      });
      panel.scrollTop = 0;
      choose(options()[found[0]?.leadsInside ? 1 : 0]);
      const missing = lost.join(" or ") || "all of these words";
      if (!found.length) say("Nothing found: try fewer words, or a name as it stands in code.");
      else if (isMissing) say(`No page has ${missing}. These are the nearest:`);
      else if (found.length > PAGES) say(`The best ${PAGES} pages`);
      else if (found.length > 1) say(`${found.length} pages`);
      else say("1 page");
    };
    const search = async () => {
      const query = box.value.trim();
      if (query.length < 2) return close();
      try {
        await load();
      } catch {
        list.replaceChildren();
        list.hidden = true;
        say("The search could not be loaded: reload the page, and try again.");
        return open();
      }
      if (query !== box.value.trim()) return; // a newer call shows its own
      show(query);
      open();
    };

    box.addEventListener("input", search);
    box.addEventListener("change", () => remember(box.value.trim()));
    box.addEventListener("focus", () => {
      load().catch(() => {}); // said once somebody types
      if (box.value.trim()) search();
    });
    box.addEventListener("pointerenter", () => load().catch(() => {}));
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("focusout", (event) => {
      if (!form.contains(event.relatedTarget)) close();
    });
    panel.addEventListener("pointerdown", (event) => event.preventDefault());
    addEventListener("resize", () => isOpen() && place());
    // The drawer takes its time to come.
    document.addEventListener("transitionend", () => isOpen() && place());

    box.addEventListener("keydown", (event) => {
      const all = options();
      const at = all.indexOf(active());
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        if (!isOpen()) return;
        const step = event.key === "ArrowDown" ? 1 : -1;
        choose(all[(at + step + all.length) % all.length]);
      } else if (event.key === "Enter") {
        active()?.click();
      } else if (event.key === "Escape") {
        if (isOpen()) close();
        else box.blur();
      } else return;
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
  const near = () => forms.find((each) => each.closest("article")) ?? forms[0];

  // Who comes back to a search, or follows a link to one, sees what it found.
  const asked = new URL(location).searchParams.get(ASKED);
  if (asked && forms.length) {
    const box = near().querySelector("input");
    box.value = asked;
    // The theme shows what needs a script only once its own has run.
    addEventListener("load", () => box.focus());
  }

  // In a narrow window the box of the sidebar stands in a drawer that is shut;
  // who opens it may well want the box. A box of the page itself is nearer.
  drawer?.addEventListener("change", () => load().catch(() => {}));
  const goToBox = () => {
    const box = near().querySelector("input");
    if (drawer) drawer.checked ||= box.getBoundingClientRect().right <= 0;
    box.focus();
    box.select();
  };
  document.addEventListener("keydown", (event) => {
    const isWriting = event.target.closest?.(
      "input, textarea, select, [contenteditable]",
    );
    const isSlash = event.key === "/" && !isWriting;
    const isK = event.key.toLowerCase() === "k";
    if (isSlash || (isK && (event.ctrlKey || event.metaKey))) {
      event.preventDefault();
      goToBox();
    }
  });
}
