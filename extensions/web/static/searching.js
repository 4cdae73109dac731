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
  const stemOf = (lower) =>
    /[\d_]/.test(lower) ? lower : lower.replace(/(?<=...)(?:ing|ed|es|s|e)$/, "");
  const termOf = (word) => {
    if (!made.has(word)) {
      const lower = word.toLowerCase();
      const isEmpty = lower.length < 2 || /^[\d_]+$/.test(lower) || EMPTY.has(lower);
      made.set(word, isEmpty ? null : stemOf(lower));
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
  const documents = pages.flatMap(([, , title, , also, sections], page) =>
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

  // An error text is known by its words, without what differs from one program
  // to the next: the name of its type, types of tensors, paths, addresses,
  // numbers.
  const DIFFERS =
    /\b\w+(?:Error|Exception|Warning): |\btorch\.(?:cuda\.)?(?:\w*Tensor|Size|b?float\d*|u?int\d+|half|long|bool)\b|(?:\w:)?[\w.~-]*[/\\][\w./\\-]*[/\\.][\w./\\-]*|0x\w+|\d+/g;
  const spoken = (text) => {
    const said = text.replace(DIFFERS, " ").toLowerCase();
    return (said.match(/[\p{L}_][\p{L}\p{N}_]*(?:\.[\p{L}_][\p{L}\p{N}_]*)*/gu) ?? []).map(stemOf);
  };
  const isFix = (page) => pages[page][0].startsWith("fix/");
  // A heading may quote several texts, between commas: not a word or two. On
  // the pages that fix something, each heading does.
  const texts = documents.flatMap(({ id, page, part }) => {
    const [, heading, text, , , errors] = pages[page].at(-1)[part];
    const least = errors.length ? 3 : 4; // "How it works" is no error
    const quoted = heading.split(/[,;] /).filter((each) => spoken(each).length >= least);
    const isEntry = errors.length || (text && isFix(page));
    const all = isEntry ? [...quoted, ...errors] : [];
    return all.map((text) => ({ id, words: spoken(text).slice(0, 60) }));
  });
  const having = new Map(); // how many texts have a word
  for (const { words } of texts)
    for (const word of new Set(words)) having.set(word, (having.get(word) ?? 0) + 1);
  const weightOf = (word) => Math.log(1 + texts.length / (having.get(word) ?? 1));
  const weigh = (words) => words.reduce((sum, word) => sum + weightOf(word), 0);
  // What two texts have in common weighs: the words in the same order, and those
  // of them in a row.
  const inCommon = (one, other) => {
    let [above, runs, longest] = [other.map(() => 0), other.map(() => 0), 0];
    for (const word of one) {
      const row = [];
      const ends = [];
      for (const [at, its] of other.entries()) {
        const is = word === its ? weightOf(word) : 0;
        ends.push(is && is + (runs[at - 1] ?? 0));
        row.push(Math.max(is + (above[at - 1] ?? 0), above[at], row[at - 1] ?? 0));
      }
      longest = Math.max(longest, ...ends);
      [above, runs] = [row, ends];
    }
    return [above.at(-1) ?? 0, longest];
  };
  // Whoever pastes has most of a text, or one piece of it. Returns, by section,
  // how much that is; of less, it is another error.
  const ENOUGH = 4; // a rare word, or a few that others have
  const MOST = 0.75; // of the text, and of what is pasted:
  const ALL = 0.8;
  const errorsLike = (query) => {
    const typed = spoken(query.replace(LAST_ERROR, "")).slice(0, 200);
    const found = new Map();
    for (const { id, words } of texts) {
      // The order costs time: look at it only where the words are there.
      if (weigh(words.filter((word) => typed.includes(word))) < ENOUGH) continue;
      const [common, run] = inCommon(words, typed);
      if (common < ENOUGH) continue;
      const ofText = common / weigh(words);
      const ofTyped = typed.length < 3 ? 0 : run / weigh(typed);
      if (ofText < MOST && ofTyped < ALL) continue;
      found.set(id, Math.max(ofText, ofTyped, found.get(id) ?? 0));
    }
    const best = Math.max(...found.values());
    return new Map([...found].filter(([, share]) => share > 0.8 * best));
  };
  const bestFirst = (one, other) => other.isError - one.isError || other.score - one.score;

  const OF_OTHERS = 0.2; // sections count a little beside the best one
  const CLOSE = 0.4; // to the best one is a section that is shown,
  const COMMON = 5; // unless as many have its heading
  const OF_FIXES = 0.5; // which name all things, to whoever has no such error
  const rank = (groups, hits) => {
    const [name, address, title, chapter] = pages[hits[0].page];
    const own = hits.find(({ part }) => !part);
    const sections = hits.filter(({ part }) => part).sort(bestFirst);
    const [best, ...others] = sections;
    const sum = others.reduce((sum, { score }) => sum + OF_OTHERS * score, best?.score ?? 0);
    const found = new Set(hits.flatMap(({ queryTerms }) => queryTerms));
    const covered = groups.filter(({ terms }) => terms.some((each) => found.has(each))).length;
    const ownTerms = own?.queryTerms.length ?? 0;
    const weight = isFix(hits[0].page) ? OF_FIXES : 1;
    const isShown = ({ heading, score, isError }) =>
      isError || (!best.isError && score >= CLOSE * best.score && uses.get(heading) <= COMMON);
    return {
      ...{ name, address, title, chapter },
      covered,
      score: ((own?.score ?? 0) + sum) * covered * weight,
      hasAll: covered === groups.length,
      isError: best?.isError ?? 0,
      best: best ?? own,
      sections: sections.filter(isShown),
      // Words that only a section has, such as an error text, lead to it.
      leadsInside: Boolean(best && (best.isError || best.queryTerms.length > ownTerms)),
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
    const errors = errorsLike(query);
    const byPage = new Map();
    for (const { id, page, part, score, queryTerms, terms } of found) {
      const [anchor, heading, text, , claims, printed] = pages[page].at(-1)[part];
      const section = { page, part, anchor, heading, text, claims, printed };
      const hit = { ...section, isError: errors.get(id) ?? 0, score, queryTerms, terms };
      byPage.set(page, [...(byPage.get(page) ?? []), hit]);
    }
    return [...byPage.values()]
      .map((hits) => rank(groups, hits))
      .filter(({ isError, covered }) => isError || covered >= groups.length / 2)
      .sort(bestFirst);
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

  // Why an error comes, and what to do: what its entry says below the texts.
  const told = ({ text, printed }) => {
    const shown = new Set(printed.flatMap((each) => each.split("\n")));
    return text.split("\n").filter((line) => line.trim() && !shown.has(line));
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
  return Object.assign(search, { quoted, told, lost, elsewhere, ready });
})();
