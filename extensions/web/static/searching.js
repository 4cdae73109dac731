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
  const wordsOf = (text) => text.match(/[\p{L}\p{N}_]+/gu) ?? [];
  // Names of code are found by their parts as well: CrossEntropyLoss, grad_fn.
  const partsOf = (word) => {
    const parts = word.match(/[A-Z]+(?![a-z])|[A-Z]?[a-z]+/g) ?? [];
    return parts.length > 1 ? [word, ...parts] : [word];
  };
  // A size or a time says nothing; endings neither, but for names of code. The
  // same words come again and again.
  const made = new Map();
  const termOf = (word) => {
    if (!made.has(word)) {
      const lower = word.toLowerCase();
      const isEmpty = lower.length < 2 || /^[\d_]+$/.test(lower) || EMPTY.has(lower);
      const stem = /[\d_]/.test(lower) ? lower : lower.replace(/(?<=...)(?:ing|ed|es|s|e)$/, "");
      made.set(word, isEmpty ? null : stem);
    }
    return made.get(word);
  };

  const known = new Set(); // the terms that stand anywhere
  const index = new MiniSearch({
    fields: ["title", "heading", "names", "text", "code"],
    storeFields: ["page", "part"],
    tokenize: (text) => wordsOf(text).flatMap(partsOf),
    processTerm: (word) => {
      const term = termOf(word);
      if (term) known.add(term);
      return term;
    },
  });
  const uses = new Map(); // how many sections have a heading
  const documents = pages.flatMap(([, , title, , also, , sections], page) =>
    sections.map(([, heading, text, code], part) => {
      uses.set(heading, (uses.get(heading) ?? 0) + 1);
      const said = { id: `${page}-${part}`, page, part, text, code };
      return part ? { ...said, heading } : { ...said, title, names: also };
    }),
  );
  const ready = index.addAllAsync(documents, { chunkSize: 100 });

  // What is asked: each word once, and what else it may be called. Of a
  // traceback, its last error counts.
  const LAST_ERROR = /^.*\b(?=\w+(?:Error|Warning|Exception): )/s;
  const also = synonyms.map(([key, value]) => [
    ` ${wordsOf(key.toLowerCase()).join(" ")} `,
    wordsOf(value).map(termOf).filter(Boolean),
  ]);
  const asked = (query) => {
    const typed = wordsOf(query.replace(LAST_ERROR, ""));
    const text = ` ${typed.join(" ").toLowerCase()} `;
    const meant = also.filter(([key]) => text.includes(key));
    return [...new Map(typed.map((word) => [word.toLowerCase(), word]))]
      .map(([lower, word]) => {
        const others = meant.filter(([key]) => key.includes(` ${lower} `));
        return { word, terms: [termOf(word), ...others.flatMap(([, terms]) => terms)] };
      })
      .filter(({ terms }) => terms[0]);
  };

  // Who pastes an error text quotes the heading of its entry. The entry says
  // why and what to do, so it comes first.
  const QUOTED = 3;
  const spoken = (text) => text.toLowerCase().match(/[\p{L}_][\p{L}\p{N}_]*/gu) ?? [];
  const quotes = (query, heading) => {
    const typed = new Set(spoken(query));
    const isQuoted = (words) => words.length >= QUOTED && words.every((word) => typed.has(word));
    return heading.split(",").map(spoken).some(isQuoted);
  };
  const bestFirst = (one, other) => other.isQuoted - one.isQuoted || other.score - one.score;

  const OF_OTHERS = 0.2; // sections count a little beside the best one
  const CLOSE = 0.4; // to the best one is a section that is shown,
  const COMMON = 5; // unless as many have its heading
  const rank = (query, groups, hits) => {
    const [name, address, title, chapter, , hasEntries] = pages[hits[0].page];
    for (const hit of hits) hit.isQuoted = hasEntries && hit.part > 0 && quotes(query, hit.heading);
    const own = hits.find(({ part }) => !part);
    const sections = hits.filter(({ part }) => part).sort(bestFirst);
    const [best, ...others] = sections;
    const sum = others.reduce((sum, { score }) => sum + OF_OTHERS * score, best?.score ?? 0);
    const found = new Set(hits.flatMap(({ queryTerms }) => queryTerms));
    const covered = groups.filter(({ terms }) => terms.some((each) => found.has(each))).length;
    const ownTerms = own?.queryTerms.length ?? 0;
    const isShown = ({ heading, score }) =>
      score >= CLOSE * best.score && uses.get(heading) <= COMMON;
    return {
      ...{ name, address, title, chapter },
      score: ((own?.score ?? 0) + sum) * covered,
      hasAll: covered === groups.length,
      isQuoted: Boolean(best?.isQuoted),
      best: best ?? own,
      sections: sections.filter(isShown),
      // Words that only a section has, such as an error text, lead to it.
      leadsInside: Boolean(best && (best.isQuoted || best.queryTerms.length > ownTerms)),
    };
  };

  // Return the pages of a query, the best first, each with its sections.
  const search = (query) => {
    const groups = asked(query);
    const found = index.search([...new Set(groups.flatMap(({ terms }) => terms))].join(" "), {
      tokenize: (text) => text.split(" "),
      processTerm: (term) => term,
      boost: { title: 6, heading: 3, names: 4 },
      prefix: true,
      fuzzy: (term) => !known.has(term) && 0.2,
    });
    const byPage = new Map();
    for (const { page, part, score, queryTerms, terms } of found) {
      const [anchor, heading, text, , claims] = pages[page][6][part];
      const hit = { page, part, anchor, heading, text, claims, score, queryTerms, terms };
      byPage.set(page, [...(byPage.get(page) ?? []), hit]);
    }
    return [...byPage.values()].map((hits) => rank(query, groups, hits)).sort(bestFirst);
  };

  // The sentence of a section that has most of the words that were found, cut
  // around the first of them, as pieces that are or are not such a word. If it
  // is a claim, its anchor and its sign come with it.
  const LONG = 150;
  const quoted = ({ text, claims, terms }) => {
    const isHit = (word) => partsOf(word).some((part) => terms.includes(termOf(part)));
    const lines = text.split("\n");
    const counts = lines.map((line) => new Set(wordsOf(line).filter(isHit).map(termOf)).size);
    const line = counts.indexOf(Math.max(...counts));
    const best = lines[line];
    const first = best.indexOf(wordsOf(best).find(isHit) ?? "");
    const from = first > LONG / 2 ? best.lastIndexOf(" ", first - LONG / 3) + 1 : 0;
    const end = best.length > from + LONG ? best.lastIndexOf(" ", from + LONG) : best.length;
    const cut = `${from ? "… " : ""}${best.slice(from, end)}${end < best.length ? " …" : ""}`;
    const pieces = cut.split(/([\p{L}\p{N}_]+)/u).map((words) => ({ words, isHit: isHit(words) }));
    return { pieces, claim: claims[line] };
  };

  // The words of a query that stand on no page, nor any like them.
  const lost = (query) =>
    asked(query)
      .filter(({ terms }) => !terms.some((each) => known.has(each)))
      .map(({ word }) => word);
  // The page that says what is not on the others.
  const elsewhere = pages
    .filter(([name]) => name === "not_covered")
    .map(([name, address, title, chapter]) => ({ name, address, title, chapter }))[0];
  return Object.assign(search, { quoted, lost, elsewhere, ready });
})();
