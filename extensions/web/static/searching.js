// Finds and ranks: MiniSearch looks into the texts of all sections, and a page
// is worth what its best sections are. Loaded with both once somebody searches.

window.siteSearch = (() => {
  const [pages, synonyms] = window.searchedTexts;
  const EMPTY = new Set(
    `a about after all am an and any are as at be been before between but by can
    could did do does doesn don during each for from get gets had has have how i
    if in into is isn it its just like make me my need no of on one only or our
    please should so some than that the their them then there these they this to
    too up use used using vs want was we were what when where which while why
    will with would you your`.split(/\s+/),
  );
  // What is made of a word, which comes again and again.
  const kept = (make) => {
    const made = new Map();
    return (word) => {
      if (!made.has(word)) made.set(word, make(word));
      return made.get(word);
    };
  };
  // Names of code are found by their parts as well: CrossEntropyLoss, grad_fn.
  const PART = /[A-Z]+(?![a-z])|[A-Z]?[a-z]+/g;
  const words = (text) => text.match(/[\p{L}\p{N}_]+/gu) ?? [];
  const partsOf = kept((word) => {
    const parts = word.match(PART) ?? [];
    return parts.length > 1 ? [word, ...parts] : [word];
  });
  const wordsAndParts = (text) => words(text).flatMap(partsOf);
  // A size or a time says nothing; endings neither, but for names of code.
  const asTerm = kept((word) => {
    const lower = word.toLowerCase();
    if (lower.length < 2 || /^[\d_]+$/.test(lower) || EMPTY.has(lower)) return null;
    return /[\d_]/.test(lower) ? lower : lower.replace(/(?<=...)(?:ing|ed|es|s|e)$/, "");
  });
  const asTerms = (text) => words(text).map(asTerm).filter(Boolean);

  const known = new Map(); // how often a term stands anywhere
  const index = new MiniSearch({
    fields: ["title", "heading", "names", "text", "code"],
    storeFields: ["page", "part"],
    tokenize: wordsAndParts,
    processTerm: (word) => {
      const term = asTerm(word);
      if (term) known.set(term, (known.get(term) ?? 0) + 1);
      return term;
    },
  });
  const uses = new Map(); // how many sections have a heading
  const documents = pages.flatMap(([, , title, , also, isNamed, sections], page) =>
    sections.map(([, heading, text, code], part) => {
      uses.set(heading, (uses.get(heading) ?? 0) + 1);
      const id = `${page}-${part}`;
      if (!part) return { id, page, part, title, names: also, text, code };
      const names = isNamed ? heading : "";
      return { id, page, part, heading, names, text, code };
    }),
  );
  const names = pages.map(([, , title, , also]) => [title, ...also.split(", ")].map(asTerms));
  const ready = index.addAllAsync(documents, { chunkSize: 100 });

  // Of a traceback, its last error counts; paths of files do not.
  const LAST_ERROR = /^.*\b(?=\w+(?:Error|Warning|Exception): )/s;
  const PATH = /(?:[A-Za-z]:)?(?:[\\/][\w.-]+){2,}/g;
  // What is asked: each word once, and what else it may be called. "torch" and
  // "nn" stand before any name: they count only without others.
  const BEFORE = new Set(["nn", "pytorch", "torch"]);
  const also = synonyms.map(([key, value]) => [
    ` ${words(key.toLowerCase()).join(" ")} `,
    asTerms(value),
  ]);
  const asked = (query) => {
    const typed = words(query.replace(LAST_ERROR, "").replace(PATH, " "));
    const lower = typed.map((word) => word.toLowerCase());
    const text = ` ${lower.join(" ")} `;
    const meant = also.filter(([key]) => text.includes(key));
    const of = (word) => meant.flatMap(([key, terms]) => (key.includes(` ${word} `) ? terms : []));
    const all = [...new Set(lower)]
      .map((word, at) => ({ word: typed[lower.indexOf(word)], term: asTerm(word), also: of(word) }))
      .filter(({ term }) => term);
    const own = all.filter(({ word }) => !BEFORE.has(word.toLowerCase()));
    return own.length ? own : all;
  };
  // How much of a query some terms are: a rare word is more of it.
  const rarity = ({ term }) => Math.log(1 + documents.length / (known.get(term) ?? 1));
  const share = (groups, terms) => {
    const isThere = ({ term, also }) => [term, ...also].some((each) => terms.has(each));
    const sum = (those) => those.reduce((sum, each) => sum + rarity(each), 0);
    return sum(groups.filter(isThere)) / sum(groups);
  };

  // Who pastes an error text quotes the heading of its entry. The entry says
  // why and what to do, so it comes first.
  const QUOTED = 3;
  const spoken = (text) => text.toLowerCase().match(/[\p{L}_][\p{L}\p{N}_]*/gu) ?? [];
  const quotes = (query, heading) => {
    const typed = new Set(spoken(query));
    return heading
      .split(",")
      .map(spoken)
      .some((each) => each.length >= QUOTED && each.every((word) => typed.has(word)));
  };

  const NEXT = 5; // sections count a little beside the best one
  const OF_NEXT = 0.3;
  const CLOSE = 0.4; // to the best one is a section that is shown,
  const COMMON = 5; // unless as many have its heading
  const worth = (page, query, groups) => {
    const { hits, terms, names } = page;
    const [own, sections] = [hits.find(({ part }) => !part), hits.filter(({ part }) => part)];
    for (const hit of sections) hit.isQuoted = page.isNamed && quotes(query, hit.heading);
    sections.sort((one, other) => other.isQuoted - one.isQuoted || other.score - one.score);
    const [best, ...others] = sections;
    const next = others.slice(0, NEXT).reduce((sum, { score }) => sum + score, 0);
    const given = new Set(groups.flatMap(({ term, also }) => [term, ...also]));
    const whole = names.filter((name) => name.every((term) => given.has(term)));
    const named = Math.max(0, ...whole.map(({ length }) => length)) / groups.length;
    const isShown = ({ heading, score }) =>
      score >= CLOSE * best.score && uses.get(heading) <= COMMON;
    const covered = share(groups, terms);
    const sum = (own?.score ?? 0) + (best?.score ?? 0) + OF_NEXT * next;
    return {
      ...page,
      score: sum * covered ** 2 * (1 + Math.min(1, named) / 2),
      hasAll: covered === 1,
      isQuoted: Boolean(best?.isQuoted),
      best: best ?? own,
      sections: sections.filter(isShown),
      // Words that only a section has, such as an error text, lead to it.
      leadsInside: Boolean(best && (best.isQuoted || best.share > (own?.share ?? 0))),
    };
  };

  // Return the pages of a query, the best first, each with its sections.
  const search = (query) => {
    const groups = asked(query);
    const own = new Set(groups.map(({ term }) => term));
    const terms = [...new Set(groups.flatMap(({ term, also }) => [term, ...also]))];
    const last = groups.at(-1)?.term; // may not be typed to its end
    const found = index.search(terms.join(" "), {
      tokenize: (text) => text.split(" "),
      processTerm: (term) => term,
      boost: { title: 6, heading: 3, names: 4, code: 0.8 },
      boostTerm: (term) => (own.has(term) ? 1 : 0.4),
      prefix: (term) => term === last || (own.has(term) && term.length > 3),
      fuzzy: (term) => own.has(term) && !known.has(term) && term.length > 4 && 0.2,
      weights: { prefix: 0.5, fuzzy: 0.9 },
    });
    const byPage = new Map();
    for (const { page, part, score, queryTerms, terms } of found) {
      if (!byPage.has(page)) {
        const [name, address, title, chapter, , isNamed] = pages[page];
        const none = { hits: [], terms: new Set() };
        byPage.set(page, { name, address, title, chapter, isNamed, names: names[page], ...none });
      }
      const group = byPage.get(page);
      const [anchor, heading, text, , claims] = pages[page][6][part];
      const has = share(groups, new Set(queryTerms));
      for (const term of queryTerms) group.terms.add(term);
      const hit = { part, anchor, heading, text, claims, terms, share: has };
      group.hits.push({ ...hit, score: score * has ** 0.5 });
    }
    return [...byPage.values()]
      .map((page) => worth(page, query, groups))
      .sort((one, other) => other.isQuoted - one.isQuoted || other.score - one.score);
  };

  // The sentence of a section that has most of the words that were found, cut
  // around the first of them, as pieces that are or are not such a word. If it
  // is a claim, its anchor and its sign come with it.
  const LONG = 150;
  const quoted = ({ text, claims, terms }) => {
    const isHit = (word) => terms.some((term) => wordsAndParts(word).map(asTerm).includes(term));
    const pieces = (line) => line.split(/([\p{L}\p{N}_]+)/u);
    const lines = text.split("\n");
    const counts = lines.map((line) => new Set(words(line).filter(isHit).map(asTerm)).size);
    const line = counts.indexOf(Math.max(...counts));
    const best = lines[line];
    const first = best.indexOf(words(best).find(isHit) ?? "");
    const from = first > LONG / 2 ? best.lastIndexOf(" ", first - LONG / 3) + 1 : 0;
    const end = best.length > from + LONG ? best.lastIndexOf(" ", from + LONG) : best.length;
    const shown = pieces(best.slice(from, end)).map((words) => ({ words, isHit: isHit(words) }));
    const cut = [{ words: "… " }, ...shown, { words: " …" }];
    return {
      pieces: cut.slice(from ? 0 : 1, end < best.length ? undefined : -1),
      claim: claims[line],
    };
  };

  // The words of a query that stand on no page, nor any like them.
  const lost = (query) =>
    asked(query)
      .filter(({ term, also }) => ![term, ...also].some((each) => known.has(each)))
      .map(({ word }) => word);
  // The page that says what is not on the others.
  const elsewhere = pages
    .filter(([name]) => name === "not_covered")
    .map(([name, address, title, chapter]) => ({ name, address, title, chapter }))[0];
  return Object.assign(search, { quoted, lost, elsewhere, ready });
})();
