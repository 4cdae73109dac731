// How the search ranks: by section, with MiniSearch, then by page. Loaded with
// the index, once somebody wants to search.

window.siteSearch = (() => {
  const empty = new Set(emptyWords);
  const stemmer = new Stemmer();
  const asTerm = (word) => {
    const lower = word.toLowerCase();
    if (lower.length < 2 || /^\d/.test(lower) || empty.has(lower)) return null;
    // A name of code stays as it is written.
    return /[_\d]/.test(lower) ? lower : stemmer.stemWord(lower);
  };
  // CrossEntropyLoss and cross_entropy are found by their parts as well.
  const asParts = (word) => {
    const found = word.match(/\p{Lu}+(?!\p{Ll})|\p{Lu}?\p{Ll}+/gu) ?? [];
    return found.length > 1 ? [word, ...found] : [word];
  };
  // A word stands in many sections: it is looked at once.
  const remembered = (look) => {
    const seen = new Map();
    return (word) => {
      if (!seen.has(word)) seen.set(word, look(word));
      return seen.get(word);
    };
  };
  const term = remembered(asTerm);
  const parts = remembered(asParts);
  const words = (text) => text.match(/[\p{L}\p{N}_]+/gu) ?? [];

  const index = new MiniSearch({
    fields: ["title", "also", "heading", "prose", "code"],
    storeFields: ["page", "anchor", "heading"],
    tokenize: (text) => words(text).flatMap(parts),
    processTerm: term,
    searchOptions: {
      boost: { title: 4, also: 5, heading: 3, prose: 1, code: 0.4 },
      tokenize: words,
      // The last word may not be typed to its end.
      prefix: (word, place, all) =>
        place === all.length - 1 && word.length > 1,
    },
  });
  const meaning = (text) => words(text).map(term).filter(Boolean).join(" ");
  const pages = [];
  const uses = new Map(); // how many sections have a heading
  for (const [name, address, title, also, sections] of searchedPages) {
    const names = new Set([title, ...also.split(", ")].map(meaning));
    const page = pages.push({ name, address, title, names }) - 1;
    index.add({ id: `${page}`, page, title, also });
    sections.forEach(([anchor, heading, prose, code], place) => {
      const id = `${page}-${place}`;
      index.add({ id, page, anchor, heading, prose, code });
      uses.set(heading, (uses.get(heading) ?? 0) + 1);
    });
  }

  // A page is worth what its names and its best section are, and a little of
  // the next sections; twice as much if the query is a name of it.
  const NEXT = 3;
  const OF_NEXT = 0.15;
  const NAMED = 2;
  // A section is shown if it is not far behind the best of its page, and if
  // its heading is not one that most pages have.
  const CLOSE = 0.4;
  const COMMON = 5;
  const page = (number, asked) => {
    const { names, ...rest } = pages[number];
    return { ...rest, isNamed: names.has(asked), own: 0, sections: [] };
  };
  const worth = ({ own, sections, isNamed }) => {
    const [best = 0, ...others] = sections.map(({ score }) => score);
    const next = others.slice(0, NEXT).reduce((sum, score) => sum + score, 0);
    return (own + best + OF_NEXT * next) * (isNamed ? NAMED : 1);
  };
  const isShown = ({ anchor, heading, score }, place, [best]) =>
    anchor && score >= CLOSE * best.score && uses.get(heading) <= COMMON;

  // Return the pages of a query, the best first, each with its sections.
  return (query) => {
    const asked = meaning(query);
    const found = new Map();
    for (const one of index.search(query)) {
      if (!found.has(one.page)) found.set(one.page, page(one.page, asked));
      const group = found.get(one.page);
      if (one.heading === undefined) group.own = one.score;
      else group.sections.push(one);
    }
    const groups = [...found.values()];
    for (const group of groups) {
      group.score = worth(group);
      const best = group.sections[0];
      group.sections = group.sections.filter(isShown);
      // Words that only a section has, such as an error text, lead to it.
      group.leadsInside =
        best === group.sections[0] && best?.score > group.own;
    }
    return groups.sort((one, other) => other.score - one.score);
  };
})();
