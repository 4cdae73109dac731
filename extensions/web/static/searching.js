// How the search ranks: by section, then by page. Loaded with the index, which
// the build has made, once somebody wants to search.

window.siteSearch = (() => {
  const empty = new Set(searchIndex.empty);
  const stemmer = new Stemmer();
  // As the build does, in search_terms.py.
  const asTerm = (word) => {
    const lower = word.toLowerCase();
    if (lower.length < 2 || /^\d/.test(lower) || empty.has(lower)) return null;
    // A name of code stays as it is written.
    return /[_\d]/.test(lower) ? lower : stemmer.stemWord(lower);
  };
  const asTerms = (text) =>
    (text.match(/[\p{L}\p{N}_]+/gu) ?? []).map(asTerm).filter(Boolean);

  // A document is a page, by its title and its other names, or a section.
  const pages = [];
  const documents = [];
  const uses = new Map(); // how many sections have a heading
  for (const entry of searchIndex.pages) {
    const [name, address, title, chapter, names, sizes, parts] = entry;
    const page = pages.push({ name, address, title, chapter, names }) - 1;
    documents.push({ page, sizes });
    parts.forEach(([anchor, heading, sizes], part) => {
      documents.push({ page, part, anchor, heading, sizes });
      uses.set(heading, (uses.get(heading) ?? 0) + 1);
    });
  }

  // Where a term stands, in the fields that a document can have.
  const BOOSTS = [1, 0.4, 3, 5, 4]; // prose, code, heading, other names, title
  const means = BOOSTS.map((_, field) => {
    const found = documents.map(({ sizes }) => sizes[field]).filter(Boolean);
    return found.reduce((sum, size) => sum + size, 0) / found.length;
  });
  const lines = searchIndex.terms.split(" ");
  const terms = lines.map((line) => line.slice(0, line.indexOf(":")));
  const placeOf = (term) => {
    let [first, last] = [0, terms.length];
    while (first < last) {
      const middle = (first + last) >> 1;
      if (terms[middle] < term) first = middle + 1;
      else last = middle;
    }
    return first;
  };
  const counted = (steps) => {
    const counts = new Map();
    let at = 0;
    for (const step of steps ? steps.split(",") : []) {
      at += parseInt(step, 36);
      counts.set(at, (counts.get(at) ?? 0) + 1);
    }
    return counts;
  };

  // What a term says of a document, by BM25+ with the weights of MiniSearch:
  // more if few have it, if it stands there often, and among few words.
  const [K, B, D] = [1.2, 0.7, 0.5];
  const weigh = (line, weight, asked, found) => {
    const fields = line.slice(line.indexOf(":") + 1).split(";");
    fields.map(counted).forEach((counts, field) => {
      const others = documents.length - counts.size;
      const rarity = Math.log(1 + (others + 0.5) / (counts.size + 0.5));
      for (const [at, count] of counts) {
        const size = documents[at].sizes[field] / means[field];
        const often = (count * (K + 1)) / (count + K * (1 - B + B * size));
        if (!found.has(at)) found.set(at, { sum: 0, terms: new Set() });
        const one = found.get(at);
        one.sum += weight * BOOSTS[field] * rarity * (D + often);
        one.terms.add(asked);
      }
    });
  };
  // A document is worth more the more of the terms it has. The last one may
  // not be typed to its end.
  const OF_START = 0.375;
  const ranked = (query) => {
    const found = new Map();
    asTerms(query).forEach((term, place, all) => {
      const isLast = place === all.length - 1;
      for (let at = placeOf(term); terms[at]?.startsWith(term); at += 1) {
        const { length } = terms[at];
        const more = length - term.length;
        if (more && !isLast) break;
        const weight = more ? (OF_START * length) / (length + 0.3 * more) : 1;
        weigh(lines[at], weight, term, found);
      }
    });
    return [...found]
      .map(([at, { sum, terms }]) => ({
        ...documents[at],
        score: sum * terms.size,
      }))
      .sort((one, other) => other.score - one.score);
  };

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
    return { ...rest, isNamed: names.includes(asked), own: 0, sections: [] };
  };
  const worth = ({ own, sections, isNamed }) => {
    const [best = 0, ...others] = sections.map(({ score }) => score);
    const next = others.slice(0, NEXT).reduce((sum, score) => sum + score, 0);
    return (own + best + OF_NEXT * next) * (isNamed ? NAMED : 1);
  };
  const isShown = ({ anchor, heading, score }, place, [best]) =>
    anchor && score >= CLOSE * best.score && uses.get(heading) <= COMMON;

  // The sentence of a section that has most of the words of a query, cut around
  // them, as pieces of which each has or has not one of them. Its place is
  // known before its text is loaded.
  const LONG = 150;
  const quoted = ({ page, part }, query) => {
    const text = window.searchTexts?.[page]?.[part];
    if (!text) return [];
    const asked = new Set(asTerms(query));
    const pieces = (line) =>
      line.split(/([\p{L}\p{N}_]+)/u).map((words) => ({
        words,
        isHit: asked.has(asTerm(words)),
      }));
    const hits = (line) =>
      new Set(pieces(line).filter((one) => one.isHit).map((one) => asTerm(one.words))).size;
    const lines = text.split("\n");
    const counts = lines.map(hits);
    const best = lines[counts.indexOf(Math.max(...counts))];
    const at = pieces(best).reduce(
      ({ length, first }, { words, isHit }) => ({
        length: length + words.length,
        first: isHit ? Math.min(first, length) : first,
      }),
      { length: 0, first: Infinity },
    );
    const isFar = at.first < Infinity && at.first > LONG / 2;
    const from = isFar ? best.indexOf(" ", at.first - LONG / 3) + 1 : 0;
    const to = from + LONG < best.length ? best.lastIndexOf(" ", from + LONG) : best.length;
    return [
      ...(from > 0 ? [{ words: "… ", isHit: false }] : []),
      ...pieces(best.slice(from, to)),
      ...(to < best.length ? [{ words: " …", isHit: false }] : []),
    ];
  };

  // The words of a query that stand on no page; the last one may go on.
  const unknown = (query) => {
    const words = query.match(/[\p{L}\p{N}_]+/gu) ?? [];
    return words.filter((word, place) => {
      const term = asTerm(word);
      if (!term) return false;
      const near = terms[placeOf(term)];
      const isLast = place === words.length - 1;
      return isLast ? !near?.startsWith(term) : near !== term;
    });
  };

  // Return the pages of a query, the best first, each with its sections.
  const search = (query) => {
    const asked = asTerms(query).join(" ");
    const found = new Map();
    for (const one of ranked(query)) {
      if (!found.has(one.page)) found.set(one.page, page(one.page, asked));
      const group = found.get(one.page);
      if (one.heading === undefined) group.own = one.score;
      else group.sections.push(one);
    }
    const groups = [...found.values()];
    for (const group of groups) {
      group.score = worth(group);
      const best = group.sections[0];
      group.best = best;
      group.sections = group.sections.filter(isShown);
      // Words that only a section has, such as an error text, lead to it.
      group.leadsInside =
        best === group.sections[0] && best?.score > group.own;
    }
    return groups.sort((one, other) => other.score - one.score);
  };
  return Object.assign(search, { quoted, unknown });
})();
