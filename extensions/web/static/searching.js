// How the search ranks. A document is a page's title, another name of it, or a
// section; a page is worth what the best of each are. Loaded with the index,
// which the build has made, once somebody wants to search.

window.siteSearch = (() => {
  const empty = new Set(searchIndex.empty);
  const stemmer = new Stemmer();
  // As the build does, in search_terms.py.
  const asTerm = (word) => {
    const lower = word.toLowerCase();
    if (lower.length < 2 || /^[\d_]+$/.test(lower) || empty.has(lower)) return null;
    // A name of code stays as it is written.
    return /[_\d]/.test(lower) ? lower : stemmer.stemWord(lower);
  };
  // "torch" and "nn" stand before any name: they count only without others.
  const before = new Set(searchIndex.before);
  const wordsOf = (text) => {
    const words = (text.match(/[\p{L}\p{N}_]+/gu) ?? []).filter(asTerm);
    const own = words.filter((word) => !before.has(word.toLowerCase()));
    return own.length ? own : words;
  };
  const asTerms = (text) => wordsOf(text).map(asTerm);

  const pages = [];
  const documents = [];
  const uses = new Map(); // how many sections have a heading
  for (const entry of searchIndex.pages) {
    const [name, address, title, chapter, sizes, others, parts] = entry;
    const names = [asTerms(title), ...others.map((other) => other.split(" "))];
    const page = pages.push({ name, address, title, chapter, names }) - 1;
    documents.push({ page, sizes });
    for (const words of names.slice(1))
      documents.push({ page, isName: true, sizes: [0, 0, 0, words.length] });
    parts.forEach(([anchor, heading, sizes], part) => {
      documents.push({ page, part, anchor, heading, sizes });
      uses.set(heading, (uses.get(heading) ?? 0) + 1);
    });
  }

  // Where a term stands, in the fields that a document can have.
  const BOOSTS = [1, 0.4, 3, 8, 4]; // prose, code, heading, other name, title
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
  const isKnown = (term) => terms[placeOf(term)] === term;
  const counted = (steps) => {
    const counts = new Map();
    let at = 0;
    for (const step of steps ? steps.split(",") : []) {
      at += parseInt(step, 36);
      counts.set(at, (counts.get(at) ?? 0) + 1);
    }
    return counts;
  };
  const fieldsOf = (term) => {
    const line = lines[placeOf(term)];
    return line.slice(line.indexOf(":") + 1).split(";").map(counted);
  };

  // The terms that a word stands for, each with its weight: itself, those that
  // it begins, and for a word that no page has, those near to it or its parts.
  const OF_START = 0.375;
  const OF_NEAR = 0.7;
  const begun = (term) => {
    const found = [];
    for (let at = placeOf(term); terms[at]?.startsWith(term); at += 1) {
      const { length } = terms[at];
      const more = length - term.length;
      const weight = more ? (OF_START * length) / (length + 0.3 * more) : 1;
      found.push([terms[at], weight]);
    }
    return found;
  };
  const american = (word) =>
    word.replace(/is(e[drs]?|ing|ations?)$/i, "iz$1").replace(/our/i, "or");
  // How many letters are wrong, left out, too many or swapped; what may be an
  // ending, behind the stem, is no fault.
  const faults = (term, word, stem) => {
    let above = [];
    let row = [...Array(word.length + 1).keys()];
    for (let i = 1; i <= term.length; i += 1) {
      const next = [i];
      for (let j = 1; j <= word.length; j += 1) {
        const isSame = term[i - 1] === word[j - 1];
        next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + !isSame);
        if (term[i - 1] === word[j - 2] && term[i - 2] === word[j - 1])
          next[j] = Math.min(next[j], above[j - 2] + 1);
      }
      [above, row] = [row, next];
    }
    return Math.min(...row.slice(Math.min(stem.length, word.length - 3)));
  };
  const near = (word, stem) => {
    if (word.length < 5) return [];
    let most = word.length < 8 ? 1 : 2;
    let best = [];
    for (let at = placeOf(word[0]); terms[at]?.startsWith(word[0]); at += 1) {
      const term = terms[at];
      if (term.length < 4 || term.length > word.length + most) continue;
      const counts = [word, stem].map((each) => faults(term, each, stem));
      const count = Math.min(...counts);
      if (count < most) [most, best] = [count, []];
      if (count === most) best.push(term);
    }
    // A longer one leaves less of the word to be an ending.
    const longest = Math.max(...best.map(({ length }) => length));
    return best
      .filter(({ length }) => length === longest)
      .map((term) => [term, OF_NEAR]);
  };
  const parts = (word) =>
    (word.match(/[A-Z]+(?![a-z])|[A-Z]?[a-z]+/g) ?? [])
      .map(asTerm)
      .filter((term) => term && isKnown(term))
      .map((term) => [term, OF_NEAR]);
  const meant = (word, isLast) => {
    const term = asTerm(word);
    if (!isLast && isKnown(term)) return { term, found: [[term, 1]] };
    const found = isLast || term.length > 3 ? begun(term) : [];
    if (found.length) return { term, found };
    const other = asTerm(american(word));
    if (isKnown(other)) return { term: other, found: [[other, 1]] };
    const nearest = near(word.toLowerCase(), term);
    return { term, lost: word, found: nearest.length ? nearest : parts(word) };
  };

  // What is asked: each word once. The last may not be typed to its end.
  const asked = (query) => {
    // A size or a time in an error text says nothing; 2d stands on a page.
    const counts = (word) => !/^\d/.test(word) || isKnown(asTerm(word));
    const words = wordsOf(query).filter(counts);
    const all = words.map((word, at) => meant(word, at === words.length - 1));
    return [...new Map(all.map((one) => [one.term, one])).values()];
  };

  const termsOf = ({ found }) => found.map(([term]) => term);

  // What a word says of a document, by BM25+ with the weights of MiniSearch:
  // more if few pages have it, if it stands there often, and among few words.
  const [K, B, D] = [1.2, 0.7, 0.5];
  const rarity = (fields) => {
    const places = fields.flatMap((counts) => [...counts.keys()]);
    const having = new Set(places.map((at) => documents[at].page)).size;
    return Math.log(1 + pages.length / (having + 0.5));
  };
  const weigh = ({ found }) => {
    const scores = new Map();
    for (const [term, weight] of found) {
      const fields = fieldsOf(term);
      const rare = rarity(fields);
      fields.forEach((counts, field) => {
        for (const [at, count] of counts) {
          const size = documents[at].sizes[field] / means[field];
          const often = (count * (K + 1)) / (count + K * (1 - B + B * size));
          const score = weight * BOOSTS[field] * rare * (D + often);
          scores.set(at, (scores.get(at) ?? 0) + score);
        }
      });
    }
    return scores;
  };

  // A page is worth what its title, its best name and its best section are,
  // and a little of the next sections: each times the root of the share of words
  // that it has, all times the share that the page has. It is worth up to thrice
  // as much, the more of the query is a name of it, or its best heading.
  const NEXT = 3;
  const OF_NEXT = 0.15;
  const NAMED = 2;
  const worth = ({ own, sections, has, names }, all) => {
    const [best = 0, ...others] = sections.map(({ score }) => score);
    const next = others.slice(0, NEXT).reduce((sum, score) => sum + score, 0);
    const terms = all.flatMap((one) => (one.lost ? termsOf(one) : one.term));
    const known = new Set(terms);
    const isAsked = (words) => words.every((word) => known.has(word));
    const heading = asTerms(sections[0]?.heading ?? "");
    const lengths = [...names, heading].filter(isAsked).map(({ length }) => length);
    const named = Math.min(1, Math.max(0, ...lengths) / all.length);
    const share = has.size / all.length;
    return (own + best + OF_NEXT * next) * share * (1 + NAMED * named);
  };
  // Who pastes an error text quotes the heading of its entry, with names, sizes
  // or devices in between. The entry says why and what to do, so it comes first.
  const QUOTED = 3;
  const BETWEEN = "(?: \\S+){0,2} ";
  const spoken = (text) =>
    text.toLowerCase().match(/(?<![\p{L}\p{N}_])[\p{L}_][\p{L}\p{N}_]*/gu) ?? [];
  const quotedBy = (query) => {
    const asked = ` ${spoken(query).join(" ")} `;
    const isQuoted = (words) =>
      words.length >= QUOTED && new RegExp(` ${words.join(BETWEEN)} `).test(asked);
    return ({ heading, sizes }) => {
      const isName = sizes[3] > 0;
      return isName && heading.split(",").map(spoken).some(isQuoted);
    };
  };

  // A section is shown if it is not far behind the best of its page, and if
  // its heading is not one that most pages have.
  const CLOSE = 0.4;
  const COMMON = 5;
  const isShown = ({ anchor, heading, score }, place, [best]) =>
    anchor && score >= CLOSE * best.score && uses.get(heading) <= COMMON;

  // The sentence of a section that has most of the words of a query, cut around
  // them, as pieces of which each has or has not one of them. Its place is
  // known before its text is loaded. If it is a claim, its anchor, its sign and
  // how far it reaches come with it.
  const LONG = 150;
  const quoted = ({ page, part }, query) => {
    const [text, claims] = window.searchTexts?.[page]?.[part] ?? [];
    if (!text) return { pieces: [] };
    const wanted = new Set(asked(query).flatMap(termsOf));
    const pieces = (line) =>
      line.split(/([\p{L}\p{N}_]+)/u).map((words) => ({
        words,
        isHit: wanted.has(asTerm(words)),
      }));
    const hits = (line) =>
      new Set(pieces(line).filter((one) => one.isHit).map((one) => asTerm(one.words))).size;
    const lines = text.split("\n");
    const counts = lines.map(hits);
    const line = counts.indexOf(Math.max(...counts));
    const best = lines[line];
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
    return {
      pieces: [
        ...(from > 0 ? [{ words: "… ", isHit: false }] : []),
        ...pieces(best.slice(from, to)),
        ...(to < best.length ? [{ words: " …", isHit: false }] : []),
      ],
      claim: claims[line],
    };
  };

  // The words of a query that stand on no page.
  const lost = (query) => asked(query).flatMap((one) => one.lost ?? []);
  // The page that says what is not on the others.
  const elsewhere = pages[searchIndex.elsewhere];

  // Return the pages of a query, the best first, each with its sections.
  const search = (query) => {
    const all = asked(query);
    const found = new Map(); // by document, by word
    all.forEach((word, place) => {
      for (const [at, score] of weigh(word)) {
        if (!found.has(at)) found.set(at, new Map());
        found.get(at).set(place, score);
      }
    });
    const groups = new Map();
    for (const [at, scores] of found) {
      const one = documents[at];
      if (!groups.has(one.page)) {
        const none = { ofTitle: 0, ofName: 0, sections: [], has: new Set() };
        groups.set(one.page, { ...pages[one.page], ...none });
      }
      const group = groups.get(one.page);
      for (const place of scores.keys()) group.has.add(place);
      const sum = [...scores.values()].reduce((sum, score) => sum + score, 0);
      const score = sum * Math.sqrt(scores.size / all.length);
      if (one.anchor !== undefined) group.sections.push({ ...one, score });
      else if (one.isName) group.ofName = Math.max(group.ofName, score);
      else group.ofTitle = score;
    }
    const isQuoted = quotedBy(query);
    for (const group of groups.values()) {
      group.sections.sort(
        (one, other) =>
          isQuoted(other) - isQuoted(one) || other.score - one.score,
      );
      group.isQuoted = group.sections.some(isQuoted);
      group.own = group.ofTitle + group.ofName;
      group.score = worth(group, all);
      group.hasAll = group.has.size === all.length;
      const best = group.sections[0];
      group.best = best;
      group.sections = group.sections.filter(isShown);
      // Words that only a section has, such as an error text, lead to it.
      group.leadsInside =
        best === group.sections[0] &&
        (group.isQuoted || best?.score > group.own);
    }
    return [...groups.values()].sort(
      (one, other) =>
        other.isQuoted - one.isQuoted || other.score - one.score,
    );
  };
  return Object.assign(search, { quoted, lost, elsewhere });
})();
